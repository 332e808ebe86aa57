// Tracks which hosts' spools may still hold events of an erased reader. A "host" is a spool folder
// of a machine. After each erasure every host reports once its folder is empty; an unreachable host
// does not. Keys::spools_empty_at() maps each host to the unix time in ms at which it last reported
// an empty folder, and kErasureMember to the time of the last erasure request. A host that has not
// reported an erasure for spool.max_age is considered gone and is removed at the next erasure
// request (PersonalData).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config/settings.h"
#include "core/redis/command.h"
#include "core/redis/keys.h"
#include "core/redis/reply.h"

namespace freshet::readers {

inline constexpr std::string_view kErasureMember = ":erasure";  // host names do not start with a colon

// The view of one host.
class SpoolRegistry {
 public:
  SpoolRegistry(const SpoolSettings& settings, const redis::Keys& keys);
  // Appends the read whose reply build_report() needs.
  void append_read(redis::Pipeline& out) const;
  // The commands with this host's report, if one is due: its registration, or that its folder is
  // empty. Scans the folder once.
  redis::Pipeline build_report(const redis::Reply& read) const;
  const std::string& name() const { return name_; }

 private:
  const std::string folder_, key_, name_;
  const milliseconds max_age_;
};

// Hosts in the reply of append_read() that have not reported since then.
std::vector<std::string> unreported_hosts(const redis::Reply& read, milliseconds since);
// When the last erasure was requested; nullopt: never.
std::optional<milliseconds> last_erasure(const redis::Reply& read);

}  // namespace freshet::readers

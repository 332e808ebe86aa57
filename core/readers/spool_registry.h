// Which hosts' spools may still hold what a reader did before they were erased. A host is a spool
// folder of a machine. It answers each erasure when nothing waits in its folder; who is cut off
// does not. Keys::spools() has host → unix ms at which nothing waited there, as it said last, and
// kErasure → when the last erasure was asked for. Who has not answered one for spool.max_age when
// another is asked for is gone, and leaves the key (user_erase.lua).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/config/settings.h"
#include "core/redis/command.h"
#include "core/redis/keys.h"
#include "core/redis/reply.h"

namespace freshet::readers {

inline constexpr std::string_view kErasureMember = ":erasure";  // no host's name begins with a colon

// For one host.
class SpoolRegistry {
 public:
  SpoolRegistry(const SpoolSettings& settings, const redis::Keys& keys);
  // Reads what answer() wants.
  void append_read(redis::Pipeline& out) const;
  // What the host has to say, if anything: that it is there, or that nothing waits any more. One
  // look into the folder.
  redis::Pipeline build_report(const redis::Reply& read) const;
  const std::string& name() const { return name_; }  // "HOST:/var/lib/freshet/spool"

 private:
  const std::string folder_, key_, name_;
  const milliseconds max_age_;
};

// Of what append_read() read: those who have not answered since.
std::vector<std::string> unreported_hosts(const redis::Reply& read, milliseconds since);
// When the last erasure was asked for; nullopt: never.
std::optional<milliseconds> last_erasure(const redis::Reply& read);

}  // namespace freshet::readers

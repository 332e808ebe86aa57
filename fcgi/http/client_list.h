// Which clients are meant: addresses, networks and agents, as clients.deny_file and
// clients.allow_file list them.
//
//   # Whole lines, or what follows an address.
//   192.0.2.7
//   198.51.100.0/24        # of IPv4, v4-mapped addresses among them
//   2001:db8::/32
//   agent:^BadBot/         an RE2 pattern, found anywhere in the User-Agent; to the end of the line
//
// Networks are kept as sorted ranges, so a look-up is one binary search whatever their number:
// under a microsecond among 100,000 (test_http "[.bench]"), 8 bytes each for IPv4 and 48 for IPv6.
// Made in the master before the fork and shared by all workers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace re2 {
class RE2;
}

namespace freshet::http {

class ClientList {
 public:
  ClientList();  // nobody
  // The list in `text`; `name` is what errors call it. Error: kInvalid, "bad_clients", detail
  // "name:line: what is wrong". A network with bits beyond its prefix is wrong: 10.1.0.0/8 is
  // probably not what was meant.
  static Result<ClientList> parse(std::string_view text, std::string_view name);
  // The list in the file at `path`; of an empty path nobody. Errors: as parse(), and when it cannot
  // be read.
  static Result<ClientList> read(const std::string& path);

  ClientList(ClientList&&) noexcept;
  ClientList& operator=(ClientList&&) noexcept;
  ~ClientList();

  // True iff `address` is listed or lies in a listed network, or a listed pattern is found in
  // `agent` (its first kMaxAgentBytes). What is no address ("unix:") lies in no network. O(log
  // networks); with patterns about 1 µs more.
  bool matches(std::string_view address, std::string_view agent) const;

  static constexpr std::size_t kMaxAgentBytes = 1024;

 private:
  struct Networks;
  std::unique_ptr<Networks> networks_;  // null: none
  std::unique_ptr<re2::RE2> agent_patterns_;    // all patterns as alternatives; null: none
};

// Both lists of the configuration.
struct ClientLists {
  ClientList denied, allowed;
};
enum class AccessDecision : std::uint8_t { kUnlisted, kDenied, kAllowed };
// Who is on both lists is allowed.
AccessDecision decide_access(const ClientLists& lists, std::string_view address, std::string_view agent);

}  // namespace freshet::http

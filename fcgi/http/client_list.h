// Lists of clients by address, network or User-Agent: clients.deny_file and clients.allow_file.
//
//   # A comment: a whole line, or after an address.
//   192.0.2.7
//   198.51.100.0/24        # also matches v4-mapped IPv6 addresses
//   2001:db8::/32
//   agent:^BadBot/         RE2 pattern, matched anywhere in the User-Agent; ends with the line
//
// A lookup takes under 1 µs among 100,000 networks (test_http "[.bench]"). Built in the master
// before the fork and shared by all workers.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/network_set.h"
#include "core/base/result.h"

namespace re2 {
class RE2;
}

namespace freshet::http {

class ClientList {
 public:
  ClientList();  // matches no client
  // Parses the list in `text`; errors call it `name`. Error: kInvalid, "bad_clients", detail
  // "name:line: what is wrong". A network with host bits set, such as 10.1.0.0/8, is an error
  // because it is probably a typo.
  static Result<ClientList> parse(std::string_view text, std::string_view name);
  // Parses the file at `path`; an empty path gives an empty list. Errors: as parse(), and
  // those of read_whole_file() with the reason "bad_clients".
  static Result<ClientList> read(const std::string& path);

  ClientList(ClientList&&) noexcept;
  ClientList& operator=(ClientList&&) noexcept;
  ~ClientList();

  // True if `address` is listed or in a listed network, or if a listed pattern matches `agent` (its
  // first kMaxAgentBytes). An `address` that is not an IP address ("unix:") is in no network. O(log
  // networks); patterns add about 1 µs.
  bool matches(std::string_view address, std::string_view agent) const;

  static constexpr std::size_t kMaxAgentBytes = 1024;

 private:
  NetworkSet networks_;
  std::unique_ptr<re2::RE2> agent_patterns_;  // all patterns as one alternation; null: none
};

// The two lists of the configuration.
struct ClientLists {
  ClientList denied, allowed;
};
enum class AccessDecision : std::uint8_t { kUnlisted, kDenied, kAllowed };
// The allow list takes precedence.
AccessDecision decide_access(const ClientLists& lists, std::string_view address, std::string_view agent);

}  // namespace freshet::http

// A set of IP addresses and networks: sorted ranges, so a lookup is one binary search. 8 bytes per
// IPv4 network, 48 per IPv6 network.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"

namespace freshet {

class NetworkSet {
 public:
  NetworkSet();  // empty
  NetworkSet(NetworkSet&&) noexcept;
  NetworkSet& operator=(NetworkSet&&) noexcept;
  ~NetworkSet();

  // The set of `networks`, each as for add(). Errors: as add().
  static Result<NetworkSet> parse(const std::vector<std::string>& networks);

  // Adds "192.0.2.7", "198.51.100.0/24", "2001:db8::/32" or a v4-mapped IPv6 network, which stands
  // for the IPv4 network. Error: kInvalid "bad_network". A network with host bits set, such as
  // 10.1.0.0/8, is an error because it is probably a typo.
  Result<void> add(std::string_view network);
  // Call after the last add() and before contains().
  void sort_and_merge();

  bool empty() const;
  // Also accepts v4-mapped IPv6 addresses. A text that is not an IP address ("unix:") is in no
  // network. O(log networks).
  bool contains(std::string_view address) const;

 private:
  struct Networks;
  std::unique_ptr<Networks> networks_;
};

}  // namespace freshet

#include "core/base/network_set.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <iterator>
#include <vector>

namespace freshet {
namespace {

namespace ip = boost::asio::ip;

tl::unexpected<Error> invalid(const char* reason, std::string_view text) {
  return fail(ErrorCode::kInvalid, "bad_network", {}, reason + std::string(text));
}

template <class Address>
struct Range {
  Address first, last;  // inclusive
};

template <class Address>
class Ranges {
 public:
  void add(Address first, Address last) { ranges_.push_back({first, last}); }
  bool empty() const { return ranges_.empty(); }

  // Must be called before contains(): sorts the ranges and merges those that overlap.
  void sort_and_merge() {
    std::ranges::sort(ranges_, std::less<>(), &Range<Address>::first);
    std::vector<Range<Address>> merged;
    for (const auto& each : ranges_) {
      if (merged.empty() || merged.back().last < each.first) {
        merged.push_back(each);
      } else {
        merged.back().last = std::max(merged.back().last, each.last);
      }
    }
    merged.shrink_to_fit();
    ranges_ = std::move(merged);
  }

  bool contains(const Address& address) const {
    const auto after = std::ranges::upper_bound(ranges_, address, std::less<>(), &Range<Address>::first);
    return after != ranges_.begin() && std::prev(after)->last >= address;
  }

 private:
  std::vector<Range<Address>> ranges_;
};

// Parses the network in `text`. Appends `default_prefix`, such as "/32", if `text` has no prefix
// length.
template <class Make>
auto make_network(Make make, std::string_view text, const char* default_prefix)
    -> Result<decltype(make(std::string(), std::declval<boost::system::error_code&>()))> {
  constexpr std::size_t kMaxPrefixDigits = 3;  // Asio's parser overflows on longer numbers
  const std::size_t slash = text.find('/');
  std::string cidr(text);
  if (slash == text.npos) cidr += default_prefix;
  boost::system::error_code error;
  const auto network = make(cidr, error);
  if (error || text.find('%') != text.npos ||
      (slash != text.npos && text.size() - slash > kMaxPrefixDigits + 1))
    return invalid("neither an address nor ADDRESS/BITS: ", text);
  if (network != network.canonical()) return invalid("the address has host bits set: ", text);
  return network;
}

}  // namespace

struct NetworkSet::Networks {
  Ranges<ip::address_v4> v4;
  Ranges<ip::address_v6> v6;

  Result<void> add(std::string_view text) {
    constexpr unsigned short kMappedBits = 96;  // the prefix ::ffff:0:0/96
    if (text.find(':') == text.npos) {
      const auto make = [](const std::string& cidr, boost::system::error_code& error) {
        return ip::make_network_v4(cidr, error);
      };
      FRESHET_TRY(network, make_network(make, text, "/32"));
      v4.add(network->network(), network->broadcast());
      return {};
    }
    const auto make = [](const std::string& cidr, boost::system::error_code& error) {
      return ip::make_network_v6(cidr, error);
    };
    FRESHET_TRY(network, make_network(make, text, "/128"));
    const ip::address_v6 first = network->network();
    const ip::address_v6 last = *--network->hosts().end();
    if (first.is_v4_mapped() && network->prefix_length() >= kMappedBits) {
      v4.add(make_address_v4(ip::v4_mapped, first), make_address_v4(ip::v4_mapped, last));
    } else {
      v6.add(first, last);
    }
    return {};
  }

  bool contains(std::string_view text) const {
    boost::system::error_code error;
    const ip::address address = ip::make_address(text, error);
    if (error) return false;
    if (address.is_v4()) return v4.contains(address.to_v4());
    const ip::address_v6 v6_address = address.to_v6();
    return v6_address.is_v4_mapped() ? v4.contains(make_address_v4(ip::v4_mapped, v6_address))
                                     : v6.contains(v6_address);
  }
};

NetworkSet::NetworkSet() : networks_(std::make_unique<Networks>()) {}
NetworkSet::NetworkSet(NetworkSet&&) noexcept = default;
NetworkSet& NetworkSet::operator=(NetworkSet&&) noexcept = default;
NetworkSet::~NetworkSet() = default;

Result<void> NetworkSet::add(std::string_view network) { return networks_->add(network); }

void NetworkSet::sort_and_merge() {
  networks_->v4.sort_and_merge();
  networks_->v6.sort_and_merge();
}

bool NetworkSet::empty() const { return networks_->v4.empty() && networks_->v6.empty(); }

bool NetworkSet::contains(std::string_view address) const { return !empty() && networks_->contains(address); }

Result<NetworkSet> NetworkSet::parse(const std::vector<std::string>& networks) {
  NetworkSet out;
  for (const std::string& each : networks)
    if (auto added = out.add(each); !added) return tl::unexpected(added.error());
  out.sort_and_merge();
  return out;
}

}  // namespace freshet

#include "fcgi/http/client_list.h"

#include <re2/re2.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v4.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <fstream>
#include <iterator>
#include <vector>

namespace freshet::http {
namespace {

constexpr std::string_view kAgent = "agent:";
constexpr std::int64_t kMaxMemory = 4 << 20;  // budget of the compiled patterns

namespace ip = boost::asio::ip;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t from = text.find_first_not_of(kBlanks);
  return from == text.npos ? std::string_view()
                           : text.substr(from, text.find_last_not_of(kBlanks) + 1 - from);
}

tl::unexpected<Error> invalid_list(std::string detail) {
  return fail(ErrorCode::kInvalid, "bad_clients", {}, std::move(detail));
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
    return invalid_list("neither an address, nor ADDRESS/BITS, nor agent:REGEX: " + std::string(text));
  if (network != network.canonical())
    return invalid_list("the address has host bits set: " + std::string(text));
  return network;
}

RE2::Options agent_options() {
  RE2::Options agent_options;
  agent_options.set_encoding(RE2::Options::EncodingLatin1);  // User-Agents may contain any bytes
  agent_options.set_log_errors(false);
  agent_options.set_never_capture(true);
  agent_options.set_max_mem(kMaxMemory);
  return agent_options;
}

}  // namespace

struct ClientList::Networks {
  Ranges<ip::address_v4> v4;
  Ranges<ip::address_v6> v6;

  Result<void> add(std::string_view text) {
    constexpr unsigned short kMappedBits = 96;  // the prefix ::ffff:0:0/96
    using Error = boost::system::error_code;
    if (text.find(':') == text.npos) {
      const auto make = [](const std::string& cidr, Error& error) {
        return ip::make_network_v4(cidr, error);
      };
      FRESHET_TRY(network, make_network(make, text, "/32"));
      v4.add(network->network(), network->broadcast());
      return {};
    }
    const auto make = [](const std::string& cidr, Error& error) { return ip::make_network_v6(cidr, error); };
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

ClientList::ClientList() = default;
ClientList::ClientList(ClientList&&) noexcept = default;
ClientList& ClientList::operator=(ClientList&&) noexcept = default;
ClientList::~ClientList() = default;

Result<ClientList> ClientList::parse(std::string_view text, std::string_view name) {
  Networks networks;
  std::string agents;
  for (std::size_t line_number = 1; !text.empty(); ++line_number) {
    const std::size_t end = text.find('\n');
    std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    Result<void> read;
    if (line.starts_with(kAgent)) {
      const std::string pattern(trimmed(line.substr(kAgent.size())));
      const RE2 compiled(pattern, agent_options());
      if (pattern.empty() || !compiled.ok())
        read = invalid_list("not a valid RE2 pattern: " + pattern + " " + compiled.error());
      agents.append(agents.empty() ? "(?:" : "|(?:").append(pattern).append(")");
    } else if (line = trimmed(line.substr(0, line.find('#'))); !line.empty()) {
      read = networks.add(line);
    }
    if (!read)
      return invalid_list(std::string(name) + ":" + std::to_string(line_number) + ": " + read.error().detail);
  }
  networks.v4.sort_and_merge();
  networks.v6.sort_and_merge();
  ClientList list;
  if (!networks.v4.empty() || !networks.v6.empty())
    list.networks_ = std::make_unique<Networks>(std::move(networks));
  if (agents.empty()) return list;
  list.agent_patterns_ = std::make_unique<RE2>(agents, agent_options());
  if (!list.agent_patterns_->ok())
    return invalid_list(std::string(name) + ": " + list.agent_patterns_->error());
  return list;
}

Result<ClientList> ClientList::read(const std::string& path) {
  if (path.empty()) return ClientList();
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file || file.bad()) return invalid_list(path + ": the file cannot be read");
  return parse(text, path);
}

bool ClientList::matches(std::string_view address, std::string_view agent) const {
  if (networks_ && networks_->contains(address)) return true;
  const std::string_view head = agent.substr(0, kMaxAgentBytes);
  return agent_patterns_ && RE2::PartialMatch(re2::StringPiece(head.data(), head.size()), *agent_patterns_);
}

AccessDecision decide_access(const ClientLists& lists, std::string_view address, std::string_view agent) {
  if (lists.allowed.matches(address, agent)) return AccessDecision::kAllowed;
  return lists.denied.matches(address, agent) ? AccessDecision::kDenied : AccessDecision::kUnlisted;
}

}  // namespace freshet::http

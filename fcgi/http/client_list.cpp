#include "fcgi/http/client_list.h"

#include <arpa/inet.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>

namespace freshet::http {
namespace {

constexpr std::string_view kAgent = "agent:";
constexpr std::int64_t kMaxMemory = 4 << 20;  // of the patterns' program and states
constexpr std::size_t kMappedBytes = 12;      // ::ffff: before an IPv4 address

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t from = text.find_first_not_of(kBlanks);
  return from == text.npos ? std::string_view()
                           : text.substr(from, text.find_last_not_of(kBlanks) + 1 - from);
}

tl::unexpected<Error> wrong(std::string what) {
  return fail(ErrorCode::kInvalid, "bad_clients", {}, std::move(what));
}

// An address as its 4 or 16 bytes; one of IPv4 in IPv6 clothes stays 16.
std::optional<std::string> bytes_of(std::string_view address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.size() >= text.size()) return std::nullopt;
  std::ranges::copy(address, text.begin());
  std::array<char, sizeof(in6_addr)> bytes{};
  if (inet_pton(AF_INET, text.data(), bytes.data()) == 1) return std::string(bytes.data(), 4);
  if (inet_pton(AF_INET6, text.data(), bytes.data()) == 1) return std::string(bytes.data(), bytes.size());
  return std::nullopt;
}

bool is_mapped(const std::string& bytes) {
  in6_addr address{};
  if (bytes.size() != sizeof address) return false;
  std::memcpy(&address, bytes.data(), sizeof address);
  return IN6_IS_ADDR_V4MAPPED(&address);
}

struct Network {
  std::string bytes;  // 4 or 16
  std::size_t prefix = 0;
};

// The last address of a network, every bit beyond its prefix set.
std::string last_of(const Network& network) {
  std::string last = network.bytes;
  for (std::size_t bit = network.prefix; bit < last.size() * 8; ++bit)
    last[bit / 8] = static_cast<char>(static_cast<unsigned char>(last[bit / 8]) | (0x80U >> (bit % 8)));
  return last;
}

bool has_bits_beyond(const Network& network) {
  for (std::size_t bit = network.prefix; bit < network.bytes.size() * 8; ++bit) {
    if ((static_cast<unsigned char>(network.bytes[bit / 8]) & (0x80U >> (bit % 8))) != 0) return true;
  }
  return false;
}

Result<Network> parse_network(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto bytes = bytes_of(text.substr(0, slash));
  if (!bytes) return wrong("neither an address, nor a network, nor agent:REGEX: " + std::string(text));
  Network network{*bytes, bytes->size() * 8};
  if (slash != text.npos) {
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), network.prefix);
    if (error != std::errc() || end != digits.data() + digits.size() || network.prefix > bytes->size() * 8)
      return wrong("a prefix has 0 to " + std::to_string(bytes->size() * 8) + " bits: " + std::string(text));
    if (has_bits_beyond(network))
      return wrong("the address has bits beyond the prefix: " + std::string(text));
  }
  if (network.prefix >= kMappedBytes * 8 && is_mapped(network.bytes))
    return Network{network.bytes.substr(kMappedBytes), network.prefix - kMappedBytes * 8};
  return network;
}

template <class Address>
Address address_of(std::string_view bytes) {
  Address out{};
  std::memcpy(out.data(), bytes.data(), out.size());
  return out;
}

template <class Ranges>
void sort_and_merge(Ranges& ranges) {
  std::ranges::sort(ranges);
  Ranges merged;
  for (const auto& each : ranges) {
    if (merged.empty() || merged.back().last < each.first) {
      merged.push_back(each);
    } else {
      merged.back().last = std::max(merged.back().last, each.last);
    }
  }
  merged.shrink_to_fit();
  ranges = std::move(merged);
}

template <class Address, class Ranges>
bool lies_in(const Ranges& ranges, std::string_view bytes) {
  const auto address = address_of<Address>(bytes);
  const auto after =
      std::ranges::upper_bound(ranges, address, {}, [](const auto& range) { return range.first; });
  return after != ranges.begin() && !(std::prev(after)->last < address);
}

RE2::Options agent_options() {
  RE2::Options agent_options;
  agent_options.set_encoding(RE2::Options::EncodingLatin1);  // an agent may hold any bytes
  agent_options.set_log_errors(false);
  agent_options.set_never_capture(true);
  agent_options.set_max_mem(kMaxMemory);
  return agent_options;
}

}  // namespace

ClientList::ClientList() = default;
ClientList::ClientList(ClientList&&) noexcept = default;
ClientList& ClientList::operator=(ClientList&&) noexcept = default;
ClientList::~ClientList() = default;

Result<void> ClientList::add_network(std::string_view text) {
  FRESHET_TRY(network, parse_network(text));
  const std::string last = last_of(*network);
  if (last.size() == std::tuple_size_v<Address4>) {
    v4_.push_back({address_of<Address4>(network->bytes), address_of<Address4>(last)});
  } else {
    v6_.push_back({address_of<Address6>(network->bytes), address_of<Address6>(last)});
  }
  return {};
}

Result<ClientList> ClientList::parse(std::string_view text, std::string_view name) {
  ClientList list;
  std::string agents;
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    Result<void> read;
    if (line.starts_with(kAgent)) {
      const std::string pattern(trimmed(line.substr(kAgent.size())));
      const RE2 alone(pattern, agent_options());
      if (pattern.empty() || !alone.ok()) read = wrong("no RE2 pattern: " + pattern + " " + alone.error());
      agents.append(agents.empty() ? "(?:" : "|(?:").append(pattern).append(")");
    } else if (line = trimmed(line.substr(0, line.find('#'))); !line.empty()) {
      read = list.add_network(line);
    }
    if (!read) return wrong(std::string(name) + ":" + std::to_string(number) + ": " + read.error().detail);
  }
  if (!agents.empty()) list.agents_ = std::make_unique<RE2>(agents, agent_options());
  if (list.agents_ && !list.agents_->ok()) return wrong(std::string(name) + ": " + list.agents_->error());
  sort_and_merge(list.v4_);
  sort_and_merge(list.v6_);
  return list;
}

Result<ClientList> ClientList::read(const std::string& path) {
  if (path.empty()) return ClientList();
  std::ifstream file(path, std::ios::binary);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  if (!file || file.bad()) return wrong(path + ": cannot be read");
  return parse(text, path);
}

bool ClientList::has(std::string_view address, std::string_view agent) const {
  if (!v4_.empty() || !v6_.empty()) {
    if (const auto bytes = bytes_of(address)) {
      const bool v4 = bytes->size() == std::tuple_size_v<Address4> || is_mapped(*bytes);
      const std::string_view low = std::string_view(*bytes).substr(v4 ? bytes->size() - 4 : 0);
      if (v4 ? lies_in<Address4>(v4_, low) : lies_in<Address6>(v6_, low)) return true;
    }
  }
  const std::string_view head = agent.substr(0, kMaxAgentBytes);
  return agents_ && RE2::PartialMatch(re2::StringPiece(head.data(), head.size()), *agents_);
}

Standing standing(const ClientLists& lists, std::string_view address, std::string_view agent) {
  if (lists.allowed.has(address, agent)) return Standing::kAllowed;
  return lists.denied.has(address, agent) ? Standing::kDenied : Standing::kCommon;
}

}  // namespace freshet::http

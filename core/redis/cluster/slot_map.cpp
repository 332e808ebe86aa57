#include "core/redis/cluster/slot_map.h"

#include <algorithm>
#include <charconv>

#include "core/redis/errors.h"
#include "core/redis/script_errors.h"

namespace freshet::redis {
namespace {

// Address of a node entry [host, port, id, [name, value, …]]. A node announced by host name has its
// address in the metadata. An entry without a host is reached at the host that we used, whatever
// address it reports (cluster-preferred-endpoint-type unknown-endpoint, for clients that connect
// through tunnels).
Result<Address> parse_node_address(const Reply& node, const Address& queried_node) {
  const auto port = node[1].integer();
  if (!port) return tl::unexpected(port.error());
  Address out{std::string(node[0].text()), static_cast<int>(*port)};
  if (out.host.empty() || out.host == "?") {
    out.host = queried_node.host;
    return out;
  }
  const Reply metadata = node[3];
  for (std::size_t i = 0; !is_numeric_host(out.host) && i + 1 < metadata.size(); i += 2) {
    if (metadata[i].text() == "ip") out.host = metadata[i + 1].text();
  }
  return out;
}

}  // namespace

Result<SlotMap> SlotMap::parse(const Reply& slots, const Address& queried_node) {
  if (slots.is_error() && slots.error().find("cluster support disabled") != std::string_view::npos)
    return fail(ErrorCode::kInvalid, "no_cluster", {},
                to_string(queried_node) +
                    " is not a cluster node: use redis:// in redis.url, or set cluster-enabled yes there");
  if (slots.is_error()) return tl::unexpected(classify(slots.error()));
  SlotMap out;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Reply range = slots[i];
    const auto first = range[0].integer(), last = range[1].integer();
    if (!first || !last || *first < 0 || *last < *first || *last >= kSlots)
      return fail(ErrorCode::kInternal, "redis_type", {}, "CLUSTER SLOTS returned an invalid slot range");
    FRESHET_TRY(master, parse_node_address(range[2], queried_node));
    std::fill(out.owners_.begin() + *first, out.owners_.begin() + *last + 1, out.index_of(*master));
  }
  return out;
}

std::uint16_t SlotMap::index_of(const Address& master) {
  const auto found = std::ranges::find(masters_, master);
  const auto index = static_cast<std::uint16_t>(found - masters_.begin());
  if (found == masters_.end()) masters_.push_back(master);
  return index;
}

std::optional<SlotMap> SlotMap::majority_map(std::vector<SlotMap> maps) {
  const auto vote_count = [&](const SlotMap& map) { return std::ranges::count(maps, map); };
  const auto majority = std::ranges::max_element(maps, {}, vote_count);
  return majority == maps.end() ? std::nullopt : std::optional(std::move(*majority));
}

std::size_t SlotMap::uncovered_slots() const {
  return static_cast<std::size_t>(std::ranges::count(owners_, kNoOwner));
}

std::string describe_fault(const Address& node, std::string_view error_line) {
  if (error_line.empty())
    return "the node at " + to_string(node) + " does not answer: start it, or allow connections to it";
  const ErrorRow* row = find_error(error_line);
  const bool is_auth_error = row != nullptr && (row->error_class == ErrorClass::kAuth ||
                                                row->error_class == ErrorClass::kPermission);
  return "the node at " + to_string(node) + " refuses the connection (" + std::string(error_line) +
         "): " + (is_auth_error ? "give it the same accounts as the other nodes" : "see its log");
}

std::optional<Refusal> parse_refusal(std::string_view line, const Address& sender) {
  if (has_code(line, "TRYAGAIN")) return Refusal{Refusal::Kind::kTryAgain, {}};
  const bool moved = has_code(line, "MOVED");
  if (!moved && !has_code(line, "ASK")) return std::nullopt;
  const std::string_view address = after_code(after_code(line));  // MOVED 3999 192.0.2.1:6379
  const std::size_t colon = address.rfind(':');
  if (colon == address.npos) return std::nullopt;
  Address target{std::string(address.substr(0, colon)), 0};
  const std::string_view port = address.substr(colon + 1);
  std::from_chars(port.data(), port.data() + port.size(), target.port);
  if (target.host.empty() || target.host == "?") target.host = sender.host;
  // The map has the address of a node that is announced by its name.
  if (target.port == 0 || (!is_numeric_host(target.host) && target.host != sender.host)) return std::nullopt;
  return Refusal{moved ? Refusal::Kind::kMoved : Refusal::Kind::kAsk, std::move(target)};
}

}  // namespace freshet::redis

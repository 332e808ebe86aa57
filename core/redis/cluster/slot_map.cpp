#include "core/redis/cluster/slot_map.h"

#include <algorithm>
#include <charconv>

#include "core/redis/errors.h"
#include "core/redis/script_words.h"

namespace freshet::redis {
namespace {

bool is_address(std::string_view host) {
  return parse_address(shown(Address{std::string(host), 1})).has_value();
}

// Of an entry [host, port, id, [name, value, …]]: its address. A node that goes by its name has its
// address among the rest. Without a host it is where we asked, whatever address it has itself: by
// cluster-preferred-endpoint-type unknown-endpoint, so that clients may come through tunnels.
Result<Address> address_in(const Reply& node, const Address& asked) {
  const auto port = node[1].integer();
  if (!port) return tl::unexpected(port.error());
  Address out{std::string(node[0].text()), static_cast<int>(*port)};
  if (out.host.empty()) out.host = asked.host;
  const Reply more = node[3];
  for (std::size_t i = 0; !is_address(out.host) && i + 1 < more.size(); i += 2) {
    if (more[i].text() == "ip") out.host = more[i + 1].text();
  }
  if (out.host == "?") out.host = asked.host;
  if (!is_address(out.host))
    return fail(ErrorCode::kInvalid, "no_cluster", {},
                shown(asked) + " names a node of the cluster " + out.host +
                    ", which a worker would have to look up: set cluster-preferred-endpoint-type ip there");
  return out;
}

}  // namespace

Result<SlotMap> SlotMap::read(const Reply& slots, const Address& asked) {
  if (slots.is_error() && slots.error().find("cluster support disabled") != std::string_view::npos)
    return fail(
        ErrorCode::kInvalid, "no_cluster", {},
        shown(asked) +
            " is no node of a cluster: write redis:// in redis.url, or set cluster-enabled yes there");
  if (slots.is_error()) return tl::unexpected(classify(slots.error()));
  SlotMap out;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const Reply range = slots[i];
    const auto first = range[0].integer(), last = range[1].integer();
    if (!first || !last || *first < 0 || *last < *first || *last >= kSlots)
      return fail(ErrorCode::kInternal, "redis_type", {}, "CLUSTER SLOTS answered no range of slots");
    FRESHET_TRY(master, address_in(range[2], asked));
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

std::optional<SlotMap> SlotMap::most_said(std::vector<SlotMap> maps) {
  const auto says_so = [&](const SlotMap& map) { return std::ranges::count(maps, map); };
  const auto most = std::ranges::max_element(maps, {}, says_so);
  return most == maps.end() ? std::nullopt : std::optional(std::move(*most));
}

std::size_t SlotMap::uncovered() const {
  return static_cast<std::size_t>(std::ranges::count(owners_, kNobody));
}

std::string what_ails(const Address& node, std::string_view refused) {
  if (refused.empty())
    return "the node at " + shown(node) + " does not answer: start it, or correct who may connect to it";
  const ErrorRow* row = find_error(refused);
  const bool account = row != nullptr &&
                       (row->error_class == ErrorClass::kAuth || row->error_class == ErrorClass::kPermission);
  return "the node at " + shown(node) + " refuses us (" + std::string(refused) +
         "): " + (account ? "give it the accounts that the others have" : "look into its log");
}

std::optional<Refusal> read_refusal(std::string_view line, const Address& asked) {
  if (says(line, "TRYAGAIN")) return Refusal{Refusal::Kind::kAgain, {}};
  const bool moved = says(line, "MOVED");
  if (!moved && !says(line, "ASK")) return std::nullopt;
  const std::string_view where = after_word(after_word(line));  // MOVED 3999 192.0.2.1:6379
  const std::size_t colon = where.rfind(':');
  if (colon == where.npos) return std::nullopt;
  Address to{std::string(where.substr(0, colon)), 0};
  const std::string_view port = where.substr(colon + 1);
  std::from_chars(port.data(), port.data() + port.size(), to.port);
  if (to.host.empty() || to.host == "?") to.host = asked.host;
  if (to.port == 0 || !is_address(to.host)) return std::nullopt;
  return Refusal{moved ? Refusal::Kind::kMoved : Refusal::Kind::kAsk, std::move(to)};
}

}  // namespace freshet::redis

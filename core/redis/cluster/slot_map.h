// Slot map of a Redis Cluster as seen by one node, and the errors by which a node redirects
// commands for slots that it does not serve.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/redis/cluster/slot.h"
#include "core/redis/redis_url.h"
#include "core/redis/reply.h"

namespace freshet::redis {

class SlotMap {
 public:
  // An empty map: no slot has a master.
  SlotMap() { owners_.fill(kNoOwner); }
  // Parses the reply to CLUSTER SLOTS of `queried_node`, whose host is used for entries without
  // one. Errors: kInvalid "no_cluster", with a detail that says how to fix it; errors of classify()
  // (errors.h).
  static Result<SlotMap> parse(const Reply& slots, const Address& queried_node);

  // nullptr if the slot is not covered.
  const Address* owner(std::uint16_t slot) const {
    return owners_[slot] == kNoOwner ? nullptr : &masters_[owners_[slot]];
  }
  // Masters that serve slots, ordered by their first slot.
  const std::vector<Address>& masters() const { return masters_; }
  std::size_t uncovered_slots() const;
  bool operator==(const SlotMap&) const = default;
  // The most frequent map, the first one on a tie: a master cut off from the rest keeps an outdated
  // view. nullopt if `maps` is empty.
  static std::optional<SlotMap> majority_map(std::vector<SlotMap> maps);

 private:
  static constexpr std::uint16_t kNoOwner = 0xFFFF;
  std::uint16_t index_of(const Address& master);

  std::vector<Address> masters_;
  std::array<std::uint16_t, kSlots> owners_;
};

// Describes what is wrong with a node and how to fix it. `error_line`: the node's error reply to
// the handshake; "" if it does not answer.
std::string describe_fault(const Address& node, std::string_view error_line);

// Why a node did not run a command that may succeed elsewhere or later.
struct Refusal {
  enum class Kind : std::uint8_t {
    kMoved,     // the slot is served by another node
    kAsk,       // the slot is migrating and the key has already moved
    kTryAgain,  // the slot is migrating and only some of the keys have moved
  };
  Kind kind;
  Address target;  // set for kMoved and kAsk
};
// nullopt if the line is not a refusal. `sender` replaces a missing host.
std::optional<Refusal> parse_refusal(std::string_view error_line, const Address& sender);

}  // namespace freshet::redis

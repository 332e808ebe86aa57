// Which master of a Redis Cluster has which slot, as one of its nodes sees it; and what a node says
// of a slot that it does not have.
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
  // No slot has a master.
  SlotMap() { owners_.fill(kNoOwner); }
  // The answer to CLUSTER SLOTS of the node at `asked`, which stands where a node has no address of
  // its own. Errors: kInvalid "no_cluster", with a sentence that names the cure; what classify()
  // (errors.h) says.
  static Result<SlotMap> parse(const Reply& slots, const Address& queried_node);

  // nullptr: nobody.
  const Address* owner(std::uint16_t slot) const {
    return owners_[slot] == kNoOwner ? nullptr : &masters_[owners_[slot]];
  }
  // Those that have slots, in the order of their first.
  const std::vector<Address>& masters() const { return masters_; }
  std::size_t uncovered_slots() const;  // slots that nobody has
  bool operator==(const SlotMap&) const = default;
  // What most nodes say, of several the first: a master that was cut off from the rest goes on
  // believing what it knew. nullopt: none says anything.
  static std::optional<SlotMap> majority_map(std::vector<SlotMap> maps);

 private:
  static constexpr std::uint16_t kNoOwner = 0xFFFF;
  std::uint16_t index_of(const Address& master);

  std::vector<Address> masters_;
  std::array<std::uint16_t, kSlots> owners_;
};

// What is wrong with a node, as a sentence that names it and the cure. `refused`: what it said to
// the hand-shake; "": it does not answer.
std::string describe_fault(const Address& node, std::string_view error_line);

// Why a command did nothing, although it may elsewhere or later.
struct Refusal {
  enum class Kind : std::uint8_t {
    kMoved,  // another node has the slot
    kAsk,    // another node has this key already, while its slot is being moved there
    kTryAgain,  // of several keys some have been moved: once all are
  };
  Kind kind;
  Address target;  // of kMoved and kAsk
};
// nullopt: the line says something else.
std::optional<Refusal> parse_refusal(std::string_view error_line, const Address& sender);

}  // namespace freshet::redis

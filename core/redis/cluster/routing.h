// How one pipeline gets through a cluster: which node gets which commands next, and what becomes of
// those that a node refused. Pure: no I/O, no clock; ClusterRedis (cluster_redis.h) sends.
//
// The pipeline is split by node and its replies are merged in order. A transaction (MULTI … EXEC)
// goes as one. A node runs its commands in their order, unless one was refused and is sent again;
// nodes have no order among each other. Behind a barrier (Pipeline::then()) nothing is sent before
// all in front of it has its replies, and nothing at all when a node gave none.
//
// SCAN goes to one master after the other, and its cursor says to which (slot.h); a key whose slot
// moves meanwhile may be missed or come twice. DBSIZE and INFO go to every master: the reply is the
// sum, and what the fullest says of itself.
//
// A command that a node refused did nothing, so it goes where the node says, kMostSends times at
// most. One that has no reply may have happened and is never sent again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/redis/cluster/slot_map.h"
#include "core/redis/redis.h"

namespace freshet::redis {

class Routing {
 public:
  static constexpr int kMostSends = 5;  // of a command: moved, asked for, moved again while it is

  // `pipeline` outlives it.
  explicit Routing(const Pipeline& pipeline);

  // What one node gets.
  struct Part {
    Address node;
    const Pipeline& commands() const { return whole != nullptr ? *whole : own; }
    const Pipeline* whole = nullptr;  // all of the pipeline, or:
    Pipeline own;
    std::vector<std::size_t> units;  // of Routing
    bool asking = false;             // each unit comes behind ASKING
  };
  // All that may be sent now: a part for each node, and one more for what it is asked. `any` gets
  // what has no key. Empty: nothing is left to be done. REQUIRES: take() was called for every part
  // of before.
  std::vector<Part> next(const SlotMap& map, const Address& any);
  void take(const Part& part, Result<Replies> replies);

  // A node refused, or was not there: the map may be old.
  bool map_may_be_old() const { return old_map_; }
  // Some of what next() sends was refused until keys have been moved: it is better sent a little
  // later.
  bool must_wait() const { return must_wait_; }

  // A reply for each command, in order. Those whose node gave none have an error of ours, AWAY
  // (nothing was sent) or LOST; when none has a reply, it is the error of the first, a LOST one
  // rather.
  Result<Replies> result() &&;

 private:
  // A command, or a transaction.
  struct Unit {
    std::size_t first = 0, count = 1;
    std::optional<std::uint16_t> slot;
    std::optional<ScanCursor> scan;
    bool of_every = false;         // master
    std::size_t awaited = 0;       // of_every: masters that have not answered yet
    std::size_t section = 0;       // how many barriers come before it
    std::optional<Address> named;  // by the node that refused it
    bool asking = false;           // it is to be asked there
    bool settled = false;          // nothing more is done about it
    bool answered = false;         // by a node, if only by a refusal
    bool refused = false;
    int sends = 0;
  };
  void split();
  void take_of_every(Unit& unit, Reply reply);
  Reply with_cursor(const ScanCursor& scan, const Reply& found) const;
  Part& part_for(std::vector<Part>& parts, const Address& node, bool asking) const;
  std::optional<Refusal> refusal_of(const Unit& unit, const Address& asked) const;
  void give_up(Unit& unit, const Error& error);

  const Pipeline& pipeline_;
  std::vector<Unit> units_;
  Replies replies_;
  std::optional<Error> error_;  // of a unit without reply
  std::size_t masters_ = 0;     // when it was sent
  bool old_map_ = false;
  bool must_wait_ = false;
};

}  // namespace freshet::redis

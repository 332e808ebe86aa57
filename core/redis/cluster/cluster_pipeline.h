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

class ClusterPipeline {
 public:
  static constexpr int kMaxSends = 5;  // of a command: moved, asked for, moved again while it is

  // `pipeline` outlives it.
  explicit ClusterPipeline(const Pipeline& pipeline);

  // What one node gets.
  struct NodeBatch {
    Address node;
    const Pipeline& commands() const { return full_pipeline != nullptr ? *full_pipeline : own_commands; }
    const Pipeline* full_pipeline = nullptr;  // all of the pipeline, or:
    Pipeline own_commands;
    std::vector<std::size_t> units;  // of Routing
    bool asking = false;             // each unit comes behind ASKING
  };
  // All that may be sent now: a part for each node, and one more for what it is asked. `any` gets
  // what has no key. Empty: nothing is left to be done. REQUIRES: take() was called for every part
  // of before.
  std::vector<NodeBatch> next_batches(const SlotMap& map, const Address& fallback_node);
  void record_replies(const NodeBatch& batch, Result<Replies> replies);

  // A node refused, or was not there: the map may be old.
  bool is_map_stale() const { return is_map_stale_; }
  // Some of what next() sends was refused until keys have been moved: it is better sent a little
  // later.
  bool needs_delay() const { return needs_delay_; }

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
    bool broadcast = false;         // master
    std::size_t pending_replies = 0;       // of_every: masters that have not answered yet
    std::size_t section = 0;       // how many barriers come before it
    std::optional<Address> redirect;  // by the node that refused it
    bool asking = false;           // it is to be asked there
    bool finished = false;          // nothing more is done about it
    bool answered = false;         // by a node, if only by a refusal
    bool refused = false;
    int sends = 0;
  };
  void split();
  void merge_broadcast_reply(Unit& unit, Reply reply);
  Reply rewrite_scan_cursor(const ScanCursor& scan, const Reply& reply) const;
  NodeBatch& batch_for(std::vector<NodeBatch>& batches, const Address& node, bool asking) const;
  std::optional<Refusal> refusal_for(const Unit& unit, const Address& sender) const;
  void fail_unit(Unit& unit, const Error& error);

  const Pipeline& pipeline_;
  std::vector<Unit> units_;
  Replies replies_;
  std::optional<Error> error_;  // of a unit without reply
  std::size_t master_count_ = 0;     // when it was sent
  bool is_map_stale_ = false;
  bool needs_delay_ = false;
};

}  // namespace freshet::redis

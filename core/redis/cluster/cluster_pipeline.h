// Routes one pipeline through a cluster: which node gets which commands next, and what happens to
// those that a node refused. Pure: no I/O, no clock; ClusterRedis (cluster_redis.h) sends.
//
// The pipeline is split by node and the replies are merged in order. A transaction (MULTI … EXEC)
// stays together. A node runs its commands in order, unless one was refused and is sent again;
// there is no order between nodes. Nothing behind a barrier (Pipeline::barrier()) is sent until
// everything before it has its reply, and nothing at all if a node gave none.
//
// SCAN goes to one master after the other; its cursor holds the current one (slot.h). Keys of a
// slot that migrates during the scan may be missed or returned twice. DBSIZE and INFO go to every
// master: the result is the sum of the integers, or the text of the master with the highest memory
// usage.
//
// A refused command had no effect, so it is sent to the node that the refusal names, at most
// kMaxSends times. A command without a reply may have taken effect and is never sent again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/redis/cluster/slot_map.h"
#include "core/redis/redis.h"

namespace freshet::redis {

class ClusterPipeline {
 public:
  static constexpr int kMaxSends = 5;  // per command: MOVED, ASK, and MOVED again during a migration

  // `pipeline` must outlive this.
  explicit ClusterPipeline(const Pipeline& pipeline);

  // The commands for one node.
  struct NodeBatch {
    Address node;
    const Pipeline& commands() const { return full_pipeline != nullptr ? *full_pipeline : own_commands; }
    const Pipeline* full_pipeline = nullptr;  // the whole pipeline if it all goes to one node, else null
    Pipeline own_commands;
    std::vector<std::size_t> units;  // indexes into units_
    bool asking = false;             // each unit is preceded by ASKING
  };
  // Returns everything that can be sent now: one batch per node, and one more per node for commands
  // after ASKING. `fallback_node` gets commands without a key. Empty when done. REQUIRES:
  // record_replies() was called for every batch returned before.
  std::vector<NodeBatch> next_batches(const SlotMap& map, const Address& fallback_node);
  void record_replies(const NodeBatch& batch, Result<Replies> replies);

  // A node refused a command or was unreachable, so the map may be outdated.
  bool is_map_stale() const { return is_map_stale_; }
  // A command was refused because its slot is migrating (TRYAGAIN): wait a little before the next
  // batches.
  bool needs_delay() const { return needs_delay_; }

  // One reply per command, in order. Commands of a node that did not reply get an error reply of
  // our own: AWAY (not sent) or LOST (sent, outcome unknown). If no command has a reply, returns
  // the first error, preferring a LOST one.
  Result<Replies> result() &&;

 private:
  // A command or a transaction.
  struct Unit {
    std::size_t first = 0, count = 1;
    std::optional<std::uint16_t> slot;
    std::optional<ScanCursor> scan;
    bool broadcast = false;           // sent to every master
    std::size_t pending_replies = 0;  // broadcast: masters that have not answered yet
    std::size_t section = 0;          // number of barriers before it
    std::optional<Address> redirect;  // the node that the last refusal named
    bool asking = false;              // send ASKING first
    bool finished = false;
    bool answered = false;  // a node replied, possibly with a refusal
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
  std::optional<Error> error_;    // of a unit without a reply
  std::size_t master_count_ = 0;  // when the batches were made
  bool is_map_stale_ = false;
  bool needs_delay_ = false;
};

}  // namespace freshet::redis

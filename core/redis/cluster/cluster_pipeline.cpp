#include "core/redis/cluster/cluster_pipeline.h"

#include <algorithm>
#include <string>

#include "core/redis/memory_level.h"
#include "core/redis/script_errors.h"

namespace freshet::redis {
namespace {

std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

// Replaces the cursor of a SCAN, its second argument.
std::string replace_scan_cursor(std::string_view resp, std::string_view cursor) {
  const std::string_view head = resp.substr(0, resp.find("SCAN\r\n") + 6);
  const std::string_view rest = resp.substr(head.size());  // $1 0 …
  const std::size_t end = rest.find("\r\n", rest.find("\r\n") + 2) + 2;
  return std::string(head) + bulk(cursor) + std::string(rest.substr(end));
}

Error unavailable(std::string detail) {
  return Error{ErrorCode::kUnavailable, "redis_unavailable", {}, std::move(detail)};
}

}  // namespace

ClusterPipeline::ClusterPipeline(const Pipeline& pipeline) : pipeline_(pipeline), replies_(pipeline.size()) {
  split();
}

void ClusterPipeline::split() {
  const auto barriers = pipeline_.barriers();
  std::size_t section = 0;
  for (std::size_t i = 0; i < pipeline_.size(); ++i) {
    while (section < barriers.size() && barriers[section] <= i) ++section;
    const bool inside = !units_.empty() && units_.back().first + units_.back().count > i;
    if (!inside) units_.push_back({.first = i, .section = section});
    Unit& unit = units_.back();
    if (!unit.slot) unit.slot = slot_of_command(pipeline_.at(i));
    if (!inside) unit.scan = parse_scan_cursor(pipeline_.at(i));
    const std::string_view name = name_of_command(pipeline_.at(i));
    if (!inside) unit.broadcast = name == "DBSIZE" || name == "INFO";
    // Everything up to EXEC belongs to the transaction; one without EXEC extends to the end.
    if (name == "MULTI" && !inside) unit.count = pipeline_.size() - i;
    if (inside && (name == "EXEC" || name == "DISCARD")) unit.count = i + 1 - unit.first;
  }
}

ClusterPipeline::NodeBatch& ClusterPipeline::batch_for(std::vector<NodeBatch>& batches, const Address& node,
                                                       bool asking) const {
  const auto found = std::ranges::find_if(
      batches, [&](const NodeBatch& each) { return each.node == node && each.asking == asking; });
  if (found != batches.end()) return *found;
  NodeBatch batch;
  batch.node = node;
  batch.asking = asking;
  batches.push_back(std::move(batch));
  return batches.back();
}

std::vector<ClusterPipeline::NodeBatch> ClusterPipeline::next_batches(const SlotMap& map,
                                                                      const Address& fallback_node) {
  is_map_stale_ = needs_delay_ = false;
  master_count_ = map.masters().size();
  std::vector<NodeBatch> batches;
  std::size_t section = 0;
  bool unanswered = false;  // of an earlier section
  for (std::size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    if (unit.section != section) {
      if (!batches.empty()) break;  // barrier
      section = unit.section;
      unanswered = std::any_of(units_.begin(), units_.begin() + static_cast<std::ptrdiff_t>(i),
                               [](const Unit& each) { return !each.answered || each.refused; });
    }
    if (unit.finished) continue;
    if (unanswered) {
      fail_unit(unit, unavailable("a command before its barrier has no reply"));
      continue;
    }
    if (unit.scan && master_count_ > 0 && unit.scan->master >= master_count_) {
      fail_unit(unit, unavailable("the cluster has fewer masters than when this SCAN began"));
      continue;
    }
    if (unit.broadcast && master_count_ > 0) {
      unit.pending_replies = master_count_;
      for (const Address& each : map.masters()) batch_for(batches, each, false).units.push_back(i);
      continue;
    }
    const Address* node = &fallback_node;
    if (unit.redirect)
      node = &*unit.redirect;
    else if (unit.slot)
      node = map.owner(*unit.slot);
    else if (unit.scan && master_count_ > 0)
      node = &map.masters()[unit.scan->master];
    if (node == nullptr || node->port == 0) {
      is_map_stale_ = true;
      fail_unit(unit, unavailable(unit.slot ? "slot " + std::to_string(*unit.slot) +
                                                  " has no master: start it, or run redis-cli --cluster fix"
                                            : "no node of the cluster is known"));
      continue;
    }
    batch_for(batches, *node, unit.asking).units.push_back(i);
  }
  for (NodeBatch& batch : batches) {
    const bool has_scan =
        std::ranges::any_of(batch.units, [&](std::size_t i) { return units_[i].scan.has_value(); });
    if (batch.units.size() == units_.size() && !batch.asking && !has_scan) {
      batch.full_pipeline = &pipeline_;
      continue;
    }
    for (const std::size_t i : batch.units) {
      if (batch.asking) batch.own_commands.add("ASKING");
      if (units_[i].scan) {
        batch.own_commands.raw(
            replace_scan_cursor(pipeline_.at(units_[i].first), units_[i].scan->node_cursor));
        continue;
      }
      for (std::size_t k = 0; k < units_[i].count; ++k)
        batch.own_commands.raw(pipeline_.at(units_[i].first + k));
    }
  }
  return batches;
}

void ClusterPipeline::fail_unit(Unit& unit, const Error& error) {
  unit.finished = true;
  const bool lost = error.code == ErrorCode::kUnknownOutcome;
  if (!error_ || (lost && error_->code != ErrorCode::kUnknownOutcome)) error_ = error;
  for (std::size_t k = 0; k < unit.count; ++k)
    replies_[unit.first + k] = Reply::from_error((lost ? "LOST " : "AWAY ") + error.detail);
}

Reply ClusterPipeline::rewrite_scan_cursor(const ScanCursor& scan, const Reply& reply) const {
  const Reply cursor = reply[0], keys = reply[1];
  std::string next = "0";
  if (cursor.text() != "0")
    next = std::to_string(scan.master) + "." + std::string(cursor.text());
  else if (scan.master + 1 < master_count_)
    next = std::to_string(scan.master + 1) + ".0";
  std::string resp = "*2\r\n" + bulk(next) + "*" + std::to_string(keys.size()) + "\r\n";
  for (std::size_t i = 0; i < keys.size(); ++i) resp += bulk(keys[i].text());
  return Reply::from_resp(resp);
}

std::optional<Refusal> ClusterPipeline::refusal_for(const Unit& unit, const Address& sender) const {
  const std::string_view last = replies_[unit.first + unit.count - 1].error();
  auto refusal = parse_refusal(last, sender);
  // A transaction is discarded because of the error of one of its commands.
  for (std::size_t k = 0; !refusal && has_code(last, "EXECABORT") && k < unit.count; ++k)
    refusal = parse_refusal(replies_[unit.first + k].error(), sender);
  return refusal;
}

void ClusterPipeline::record_replies(const NodeBatch& batch, Result<Replies> replies) {
  is_map_stale_ |= !replies;
  std::size_t at = 0;
  for (const std::size_t i : batch.units) {
    Unit& unit = units_[i];
    ++unit.sends;
    if (!replies) {
      fail_unit(unit, replies.error());
      continue;
    }
    if (batch.asking) ++at;
    if (unit.pending_replies > 0) {
      merge_broadcast_reply(unit, std::move((*replies)[at++]));
      continue;
    }
    for (std::size_t k = 0; k < unit.count; ++k) replies_[unit.first + k] = std::move((*replies)[at++]);
    unit.answered = true;
    if (unit.scan && replies_[unit.first].is_array())
      replies_[unit.first] = rewrite_scan_cursor(*unit.scan, replies_[unit.first]);
    const auto refusal = refusal_for(unit, batch.node);
    unit.refused = refusal.has_value();
    const bool try_again = refusal && refusal->kind == Refusal::Kind::kTryAgain;
    is_map_stale_ |= refusal && !try_again;
    is_map_stale_ |= has_code(replies_[unit.first].error(), "CLUSTERDOWN");
    needs_delay_ |= try_again;
    unit.finished = !refusal || (!try_again && unit.sends >= kMaxSends);
    unit.redirect = refusal && !try_again ? std::optional(refusal->target) : std::nullopt;
    unit.asking = refusal && refusal->kind == Refusal::Kind::kAsk;
  }
}

void ClusterPipeline::merge_broadcast_reply(Unit& unit, Reply reply) {
  Reply& merged = replies_[unit.first];
  const bool first = !unit.answered || reply.is_error();
  if (unit.finished || merged.is_error()) {
    // One master failed; keep its error.
  } else if (const auto sum = merged.integer(); !first && sum && reply.integer()) {
    merged = Reply::from_resp(":" + std::to_string(*sum + *reply.integer()) + "\r\n");
  } else if (first || memory_usage(reply.text()) > memory_usage(merged.text())) {
    merged = std::move(reply);
  }
  unit.answered = true;
  unit.finished = --unit.pending_replies == 0 || unit.finished;
}

Result<Replies> ClusterPipeline::result() && {
  if (error_ && std::ranges::none_of(units_, &Unit::answered)) return tl::unexpected(std::move(*error_));
  // Units behind a barrier that were not reached in time.
  for (Unit& unit : units_) {
    if (!unit.answered && !unit.finished) fail_unit(unit, unavailable("not sent within the retry budget"));
  }
  return std::move(replies_);
}

}  // namespace freshet::redis

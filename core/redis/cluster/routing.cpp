#include "core/redis/cluster/routing.h"

#include <algorithm>
#include <string>

#include "core/redis/memory_level.h"
#include "core/redis/script_words.h"

namespace freshet::redis {
namespace {

std::string bulk(std::string_view text) {
  return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
}

// A SCAN with another cursor, which is its second word.
std::string with_own_cursor(std::string_view resp, std::string_view cursor) {
  const std::string_view head = resp.substr(0, resp.find("SCAN\r\n") + 6);
  const std::string_view rest = resp.substr(head.size());  // $1 0 …
  const std::size_t end = rest.find("\r\n", rest.find("\r\n") + 2) + 2;
  return std::string(head) + bulk(cursor) + std::string(rest.substr(end));
}

Error away(std::string why) { return Error{ErrorCode::kUnavailable, "redis_away", {}, std::move(why)}; }

}  // namespace

Routing::Routing(const Pipeline& pipeline) : pipeline_(pipeline), replies_(pipeline.size()) { split(); }

void Routing::split() {
  const auto barriers = pipeline_.barriers();
  std::size_t section = 0;
  for (std::size_t i = 0; i < pipeline_.size(); ++i) {
    while (section < barriers.size() && barriers[section] <= i) ++section;
    const bool inside = !units_.empty() && units_.back().first + units_.back().count > i;
    if (!inside) units_.push_back({.first = i, .section = section});
    Unit& unit = units_.back();
    if (!unit.slot) unit.slot = slot_of_command(pipeline_.at(i));
    if (!inside) unit.scan = cursor_of_scan(pipeline_.at(i));
    const std::string_view name = name_of_command(pipeline_.at(i));
    if (!inside) unit.of_every = name == "DBSIZE" || name == "INFO";
    // Up to EXEC all that comes belongs to it; one without end goes as it is.
    if (name == "MULTI" && !inside) unit.count = pipeline_.size() - i;
    if (inside && (name == "EXEC" || name == "DISCARD")) unit.count = i + 1 - unit.first;
  }
}

Routing::Part& Routing::part_for(std::vector<Part>& parts, const Address& node, bool asking) const {
  const auto found = std::ranges::find_if(
      parts, [&](const Part& each) { return each.node == node && each.asking == asking; });
  if (found != parts.end()) return *found;
  Part fresh;
  fresh.node = node;
  fresh.asking = asking;
  parts.push_back(std::move(fresh));
  return parts.back();
}

std::vector<Routing::Part> Routing::next(const SlotMap& map, const Address& any) {
  old_map_ = must_wait_ = false;
  masters_ = map.masters().size();
  std::vector<Part> parts;
  std::size_t section = 0;
  bool unanswered = false;  // before the section
  for (std::size_t i = 0; i < units_.size(); ++i) {
    Unit& unit = units_[i];
    if (unit.section != section) {
      if (!parts.empty()) break;  // the barrier
      section = unit.section;
      unanswered = std::any_of(units_.begin(), units_.begin() + static_cast<std::ptrdiff_t>(i),
                               [](const Unit& each) { return !each.answered || each.refused; });
    }
    if (unit.settled) continue;
    if (unanswered) {
      give_up(unit, away("what had to come before it has no reply"));
      continue;
    }
    if (unit.scan && masters_ > 0 && unit.scan->master >= masters_) {
      give_up(unit, away("the cluster has fewer masters than when the walk over its keys began"));
      continue;
    }
    if (unit.of_every && masters_ > 0) {
      unit.awaited = masters_;
      for (const Address& each : map.masters()) part_for(parts, each, false).units.push_back(i);
      continue;
    }
    const Address* node = &any;
    if (unit.named)
      node = &*unit.named;
    else if (unit.slot)
      node = map.owner(*unit.slot);
    else if (unit.scan && masters_ > 0)
      node = &map.masters()[unit.scan->master];
    if (node == nullptr || node->port == 0) {
      old_map_ = true;
      give_up(unit, away(unit.slot ? "slot " + std::to_string(*unit.slot) +
                                         " has no master: start it, or redis-cli --cluster fix"
                                   : "no node of the cluster is known"));
      continue;
    }
    part_for(parts, *node, unit.asking).units.push_back(i);
  }
  for (Part& part : parts) {
    const bool walks =
        std::ranges::any_of(part.units, [&](std::size_t i) { return units_[i].scan.has_value(); });
    if (part.units.size() == units_.size() && !part.asking && !walks) {
      part.whole = &pipeline_;
      continue;
    }
    for (const std::size_t i : part.units) {
      if (part.asking) part.own.add("ASKING");
      if (units_[i].scan) {
        part.own.raw(with_own_cursor(pipeline_.at(units_[i].first), units_[i].scan->own));
        continue;
      }
      for (std::size_t k = 0; k < units_[i].count; ++k) part.own.raw(pipeline_.at(units_[i].first + k));
    }
  }
  return parts;
}

void Routing::give_up(Unit& unit, const Error& error) {
  unit.settled = true;
  const bool lost = error.code == ErrorCode::kUnknownOutcome;
  if (!error_ || (lost && error_->code != ErrorCode::kUnknownOutcome)) error_ = error;
  for (std::size_t k = 0; k < unit.count; ++k)
    replies_[unit.first + k] = Reply::of_error((lost ? "LOST " : "AWAY ") + error.detail);
}

Reply Routing::with_cursor(const ScanCursor& scan, const Reply& found) const {
  const Reply cursor = found[0], keys = found[1];
  std::string next = "0";
  if (cursor.text() != "0")
    next = std::to_string(scan.master) + "." + std::string(cursor.text());
  else if (scan.master + 1 < masters_)
    next = std::to_string(scan.master + 1) + ".0";
  std::string resp = "*2\r\n" + bulk(next) + "*" + std::to_string(keys.size()) + "\r\n";
  for (std::size_t i = 0; i < keys.size(); ++i) resp += bulk(keys[i].text());
  return Reply::of_resp(resp);
}

std::optional<Refusal> Routing::refusal_of(const Unit& unit, const Address& asked) const {
  const std::string_view last = replies_[unit.first + unit.count - 1].error();
  auto refusal = read_refusal(last, asked);
  // A transaction is dropped as a whole for what one of its commands was answered.
  for (std::size_t k = 0; !refusal && says(last, "EXECABORT") && k < unit.count; ++k)
    refusal = read_refusal(replies_[unit.first + k].error(), asked);
  return refusal;
}

void Routing::take(const Part& part, Result<Replies> replies) {
  old_map_ |= !replies;
  std::size_t at = 0;
  for (const std::size_t i : part.units) {
    Unit& unit = units_[i];
    ++unit.sends;
    if (!replies) {
      give_up(unit, replies.error());
      continue;
    }
    if (part.asking) ++at;
    if (unit.awaited > 0) {
      take_of_every(unit, std::move((*replies)[at++]));
      continue;
    }
    for (std::size_t k = 0; k < unit.count; ++k) replies_[unit.first + k] = std::move((*replies)[at++]);
    unit.answered = true;
    if (unit.scan && replies_[unit.first].is_array())
      replies_[unit.first] = with_cursor(*unit.scan, replies_[unit.first]);
    const auto refusal = refusal_of(unit, part.node);
    unit.refused = refusal.has_value();
    const bool again = refusal && refusal->kind == Refusal::Kind::kAgain;
    old_map_ |= refusal && !again;
    old_map_ |= says(replies_[unit.first].error(), "CLUSTERDOWN");
    must_wait_ |= again;
    unit.settled = !refusal || (!again && unit.sends >= kMostSends);
    unit.named = refusal && !again ? std::optional(refusal->to) : std::nullopt;
    unit.asking = refusal && refusal->kind == Refusal::Kind::kAsk;
  }
}

void Routing::take_of_every(Unit& unit, Reply reply) {
  Reply& before = replies_[unit.first];
  const bool first = !unit.answered || reply.is_error();
  if (unit.settled || before.is_error()) {
    // One of them could not say it.
  } else if (const auto sum = before.integer(); !first && sum && reply.integer()) {
    before = Reply::of_resp(":" + std::to_string(*sum + *reply.integer()) + "\r\n");
  } else if (first || memory_share(reply.text()) > memory_share(before.text())) {
    before = std::move(reply);
  }
  unit.answered = true;
  unit.settled = --unit.awaited == 0 || unit.settled;
}

Result<Replies> Routing::result() && {
  if (error_ && std::ranges::none_of(units_, &Unit::answered)) return tl::unexpected(std::move(*error_));
  // What a barrier held back until there was no time.
  for (Unit& unit : units_) {
    if (!unit.answered && !unit.settled) give_up(unit, away("no time was left for it"));
  }
  return std::move(replies_);
}

}  // namespace freshet::redis

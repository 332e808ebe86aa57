#include "core/readers/personal_data.h"

#include <algorithm>
#include <array>
#include <utility>

#include "core/database/database.h"
#include "core/readers/key_descriptions.h"
#include "core/readers/reader_entries.h"
#include "core/readers/spool_registry.h"
#include "core/redis/fields.h"
#include "core/redis/script_errors.h"

namespace freshet::readers {
namespace {

using redis::Pipeline;

static_assert(std::all_of(redis::kKeyPatterns.begin(), redis::kKeyPatterns.end(),
                          [](const redis::KeyPattern& key) {
                            return key.subject != redis::Subject::kReader || key.type == "string" ||
                                   key.type == "hash" || key.type == "list" || key.type == "zset";
                          }),
              "append_read() supports every type of key about a reader");

// Reads a whole key. Strings and types that are bounded elsewhere are read without a limit.
void append_read(Pipeline& out, std::string_view type, const std::string& key) {
  if (type == "string")
    out.add("GET", key);
  else if (type == "hash")
    out.add("HGETALL", key);
  else if (type == "list")
    out.add("LRANGE", key, 0, kMaxExportedValues - 1);
  else
    out.add("ZRANGE", key, 0, kMaxExportedValues - 1, "REV", "WITHSCORES");
}

struct DatabaseRows {
  std::string database;  // identity of the database
  std::vector<ReaderEvent> interactions;
  std::vector<DismissalRecord> dismissals;
  std::vector<Follow> follows;
};

Result<DatabaseRows> read_database_rows(const std::string& path, const ReaderId& reader, std::int64_t from) {
  FRESHET_TRY(database, database::Database::open(path, database::Database::Mode::kRead));
  // One more than returned, to detect whether there are more.
  FRESHET_TRY(interactions, (*database)->readers().interactions_of(reader, from, kMaxExportedRows + 1));
  FRESHET_TRY(dismissals, (*database)->readers().dismissals_of(reader, kMaxExportedRows));
  FRESHET_TRY(follows, (*database)->readers().follows_of(reader, kMaxExportedRows));
  return DatabaseRows{(*database)->database_id(), std::move(*interactions), std::move(*dismissals),
                      std::move(*follows)};
}

void add_values(const redis::Reply& reply, std::string_view type, std::vector<std::string>& out) {
  if (const auto text = reply.string()) out.emplace_back(*text);
  for (std::size_t k = 0; k < reply.size(); ++k) {
    if (type == "zset" && redis::is_mark(redis::string_at(reply, k))) {
      ++k;  // a mark belongs to the timeline, not to its reader; skip its score as well
      continue;
    }
    out.emplace_back(redis::string_at(reply, k));
  }
}

}  // namespace

PersonalData::PersonalData(redis::Redis& redis, BlockingPool& pool, const Settings& settings,
                           redis::Keys keys, ReaderPseudonyms pseudonyms,
                           std::function<std::string()> new_job_id)
    : redis_(redis),
      pool_(pool),
      recorder_settings_(settings.recorder),
      channels_(settings.timeline.channels),
      spool_settings_(settings.spool),
      reader_settings_(settings.readers),
      merge_window_(settings.identity.merge_window),
      history_ttl_(settings.history.ttl),
      feed_ttl_(std::max(settings.feed.buffer_ttl, settings.feed.replay_window)),
      keys_(std::move(keys)),
      pseudonyms_(std::move(pseudonyms)),
      new_job_id_(std::move(new_job_id)) {}

// --- export

std::vector<std::string> PersonalData::keys_about(const ReaderId& reader) const {
  ReaderNames names;
  add_reader_names(names, reader, pseudonyms_);
  std::vector<std::string> out;
  for (const std::string& name : names)
    for (std::string& each : keys_.keys_about(name, channels_)) out.push_back(std::move(each));
  return out;
}

Task<Result<Export>> PersonalData::collect(const ReaderId& reader, std::int64_t from) {
  Export out;
  const std::vector<std::string> keys = keys_about(reader);
  FRESHET_CO_TRY(keys_read, co_await read_keys(keys, out));
  FRESHET_CO_TRY(memberships_read, co_await read_memberships(reader, out));
  std::sort(out.keys.begin(), out.keys.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  if (!is_anonymous_reader(reader)) co_await read_rows(reader, from, out);
  co_return out;
}

// Appends the keys that exist.
Task<Result<void>> PersonalData::read_keys(const std::vector<std::string>& keys, Export& out) {
  Pipeline command;
  for (const std::string& key : keys) append_read(command, keys_.pattern_of(key)->type, key);
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const redis::Reply& reply = (*replies)[i];
    const redis::KeyPattern& pattern = *keys_.pattern_of(keys[i]);
    ExportedKey stored{description_for(pattern), *keys_.strip_prefix(keys[i]), std::string(pattern.type), {}};
    add_values(reply, stored.type, stored.values);
    if (!stored.values.empty()) out.keys.push_back(std::move(stored));
  }
  co_return Result<void>();
}

// Appends the reader's entries in the ZSETs of each channel's active readers and of the followers
// of each author in `out`.
Task<Result<void>> PersonalData::read_memberships(const ReaderId& reader, Export& out) {
  std::vector<std::string> sets;
  for (const std::string& channel : channels_) sets.push_back(keys_.active_readers(channel));
  const std::string authors = *keys_.strip_prefix(keys_.followed_authors(reader.view()));
  for (const ExportedKey& each : out.keys) {
    if (each.name != authors) continue;
    for (std::size_t i = 0; i < each.values.size(); i += 2) sets.push_back(keys_.followers(each.values[i]));
  }
  if (sets.empty()) co_return Result<void>();
  Pipeline command;
  for (const std::string& set : sets) command.add("ZSCORE", set, reader.view());
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if ((*replies)[i].is_nil()) continue;
    out.keys.push_back({description_for(*keys_.pattern_of(sets[i])),
                        *keys_.strip_prefix(sets[i]),
                        "zset",
                        {reader.str(), std::string((*replies)[i].string().value_or(""))}});
  }
  co_return Result<void>();
}

// If the database cannot be read, the export says so: the rest is useful without it.
Task<void> PersonalData::read_rows(const ReaderId& reader, std::int64_t from, Export& out) {
  Pipeline command;
  command.add("HMGET", keys_.recorder_lease(), "holder", "database");
  const auto lease = co_await redis::run_one(redis_, command);
  const std::string holder(lease ? redis::string_at(*lease, 0) : "");
  const std::string recorder_database(lease ? redis::string_at(*lease, 1) : "");
  const std::string wrong_host = "available on the recording host" + (holder.empty() ? "" : ": " + holder);
  if (!recorder_settings_.enabled) {
    out.rows_missing_reason = wrong_host;
    co_return;
  }
  const std::function<Result<DatabaseRows>(std::size_t)> work = [path = recorder_settings_.database, reader,
                                                                 from](std::size_t) {
    return read_database_rows(path, reader, from);
  };
  auto rows = co_await pool_.run<DatabaseRows>(work);
  if (!rows) {
    out.rows_missing_reason = std::string(rows.error().reason);
    co_return;
  }
  if (!recorder_database.empty() && rows->database != recorder_database) {
    out.rows_missing_reason = wrong_host;
    co_return;
  }
  out.interactions = std::move(rows->interactions);
  out.dismissals = std::move(rows->dismissals);
  out.follows = std::move(rows->follows);
  if (out.interactions.size() > static_cast<std::size_t>(kMaxExportedRows)) {
    out.interactions.pop_back();
    out.next_interaction = from + kMaxExportedRows;
  }
}

// --- erasure

Task<Result<void>> PersonalData::erase_anonymous(const ReaderId& reader, bool may_be_stored) {
  const std::vector<std::string> keys = keys_about(reader);
  Pipeline reads, writes;
  reads.add("TIME");
  std::string epoch;
  if (pseudonyms_.erasure) {
    epoch = keys_.seen_epoch(pseudonyms_.erasure(reader));
    reads.add("GET", keys_.merged_into(pseudonyms_.erasure(reader))).add("GET", epoch);
  }
  if (!may_be_stored)
    for (const std::string& key : keys) reads.add("EXISTS", key);
  FRESHET_CO_TRY(found, co_await redis::run_all(redis_, reads));
  const auto is_missing = [](const redis::Reply& each) { return each.is_nil() || each.integer() == 0; };
  if (!may_be_stored && std::all_of(found->begin() + 1, found->end(), is_missing)) co_return Result<void>();
  const seconds ttl = redis::tombstone_ttl(spool_settings_.max_age);
  for (const std::string& name : pseudonyms_.all(reader))
    writes.add("SET", keys_.tombstone(name), redis::string_at((*found)[0], 0), "EX", ttl.count());
  writes.barrier();
  for (const std::string& key : keys) writes.add("UNLINK", key);
  if (!epoch.empty()) {
    if (const std::string_view account = (*found)[1].text(); !account.empty()) {
      const std::string names = keys_.merged_names(account), name = reader.str() + kIdMark;
      writes.add("ZREM", names, reader.view(), name + std::string((*found)[2].text()));
    }
    writes.add("INCR", epoch).add("EXPIRE", epoch, redis::kSeenEpochTtl.count());
  }
  FRESHET_CO_TRY(written, co_await redis::run_all(redis_, writes));
  if (write_queue_ != nullptr) {
    erased_.push_back(reader);
    settle_timer_->start();
  }
  co_return Result<void>();
}

void PersonalData::erase_again(redis::WriteQueue& write_queue, redis::RunAfter after) {
  write_queue_ = &write_queue;
  settle_timer_.emplace(std::move(after), kSettleTime, [this] { on_settled(); });
}

// The timer may have been started before the last of erased_, so they wait until it fires again.
void PersonalData::on_settled() {
  Pipeline removals;
  for (const ReaderId& reader : settling_)
    for (const std::string& key : keys_about(reader)) removals.add("UNLINK", key);
  settling_ = std::exchange(erased_, {});
  if (!removals.empty()) write_queue_->post(std::move(removals));
  if (!settling_.empty()) settle_timer_->start();
}

void PersonalData::flush() {
  while (!settling_.empty() || !erased_.empty()) on_settled();
}

Task<Result<std::string>> PersonalData::request_erasure(const ReaderId& reader) {
  const std::string id = new_job_id_(), job = keys_.job(id), spools = keys_.spools_empty_at();
  Pipeline reads, writes;
  const std::string stream = keys_.partition_for(reader.view()).stream();
  reads.add("TIME").add("XLEN", stream).add("ZSCORE", spools, kErasureMember);
  FRESHET_CO_TRY(read_replies, co_await redis::run_all(redis_, reads));
  if ((*read_replies)[1].integer().value_or(0) >= keys_.per_partition(recorder_settings_.stream_max_len))
    co_return redis::stream_full();
  const std::int64_t now =
      redis::parse_time((*read_replies)[0]).value_or(std::chrono::microseconds{}) / milliseconds{1};
  const std::int64_t last = redis::to_int((*read_replies)[2].text()),
                     ttl = redis::tombstone_ttl(spool_settings_.max_age).count();
  for (const std::string& name : pseudonyms_.all(reader))
    writes.add("SET", keys_.tombstone(name), now / 1000, "EX", ttl);
  // A host that has not reported the last erasure within spool.max_age is considered gone.
  if (last > 0 && now - last > milliseconds(spool_settings_.max_age).count())
    writes.add("ZREMRANGEBYSCORE", spools, "-inf", "(" + std::to_string(last));
  writes.add("ZADD", spools, now, kErasureMember);
  writes.add("HSET", job, "state", "queued", "done", 0, "total", 0, "failed", 0, "at", now);
  writes.add("EXPIRE", job, ttl);
  writes.barrier().add("XADD", stream, "*", "op", kOpErase, "reader", reader.view(), "job", id);
  FRESHET_CO_TRY(written, co_await redis::run_all(redis_, writes));
  co_return id;
}

Task<Result<std::string>> PersonalData::request_merge(const ReaderId& from, const ReaderId& to) {
  const std::string id = new_job_id_(), job = keys_.job(id);
  const std::string stream = keys_.partition_for(from.view()).stream();
  Pipeline read, writes;
  read.add("XLEN", stream);
  FRESHET_CO_TRY(length, co_await redis::run_one(redis_, read));
  if (length->integer().value_or(0) >= keys_.per_partition(recorder_settings_.stream_max_len))
    co_return redis::stream_full();
  writes.command(10 + 2 * kMovedKinds.size()).arg("HSET").arg(job).arg("state").arg("queued").arg("done");
  writes.arg(0).arg("total").arg(1).arg("failed").arg(0);
  for (const std::string_view kind : kMovedKinds) writes.arg(kind).arg(0);
  writes.add("EXPIRE", job, redis::kJobTtl.count());
  writes.barrier().add("XADD", stream, "*", "op", kOpMerge, "reader", from.view(), "to", to.view(), "job",
                       id);
  FRESHET_CO_TRY(written, co_await redis::run_all(redis_, writes));
  co_return id;
}

Task<Result<PersonalData::ReaderAge>> PersonalData::read_age(const ReaderId& reader) {
  const std::string_view id = reader.view();
  Pipeline read;
  read.add("TIME").add("ZREVRANGE", keys_.interactions(id), 0, 0, "WITHSCORES");
  read.add("ZREVRANGE", keys_.not_interested(id), 0, 0, "WITHSCORES").add("TTL", keys_.view_times(id));
  read.add("TTL", keys_.feed_state(id)).add("EXISTS", keys_.merged_into(pseudonyms_.erasure(reader)));
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, read));
  const redis::Replies& found = *replies;
  ReaderAge out;
  out.merged = found[5].integer().value_or(0) == 1;
  const auto add = [&](seconds since) {
    out.since_change = std::min(out.since_change.value_or(since), since);
  };
  const seconds now(redis::to_int(redis::string_at(found[0], 0)));
  for (const std::size_t newest : {1U, 2U}) {
    if (found[newest].size() == 2) add(now - seconds(redis::to_int(redis::string_at(found[newest], 1))));
  }
  // The other keys are given their TTL with each change.
  const seconds views_left(found[3].integer().value_or(-2)), feed_left(found[4].integer().value_or(-2));
  if (views_left.count() >= 0) add(reader_settings_.bounded_ttl(id, history_ttl_) - views_left);
  const seconds acknowledged = reader_settings_.bounded_ttl(id, feed_ttl_);
  if (feed_left.count() >= 0)
    add((feed_left <= acknowledged ? acknowledged : reader_settings_.bounded_ttl(id, redis::kPendingTtl)) -
        feed_left);
  co_return out;
}

Task<Result<LoginMerge>> PersonalData::merge_on_login(const ReaderId& visitor, const ReaderId& account) {
  if (!pseudonyms_.erasure) co_return LoginMerge::kNothing;
  FRESHET_CO_TRY(age, co_await read_age(visitor));
  if (!age->since_change) co_return age->merged ? LoginMerge::kMoved : LoginMerge::kNothing;
  if (*age->since_change > merge_window_) co_return LoginMerge::kNothing;
  Pipeline guard;
  guard.add("SET", keys_.merge_guard(pseudonyms_.erasure(visitor)), 1, "NX", "EX",
            redis::kMergeGuardTtl.count());
  FRESHET_CO_TRY(set, co_await redis::run_one(redis_, guard));
  if (set->is_nil()) co_return LoginMerge::kRunning;
  FRESHET_CO_TRY(job, co_await request_merge(visitor, account));
  co_return LoginMerge::kRunning;
}

Task<Result<std::vector<ReaderId>>> PersonalData::merged_readers(const ReaderId& reader) {
  Pipeline read;
  read.add("ZRANGE", keys_.merged_names(reader.view()), 0, -1);
  FRESHET_CO_TRY(names, co_await redis::run_one(redis_, read));
  std::vector<ReaderId> out;
  for (std::size_t i = 0; i < names->size(); ++i) {
    const std::string_view name = redis::string_at(*names, i);
    out.push_back(ReaderId::trusted(std::string(name.substr(0, name.find(kIdMark)))));  // without the epoch
  }
  co_return out;
}

Task<Result<Job>> PersonalData::job(const EventId& id) {
  Pipeline command;
  command.command(7 + kMovedKinds.size()).arg("HMGET").arg(keys_.job(id.view()));
  command.arg("state").arg("done").arg("total").arg("failed").arg("at");
  for (const std::string_view kind : kMovedKinds) command.arg(kind);
  command.add("TIME");
  SpoolRegistry(spool_settings_, keys_).append_read(command);
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis_, command));
  const redis::Reply* const reply = replies->data();
  Job out;
  out.state = std::string(redis::string_at(*reply, 0));
  if (out.state.empty()) co_return fail(ErrorCode::kNotFound, "unknown_job", "id");
  out.done = redis::parse_or_zero<std::int64_t>(redis::string_at(*reply, 1));
  out.total = redis::parse_or_zero<std::int64_t>(redis::string_at(*reply, 2));
  out.failed = redis::parse_or_zero<std::int64_t>(redis::string_at(*reply, 3));
  constexpr std::size_t kFirstMoved = 5;
  for (std::size_t i = 0; i < kMovedKinds.size() && !redis::string_at(*reply, kFirstMoved + i).empty(); ++i)
    out.moved.push_back(redis::to_int(redis::string_at(*reply, kFirstMoved + i)));
  const milliseconds at(redis::parse_or_zero<std::int64_t>(redis::string_at(*reply, 4)));
  const seconds now(redis::parse_or_zero<std::int64_t>(redis::string_at((*replies)[1], 0)));
  // Spool records older than spool.max_age are dropped unread, so older erasures need not wait.
  if (out.state == "done" && at.count() > 0 && now - at <= spool_settings_.max_age)
    out.pending_hosts = unreported_hosts((*replies)[2], at);
  if (!out.pending_hosts.empty()) out.state = "waiting";
  co_return out;
}

Task<Result<bool>> was_erased(redis::Redis& redis, const std::string& tombstone, milliseconds age) {
  constexpr seconds kTolerance{120};
  Pipeline command;
  command.add("GET", tombstone).add("TIME");
  FRESHET_CO_TRY(replies, co_await redis::run_all(redis, command));
  const auto erased = redis::parse<std::int64_t>(replies->front().text());
  if (!erased) co_return false;
  const auto now = redis::parse_or_zero<std::int64_t>(redis::string_at((*replies)[1], 0));
  co_return seconds{now} - age <= seconds{*erased} + kTolerance;
}

}  // namespace freshet::readers

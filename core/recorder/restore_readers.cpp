#include "core/recorder/restore_readers.h"

#include <vector>

#include "core/redis/fields.h"
#include "core/redis/keys.h"
#include "core/redis/scripts.h"
#include "core/timeline/follow_store.h"

namespace freshet::recorder {
namespace {

constexpr std::size_t kMaxMembersPerScript = 500;  // per script call
constexpr std::size_t kPipelineBytes = 1 << 18;    // per pipeline

// Calls on_progress before each pipeline.
class Sender {
 public:
  Sender(redis::BlockingRedis& redis, const ProgressCallback& pulse) : redis_(redis), on_progress_(pulse) {}
  Result<redis::Replies> operator()(const redis::Pipeline& pipeline) const {
    const Result<void> progress = on_progress_ ? on_progress_() : Result<void>();
    return progress ? redis_.call_each(pipeline) : tl::unexpected(progress.error());
  }

 private:
  redis::BlockingRedis& redis_;
  const ProgressCallback& on_progress_;
};

struct Member {
  UnixSeconds at;
  std::string name, reason;
};

// Adds members to one key after the other, oldest first. The script trims the key, so the number of
// members is unlimited.
class ReaderRestorer {
 public:
  // `archive_limit`: see reader_put.lua.
  ReaderRestorer(Sender send, int max_members, std::string archive_limit, seconds ttl, UnixSeconds now)
      : send_pipeline_(send),
        max_members_(max_members),
        archive_limit_(std::move(archive_limit)),
        ttl_(ttl),
        oldest_(now - ttl) {}

  Result<void> add(std::vector<std::string> keys, Member member) {
    if (member.at < oldest_) return {};
    if (keys != keys_ || members_.size() == kMaxMembersPerScript) finish_script();
    keys_ = std::move(keys);
    members_.push_back(std::move(member));
    return out_.bytes().size() < kPipelineBytes ? Result<void>() : send();
  }
  Result<void> finish() {
    finish_script();
    return send();
  }
  std::int64_t written() const { return written_; }

 private:
  void finish_script() {
    if (members_.empty()) return;
    out_.script(scripts::kReaderPut);
    for (const std::string& key : keys_) out_.key(key);
    out_.arg(max_members_).arg(ttl_.count()).arg(archive_limit_).arg("").arg(members_.size());
    for (const Member& each : members_)
      out_.arg(each.at.time_since_epoch().count()).arg(each.name).arg(each.reason);
    members_.clear();
  }
  Result<void> send() {
    if (out_.empty()) return {};
    FRESHET_TRY(replies, send_pipeline_(out_));
    for (const redis::Reply& each : *replies) {
      if (each.is_error()) return tl::unexpected(redis::classify(each.error()));
      written_ += each.integer().value_or(0);
    }
    out_.clear();
    return {};
  }

  const Sender send_pipeline_;
  const int max_members_;
  const std::string archive_limit_;
  const seconds ttl_;
  const UnixSeconds oldest_;
  std::vector<std::string> keys_;
  std::vector<Member> members_;
  redis::Pipeline out_;
  std::int64_t written_ = 0;
};

// Writes follows in both directions, in batches.
class FollowRestorer {
 public:
  FollowRestorer(Sender send, const redis::Keys& keys) : send_pipeline_(send), keys_(keys) {}

  Result<void> add(const readers::Follow& follow) {
    follows_.push_back(follow);
    return follows_.size() < kMaxMembersPerScript ? Result<void>() : flush();
  }
  // Reads the outbox marks first, so that anything published for pulling in between will be pulled.
  Result<void> flush() {
    if (follows_.empty()) return {};
    redis::Pipeline marks, both;  // neither list needs an order
    for (const readers::Follow& each : follows_)
      marks.add("ZSCORE", keys_.pull_outbox(each.author.view()), redis::kHighestMark);
    FRESHET_TRY(found, send_pipeline_(marks));
    for (std::size_t i = 0; i < follows_.size(); ++i) {
      const std::string_view reader = follows_[i].reader.view(), author = follows_[i].author.view();
      const std::int64_t pulled = -redis::to_int((*found)[i].text());
      timeline::append_push(both, keys_.followers(author), std::nullopt, {reader});
      both.add("ZADD", keys_.followed_authors(reader), "NX", pulled, author);
    }
    follows_.clear();
    FRESHET_TRY(written, send_pipeline_(both));
    for (const redis::Reply& each : *written) {
      if (each.is_error()) return tl::unexpected(redis::classify(each.error()));
      written_ += each.integer().value_or(0);  // the script returns an array, which counts as 0
    }
    return {};
  }
  std::int64_t written() const { return written_; }

 private:
  const Sender send_pipeline_;
  const redis::Keys& keys_;
  std::vector<readers::Follow> follows_;
  std::int64_t written_ = 0;
};

}  // namespace

Result<RestoredReaderCounts> restore_readers(redis::BlockingRedis& redis, database::Database& database,
                                             const Settings& settings, UnixSeconds now,
                                             const ProgressCallback& on_progress) {
  const redis::Keys keys(settings.redis);
  const Sender send(redis, on_progress);
  ReaderRestorer events(send, settings.interactions.max_kept,
                        std::to_string(settings.interactions.max_archived()), settings.interactions.ttl, now);
  auto read = database.readers().for_each_interaction([&](const readers::ReaderEvent& each) {
    const std::string member = std::string(1, readers::kind_of(each.kind).letter) + ":" + each.item.str();
    const std::string_view reader = each.reader.view();
    return events.add({keys.interactions(reader), keys.archived_interactions(reader)}, {each.at, member, {}});
  });
  if (read) read = events.finish();
  if (!read) return tl::unexpected(read.error());

  ReaderRestorer dismissals(send, settings.feedback.max_items, {}, settings.feedback.ttl, now);
  read = database.readers().for_each_dismissal([&](const readers::DismissalRecord& each) {
    const std::string_view reader = each.dismissal.reader.view();
    return dismissals.add({keys.not_interested(reader), keys.not_interested_reasons(reader)},
                          {each.at, each.dismissal.item.str(), each.dismissal.reason});
  });
  if (read) read = dismissals.finish();
  if (!read) return tl::unexpected(read.error());

  FollowRestorer follows(send, keys);
  read = database.readers().for_each_follow([&](const readers::Follow& each) { return follows.add(each); });
  if (read) read = follows.flush();
  if (!read) return tl::unexpected(read.error());
  return RestoredReaderCounts{events.written(), dismissals.written(), follows.written()};
}

Result<void> restore_tombstones(redis::BlockingRedis& redis, database::Database& database,
                                const Settings& settings, UnixSeconds now) {
  const redis::Keys keys(settings.redis);
  const seconds ttl = redis::tombstone_ttl(settings.spool.max_age);
  FRESHET_TRY(erased, database.erasures_since(now - ttl));
  redis::Pipeline out;
  const auto send = [&]() -> Result<void> {
    if (out.empty()) return {};
    FRESHET_TRY(written, redis.call_all(out));
    out.clear();
    return {};
  };
  for (const database::Database::Erasure& each : *erased) {
    const seconds remaining_ttl = each.at + ttl - now;
    if (remaining_ttl.count() <= 0) continue;
    // If both know an erasure, the later one must win; the one in Redis is never older.
    out.add("SET", keys.tombstone(each.reader), unix_s(each.at), "NX", "EX", remaining_ttl.count());
    if (out.bytes().size() < kPipelineBytes) continue;
    if (auto ok = send(); !ok) return ok;
  }
  return send();
}

}  // namespace freshet::recorder

#include "scripts/ctl/commands/fill.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>

#include "core/base/json.h"
#include "core/base/log.h"
#include "core/base/secret.h"
#include "core/feed/feed_store.h"
#include "core/items/item_store.h"
#include "core/readers/reader_store.h"
#include "core/recommend/recommender.h"
#include "core/redis/scripts.h"
#include "core/timeline/channel_fill.h"
#include "core/timeline/timeline_store.h"
#include "fcgi/http/identity.h"
#include "scripts/ctl/commands/fill_readers.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/without_worker.h"

namespace freshet::ctl {
namespace {

constexpr std::string_view kInterrupted = "interrupted";  // reason of an Error, within this file

// SIGTERM and SIGINT, held back so that no reader is left half served.
class Stop {
 public:
  Stop() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
  }
  void hold() { pthread_sigmask(SIG_BLOCK, &signals_, nullptr); }
  // Whether one came; takes it.
  bool came(seconds within = seconds{0}) const {
    timespec limit{};
    limit.tv_sec = within.count();
    return sigtimedwait(&signals_, nullptr, &limit) > 0;
  }

 private:
  sigset_t signals_{};
};

Result<void> check_channel(const std::string& channel, const TimelineSettings& settings) {
  if (channel == settings.follow_channel) {
    return fail(ErrorCode::kInvalid, "follow_channel", "channel",
                channel + " is filled by those who are followed, not by recommendations");
  }
  const auto& channels = settings.channels;
  if (std::find(channels.begin(), channels.end(), channel) != channels.end()) return {};
  return fail(ErrorCode::kInvalid, "unknown_channel", "channel",
              fmt::format("no channel {}; waterfall.channels has {}", channel, fmt::join(channels, ", ")));
}

// Under what name the filter knows readers who were erased. Without identity.salt_file each start
// of the service has a salt of its own, which nobody else can know: such a reader is then known by
// the id alone.
Result<std::shared_ptr<http::Identity>> shared_identity(const IdentitySettings& settings) {
  if (settings.salt_file.empty()) return nullptr;
  FRESHET_TRY(salt, read_secret(settings.salt_file));
  FRESHET_TRY(identity, http::Identity::create(http::parse_identity_mode(settings.mode), *salt));
  return std::make_shared<http::Identity>(std::move(*identity));
}

feed::SeenEpochs::Pseudonym epoch_names(const std::shared_ptr<http::Identity>& identity) {
  if (!identity) return {};
  return [identity](const ReaderId& reader) { return identity->erasure_pseudonym(reader); };
}

// Everything that a worker has for this, on one blocking connection.
struct Parts {
  Parts(redis::BlockingRedis& redis, const Settings& settings, const redis::Keys& keys,
        const std::shared_ptr<http::Identity>& identity)
      : readers(redis, nothing, settings, keys, [] { return std::string(); }),
        items(redis, settings, keys),
        trend(redis, settings, keys),
        recommender(trend, model, settings),
        cards(items, settings.items_cache_bytes),
        recommendations(readers, recommender, cards, recall, settings),
        filter(feed::make_seen_filter(settings, keys)),
        seen(redis, *filter, settings, keys, wall_now, epoch_names(identity)),
        timelines(redis, redis, nothing, cards, settings, keys),
        fill(recommendations, seen, timelines) {
    model.open(settings.recommend.model);
  }
  NoDeferred nothing;
  NoRecall recall;
  readers::RedisReaderStore readers;
  items::RedisItemStore items;
  recommend::TrendSource trend;
  model::ActiveModel model;
  recommend::MappedRecommender recommender;
  items::CardCache cards;
  recommend::Recommendations recommendations;
  std::unique_ptr<feed::SeenFilter> filter;
  feed::RedisFeedStore seen;
  timeline::RedisTimelineStore timelines;
  timeline::RecommendationPusher fill;
};

class FillRun {
 public:
  FillRun(const FillOptions& options, const Settings& settings, Parts& parts)
      : options_(options),
        limit_(static_cast<std::size_t>(options.limit > 0 ? options.limit : settings.fill.max_items)),
        parts_(parts) {}

  Result<void> serve(const ReaderId& reader) {
    if (stop_.came()) return fail(ErrorCode::kConflict, kInterrupted);
    if (options_.dry_run) return show(reader);
    FRESHET_TRY(pushed, redis::run_sync(parts_.fill.push(options_.channel, reader, limit_)));
    count(pushed->pushed, pushed->duplicates);
    return {};
  }
  FillSummary& summary() { return summary_; }

 private:
  Result<void> show(const ReaderId& reader) {
    FRESHET_TRY(chosen, redis::run_sync(parts_.fill.select(reader, limit_)));
    if (!options_.json) {
      fmt::print("{}:", reader.view());
      for (const ItemId& each : *chosen) fmt::print(" {}", each.view());
      fmt::print("\n");
    }
    count(static_cast<std::int64_t>(chosen->size()), 0);
    return {};
  }
  void count(std::int64_t pushed, std::int64_t duplicates) {
    ++(pushed > 0 ? summary_.served : summary_.nothing_new);
    summary_.pushed += pushed;
    summary_.duplicates += duplicates;
  }

  const FillOptions& options_;
  const std::size_t limit_;
  Parts& parts_;
  const Stop stop_;
  FillSummary summary_;
};

std::string json_of(const FillOptions& options, const FillSummary& summary) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("channel").string(options.channel).key("readers").integer(summary.readers);
  writer.key("served").integer(summary.served).key("skipped").integer(summary.skipped);
  writer.key("nothing_new").integer(summary.nothing_new).key("pushed").integer(summary.pushed);
  writer.key("duplicates").integer(summary.duplicates).key("dry_run").boolean(options.dry_run);
  writer.key("interrupted").boolean(summary.interrupted).end_object();
  return out;
}

void print(const FillOptions& options, const FillSummary& summary) {
  if (options.json) {
    fmt::print("{}\n", json_of(options, summary));
    std::fflush(stdout);
    return;
  }
  fmt::print("{}: {} readers, {} served, {} skipped, {} with nothing new; {} items {}", options.channel,
             grouped(summary.readers), grouped(summary.served), grouped(summary.skipped),
             grouped(summary.nothing_new), grouped(summary.pushed),
             options.dry_run ? "would be pushed" : "pushed");
  if (summary.duplicates > 0) fmt::print(", {} were there already", grouped(summary.duplicates));
  fmt::print("{}\n", summary.interrupted ? "; interrupted" : "");
  std::fflush(stdout);
}

}  // namespace

Result<FillSummary> fill_once(const FillOptions& options, const Target& target) {
  FRESHET_TRY(settings, settings_of(target));
  if (auto ok = check_channel(options.channel, settings->timeline); !ok) return tl::unexpected(ok.error());
  FRESHET_TRY(given, read_readers(options.readers, options.readers_file));
  FRESHET_TRY(identity, shared_identity(settings->identity));
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));

  redis::BlockingRedis redis(*endpoint, kRedisTimeout, redis::kAllScripts);
  const redis::Keys keys(settings->redis);
  Parts parts(redis, *settings, keys, *identity);
  FillRun run(options, *settings, parts);
  Active active;
  const auto work = [&]() -> Result<void> {
    if (auto ok = redis::run_sync(parts.filter->probe(redis)); !ok) return ok;
    const auto serve = [&run](const ReaderId& reader) { return run.serve(reader); };
    if (options.readers.empty() && options.readers_file.empty())
      return each_active(redis, keys, options.channel, wall_now() - settings->fill.active_within, active, serve);
    for (const ReaderId& each : *given) {
      if (auto ok = serve(each); !ok) return ok;
    }
    return {};
  };
  const auto worked = work();
  FillSummary& summary = run.summary();
  summary.interrupted = !worked && worked.error().reason == kInterrupted;
  if (!worked && !summary.interrupted) return tl::unexpected(at_redis(worked.error(), *endpoint));
  summary.skipped = active.skipped;
  summary.readers = summary.served + summary.nothing_new + summary.skipped;
  return summary;
}

Result<int> run_fill(const FillOptions& options, const Target& target) {
  log::open("stderr", "warning");  // that a model was mapped is no news, every so many seconds
  Stop stop;
  stop.hold();
  FRESHET_TRY(summary, fill_once(options, target));
  print(options, *summary);
  if (options.every == 0) return summary->interrupted ? 1 : 0;
  while (!summary || !summary->interrupted) {
    if (stop.came(seconds{options.every})) return 0;
    summary = fill_once(options, target);
    if (!summary)
      fmt::print(stderr, "freshetctl fill: {}\n", summary.error().detail);
    else if (summary->pushed > 0)
      print(options, *summary);
  }
  return 0;
}

}  // namespace freshet::ctl

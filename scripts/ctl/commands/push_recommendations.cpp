#include "scripts/ctl/commands/push_recommendations.h"

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
#include "core/timeline/recommendation_pusher.h"
#include "core/timeline/timeline_store.h"
#include "fcgi/http/identity.h"
#include "scripts/ctl/commands/noop_services.h"
#include "scripts/ctl/commands/print.h"
#include "scripts/ctl/commands/progress.h"
#include "scripts/ctl/commands/reader_selection.h"

namespace freshet::ctl {
namespace {

constexpr std::string_view kInterrupted = "interrupted";  // reason of an Error, used only in this file

// Blocks SIGTERM and SIGINT, so that they are only handled between two readers.
class TerminationSignals {
 public:
  TerminationSignals() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGTERM);
    sigaddset(&signals_, SIGINT);
  }
  void block() { pthread_sigmask(SIG_BLOCK, &signals_, nullptr); }
  // Waits up to `within` for a signal and consumes it. False: none.
  bool received(seconds within = seconds{0}) const {
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
                channel + " is the follow channel; it gets items of followed authors, not recommendations");
  }
  const auto& channels = settings.channels;
  if (std::find(channels.begin(), channels.end(), channel) != channels.end()) return {};
  return fail(
      ErrorCode::kInvalid, "unknown_channel", "channel",
      fmt::format("unknown channel {}; waterfall.channels has {}", channel, fmt::join(channels, ", ")));
}

// Pseudonyms under which the seen filter stores erased readers. Without identity.salt_file each
// start of the service has a random salt that no other process knows; the filter then uses plain
// ids.
Result<std::shared_ptr<http::Identity>> load_identity(const IdentitySettings& settings) {
  if (settings.salt_file.empty()) return nullptr;
  FRESHET_TRY(salt, read_secret(settings.salt_file));
  FRESHET_TRY(identity, http::Identity::create(http::parse_identity_mode(settings.mode), *salt));
  return std::make_shared<http::Identity>(std::move(*identity));
}

feed::SeenEpochs::Pseudonym make_erasure_pseudonym(const std::shared_ptr<http::Identity>& identity) {
  if (!identity) return {};
  return [identity](const ReaderId& reader) { return identity->erasure_pseudonym(reader); };
}

// The services that a worker would use for this, on one blocking connection.
struct PushServices {
  PushServices(redis::BlockingRedis& redis, const Settings& settings, const redis::Keys& keys,
               const std::shared_ptr<http::Identity>& identity)
      : readers(redis, write_queue, settings, keys, [] { return std::string(); }),
        items(redis, settings, keys),
        trend(redis, settings, keys),
        recommender(trend, model, settings),
        cards(items, settings.items_cache_bytes),
        recommendations(readers, recommender, cards, recall, settings),
        filter(feed::make_seen_filter(settings, keys)),
        seen(redis, *filter, settings, keys, wall_now, make_erasure_pseudonym(identity)),
        timelines(redis, redis, write_queue, cards, settings, keys),
        pusher(recommendations, seen, timelines) {
    model.open(settings.recommend.model);
  }
  NoopWriteQueue write_queue;
  NoopRecall recall;
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
  timeline::RecommendationPusher pusher;
};

class PushRun {
 public:
  PushRun(const PushRecommendationsOptions& options, const Settings& settings, PushServices& parts)
      : options_(options),
        limit_(static_cast<std::size_t>(options.limit > 0 ? options.limit : settings.fill.max_items)),
        services_(parts) {}

  Result<void> serve(const ReaderId& reader) {
    if (signals_.received()) return fail(ErrorCode::kConflict, kInterrupted);
    if (options_.dry_run) return preview(reader);
    FRESHET_TRY(pushed, redis::run_sync(services_.pusher.push(options_.channel, reader, limit_)));
    add_counts(pushed->pushed, pushed->duplicates);
    return {};
  }
  PushSummary& summary() { return summary_; }

 private:
  Result<void> preview(const ReaderId& reader) {
    FRESHET_TRY(chosen, redis::run_sync(services_.pusher.select(reader, limit_)));
    if (!options_.json) {
      ctl::print("{}:", reader.view());
      for (const ItemId& each : *chosen) ctl::print(" {}", each.view());
      ctl::print("\n");
    }
    add_counts(static_cast<std::int64_t>(chosen->size()), 0);
    return {};
  }
  void add_counts(std::int64_t pushed, std::int64_t duplicates) {
    ++(pushed > 0 ? summary_.served : summary_.nothing_new);
    summary_.pushed += pushed;
    summary_.duplicates += duplicates;
  }

  const PushRecommendationsOptions& options_;
  const std::size_t limit_;
  PushServices& services_;
  const TerminationSignals signals_;
  PushSummary summary_;
};

std::string json_of(const PushRecommendationsOptions& options, const PushSummary& summary) {
  std::string out;
  json::Writer writer(out);
  writer.begin_object().key("channel").string(options.channel).key("readers").integer(summary.readers);
  writer.key("served").integer(summary.served).key("skipped").integer(summary.skipped);
  writer.key("nothing_new").integer(summary.nothing_new).key("pushed").integer(summary.pushed);
  writer.key("duplicates").integer(summary.duplicates).key("dry_run").boolean(options.dry_run);
  writer.key("interrupted").boolean(summary.interrupted).end_object();
  return out;
}

void print(const PushRecommendationsOptions& options, const PushSummary& summary) {
  if (options.json) {
    print_json_line(json_of(options, summary));
    std::fflush(stdout);
    return;
  }
  ctl::print("{}: {} readers, {} served, {} skipped, {} with nothing new; {} items {}", options.channel,
             format_number(summary.readers), format_number(summary.served), format_number(summary.skipped),
             format_number(summary.nothing_new), format_number(summary.pushed),
             options.dry_run ? "would be pushed" : "pushed");
  if (summary.duplicates > 0) ctl::print(", {} already there", format_number(summary.duplicates));
  ctl::print("{}\n", summary.interrupted ? "; interrupted" : "");
  std::fflush(stdout);
}

}  // namespace

Result<PushSummary> push_once(const PushRecommendationsOptions& options, const Target& target) {
  FRESHET_TRY(settings, load_settings(target));
  if (auto ok = check_channel(options.channel, settings->timeline); !ok) return tl::unexpected(ok.error());
  FRESHET_TRY(named, read_reader_ids(options.readers, options.readers_file));
  FRESHET_TRY(identity, load_identity(settings->identity));
  FRESHET_TRY(endpoint, redis_endpoint(target, *settings));

  redis::BlockingRedis redis(*endpoint, kRedisTimeout, redis::kAllScripts);
  const redis::Keys keys(settings->redis);
  PushServices parts(redis, *settings, keys, *identity);
  PushRun run(options, *settings, parts);
  ActiveReaders active;
  const auto serve_all = [&]() -> Result<void> {
    if (auto ok = redis::run_sync(parts.filter->probe(redis)); !ok) return ok;
    const auto serve = [&run](const ReaderId& reader) { return run.serve(reader); };
    if (options.readers.empty() && options.readers_file.empty())
      return for_each_active_reader(redis, keys, options.channel, wall_now() - settings->fill.active_within,
                                    active, serve);
    for (const ReaderId& each : *named) {
      if (auto ok = serve(each); !ok) return ok;
    }
    return {};
  };
  const auto served = serve_all();
  PushSummary& summary = run.summary();
  summary.interrupted = !served && served.error().reason == kInterrupted;
  if (!served && !summary.interrupted) return tl::unexpected(with_redis_address(served.error(), *endpoint));
  summary.skipped = active.skipped;
  summary.readers = summary.served + summary.nothing_new + summary.skipped;
  return summary;
}

Result<int> run_push_recommendations(const PushRecommendationsOptions& options, const Target& target) {
  log::open("stderr", "warning");  // suppresses the model_mapped line of every run
  TerminationSignals stop;
  stop.block();
  FRESHET_TRY(summary, push_once(options, target));
  print(options, *summary);
  if (options.every == 0) return summary->interrupted ? 1 : 0;
  while (!summary || !summary->interrupted) {
    if (stop.received(seconds{options.every})) return 0;
    summary = push_once(options, target);
    if (!summary)
      ctl::print(stderr, "freshetctl push-recommendations: {}\n", summary.error().detail);
    else if (summary->pushed > 0)
      print(options, *summary);
  }
  return 0;
}

}  // namespace freshet::ctl

#include "fcgi/worker_services.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/base/hex.h"
#include "core/base/redis_clock.h"
#include "core/hot/spool_records.h"
#include "core/readers/spool_records.h"
#include "core/redis/cluster/make_client.h"
#include "core/redis/scripts.h"
#include "fcgi/reader_hashes.h"

namespace freshet {

namespace {

// Bulk commands have their own connection with a longer timeout, because a slow one must not break
// the requests on the common connection.
constexpr milliseconds kBulkTimeout{5000};
constexpr std::size_t kMaxQueuedExports = 4;  // exports that wait for the database

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  return hex(bytes);
}

redis::ConnectionOptions make_connection_options(const RedisSettings& settings, redis::Endpoint endpoint,
                                                 milliseconds timeout, milliseconds budget) {
  const redis::BreakerOptions breaker{settings.breaker_failures, settings.breaker_open,
                                      settings.reconnect_min, settings.reconnect_max};
  return {std::move(endpoint), timeout, breaker, std::max(milliseconds(0), budget - timeout), nullptr};
}

gateway::GatewayOptions gateway_options(const Settings& settings, WorkerSlot& slot) {
  gateway::GatewayOptions options;
  options.limits = {settings.gateway.max_params_bytes, settings.gateway.max_bulk_body_bytes};
  options.read_timeout = settings.gateway.read_timeout;
  options.write_timeout = settings.gateway.write_timeout;
  options.request_budget = settings.gateway.request_budget;
  options.bulk_budget = settings.gateway.bulk_budget;
  options.slow_timeout = settings.request_log.slow_timeout;
  options.phase_slot = &slot.phase;
  options.max_in_flight = static_cast<std::size_t>(settings.pool.max_in_flight);
  options.allowed_clients = NetworkSet::parse(settings.pool.listen_allowed_clients).value();
  return options;
}

redis::RunAfter make_scheduler(Timer& timer) {
  return [&timer](milliseconds span, std::function<void()> f) { timer.after(span, std::move(f)); };
}

}  // namespace

Result<WorkerSecrets> make_worker_secrets(const Settings& settings, const StartupFiles& files) {
  FRESHET_TRY(identity, http::Identity::create(http::parse_identity_mode(settings.identity.mode), files.salt,
                                               files.token_keys, settings.http.trusts_proxy()));
  FRESHET_TRY(signatures, http::SignatureKeys::create(files.internal_keys));
  FRESHET_TRY(pages, http::PageTokenSigner::create(files.salt));
  return WorkerSecrets{std::move(*identity), std::move(*pages), std::move(*signatures)};
}

WorkerServices::WorkerServices(WorkerContext& context, const StartupFiles& files, SharedTables& tables,
                               const redis::Endpoint& endpoint, WorkerSecrets worker_secrets)
    : settings(context.settings),
      slot(context.board.slots()[context.slot_index]),
      secrets(std::move(worker_secrets)),
      keys(settings.redis),
      sentinel_resolver(loop, make_connection_options(settings.redis, endpoint, settings.redis.timeout, {})),
      redis(redis::make_client(
          loop, connection_options(endpoint, settings.redis.timeout, settings.gateway.request_budget),
          redis::kAllScripts)),
      bulk(redis::make_client(loop, connection_options(endpoint, kBulkTimeout, settings.gateway.bulk_budget),
                              redis::kAllScripts)),
      background(
          loop,
          redis::make_client(loop, connection_options(endpoint, kBulkTimeout, settings.gateway.bulk_budget),
                             redis::kAllScripts),
          {.spool_directory = settings.spool.path,
           .spool_bytes = settings.spool.max_bytes,
           .queue_commands = settings.spool.max_queued_commands,
           .pause_replay =
               [&sample = context.board.redis_sample()] {
                 return sample.memory_full.load() || !redis_clock_offset();
               },
           .apply = [this](const std::vector<std::string_view>& fields) { return replay_event(fields); },
           .max_age = settings.spool.max_age,
           .is_erased = [this](const std::vector<std::string_view>& fields,
                               milliseconds age) { return is_erased(fields, age); }}),
      subscriber(loop, subscriber_options(endpoint), keys.epoch(), make_listener()),
      rank_updater_timer(loop),
      contributions_timer(loop),
      view_counts_timer(loop),
      impressions_timer(loop),
      reads_timer(loop),
      active_readers_timer(loop),
      erased_visitors_timer(loop),
      rank_updater(background, settings, keys, make_scheduler(rank_updater_timer), &slot.crash_journal),
      contributions(background, settings, keys, random_id, make_scheduler(contributions_timer)),
      view_counts(background, keys, make_scheduler(view_counts_timer)),
      hot(*redis, {background, rank_updater, contributions, view_counts}, settings, keys, random_id),
      hot_bulk(*bulk, {background, rank_updater, contributions, view_counts}, settings, keys, random_id),
      items(*redis, settings, keys),
      items_bulk(*bulk, settings, keys),
      cards(items, settings.items_cache_bytes),
      impressions(background, keys, make_scheduler(impressions_timer)),
      lists(hot, cards, settings,
            [&sample = context.board.redis_sample()] {
              return sample.memory.load().usage() >= redis::kScarceUsage;
            }),
      seen_filter(feed::make_seen_filter(settings, keys)),
      feed_store(*redis, *seen_filter, settings, keys, wall_now, reader_hashes(secrets.identity).erasure),
      reads(background, settings, keys, make_scheduler(reads_timer)),
      readers(*redis, background, settings, keys, random_id),
      readers_bulk(*bulk, background, settings, keys, random_id),
      recall(settings, loop),
      feed(feed_store, recall, cards, settings),
      trend(*redis, settings, keys),
      recommender(trend, model, settings),
      recommendations(readers, recommender, cards, recall, settings),
      timelines(*redis, *bulk, background, cards, settings, keys, make_scheduler(active_readers_timer)),
      follows(*redis, settings, keys, random_id),
      export_pool(loop, 1, kMaxQueuedExports, "export_busy"),
      past_lists_pool(loop, 1, 1, "past_lists_busy"),
      users(*bulk, export_pool, settings, keys, reader_hashes(secrets.identity), random_id),
      limits(tables.limits, settings.limits),
      services{settings,
               hot,
               hot_bulk,
               items,
               items_bulk,
               cards,
               lists,
               tables.last_lists,
               feed,
               readers,
               readers_bulk,
               recommendations,
               timelines,
               follows,
               users,
               secrets.pages,
               secrets.identity,
               *files.bot_matcher,
               limits,
               context.board,
               slot,
               [this] { return redis->ready(); },
               [this](const ReaderId& reader, const ItemId& item, milliseconds dwell) {
                 reads.add_interest(reader, item, dwell);
               },
               [this](const readers::View& view) { reads.add_view(view); },
               [this](tuning::PastListQuery query) {
                 return past_lists_pool.run<std::vector<tuning::PastEntry>>(
                     [database = settings.recorder.database, query](std::size_t) {
                       return tuning::past_list(database, query);
                     });
               },
               files.client_lists.get(),
               &secrets.signatures},
      application(services),
      observer(settings.request_log, context.board, slot, redis::kAllScripts),
      gateway(
          loop, gateway_options(settings, slot),
          [this](Request& request, Response& response) { return application.serve(request, response); },
          [this](const Request& request, gateway::RefusalReason why, Response& response) {
            refuse(request, why, response);
          },
          &observer) {
  for (readers::RedisReaderStore* store : {&readers, &readers_bulk}) {
    store->on_use([this](const ReaderId& reader, const ItemId& item, std::optional<UnixSeconds> at,
                         bool is_noted) { feed.record_use(reader, item, at, is_noted); });
  }
  users.erase_again(background, make_scheduler(erased_visitors_timer));
  reads.on_covisit(
      [this](const ItemId& before, const ItemId& item) { view_counts.add_covisit(before, item); });
  feed.on_impressions([this](std::span<const ItemId> page) { impressions.add(page); });
  recommendations.on_impressions([this](std::span<const ItemId> page) { impressions.add(page); });
}

Task<Result<void>> WorkerServices::replay_event(const std::vector<std::string_view>& fields) {
  Result<void> applied;
  const std::string_view reader =
      hot::is_hot_event(fields) ? std::string_view() : readers::reader_of_record(fields);
  if (hot::is_hot_event(fields)) {
    applied = co_await hot::apply_spool_record(hot_bulk, fields);
  } else if (reader.empty()) {
    applied = co_await readers::apply_spool_record(readers_bulk, fields);
  } else {
    FRESHET_CO_TRY(target, co_await merge_target(ReaderId::trusted(std::string(reader))));
    std::vector<std::string_view> redirected = fields;
    redirected[readers::kReaderField] = target->view();
    applied = co_await readers::apply_spool_record(readers_bulk, redirected);
  }
  co_return applied;
}

Task<Result<ReaderId>> WorkerServices::merge_target(ReaderId reader) {
  for (int merges = 0; merges < readers::kMaxMerges; ++merges) {
    redis::Pipeline read;
    read.add("GET", keys.merged_into(secrets.identity.erasure_pseudonym(reader)));
    FRESHET_CO_TRY(target, co_await redis::run_one(*bulk, read));
    if (target->is_nil()) break;
    reader = ReaderId::trusted(std::string(target->text()));
  }
  co_return reader;
}

// True for events of readers who were erased since, also after a merge into them.
Task<Result<bool>> WorkerServices::is_erased(const std::vector<std::string_view>& fields, milliseconds age) {
  std::vector<std::string> names;
  if (hot::is_hot_event(fields)) {
    names.emplace_back(hot::spooled_visitor(fields));
  } else if (const auto id = readers::reader_of_record(fields); !id.empty()) {
    const ReaderId reader = ReaderId::trusted(std::string(id));
    FRESHET_CO_TRY(target, co_await merge_target(reader));
    names.push_back(secrets.identity.erasure_pseudonym(reader));
    if (*target != reader) names.push_back(secrets.identity.erasure_pseudonym(*target));
  }
  Result<bool> erased = false;
  for (const std::string& name : names) {
    if (!erased || *erased || name.empty()) break;
    erased = co_await readers::was_erased(*bulk, keys.tombstone(name), age);
  }
  co_return erased;
}

redis::ConnectionOptions WorkerServices::connection_options(const redis::Endpoint& endpoint,
                                                            milliseconds timeout, milliseconds budget) {
  redis::ConnectionOptions options = make_connection_options(settings.redis, endpoint, timeout, budget);
  if (!endpoint.sentinels.addresses.empty()) options.resolver = &sentinel_resolver;
  return options;
}

redis::ConnectionOptions WorkerServices::subscriber_options(const redis::Endpoint& endpoint) {
  redis::ConnectionOptions options = connection_options(endpoint, settings.redis.timeout, {});
  options.resolver = redis->resolver();
  return options;
}

void WorkerServices::refuse(const Request& request, gateway::RefusalReason reason, Response& response) {
  if (reason == gateway::RefusalReason::kOverloaded)
    application.overloaded(request, response);
  else
    application.deadline_exceeded(request, response);
}

redis::SubscriberCallbacks WorkerServices::make_listener() {
  return {.on_message = [this](std::string_view message) { on_invalidation(message); },
          .on_subscribed =
              [this] {
                lists.invalidate(true);
                cards.invalidate_all();
              },
          .on_heartbeat = [this](auto at) { cards.heartbeat(at); }};
}

void WorkerServices::on_invalidation(std::string_view message) {
  const auto invalidation = items::parse_invalidation(message);
  if (!invalidation) {
    slot.invalidations_ignored.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  invalidation->item ? cards.invalidate(*invalidation->item) : cards.invalidate_all();
  if (!invalidation->lists) return;
  lists.invalidate(false);
  services.last_lists.clear();
}

}  // namespace freshet

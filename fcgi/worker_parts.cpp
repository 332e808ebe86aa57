#include "fcgi/worker_parts.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>

#include "core/base/agreed_clock.h"
#include "core/base/hex.h"
#include "core/hot/stored_events.h"
#include "core/readers/stored_events.h"
#include "core/redis/cluster/make_client.h"
#include "core/redis/scripts.h"
#include "fcgi/reader_hashes.h"

namespace freshet {

namespace {

// A slow bulk command must not kill what waits on the common connection: bulk has one of its own,
// with patience.
constexpr milliseconds kBulkTimeout{5000};
constexpr std::size_t kMostExports = 4;  // that wait for the database

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  return hex(bytes);
}

redis::ConnectionOptions link_options(const RedisSettings& settings, redis::Endpoint endpoint, milliseconds timeout,
                                milliseconds budget) {
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
  options.phase_slot = &slot.stage;
  options.max_in_flight = static_cast<std::size_t>(settings.pool.max_in_flight);
  options.allowed_clients = settings.pool.listen_allowed_clients;
  return options;
}

redis::RunAfter after(Timer& timer) {
  return [&timer](milliseconds span, std::function<void()> f) { timer.after(span, std::move(f)); };
}

}  // namespace

Result<WorkerSecrets> worker_secrets(const Settings& settings, const Prepared& prepared) {
  FRESHET_TRY(identity, http::Identity::create(http::parse_identity_mode(settings.identity.mode), prepared.salt,
                                               prepared.tokens, settings.http.scheme_header != "none"));
  FRESHET_TRY(signatures, http::SignatureKeys::create(prepared.internal));
  FRESHET_TRY(pages, http::PageTokenSigner::create(prepared.salt));
  return WorkerSecrets{std::move(*identity), std::move(*pages), std::move(*signatures)};
}

WorkerParts::WorkerParts(WorkerContext& context, const Prepared& prepared, TokenBucketTable& limit_table,
                         const redis::Endpoint& endpoint, WorkerSecrets its_secrets)
    : settings(context.settings),
      slot(context.board.slots()[context.slot]),
      secrets(std::move(its_secrets)),
      keys(settings.redis),
      finder(loop, link_options(settings.redis, endpoint, settings.redis.timeout, {})),
      redis(redis::make_client(loop, link(endpoint, settings.redis.timeout, settings.gateway.request_budget),
                               redis::kAllScripts)),
      bulk(redis::make_client(loop, link(endpoint, kBulkTimeout, settings.gateway.bulk_budget),
                              redis::kAllScripts)),
      background(loop,
                 redis::make_client(loop, link(endpoint, kBulkTimeout, settings.gateway.bulk_budget),
                                    redis::kAllScripts),
                 {.spool_directory = settings.spool.path,
                  .spool_bytes = settings.spool.max_bytes,
                  .queue_commands = settings.spool.max_queued_commands,
                  .pause_replay =
                      [&sample = context.board.sample()] { return sample.full.load() || !redis_clock_offset(); },
                  .apply = [this](const std::vector<std::string_view>& fields) { return apply(fields); },
                  .max_age = settings.spool.max_age,
                  .is_erased = [this](const std::vector<std::string_view>& fields,
                                    milliseconds age) { return is_void(fields, age); }}),
      subscriber(loop, listening(endpoint), keys.epoch(), listener()),
      placing_timer(loop),
      contributions_timer(loop),
      shown_timer(loop),
      interests_timer(loop),
      placing(background, settings, keys, after(placing_timer), &slot.unplaced),
      contributions(background, settings, keys, random_id, after(contributions_timer)),
      hot(*redis, {background, placing, contributions}, settings, keys, random_id),
      bulk_hot(*bulk, {background, placing, contributions}, settings, keys, random_id),
      items(*redis, settings, keys),
      bulk_items(*bulk, settings, keys),
      cards(items, settings.items_cache_bytes),
      shown(background, keys, after(shown_timer)),
      lists(hot, cards, settings),
      seen_filter(feed::make_seen_filter(settings, keys)),
      feed_store(*redis, *seen_filter, settings, keys, wall_now, reader_hashes(secrets.identity).erasure),
      interests(background, settings, keys, after(interests_timer)),
      readers(*redis, background, settings, keys, random_id),
      bulk_readers(*bulk, background, settings, keys, random_id),
      recall(settings, loop),
      feed(feed_store, recall, cards, settings),
      trend(*redis, settings, keys),
      recommender(trend, model, settings),
      recommendations(readers, recommender, cards, recall, settings),
      waterfall(*redis, *bulk, background, cards, settings, keys),
      follows(*redis, settings, keys, random_id),
      users_pool(loop, 1, kMostExports, "export_busy"),
      users(*bulk, users_pool, settings, keys, reader_hashes(secrets.identity), random_id),
      limits(limit_table, settings.limits),
      services{settings,
               hot,
               bulk_hot,
               items,
               bulk_items,
               cards,
               lists,
               feed,
               readers,
               bulk_readers,
               recommendations,
               waterfall,
               follows,
               users,
               secrets.pages,
               secrets.identity,
               *prepared.bots,
               limits,
               context.board,
               slot,
               [this] { return redis->ready(); },
               [this](const ReaderId& reader, const ItemId& item, milliseconds dwell) {
                 interests.add(reader, item, dwell);
               },
               prepared.clients.get(),
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
  feed.on_impressions([this](std::span<const ItemId> page) { shown.add(page); });
}

Task<Result<void>> WorkerParts::apply(const std::vector<std::string_view>& fields) {
  return hot::is_hot_event(fields) ? hot::apply_spool_record(bulk_hot, fields) : readers::apply_spool_record(bulk_readers, fields);
}

// What readers did before they were erased.
Task<Result<bool>> WorkerParts::is_void(const std::vector<std::string_view>& fields, milliseconds age) {
  std::string name;
  if (hot::is_hot_event(fields))
    name = hot::spooled_visitor(fields);
  else if (const auto reader = readers::reader_of_record(fields); !reader.empty())
    name = secrets.identity.erasure_pseudonym(ReaderId::trusted(std::string(reader)));
  if (name.empty()) co_return false;
  const Result<bool> erased = co_await readers::was_erased(*bulk, keys.tombstone(name), age);
  co_return erased;
}

redis::ConnectionOptions WorkerParts::link(const redis::Endpoint& endpoint, milliseconds timeout,
                                     milliseconds budget) {
  redis::ConnectionOptions options = link_options(settings.redis, endpoint, timeout, budget);
  if (!endpoint.sentinels.addresses.empty()) options.resolver = &finder;
  return options;
}

redis::ConnectionOptions WorkerParts::listening(const redis::Endpoint& endpoint) {
  redis::ConnectionOptions options = link(endpoint, settings.redis.timeout, {});
  options.resolver = redis->resolver();
  return options;
}

void WorkerParts::refuse(const Request& request, gateway::RefusalReason why, Response& response) {
  if (why == gateway::RefusalReason::kOverloaded)
    application.overloaded(request, response);
  else
    application.deadline_exceeded(request, response);
}

redis::SubscriberCallbacks WorkerParts::listener() {
  return {.on_message = [this](std::string_view message) { announced(message); },
          .on_subscribed =
              [this] {
                lists.invalidate(true);
                cards.invalidate_all();
              },
          .on_heartbeat = [this](auto at) { cards.heartbeat(at); }};
}

void WorkerParts::announced(std::string_view message) {
  const auto said = items::parse_invalidation(message);
  if (!said) {
    slot.announcements_ignored.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  said->item ? cards.invalidate(*said->item) : cards.invalidate_all();
  if (said->lists) lists.invalidate(false);
}

}  // namespace freshet

#include "fcgi/worker.h"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <optional>
#include <utility>

#include "core/async/background.h"
#include "core/async/event_loop.h"
#include "core/async/redis_connection.h"
#include "core/async/redis_subscriber.h"
#include "core/async/sentinel.h"
#include "core/base/log.h"
#include "core/feed/hot_lists.h"
#include "core/feed/recommendations.h"
#include "core/feed/smart_feed.h"
#include "core/store/feed_store.h"
#include "core/store/follow_store.h"
#include "core/store/hot_store.h"
#include "core/store/item_store.h"
#include "core/store/reader_store.h"
#include "core/store/rebuild.h"
#include "core/store/recall.h"
#include "core/store/recommender.h"
#include "core/store/scripts.h"
#include "core/store/seen_filter.h"
#include "core/store/users.h"
#include "core/store/waterfall_store.h"
#include "fcgi/gateway/gateway.h"
#include "fcgi/handlers/application.h"
#include "fcgi/http/signature.h"
#include "fcgi/observe/request_observer.h"
#include "fcgi/process/recycle.h"
#include "fcgi/reader_hashes.h"
#include "fcgi/sampler.h"
#include "fcgi/worker_report.h"

namespace freshet {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;

// A slow bulk command must not kill what waits on the common connection: bulk has one of its own, with
// patience.
constexpr milliseconds kBulkTimeout{5000};
// The loop turns at least so often, for the master's watchdog.
constexpr milliseconds kHeartbeat{500};
constexpr std::size_t kMostExports = 4;  // that wait for the database
constexpr int kExitUnusable = 69;        // EX_UNAVAILABLE

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  if (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) text.append({kDigits[byte >> 4], kDigits[byte & 15]});
  return text;
}

redis::LinkOptions link_options(const RedisSettings& settings, redis::Endpoint endpoint, milliseconds timeout,
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
  options.stage = &slot.stage;
  options.max_in_flight = static_cast<std::size_t>(settings.pool.max_in_flight);
  options.allowed_clients = settings.pool.listen_allowed_clients;
  return options;
}

class WorkerProcess {
 public:
  WorkerProcess(WorkerContext& context, const Prepared& prepared, http::Identity identity,
                http::PageTokens pages, http::Signatures signatures, const redis::Endpoint& endpoint)
      : context_(context),
        settings_(context.settings),
        slot_(context.board.slots()[context.slot]),
        keys_(settings_.redis.key_prefix, settings_.redis.hash_tags),
        finder_(loop_, link_options(settings_.redis, endpoint, settings_.redis.timeout, {})),
        redis_(loop_, link(endpoint, settings_.redis.timeout, settings_.gateway.request_budget),
               store::kAllScripts),
        bulk_(loop_, link(endpoint, kBulkTimeout, settings_.gateway.bulk_budget), store::kAllScripts),
        background_(loop_, link(endpoint, kBulkTimeout, settings_.gateway.bulk_budget), store::kAllScripts,
                    {settings_.spool.path, settings_.spool.max_bytes, settings_.spool.queue_commands}),
        subscriber_(loop_, link(endpoint, settings_.redis.timeout, {}), keys_.epoch(),
                    [this](std::string_view message) { item_changed(message.empty()); }),
        hot_(redis_, background_, settings_, keys_, random_id),
        items_(redis_, settings_, keys_),
        bulk_items_(bulk_, settings_, keys_),
        lists_(hot_, items_, settings_),
        seen_filter_(store::make_seen_filter(settings_, keys_)),
        feed_store_(redis_, background_, *seen_filter_, settings_, keys_, wall_now,
                    reader_hashes(identity_).epoch),
        readers_(redis_, background_, settings_, keys_, random_id),
        bulk_readers_(bulk_, background_, settings_, keys_, random_id),
        recall_(settings_, loop_),
        feed_(feed_store_, recall_, items_, settings_),
        trend_(redis_, settings_, keys_),
        model_(settings_.recommend.model),
        recommender_(trend_, model_, settings_),
        recommendations_(readers_, recommender_, items_, recall_, settings_),
        waterfall_(redis_, bulk_, settings_, keys_),
        follows_(redis_, settings_, keys_, random_id),
        identity_(std::move(identity)),
        pages_(std::move(pages)),
        signatures_(std::move(signatures)),
        users_pool_(loop_, 1, kMostExports, "export_busy"),
        users_(bulk_, users_pool_, settings_, keys_, reader_hashes(identity_), random_id),
        services_{settings_,
                  hot_,
                  items_,
                  bulk_items_,
                  lists_,
                  feed_,
                  feed_store_,
                  readers_,
                  bulk_readers_,
                  recommendations_,
                  waterfall_,
                  follows_,
                  users_,
                  pages_,
                  identity_,
                  *prepared.bots,
                  context_.board,
                  slot_,
                  [this] { return redis_.ready(); },
                  prepared.clients.get(),
                  &signatures_},
        application_(services_),
        observer_(settings_.request_log, context_.board, slot_, store::kAllScripts),
        gateway_(
            loop_, gateway_options(settings_, slot_),
            [this](Request& request, Response& response) { return application_.serve(request, response); },
            [this](const Request& request, gateway::Refused why, Response& response) {
              if (why == gateway::Refused::kOverloaded)
                application_.refuse_overload(request, response);
              else
                application_.refuse_late(request, response);
            },
            &observer_),
        report_(context_.board, slot_,
                {loop_, gateway_, redis_, background_, lists_, model_, observer_, context_.listen_fd}),
        sampler_(redis_, feed_store_, keys_, context_.board.sample()),
        signals_(loop_.io(), SIGTERM, SIGINT, SIGQUIT),
        reopen_signal_(loop_.io(), SIGUSR1),
        heartbeat_(loop_.io()),
        rank_timer_(loop_.io()),
        recycling_(settings_.pool, random_jitter(), Clock::now()) {}

  int run() {
    wait_for_signals();
    redis_.on_ready_changed([this](bool ready) {
      if (ready) became_ready();
    });
    finder_.start();
    redis_.connect();
    bulk_.connect();
    subscriber_.connect();
    background_.start();
    beat();
    loop_.run([this] { publish(); });
    publish();
    report_.beat();
    return 0;
  }

 private:
  redis::LinkOptions link(const redis::Endpoint& endpoint, milliseconds timeout, milliseconds budget) {
    redis::LinkOptions options = link_options(settings_.redis, endpoint, timeout, budget);
    if (!endpoint.sentinels.addresses.empty()) options.finder = &finder_;
    return options;
  }

  // Connections are taken only after Redis answered once and has what the settings ask for; later losses of
  // Redis are the handlers' business.
  void became_ready() {
    if (ready_ || draining_ || probing_) return;
    probing_ = true;
    spawn(probe(), [this](std::exception_ptr) { probing_ = false; });
  }

  Task<void> probe() {
    const auto probed = co_await seen_filter_->probe(redis_);
    if (probed && !draining_) take_connections();
    if (probed) co_return;
    log::error("seen_filter_unusable", {{"error", probed.error().detail}});
    // Redis went away again: the next connection probes. Else nothing will help but another configuration.
    if (redis_.ready()) _exit(kExitUnusable);
  }

  void take_connections() {
    ready_ = true;
    gateway_.listen(context_.listen_fd);
    tell_master('R');
    spawn(keep_rank_in_step(), [](std::exception_ptr) {});
  }

  // hot:rank is keyed by half-life and weights: when they were changed it is made anew (by one worker, under
  // a lock).
  // Workers of an older generation write with the old ones until they have drained, so it is made once more
  // then.
  Task<void> keep_rank_in_step() {
    const auto match = co_await store::params_match(redis_, settings_.engagement, keys_);
    if (!match || *match) co_return;
    const bool rebuilt = co_await rebuild();
    if (!rebuilt) co_return;
    bool waited = false;
    while (older_workers_live()) {
      Event<int> second;
      rank_timer_.expires_after(std::chrono::seconds(1));
      rank_timer_.async_wait([&second](boost::system::error_code) { second.fire(0); });
      co_await second.wait();
      waited = true;
    }
    if (waited) co_await rebuild();
  }

  Task<bool> rebuild() {
    log::notice("rank_rebuild_started");
    const auto rebuilt = co_await store::rebuild_rank(bulk_, settings_, keys_);
    if (!rebuilt) {
      log::warning("rank_rebuild_failed", {{"error", rebuilt.error().detail}});
      co_return false;
    }
    log::notice("rank_rebuilt",
                {{"items", std::to_string(rebuilt->items)}, {"ranked", std::to_string(rebuilt->ranked)}});
    co_return true;
  }

  bool older_workers_live() {
    const std::uint32_t ours = slot_.generation.load();
    const auto slots = context_.board.slots();
    return std::any_of(slots.begin(), slots.end(), [ours](WorkerSlot& other) {
      return other.state.load() != WorkerState::kEmpty && other.generation.load() < ours;
    });
  }

  void wait_for_signals() {
    signals_.async_wait([this](boost::system::error_code error, int signal) {
      if (error) return;
      // QUIT lets nginx end its kept connections; TERM only finishes the requests in flight.
      stop(signal == SIGQUIT ? Clock::now() + settings_.pool.process_control_timeout * 9 / 10 : Clock::now());
      wait_for_signals();
    });
    wait_for_reopen();
  }

  void wait_for_reopen() {
    reopen_signal_.async_wait([this](boost::system::error_code error, int) {
      if (error) return;
      log::reopen();
      observer_.reopen();
      wait_for_reopen();
    });
  }

  void stop(Clock::time_point deadline) {
    // The last process to close the socket ends its queue: what waits there is refused, not left hanging.
    if (!draining_) {
      report_.stops_listening();
      ::close(context_.listen_fd);
    }
    draining_ = true;
    gateway_.drain(deadline, [this] {
      background_.drain(Clock::now() + settings_.redis.timeout * 20, [this] { loop_.stop(); });
    });
  }

  // An item was hidden, shown again or renamed somewhere; `all`: what was missed is not known.
  void item_changed(bool all) {
    lists_.drop(all);
    feed_.drop_cards();
    recommendations_.drop_cards();
  }

  void tell_master(char word) {
    if (write(context_.ready_fd, &word, 1) != 1) log::warning("master_not_told");
  }

  // Once: further bytes would change nothing.
  void ask_for_replacement(const char* reason, std::uint64_t is) {
    if (std::exchange(asked_for_replacement_, true)) return;
    log::notice("worker_recycles", {{"reason", reason}, {"is", std::to_string(is)}});
    tell_master('X');
  }

  void look_at_memory() {
    if (!ready_ || settings_.pool.max_rss == 0) return;
    const std::size_t resident = resident_bytes();
    if (recycling_.by_memory(resident, Clock::now())) ask_for_replacement("memory", resident);
  }

  void beat() {
    publish();
    model_.refresh();
    report_.beat();
    if (ready_ && !draining_) sampler_.tick(duration_cast<milliseconds>(Clock::now().time_since_epoch()));
    look_at_memory();
    heartbeat_.expires_after(kHeartbeat);
    heartbeat_.async_wait([this](boost::system::error_code error) {
      if (!error) beat();
    });
  }

  void publish() {
    report_.turn();
    const std::uint64_t answered = gateway_.counters().requests;
    if (recycling_.by_requests(answered)) ask_for_replacement("requests", answered);
  }

  WorkerContext& context_;
  const Settings& settings_;
  WorkerSlot& slot_;
  store::Keys keys_;
  EventLoop loop_;
  redis::MasterFinder finder_;
  redis::RedisConnection redis_;
  redis::RedisConnection bulk_;
  redis::BackgroundWriter background_;
  redis::RedisSubscriber subscriber_;
  store::RedisHotStore hot_;
  store::RedisItemStore items_;
  store::RedisItemStore bulk_items_;
  feed::HotLists lists_;
  std::unique_ptr<store::SeenFilter> seen_filter_;
  store::RedisFeedStore feed_store_;
  store::RedisReaderStore readers_;
  store::RedisReaderStore bulk_readers_;
  store::PooledRecall recall_;
  feed::SmartFeed feed_;
  store::TrendReader trend_;
  model::ModelFile model_;
  store::MappedRecommender recommender_;
  feed::Recommendations recommendations_;
  store::RedisWaterfallStore waterfall_;
  store::RedisFollowStore follows_;
  http::Identity identity_;
  http::PageTokens pages_;
  http::Signatures signatures_;
  BlockingPool users_pool_;
  store::RedisUsers users_;
  handlers::Services services_;
  handlers::Application application_;
  observe::RequestObserver observer_;
  gateway::Gateway gateway_;
  WorkerReport report_;
  Sampler sampler_;
  boost::asio::signal_set signals_;
  boost::asio::signal_set reopen_signal_;
  boost::asio::steady_timer heartbeat_;
  boost::asio::steady_timer rank_timer_;
  RecycleRule recycling_;
  bool asked_for_replacement_ = false;
  bool ready_ = false;
  bool probing_ = false;
  bool draining_ = false;
};

}  // namespace

int run_worker(WorkerContext& context, const Prepared& prepared) {
  const auto endpoint = redis_endpoint(context.settings.redis, prepared);
  if (!endpoint) {
    log::error("bad_redis_url", {{"error", endpoint.error().detail}});
    return 78;  // EX_CONFIG
  }
  auto identity = http::Identity::create(http::identity_mode(context.settings.identity.mode), prepared.salt,
                                         prepared.tokens);
  if (!identity) {
    log::error("bad_identity", {{"error", identity.error().detail}});
    return 78;
  }
  auto signatures = http::Signatures::create(prepared.internal);
  if (!signatures) {
    log::error("bad_identity", {{"error", signatures.error().detail}});
    return 78;
  }
  auto pages = http::PageTokens::create(prepared.salt);
  if (!pages) {
    log::error("bad_identity", {{"error", pages.error().detail}});
    return 78;
  }
  // Never destroyed: the process ends when run() returns, and coroutines may still hold parts of it.
  auto* worker = new WorkerProcess(context, prepared, std::move(*identity), std::move(*pages),
                                   std::move(*signatures), *endpoint);
  return worker->run();
}

}  // namespace freshet

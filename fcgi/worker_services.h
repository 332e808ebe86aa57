// The components of a worker and their dependencies: loop, Redis connections, stores, use cases,
// handlers and gateway. worker.cpp starts, runs and drains them.
#pragma once

#include <memory>
#include <string_view>

#include "core/async/blocking_pool.h"
#include "core/async/event_loop.h"
#include "core/async/timer.h"
#include "core/feed/feed_store.h"
#include "core/feed/recall.h"
#include "core/feed/seen_filter.h"
#include "core/feed/smart_feed.h"
#include "core/hot/contributions.h"
#include "core/hot/hot_lists.h"
#include "core/hot/hot_store.h"
#include "core/hot/rank_updater.h"
#include "core/items/card_cache.h"
#include "core/items/impression_counter.h"
#include "core/items/item_store.h"
#include "core/items/view_count_buffer.h"
#include "core/model/active_model.h"
#include "core/readers/personal_data.h"
#include "core/readers/read_buffer.h"
#include "core/readers/reader_store.h"
#include "core/recommend/recommendations.h"
#include "core/recommend/recommender.h"
#include "core/recommend/trend_source.h"
#include "core/redis/background.h"
#include "core/redis/keys.h"
#include "core/redis/redis_client.h"
#include "core/redis/redis_subscriber.h"
#include "core/redis/sentinel.h"
#include "core/timeline/follow_store.h"
#include "core/timeline/timeline_store.h"
#include "fcgi/gateway/gateway.h"
#include "fcgi/handlers/application.h"
#include "fcgi/http/identity.h"
#include "fcgi/http/page_token.h"
#include "fcgi/http/rate_limiter.h"
#include "fcgi/http/signature.h"
#include "fcgi/observe/request_observer.h"
#include "fcgi/process/worker_context.h"
#include "fcgi/shared_tables.h"
#include "fcgi/startup_files.h"

namespace freshet {

// Keys for signing and verification.
struct WorkerSecrets {
  http::Identity identity;
  http::PageTokenSigner pages;
  http::SignatureKeys signatures;
};

// Errors: those of the three create() functions.
Result<WorkerSecrets> make_worker_secrets(const Settings& settings, const StartupFiles& files);

// Created in the worker after the fork; connects and reads nothing yet. `context`, `files` and
// `tables` must outlive it.
struct WorkerServices {
  WorkerServices(WorkerContext& context, const StartupFiles& files, SharedTables& tables,
                 const redis::Endpoint& endpoint, WorkerSecrets secrets);
  WorkerServices(const WorkerServices&) = delete;
  WorkerServices& operator=(const WorkerServices&) = delete;

  // Ordered by dependency: each uses those above it.
  const Settings& settings;
  WorkerSlot& slot;
  WorkerSecrets secrets;
  redis::Keys keys;
  EventLoop loop;

  redis::SentinelResolver sentinel_resolver;
  const std::unique_ptr<redis::RedisClient> redis, bulk;
  redis::BackgroundWriter background;
  redis::RedisSubscriber subscriber;

  Timer rank_updater_timer, contributions_timer, view_counts_timer, impressions_timer, reads_timer,
      active_readers_timer, erased_visitors_timer;
  hot::RankUpdater rank_updater;
  hot::ContributionBuffer contributions;
  items::ViewCountBuffer view_counts;
  hot::RedisHotStore hot;
  hot::RedisHotStore hot_bulk;
  items::RedisItemStore items;
  items::RedisItemStore items_bulk;
  items::CardCache cards;
  items::ImpressionCounter impressions;
  hot::HotLists lists;

  std::unique_ptr<feed::SeenFilter> seen_filter;
  feed::RedisFeedStore feed_store;
  readers::ReadBuffer reads;
  readers::RedisReaderStore readers;
  readers::RedisReaderStore readers_bulk;
  feed::PooledRecall recall;
  feed::SmartFeed feed;

  recommend::TrendSource trend;
  model::ActiveModel model;
  recommend::MappedRecommender recommender;
  recommend::Recommendations recommendations;

  timeline::RedisTimelineStore timelines;
  timeline::RedisFollowStore follows;
  BlockingPool export_pool, past_lists_pool;
  readers::PersonalData users;

  http::RateLimiter limits;
  handlers::Services services;
  handlers::Application application;
  observe::RequestObserver observer;
  gateway::Gateway gateway;

 private:
  redis::ConnectionOptions connection_options(const redis::Endpoint& endpoint, milliseconds timeout,
                                              milliseconds budget);
  redis::ConnectionOptions subscriber_options(const redis::Endpoint& endpoint);
  void refuse(const Request& request, gateway::RefusalReason reason, Response& response);
  // Spool callbacks (BackgroundOptions).
  Task<Result<void>> replay_event(const std::vector<std::string_view>& fields);
  // The reader that this one was merged into, also in several steps; otherwise the same.
  Task<Result<ReaderId>> merge_target(ReaderId reader);
  Task<Result<bool>> is_erased(const std::vector<std::string_view>& fields, milliseconds age);
  redis::SubscriberCallbacks make_listener();
  void on_invalidation(std::string_view message);
};

}  // namespace freshet

// Everything the configuration file can say, parsed and checked. config.h reads it; the shipped
// systemd/freshet.toml explains every directive. Defaults here are the shipped defaults. Units are
// in the types or the names.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/time.h"

namespace freshet {

struct PoolSettings {
  std::string listen = "/run/freshet/freshetd.sock";  // a unix socket's path, or host:port
  int listen_backlog = 4096;
  std::string listen_owner, listen_group;
  int listen_mode = 0660;
  std::vector<std::string> listen_allowed_clients;  // TCP only
  std::string pm_mode = "static";                        // static | dynamic | ondemand
  int max_children = 0;                             // 0: one worker a core, at least two
  int start_servers = 0;             // dynamic; 0: halfway between the spare limits, as PHP-FPM
  int min_spare_servers = 1;         // dynamic: idle workers kept at least
  int max_spare_servers = 0;         // dynamic: and at most; 0: pm.max_children
  seconds process_idle_timeout{10};  // ondemand: an idle worker ends after this
  int max_in_flight = 1024;          // requests inside one worker; more get 503
  int max_requests = 0;              // recycle a worker after so many, ±10 %; 0: never
  std::size_t max_rss = 0;           // recycle a worker whose resident memory exceeds this, ±10 %; 0: never
  std::string status_path = "/status";
  std::string status_listen = "/run/freshet/status.sock";  // of the process that answers status and metrics
  std::string ping_path = "/ping";
  std::string ping_response = "pong";
  seconds process_control_timeout{30};
  seconds request_terminate_timeout{10};  // the watchdog: a loop that has not turned for so long is killed
  int emergency_restart_threshold = 0;    // workers that died by a signal within the interval; 0: off
  seconds emergency_restart_interval{60};
  std::string user, group;
  std::string chdir;  // of the workers; empty: stays
  int rlimit_files = 0;
  std::int64_t rlimit_core = -1;           // bytes; -1: as inherited
  int process_priority = 0;                // nice value of master and workers; 0: as inherited
  std::map<std::string, std::string> env;  // of the workers; "$NAME" takes the master's value
  bool catch_workers_output = true;        // stdout and stderr of workers into error_log
};

// What is written about requests, beside the counters.
struct RequestLogSettings {
  // request_slowlog_timeout: a request that takes longer is logged with its stage; 0: none
  milliseconds slow_timeout{0};
  std::string slowlog;                                    // a file; empty: error_log
  std::string access_log;                                 // a file; empty: none
  std::string access_format = "%R - %u %t \"%m %r\" %s";  // PHP-FPM's letters
};

struct GatewaySettings {
  milliseconds read_timeout{5000};   // a request that has begun must be whole after this
  milliseconds write_timeout{5000};  // a reply that is not taken in this time closes the connection
  std::size_t max_params_bytes = 32UL * 1024;
  std::size_t max_body_bytes = 16UL * 1024;
  std::size_t max_bulk_body_bytes = 8UL * 1024 * 1024;
  milliseconds request_budget{200};  // of a request; then a page as without Redis, or 503
  milliseconds bulk_budget{30000};   // for a bulk write, looked at between two batches; then 503
};

struct RedisSettings {
  // unix://PATH[?db=N], redis://[user:password@]host:port[/db],
  // redis+cluster://[user:password@]host:port[,host:port…]
  std::string url = "unix:///run/redis/redis-server.sock";
  std::string username, password_file;
  int db = 0;
  std::string key_prefix;
  int partitions = 16;  // of articles, in a cluster (core/redis/partitions/partitions.h)
  milliseconds timeout{50};
  milliseconds reconnect_min{50};
  milliseconds reconnect_max{2000};
  int breaker_failures = 3;            // in a row, until the breaker opens
  milliseconds breaker_open{100};      // first time it stays open, doubling up to reconnect_max
  std::vector<std::string> sentinels;  // host:port; empty: redis.url is the server
  std::string sentinel_master;         // the name they know it by
  std::string sentinel_username, sentinel_password_file;
  bool is_cluster() const { return url.starts_with("redis+cluster://"); }
};

// A token bucket per visitor: `rate` tokens a second, at most `burst`. Rate 0: no limit.
struct TokenBucket {
  double rate = 0;
  int burst = 0;
};

// Of requests through the public server, each visitor and each endpoint apart (fcgi/http/rate_limiter.h).
struct LimitSettings {
  std::size_t table_bytes = 16UL * 1024 * 1024;
  int network_factor = 20;             // of those who are not signed in; 0: networks are not limited
  TokenBucket anonymous{2000, 10000};  // of all that is anonymous and makes keys
  TokenBucket hot{5, 60};              // GET /api/hot?at=
  TokenBucket track{10, 200};
  TokenBucket views{10, 200};
  TokenBucket history{5, 60};
  TokenBucket feedback{5, 60};
  TokenBucket feed{5, 60};
  TokenBucket recommendations{5, 60};
  TokenBucket timeline{10, 100};
  seconds contribution_ttl{86400};   // what a visitor added to counters, so that it can be taken back; 0: not at all
  int contribution_after = 20;   // reports a day of a reader, or of a network of those who are not signed in
  int uv_per_network = 500;  // visitors that such a network adds to an article in a day; 0: any number
};

// Who is served at all: files with an address, a network or agent:REGEX a line.
struct ClientSettings {
  std::string deny_file;   // answered 403
  std::string allow_file;  // never denied, never limited, never taken for a crawler
};

// score = base · 2^(−age/half_life), base = w_pv·pv + w_uv·uv + w_dwell·mean dwell (ms).
struct EngagementSettings {
  double pv_weight = 1.0;
  double uv_weight = 3.0;
  double dwell_weight = 0.002;          // points per millisecond of mean dwell
  std::int64_t dwell_cap_ms = 180000;   // of one report
  std::int64_t max_initial_dwell_ms = 30000;  // of a session's first report through the public server
  double dwell_prior_views = 0.0;       // m of (sum + m·prior)/(count + m); 0 is the plain mean
  double dwell_prior_ms = 0.0;
  seconds half_life{86400};
  seconds session_window{1800};  // hot.session_window: one PV per session and article; 0 counts every report
  seconds counter_ttl{30 * 86400};
};

// inc = w_pv + w_uv·is_uv; score += inc / (hours + base)^gamma.
struct ViewsSettings {
  double pv_weight = 1.0;
  double uv_weight = 2.0;
  double base_hours = 2.0;
  double gamma = 1.5;
  seconds dedup_window{600};
  seconds uv_ttl{3 * 86400};
  seconds counter_ttl{30 * 86400};
};

struct ListSettings {
  milliseconds rebuild_interval{30000};  // a list is rebuilt at most once in this time (2 s in the demo)
  seconds ttl{60};            // of the cached list in Redis
  seconds stale_while_revalidate{60};
  milliseconds worker_ttl{1000};         // a worker answers from its own copy for so long
  std::int64_t max_members = 1000000;  // of each rank
  double min_score = 1e-9;                 // a member whose score fell below is dropped from hot:rank
};

struct IdentitySettings {
  std::string mode = "header";  // header | token | open
  bool open_public = false;
  std::string salt_file;  // HMAC key of anonymous visitors and of the visitor cookie
  std::map<std::string, std::string> token_key_files;  // kid → file
  // kid → file: keys of the internal server; empty: none asked
  std::map<std::string, std::string> internal_key_files;
};

struct BotSettings {
  bool enabled = true;
  std::vector<std::string> allow;  // patterns (RE2) of agents that count although the list knows them
};

struct SpoolSettings {
  std::string path = "/var/lib/freshet/spool";
  std::size_t max_bytes = 64UL * 1024 * 1024;  // of each worker's file
  seconds max_age{7 * 86400};                  // older events are dropped
  std::size_t max_queued_commands = 10000;          // the background writer's queue
};

// What keeps items durable: one process of the deployment reads the stream and writes SQLite and
// the search index.
struct RecorderSettings {
  bool enabled = true;  // false on every host but one
  std::string database = "/var/lib/freshet/freshet.db";
  std::string rebuild = "auto";           // auto: a Redis that lost its items gets them back | manual
  int batch_size = 500;                        // stream entries a transaction
  std::int64_t stream_max_len = 1000000;  // entries that may wait; beyond it writes are answered 503
};

// Where recall searches.
struct SearchSettings {
  std::string index = "/var/lib/freshet/index";  // folder of the local index, which the recorder writes
  // host:port of xapian-tcpsrv servers, searched as one; empty: the local index
  std::vector<std::string> shards;
  std::string stemmer = "none";  // Xapian's name of a language, or none
};

// score = BM25 · gauss(age): 1 up to decay_offset, `decay` at decay_offset + decay_scale.
struct RecallSettings {
  int size = 500;            // candidates of the first step
  int max_depth = 8000;      // of the last; each step is twice the one before
  milliseconds budget{100};  // no further step after this; CPU of one search
  int threads = 1;           // of each worker, for texts, and as many for all else
  seconds decay_offset{3600};
  seconds decay_scale{7 * 86400};
  double decay = 0.5;
};

// The filter of what a reader has been shown in the last seven days.
struct SeenSettings {
  std::string filter = "fingerprints";         // fingerprints | redisbloom
  double false_positive_rate = 0.01;           // of all days together
  std::int64_t impressions_per_day = 1000000;  // of all readers together
};

struct FeedSettings {
  seconds buffer_ttl{1800};
  seconds replay_window{60};  // a page can be asked for again so long
  int max_pending = 2000;     // impressions of a reader that are not yet in the filter; beyond it 503
  milliseconds interest_min_dwell{10000};  // reading an item this long counts as interest
};

// What a reader looked at lately.
struct HistorySettings {
  int size = 10;            // distinct topics (and as many replies) kept of a reader, 1..128
  seconds ttl{7 * 86400};   // since the last view
  bool from_track = false;  // what a known reader reports to track and views is a topic viewed, too
};

// What a reader did with an item, and what each kind is worth as a sign of interest. A weight of a
// post or reply is above that of a view.
struct InteractionSettings {
  double post_weight = 5;
  double reply_weight = 4;
  double favorite_weight = 3;
  double share_weight = 3;
  double like_weight = 2;
  double view_weight = 1;
  int max_kept = 500;        // of a reader in Redis, the newest; all of them are in SQLite
  int max_excluded = 20000;  // items kept out of a reader's recommendations, those beyond max_kept included
  seconds ttl{180 * 86400};  // since the last one
  int max_archived() const { return std::max(0, max_excluded - max_kept); }
};

// "Not interested".
struct FeedbackSettings {
  seconds ttl{90 * 86400};     // an item stays excluded so long
  int max_items = 1000;             // kept of a reader, the newest
  double author_factor = 0.7;  // factor on other items of its author
  double tag_factor = 0.85;    // and on items that share a tag with it
};

// score = trend · (1 + cf_weight · affinity), or the learned re-ranker.
struct RecommendSettings {
  std::string model = "/var/lib/freshet/freshet.model";  // what `freshetctl train` writes
  std::string model_source;  // the internal server that `freshetctl fetch-model` asks for it; empty: none
  double cf_weight = 2;
  bool rerank = true;                     // use the model's re-ranker when it has one
  int discover_every = 6;                 // every Nth slot is a discovery; 0: none
  int profile_events = 200;                      // the newest events of a reader that count
  seconds profile_half_life{30 * 86400};  // an event is worth half after this
  int max_per_author = 3;                     // of one author among the items of a reply; 0: any number
  int max_per_tag = 8;                        // of one tag
  seconds soft_half_life{86400};          // exclude=soft: a viewed item has half of its score back after this
  milliseconds trend_refresh{500};             // a worker's copy of what is trending and new is renewed after this
  int trend_items = 200;                        // items of each rank in that copy
  int newest_items = 200;
  seconds card_ttl{60};  // what is known of an item of that copy is read again after this
};

struct TrainSettings {
  std::string publish_folder;             // folder for a copy of each new model, which nginx serves; empty: none
  std::string algorithm = "auto";  // auto (by validation) | ease | rp3beta
  int neighbours = 300;            // of an item in the model, by co-interaction
  int content_neighbours = 40;     // by content
  int ease_max_items = 8000;       // beyond this EASE is not tried: its cost grows with the cube
  int max_per_reader = 5000;       // newest interactions of a reader that count
};

// Timelines: one for each channel and reader.
struct TimelineSettings {
  std::vector<std::string> channels{"follow", "discover"};  // each 1..32 of a-z 0-9 - _
  std::string follow_channel = "follow";  // the one that what authors publish goes to; empty: none
  int max_items = 500;                    // of a timeline, the newest
  seconds ttl{30 * 86400};                // of a timeline: since it was created or read
  int max_follows = 5000;                 // authors a reader can follow
  int backfill = 20;                      // newest items of an author that a new follower gets
};

// What an author publishes: pushed to each follower, or pulled by their readers.
struct FanoutSettings {
  int max_push_followers = 10000;  // an author with more followers is pulled
  int outbox_size = 500;      // newest items that are kept of an author
};

// freshetctl push-recommendations: recommendations pushed into a channel.
struct FillSettings {
  seconds active_within{7 * 86400};  // to readers who opened the channel within this
  int max_items = 10;             // at most, to one reader, each time
};

struct HttpSettings {
  // "https://www.example.org": allowed to call the public routes from a page; empty: none
  std::vector<std::string> cors_origins;
  std::vector<std::string> internal_hosts{"localhost"};  // names of the internal server, without port
  std::string scheme_header = "none";                    // in which a TLS-terminating proxy names the scheme
};

// What /health/ready answers 503 without.
struct ReadySettings {
  std::vector<std::string> require{"redis"};  // words of core/base/dependency.h
};

struct Settings {
  std::string error_log = "stderr";
  std::string log_level = "notice";
  std::string pid;
  PoolSettings pool;
  RequestLogSettings request_log;
  GatewaySettings gateway;
  RedisSettings redis;
  EngagementSettings engagement;
  ViewsSettings views;
  ListSettings list;
  IdentitySettings identity;
  LimitSettings limits;
  ClientSettings clients;
  BotSettings bots;
  SpoolSettings spool;
  HttpSettings http;
  ReadySettings ready;
  RecorderSettings recorder;
  SearchSettings search;
  RecallSettings recall;
  SeenSettings seen;
  FeedSettings feed;
  HistorySettings history;
  InteractionSettings interactions;
  FeedbackSettings feedback;
  RecommendSettings recommend;
  TrainSettings train;
  TimelineSettings timeline;
  FanoutSettings fanout;
  FillSettings fill;
  std::string items_unknown = "count";  // count: only what somebody vouched for is listed | list | reject
  std::int64_t items_unknown_max = 100'000;   // articles that nobody vouched for
  std::int64_t items_cache_bytes = 16 << 20;  // of what a worker keeps of items; 0: nothing
};

}  // namespace freshet

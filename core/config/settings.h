// All settings of the configuration file, parsed and checked. config.h reads them;
// systemd/freshet.toml documents every directive. The defaults here are the shipped defaults. Units
// are part of the type or the name.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/base/time.h"

namespace freshet {

struct PoolSettings {
  std::string listen = "/run/freshet/freshetd.sock";  // unix socket path, or host:port
  int listen_backlog = 4096;
  std::string listen_owner, listen_group;
  int listen_mode = 0660;
  std::vector<std::string> listen_allowed_clients;  // addresses and networks; TCP only
  std::string pm_mode = "static";                   // static | dynamic | ondemand
  int max_children = 0;                             // 0: one worker per core, at least two
  int start_servers = 0;             // dynamic; 0: halfway between the spare limits, as in PHP-FPM
  int min_spare_servers = 1;         // dynamic: minimum of idle workers
  int max_spare_servers = 0;         // dynamic: maximum of idle workers; 0: pm.max_children
  seconds process_idle_timeout{10};  // ondemand: an idle worker exits after this
  int max_in_flight = 1024;          // requests in progress per worker; further ones get 503
  int max_requests = 0;              // replace a worker after this many, ±10%; 0: never
  std::size_t max_rss = 0;           // replace a worker whose resident memory exceeds this, ±10%; 0: never
  std::string status_path = "/status";
  // Socket of the process that serves status and metrics.
  std::string status_listen = "/run/freshet/status.sock";
  std::string ping_path = "/ping";
  std::string ping_response = "pong";
  seconds process_control_timeout{30};
  seconds request_terminate_timeout{10};  // watchdog: kill a worker whose loop is stuck for this long
  // Worker crashes within the interval that trigger a restart of all workers; 0: off.
  int emergency_restart_threshold = 0;
  seconds emergency_restart_interval{60};
  std::string user, group;
  std::string chdir;  // working directory of workers; empty: unchanged
  int rlimit_files = 0;
  std::int64_t rlimit_core = -1;           // bytes; -1: inherited
  int process_priority = 0;                // nice value of master and workers; 0: inherited
  std::map<std::string, std::string> env;  // environment of workers; "$NAME" copies the master's variable
  bool catch_workers_output = true;        // send stdout and stderr of workers to error_log
};

// Logging of requests.
struct RequestLogSettings {
  // request_slowlog_timeout: log requests slower than this, with their phase; 0: none
  milliseconds slow_timeout{0};
  std::string slowlog;                                    // file; empty: error_log
  std::string access_log;                                 // file; empty: none
  std::string access_format = "%R - %u %t \"%m %r\" %s";  // PHP-FPM's format specifiers
};

struct GatewaySettings {
  milliseconds read_timeout{5000};   // from a request's first byte until it is complete
  milliseconds write_timeout{5000};  // to send a reply, before the connection is closed
  std::size_t max_params_bytes = 32UL * 1024;
  std::size_t max_body_bytes = 16UL * 1024;
  std::size_t max_bulk_body_bytes = 8UL * 1024 * 1024;
  milliseconds request_budget{200};  // per request; then the fallback page without Redis, or 503
  milliseconds bulk_budget{30000};   // per bulk write, checked between two batches; then 503
};

struct RedisSettings {
  // One of:
  //   unix://PATH[?db=N]
  //   redis://[user:password@]host:port[/db]
  //   redis+cluster://[user:password@]host:port[,host:port…]
  std::string url = "unix:///run/redis/redis-server.sock";
  std::string username, password_file;
  int db = 0;
  std::string key_prefix;
  int partitions = 16;  // partitions of shared article data in a cluster (core/redis/partitions/partitions.h)
  milliseconds timeout{50};
  milliseconds reconnect_min{50};
  milliseconds reconnect_max{2000};
  int breaker_failures = 3;            // consecutive failures that open the breaker
  milliseconds breaker_open{100};      // first open time, doubling up to reconnect_max
  std::vector<std::string> sentinels;  // host:port; empty: redis.url is the server
  std::string sentinel_master;         // the master's name at the sentinels
  std::string sentinel_username, sentinel_password_file;
  bool is_cluster() const { return url.starts_with("redis+cluster://"); }
};

// `rate` tokens per second, at most `burst` at once. Rate 0: no limit.
struct TokenBucket {
  double rate = 0;
  int burst = 0;
};

// Limits of the public server, per visitor and endpoint (fcgi/http/rate_limiter.h).
struct LimitSettings {
  std::size_t table_bytes = 16UL * 1024 * 1024;
  // A network of anonymous readers gets this many times a visitor's limit; 0: no network limit.
  int network_factor = 20;
  TokenBucket anonymous{2000, 10000};  // all anonymous requests that create keys, together
  TokenBucket hot{5, 60};              // GET /api/hot?at=
  TokenBucket track{10, 200};
  TokenBucket views{10, 200};
  TokenBucket history{5, 60};
  TokenBucket feedback{5, 60};
  TokenBucket feed{5, 60};
  TokenBucket recommendations{5, 60};
  TokenBucket timeline{10, 100};
  // How long visitors' contributions are kept for reverting; 0: not recorded.
  seconds contribution_ttl{86400};
  // Recording starts at this report of the day, per signed-in reader or per network of anonymous
  // readers.
  int contribution_after = 20;
  // Page views and visitors that a network's anonymous readers add to an article per UTC day; after
  // that, the n-th counts only if n is a square. 0: no limit.
  int pv_per_network = 50;
  // New anonymous readers of a network per UTC day; later visitors are served without a state of
  // their own. 0: no limit.
  int anonymous_per_network = 500;
};

// Client lists: files with one address, network or agent:REGEX per line.
struct ClientSettings {
  std::string deny_file;   // answered 403
  std::string allow_file;  // never denied, limited or treated as a crawler
};

struct TrackSettings {
  bool pixel = false;  // GET /api/track.gif
};

// score = base · 2^(−age/half_life), base = w_pv·pv + w_uv·uv + w_dwell·mean dwell (ms).
struct EngagementSettings {
  double pv_weight = 1.0;
  double uv_weight = 3.0;
  double dwell_weight = 0.002;                // points per millisecond of mean dwell time
  std::int64_t dwell_cap_ms = 180000;         // per report
  std::int64_t max_initial_dwell_ms = 30000;  // per first report of a session through the public server
  double dwell_prior_views = 0.0;             // m in (sum + m·prior)/(count + m); 0: plain mean
  double dwell_prior_ms = 0.0;
  seconds half_life{86400};
  seconds session_window{1800};  // one PV per session and article; 0 counts every report
  seconds counter_ttl{30 * 86400};
};

// inc = w_pv + w_uv·is_uv; score += inc / (hours + base)^gamma.
struct ViewsSettings {
  bool from_track = true;  // a page view counted by POST /api/track is a view, too
  double pv_weight = 1.0;
  double uv_weight = 2.0;
  double base_hours = 2.0;
  double gamma = 1.5;
  seconds dedup_window{600};
  seconds uv_ttl{3 * 86400};
  seconds counter_ttl{30 * 86400};
};

// The sum of views, each halved with every half-life since it was counted (core/hot/trending.h).
// The half-lives that every article has a sum for, as in core/hot/parts/trend.lua.
inline constexpr std::array kTrendingHalfLives{seconds(300), seconds(900), seconds(3600), seconds(21600),
                                               seconds(86400)};
struct TrendingSettings {
  seconds half_life{3600};   // one of kTrendingHalfLives
  double birth_views = 1.0;  // views that an article enters with, at its publication
};

struct ListSettings {
  milliseconds rebuild_interval{30000};  // minimum time between rebuilds of a list (the demo uses 2 s)
  seconds ttl{60};                       // lifetime of the cached list in Redis
  seconds stale_while_revalidate{60};
  milliseconds worker_ttl{1000};       // how long a worker serves its own copy
  std::int64_t max_members = 1000000;  // per rank
  double min_score = 1e-9;             // members with a lower score leave hot:rank
};

struct IdentitySettings {
  std::string mode = "header";  // header | token | open
  bool open_public = false;
  std::string salt_file;  // HMAC key of anonymous visitor ids and the visitor cookie
  std::map<std::string, std::string> token_key_files;  // key id → file
  // Key id → file: keys that sign requests to the internal server. Empty: unsigned requests are
  // accepted.
  std::map<std::string, std::string> internal_key_files;
  bool merge_on_login = true;   // a visitor's state moves to the account that they sign in to
  seconds merge_window{86400};  // if it changed within this time
};

// Visitors without an account as readers.
struct ReaderSettings {
  bool anonymous = true;             // the visitor cookie names a reader
  seconds anonymous_ttl{7 * 86400};  // limit of every TTL of such a reader's keys
  seconds bounded_ttl(std::string_view reader, seconds ttl) const {
    return is_anonymous_reader(reader) ? std::min(ttl, anonymous_ttl) : ttl;
  }
};

struct BotSettings {
  bool enabled = true;
  // RE2 patterns of user agents that count although the crawler list matches them.
  std::vector<std::string> allow;
};

struct SpoolSettings {
  std::string path = "/var/lib/freshet/spool";
  std::size_t max_bytes = 64UL * 1024 * 1024;  // per worker
  seconds max_age{7 * 86400};                  // older events are dropped
  std::size_t max_queued_commands = 10000;     // commands held by the background writer
};

// Durable storage: one process of the deployment reads the streams and writes SQLite and the search
// index.
struct RecorderSettings {
  bool enabled = true;  // true on exactly one host
  std::string database = "/var/lib/freshet/freshet.db";
  std::string rebuild = "auto";           // auto: restore a Redis that lost its items | manual
  int batch_size = 500;                   // stream entries per transaction
  std::int64_t stream_max_len = 1000000;  // entries waiting for the recorder; beyond this, writes get 503
};

// The search index that recall uses.
struct SearchSettings {
  std::string index = "/var/lib/freshet/index";  // folder of the local index, written by the recorder
  // host:port of xapian-tcpsrv servers, searched as one index. Empty: the local index.
  std::vector<std::string> shards;
  std::string stemmer = "none";  // Xapian's name of a language, or none
};

// score = BM25 · gauss(age): 1 up to decay_offset, `decay` at decay_offset + decay_scale.
struct RecallSettings {
  int size = 500;            // candidates of the first step
  int max_depth = 8000;      // candidates of the last step; each step doubles the previous one
  milliseconds budget{100};  // no further step after this; also the CPU time limit of one search
  int threads = 1;           // per worker, for text queries; as many again for all others
  seconds decay_offset{3600};
  seconds decay_scale{7 * 86400};
  double decay = 0.5;
  // An item that matches all of a reader's interests scores 1 + this times as much as one without a
  // match; 0: matches come first.
  double interest_weight = 0.02;
  // The item that trends most scores 1 + this times as much, the 11th 1 + half of it.
  double trend_weight = 0.05;
};

// Filter of items that a reader was shown in the last seven days.
struct SeenSettings {
  std::string filter = "fingerprints";         // fingerprints | redisbloom
  double false_positive_rate = 0.01;           // over all days together
  std::int64_t impressions_per_day = 1000000;  // over all readers together
};

struct FeedSettings {
  seconds buffer_ttl{1800};
  seconds replay_window{60};               // how long a page can be requested again
  int max_pending = 2000;                  // a reader's impressions not yet in the filter; beyond this, 503
  milliseconds interest_min_dwell{10000};  // reading an item this long counts as interest
};

// Items that a reader viewed recently.
struct HistorySettings {
  int size = 10;           // topics kept per reader, and as many replies; 1..128
  seconds ttl{7 * 86400};  // since the last view
  bool from_track = true;  // counted reports of a known reader are viewed topics, too
};

// Interactions of readers with items, and their weights as signals of interest. Posts and replies
// must weigh more than views.
struct InteractionSettings {
  double post_weight = 5;
  double reply_weight = 4;
  double favorite_weight = 3;
  double share_weight = 3;
  double like_weight = 2;
  double view_weight = 1;
  int max_kept = 500;        // newest per reader in Redis; SQLite keeps all
  int max_excluded = 20000;  // items excluded from a reader's recommendations, including the max_kept newest
  seconds ttl{180 * 86400};  // since the last interaction
  int max_archived() const { return std::max(0, max_excluded - max_kept); }
};

// Items that readers marked "not interested".
struct FeedbackSettings {
  seconds ttl{90 * 86400};     // how long a dismissed item stays excluded
  int max_items = 1000;        // newest dismissals kept per reader
  double author_factor = 0.7;  // applied to other items of the author
  double tag_factor = 0.85;    // applied to items that share a tag
};

// score = trend · (1 + cf_weight · affinity), or the learned re-ranker. "auto" (nullopt): as
// training chose (Model::ranking()).
struct RecommendSettings {
  std::string model = "/var/lib/freshet/freshet.model";  // written by `freshetctl train`
  std::string model_source;  // internal server that `freshetctl fetch-model` downloads from; empty: none
  std::optional<double> cf_weight;
  std::optional<bool> rerank;             // use the model's re-ranker if it has one
  std::optional<int> discover_every;      // every Nth slot is a discovery; 0: none
  double explore = 0.05;                  // share of the slots for new items that few were shown; 0: none
  int profile_events = 200;               // newest events of a reader that form the profile
  seconds profile_half_life{30 * 86400};  // age at which an event counts half
  int max_per_author = 3;                 // items of one author in a reply; 0: no limit
  int max_per_tag = 8;                    // items of one tag in a reply; 0: no limit
  seconds soft_half_life{86400};    // exclude=soft: time after which a viewed item has half its score again
  milliseconds trend_refresh{500};  // refresh interval of a worker's copy of trending and new items
  int trend_items = 200;            // items of each rank in that copy
  int newest_items = 200;
  seconds card_ttl{60};  // age at which item metadata in that copy is read again
};

struct TrainSettings {
  std::string publish_folder;      // folder for a copy of each new model, served by nginx; empty: none
  std::string algorithm = "auto";  // auto (chosen by validation) | ease | rp3beta
  int neighbours = 300;            // related items per item in the model, by co-interaction
  int content_neighbours = 40;     // by content
  int ease_max_items = 8000;       // EASE is not tried with more items: its cost grows with the cube
  int max_per_reader = 5000;       // newest interactions of a reader that are used
};

// Timelines: one per channel and reader.
struct TimelineSettings {
  std::vector<std::string> channels{"follow", "discover"};  // names of 1..32 characters of a-z 0-9 - _
  // The channel that receives what followed authors publish; empty: none.
  std::string follow_channel = "follow";
  int max_items = 500;      // newest items kept per timeline
  seconds ttl{30 * 86400};  // since a timeline was created or read
  int max_follows = 5000;   // authors a reader can follow
  int backfill = 20;        // newest items of an author that a new follower receives
};

// Publishing by authors: pushed to each follower, or pulled by readers.
struct FanoutSettings {
  int max_push_followers = 10000;  // authors with more followers are pulled
  int outbox_size = 500;           // newest items kept per author
};

// `freshetctl push-recommendations`: adds recommendations to a channel.
struct FillSettings {
  seconds active_within{7 * 86400};  // only readers who opened the channel within this time
  int max_items = 10;                // per reader and run
};

struct HttpSettings {
  // Origins such as "https://www.example.org" that may call the public routes from a page. Empty:
  // none.
  std::vector<std::string> cors_origins;
  std::vector<std::string> internal_hosts{"localhost"};  // host names of the internal server, without port
  std::string scheme_header = "none";  // header in which a TLS-terminating proxy passes the scheme
  bool trusts_proxy() const { return scheme_header != "none"; }
};

struct ReadySettings {
  // Names of dependencies (core/base/dependency.h) without which /health/ready returns 503.
  std::vector<std::string> require{"redis"};
};

struct Settings {
  std::string error_log = "stderr";
  std::string log_level = "notice";
  std::string pid;
  PoolSettings pool;
  RequestLogSettings request_log;
  GatewaySettings gateway;
  RedisSettings redis;
  TrackSettings track;
  EngagementSettings engagement;
  ViewsSettings views;
  TrendingSettings trending;
  ListSettings list;
  IdentitySettings identity;
  ReaderSettings readers;
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
  // For GET /api/hot without these parameters. "auto": as tuned from the site's own traffic, before
  // that views and accumulate.
  std::string hot_default_model = "auto", views_default_mode = "auto";
  std::string tune_file = "/var/lib/freshet/tuned.toml";  // written by `freshetctl tune`; empty: none
  UnixSeconds tuned_at{};                     // when the values in use from that file were chosen; 0: none is
  std::string items_unknown = "count";        // count: list verified articles only | list | reject
  std::int64_t items_unknown_max = 100'000;   // limit on unverified articles
  int items_unknown_networks = 30;            // networks (IPv4 /16, IPv6 /32) whose reports list one
  std::int64_t items_cache_bytes = 16 << 20;  // per-worker cache of items; 0: none
};

}  // namespace freshet

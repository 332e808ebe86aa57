#include "core/config/config_directives.h"

#include <array>

#include "core/config/aliases.h"

namespace freshet::config {
namespace {

// A pointer to a possibly nested member, such as member<&Settings::pool, &PoolSettings::pm_mode>.
template <auto... kMembers>
Field member(Settings& settings) {
  return &(settings.*....*kMembers);
}

using S = Settings;
using Pool = PoolSettings;
using Gateway = GatewaySettings;
using RequestLog = RequestLogSettings;
using Redis = RedisSettings;
using Hot = EngagementSettings;
using Views = ViewsSettings;
using Trending = TrendingSettings;
using List = ListSettings;
using Identity = IdentitySettings;
using Limits = LimitSettings;
using Clients = ClientSettings;
using Recorder = RecorderSettings;
using Search = SearchSettings;
using Recall = RecallSettings;
using Seen = SeenSettings;
using Feed = FeedSettings;
using History = HistorySettings;
using Interactions = InteractionSettings;
using Feedback = FeedbackSettings;
using Recommend = RecommendSettings;
using Train = TrainSettings;
using Waterfall = TimelineSettings;
using Fanout = FanoutSettings;
using Fill = FillSettings;

constexpr double kDay = 86400;
constexpr double kHourMs = 3600e3;
constexpr double kMebi = 1024.0 * 1024.0;

// clang-format off
constexpr std::array kDirectives{
    Directive{"pid", "file for the master's process id; empty: none", member<&S::pid>},
    Directive{"error_log", "target of log lines: stderr, or a file", member<&S::error_log>},
    Directive{"log_level", "the lowest level that is logged", member<&S::log_level>, {}, Unit::kNone, "debug|notice|warning|error"},

    Directive{"listen.address", "unix socket (absolute path) or host:port", member<&S::pool, &Pool::listen>},
    Directive{"listen.backlog", "maximum number of connections waiting to be accepted", member<&S::pool, &Pool::listen_backlog>, {1, 65535}},
    Directive{"listen.owner", "owner of the socket file; empty: the user that started the master", member<&S::pool, &Pool::listen_owner>},
    Directive{"listen.group", "group of the socket file", member<&S::pool, &Pool::listen_group>},
    Directive{"listen.mode", "permissions of the socket file", member<&S::pool, &Pool::listen_mode>, {0, 0777}, Unit::kMode},
    Directive{"listen.allowed_clients", "client addresses and networks that may connect (TCP only); empty: all", member<&S::pool, &Pool::listen_allowed_clients>},

    Directive{"user", "user of the workers, if the master is started as root", member<&S::pool, &Pool::user>},
    Directive{"group", "group of the workers; empty: the user's primary group", member<&S::pool, &Pool::group>},
    Directive{"rlimit_files", "maximum number of open files per worker; 0: inherited", member<&S::pool, &Pool::rlimit_files>, {0, 1048576}},
    Directive{"rlimit_core", "maximum size of a worker's core file, bytes; -1: inherited", member<&S::pool, &Pool::rlimit_core>, {-1, 1e15}},
    Directive{"process.priority", "nice value of master and workers; 0: inherited", member<&S::pool, &Pool::process_priority>, {-19, 20}},
    Directive{"chdir", "working directory of the workers; empty: unchanged", member<&S::pool, &Pool::chdir>},
    Directive{"env", "environment of the workers, name -> value; $NAME copies the master's variable", member<&S::pool, &Pool::env>},
    Directive{"catch_workers_output", "send stdout and stderr of workers to error_log", member<&S::pool, &Pool::catch_workers_output>},
    Directive{"process_control_timeout", "time that a worker has to finish after a stop or reload", member<&S::pool, &Pool::process_control_timeout>, {1, 3600}},
    Directive{"request_terminate_timeout", "kill a worker whose event loop is stuck for this long; 0: never", member<&S::pool, &Pool::request_terminate_timeout>, {0, 3600}},
    Directive{"emergency_restart_threshold", "replace all workers when this many crashed within emergency_restart_interval; 0: off", member<&S::pool, &Pool::emergency_restart_threshold>, {0, 10000}},
    Directive{"emergency_restart_interval", "see emergency_restart_threshold", member<&S::pool, &Pool::emergency_restart_interval>, {1, kDay}},
    Directive{"request_slowlog_timeout", "log a request that takes longer, with its current phase; 0: never", member<&S::request_log, &RequestLog::slow_timeout>, {0, kHourMs}},
    Directive{"slowlog", "log file for slow requests; empty: error_log", member<&S::request_log, &RequestLog::slowlog>},
    Directive{"access.log", "access log with a line per request; empty: none", member<&S::request_log, &RequestLog::access_log>},
    Directive{"access.format", "format of the access log, with PHP-FPM's specifiers", member<&S::request_log, &RequestLog::access_format>},

    Directive{"pm.mode", "static: all workers run; dynamic: keeps a number of workers idle; ondemand: starts workers when needed", member<&S::pool, &Pool::pm_mode>, {}, Unit::kNone, "static|dynamic|ondemand"},
    Directive{"pm.max_children", "maximum number of workers; 0: one per core, at least two", member<&S::pool, &Pool::max_children>, {0, 1024}},
    Directive{"pm.start_servers", "dynamic: number of workers at start-up; 0: halfway between the spare limits", member<&S::pool, &Pool::start_servers>, {0, 1024}},
    Directive{"pm.min_spare_servers", "dynamic: minimum number of idle workers", member<&S::pool, &Pool::min_spare_servers>, {1, 1024}},
    Directive{"pm.max_spare_servers", "dynamic: maximum number of idle workers; 0: pm.max_children", member<&S::pool, &Pool::max_spare_servers>, {0, 1024}},
    Directive{"pm.process_idle_timeout", "ondemand: an idle worker exits after this", member<&S::pool, &Pool::process_idle_timeout>, {1, kDay}},
    Directive{"pm.max_in_flight", "maximum number of requests in progress per worker; further ones get 503", member<&S::pool, &Pool::max_in_flight>, {1, 65536}},
    Directive{"pm.max_requests", "replace a worker after this many requests, +-10%; 0: never", member<&S::pool, &Pool::max_requests>, {0, 1e9}},
    Directive{"pm.max_rss", "replace a worker whose resident memory exceeds this, +-10%; 0: never", member<&S::pool, &Pool::max_rss>, {0, 1e15}, Unit::kBytes},
    Directive{"pm.status_listen", "unix socket or host:port for status and metrics, served even when all workers are busy; empty: none", member<&S::pool, &Pool::status_listen>},
    Directive{"pm.status_path", "URI of the status page; empty: none", member<&S::pool, &Pool::status_path>},
    Directive{"ping.path", "URI of the ping page; empty: none", member<&S::pool, &Pool::ping_path>},
    Directive{"ping.response", "response of the ping page", member<&S::pool, &Pool::ping_response>},
    Directive{"ready.require", "dependencies without which /health/ready returns 503: redis, items, index, model, writes", member<&S::ready, &ReadySettings::require>},

    Directive{"gateway.read_timeout", "time limit for receiving a complete request", member<&S::gateway, &Gateway::read_timeout>, {1, kHourMs}},
    Directive{"gateway.write_timeout", "time limit for sending a reply", member<&S::gateway, &Gateway::write_timeout>, {1, kHourMs}},
    Directive{"gateway.max_params_bytes", "maximum size of a request's FastCGI parameters", member<&S::gateway, &Gateway::max_params_bytes>, {1024, kMebi}, Unit::kBytes},
    Directive{"gateway.max_body_bytes", "maximum size of a request's body", member<&S::gateway, &Gateway::max_body_bytes>, {1024, 64 * kMebi}, Unit::kBytes},
    Directive{"gateway.max_bulk_body_bytes", "maximum size of a request's body on a bulk route", member<&S::gateway, &Gateway::max_bulk_body_bytes>, {1024, 256 * kMebi}, Unit::kBytes},
    Directive{"gateway.request_budget", "time limit of a request, except on bulk routes; then what a page shows without Redis, or 503", member<&S::gateway, &Gateway::request_budget>, {1, kHourMs}},
    Directive{"gateway.bulk_budget", "time limit of a bulk write, checked between two batches; then 503", member<&S::gateway, &Gateway::bulk_budget>, {1, kHourMs}},

    Directive{"redis.url", "unix://PATH or redis://[user:password@]host:port[/db]", member<&S::redis, &Redis::url>},
    Directive{"redis.username", "ACL user; empty: the default user", member<&S::redis, &Redis::username>},
    Directive{"redis.password_file", "file that holds the password; empty: none", member<&S::redis, &Redis::password_file>},
    Directive{"redis.db", "database number", member<&S::redis, &Redis::db>, {0, 65535}},
    Directive{"redis.key_prefix", "prefix of every key, for a Redis shared with other software", member<&S::redis, &Redis::key_prefix>},
    Directive{"redis.partitions", "cluster: number of partitions of the data that articles share, a power of two; to change it, run freshetctl repartition", member<&S::redis, &Redis::partitions>, {1, 64}},
    Directive{"redis.timeout", "time limit of a command", member<&S::redis, &Redis::timeout>, {1, 60e3}},
    Directive{"redis.reconnect_min", "first delay before reconnecting", member<&S::redis, &Redis::reconnect_min>, {1, 60e3}},
    Directive{"redis.reconnect_max", "maximum delay before reconnecting", member<&S::redis, &Redis::reconnect_max>, {1, 600e3}},
    Directive{"redis.breaker_failures", "consecutive failures that open the circuit breaker", member<&S::redis, &Redis::breaker_failures>, {1, 1000}},
    Directive{"redis.breaker_open", "first time that the circuit breaker stays open, doubling up to redis.reconnect_max", member<&S::redis, &Redis::breaker_open>, {1, 600e3}},
    Directive{"redis.sentinels", "host:port of the sentinels that know the master's address; empty: redis.url is the server", member<&S::redis, &Redis::sentinels>},
    Directive{"redis.sentinel_master", "name of the master at the sentinels", member<&S::redis, &Redis::sentinel_master>},
    Directive{"redis.sentinel_username", "ACL user of the sentinels; empty: the default user", member<&S::redis, &Redis::sentinel_username>},
    Directive{"redis.sentinel_password_file", "file that holds the sentinels' password; empty: none", member<&S::redis, &Redis::sentinel_password_file>},

    Directive{"hot.default_model", "model of lists whose request names none", member<&S::hot_default_model>, {}, Unit::kNone, "auto|views|engagement|trending"},
    Directive{"tune.file", "file written by `freshetctl tune`; its values apply to directives that are unset or \"auto\"; empty: none", member<&S::tune_file>},
    Directive{"hot.birth_views", "views that an article enters the trending model with, at its publication", member<&S::trending, &Trending::birth_views>, {0, 1e6}},
    Directive{"hot.pv_weight", "points per page view", member<&S::engagement, &Hot::pv_weight>, {0, 1e9}},
    Directive{"hot.uv_weight", "points per visitor", member<&S::engagement, &Hot::uv_weight>, {0, 1e9}},
    Directive{"hot.dwell_weight", "points per millisecond of mean dwell time", member<&S::engagement, &Hot::dwell_weight>, {0, 1e6}},
    Directive{"hot.dwell_cap", "maximum dwell time of one report", member<&S::engagement, &Hot::dwell_cap_ms>, {1, 24 * kHourMs}, Unit::kMilliseconds},
    Directive{"hot.max_initial_dwell", "maximum dwell time of a session's first report through the public server", member<&S::engagement, &Hot::max_initial_dwell_ms>, {0, 24 * kHourMs}, Unit::kMilliseconds},
    Directive{"hot.dwell_prior_views", "weight of the prior in the mean, as a number of views; 0: plain mean", member<&S::engagement, &Hot::dwell_prior_views>, {0, 1e9}},
    Directive{"hot.dwell_prior", "expected dwell time of a new article", member<&S::engagement, &Hot::dwell_prior_ms>, {0, 24 * kHourMs}, Unit::kMilliseconds},
    Directive{"hot.half_life", "age at which a score has halved", member<&S::engagement, &Hot::half_life>, {600, 3650 * kDay}},
    Directive{"hot.counter_ttl", "lifetime of an article's counters after its last event", member<&S::engagement, &Hot::counter_ttl>, {3600, 3650 * kDay}},
    Directive{"hot.session_window", "one page view per session and article in this time; 0: every report counts", member<&S::engagement, &Hot::session_window>, {0, 30 * kDay}},

    Directive{"track.pixel", "serve GET /api/track.gif, which counts page views without JavaScript", member<&S::track, &TrackSettings::pixel>},

    Directive{"views.default_mode", "mode of lists by views whose request names none", member<&S::views_default_mode>, {}, Unit::kNone, "auto|accumulate|current"},
    Directive{"views.from_track", "count each page view that POST /api/track counts as a view, too", member<&S::views, &Views::from_track>},
    Directive{"views.pv_weight", "points per view", member<&S::views, &Views::pv_weight>, {0, 1e9}},
    Directive{"views.uv_weight", "additional points for a visitor's first view of the day", member<&S::views, &Views::uv_weight>, {0, 1e9}},
    Directive{"views.base_hours", "hours added to the age", member<&S::views, &Views::base_hours>, {0.001, 1e4}},
    Directive{"views.gamma", "exponent of the age", member<&S::views, &Views::gamma>, {0, 10}},
    Directive{"views.dedup_window", "one view per reader and article in this time", member<&S::views, &Views::dedup_window>, {1, 30 * kDay}},
    Directive{"views.uv_ttl", "how long a day's visitors are remembered", member<&S::views, &Views::uv_ttl>, {kDay, 90 * kDay}},
    Directive{"views.counter_ttl", "lifetime of an article's counters after its last event", member<&S::views, &Views::counter_ttl>, {3600, 3650 * kDay}},

    Directive{"trending.half_life", "time in which a view loses half of its weight", member<&S::trending, &Trending::half_life>, {300, kDay}},

    Directive{"list.rebuild_interval", "minimum time between rebuilds of a list", member<&S::list, &List::rebuild_interval>, {100, kHourMs}},
    Directive{"list.ttl", "lifetime of a cached list in Redis", member<&S::list, &List::ttl>, {1, kDay}},
    Directive{"list.stale_while_revalidate", "how much longer caches may serve an outdated list", member<&S::list, &List::stale_while_revalidate>, {0, kDay}},
    Directive{"list.worker_ttl", "how long a worker serves its own copy of a list", member<&S::list, &List::worker_ttl>, {0, kHourMs}},
    Directive{"list.max_members", "maximum number of articles per rank", member<&S::list, &List::max_members>, {100, 1e9}},
    Directive{"list.min_score", "an article whose score falls below this leaves the rank", member<&S::list, &List::min_score>, {0, 1}},

    Directive{"items.unknown", "what to do with events for articles that were never PUT", member<&S::items_unknown>, {}, Unit::kNone, "count|list|reject"},
    Directive{"items.unknown_max", "maximum number of unverified articles; events for others get 429", member<&S::items_unknown_max>, {100, 1e9}},
    Directive{"items.unknown_networks", "an unverified article is listed after reports from this many networks (IPv4 /16, IPv6 /32) over ten minutes", member<&S::items_unknown_networks>, {1, 500}},
    Directive{"items.cache", "per-worker cache of items' titles and links; the least recently used are evicted first; 0: none", member<&S::items_cache_bytes>, {0, 1024 * kMebi}, Unit::kBytes},

    Directive{"recorder.enabled", "run the recorder, which writes SQLite and the search index, on this host; exactly one host of a deployment", member<&S::recorder, &Recorder::enabled>},
    Directive{"recorder.database", "SQLite file of the recorder", member<&S::recorder, &Recorder::database>},
    Directive{"recorder.rebuild", "how a Redis that lost its items gets them back: from the recorder, or by freshetctl rebuild-redis", member<&S::recorder, &Recorder::rebuild>, {}, Unit::kNone, "auto|manual"},
    Directive{"recorder.batch", "stream entries per transaction of the recorder", member<&S::recorder, &Recorder::batch_size>, {1, 10000}},
    Directive{"stream.max_len", "maximum number of entries waiting for the recorder; beyond that, writes get 503", member<&S::recorder, &Recorder::stream_max_len>, {1000, 1e9}},

    Directive{"search.index", "folder of the search index", member<&S::search, &Search::index>},
    Directive{"search.shards", "host:port of xapian-tcpsrv servers to search instead of the local folder", member<&S::search, &Search::shards>},
    Directive{"search.stemmer", "language for stemming (ignoring word endings)", member<&S::search, &Search::stemmer>, {}, Unit::kNone,
              "none|arabic|armenian|basque|catalan|danish|dutch|english|finnish|french|german|hungarian|indonesian|irish|italian|lithuanian|nepali|norwegian|portuguese|romanian|russian|spanish|swedish|tamil|turkish"},

    Directive{"recall.size", "candidates of a refresh's first search", member<&S::recall, &Recall::size>, {10, 10000}},
    Directive{"recall.max_depth", "candidates of its last search; each search doubles the number", member<&S::recall, &Recall::max_depth>, {10, 1e6}},
    Directive{"recall.budget", "time after which no further search starts; also the CPU time limit of one search", member<&S::recall, &Recall::budget>, {1, kHourMs}},
    Directive{"recall.threads", "threads per worker for text searches, and as many again for all others", member<&S::recall, &Recall::threads>, {1, 64}},
    Directive{"recall.decay_offset", "age up to which there is no decay", member<&S::recall, &Recall::decay_offset>, {0, 3650 * kDay}},
    Directive{"recall.decay_scale", "age beyond the offset at which the factor is recall.decay", member<&S::recall, &Recall::decay_scale>, {1, 3650 * kDay}},
    Directive{"recall.decay", "decay factor at offset + scale", member<&S::recall, &Recall::decay>, {0.001, 0.999}},
    Directive{"recall.interest_weight", "score added for an item that matches all of a reader's interests, as a share; 0: matches come first", member<&S::recall, &Recall::interest_weight>, {0, 1e6}},
    Directive{"recall.trend_weight", "score added for the item that trends most, as a share; 0: the trend is ignored", member<&S::recall, &Recall::trend_weight>, {0, 1e6}},

    Directive{"seen.filter", "how impressions are stored", member<&S::seen, &Seen::filter>, {}, Unit::kNone, "fingerprints|redisbloom"},
    Directive{"seen.false_positive_rate", "acceptable share of unseen items that are taken for seen, over all days together", member<&S::seen, &Seen::false_positive_rate>, {1e-6, 0.2}},
    Directive{"seen.impressions_per_day", "expected impressions per day of all readers", member<&S::seen, &Seen::impressions_per_day>, {1000, 1e10}},

    Directive{"feed.buffer_ttl", "lifetime of a reader's buffer of candidates", member<&S::feed, &Feed::buffer_ttl>, {10, kDay}},
    Directive{"feed.replay_window", "how long a page can be requested again", member<&S::feed, &Feed::replay_window>, {1, 3600}},
    Directive{"feed.max_pending", "maximum number of a reader's impressions that are not in the filter yet; beyond that 503", member<&S::feed, &Feed::max_pending>, {100, 1e6}},
    Directive{"feed.interest_min_dwell", "reading an item this long counts as interest", member<&S::feed, &Feed::interest_min_dwell>, {0, kHourMs}},

    Directive{"history.size", "number of a reader's last viewed topics that are kept, and as many replies", member<&S::history, &History::size>, {1, 128}},
    Directive{"history.ttl", "their lifetime after the last view, renewed once a day", member<&S::history, &History::ttl>, {60, 365 * kDay}},
    Directive{"history.from_track", "add a known reader's counted reports to the history", member<&S::history, &History::from_track>},

    Directive{"interactions.post_weight", "weight of a post as a signal of interest", member<&S::interactions, &Interactions::post_weight>, {0, 1000}},
    Directive{"interactions.reply_weight", "weight of a reply", member<&S::interactions, &Interactions::reply_weight>, {0, 1000}},
    Directive{"interactions.favorite_weight", "weight of a favorite", member<&S::interactions, &Interactions::favorite_weight>, {0, 1000}},
    Directive{"interactions.share_weight", "weight of a share", member<&S::interactions, &Interactions::share_weight>, {0, 1000}},
    Directive{"interactions.like_weight", "weight of a like", member<&S::interactions, &Interactions::like_weight>, {0, 1000}},
    Directive{"interactions.view_weight", "weight of a view", member<&S::interactions, &Interactions::view_weight>, {0, 1000}},
    Directive{"interactions.max_kept", "number of a reader's newest interactions in Redis", member<&S::interactions, &Interactions::max_kept>, {10, 10000}},
    Directive{"interactions.max_excluded", "maximum number of items excluded from a reader's recommendations because of interactions", member<&S::interactions, &Interactions::max_excluded>, {10, 1e6}},
    Directive{"interactions.ttl", "lifetime of interactions in Redis after the last one", member<&S::interactions, &Interactions::ttl>, {kDay, 3650 * kDay}},

    Directive{"feedback.ttl", "how long a dismissed item stays hidden from the reader", member<&S::feedback, &Feedback::ttl>, {3600, 3650 * kDay}},
    Directive{"feedback.max_items", "number of a reader's newest dismissals that are kept", member<&S::feedback, &Feedback::max_items>, {10, 10000}},
    Directive{"feedback.author_factor", "factor applied to other items of a dismissed item's author", member<&S::feedback, &Feedback::author_factor>, {0, 1}},
    Directive{"feedback.tag_factor", "factor applied to items that share a tag with a dismissed one", member<&S::feedback, &Feedback::tag_factor>, {0, 1}},

    Directive{"recommend.model", "file that freshetctl train writes and workers map", member<&S::recommend, &Recommend::model>},
    Directive{"recommend.model_from", "internal server of the host that trains, from which freshetctl fetch-model downloads the model", member<&S::recommend, &Recommend::model_source>},
    Directive{"recommend.cf_weight", "w of trend x (1 + w x affinity); \"auto\": as training chose", member<&S::recommend, &Recommend::cf_weight>, {0, 1000}},
    Directive{"recommend.rerank", "use the model's learned re-ranker if it has one; \"auto\": if it predicted best", member<&S::recommend, &Recommend::rerank>},
    Directive{"recommend.discover_every", "every Nth slot is a discovery, an item that matches the reader's history but is not trending; 0: none; \"auto\": 6, or 0 where training found them costly", member<&S::recommend, &Recommend::discover_every>, {0, 100}},
    Directive{"recommend.explore", "share of the slots for new items that few readers were shown; 0: none", member<&S::recommend, &Recommend::explore>, {0, 0.5}},
    Directive{"recommend.profile", "number of a reader's newest events that form the profile", member<&S::recommend, &Recommend::profile_events>, {1, 2000}},
    Directive{"recommend.profile_half_life", "age at which an event counts half", member<&S::recommend, &Recommend::profile_half_life>, {3600, 3650 * kDay}},
    Directive{"recommend.per_author", "maximum number of items of one author in a reply; 0: no limit", member<&S::recommend, &Recommend::max_per_author>, {0, 100}},
    Directive{"recommend.per_tag", "maximum number of items of one tag in a reply; 0: no limit", member<&S::recommend, &Recommend::max_per_tag>, {0, 100}},
    Directive{"recommend.soft_half_life", "exclude=soft: time after which a viewed item has half of its score again", member<&S::recommend, &Recommend::soft_half_life>, {60, 365 * kDay}},
    Directive{"recommend.trend_refresh", "refresh interval of a worker's copy of trending and new items, which is served until it is twice as old", member<&S::recommend, &Recommend::trend_refresh>, {50, kHourMs}},
    Directive{"recommend.trend", "number of items of each rank in that copy", member<&S::recommend, &Recommend::trend_items>, {20, 2000}},
    Directive{"recommend.newest", "number of new items in that copy", member<&S::recommend, &Recommend::newest_items>, {20, 1000}},
    Directive{"recommend.card_ttl", "age at which item metadata in that copy is read again", member<&S::recommend, &Recommend::card_ttl>, {0, 3600}},

    Directive{"train.algorithm", "algorithm that relates items by interactions; auto: chosen by validation", member<&S::train, &Train::algorithm>, {}, Unit::kNone, "auto|ease|rp3beta"},
    Directive{"train.neighbours", "related items per item, by interactions", member<&S::train, &Train::neighbours>, {1, 2000}},
    Directive{"train.content_neighbours", "related items per item, by content", member<&S::train, &Train::content_neighbours>, {1, 500}},
    Directive{"train.ease_max_items", "EASE is not tried with more items", member<&S::train, &Train::ease_max_items>, {0, 50000}},
    Directive{"train.max_per_reader", "number of a reader's newest interactions that are used", member<&S::train, &Train::max_per_reader>, {10, 1e6}},
    Directive{"train.publish", "folder for a copy of each new model, which nginx serves to other hosts; empty: none", member<&S::train, &Train::publish_folder>},

    Directive{"waterfall.channels", "names of the channels, each 1 to 32 characters of a-z 0-9 - _", member<&S::timeline, &Waterfall::channels>},
    Directive{"waterfall.follow_channel", "the channel that receives what followed authors publish; empty: none", member<&S::timeline, &Waterfall::follow_channel>},
    Directive{"waterfall.max_items", "number of newest items that a timeline keeps", member<&S::timeline, &Waterfall::max_items>, {10, 10000}},
    Directive{"waterfall.ttl", "lifetime of a timeline after it was created or read", member<&S::timeline, &Waterfall::ttl>, {60, 3650 * kDay}},
    Directive{"waterfall.max_follows", "maximum number of authors that a reader can follow", member<&S::timeline, &Waterfall::max_follows>, {1, 50000}},
    Directive{"waterfall.backfill", "number of an author's newest items that a new follower receives", member<&S::timeline, &Waterfall::backfill>, {0, 500}},

    Directive{"fanout.max_push", "items of authors with more followers are pulled by readers instead of pushed", member<&S::fanout, &Fanout::max_push_followers>, {0, 1e8}},
    Directive{"fanout.outbox", "number of newest items kept per author", member<&S::fanout, &Fanout::outbox_size>, {1, 10000}},

    Directive{"fill.active", "freshetctl push-recommendations serves readers who opened the channel within this time", member<&S::fill, &Fill::active_within>, {60, 365 * kDay}},
    Directive{"fill.items", "maximum number of items that freshetctl push-recommendations pushes to a reader per run", member<&S::fill, &Fill::max_items>, {1, 100}},

    Directive{"identity.mode", "how a reader's identity is established", member<&S::identity, &Identity::mode>, {}, Unit::kNone, "header|token|open"},
    Directive{"identity.open_public", "allow mode open on an address that is not loopback", member<&S::identity, &Identity::open_public>},
    Directive{"identity.salt_file", "file with the key of anonymous visitor ids and the visitor cookie", member<&S::identity, &Identity::salt_file>},
    Directive{"identity.token_keys", "key id -> file, the keys of identity.mode token", member<&S::identity, &Identity::token_key_files>},

    Directive{"identity.internal_keys", "key id -> file, keys with which callers of the internal server sign; empty: no signature required", member<&S::identity, &Identity::internal_key_files>},

    Directive{"identity.merge_on_login", "move what is stored about a visitor to the account that they sign in to", member<&S::identity, &Identity::merge_on_login>},
    Directive{"identity.merge_window", "how recently a visitor's state must have changed to be moved at sign-in", member<&S::identity, &Identity::merge_window>, {60, 30 * kDay}},

    Directive{"readers.anonymous", "the visitor cookie names a reader with a history, a feed and interests", member<&S::readers, &ReaderSettings::anonymous>},
    Directive{"readers.anonymous_ttl", "longest TTL of any key about an anonymous reader", member<&S::readers, &ReaderSettings::anonymous_ttl>, {kDay, 30 * kDay}},

    Directive{"limits.table", "memory for a host's token buckets, 8 bytes each, and a quarter more for limits.pv_per_network and limits.anonymous_per_network; a change needs a restart", member<&S::limits, &Limits::table_bytes>, {65536, 1024 * kMebi}, Unit::kBytes},
    Directive{"limits.network_factor", "anonymous readers of a network (IPv4 /24, IPv6 /48) share this many times a visitor's rate and burst, and less when Redis' memory is scarce; their event ids take at most 1 % of it; 0: no limit", member<&S::limits, &Limits::network_factor>, {0, 10000}},
    Directive{"limits.anonymous_rate", "anonymous requests per second that may create keys, of all clients together; 0: no limit", member<&S::limits, &Limits::anonymous, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.anonymous_burst", "maximum burst of those requests", member<&S::limits, &Limits::anonymous, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.track_rate", "requests per second of a visitor, POST /api/track; 0: no limit", member<&S::limits, &Limits::track, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.track_burst", "maximum burst of those requests", member<&S::limits, &Limits::track, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.views_rate", "requests per second of a visitor, POST /api/views; 0: no limit", member<&S::limits, &Limits::views, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.views_burst", "maximum burst of those requests", member<&S::limits, &Limits::views, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.hot_rate", "requests per second of a visitor, GET /api/hot?at=; 0: no limit", member<&S::limits, &Limits::hot, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.hot_burst", "maximum burst of those requests", member<&S::limits, &Limits::hot, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.history_rate", "requests per second of a visitor, /api/history; 0: no limit", member<&S::limits, &Limits::history, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.history_burst", "maximum burst of those requests", member<&S::limits, &Limits::history, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.feedback_rate", "requests per second of a visitor, /api/feedback; 0: no limit", member<&S::limits, &Limits::feedback, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.feedback_burst", "maximum burst of those requests", member<&S::limits, &Limits::feedback, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.feed_rate", "requests per second of a visitor, POST /api/feed; 0: no limit", member<&S::limits, &Limits::feed, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.feed_burst", "maximum burst of those requests", member<&S::limits, &Limits::feed, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.recommendations_rate", "requests per second of a visitor, GET /api/recommendations and /api/items/{id}/similar; 0: no limit", member<&S::limits, &Limits::recommendations, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.recommendations_burst", "maximum burst of those requests", member<&S::limits, &Limits::recommendations, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.waterfall_rate", "requests per second of a visitor, GET /api/waterfall and /api/follows; 0: no limit", member<&S::limits, &Limits::timeline, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.waterfall_burst", "maximum burst of those requests", member<&S::limits, &Limits::timeline, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.contribution_ttl", "how long a visitor's contributions to counters are kept for freshetctl revert-visitor; 0: not recorded", member<&S::limits, &Limits::contribution_ttl>, {0, 30 * kDay}},
    Directive{"limits.contribution_after", "page views of an article per UTC day by one visitor, or by a network's anonymous visitors together, before their contributions are recorded; 0: record all", member<&S::limits, &Limits::contribution_after>, {0, 100000}},
    Directive{"limits.pv_per_network", "page views and visitors that a network's anonymous readers (IPv4 /24, IPv6 /48) add to an article per UTC day; after that, the n-th counts only if n is a square; 0: no limit", member<&S::limits, &Limits::pv_per_network>, {0, 1e6}},
    Directive{"limits.anonymous_per_network", "new anonymous readers of a network (IPv4 /24, IPv6 /48) per UTC day; further visitors are served without a state of their own; 0: no limit", member<&S::limits, &Limits::anonymous_per_network>, {0, 1e6}},
    Directive{"clients.deny_file", "file with addresses, networks and user agents that get 403; empty: none", member<&S::clients, &Clients::deny_file>},
    Directive{"clients.allow_file", "file with those that are never denied, limited or treated as crawlers; empty: none", member<&S::clients, &Clients::allow_file>},

    Directive{"bots.enabled", "do not count crawlers on the public server; they still get replies", member<&S::bots, &BotSettings::enabled>},
    Directive{"bots.allow", "patterns (RE2) of user agents that count although the crawler list matches them", member<&S::bots, &BotSettings::allow>},

    Directive{"spool.path", "folder of the spool files, which hold writes while Redis is unavailable", member<&S::spool, &SpoolSettings::path>},
    Directive{"spool.max_bytes", "maximum size of each worker's spool file", member<&S::spool, &SpoolSettings::max_bytes>, {65536, 65536 * kMebi}, Unit::kBytes},
    Directive{"spool.max_age", "spooled writes older than this are dropped", member<&S::spool, &SpoolSettings::max_age>, {3600, 90 * kDay}},
    Directive{"spool.queue_commands", "maximum number of commands that the background writer holds in memory", member<&S::spool, &SpoolSettings::max_queued_commands>, {1, 1e7}},

    Directive{"http.cors_origins", "origins whose pages may call the public routes from a browser", member<&S::http, &HttpSettings::cors_origins>},
    Directive{"http.internal_hosts", "host names of the internal server that browsers may use, in addition to its addresses", member<&S::http, &HttpSettings::internal_hosts>},
    Directive{"http.scheme_header", "header in which a proxy in front of nginx passes the client's scheme", member<&S::http, &HttpSettings::scheme_header>, {}, Unit::kNone, "none|X-Forwarded-Proto"},
};
// clang-format on

}  // namespace

std::span<const Directive> directives() { return kDirectives; }

const Directive* find_directive(std::string_view name) {
  if (name == "pm") name = "pm.mode";
  if (name == "listen") name = "listen.address";
  if (const NameAlias* alias = find_alias(name)) name = alias->name;
  for (const Directive& row : kDirectives)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace freshet::config

#include "core/config/config_directives.h"

#include <array>

namespace freshet::config {
namespace {

// The address of a member, through any number of nested structs: at<&Settings::pool,
// &PoolSettings::pm>.
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
    Directive{"pid", "file that holds the master's process id; empty: none", member<&S::pid>},
    Directive{"error_log", "where log lines go: stderr, or a file", member<&S::error_log>},
    Directive{"log_level", "the least important line still written", member<&S::log_level>, {}, Unit::kNone, "debug|notice|warning|error"},

    Directive{"listen.address", "unix socket (absolute path) or host:port", member<&S::pool, &Pool::listen>},
    Directive{"listen.backlog", "connections that may wait to be accepted", member<&S::pool, &Pool::listen_backlog>, {1, 65535}},
    Directive{"listen.owner", "user that owns the socket file; empty: who started the master", member<&S::pool, &Pool::listen_owner>},
    Directive{"listen.group", "group of the socket file", member<&S::pool, &Pool::listen_group>},
    Directive{"listen.mode", "permissions of the socket file", member<&S::pool, &Pool::listen_mode>, {0, 0777}, Unit::kMode},
    Directive{"listen.allowed_clients", "addresses that may connect (TCP only); empty: all", member<&S::pool, &Pool::listen_allowed_clients>},

    Directive{"user", "user the workers run as, when the master is started as root", member<&S::pool, &Pool::user>},
    Directive{"group", "group the workers run as; empty: the user's own", member<&S::pool, &Pool::group>},
    Directive{"rlimit_files", "open files of each worker; 0: as inherited", member<&S::pool, &Pool::rlimit_files>, {0, 1048576}},
    Directive{"rlimit_core", "core file of a worker, bytes; -1: as inherited", member<&S::pool, &Pool::rlimit_core>, {-1, 1e15}},
    Directive{"process.priority", "nice value of master and workers; 0: as inherited", member<&S::pool, &Pool::process_priority>, {-19, 20}},
    Directive{"chdir", "folder the workers work in; empty: stays", member<&S::pool, &Pool::chdir>},
    Directive{"env", "environment of the workers, name -> value; $NAME takes the master's", member<&S::pool, &Pool::env>},
    Directive{"catch_workers_output", "stdout and stderr of workers go to error_log", member<&S::pool, &Pool::catch_workers_output>},
    Directive{"process_control_timeout", "time a worker has to finish after a stop or reload", member<&S::pool, &Pool::process_control_timeout>, {1, 3600}},
    Directive{"request_terminate_timeout", "a worker whose loop has not turned for so long is killed; 0: never", member<&S::pool, &Pool::request_terminate_timeout>, {0, 3600}},
    Directive{"emergency_restart_threshold", "so many workers that died by a signal within the interval begin a new generation; 0: off", member<&S::pool, &Pool::emergency_restart_threshold>, {0, 10000}},
    Directive{"emergency_restart_interval", "see emergency_restart_threshold", member<&S::pool, &Pool::emergency_restart_interval>, {1, kDay}},
    Directive{"request_slowlog_timeout", "a request that takes longer is logged with what it did; 0: never", member<&S::request_log, &RequestLog::slow_timeout>, {0, kHourMs}},
    Directive{"slowlog", "file of slow requests; empty: error_log", member<&S::request_log, &RequestLog::slowlog>},
    Directive{"access.log", "file with a line for each request; empty: none", member<&S::request_log, &RequestLog::access_log>},
    Directive{"access.format", "what that line says, in PHP-FPM's letters", member<&S::request_log, &RequestLog::access_format>},

    Directive{"pm.mode", "static: all workers at once; dynamic: by how many are idle; ondemand: none until needed", member<&S::pool, &Pool::pm_mode>, {}, Unit::kNone, "static|dynamic|ondemand"},
    Directive{"pm.max_children", "workers; 0: one a core, at least two", member<&S::pool, &Pool::max_children>, {0, 1024}},
    Directive{"pm.start_servers", "dynamic: workers at the start; 0: halfway between the spare limits", member<&S::pool, &Pool::start_servers>, {0, 1024}},
    Directive{"pm.min_spare_servers", "dynamic: idle workers kept at least", member<&S::pool, &Pool::min_spare_servers>, {1, 1024}},
    Directive{"pm.max_spare_servers", "dynamic: idle workers kept at most; 0: pm.max_children", member<&S::pool, &Pool::max_spare_servers>, {0, 1024}},
    Directive{"pm.process_idle_timeout", "ondemand: an idle worker ends after this", member<&S::pool, &Pool::process_idle_timeout>, {1, kDay}},
    Directive{"pm.max_in_flight", "requests inside one worker; more are answered 503", member<&S::pool, &Pool::max_in_flight>, {1, 65536}},
    Directive{"pm.max_requests", "replace a worker after so many requests, +-10 %; 0: never", member<&S::pool, &Pool::max_requests>, {0, 1e9}},
    Directive{"pm.max_rss", "replace a worker whose resident memory exceeds this, +-10 %; 0: never", member<&S::pool, &Pool::max_rss>, {0, 1e15}, Unit::kBytes},
    Directive{"pm.status_listen", "unix socket or host:port where status and metrics are answered even when all workers are busy; empty: none", member<&S::pool, &Pool::status_listen>},
    Directive{"pm.status_path", "URI of the status page; empty: none", member<&S::pool, &Pool::status_path>},
    Directive{"ping.path", "URI of the ping page; empty: none", member<&S::pool, &Pool::ping_path>},
    Directive{"ping.response", "what the ping page says", member<&S::pool, &Pool::ping_response>},
    Directive{"ready.require", "what /health/ready answers 503 without: redis, items, index, model, writes", member<&S::ready, &ReadySettings::require>},

    Directive{"gateway.read_timeout", "a request that has begun must be whole after this", member<&S::gateway, &Gateway::read_timeout>, {1, kHourMs}},
    Directive{"gateway.write_timeout", "a reply must be taken in this time", member<&S::gateway, &Gateway::write_timeout>, {1, kHourMs}},
    Directive{"gateway.max_params_bytes", "FastCGI parameters of a request", member<&S::gateway, &Gateway::max_params_bytes>, {1024, kMebi}, Unit::kBytes},
    Directive{"gateway.max_body_bytes", "body of a request", member<&S::gateway, &Gateway::max_body_bytes>, {1024, 64 * kMebi}, Unit::kBytes},
    Directive{"gateway.max_bulk_body_bytes", "body of a request on a bulk route", member<&S::gateway, &Gateway::max_bulk_body_bytes>, {1024, 256 * kMebi}, Unit::kBytes},
    Directive{"gateway.request_budget", "of a request that is not a bulk one; then what a page shows without Redis, or 503", member<&S::gateway, &Gateway::request_budget>, {1, kHourMs}},
    Directive{"gateway.bulk_budget", "for a bulk write, looked at between two batches; then 503", member<&S::gateway, &Gateway::bulk_budget>, {1, kHourMs}},

    Directive{"redis.url", "unix://PATH or redis://[user:password@]host:port[/db]", member<&S::redis, &Redis::url>},
    Directive{"redis.username", "ACL user; empty: the default user", member<&S::redis, &Redis::username>},
    Directive{"redis.password_file", "file that holds the password; empty: none", member<&S::redis, &Redis::password_file>},
    Directive{"redis.db", "database number", member<&S::redis, &Redis::db>, {0, 65535}},
    Directive{"redis.key_prefix", "put before every key, for a Redis shared with others", member<&S::redis, &Redis::key_prefix>},
    Directive{"redis.partitions", "of a cluster: parts that what articles share is cut into; a power of two; another number needs freshetctl repartition", member<&S::redis, &Redis::partitions>, {1, 64}},
    Directive{"redis.timeout", "deadline of a command", member<&S::redis, &Redis::timeout>, {1, 60e3}},
    Directive{"redis.reconnect_min", "first wait before a new connection", member<&S::redis, &Redis::reconnect_min>, {1, 60e3}},
    Directive{"redis.reconnect_max", "longest wait before a new connection", member<&S::redis, &Redis::reconnect_max>, {1, 600e3}},
    Directive{"redis.breaker_failures", "failures in a row after which Redis is left alone for a while", member<&S::redis, &Redis::breaker_failures>, {1, 1000}},
    Directive{"redis.breaker_open", "first such while, doubling up to redis.reconnect_max", member<&S::redis, &Redis::breaker_open>, {1, 600e3}},
    Directive{"redis.sentinels", "host:port of the sentinels to ask for the master; empty: redis.url says where it is", member<&S::redis, &Redis::sentinels>},
    Directive{"redis.sentinel_master", "name the sentinels know the master by", member<&S::redis, &Redis::sentinel_master>},
    Directive{"redis.sentinel_username", "ACL user of the sentinels; empty: the default user", member<&S::redis, &Redis::sentinel_username>},
    Directive{"redis.sentinel_password_file", "file that holds the sentinels' password; empty: none", member<&S::redis, &Redis::sentinel_password_file>},

    Directive{"hot.pv_weight", "points of a page view", member<&S::engagement, &Hot::pv_weight>, {0, 1e9}},
    Directive{"hot.uv_weight", "points of a visitor", member<&S::engagement, &Hot::uv_weight>, {0, 1e9}},
    Directive{"hot.dwell_weight", "points of a millisecond of mean dwell time", member<&S::engagement, &Hot::dwell_weight>, {0, 1e6}},
    Directive{"hot.dwell_cap", "longest dwell time one report can claim", member<&S::engagement, &Hot::dwell_cap_ms>, {1, 24 * kHourMs}, Unit::kMilliseconds},
    Directive{"hot.max_initial_dwell", "longest dwell time a session's first report can claim through the public server", member<&S::engagement, &Hot::max_initial_dwell_ms>, {0, 24 * kHourMs}, Unit::kMilliseconds},
    Directive{"hot.dwell_prior_views", "views that the prior counts for in the mean; 0: plain mean", member<&S::engagement, &Hot::dwell_prior_views>, {0, 1e9}},
    Directive{"hot.dwell_prior", "dwell time expected of an unknown article", member<&S::engagement, &Hot::dwell_prior_ms>, {0, 24 * kHourMs}, Unit::kMilliseconds},
    Directive{"hot.half_life", "age at which a score has halved", member<&S::engagement, &Hot::half_life>, {600, 3650 * kDay}},
    Directive{"hot.counter_ttl", "counters of an article nobody opens live so long", member<&S::engagement, &Hot::counter_ttl>, {3600, 3650 * kDay}},
    Directive{"hot.session_window", "one page view a session and article in this time; 0: each report counts", member<&S::engagement, &Hot::session_window>, {0, 30 * kDay}},

    Directive{"views.pv_weight", "points of a view", member<&S::views, &Views::pv_weight>, {0, 1e9}},
    Directive{"views.uv_weight", "further points of a visitor's first view of the day", member<&S::views, &Views::uv_weight>, {0, 1e9}},
    Directive{"views.base_hours", "hours added to the age", member<&S::views, &Views::base_hours>, {0.001, 1e4}},
    Directive{"views.gamma", "exponent of the age", member<&S::views, &Views::gamma>, {0, 10}},
    Directive{"views.dedup_window", "one view a reader and article in this time", member<&S::views, &Views::dedup_window>, {1, 30 * kDay}},
    Directive{"views.uv_ttl", "the day's visitors are remembered so long", member<&S::views, &Views::uv_ttl>, {kDay, 90 * kDay}},
    Directive{"views.counter_ttl", "counters of an article nobody opens live so long", member<&S::views, &Views::counter_ttl>, {3600, 3650 * kDay}},

    Directive{"list.rebuild_interval", "a list is rebuilt at most once in this time", member<&S::list, &List::rebuild_interval>, {100, kHourMs}},
    Directive{"list.ttl", "life of a cached list in Redis", member<&S::list, &List::ttl>, {1, kDay}},
    Directive{"list.stale_while_revalidate", "caches may serve an old list so much longer", member<&S::list, &List::stale_while_revalidate>, {0, kDay}},
    Directive{"list.worker_ttl", "a worker answers from its own copy for so long", member<&S::list, &List::worker_ttl>, {0, kHourMs}},
    Directive{"list.max_members", "articles kept in each rank", member<&S::list, &List::max_members>, {100, 1e9}},
    Directive{"list.min_score", "an article whose score fell below leaves the rank", member<&S::list, &List::min_score>, {0, 1}},

    Directive{"items.unknown", "events that name items which were never put", member<&S::items_unknown>, {}, Unit::kNone, "count|list|reject"},
    Directive{"items.unknown_max", "articles that only strangers have read and that are not listed; beyond it 429", member<&S::items_unknown_max>, {100, 1e9}},
    Directive{"items.cache", "memory in which a worker keeps titles and links of items, the least recently used leaving first; 0: none", member<&S::items_cache_bytes>, {0, 1024 * kMebi}, Unit::kBytes},

    Directive{"recorder.enabled", "this host writes SQLite and the search index; on one host of a deployment", member<&S::recorder, &Recorder::enabled>},
    Directive{"recorder.database", "SQLite file of the recorder", member<&S::recorder, &Recorder::database>},
    Directive{"recorder.rebuild", "who gives a Redis that lost its items them back: the recorder, or freshetctl rebuild-redis", member<&S::recorder, &Recorder::rebuild>, {}, Unit::kNone, "auto|manual"},
    Directive{"recorder.batch", "stream entries the recorder writes in one transaction", member<&S::recorder, &Recorder::batch_size>, {1, 10000}},
    Directive{"stream.max_len", "entries that may wait for the recorder; beyond it writes get 503", member<&S::recorder, &Recorder::stream_max_len>, {1000, 1e9}},

    Directive{"search.index", "folder of the search index", member<&S::search, &Search::index>},
    Directive{"search.shards", "host:port of xapian-tcpsrv servers to search instead of the folder", member<&S::search, &Search::shards>},
    Directive{"search.stemmer", "language whose word endings are ignored", member<&S::search, &Search::stemmer>, {}, Unit::kNone,
              "none|arabic|armenian|basque|catalan|danish|dutch|english|finnish|french|german|hungarian|indonesian|irish|italian|lithuanian|nepali|norwegian|portuguese|romanian|russian|spanish|swedish|tamil|turkish"},

    Directive{"recall.size", "candidates a refresh asks for first", member<&S::recall, &Recall::size>, {10, 10000}},
    Directive{"recall.max_depth", "candidates of the last step, each twice the one before", member<&S::recall, &Recall::max_depth>, {10, 1e6}},
    Directive{"recall.budget", "no further step after this; the processor time of one search", member<&S::recall, &Recall::budget>, {1, kHourMs}},
    Directive{"recall.threads", "threads of each worker that search for texts, and as many for all else", member<&S::recall, &Recall::threads>, {1, 64}},
    Directive{"recall.decay_offset", "age up to which nothing decays", member<&S::recall, &Recall::decay_offset>, {0, 3650 * kDay}},
    Directive{"recall.decay_scale", "age beyond the offset at which a score has fallen to recall.decay", member<&S::recall, &Recall::decay_scale>, {1, 3650 * kDay}},
    Directive{"recall.decay", "factor at offset + scale", member<&S::recall, &Recall::decay>, {0.001, 0.999}},

    Directive{"seen.filter", "how impressions are remembered", member<&S::seen, &Seen::filter>, {}, Unit::kNone, "fingerprints|redisbloom"},
    Directive{"seen.false_positive_rate", "share of unseen items that may be taken for seen, over all days together", member<&S::seen, &Seen::false_positive_rate>, {1e-6, 0.2}},
    Directive{"seen.impressions_per_day", "expected impressions of all readers", member<&S::seen, &Seen::impressions_per_day>, {1000, 1e10}},

    Directive{"feed.buffer_ttl", "life of a reader's buffer of candidates", member<&S::feed, &Feed::buffer_ttl>, {10, kDay}},
    Directive{"feed.replay_window", "a page can be asked for again so long", member<&S::feed, &Feed::replay_window>, {1, 3600}},
    Directive{"feed.max_pending", "impressions of a reader not yet in the filter; beyond it 503", member<&S::feed, &Feed::max_pending>, {100, 1e6}},
    Directive{"feed.interest_min_dwell", "reading an item this long counts as interest", member<&S::feed, &Feed::interest_min_dwell>, {0, kHourMs}},

    Directive{"history.size", "topics a reader looked at last that are kept, and as many replies", member<&S::history, &History::size>, {1, 128}},
    Directive{"history.ttl", "they are forgotten so long after the last view", member<&S::history, &History::ttl>, {60, 365 * kDay}},
    Directive{"history.from_track", "a known reader's track and views are topics viewed, too", member<&S::history, &History::from_track>},

    Directive{"interactions.post_weight", "what a post says of the reader's interest", member<&S::interactions, &Interactions::post_weight>, {0, 1000}},
    Directive{"interactions.reply_weight", "a reply", member<&S::interactions, &Interactions::reply_weight>, {0, 1000}},
    Directive{"interactions.favorite_weight", "a favourite", member<&S::interactions, &Interactions::favorite_weight>, {0, 1000}},
    Directive{"interactions.share_weight", "a share", member<&S::interactions, &Interactions::share_weight>, {0, 1000}},
    Directive{"interactions.like_weight", "a like", member<&S::interactions, &Interactions::like_weight>, {0, 1000}},
    Directive{"interactions.view_weight", "a view", member<&S::interactions, &Interactions::view_weight>, {0, 1000}},
    Directive{"interactions.max_kept", "newest interactions of a reader that are kept in Redis", member<&S::interactions, &Interactions::max_kept>, {10, 10000}},
    Directive{"interactions.max_excluded", "items that stay out of a reader's recommendations for what they did with them", member<&S::interactions, &Interactions::max_excluded>, {10, 1e6}},
    Directive{"interactions.ttl", "they leave Redis so long after the last one", member<&S::interactions, &Interactions::ttl>, {kDay, 3650 * kDay}},

    Directive{"feedback.ttl", "an item that a reader dismissed is kept from them so long", member<&S::feedback, &Feedback::ttl>, {3600, 3650 * kDay}},
    Directive{"feedback.max_items", "newest dismissals of a reader that are kept", member<&S::feedback, &Feedback::max_items>, {10, 10000}},
    Directive{"feedback.author_factor", "factor on other items of a dismissed item's author", member<&S::feedback, &Feedback::author_factor>, {0, 1}},
    Directive{"feedback.tag_factor", "factor on items that share a tag with a dismissed one", member<&S::feedback, &Feedback::tag_factor>, {0, 1}},

    Directive{"recommend.model", "file that freshetctl train writes and workers map", member<&S::recommend, &Recommend::model>},
    Directive{"recommend.model_from", "internal server of the host that trains, which freshetctl fetch-model asks for the model", member<&S::recommend, &Recommend::model_source>},
    Directive{"recommend.cf_weight", "w of trend x (1 + w x affinity)", member<&S::recommend, &Recommend::cf_weight>, {0, 1000}},
    Directive{"recommend.rerank", "use the model's learned re-ranker when it has one", member<&S::recommend, &Recommend::rerank>},
    Directive{"recommend.discover_every", "every Nth slot is a discovery, which the reader would not have met otherwise; 0: none", member<&S::recommend, &Recommend::discover_every>, {0, 100}},
    Directive{"recommend.profile", "newest events of a reader that count", member<&S::recommend, &Recommend::profile_events>, {1, 2000}},
    Directive{"recommend.profile_half_life", "an event is worth half after this", member<&S::recommend, &Recommend::profile_half_life>, {3600, 3650 * kDay}},
    Directive{"recommend.per_author", "most items of one author in a reply; 0: any number", member<&S::recommend, &Recommend::max_per_author>, {0, 100}},
    Directive{"recommend.per_tag", "most items of one tag in a reply; 0: any number", member<&S::recommend, &Recommend::max_per_tag>, {0, 100}},
    Directive{"recommend.soft_half_life", "exclude=soft: a viewed item has half of its score back after this", member<&S::recommend, &Recommend::soft_half_life>, {60, 365 * kDay}},
    Directive{"recommend.trend_refresh", "a worker's copy of what is trending and new is renewed so often; it is served up to twice as old", member<&S::recommend, &Recommend::trend_refresh>, {50, kHourMs}},
    Directive{"recommend.trend", "items of each rank in that copy", member<&S::recommend, &Recommend::trend_items>, {20, 2000}},
    Directive{"recommend.newest", "newest items in that copy", member<&S::recommend, &Recommend::newest_items>, {20, 1000}},
    Directive{"recommend.card_ttl", "what is known of an item of that copy is read again after this", member<&S::recommend, &Recommend::card_ttl>, {0, 3600}},

    Directive{"train.algorithm", "how items are related by who interacted with them; auto: by validation", member<&S::train, &Train::algorithm>, {}, Unit::kNone, "auto|ease|rp3beta"},
    Directive{"train.neighbours", "related items kept of each item", member<&S::train, &Train::neighbours>, {1, 2000}},
    Directive{"train.content_neighbours", "items of like content kept of each item", member<&S::train, &Train::content_neighbours>, {1, 500}},
    Directive{"train.ease_max_items", "EASE is not tried with more items", member<&S::train, &Train::ease_max_items>, {0, 50000}},
    Directive{"train.max_per_reader", "newest interactions of a reader that count", member<&S::train, &Train::max_per_reader>, {10, 1e6}},
    Directive{"train.publish", "folder for a copy of each new model, which nginx serves to other hosts; empty: none", member<&S::train, &Train::publish_folder>},

    Directive{"waterfall.channels", "names of the channels, each 1..32 of a-z 0-9 - _", member<&S::timeline, &Waterfall::channels>},
    Directive{"waterfall.follow_channel", "the channel that what authors publish goes to; empty: none", member<&S::timeline, &Waterfall::follow_channel>},
    Directive{"waterfall.max_items", "newest items of a timeline that are kept", member<&S::timeline, &Waterfall::max_items>, {10, 10000}},
    Directive{"waterfall.ttl", "a timeline lives so long after it was created or read", member<&S::timeline, &Waterfall::ttl>, {60, 3650 * kDay}},
    Directive{"waterfall.max_follows", "authors a reader can follow", member<&S::timeline, &Waterfall::max_follows>, {1, 50000}},
    Directive{"waterfall.backfill", "newest items of an author that a new follower gets", member<&S::timeline, &Waterfall::backfill>, {0, 500}},

    Directive{"fanout.max_push", "authors with more followers are pulled by their readers instead of pushed", member<&S::fanout, &Fanout::max_push_followers>, {0, 1e8}},
    Directive{"fanout.outbox", "newest items that are kept of an author", member<&S::fanout, &Fanout::outbox_size>, {1, 10000}},

    Directive{"fill.active", "freshetctl push-recommendations serves readers who opened the channel within this", member<&S::fill, &Fill::active_within>, {60, 365 * kDay}},
    Directive{"fill.items", "most items that freshetctl push-recommendations pushes to one reader at a time", member<&S::fill, &Fill::max_items>, {1, 100}},

    Directive{"identity.mode", "how a reader's identity is established", member<&S::identity, &Identity::mode>, {}, Unit::kNone, "header|token|open"},
    Directive{"identity.open_public", "allow mode open on an address that is not loopback", member<&S::identity, &Identity::open_public>},
    Directive{"identity.salt_file", "key of anonymous visitors and of the visitor cookie", member<&S::identity, &Identity::salt_file>},
    Directive{"identity.token_keys", "key id -> file, the keys of identity.mode token", member<&S::identity, &Identity::token_key_files>},

    Directive{"identity.internal_keys", "key id -> file, keys that callers of the internal server sign with; empty: none is asked for", member<&S::identity, &Identity::internal_key_files>},

    Directive{"limits.table", "memory for the token buckets of a host, 8 bytes each; changes at a restart", member<&S::limits, &Limits::table_bytes>, {65536, 1024 * kMebi}, Unit::kBytes},
    Directive{"limits.network_factor", "so many visitors' requests and bursts a network (IPv4 /24, IPv6 /48) has that are not signed in; 0: any number", member<&S::limits, &Limits::network_factor>, {0, 10000}},
    Directive{"limits.anonymous_rate", "anonymous requests a second that may make keys, of everybody together; 0: no limit", member<&S::limits, &Limits::anonymous, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.anonymous_burst", "and so many at once", member<&S::limits, &Limits::anonymous, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.track_rate", "requests a second of a visitor, POST /api/track; 0: no limit", member<&S::limits, &Limits::track, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.track_burst", "and so many at once", member<&S::limits, &Limits::track, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.views_rate", "requests a second of a visitor, POST /api/views; 0: no limit", member<&S::limits, &Limits::views, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.views_burst", "and so many at once", member<&S::limits, &Limits::views, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.hot_rate", "requests a second of a visitor, GET /api/hot?at=; 0: no limit", member<&S::limits, &Limits::hot, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.hot_burst", "and so many at once", member<&S::limits, &Limits::hot, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.history_rate", "requests a second of a visitor, /api/history; 0: no limit", member<&S::limits, &Limits::history, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.history_burst", "and so many at once", member<&S::limits, &Limits::history, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.feedback_rate", "requests a second of a visitor, /api/feedback; 0: no limit", member<&S::limits, &Limits::feedback, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.feedback_burst", "and so many at once", member<&S::limits, &Limits::feedback, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.feed_rate", "requests a second of a visitor, POST /api/feed; 0: no limit", member<&S::limits, &Limits::feed, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.feed_burst", "and so many at once", member<&S::limits, &Limits::feed, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.recommendations_rate", "requests a second of a visitor, GET /api/recommendations and /api/items/{id}/similar; 0: no limit", member<&S::limits, &Limits::recommendations, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.recommendations_burst", "and so many at once", member<&S::limits, &Limits::recommendations, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.waterfall_rate", "requests a second of a visitor, GET /api/waterfall and /api/follows; 0: no limit", member<&S::limits, &Limits::timeline, &TokenBucket::rate>, {0, 1e6}},
    Directive{"limits.waterfall_burst", "and so many at once", member<&S::limits, &Limits::timeline, &TokenBucket::burst>, {1, 1e6}},
    Directive{"limits.contribution_ttl", "what a visitor added to counters is known so long, for freshetctl revert-visitor; 0: not at all", member<&S::limits, &Limits::contribution_ttl>, {0, 30 * kDay}},
    Directive{"limits.contribution_after", "only from this report of a day on, of a reader, or of a network of those who are not signed in", member<&S::limits, &Limits::contribution_after>, {0, 100000}},
    Directive{"limits.uv_per_network", "visitors that a network (IPv4 /24, IPv6 /48) of those who are not signed in adds to an article in a day; 0: any number", member<&S::limits, &Limits::uv_per_network>, {0, 1e6}},
    Directive{"clients.deny_file", "file with addresses, networks and agents that are answered 403; empty: none", member<&S::clients, &Clients::deny_file>},
    Directive{"clients.allow_file", "file with those that are never denied, limited or taken for crawlers; empty: none", member<&S::clients, &Clients::allow_file>},

    Directive{"bots.enabled", "on the public server crawlers are answered and not counted", member<&S::bots, &BotSettings::enabled>},
    Directive{"bots.allow", "patterns (RE2) of agents that count although they are on the list", member<&S::bots, &BotSettings::allow>},

    Directive{"spool.path", "folder of what waits while Redis is away", member<&S::spool, &SpoolSettings::path>},
    Directive{"spool.max_bytes", "size of each worker's spool file", member<&S::spool, &SpoolSettings::max_bytes>, {65536, 65536 * kMebi}, Unit::kBytes},
    Directive{"spool.max_age", "what waited longer is dropped when Redis is back", member<&S::spool, &SpoolSettings::max_age>, {3600, 90 * kDay}},
    Directive{"spool.queue_commands", "commands the background writer holds in memory", member<&S::spool, &SpoolSettings::max_queued_commands>, {1, 1e7}},

    Directive{"http.cors_origins", "origins that browsers may call the public routes from", member<&S::http, &HttpSettings::cors_origins>},
    Directive{"http.internal_hosts", "names that the internal server is asked by, beside its addresses and a unix socket", member<&S::http, &HttpSettings::internal_hosts>},
    Directive{"http.scheme_header", "header in which a proxy before nginx says that a client came over TLS", member<&S::http, &HttpSettings::scheme_header>, {}, Unit::kNone, "none|X-Forwarded-Proto"},
};
// clang-format on

}  // namespace

std::span<const Directive> directives() { return kDirectives; }

const Directive* find_directive(std::string_view name) {
  if (name == "pm") name = "pm.mode";
  if (name == "listen") name = "listen.address";
  for (const Directive& row : kDirectives)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace freshet::config

"""Which tests to run for a changed file."""

import re

# Path pattern: regular expressions of ctest names, cheap tests first; the next stage runs if all tests of this one
# pass.
TESTS = [
    (r"core/(hot|items)/(parts/(version|increments|add_view|trend)|track|view|unlisted|rank_update|contribution\w*|bucket_repair|list_\w+|item_\w+|article_set|impressions|view_counts)\.lua",
     ["test_hot_store$|test_items$", "test_ctl_redis$|e2e_(hot|hot_lists|purge)$"]),
    (r"(core/base/(token_bucket|daily_count)_table|core/base/word_set|fcgi/http/rate_limiter)\.(h|cpp)", ["test_base$|test_http$", "e2e_abuse$"]),
    (r"core/feed/(parts/)?feed_\w+\.lua", ["test_feed_store$", "e2e_feed$"]),
    (r"core/redis/parts/\w+\.lua", ["test_hot_store$|test_feed_store$|test_recorder_lease$", "e2e_(feed|hot|recorder)$"]),
    (r"core/feed/seen_\w+\.lua", ["test_seen$", "e2e_feed$"]),
    (r"core/readers/(parts/)?reader_\w+\.lua", ["test_readers$|test_feed_store$", "e2e_(readers|feed|privacy|backup)$"]),
    (r"core/timeline/(timeline_\w+|parts/timeline\w*)\.lua", ["test_timeline_(store|invariant)$|test_follows$", "e2e_(waterfall|fill)$"]),
    (r"core/timeline/follow_\w+\.lua", ["test_follows$|test_timeline_(store|invariant)$|test_recorder", "e2e_fanout$"]),
    (r"core/recorder/(parts/)?(stream_ack|fence|lease\w*)\.lua", ["test_recorder"]),
    (r"fcgi/handlers/(hot|parse_hot|past_hot|preview|served_list)\.cpp", ["test_parse_hot$", "e2e_(hot|hot_lists|pixel|tune)$", "e2e_(bad_input|abuse|identity|http|openapi|redis_faults)$"]),
    (r"fcgi/handlers/feed\.cpp", ["e2e_feed$", "e2e_(abuse|identity|bad_input|openapi|redis_states)$"]),
    (r"fcgi/handlers/(history|feedback|interactions|parse_readers|ndjson)\.cpp",
     ["e2e_readers$", "e2e_(bad_input|abuse|identity|openapi|privacy|redis_faults)$"]),
    (r"fcgi/handlers/recommendations\.cpp", ["e2e_recommendations$", "e2e_(abuse|identity|bad_input|openapi|redis_states)$"]),
    (r"fcgi/handlers/(items|users)\.cpp", ["e2e_(hot|privacy|recorder)$", "e2e_(bad_input|openapi|redis_faults|hosts)$"]),
    (r"fcgi/handlers/(timeline|parse_timeline|follows)\.cpp",
     ["e2e_(waterfall|waterfall_input)$", "e2e_(fanout|abuse|identity|openapi|waterfall_faults)$"]),
    (r"fcgi/handlers/(status|status_history|status_rows|admin_pages)\.cpp", ["test_observe$", "e2e_(status|http)$", "e2e_(pool|doctor|openapi)$"]),
    (r"fcgi/handlers/last_lists\.(h|cpp)", ["test_last_lists$", "e2e_hot_lists$"]),
    (r"fcgi/handlers/login_merges\.(h|cpp)", ["e2e_merge$"]),
    (r"fcgi/handlers/(application|routes|visitor)\.cpp", ["test_openapi$", "e2e_(http|internal|abuse|identity|openapi)$", "e2e_(status|bad_input|redis_faults)$"]),
    (r"nginx/html/freshet\.js", ["test_pages$", "test_browser(_dwell)?$"]),
    (r"nginx/html/freshet-list\.js", ["test_pages$", "test_browser_list$"]),
    (r"nginx/html/\w+\.js", ["test_pages$", "test_browser(_pages)?$"]),
    (r"scripts/clients/.*/(express\.mjs|freshet_web\.py|FreshetSite\.php)", ["e2e_client_sites$"]),
    (r"scripts/clients/.*", ["e2e_client_faults$", "e2e_clients$"]),
    (r"nginx/.*\.conf", ["test_nginx_", "e2e_(http|hot_lists|identity|socket|status|faults)$"]),
    (r"systemd/redis-acl\.conf", ["test_redis_server$", "e2e_(readers|recorder|backup|doctor)$"]),
    (r"systemd/.*", ["test_(systemd|units)$", "hardening_|test_(package|install|documents)$"]),
]
# Files without a row: all tests with this label.
LABELS = {"lua": "redis", "handlers": "e2e", "nginx": "e2e", "systemd": "e2e"}

# A test that fails within a second if a file is not valid in its language; C++ is checked by the compiler.
ALIVE = {
    "lua": ("tests/redis/test_redis_server", "the build computes the same SHA-1 as the server"),
    "nginx": ("/usr/bin/python3", "tests/nginx/nginx_test.py", "Syntax"),
}


def stages(path, kind):
    """The stages of tests for a file, each as ctest options."""
    for files, names in TESTS:
        if re.fullmatch(files, path):
            return [("-R", f"^({each})") for each in names]
    return [("-L", f"^{LABELS[kind]}$")]

"""Abuse from the open internet: floods, requests from other sites' pages, made-up ids, and inflated dwell times."""

import json
import os
import re
import signal
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from client import AGENT, CRAWLER, Load, assert_problem, quote_segment
from expensive_search import EXPENSIVE_QUERY, put_items
from fastcgi import Connection, request
from service import BUILD, LONG_TIMEOUTS, Instance, wait_until

# One token per hour and a burst of three, so that no test has to wait for a refill.
SMALL_BUCKETS = {f"limits__{endpoint}_{parameter}": value for endpoint in ("track", "views", "hot", "history", "feedback", "feed", "recommendations", "waterfall")
                 for parameter, value in (("rate", "0.0003"), ("burst", "3"))}


@pytest.fixture(scope="module")
def limited_service():
    """An instance with small token buckets and one additional allowed origin."""
    started = Instance(http__cors_origins='["https://www.example.org"]', **SMALL_BUCKETS, **LONG_TIMEOUTS)
    try:
        yield started.start()
    finally:
        started.stop()


@pytest.fixture
def instance(instance):
    started = []

    def start(*options, **directives):
        started.append(instance(*options, **directives))
        return started[-1]

    yield start
    for each in started:
        each.check()


@pytest.fixture(autouse=True)
def check_shared_instances(request):
    """Checks after each test that Redis is consistent."""
    shared = [request.getfixturevalue(each) for each in ("service", "limited_service") if each in request.fixturenames]
    yield
    for each in shared:
        each.check()


def refused_count(service, reason):
    return service.status()["refused"][reason]


# --- limits


def limited_requests(item, reader):
    """One request to each rate-limited endpoint: {label: (method, path, body)}."""
    now = int(time.time())
    return {
        "track": ("POST", "/api/track", {"articleId": item, "dwellMs": 1, "userId": reader}),
        "history": ("POST", "/api/history", {"topicId": item, "userId": reader}),
        "history, reading": ("GET", f"/api/history?userId={reader}-2", None),
        "history, clearing": ("DELETE", f"/api/history?userId={reader}-3", None),
        "feedback": ("POST", "/api/feedback", {"topicId": item, "userId": reader, "kind": "not_interested"}),
        "feedback, undoing": ("DELETE", f"/api/feedback?topicId={item}&userId={reader}-2", None),
        "feed": ("POST", "/api/feed", {"action": "refresh", "agent_id": reader, "limit": 1}),
        "feed, more": ("POST", "/api/feed", {"action": "load_more", "agent_id": f"{reader}-2", "limit": 1}),
        "feed, peek": ("POST", "/api/feed", {"action": "peek", "agent_id": f"{reader}-3"}),
        "recommendations": ("GET", f"/api/recommendations?userId={reader}", None),
        "recommendations, similar": ("GET", f"/api/items/{item}/similar", None),
        "a list for a later time": ("GET", f"/api/hot?model=engagement&at={now + 86400}", None),
        "waterfall": ("GET", f"/api/waterfall/discover?customerId={reader}", None),
        "waterfall, follows": ("GET", f"/api/waterfall/follow?customerId={reader}-2", None),
        "views": ("POST", "/api/views", {"articleId": item, "fingerprint": "f", "publishedAt": now}),
    }


def test_rate_limited_clients_get_retry_after_and_others_are_served(limited_service, name):
    item, reader = name("i"), name("r")
    limited_service.put(item)
    before = refused_count(limited_service, "rate_limited")
    for label, (method, path, body) in limited_requests(item, reader).items():
        # Clients are identified by agent and address, whatever the request claims.
        agent = {"User-Agent": f"{AGENT} {reader} {label}"}
        for _ in range(3):
            reply = limited_service.public().request(method, path, body, headers=agent)
            assert reply.status == 200, (label, reply)
        reply = limited_service.public().request(method, path, body, headers=agent)
        assert_problem(reply, 429, "rate_limited")
        assert 3000 < int(reply.headers["Retry-After"]) <= 3600, label
        assert limited_service.internal().request(method, path, body).status == 200, label
    others = limited_requests(item, name("r"))
    for label, (method, path, body) in others.items():
        assert limited_service.public().request(method, path, body, headers={"User-Agent": f"{AGENT} another"}).status == 200, label
    assert refused_count(limited_service, "rate_limited") == before + len(others)


def rate_limit(reply):
    return tuple(int(reply.headers[f"RateLimit-{label}"]) for label in ("Limit", "Remaining", "Reset"))


def test_replies_carry_rate_limit_headers_except_cached_lists(limited_service, name):
    item, agent = name("i"), f"{AGENT} {name('agent')}"
    limited_service.put(item)
    client = limited_service.public(agent=agent)
    replies = [client.track(item, 1) for _ in range(4)]
    assert [rate_limit(reply)[:2] for reply in replies] == [(3, 2), (3, 1), (3, 0), (3, 0)]
    assert [reply.status for reply in replies] == [200, 200, 200, 429]
    resets = [rate_limit(reply)[2] for reply in replies]
    assert 3000 < resets[0] <= 3334 and 9000 < resets[2] <= 10001 and int(replies[3].headers["Retry-After"]) <= 3334
    assert rate_limit(client.post("/api/views", {"articleId": item}))[:2] == (3, 2)  # an invalid request is charged too
    cached = [client.get("/api/hot?model=views"), limited_service.internal(agent=agent).track(item, 1), client.post("/api/visitor", None)]
    for reply in cached:
        assert reply.status in (200, 204) and "RateLimit-Limit" not in reply.headers, reply
    assert rate_limit(client.get(f"/api/hot?model=engagement&at={int(time.time()) + 86400}"))[:2] == (3, 2)


def count_accepted(service, clients, article):
    """Sends one report per client and returns how many were accepted. The refused ones must show that no token is left."""
    replies = [client.track(article, 1) for client in clients]
    for reply in replies:
        assert reply.status == 200 or rate_limit(reply)[1] == 0, reply
    return sum(reply.status == 200 for reply in replies)


def test_visitors_of_one_network_share_a_limit_and_other_networks_are_unaffected(instance, name):
    service = instance("--no-limits", **SMALL_BUCKETS, limits__network_factor=20, **LONG_TIMEOUTS)
    item = name("i")
    service.put(item)

    def crowd(network, count):
        return [service.public(source=f"127.0.{network}.{1 + number % 250}", agent=f"{AGENT} {number // 250}") for number in range(count)]

    assert count_accepted(service, crowd(1, 300), item) == 60
    cookie = service.public(source="127.0.1.9").post("/api/visitor", None).headers["Set-Cookie"].split(";")[0]
    assert_problem(service.public(source="127.0.1.9").post("/api/track", {"articleId": item, "dwellMs": 1}, headers={"Cookie": cookie}), 429)
    assert refused_count(service, "network_limited") == 241 and refused_count(service, "rate_limited") == 0
    assert count_accepted(service, crowd(2, 20), item) == 20
    assert service.stats(item)["pv"] == 80


def test_the_service_wide_limit_refuses_light_networks_last(instance, name):
    bounds = {"limits__track_rate": "0.001", "limits__track_burst": 100, "limits__network_factor": 4,
              "limits__anonymous_rate": "0.003", "limits__anonymous_burst": 600}
    service = instance("--no-limits", **bounds, **LONG_TIMEOUTS)
    item = name("i")
    service.put(item)
    heavy = [count_accepted(service, [service.public(source=f"127.0.{network}.{1 + turn}") for turn in range(200)], item) for network in (1, 2, 3)]
    assert heavy[0] == 200 and heavy[2] < 200 and sum(heavy) < 600
    assert refused_count(service, "network_limited") > 0
    assert count_accepted(service, [service.public(source="127.0.9.1") for _ in range(5)], item) == 5
    light = sum(count_accepted(service, [service.public(source=f"127.0.{network}.1")] * 3, item) for network in range(10, 250))
    assert light + sum(heavy) + 5 == 600 and refused_count(service, "service_limited") > 0


def test_an_expensive_search_costs_more_than_one_token(instance, name):
    service = instance("--no-limits", limits__feed_rate="0.001", limits__feed_burst=60, limits__network_factor=2, **LONG_TIMEOUTS)
    put_items(service, 3000)

    def search(query, agent):
        return service.public(agent=f"{AGENT} {agent}").post("/api/feed", {"action": "refresh", "agent_id": name("r"), "limit": 1, "query": query})

    # A worker's first search costs more, because it opens the index.
    remaining = [60] + [rate_limit(search(query, "expensive"))[1] for query in (["nothing"] * 5 + [EXPENSIVE_QUERY])]
    cost = [before - after for before, after in zip(remaining, remaining[1:])]
    assert min(cost) == 1 and cost[-1] > 1, remaining
    assert rate_limit(search("nothing", "another"))[1] > remaining[-1]
    for _ in range(60):
        reply = search(EXPENSIVE_QUERY, "expensive")
        if reply.status == 429:
            break
    assert_problem(reply, 429, "rate_limited")
    # A search can overdraw the bucket by at most its size: 60 tokens of debt, plus the one to spend.
    assert int(reply.headers["Retry-After"]) <= 61000
    # The network's bucket of 120 tokens is charged as well, so a crowd empties it.
    assert any(search(EXPENSIVE_QUERY, f"crowd {number}").status == 429 for number in range(120))


def test_workers_share_rate_limits(instance, name):
    bounds = {"limits__track_rate": "0.001", "limits__track_burst": 100}
    service = instance("--no-limits", **bounds, pm__max_children=4, pm__mode='"static"', **LONG_TIMEOUTS)
    item = name("i")
    service.put(item)

    def served():
        return [worker["requests"] for worker in service.internal().get("/status?json&full").json()["processes"]]

    with Load(service.public, lambda client, _: client.track(item, 1), threads=8) as load:
        wait_until(lambda: len(load.results) >= 400 and sum(each > 20 for each in served()) > 1, "400 replies from several workers")
    assert not load.errors
    assert sum(reply.status == 200 for reply in load.results) == 100


def test_a_reload_keeps_rate_limit_counts(instance, name):
    service = instance("--no-limits", **SMALL_BUCKETS, **LONG_TIMEOUTS)
    item = name("i")
    service.put(item)
    assert count_accepted(service, [service.public()] * 2, item) == 2
    service.reload_and_drain()
    assert count_accepted(service, [service.public()] * 9, item) == 1


def test_a_refused_report_counts_nothing_and_a_new_fingerprint_does_not_evade_the_limit(limited_service, name):
    item = name("i")
    agent = {"User-Agent": f"{AGENT} {name('agent')}"}
    for number in range(3):
        body = {"articleId": item, "dwellMs": 1, "sessionId": name("s"), "fingerprint": f"f{number}"}
        assert limited_service.public().post("/api/track", body, headers=agent).status == 200
    before = set(limited_service.keys_containing(item))
    body = {"articleId": item, "dwellMs": 1, "sessionId": name("s"), "fingerprint": "another"}
    assert_problem(limited_service.public().post("/api/track", body, headers=agent), 429)
    assert limited_service.stats(item)["pv"] == 3 and set(limited_service.keys_containing(item)) == before
    cookie = limited_service.public().post("/api/visitor", None, headers=agent).headers["Set-Cookie"].split(";")[0]
    assert limited_service.public().post("/api/track", body, headers=agent | {"Cookie": cookie}).status == 200


def test_limits_apply_while_redis_is_unavailable_and_accepted_events_are_queued(instance, name):
    service = instance(**SMALL_BUCKETS, **LONG_TIMEOUTS)
    item = name("i")
    service.put(item)
    service.make_redis_unavailable()
    replies = [service.public().track(item, 1, sessionId=f"s{number}") for number in range(10)]
    assert [reply.status for reply in replies] == [202] * 3 + [429] * 7
    assert [rate_limit(reply)[1] for reply in replies] == [2, 1] + [0] * 8
    service.restart_redis()
    wait_until(lambda: service.redis("HGET", f"hot:article:{{{item}}}", "pv") == "3", "the spool to be replayed")


# --- dates


def test_a_date_from_an_anonymous_client_does_not_lower_a_score_for_good(service, name):
    """A first report dated 0 once gave an article a score of 0, which later honest events did not correct."""
    public, internal, now = service.public(), service.internal(), int(time.time())
    for forged in (0, 1, now - 86460, now + 86460, now + 10 ** 9, "1999-12-31T23:59:59Z"):
        tracked, viewed = name("a"), name("a")
        assert public.track(tracked, 0, sessionId=name("s"), publishedAt=forged).json()["score"] < 4.01
        assert public.track(tracked, 0, sessionId=name("s"), publishedAt=now).json()["score"] > 4
        public.view(viewed, name("f"), forged)
        public.view(viewed, name("f"), now)
        assert float(service.redis("HGET", f"hot:article:{{{viewed}}}", "score")) == pytest.approx(2 * 3 / 2 ** 1.5, rel=0.02)
    article = name("a")
    assert internal.track(article, 0, sessionId=name("s"), publishedAt=now - 10 * 86400).json()["score"] == pytest.approx(4 / 1024, rel=1e-3)
    # A date from the site itself always applies.
    service.put(tracked, published_at=now - 86400)
    assert service.stats(tracked)["score"] == pytest.approx(service.stats(tracked)["base"] / 2, rel=1e-3)


# --- memory


def fill_up(service, share):
    """Sets maxmemory so that Redis is full to this share (0 to 1)."""
    used = service.redis("MEMORY", "STATS")["total.allocated"]
    service.redis("CONFIG", "SET", "maxmemory", int(used / share))


def test_a_nearly_full_redis_still_accepts_hiding_and_erasing(instance, name):
    service = instance("--no-limits", spool__max_bytes='"64K"', **LONG_TIMEOUTS)
    item, hidden, reader = name("i"), name("i"), name("r")
    service.put(item)
    service.put(hidden)
    # Large enough that the buffers of Redis' connections do not matter.
    service.redis("SETRANGE", "hot:session:{filler}:s", 1 << 26, "x")
    service.redis("EXPIRE", "hot:session:{filler}:s", 3600)
    wait_until(lambda: service.status().get("redis full") == 0 and service.status()["recorder lag entries"] == 0, "the first sample of Redis' memory")
    fill_up(service, 0.93)
    wait_until(lambda: service.status()["redis full"] == 1, "the workers to learn that Redis is full")
    public, internal = service.public(), service.internal()

    for method, path, body in (("POST", "/api/track", {"articleId": item, "dwellMs": 1, "userId": reader}),
                               ("POST", "/api/views", {"articleId": item, "fingerprint": name("f"), "publishedAt": int(time.time())}),
                               ("POST", "/api/history", {"topicId": item, "userId": reader}), ("DELETE", f"/api/history?userId={reader}&kind=reply", None),
                               ("POST", "/api/feedback", {"topicId": item, "userId": reader, "kind": "not_interested"}),
                               ("DELETE", f"/api/feedback?userId={reader}&topicId={item}", None)):
        assert public.request(method, path, body).status == 202, path
    assert internal.put(f"/api/items/{hidden}", {"title": "t", "published_at": int(time.time()), "hidden": True}).status == 200
    assert internal.delete(f"/api/users/{name('r')}").status == 202
    assert internal.track(item, 1, sessionId=name("s")).status == 200
    ready = internal.get("/health/ready")
    assert ready.status == 200 and b"writes:false" in ready.body
    assert "freshet_redis_full 1\n" in internal.get("/metrics").body.decode()
    assert public.get("/api/hot").status == 200
    # Feeds and timelines are served without writing to Redis.
    anonymous_ids = [name("r") for _ in range(3)]
    for reader_id in anonymous_ids:
        feed = public.post("/api/feed", {"action": "refresh", "agent_id": reader_id, "limit": 1})
        assert feed.status == 200 and feed.json()["data"]["degraded"] and len(feed.json()["data"]["items"]) == 1, feed
        assert public.post("/api/feed", {"action": "load_more", "agent_id": reader_id}).json()["data"]["items"] == []
        assert public.get(f"/api/waterfall/discover?customerId={reader_id}").status == 200
        assert public.get(f"/api/waterfall/follow?customerId={reader_id}").json()["degraded"]
    assert service.keys_containing(*anonymous_ids) == [] and not any(service.redis("ZSCORE", "active:discover", reader_id) for reader_id in anonymous_ids)
    assert service.stats(item)["pv"] == 1  # queued events are not applied, although Redis answers

    # The spools are small in this test. When every worker's spool is full, reports are refused; still nothing is
    # written.
    wait_until(lambda: {public.track(name("i"), 1, sessionId=name("s")).status for _ in range(30)} == {503}, "the spools to be full", 120)
    assert_problem(public.track(name("i"), 1), 503, "spool_full")
    fill_up(service, 0.87)
    page_views = internal.get(f"/api/articles/{item}/stats").json()["pv"]
    assert page_views == 1 and service.status()["redis full"] == 1
    fill_up(service, 0.5)
    wait_until(lambda: service.status()["redis full"] == 0 and service.stats(item)["pv"] == 2 and service.status()["spooled bytes"] == 0,
               "the spools to be replayed", 60)
    assert public.track(item, 1, sessionId=name("s")).status == 200
    assert b"writes:true" in internal.get("/health/ready").body


def test_a_network_has_a_share_of_event_ids_beyond_which_reports_count_without_them(instance, name):
    service, item, share = instance("--no-limits", limits__network_factor=20, **LONG_TIMEOUTS), name("i"), 200
    service.put(item)
    service.redis("CONFIG", "SET", "maxmemory", 100 * 512 * 2 * share)  # half of them at once
    service.wait_for_memory_sample()

    def report(network, number):
        client, event = service.public(source=f"127.{network}.0.{1 + number % 200}"), f"{network}-{number}-an-event-id-of-enough-characters"
        if number % 2:
            reply = client.view(item, f"f{network}-{number}", eventId=event)
        else:
            reply = client.track(item, 1, sessionId=f"s{network}-{number}", eventId=event)
        assert reply.status == 200, reply
        return reply.json()

    def kept():
        return sum(key.startswith(("hot:event:", "hot:view:event:")) for key in service.keys_containing(item))

    for number in range(share + 100):
        report(61, number)
    assert kept() == share
    stats = service.stats(item)
    assert (stats["pv"], stats["views"]["pv"]) == ((share + 100) / 2, share + 100)  # a page view is a view, too
    # Its session and its fingerprint keep a repeated report from counting.
    assert report(61, share + 98)["pv"] == (share + 100) / 2 and report(61, share + 99)["dedup"]
    for number in range(10):
        report(62, number)
    assert kept() == share + 10
    assert service.internal().track(item, 1, sessionId=name("s"), eventId=name("e")).status == 200 and kept() == share + 11
    service.configure(limits__network_factor=0)
    service.reload_and_drain()
    report(61, share + 100)
    assert kept() == share + 12


def test_an_anonymous_readers_history_and_dismissals_share_the_event_ids_of_the_network(instance, name):
    service, share = instance("--no-limits", limits__network_factor=20, **LONG_TIMEOUTS), 200
    items = [name("i") for _ in range(150)]
    service.redis("CONFIG", "SET", "maxmemory", 100 * 512 * 2 * share)  # half of them at once
    service.wait_for_memory_sample()
    reader, public = name("r"), service.public(source="127.61.0.1")
    for number, item in enumerate(items):
        assert public.post("/api/history", {"userId": reader, "topicId": item, "eventId": f"h{number}"}).status == 200
        assert public.post("/api/feedback", {"userId": reader, "topicId": item, "kind": "not_interested", "eventId": f"d{number}"}).status == 200
    assert service.redis("ZCARD", f"user:events:{{{reader}}}") == share
    assert service.redis("ZCARD", f"user:not_interested:{{{reader}}}") == len(items)


def test_while_memory_is_scarce_heavy_networks_are_refused_first(instance, name):
    """From 60 % of maxmemory on, a report costs its network more than one token."""
    service = instance("--no-limits", limits__track_rate="0.001", limits__track_burst=10, limits__network_factor=10, **LONG_TIMEOUTS)
    item = name("i")
    service.put(item)
    # Large enough that the buffers of Redis' connections do not matter.
    service.redis("SETRANGE", "hot:session:{filler}:s", 1 << 26, "x")
    service.redis("EXPIRE", "hot:session:{filler}:s", 3600)

    def accepted(network, count):
        return count_accepted(service, [service.public(source=f"127.0.{network}.{1 + number}") for number in range(count)], item)

    fill_up(service, 0.5)
    service.wait_for_memory_sample()
    assert accepted(1, 120) == 100
    fill_up(service, 0.8)
    service.wait_for_memory_sample()
    assert 9 <= accepted(2, 120) <= 13 and accepted(1, 1) == 0  # nine tokens each
    assert accepted(3, 5) == 5
    assert refused_count(service, "network_limited") > 0 and refused_count(service, "rate_limited") == 0
    assert all(service.internal().track(item, 1, sessionId=name("s")).status == 200 for _ in range(20))
    fill_up(service, 0.93)
    wait_until(lambda: service.status()["redis full"] == 1, "the workers to learn that Redis is full")
    replies = [service.public(source=f"127.0.4.{1 + number}").track(item, 1) for number in range(5)]
    assert [reply.status for reply in replies] == [202] + 4 * [429]


# --- unverified articles


def track_from_network(service, network, item, **members):
    return service.public(source=f"127.{network}.0.1").track(item, 180000, sessionId=f"s{network}", **members)


def make_ten_minutes_older(service, article):
    """As if the unverified article's first report were ten minutes older."""
    service.redis("HINCRBY", f"hot:article:{{{article}}}", "nets_since", -600)


def listed_ids(service):
    """Ids on all public lists as the workers have them; the extra parameter bypasses nginx's cache of one second."""
    service.wait_for_background_writes()
    return {item["id"] for model in ("engagement", "views") for item in service.public().get(f"/api/hot?model={model}&limit=100&x={time.time_ns()}").json()}


def test_unverified_articles_are_small_and_limited_per_network(instance):
    service = instance("--no-limits", items__unknown='"count"', **LONG_TIMEOUTS)
    service.put("known")
    anonymous = service.public(source="127.61.0.1")
    replies = [anonymous.track(f"made-{number:05}", 1000, sessionId=f"s{number}") for number in range(110)]
    assert [reply.status for reply in replies] == [200] * 100 + [429] * 10
    assert all(reply.json()["listed"] is False for reply in replies[:100])
    assert_problem(replies[-1], 429, "unverified_quota")
    assert int(replies[-1].headers["Retry-After"]) >= 60 and refused_count(service, "unverified_quota") == 10
    assert_problem(service.public(source="127.61.0.9").view("made-by-view", "f"), 429, "unverified_quota")
    assert anonymous.track("known", 1).status == 200 and anonymous.track("made-00001", 1).status == 200
    assert service.public(source="127.62.0.1").track("made-00100", 1).status == 200
    # Thirty networks make an unverified article as large as it can get.
    for network in range(62, 91):
        for number in range(20):
            assert track_from_network(service, network, f"made-{number:05}").json()["uv"] == network - 60
    hashes = [f"hot:article:{{made-{number:05}}}" for number in range(101)]
    assert set(service.keys_containing("made-")) == set(hashes)
    list_share = service.redis("MEMORY", "USAGE", "hot:unlisted", "SAMPLES", 0) / len(hashes)
    assert max(service.redis("MEMORY", "USAGE", key, "SAMPLES", 0) for key in hashes) + list_share <= 600
    assert all(3000 < service.redis("TTL", key) <= 3600 for key in hashes)


def test_unverified_articles_are_not_listed_until_they_are_verified(instance):
    service = instance("--no-limits", items__unknown='"count"', **LONG_TIMEOUTS)
    service.put("honest")
    service.public().track("honest", 1000)
    text = "BUY-AT-EVIL.EXAMPLE-NOW".ljust(128, "!")
    now = int(time.time())
    for network in range(61, 90):
        assert track_from_network(service, network, text).json()["listed"] is False
        viewed = service.public(source=f"127.{network}.0.1").view(f"v{text[1:]}", f"f{network}", now)
        assert viewed.json()["listed"] is False and viewed.json()["ok"]
    # The networks of one /16 count as one.
    for network in range(1, 33):
        assert service.public(source=f"127.61.{network}.1").track(text, 1000, sessionId=f"t{network}").json()["pv"] == 29
    wait_until(lambda: listed_ids(service) == {"honest"}, "the verified article to be listed")
    stats = service.stats(text)
    assert stats["pv"] == 29 and stats["listed"] is False
    # An article is listed after a report from the 30th network if the first is ten minutes old, a PUT, or a report from
    # the site itself.
    assert track_from_network(service, 90, text).json()["listed"] is False
    make_ten_minutes_older(service, text)
    assert "listed" not in track_from_network(service, 90, text).json()
    assert track_from_network(service, 61, "put-later").json()["listed"] is False and track_from_network(service, 61, "reported").json()["listed"] is False
    wait_until(lambda: listed_ids(service) == {"honest", text}, "the article of thirty networks to be listed")
    service.put("put-later")
    assert service.internal().track("reported", 1).status == 200
    wait_until(lambda: listed_ids(service) == {"honest", text, "put-later", "reported"}, "the verified articles to be listed")
    assert "listed" not in service.stats("reported")


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\u200b", "\ufeff", "\u061c", "\u00ad"])
def test_ids_with_invisible_or_reordering_characters_are_refused(service, character):
    for reply in (service.public().track(f"a{character}b", 1), service.public().view(f"a{character}b", "f"),
                  service.internal().put("/api/items/" + quote_segment(f"a{character}b"), {"title": "t", "published_at": 1})):
        assert_problem(reply, 400, "bad_id")


# --- page views of one network


PIPELINED = 50  # requests of a connection, fewer than nginx's keepalive_requests


def from_one_network(service, network, numbers, threads, make):
    """Sends the report make(number), a path and a body, of each number, each as another agent, from addresses of one /24 over
    this many connections at a time. Returns (status, body) of the replies.
    """
    def send(batch):
        data = []
        for number in batch:
            path, members = make(number)
            body = json.dumps(members)
            data.append(f"POST {path} HTTP/1.1\r\nHost: freshet\r\nUser-Agent: {AGENT} {number}\r\nContent-Type: application/json\r\n"
                        f"Content-Length: {len(body)}\r\n{'Connection: close' if number == batch[-1] else 'Accept: */*'}\r\n\r\n{body}")
        source, received = f"127.{network}.0.{1 + batch[0] // PIPELINED % 250}", []
        with socket.create_connection((service.host, service.port), timeout=80, source_address=(source, 0)) as connection:
            connection.sendall("".join(data).encode())
            while more := connection.recv(1 << 18):
                received.append(more)
        replies, rest = [], b"".join(received)
        while rest:
            head, _, rest = rest.partition(b"\r\n\r\n")
            size = int(re.search(rb"\r\nContent-Length: (\d+)", head)[1])
            replies.append((int(head.split()[1]), json.loads(rest[:size])))
            rest = rest[size:]
        assert len(replies) == len(batch)
        return replies

    with ThreadPoolExecutor(threads) as pool:
        batches = [numbers[first:first + PIPELINED] for first in range(0, len(numbers), PIPELINED)]
        return [reply for replies in pool.map(send, batches) for reply in replies]


def track_once(item):
    """Reports as a new session of a new visitor each time."""
    return lambda number: ("/api/track", {"articleId": item, "dwellMs": 180000, "sessionId": f"s{number}", "fingerprint": f"f{number}"})


def view_once(item):
    return lambda number: ("/api/views", {"articleId": item, "fingerprint": f"fingerprint-{number}", "publishedAt": int(time.time())})


@pytest.fixture
def same_day():
    """Skips the test shortly before midnight UTC, when each network's count starts again."""
    if time.time() % 86400 > 86400 - 600:
        pytest.skip("midnight UTC is near")


PARALLEL = 32


@pytest.mark.usefixtures("same_day")
def test_one_network_adds_at_most_150_views_and_visitors_in_10000_tries(instance, name):
    service = instance("--no-limits", limits__pv_per_network=50, pm__max_children=4, pm__mode='"static"', **LONG_TIMEOUTS)
    tracked, viewed = name("i"), name("i")
    for item, make in ((tracked, track_once(tracked)), (viewed, view_once(viewed))):
        service.put(item)
        before = refused_count(service, "page_view_quota")
        replies = from_one_network(service, 61, range(3000), 1, make) + from_one_network(service, 61, range(3000, 10000), PARALLEL, make)
        assert {status for status, _ in replies} == {200}
        refused = sum("counted" in body for _, body in replies)
        assert refused == 10000 - 143 and refused_count(service, "page_view_quota") == before + refused
    stats = service.stats(tracked)
    assert stats["pv"] == stats["dwell"]["count"] == 143 and 130 < stats["uv"] <= 150
    assert stats["trending"]["score"] <= 144
    # Refused reports leave nothing in Redis.
    assert sum(key.startswith("hot:session:") for key in service.keys_containing(tracked)) == 143
    stats = service.stats(viewed)["views"]
    assert stats["pv"] == stats["uv_today"] == 143
    for make in (track_once(tracked), view_once(viewed)):
        assert "counted" not in from_one_network(service, 62, [20000], 1, make)[0][1]
    assert service.stats(tracked)["pv"] == 144 and service.stats(viewed)["views"]["pv"] == 144


@pytest.mark.usefixtures("same_day")
def test_one_network_cannot_raise_an_article_that_others_listed(instance):
    service, item = instance("--no-limits", items__unknown='"count"', limits__pv_per_network=50, **LONG_TIMEOUTS), "made-up"
    for network in range(61, 91):
        assert track_from_network(service, network, item).json()["listed"] is False
    make_ten_minutes_older(service, item)
    for make in (track_once(item), view_once(item)):
        replies = from_one_network(service, 100, range(2000), PARALLEL, make)
        assert sum("counted" not in body for _, body in replies) == 87  # 50, and the squares from 64 to 1936
    stats = service.stats(item)
    assert stats["pv"] in (30 + 87, 31 + 87) and stats["uv"] <= 31 + 87 and stats["views"]["pv"] <= 31 + 2 * 88


@pytest.mark.usefixtures("same_day")
def test_reports_that_add_nothing_use_up_no_page_views(instance, name):
    service, item = instance("--no-limits", limits__pv_per_network=5, **LONG_TIMEOUTS), name("i")
    service.put(item)
    crowd = [service.public(source=f"127.61.0.{1 + number}", agent=f"{AGENT} {number}") for number in range(8)]
    event = name("an-event-id-of-enough-characters")
    for _ in range(20):
        assert "counted" not in crowd[0].track(item, 1000, sessionId="s0", eventId=event).json()
        assert "counted" not in crowd[0].track(item, 2000, sessionId="s0").json()
        assert crowd[0].view(item, "f0").json()["ok"]
    for number in range(1, 5):
        assert crowd[number].track(item, 1000, sessionId=f"s{number}").json()["pv"] == number + 1
        assert crowd[number].view(item, f"f{number}").json()["uv"]
    # A session that counts goes on; another visitor in it does not count.
    assert crowd[1].track(item, 3000, sessionId="s1").json()["avg_dwell_ms"] == 1600
    assert crowd[6].track(item, 1000, sessionId="s1").json()["uv"] == 5
    for number in range(5, 8):
        assert crowd[number].track(item, 1000, sessionId=f"s{number}").json() | {"score": 0} == \
            {"pv": 5, "uv": 5, "avg_dwell_ms": 1600, "score": 0, "counted": False}
        assert crowd[number].view(item, f"f{number}").json() == {"ok": True, "uv": False, "scoreInc": 0, "counted": False}
    # The ninth is a square.
    assert crowd[7].track(item, 0, sessionId="t").json()["pv"] == 6
    # Other articles, other networks and the internal server.
    other = name("i")
    service.put(other)
    assert crowd[7].track(other, 1000).json()["pv"] == 1
    assert service.public(source="127.61.1.1").track(item, 1000).json()["pv"] == 7
    for number in range(10):
        assert service.internal().track(item, 1000, sessionId=f"site{number}").json()["pv"] == 8 + number
    assert refused_count(service, "page_view_quota") == 6
    assert 'freshet_requests_refused_total{reason="page_view_quota"} 6' in service.internal().get("/metrics").body.decode()


@pytest.mark.usefixtures("same_day")
def test_signed_in_and_allowed_clients_have_no_page_view_quota(instance, name):
    service, item = instance("--no-limits", identity__mode='"header"', limits__pv_per_network=2, **LONG_TIMEOUTS), name("i")
    service.put(item)

    def track_as(user, number):
        body = json.dumps({"articleId": item, "dwellMs": 1, "sessionId": f"{user}-{number}"}).encode()
        with Connection(service.socket_path) as direct:
            status, reply = direct.request(method="POST", uri="/api/track", zone="public", body=body, REMOTE_ADDR="203.0.113.1", FRESHET_USER=user)
            assert status == 200, reply
            return reply

    for number in range(9):
        assert b"counted" not in track_as(name("r"), number)
    assert [b"counted" in track_as("", number) for number in range(6)] == [False, False, True, False, True, True]
    allow = os.path.join(service.state, "etc", "allow")
    with open(allow, "w", encoding="utf-8") as file:
        file.write("203.0.113.1\n")
    service.configure(clients__allow_file=f'"{allow}"')
    service.reload_and_drain()
    for number in range(10, 20):
        assert b"counted" not in track_as("", number)
    service.configure(clients__allow_file='""', limits__pv_per_network=0)
    service.reload_and_drain()
    for number in range(20, 30):
        assert b"counted" not in track_as("", number)
    assert service.stats(item)["pv"] == 9 + 3 + 20


@pytest.mark.usefixtures("same_day")
def test_page_views_are_numbered_while_redis_is_unavailable(instance, name):
    service, item = instance("--no-limits", limits__pv_per_network=10, **LONG_TIMEOUTS), name("i")
    service.put(item)
    service.make_redis_unavailable()
    for make in (track_once(item), view_once(item)):
        assert {status for status, _ in from_one_network(service, 61, range(20), 1, make)} == {202}
    service.restart_redis()
    # The first ten, and the sixteenth, of reports and of views; a report counts as a view, too.
    article = f"hot:article:{{{item}}}"
    wait_until(lambda: service.redis("HMGET", article, "pv", "views") == ["11", "22"] and service.status()["spooled bytes"] == 0, "the spool to be replayed")


# --- origins


WRITES = [("POST", "/api/track", {"articleId": "NAME", "dwellMs": 1}),
          ("POST", "/api/views", {"articleId": "NAME", "fingerprint": "f", "publishedAt": 1}),
          ("POST", "/api/history", {"topicId": "NAME", "userId": "NAME"}), ("DELETE", "/api/history?userId=NAME", None), ("POST", "/api/visitor", None),
          ("POST", "/api/feedback", {"topicId": "NAME", "userId": "NAME", "kind": "not_interested"}),
          ("DELETE", "/api/feedback?topicId=NAME&userId=NAME", None), ("POST", "/api/feed", {"action": "refresh", "agent_id": "NAME"})]


@pytest.mark.parametrize("method, path, body", WRITES, ids=[f"{row[0]} {row[1].split('?')[0]}" for row in WRITES])
def test_writes_from_foreign_origins_are_refused(service, name, method, path, body):
    own, before = name("foreign"), refused_count(service, "foreign_origin")
    path, body = path.replace("NAME", own), body and {key: own if value == "NAME" else value for key, value in body.items()}
    host = f"{service.host}:{service.port}"
    foreign = ["https://evil.example", "null", f"http://{host}.evil.example", f"http://{service.host}:{service.internal_port}", f"http://{service.host}",
               f"https://{host}"]
    for origin in foreign:
        reply = service.public().request(method, path, body, headers={"Origin": origin})
        assert_problem(reply, 403, "foreign_origin")
        assert "Access-Control-Allow-Origin" not in reply.headers and "Set-Cookie" not in reply.headers
    assert service.keys_containing(own) == []
    assert refused_count(service, "foreign_origin") == before + len(foreign)
    assert service.public().request(method, path, body, headers={"Origin": f"http://{host}"}).status < 300
    assert service.public().request(method, path, body).status < 300


def test_an_allowed_origin_may_write_and_read_the_reply(limited_service, name):
    origin = {"Origin": "https://www.example.org"}
    reply = limited_service.public().post("/api/track", {"articleId": name("a"), "dwellMs": 1, "userId": name("r")}, headers=origin)
    assert reply.status == 200
    assert reply.headers["Access-Control-Allow-Origin"] == "https://www.example.org"
    assert reply.headers["Access-Control-Allow-Credentials"] == "true" and "Origin" in reply.headers["Vary"]
    preflight = limited_service.public().request("OPTIONS", "/api/feedback", headers=origin | {"Access-Control-Request-Method": "DELETE"})
    assert preflight.status == 204 and "DELETE" in preflight.headers["Access-Control-Allow-Methods"]


def test_reads_and_requests_without_an_origin_are_allowed(service):
    assert service.public().get("/api/hot", headers={"Origin": "https://evil.example"}).status == 200
    assert service.internal().track("x", 1).status == 200


# --- visitors


def test_a_visitor_with_a_cookie_counts_once_whatever_its_agent(service, name):
    article = name("a")
    reply = service.public().post("/api/visitor", None)
    assert reply.status == 204 and not reply.body and "no-store" in reply.headers["Cache-Control"]
    cookie = reply.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Secure" not in cookie
    with_cookie = {"Cookie": cookie.split(";")[0]}
    for number in range(3):
        body = {"articleId": article, "dwellMs": 1, "sessionId": name("s"), "fingerprint": f"f{number}"}
        reply = service.public().post("/api/track", body, headers=with_cookie | {"User-Agent": f"{AGENT} {number}"})
    assert reply.json()["uv"] == 1 and reply.json()["pv"] == 3
    assert "Set-Cookie" not in service.public().post("/api/visitor", None, headers=with_cookie).headers
    forged = {"Cookie": with_cookie["Cookie"][:-1] + ("A" if with_cookie["Cookie"][-1] != "A" else "B")}
    assert "Set-Cookie" in service.public().post("/api/visitor", None, headers=forged).headers
    assert service.public().post("/api/visitor", None, headers={"User-Agent": CRAWLER}).headers["Set-Cookie"] is None
    assert service.public().get("/api/visitor").status == 405


def test_the_cookie_is_secure_if_the_site_uses_https(service):
    for site, secure in (("https://hot.example", True), ("http://hot.example", False)):
        assert sets_secure_cookie(service, site) == secure
    # by default, no header is trusted
    assert not sets_secure_cookie(service, "http://hot.example", HTTP_X_FORWARDED_PROTO="https")


def test_the_cookie_is_secure_behind_a_tls_terminating_proxy(instance):
    service = instance("--no-limits", http__scheme_header='"X-Forwarded-Proto"', **LONG_TIMEOUTS)
    for scheme, secure in (("https", True), ("http", False)):
        assert sets_secure_cookie(service, "http://hot.example", HTTP_X_FORWARDED_PROTO=scheme) == secure
        reply = service.public().post("/api/visitor", None, headers={"X-Forwarded-Proto": scheme})
        cookie = reply.headers["Set-Cookie"]
        assert cookie.startswith("__Host-freshet_visitor=" if secure else "freshet_visitor=") and ("Secure" in cookie) == secure
        known = {"Cookie": cookie.split(";")[0], "X-Forwarded-Proto": scheme}
        assert "Set-Cookie" not in service.public().post("/api/visitor", None, headers=known).headers


def sets_secure_cookie(service, site, **params):
    """Returns whether the cookie set for a request to `site` is Secure. Fails if there is none with the matching name."""
    with Connection(service.socket_path) as direct:
        direct.send(request(method="POST", uri="/api/visitor", zone="public", FRESHET_SITE=site, **params))
        head = direct.socket.recv(65536)
    secure = b"; Secure" in head
    assert (b"Set-Cookie: __Host-freshet_visitor=" if secure else b"Set-Cookie: freshet_visitor=") in head, head
    return secure


def test_a_session_shared_by_many_visitors_leaves_no_key_without_a_ttl(service, name):
    """Contributions were once stored without a TTL when the page view belonged to another visitor's session."""
    article, session = name("a"), name("s")
    for number in range(20):
        # Fixed addresses and agents: with others, two of 20 visitors may fall into the same HyperLogLog register.
        visitor = service.public(source="127.61.0.1", agent=f"{AGENT} {number}")
        assert visitor.track(article, 1000 * (number % 3), sessionId=session).status == 200
    assert service.stats(article)["pv"] == 1 and service.stats(article)["uv"] == 20


# --- dwell


def test_dwell_is_limited_by_the_age_of_the_session(limited_service, name):
    article, other = name("a"), name("a")
    reply = limited_service.public().track(article, 180000, sessionId="s", userId=name("r"))
    assert reply.json()["avg_dwell_ms"] == 30000
    reader, client = name("r"), limited_service.public(agent=f"{AGENT} {name('agent')}")
    began = time.monotonic()
    client.track(other, 5000, sessionId="s", userId=reader)
    assert client.track(other, 6000, sessionId="s", userId=reader).json()["avg_dwell_ms"] == 6000
    assert client.track(other, 180000, sessionId="s", userId=reader).json()["avg_dwell_ms"] <= 5000 + 5000 + 1000 * (time.monotonic() - began) + 1000
    assert limited_service.internal().track(article, 180000, sessionId="t").json()["avg_dwell_ms"] == (30000 + 180000) / 2


# --- client lists


def test_client_lists_deny_or_allow_clients_and_are_reread_on_reload(instance, name):
    service = instance(**LONG_TIMEOUTS)
    deny, allow = (os.path.join(service.state, "etc", word) for word in ("deny", "allow"))

    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def track(agent=AGENT, **members):
        return service.public(agent=agent).track(name("a"), 1, userId=reader, **members)

    reader = name("r")
    write(deny, "# by agent\nagent:^BadBot/\n")
    write(allow, "")
    service.configure(clients__deny_file=f'"{deny}"', clients__allow_file=f'"{allow}"', **{key: value for key, value in SMALL_BUCKETS.items() if "track" in key})
    service.reload_and_drain()
    before = refused_count(service, "denied")
    for reply in (track("BadBot/2"), service.public(agent="BadBot/2").get("/api/hot?x"), service.public(agent="BadBot/2").get("/api/history")):
        assert_problem(reply, 403, "denied")
    assert refused_count(service, "denied") == before + 3
    assert service.internal(agent="BadBot/2").track("x", 1).status == 200
    for _ in range(3):
        assert track().status == 200
    assert track().status == 429
    assert track(CRAWLER).json()["counted"] is False

    # By address. Allowed clients are not denied, limited or treated as crawlers, and their dwell times are trusted.
    write(deny, "127.0.0.0/8\n")
    service.reload_and_drain()
    assert_problem(track(), 403, "denied")
    write(allow, "127.0.0.1\n")
    service.reload_and_drain()
    for _ in range(5):
        assert track().status == 200
    reply = service.public(agent=CRAWLER).track(name("a"), 180000)
    assert "counted" not in reply.json() and reply.json()["avg_dwell_ms"] == 180000

    # A malformed file is reported with its line number by -t, and by a reload, which then changes nothing.
    write(deny, "192.0.2.1\nexample.org\n")
    result = subprocess.run([os.path.join(BUILD, "fcgi/freshetd"), "-t", "-y",
                             os.path.join(service.state, "etc/freshet.toml")], capture_output=True, text=True, check=False, timeout=240)
    assert result.returncode == 78 and f"{deny}:2: " in result.stderr, result
    failed = service.status()["failed reloads"]
    service.signal("freshetd", signal.SIGHUP)
    wait_until(lambda: service.status()["failed reloads"] == failed + 1, "the reload to fail")
    wait_until(lambda: f"{deny}:2: " in service.log(), "the reason in the log")
    assert track().status == 200


def test_a_spoofed_address_header_does_not_evade_the_limit(limited_service, name):
    reader = {"User-Agent": f"{AGENT} {name('agent')}"}
    for number in range(4):
        spoofed = {"X-Forwarded-For": f"203.0.113.{number}", "X-Real-IP": f"203.0.113.{number}", "Forwarded": f"for=203.0.113.{number}"}
        reply = limited_service.public().post("/api/track", {"articleId": "x", "dwellMs": 1}, headers=reader | spoofed)
    assert_problem(reply, 429, "rate_limited")

"""What the open internet sends: too much of it, from other sites' pages, under made-up names, with made-up dwell times."""

import json
import os
import signal
import subprocess
import time

import pytest

from client import AGENT, Load, assert_problem, segment
from dear import DEAR, put_items
from fastcgi import Connection, request
from service import BUILD, PATIENT, Instance, wait_until

CRAWLER = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
# A token in an hour, three at once: no test waits for one.
SLOW = {f"limits__{endpoint}_{what}": value for endpoint in ("track", "views", "hot", "history", "feedback", "feed", "recommendations", "waterfall")
        for what, value in (("rate", "0.0003"), ("burst", "3"))}


@pytest.fixture(scope="module")
def strict():
    """With small buckets, and one other origin allowed."""
    started = Instance(http__cors_origins='["https://www.example.org"]', **SLOW, **PATIENT)
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
def checked(request):
    """Whatever was tried, what it left in Redis is as it should be."""
    shared = [request.getfixturevalue(each) for each in ("service", "strict") if each in request.fixturenames]
    yield
    for each in shared:
        each.check()


def refused(service, reason):
    return service.status()["refused"][reason]


# --- limits


def asks(item, reader):
    """Each endpoint with a limit: (method, path, body)."""
    now = int(time.time())
    return {
        "track": ("POST", "/api/track", {"articleId": item, "dwellMs": 1, "userId": reader}),
        "history": ("POST", "/api/history", {"topicId": item, "userId": reader}),
        "history, read": ("GET", f"/api/history?userId={reader}-2", None),
        "history, cleared": ("DELETE", f"/api/history?userId={reader}-3", None),
        "feedback": ("POST", "/api/feedback", {"topicId": item, "userId": reader, "kind": "not_interested"}),
        "feedback, undone": ("DELETE", f"/api/feedback?topicId={item}&userId={reader}-2", None),
        "feed": ("POST", "/api/feed", {"action": "refresh", "agent_id": reader, "limit": 1}),
        "feed, more": ("POST", "/api/feed", {"action": "load_more", "agent_id": f"{reader}-2", "limit": 1}),
        "feed, peek": ("POST", "/api/feed", {"action": "peek", "agent_id": f"{reader}-3"}),
        "recommendations": ("GET", f"/api/recommendations?userId={reader}", None),
        "recommendations, similar": ("GET", f"/api/items/{item}/similar", None),
        "a list of another time": ("GET", f"/api/hot?model=engagement&at={now + 86400}", None),
        "waterfall": ("GET", f"/api/waterfall/discover?customerId={reader}", None),
        "waterfall, follows": ("GET", f"/api/waterfall/follow?customerId={reader}-2", None),
        "views": ("POST", "/api/views", {"articleId": item, "fingerprint": "f", "publishedAt": now}),
    }


def test_a_reader_who_asks_too_often_is_told_how_long_to_wait_and_nobody_else_is(strict, name):
    item, reader = name("i"), name("r")
    strict.put(item)
    before = refused(strict, "rate_limited")
    for what, (method, path, body) in asks(item, reader).items():
        # Whatever the request claims: by agent and address.
        agent = {"User-Agent": f"{AGENT} {reader} {what}"}
        for _ in range(3):
            reply = strict.public().ask(method, path, body, headers=agent)
            assert reply.status == 200, (what, reply)
        reply = strict.public().ask(method, path, body, headers=agent)
        assert_problem(reply, 429, "rate_limited")
        assert 3000 < int(reply.headers["Retry-After"]) <= 3600, what
        assert strict.internal().ask(method, path, body).status == 200, what
    others = asks(item, name("r"))
    for what, (method, path, body) in others.items():
        assert strict.public().ask(method, path, body, headers={"User-Agent": f"{AGENT} another"}).status == 200, what
    assert refused(strict, "rate_limited") == before + len(others)


def limit_of(reply):
    return tuple(int(reply.headers[f"RateLimit-{what}"]) for what in ("Limit", "Remaining", "Reset"))


def test_replies_say_what_is_left_and_lists_that_are_cached_do_not(strict, name):
    item, agent = name("i"), f"{AGENT} {name('agent')}"
    strict.put(item)
    client = strict.public(agent=agent)
    told = [client.track(item, 1) for _ in range(4)]
    assert [limit_of(reply)[:2] for reply in told] == [(3, 2), (3, 1), (3, 0), (3, 0)]
    assert [reply.status for reply in told] == [200, 200, 200, 429]
    resets = [limit_of(reply)[2] for reply in told]
    assert 3000 < resets[0] <= 3334 and 9000 < resets[2] <= 10001 and int(told[3].headers["Retry-After"]) <= 3334
    assert limit_of(client.post("/api/views", {"articleId": item}))[:2] == (3, 2)  # a wrong request costs, too
    cached = [client.get("/api/hot?model=views"), strict.internal(agent=agent).track(item, 1), client.post("/api/visitor", None)]
    for reply in cached:
        assert reply.status in (200, 204) and "RateLimit-Limit" not in reply.headers, reply
    assert limit_of(client.get(f"/api/hot?model=engagement&at={int(time.time()) + 86400}"))[:2] == (3, 2)


def admitted(service, clients, article):
    """How many of these clients' reports count, and that the others are told so by the workers."""
    replies = [client.track(article, 1) for client in clients]
    for reply in replies:
        assert reply.status == 200 or limit_of(reply)[1] == 0, reply
    return sum(reply.status == 200 for reply in replies)


def test_the_visitors_of_a_network_are_bounded_together_and_another_network_is_not(instance, name):
    service = instance("--no-limits", **SLOW, limits__network_factor=20, **PATIENT)
    item = name("i")
    service.put(item)

    def crowd(network, count):
        return [service.public(source=f"127.0.{network}.{1 + number % 250}", agent=f"{AGENT} {number // 250}") for number in range(count)]

    assert admitted(service, crowd(1, 300), item) == 60
    cookie = service.public(source="127.0.1.9").post("/api/visitor", None).headers["Set-Cookie"].split(";")[0]
    assert_problem(service.public(source="127.0.1.9").post("/api/track", {"articleId": item, "dwellMs": 1}, headers={"Cookie": cookie}), 429)
    assert refused(service, "network_limited") == 241 and refused(service, "rate_limited") == 0
    assert admitted(service, crowd(2, 20), item) == 20
    assert service.stats(item)["pv"] == 80


def test_the_service_is_bounded_and_light_networks_are_the_last_to_be_refused(instance, name):
    bounds = {"limits__track_rate": "0.001", "limits__track_burst": 100, "limits__network_factor": 4,
              "limits__anonymous_rate": "0.003", "limits__anonymous_burst": 600}
    service = instance("--no-limits", **bounds, **PATIENT)
    item = name("i")
    service.put(item)
    heavy = [admitted(service, [service.public(source=f"127.0.{network}.{1 + turn}") for turn in range(200)], item) for network in (1, 2, 3)]
    assert heavy[0] == 200 and heavy[2] < 200 and sum(heavy) < 600
    assert refused(service, "network_limited") > 0
    assert admitted(service, [service.public(source="127.0.9.1") for _ in range(5)], item) == 5
    light = sum(admitted(service, [service.public(source=f"127.0.{network}.1")] * 3, item) for network in range(10, 250))
    assert light + sum(heavy) + 5 == 600 and refused(service, "service_limited") > 0


def test_a_search_that_computes_long_costs_its_reader_more_than_a_token(instance, name):
    service = instance("--no-limits", limits__feed_rate="0.001", limits__feed_burst=60, limits__network_factor=2, **PATIENT)
    put_items(service, 3000)

    def search(query, agent):
        return service.public(agent=f"{AGENT} {agent}").post("/api/feed", {"action": "refresh", "agent_id": name("r"), "limit": 1, "query": query})

    # A worker's first search opens the index, which costs as well.
    left = [60] + [limit_of(search(query, "dear"))[1] for query in (["nothing"] * 5 + [DEAR])]
    paid = [before - after for before, after in zip(left, left[1:])]
    assert min(paid) == 1 and paid[-1] > 1, left
    assert limit_of(search("nothing", "another"))[1] > left[-1]
    for _ in range(60):
        reply = search(DEAR, "dear")
        if reply.status == 429:
            break
    assert_problem(reply, 429, "rate_limited")
    # What it owes is of two buckets at most: its own, and as much again.
    assert int(reply.headers["Retry-After"]) <= 61000
    # The network pays as well: 120 tokens of a crowd, and what they owe.
    assert any(search(DEAR, f"crowd {number}").status == 429 for number in range(120))


def test_all_workers_have_one_limit(instance, name):
    bounds = {"limits__track_rate": "0.001", "limits__track_burst": 100}
    service = instance("--no-limits", **bounds, pm__max_children=4, pm__mode='"static"', **PATIENT)
    item = name("i")
    service.put(item)

    def served():
        return [worker["requests"] for worker in service.internal().get("/status?json&full").json()["processes"]]

    with Load(service.public, lambda client, _: client.track(item, 1), threads=8) as load:
        wait_until(lambda: len(load.results) >= 400 and sum(each > 20 for each in served()) > 1, "400 replies, of several workers")
    assert not load.errors
    assert sum(reply.status == 200 for reply in load.results) == 100


def test_a_reload_keeps_the_counts(instance, name):
    service = instance("--no-limits", **SLOW, **PATIENT)
    item = name("i")
    service.put(item)
    assert admitted(service, [service.public()] * 2, item) == 2
    service.renew()
    assert admitted(service, [service.public()] * 9, item) == 1


def test_a_refused_report_counts_nothing_and_a_fingerprint_makes_nobody_else(strict, name):
    item = name("i")
    agent = {"User-Agent": f"{AGENT} {name('agent')}"}
    for number in range(3):
        body = {"articleId": item, "dwellMs": 1, "sessionId": name("s"), "fingerprint": f"f{number}"}
        assert strict.public().post("/api/track", body, headers=agent).status == 200
    before = set(strict.keys_of(item))
    body = {"articleId": item, "dwellMs": 1, "sessionId": name("s"), "fingerprint": "another"}
    assert_problem(strict.public().post("/api/track", body, headers=agent), 429)
    assert strict.stats(item)["pv"] == 3 and set(strict.keys_of(item)) == before
    cookie = strict.public().post("/api/visitor", None, headers=agent).headers["Set-Cookie"].split(";")[0]
    assert strict.public().post("/api/track", body, headers=agent | {"Cookie": cookie}).status == 200


def test_while_redis_is_away_limits_hold_and_what_they_let_through_is_queued(instance, name):
    service = instance(**SLOW, **PATIENT)
    item = name("i")
    service.put(item)
    service.lose_redis()
    told = [service.public().track(item, 1, sessionId=f"s{number}") for number in range(10)]
    assert [reply.status for reply in told] == [202] * 3 + [429] * 7
    assert [limit_of(reply)[1] for reply in told] == [2, 1] + [0] * 8
    service.restart_redis()
    wait_until(lambda: service.redis("HGET", f"hot:article:{{{item}}}", "pv") == "3", "the spool to be replayed")


# --- dates


def test_a_strangers_date_buries_and_raises_nothing(service, name):
    """One first report with a date of 0 gave an article a score of 0, which honest events renewed."""
    public, internal, now = service.public(), service.internal(), int(time.time())
    for forged in (0, 1, now - 86460, now + 86460, now + 10 ** 9, "1999-12-31T23:59:59Z"):
        tracked, viewed = name("a"), name("a")
        assert public.track(tracked, 0, sessionId=name("s"), publishedAt=forged).json()["score"] == pytest.approx(4, rel=1e-3)
        assert public.track(tracked, 0, sessionId=name("s"), publishedAt=now).json()["score"] > 4
        assert public.view(viewed, name("f"), forged).json()["scoreInc"] == pytest.approx(3 / 2 ** 1.5, rel=1e-3)
    article = name("a")
    assert internal.track(article, 0, sessionId=name("s"), publishedAt=now - 10 * 86400).json()["score"] == pytest.approx(4 / 1024, rel=1e-3)
    # The site's word counts whenever it comes.
    service.put(tracked, published_at=now - 86400)
    assert service.stats(tracked)["score"] == pytest.approx(service.stats(tracked)["base"] / 2, rel=1e-3)


# --- memory


def fill_up(service, share):
    """Sets maxmemory so that Redis is `share` full."""
    used = service.redis("MEMORY", "STATS")["total.allocated"]
    service.redis("CONFIG", "SET", "maxmemory", int(used / share))


def test_a_redis_that_strangers_filled_has_room_for_hiding_and_erasing(instance, name):
    service = instance("--no-limits", spool__max_bytes='"64K"', **PATIENT)
    item, hidden, reader = name("i"), name("i"), name("r")
    service.put(item)
    service.put(hidden)
    # So much that the buffers of its connections make no difference.
    service.redis("SETRANGE", "hot:session:{strangers}:s", 1 << 26, "x")
    service.redis("EXPIRE", "hot:session:{strangers}:s", 3600)
    wait_until(lambda: service.status().get("redis full") == 0 and service.status()["recorder lag entries"] == 0, "a first look at Redis' memory")
    fill_up(service, 0.93)
    wait_until(lambda: service.status()["redis full"] == 1, "the workers to learn that Redis is full")
    public, internal = service.public(), service.internal()

    for method, path, body in (("POST", "/api/track", {"articleId": item, "dwellMs": 1, "userId": reader}),
                               ("POST", "/api/views", {"articleId": item, "fingerprint": name("f"), "publishedAt": int(time.time())}),
                               ("POST", "/api/history", {"topicId": item, "userId": reader}), ("DELETE", f"/api/history?userId={reader}&kind=reply", None),
                               ("POST", "/api/feedback", {"topicId": item, "userId": reader, "kind": "not_interested"}),
                               ("DELETE", f"/api/feedback?userId={reader}&topicId={item}", None)):
        assert public.ask(method, path, body).status == 202, path
    assert internal.put(f"/api/items/{hidden}", {"title": "t", "published_at": int(time.time()), "hidden": True}).status == 200
    assert internal.delete(f"/api/users/{name('r')}").status == 202
    assert internal.track(item, 1, sessionId=name("s")).status == 200
    ready = internal.get("/health/ready")
    assert ready.status == 200 and b"writes:false" in ready.body
    assert "freshet_redis_full 1\n" in internal.get("/metrics").body.decode()
    assert public.get("/api/hot").status == 200
    # Feeds and timelines are served, and leave nothing behind.
    strangers = [name("r") for _ in range(3)]
    for stranger in strangers:
        feed = public.post("/api/feed", {"action": "refresh", "agent_id": stranger, "limit": 1})
        assert feed.status == 200 and feed.json()["data"]["degraded"] and len(feed.json()["data"]["items"]) == 1, feed
        assert public.post("/api/feed", {"action": "load_more", "agent_id": stranger}).json()["data"]["items"] == []
        assert public.get(f"/api/waterfall/discover?customerId={stranger}").status == 200
        assert public.get(f"/api/waterfall/follow?customerId={stranger}").json()["degraded"]
    assert service.keys_of(*strangers) == [] and not any(service.redis("ZSCORE", "active:discover", stranger) for stranger in strangers)
    assert service.stats(item)["pv"] == 1  # what waits is not applied, though Redis answers

    # The spools are small here: then it is an error, and still nothing is written.
    # Of every worker.
    wait_until(lambda: all(public.track(name("i"), 1, sessionId=name("s")).status == 503 for _ in range(30)), "the spools to be full", 120)
    assert_problem(public.track(name("i"), 1), 503, "spool_full")
    fill_up(service, 0.87)
    reader_of_none = internal.get(f"/api/articles/{item}/stats").json()["pv"]
    assert reader_of_none == 1 and service.status()["redis full"] == 1
    fill_up(service, 0.5)
    wait_until(lambda: service.status()["redis full"] == 0 and service.stats(item)["pv"] == 2 and service.status()["spooled bytes"] == 0,
               "the spools to be replayed", 60)
    assert public.track(item, 1, sessionId=name("s")).status == 200
    assert b"writes:true" in internal.get("/health/ready").body


# --- articles that nobody vouched for


def forged(service, network, item, **members):
    return service.public(source=f"127.{network}.0.1").track(item, 180000, sessionId=f"s{network}", **members)


def public_lists(service):
    """What every list has, as the workers have it, which nginx keeps for a second."""
    service.await_placed()
    return {item["id"] for model in ("engagement", "views") for item in service.public().get(f"/api/hot?model={model}&limit=100&x={time.time_ns()}").json()}


def test_made_up_articles_cost_little_and_a_network_makes_few(instance):
    service = instance("--no-limits", items__unknown='"count"', **PATIENT)
    service.put("known")
    stranger = service.public(source="127.61.0.1")
    replies = [stranger.track(f"made-{number:05}", 1000, sessionId=f"s{number}") for number in range(110)]
    assert [reply.status for reply in replies] == [200] * 100 + [429] * 10
    assert all(reply.json()["listed"] is False for reply in replies[:100])
    assert_problem(replies[-1], 429, "unverified_quota")
    assert int(replies[-1].headers["Retry-After"]) >= 60 and refused(service, "unverified_quota") == 10
    assert_problem(service.public(source="127.61.0.9").view("made-by-view", "f"), 429, "unverified_quota")
    assert stranger.track("known", 1).status == 200 and stranger.track("made-00001", 1).status == 200
    assert service.public(source="127.62.0.1").track("made-00100", 1).status == 200
    # Of nine networks: as large as one gets.
    for network in range(62, 70):
        for number in range(20):
            assert forged(service, network, f"made-{number:05}").json()["uv"] == network - 60
    hashes = [f"hot:article:{{made-{number:05}}}" for number in range(101)]
    assert set(service.keys_of("made-")) == set(hashes)
    of_list = service.redis("MEMORY", "USAGE", "hot:unlisted", "SAMPLES", 0) / len(hashes)
    assert max(service.redis("MEMORY", "USAGE", key, "SAMPLES", 0) for key in hashes) + of_list <= 600
    assert all(3000 < service.redis("TTL", key) <= 3600 for key in hashes)


def test_what_strangers_write_is_on_no_public_list_until_somebody_vouches_for_it(instance):
    service = instance("--no-limits", items__unknown='"count"', **PATIENT)
    service.put("honest")
    service.public().track("honest", 1000)
    text = "BUY-AT-EVIL.EXAMPLE-NOW".ljust(128, "!")
    now = int(time.time())
    for network in range(61, 70):
        assert forged(service, network, text).json()["listed"] is False
        viewed = service.public(source=f"127.{network}.0.1").view(f"v{text[1:]}", f"f{network}", now)
        assert viewed.json()["listed"] is False and viewed.json()["ok"]
    wait_until(lambda: public_lists(service) == {"honest"}, "the honest one")
    stats = service.stats(text)
    assert stats["pv"] == 9 and stats["listed"] is False
    # The tenth network, a PUT, a report of the site's own.
    assert "listed" not in forged(service, 70, text).json()
    assert forged(service, 61, "of-the-site").json()["listed"] is False and forged(service, 61, "reported").json()["listed"] is False
    wait_until(lambda: public_lists(service) == {"honest", text}, "what ten networks have read")
    service.put("of-the-site")
    assert service.internal().track("reported", 1).status == 200
    wait_until(lambda: public_lists(service) == {"honest", text, "of-the-site", "reported"}, "what is vouched for")
    assert "listed" not in service.stats("reported")


@pytest.mark.parametrize("character", ["\u202e", "\u2066", "\u200b", "\u200d", "\ufeff", "\u061c", "\u00ad"])
def test_ids_that_would_be_shown_as_other_text_are_refused(service, character):
    for reply in (service.public().track(f"a{character}b", 1), service.public().view(f"a{character}b", "f"),
                  service.internal().put("/api/items/" + segment(f"a{character}b"), {"title": "t", "published_at": 1})):
        assert_problem(reply, 400, "bad_id")


def test_a_network_adds_so_many_visitors_to_an_article_and_who_is_beyond_shows(instance, name):
    service, item, other = instance("--no-limits", limits__uv_per_network=5, **PATIENT), name("i"), name("i")
    for each in (item, other):
        service.put(each)
    crowd = [service.public(source=f"127.61.0.{1 + number}", agent=f"{AGENT} {number}") for number in range(8)]
    replies = [client.track(item, 1000, sessionId=f"s{number}").json() for number, client in enumerate(crowd)]
    assert [reply["uv"] for reply in replies] == [1, 2, 3, 4, 5, 5, 5, 5] and replies[-1]["pv"] == 8
    # Who is counted already takes nothing more, and another article and another network have their own.
    assert crowd[0].track(item, 1000, sessionId="again").json()["uv"] == 5
    assert crowd[7].track(other, 1000).json()["uv"] == 1
    assert service.public(source="127.62.0.1").track(item, 1000).json()["uv"] == 6
    assert service.internal().track(item, 1000, userId=name("r")).json()["uv"] == 7
    views = [client.view(other, name("f")).json()["uv"] for client in crowd]
    assert views == [True] * 4 + [False] * 4
    assert refused(service, "uv_bound") == 8
    assert 'freshet_requests_refused_total{reason="uv_bound"} 8' in service.internal().get("/metrics").body.decode()
    service.await_placed()
    shown = subprocess.run([os.path.join(BUILD, "scripts/freshetctl"), "top-contributors", "--json", "--state", service.state],
                           capture_output=True, text=True, check=True, timeout=240)
    beyond = {(each["network"], each["beyond"]) for each in json.loads(shown.stdout) if each["beyond"]}
    assert len({network for network, _ in beyond}) == 1 and sum(each["beyond"] for each in json.loads(shown.stdout)) == 8


# --- origins


WRITES = [("POST", "/api/track", {"articleId": "NAME", "dwellMs": 1}),
          ("POST", "/api/views", {"articleId": "NAME", "fingerprint": "f", "publishedAt": 1}),
          ("POST", "/api/history", {"topicId": "NAME", "userId": "NAME"}), ("DELETE", "/api/history?userId=NAME", None), ("POST", "/api/visitor", None),
          ("POST", "/api/feedback", {"topicId": "NAME", "userId": "NAME", "kind": "not_interested"}),
          ("DELETE", "/api/feedback?topicId=NAME&userId=NAME", None), ("POST", "/api/feed", {"action": "refresh", "agent_id": "NAME"})]


@pytest.mark.parametrize("method, path, body", WRITES, ids=[f"{row[0]} {row[1].split('?')[0]}" for row in WRITES])
def test_another_sites_page_changes_nothing(service, name, method, path, body):
    own, before = name("foreign"), refused(service, "foreign_origin")
    path, body = path.replace("NAME", own), body and {key: own if value == "NAME" else value for key, value in body.items()}
    host = f"{service.host}:{service.port}"
    foreign = ["https://evil.example", "null", f"http://{host}.evil.example", f"http://{service.host}:{service.internal_port}", f"http://{service.host}"]
    for origin in foreign:
        reply = service.public().ask(method, path, body, headers={"Origin": origin})
        assert_problem(reply, 403, "foreign_origin")
        assert "Access-Control-Allow-Origin" not in reply.headers and "Set-Cookie" not in reply.headers
    assert service.keys_of(own) == []
    assert refused(service, "foreign_origin") == before + len(foreign)
    for origin in (f"http://{host}", f"https://{host}"):
        assert service.public().ask(method, path, body, headers={"Origin": origin}).status < 300
    assert service.public().ask(method, path, body).status < 300


def test_a_listed_origin_may_write_and_read_the_reply(strict, name):
    origin = {"Origin": "https://www.example.org"}
    reply = strict.public().post("/api/track", {"articleId": name("a"), "dwellMs": 1, "userId": name("r")}, headers=origin)
    assert reply.status == 200
    assert reply.headers["Access-Control-Allow-Origin"] == "https://www.example.org"
    assert reply.headers["Access-Control-Allow-Credentials"] == "true" and "Origin" in reply.headers["Vary"]
    preflight = strict.public().ask("OPTIONS", "/api/feedback", headers=origin | {"Access-Control-Request-Method": "DELETE"})
    assert preflight.status == 204 and "DELETE" in preflight.headers["Access-Control-Allow-Methods"]


def test_public_reading_asks_for_no_origin_and_who_is_no_browser_has_none(service):
    assert service.public().get("/api/hot", headers={"Origin": "https://evil.example"}).status == 200
    assert service.internal().track("x", 1).status == 200


# --- visitors


def test_a_named_visitor_counts_as_one_whatever_the_agent_says(service, name):
    article = name("a")
    reply = service.public().post("/api/visitor", None)
    assert reply.status == 204 and not reply.body and "no-store" in reply.headers["Cache-Control"]
    cookie = reply.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Secure" not in cookie
    named = {"Cookie": cookie.split(";")[0]}
    for number in range(3):
        body = {"articleId": article, "dwellMs": 1, "sessionId": name("s"), "fingerprint": f"f{number}"}
        reply = service.public().post("/api/track", body, headers=named | {"User-Agent": f"{AGENT} {number}"})
    assert reply.json()["uv"] == 1 and reply.json()["pv"] == 3
    assert "Set-Cookie" not in service.public().post("/api/visitor", None, headers=named).headers
    forged = {"Cookie": named["Cookie"][:-1] + ("A" if named["Cookie"][-1] != "A" else "B")}
    assert "Set-Cookie" in service.public().post("/api/visitor", None, headers=forged).headers
    assert service.public().post("/api/visitor", None, headers={"User-Agent": CRAWLER}).headers["Set-Cookie"] is None
    assert service.public().get("/api/visitor").status == 405


def test_the_cookie_is_secure_where_the_site_is_https(service):
    for site, secure in (("https://hot.example", True), ("http://hot.example", False)):
        assert sets_secure_cookie(service, site) == secure
    assert not sets_secure_cookie(service, "http://hot.example", HTTP_X_FORWARDED_PROTO="https")  # nobody's word is taken as shipped


def test_the_cookie_is_secure_behind_a_proxy_that_ends_tls(instance):
    service = instance("--no-limits", http__scheme_header='"X-Forwarded-Proto"', **PATIENT)
    for said, secure in (("https", True), ("http", False)):
        assert sets_secure_cookie(service, "http://hot.example", HTTP_X_FORWARDED_PROTO=said) == secure
        reply = service.public().post("/api/visitor", None, headers={"X-Forwarded-Proto": said})
        named = reply.headers["Set-Cookie"]
        assert named.startswith("__Host-freshet_visitor=" if secure else "freshet_visitor=") and ("Secure" in named) == secure
        known = {"Cookie": named.split(";")[0], "X-Forwarded-Proto": said}
        assert "Set-Cookie" not in service.public().post("/api/visitor", None, headers=known).headers


def sets_secure_cookie(service, site, **params):
    """Whether the cookie of a request to `site` is Secure; fails when there is none of the name that belongs to it."""
    with Connection(service.socket_path) as direct:
        direct.send(request(method="POST", uri="/api/visitor", zone="public", FRESHET_SITE=site, **params))
        head = direct.socket.recv(65536)
    secure = b"; Secure" in head
    assert (b"Set-Cookie: __Host-freshet_visitor=" if secure else b"Set-Cookie: freshet_visitor=") in head, head
    return secure


def test_a_session_that_many_visitors_share_leaves_no_key_without_an_end(service, name):
    """What a visitor adds is remembered, and where another's session had the page view it was kept for ever."""
    article, session = name("a"), name("s")
    for number in range(20):
        # The same in each run: of twenty others two may meet in a register of the HyperLogLog.
        visitor = service.public(source="127.61.0.1", agent=f"{AGENT} {number}")
        assert visitor.track(article, 1000 * (number % 3), sessionId=session).status == 200
    assert service.stats(article)["pv"] == 1 and service.stats(article)["uv"] == 20


# --- dwell


def test_a_client_cannot_claim_more_dwell_than_its_session_had_time_for(strict, name):
    article, other = name("a"), name("a")
    reply = strict.public().track(article, 180000, sessionId="s", userId=name("r"))
    assert reply.json()["avg_dwell_ms"] == 30000
    reader, client = name("r"), strict.public(agent=f"{AGENT} {name('agent')}")
    began = time.monotonic()
    client.track(other, 5000, sessionId="s", userId=reader)
    assert client.track(other, 6000, sessionId="s", userId=reader).json()["avg_dwell_ms"] == 6000
    assert client.track(other, 180000, sessionId="s", userId=reader).json()["avg_dwell_ms"] <= 5000 + 5000 + 1000 * (time.monotonic() - began) + 1000
    assert strict.internal().track(article, 180000, sessionId="t").json()["avg_dwell_ms"] == (30000 + 180000) / 2


# --- lists of clients


def test_listed_clients_are_denied_or_let_through_and_the_lists_change_at_a_reload(instance, name):
    service = instance(**PATIENT)
    deny, allow = (os.path.join(service.state, "etc", word) for word in ("deny", "allow"))

    def write(path, text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def track(agent=AGENT, **members):
        return service.public(agent=agent).track(name("a"), 1, userId=reader, **members)

    reader = name("r")
    write(deny, "# by agent\nagent:^BadBot/\n")
    write(allow, "")
    service.configure(clients__deny_file=f'"{deny}"', clients__allow_file=f'"{allow}"', **{key: value for key, value in SLOW.items() if "track" in key})
    service.renew()
    before = refused(service, "denied")
    for reply in (track("BadBot/2"), service.public(agent="BadBot/2").get("/api/hot?x"), service.public(agent="BadBot/2").get("/api/history")):
        assert_problem(reply, 403, "denied")
    assert refused(service, "denied") == before + 3
    assert service.internal(agent="BadBot/2").track("x", 1).status == 200
    for _ in range(3):
        assert track().status == 200
    assert track().status == 429
    assert track(CRAWLER).json()["counted"] is False

    # By address, and the allowed are neither denied, nor limited, nor crawlers, nor doubted.
    write(deny, "127.0.0.0/8\n")
    service.renew()
    assert_problem(track(), 403, "denied")
    write(allow, "127.0.0.1\n")
    service.renew()
    for _ in range(5):
        assert track().status == 200
    reply = service.public(agent=CRAWLER).track(name("a"), 180000)
    assert "counted" not in reply.json() and reply.json()["avg_dwell_ms"] == 180000

    # A file that is wrong is named with its line, by -t and by a reload that changes nothing.
    write(deny, "192.0.2.1\nexample.org\n")
    checked = subprocess.run([os.path.join(BUILD, "fcgi/freshetd"), "-t", "-y",
                              os.path.join(service.state, "etc/freshet.toml")], capture_output=True, text=True, check=False, timeout=240)
    assert checked.returncode == 78 and f"{deny}:2: " in checked.stderr, checked
    failed = service.status()["failed reloads"]
    service.signal("freshetd", signal.SIGHUP)
    wait_until(lambda: service.status()["failed reloads"] == failed + 1, "the reload to fail")
    wait_until(lambda: f"{deny}:2: " in service.log(), "the reason")
    assert track().status == 200


def test_an_address_in_a_header_makes_nobody_else(strict, name):
    reader = {"User-Agent": f"{AGENT} {name('agent')}"}
    for number in range(4):
        spoofed = {"X-Forwarded-For": f"203.0.113.{number}", "X-Real-IP": f"203.0.113.{number}", "Forwarded": f"for=203.0.113.{number}"}
        reply = strict.public().post("/api/track", {"articleId": "x", "dwellMs": 1}, headers=reader | spoofed)
    assert_problem(reply, 429, "rate_limited")

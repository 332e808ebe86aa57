"""Anonymous readers: the visitor cookie names a reader with a history, a feed and interests."""

import hashlib
import hmac
import os
import time

import pytest

from client import assert_problem
from recorded import RecorderData
from service import LONG_TIMEOUTS, Instance, wait_until

TTL = 7 * 86400
ITEMS = 12
SIGN_IN = "Sign in first: anonymous visitors have no history here."


def visitor(service):
    """Headers of a new visitor."""
    reply = service.public().post("/api/visitor", None)
    assert reply.status == 204, reply
    return {"Cookie": reply.headers["Set-Cookie"].split(";")[0]}


def reader_of(headers):
    """The id of the visitor's reader."""
    return "\x1dc" + headers["Cookie"].split("=")[1].split(".")[0]


def history(service, headers, **query):
    reply = service.public().get("/api/history", headers=headers, query=query)
    assert reply.status == 200, reply
    return reply.json()["items"]


def feed(service, headers, action="refresh", limit=100):
    reply = service.public().post("/api/feed", {"action": action, "limit": limit}, headers=headers)
    assert reply.status == 200, reply
    return reply.json()["data"]


def ids(page):
    return [item["id"] for item in page["items"]]


def recommended(service, headers):
    reply = service.public().get("/api/recommendations", headers=headers, query={"limit": 100})
    assert reply.status == 200, reply
    return ids(reply.json())


def read(service, headers, item, dwell_ms=60_000):
    """Reports an article as the tag does."""
    report = {"articleId": item, "dwellMs": dwell_ms, "sessionId": headers["Cookie"][-12:]}
    assert service.public().post("/api/track", report, headers=headers).status == 200


def dismiss(service, headers, item):
    return service.public().post("/api/feedback", {"topicId": item, "kind": "not_interested"}, headers=headers)


def keys_of(service, headers):
    """{key: TTL} of the visitor's reader; not hot:added, which counts the visitor, nor tombstones."""
    service.wait_for_background_writes()
    return {key: service.redis("TTL", key) for key in service.redis("KEYS", "*" + reader_of(headers)[1:] + "*") if not key.startswith(("hot:", "user:erased:"))}


def put_items(service):
    now = int(time.time())
    for number in range(ITEMS):
        service.put(f"item{number}", tags=["news"], published_at=now - 60 * (number + 1), author=f"writer{number}")
    RecorderData(service).wait_until_indexed({f"item{number}" for number in range(ITEMS)})


def start_with_items(service):
    try:
        service.start()
        put_items(service)
    except BaseException:
        service.stop()
        raise
    return service


def start(**directives):
    return start_with_items(Instance("--no-limits", **{"identity__mode": '"header"'} | LONG_TIMEOUTS | directives))


@pytest.fixture(scope="module")
def site():
    service = start()
    yield service
    service.stop()


def test_the_cookie_names_a_reader_with_a_history(site):
    ann, bob = visitor(site), visitor(site)
    public = site.public()
    for item in ("item1", "item2"):
        assert public.post("/api/history", {"topicId": item}, headers=ann).json() == {"ok": True}
    assert history(site, ann) == ["item2", "item1"] and history(site, bob) == []
    assert history(site, ann, userId="another") == ["item2", "item1"]
    assert public.delete("/api/history", headers=ann, query={"topicId": "item2"}).status == 200
    assert history(site, ann) == ["item1"]


def test_the_feed_repeats_nothing_that_was_read_or_dismissed(site):
    ann = visitor(site)
    read(site, ann, "item3")
    assert dismiss(site, ann, "item4").json() == {"ok": True}
    site.wait_for_background_writes()
    first = feed(site, ann, limit=4)
    rest = feed(site, ann, "load_more")
    shown = ids(first) + ids(rest)
    assert "degraded" not in first and len(set(shown)) == len(shown) == ITEMS - 2 and not {"item3", "item4"} & set(shown)
    assert len(ids(feed(site, visitor(site)))) == ITEMS


def test_recommendations_leave_out_the_current_article_and_similar_items_what_was_dismissed(site):
    ann = visitor(site)
    assert "item5" in recommended(site, ann)
    read(site, ann, "item5")
    wait_until(lambda: history(site, ann) == ["item5"], "the report in the history")
    assert "item5" not in recommended(site, ann)
    dismiss(site, ann, "item6")
    similar = site.public().get("/api/items/item5/similar", headers=ann, query={"limit": 100})
    assert similar.status == 200 and "item6" not in ids(similar.json()) and "item7" in ids(similar.json())
    assert site.public().delete("/api/feedback", headers=ann, query={"topicId": "item6"}).status == 200
    assert "item6" in ids(site.public().get("/api/items/item5/similar", headers=ann, query={"limit": 100}).json())


def test_channels_are_empty_and_follows_are_refused(site):
    ann, public = visitor(site), site.public()
    for channel in ("follow", "discover"):
        page = public.get(f"/api/waterfall/{channel}", headers=ann)
        assert page.status == 200 and page.json()["items"] == [] and "degraded" not in page.json(), page
    problem = assert_problem(public.get("/api/follows", headers=ann), 400, "bad_id")
    assert "Sign in first" in problem["detail"]
    site.wait_for_background_writes()
    assert not [member for channel in ("follow", "discover") for member in site.redis("ZRANGE", f"active:{channel}", 0, -1) if member[0] == "\x1d"]


def test_everything_expires_in_a_week_and_nothing_is_recorded(site):
    ann = visitor(site)
    read(site, ann, "item1")
    dismiss(site, ann, "item2")
    site.public().post("/api/history", {"topicId": "item3", "kind": "reply", "eventId": "e1"}, headers=ann)
    feed(site, ann, limit=2)
    wait_until(lambda: len(keys_of(site, ann)) == 8, "the interest")
    assert all(0 < ttl <= TTL for ttl in keys_of(site, ann).values()), keys_of(site, ann)
    assert not [key for key in keys_of(site, ann) if key.startswith(("wf:", "follow:"))]
    # An entry of this reader's partition that was written later is recorded.
    site.internal().post("/api/interactions", {"userId": "known", "topicId": "item1", "kind": "like"})
    connection = RecorderData(site).connect()
    try:
        wait_until(lambda: connection.execute("SELECT count(*) FROM readers WHERE id = 'known'").fetchone()[0] == 1, "the like")
        assert connection.execute("SELECT count(*) FROM readers WHERE id LIKE char(29) || '%'").fetchone()[0] == 0
    finally:
        connection.close()
    assert "key" in site.check()


def test_a_client_without_a_valid_cookie_has_no_reader(site):
    good = visitor(site)["Cookie"]
    name, value = good.split("=")
    random, _ = value.split(".")
    other = hmac.new(b"another salt", random.encode(), hashlib.sha256).hexdigest()[:22]
    public = site.public()
    for cookie in (None, f"{name}=", f"{name}={random}", f"{name}={random}.{other}", f"{name}={'x' * 22}.{other}", f"{name}=\x1d{value[1:]}", f"{name}={value}x"):
        headers = {"Cookie": cookie} if cookie else {}
        for reply in (public.get("/api/history", headers=headers), public.post("/api/feed", {"action": "refresh"}, headers=headers),
                      public.get("/api/waterfall/discover", headers=headers), dismiss(site, headers, "item1")):
            assert_problem(reply, 400, "bad_id")
        assert public.post("/api/track", {"articleId": "item1", "dwellMs": 60_000, "sessionId": "s"}, headers=headers).status == 200
        assert public.get("/api/recommendations", headers=headers).status == 200
    site.wait_for_background_writes()
    assert not [key for key in site.redis("KEYS", "user:*") if random in key]


def test_no_request_can_name_an_anonymous_reader(site):
    ann = visitor(site)
    read(site, ann, "item1")
    wait_until(lambda: history(site, ann), "the history")
    for client in (site.public(), site.internal()):
        assert_problem(client.get("/api/history", query={"userId": reader_of(ann)}), 400, "bad_id")
        assert_problem(client.post("/api/history", {"topicId": "x", "userId": reader_of(ann)}), 400, "bad_id")
    for method, path in (("GET", "/api/users/%1Dc"), ("DELETE", "/api/users/%1Dc")):
        assert_problem(site.internal().request(method, path), 400, "bad_id")
    # The internal server's callers name their readers.
    assert_problem(site.internal().get("/api/history", headers=ann), 400, "bad_id")


def test_events_that_were_spooled_reach_redis_only(own_header_service):
    service = own_header_service
    ann = visitor(service)
    service.make_redis_unavailable()
    assert service.public().post("/api/history", {"topicId": "item1"}, headers=ann).status == 202
    assert dismiss(service, ann, "item2").status == 202
    service.restart_redis()
    wait_until(lambda: service.status()["redis ready"] == len(service.workers()) and history(service, ann) == ["item1"]
               and any("user:not_interested:" in key for key in keys_of(service, ann)), "the spool to be replayed", 60)
    assert all(0 < ttl <= TTL for ttl in keys_of(service, ann).values())
    connection = RecorderData(service).connect()
    try:
        assert connection.execute("SELECT count(*) FROM dismissals").fetchone()[0] == 0
    finally:
        connection.close()


@pytest.fixture
def own_header_service():
    service = start()
    yield service
    service.stop()


def test_visitors_beyond_the_networks_readers_are_served_without_an_error_and_without_a_state(instance):
    service = instance("--no-limits", identity__mode='"header"', limits__anonymous_per_network=2, **LONG_TIMEOUTS)
    put_items(service)
    first, second, third = (visitor(service) for _ in range(3))
    for each in (first, second, first):
        assert service.public().post("/api/history", {"topicId": "item1"}, headers=each).json() == {"ok": True}
    public = service.public()
    assert public.post("/api/history", {"topicId": "item1"}, headers=third).json() == {"ok": True, "counted": False}
    assert dismiss(service, third, "item1").json() == {"ok": True, "counted": False}
    assert public.delete("/api/history", headers=third).json() == {"ok": True, "counted": False}
    read(service, third, "item2")
    assert history(service, third) == []
    for _ in range(2):
        page = feed(service, third)
        assert sorted(ids(page)) == sorted(f"item{number}" for number in range(ITEMS)) and page["missing"] == "writes"
    assert public.get("/api/waterfall/discover", headers=third).json()["items"] == []
    assert "item2" in recommended(service, third)
    assert keys_of(service, third) == {}
    # A deletion leaves a trace only of those about whom something may be stored, or is.
    assert public.delete("/api/visitor", headers=visitor(service)).status == 204
    assert service.redis("KEYS", "user:erased:*") == service.redis("KEYS", "user:epoch:*") == []
    assert public.delete("/api/visitor", headers=second).status == 204
    assert service.redis("KEYS", "user:erased:*") and service.redis("KEYS", "user:epoch:*")
    # Another network has its own.
    elsewhere = service.public(source="127.200.7.1")
    assert elsewhere.post("/api/history", {"topicId": "item1"}, headers=third).json() == {"ok": True}
    assert history(service, third) == ["item1"]


def test_without_anonymous_readers_the_error_says_what_to_do(instance):
    service = instance("--no-limits", identity__mode='"header"', readers__anonymous="false", **LONG_TIMEOUTS)
    put_items(service)
    ann, public = visitor(service), service.public()
    for reply in (public.get("/api/history", headers=ann), public.post("/api/history", {"topicId": "x"}, headers=ann),
                  public.post("/api/feed", {"action": "refresh"}, headers=ann), dismiss(service, ann, "x"), public.get("/api/waterfall/discover", headers=ann)):
        assert assert_problem(reply, 400, "bad_id")["detail"].endswith(SIGN_IN)
    read(service, ann, "item1")
    assert "item1" in recommended(service, ann)
    assert keys_of(service, ann) == {}
    assert public.delete("/api/visitor", headers=visitor(service)).status == 204
    assert service.redis("KEYS", "user:erased:*") == service.redis("KEYS", "user:epoch:*") == []


def test_in_mode_open_a_reader_is_still_named_by_the_request(instance):
    service = instance("--no-limits", **LONG_TIMEOUTS)
    service.put("item1")
    ann, public = visitor(service), service.public()
    assert_problem(public.get("/api/history", headers=ann), 400, "bad_id")
    assert_problem(public.post("/api/feed", {"action": "refresh"}, headers=ann), 400, "bad_id")
    read(service, ann, "item1")
    assert keys_of(service, ann) == {}


def test_a_visitor_can_export_and_erase_what_is_stored(site):
    ann, bob, public = visitor(site), visitor(site), site.public()
    for each in (ann, bob):
        read(site, each, "item1")
        dismiss(site, each, "item2")
        feed(site, each, limit=2)
        wait_until(lambda each=each: len(keys_of(site, each)) == 6, "the interest")
    reply = public.get("/api/visitor/export", headers=ann)
    assert reply.status == 200 and reply.headers["Cache-Control"] == "private, no-store", reply
    export = reply.json()
    assert export["visitor"] == reader_of(ann)[1:] and "database" not in export
    exported = {key["key"]: key for key in export["redis"]}
    assert set(exported) == {*keys_of(site, ann), f"hot:added:{{{reader_of(ann)[1:]}}}"}
    assert next(key["value"] for name, key in exported.items() if name.startswith("user:views:topic:")) == ["item1"]
    assert all(key["what"] for key in export["redis"])
    seen = ids(feed(site, ann, "load_more", limit=2))
    before, tombstones = keys_of(site, bob), set(site.redis("KEYS", "user:erased:*"))

    reply = public.delete("/api/visitor", headers=ann)
    assert reply.status == 204 and reply.headers["Set-Cookie"].startswith(ann["Cookie"].split("=")[0] + "=;") and "Max-Age=0" in reply.headers["Set-Cookie"], reply
    assert keys_of(site, ann) == {} and public.get("/api/visitor/export", headers=ann).json()["redis"] == []
    assert set(keys_of(site, bob)) == set(before) and history(site, bob) == ["item1"]
    # Events in spools are void, under both names.
    new = set(site.redis("KEYS", "user:erased:*")) - tombstones
    assert len(new) == 2 and all(site.redis("TTL", key) > TTL for key in new)
    # A client that keeps the cookie starts over, also in the feed's filter.
    assert history(site, ann) == [] and set(seen) < set(ids(feed(site, ann)))
    for cookie in ({}, {"Cookie": ann["Cookie"][:-1]}):
        assert_problem(public.get("/api/visitor/export", headers=cookie), 400, "no_visitor")
        assert_problem(public.delete("/api/visitor", headers=cookie), 400, "no_visitor")
    site.check()


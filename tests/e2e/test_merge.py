"""A visitor's state moves to the account that they sign in to, and any reader's to another one."""

import hashlib
import hmac
import os
import signal
import time
from urllib.parse import quote

import pytest

from client import assert_problem
from recorded import RecorderData
from service import LONG_TIMEOUTS, Instance, wait_until
from test_anonymous import ITEMS, dismiss, feed, history, ids, keys_of, read, reader_of, recommended, start_with_items, visitor

KEY = "0123456789abcdef-1"


def token(reader):
    payload = f"v1.k1.{quote(reader, safe='')}.{int(time.time()) + 600}"
    return payload + "." + hmac.new(KEY.encode(), payload.encode(), hashlib.sha256).hexdigest()


def account(name, cookie=None):
    """Headers of a signed-in reader, with the visitor's cookie if there is one."""
    return {"Authorization": "Bearer " + token(name)} | (cookie or {})


def start(**directives):
    service = Instance("--no-limits", identity__mode='"token"', **LONG_TIMEOUTS, **directives)
    path = os.path.join(service.state, "etc/k1")
    with open(path, "w", encoding="ascii") as file:
        file.write(KEY + "\n")
    service.configure(identity__token_keys=f'{{ k1 = "{path}" }}')
    return start_with_items(service)


@pytest.fixture(scope="module")
def site():
    service = start()
    yield service
    service.stop()


@pytest.fixture
def own():
    service = start()
    yield service
    service.stop()


def state_of(service, cookie):
    """Keys of the visitor's reader, except user:visitors of accounts."""
    return {key for key in keys_of(service, cookie) if not key.startswith("user:visitors")}


def wait_for_cookie(service, headers):
    """Requests as the account until a response replaces the cookie. Returns the new one."""
    def reply():
        return service.public().get("/api/history", headers=headers).headers["Set-Cookie"]
    return {"Cookie": wait_until(reply, "a new cookie", 60).split(";")[0]}


def wait_for_job(service, reply):
    assert reply.status == 202, reply

    def job():
        found = service.internal().get(f"/api/jobs/{reply.json()['job']}")
        return found.json() if found.status == 200 else {"state": "unknown"}
    wait_until(lambda: job()["state"] == "done", "the merge", 60)
    return job()["moved"]


def merge(service, source, target):
    return wait_for_job(service, service.internal().post("/api/history/merge", {"from": source, "to": target}))


def rows(service, reader):
    connection = RecorderData(service).connect()
    try:
        return [connection.execute(f"SELECT count(*) FROM {table} JOIN readers ON key = reader WHERE id = ?", (reader,)).fetchone()[0]
                for table in ("interactions", "dismissals", "follows")]
    finally:
        connection.close()


def test_after_login_the_account_has_the_visitors_state_and_its_feed_repeats_nothing(site, name):
    ann, cookie = name("ann"), visitor(site)
    read(site, cookie, "item1")
    dismiss(site, cookie, "item2")
    seen = ids(feed(site, cookie, limit=4))
    assert len(seen) == 4 and not {"item1", "item2"} & set(seen)
    # The account's buffer was filled before.
    first = ids(feed(site, account(ann), limit=2))
    assert history(site, account(ann, cookie)) == []
    new = wait_for_cookie(site, account(ann, cookie))
    assert new != cookie and history(site, account(ann)) == ["item1"]
    # The interest may have been written after the first pass; the second one moves it.
    wait_until(lambda: state_of(site, cookie) == set(), "the end of the merge", 60)
    assert site.redis("ZRANGE", f"user:interactions:{{{ann}}}", 0, -1) == ["v:item1"]
    rest = ids(feed(site, account(ann), "load_more")) + ids(feed(site, account(ann)))
    assert len(set(rest)) == len(rest) and not {"item1", "item2", *seen, *first} & set(rest)
    assert len(rest) == ITEMS - len({"item1", "item2", *seen, *first})
    assert not {"item1", "item2"} & set(recommended(site, account(ann)))
    wait_until(lambda: rows(site, ann)[1] == 1, "the dismissal in the database")
    # The old cookie names a new reader.
    assert history(site, cookie) == []
    site.check()


def test_a_page_that_is_open_while_its_reader_signs_in_loads_more(site, name):
    ann, cookie, other = name("ann"), visitor(site), visitor(site)
    first = feed(site, cookie, limit=2)
    body = {"action": "load_more", "limit": 2, "page": first["page"]}
    for _ in range(2):
        reply = site.public().post("/api/feed", body, headers=account(ann, cookie))
        assert reply.status == 200 and len(reply.json()["data"]["items"]) == 2, reply
        assert reply.json()["data"]["page"] != first["page"]
    new = wait_for_cookie(site, account(ann, cookie))
    # The account's other devices, and this one with its new cookie, may still hold a page of the visitor.
    for headers in (account(ann, new), account(ann)):
        reply = site.public().post("/api/feed", body, headers=headers)
        assert reply.status == 200 and reply.json()["data"]["page"] not in (None, first["page"]), reply
    # A page of neither the account nor a visitor who was merged into it.
    for headers in (account(name("bob")), other, new):
        assert_problem(site.public().post("/api/feed", body, headers=headers), 400, "bad_page")


def test_a_page_whose_impressions_were_lost_before_the_login_is_not_shown_to_the_account(site, name):
    ann, cookie = name("ann"), visitor(site)
    read(site, cookie, "item1")
    # A page that a worker delivered ten seconds ago and was killed before it recorded its impressions.
    delivered = int((time.time() - 10) * 1000)
    page = "\x1f".join(map(str, ["0=", delivered, delivered, 1, 1, 0, 0, "item2", "item3"]))
    site.redis("HSET", f"feed:state:{{%1D{reader_of(cookie)[1:]}}}", "0", page)
    wait_for_cookie(site, account(ann, cookie))
    for _ in range(2):
        assert not {"item1", "item2", "item3"} & set(ids(feed(site, account(ann), limit=3)))

    def recorded():
        return "late" not in site.redis("HKEYS", f"feed:state:{{{ann}}}") or site.redis("HGET", f"feed:state:{{{ann}}}", "late") == ""
    wait_until(recorded, "the impressions of the page")
    assert not {"item1", "item2", "item3"} & set(ids(feed(site, account(ann))))


def visitor_lookups(service):
    """How often the service asked for the TTL of a visitor's state since the statistics were reset."""
    texts = [service.redis_text("INFO", "commandstats", node=node) for node in service.nodes("master") or [None]]
    return sum(int(line.split("calls=")[1].split(",")[0]) for text in texts for line in text.splitlines() if line.startswith("cmdstat_ttl:"))


def reset_statistics(service):
    for node in service.nodes("master") or [None]:
        service.redis_text("CONFIG", "RESETSTAT", node=node)


def test_a_request_without_both_names_looks_for_no_visitor(site, name):
    cookie, public = visitor(site), site.public()
    read(site, cookie, "item1")
    site.wait_for_background_writes()
    reset_statistics(site)
    for headers in (cookie, account(name("ann")), {}):
        for _ in range(3):
            public.get("/api/history", headers=headers)
            public.get("/api/recommendations", headers=headers)
    assert visitor_lookups(site) == 0
    reply = public.get("/api/history", headers=account(name("bob"), cookie))
    assert reply.status == 200 and "Set-Cookie" not in reply.headers
    wait_until(lambda: visitor_lookups(site) > 0, "the look for the visitor's state")


def test_a_visitor_without_a_recent_state_stays(instance_with, name):
    service = instance_with(identity__merge_window='"1m"')
    cookie, ann = visitor(service), name("ann")
    service.public().post("/api/history", {"topicId": "item1"}, headers=cookie)
    for key, ttl in keys_of(service, cookie).items():
        service.redis("EXPIRE", key, ttl - 120)  # as if it had happened two minutes ago
    reset_statistics(service)
    assert history(service, account(ann, cookie)) == []
    wait_until(lambda: visitor_lookups(service) > 0, "the look for the visitor's state")
    # The look is over when its connection has served a later request.
    assert service.internal().get(f"/api/users/{ann}").status == 200
    assert service.redis("KEYS", "user:merging:*") == service.redis("KEYS", "job:*") == []
    assert history(service, cookie) == ["item1"] and history(service, account(ann)) == []


def test_merges_at_login_can_be_turned_off(instance_with, name):
    service = instance_with(identity__merge_on_login="false")
    cookie = visitor(service)
    read(service, cookie, "item1")
    service.wait_for_background_writes()
    service.redis("CONFIG", "RESETSTAT")
    for _ in range(3):
        assert history(service, account(name("ann"), cookie)) == []
    assert "cmdstat_ttl:" not in service.redis_text("INFO", "commandstats")
    assert history(service, cookie) == ["item1"]


@pytest.fixture
def instance_with():
    started = []

    def make(**directives):
        started.append(start(**directives))
        return started[-1]
    yield make
    for each in started:
        each.stop()


def test_events_that_were_spooled_before_the_merge_reach_the_account(own, name):
    ann, cookie = name("ann"), visitor(own)
    read(own, cookie, "item1")
    wait_until(lambda: history(own, cookie) == ["item1"], "the history")
    history(own, account(ann, cookie))
    wait_for_cookie(own, account(ann, cookie))
    own.make_redis_unavailable()
    assert own.public().post("/api/history", {"topicId": "item3"}, headers=cookie).status == 202
    own.restart_redis()
    wait_until(lambda: own.status()["redis ready"] == len(own.workers()) and history(own, account(ann)) == ["item3", "item1"], "the spool to be replayed", 60)
    assert history(own, cookie) == []


def test_any_two_readers_are_merged_with_rows_follows_and_timelines(site, name):
    internal, guest, ann, author = site.internal(), name("guest"), name("ann"), name("author")
    for item, kind in (("item1", "like"), ("item2", "share")):
        assert internal.post("/api/interactions", {"userId": guest, "topicId": item, "kind": kind}).json()["accepted"] == 1
    internal.post("/api/interactions", {"userId": ann, "topicId": "item1", "kind": "like"})
    internal.post("/api/feedback", {"userId": guest, "topicId": "item3", "kind": "not_interested", "reason": "why"})
    internal.post("/api/history", {"userId": guest, "topicId": "item4", "kind": "reply"})
    internal.put("/api/follows", {"userId": guest, "author": author})
    internal.post("/api/waterfall/discover", {"items": ["item5", "item6"], "customers": [guest]})
    internal.post("/api/waterfall/discover", {"items": ["item6"], "customers": [ann]})
    wait_until(lambda: rows(site, guest) == [2, 1, 1], "the rows")
    assert merge(site, guest, ann) == {"views": 1, "interactions": 2, "dismissals": 1, "timeline": 1, "follows": 1, "rows": 4}
    assert rows(site, guest) == [0, 0, 0]
    wait_until(lambda: rows(site, ann)[1:] == [1, 1] and rows(site, ann)[0] >= 2, "the account's rows")
    assert internal.get("/api/follows", query={"userId": ann}).json()["items"] == [author]
    page = internal.get("/api/waterfall/discover", query={"userId": ann, "limit": 10}).json()
    assert sorted(ids(page)) == ["item5", "item6"]
    assert site.redis("ZRANGE", f"user:interactions:{{{ann}}}", 0, -1) and site.redis("HGET", f"user:not_interested:why:{{{ann}}}", "item3") == "why"
    exported = internal.get(f"/api/users/{guest}").json()
    assert [key["key"] for key in exported["redis"] if not key["key"].startswith("wf:")] == []
    assert exported["database"] == {"interactions": [], "not_interested": [], "follows": []}
    # Again, an unknown one, and into itself.
    nothing = dict.fromkeys(("views", "interactions", "dismissals", "timeline", "follows", "rows"), 0)
    assert merge(site, guest, ann) == merge(site, name("unknown"), ann) == merge(site, ann, ann) == nothing
    assert rows(site, ann)[1:] == [1, 1]
    # An erasure of the account reaches what was merged into it.
    job = internal.delete(f"/api/users/{ann}").json()["job"]
    wait_until(lambda: internal.get(f"/api/jobs/{job}").json()["state"] in ("done", "waiting"), "the erasure", 60)
    assert rows(site, ann) == [0, 0, 0] and not [key for key in site.redis("KEYS", "user:merged:*") if site.redis("GET", key) == ann]
    site.check()


def test_one_reader_merged_into_two_at_once_belongs_to_the_first(site, name):
    internal, guest, ann, bob = site.internal(), name("guest"), name("ann"), name("bob")
    for item in ("item1", "item2"):
        internal.post("/api/history", {"userId": guest, "topicId": item})
    replies = [internal.post("/api/history/merge", {"from": guest, "to": target}) for target in (ann, bob)]
    moved = [wait_for_job(site, reply)["views"] for reply in replies]
    assert moved == [2, 0]
    assert history_of(site, ann) == ["item2", "item1"] and history_of(site, bob) == history_of(site, guest) == []


def history_of(service, reader):
    return service.internal().get("/api/history", query={"userId": reader}).json()["items"]


def test_a_recorder_that_is_killed_at_any_time_completes_the_merge(own, name):
    internal = own.internal()
    for turn in range(6):
        guest, ann = name("guest"), name("ann")
        for number in range(4):
            internal.post("/api/history", {"userId": guest, "topicId": f"item{number}"})
            internal.post("/api/interactions", {"userId": guest, "topicId": f"item{number}", "kind": "like"})
            internal.post("/api/feedback", {"userId": guest, "topicId": f"item{4 + number}", "kind": "not_interested"})
        reply = internal.post("/api/history/merge", {"from": guest, "to": ann})
        if turn % 2:  # after the first pass, otherwise at any time
            wait_until(lambda guest=guest: history_of(own, guest) == [], "the first pass", 60)
        os.kill(wait_until(own.recorder, "a recorder"), signal.SIGKILL)
        wait_for_job(own, reply)
        assert history_of(own, ann) == ["item3", "item2", "item1", "item0"] and history_of(own, guest) == []
        assert own.redis("ZCARD", f"user:interactions:{{{ann}}}") == own.redis("ZCARD", f"user:not_interested:{{{ann}}}") == 4
        wait_until(lambda guest=guest, ann=ann: rows(own, ann) == [4, 4, 0] and rows(own, guest) == [0, 0, 0], "the rows", 30)
    own.check()


def test_bad_merges_are_refused(site, name):
    internal = site.internal()
    for body in ({"from": "a"}, {"to": "a"}, {"from": "\x1dcx", "to": "a"}, {"from": "a", "to": "\x1dcx"}, {"from": "", "to": "a"}):
        assert_problem(internal.post("/api/history/merge", body), 400, "bad_id")
    # A forged cookie next to a valid reader changes nothing.
    cookie = visitor(site)
    read(site, cookie, "item1")
    wait_until(lambda: history(site, cookie), "the history")
    forged = {"Cookie": cookie["Cookie"][:-1] + ("A" if cookie["Cookie"][-1] != "A" else "B")}
    for _ in range(3):
        assert history(site, account(name("eve"), forged)) == []
    assert history(site, cookie) == ["item1"] and reader_of(cookie)

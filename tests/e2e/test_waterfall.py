"""Timelines through the whole service: the seed's walk, who may read what, what is refused, and what a client keeps through faults."""

import hashlib
import hmac
import itertools
import json
import os
import random
import signal
import tempfile
import threading
import time

import pytest

from client import Load, assert_problem
from fastcgi import Connection
from service import PATIENT, birth, wait_until
from test_bad_input import is_id

SCORE_END = 2**53


def push(service, channel, items, customers):
    reply = service.internal().post(f"/api/waterfall/{channel}", {"items": list(items), "customers": list(customers)})
    assert reply.status == 200, reply
    return reply.json()


def read(client, channel, reader, direction=None, score=None, limit=None):
    query = {"customerId": reader, "direction": direction, "score": score, "limit": limit}
    reply = client.get(f"/api/waterfall/{channel}", query={name: value for name, value in query.items() if value is not None})
    assert reply.status == 200, reply
    return reply.json()


def ids(page):
    return [item["id"] for item in page["items"]]


def timeline(service, channel, reader):
    """The ids in Redis, newest first."""
    return service.redis("ZREVRANGEBYSCORE", f"wf:{channel}:{reader}", "+inf", "(0")


class Reader:
    """A client that follows the seed's rules: keeps drop and up, and changes only the one it asked about."""

    def __init__(self, name, channel="discover"):
        self.name, self.channel, self.shown, self.drop, self.up, self.more = name, channel, [], 0, 0, True

    def take(self, client, direction, limit=5):
        score = {"first": None, "down": self.drop, "up": self.up}[direction]
        page = read(client, self.channel, self.name, direction, score, limit)
        if page.get("degraded"):
            assert (page["items"], page["drop"], page["up"], page["has_more"], page["newer"]) == ([], score or 0, score or 0, True, 0)
            return page
        scores = [item["score"] for item in page["items"]]
        assert scores == sorted(set(scores), reverse=True) and all(type(score) is int for score in scores)
        assert (page["drop"], page["up"]) == ((scores[0], scores[-1]) if scores else (score or 0, score or 0))
        if direction == "up":
            assert all(score < self.up for score in scores)
            self.shown += ids(page)
        else:
            assert all(score > self.drop for score in scores)
            self.shown = ids(page) + self.shown
            self.drop = page["drop"]
        if direction != "down":
            self.up, self.more = page["up"], page["has_more"]
        return page

    def exhaust(self, client):
        while self.take(client, "down", 7)["has_more"]:
            pass
        while self.more:
            self.take(client, "up", 7)
        assert len(set(self.shown)) == len(self.shown), "an item came twice"


def without_redis(service):
    pid = service.pid("redis")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: birth(pid) is None and service.status()["redis ready"] == 0, "the loss of Redis to be noticed")


def back_again(service):
    service.restart_redis()
    wait_until(lambda: service.internal().get("/health/ready").status == 200, "Redis to be seen")


# --- the seed


def test_the_walk_of_the_seed(service, name):
    stem, reader, client = name("s"), Reader(name("r")), service.public()
    items = {number: f"{stem}-{number}" for number in range(100, 125)}
    numbers = {item: number for number, item in items.items()}

    def step(direction):
        page = reader.take(client, direction)
        return [numbers[item] for item in ids(page)], page

    push(service, "discover", [items[number] for number in range(100, 116)], [reader.name])
    shown, page = step("first")
    assert shown == [115, 114, 113, 112, 111] and page["has_more"] and page["newer"] == 0
    push(service, "discover", [items[number] for number in range(116, 125)], [reader.name])
    shown, page = step("down")
    assert shown == [120, 119, 118, 117, 116] and page["has_more"] and page["newer"] == 4
    shown, page = step("up")
    assert shown == [110, 109, 108, 107, 106] and page["has_more"] and page["newer"] == 14
    # What was deleted shifts nothing; what came shifts nothing.
    assert service.internal().delete(f"/api/waterfall/discover/{items[104]}", query={"customerId": reader.name}).json() == {"removed": 1}
    shown, page = step("down")
    assert shown == [124, 123, 122, 121] and not page["has_more"] and page["newer"] == 0
    shown, page = step("up")
    assert shown == [105, 103, 102, 101, 100] and not page["has_more"]
    assert [numbers[item] for item in reader.shown] == [number for number in range(124, 99, -1) if number != 104]
    for direction in ("down", "up"):
        shown, page = step(direction)
        assert shown == [] and not page["has_more"]


def test_a_page_has_the_members_of_the_api_and_no_others(service, name):
    client, known, unknown, reader = service.public(), name("k"), name("u"), name("r")
    service.put(known, tags=["t"], author="somebody", url="https://example.org/")
    push(service, "discover", [unknown, known], [reader])
    reply = client.get("/api/waterfall/discover", query={"customerId": reader})
    assert reply.headers["Cache-Control"] == "private, no-store" and "Freshet-Degraded" not in reply.headers
    page = reply.json()
    assert set(page) == {"items", "drop", "up", "has_more", "newer"}
    assert set(page["items"][0]) == {"id", "score", "title", "update_time", "tags", "author", "url"}
    assert set(page["items"][1]) == {"id", "score"}
    assert (page["has_more"], page["newer"]) == (False, 0)
    assert b'"drop":%d,' % page["items"][0]["score"] in reply.body
    empty = read(client, "discover", name("nobody"))
    assert empty == {"items": [], "drop": 0, "up": 0, "has_more": False, "newer": 0}
    assert client.ask("HEAD", f"/api/waterfall/discover?customerId={reader}").status == 200


def test_five_items_are_a_page_unless_told_otherwise(service, name):
    client, reader = service.public(), name("r")
    items = [name("i") for _ in range(100)]
    push(service, "discover", items, [reader])
    assert ids(read(client, "discover", reader)) == items[:-6:-1]
    assert ids(read(client, "discover", reader, limit=100)) == items[::-1]
    assert ids(read(client, "discover", reader, "first", limit=1)) == items[-1:]


def test_an_empty_page_leaves_the_cursor_where_it_was(service, name):
    client, reader = service.public(), name("r")
    push(service, "discover", [name("i")], [reader])
    page = read(client, "discover", reader)
    for direction in ("down", "up"):
        empty = read(client, "discover", reader, direction, page["drop"])
        assert (empty["items"], empty["drop"], empty["up"], empty["has_more"]) == ([], page["drop"], page["drop"], False)


def test_channels_of_one_reader_and_readers_of_one_channel_are_apart(service, name):
    client, one, two = service.public(), name("r"), name("r")
    a, b, c = name("a"), name("b"), name("c")
    push(service, "discover", [a], [one])
    push(service, "follow", [b], [one])
    push(service, "discover", [c], [two])
    assert ids(read(client, "discover", one)) == [a]
    assert ids(read(client, "follow", one)) == [b]
    assert ids(read(client, "discover", two)) == [c]


def test_another_channels_cursor_is_a_number_like_any_other(service, name):
    client, reader = service.public(), Reader(name("r"))
    items = [name("i") for _ in range(12)]
    push(service, "discover", items[:6], [reader.name])
    push(service, "follow", [name("f")], [reader.name])
    push(service, "discover", items[6:], [reader.name])
    other = read(client, "follow", reader.name)["drop"]
    newer = read(client, "discover", reader.name, "down", other, 100)
    older = read(client, "discover", reader.name, "up", other, 100)
    at = [item for item in ids(read(client, "discover", reader.name, limit=100)) if item not in ids(newer) + ids(older)]
    assert ids(newer) + at + ids(older) == items[::-1] and len(at) <= 1


def test_pushing_again_keeps_the_place_and_counts_as_a_duplicate(service, name):
    client, a, b, one, two = service.public(), name("a"), name("b"), name("r"), name("r")
    assert push(service, "discover", [a, b], [one]) == {"pushed": 2, "duplicates": 0}
    before = read(client, "discover", one)
    assert push(service, "discover", [a], [one, two]) == {"pushed": 1, "duplicates": 1}
    assert read(client, "discover", one) == before
    assert push(service, "discover", [a, a], [name("r")]) == {"pushed": 1, "duplicates": 1}
    third = name("r")
    assert push(service, "discover", [a, b], [third, third]) == {"pushed": 2, "duplicates": 2}
    assert ids(read(client, "discover", third)) == [b, a]


def test_hidden_and_deleted_items_are_not_pushed_and_named_each(service, name):
    shown, hidden, deleted, reader = name("s"), name("h"), name("d"), name("r")
    service.put(hidden, hidden=True)
    service.put(deleted)
    assert service.internal().delete(f"/api/items/{deleted}").status == 200
    refused = [{"item": hidden, "code": "hidden_item"}, {"item": deleted, "code": "hidden_item"}]
    assert push(service, "discover", [hidden, shown, deleted], [reader]) == {"pushed": 1, "duplicates": 0, "rejected": refused}
    assert timeline(service, "discover", reader) == [shown]
    nobody = name("r")
    assert push(service, "discover", [hidden, deleted], [nobody]) == {"pushed": 0, "duplicates": 0, "rejected": refused}
    assert service.redis("EXISTS", f"wf:discover:{nobody}") == 0


def test_what_is_hidden_later_is_skipped_and_the_page_filled_up(service, name):
    client, reader, items = service.public(), name("r"), [name("i") for _ in range(12)]
    for item in items:
        service.put(item)
    push(service, "discover", items, [reader])
    for item in items[4::2]:
        service.put(item, hidden=True)
    shown = [item for item in items[::-1] if item not in items[4::2]]
    page = read(client, "discover", reader)
    assert ids(page) == shown[:5] and page["has_more"]
    page = read(client, "discover", reader, "up", page["up"], 100)
    assert ids(page) == shown[5:] and not page["has_more"]


def test_with_items_unknown_reject_an_item_that_does_not_exist_is_named(instance, name):
    service = instance("--no-limits", items__unknown='"reject"', **PATIENT)
    known, unknown, reader = name("k"), name("u"), name("r")
    service.put(known)
    refused = [{"item": unknown, "code": "unknown_item"}]
    assert push(service, "discover", [unknown, known], [reader]) == {"pushed": 1, "duplicates": 0, "rejected": refused}
    assert ids(read(service.public(), "discover", reader)) == [known]
    assert push(service, "discover", [unknown], [reader]) == {"pushed": 0, "duplicates": 0, "rejected": refused}


def test_ten_thousand_readers_get_a_push_before_its_reply(service, name):
    stem, items = name("m"), [name("i") for _ in range(3)]
    readers = [f"{stem}-{number}" for number in range(10000)]
    assert push(service, "discover", items, readers) == {"pushed": 30000, "duplicates": 0}
    for reader in random.sample(readers, 100) + [readers[0], readers[-1]]:
        assert timeline(service, "discover", reader) == items[::-1]
    assert push(service, "discover", items, readers) == {"pushed": 0, "duplicates": 30000}
    service.check()


def test_a_removed_item_is_gone_and_removing_it_again_says_so(service, name):
    a, b, reader = name("a"), name("b"), name("r")
    push(service, "discover", [a, b], [reader])
    internal = service.internal()
    for removed in (1, 0):
        assert internal.delete(f"/api/waterfall/discover/{b}", query={"customerId": reader}).json() == {"removed": removed}
    assert ids(read(service.public(), "discover", reader)) == [a]
    # It comes back with a score above every one there was.
    push(service, "discover", [b], [reader])
    assert ids(read(service.public(), "discover", reader)) == [b, a]


def test_a_cursor_that_fell_off_the_end_says_so(instance, name):
    service = instance("--no-limits", waterfall__max_items=10, **PATIENT)
    client, reader = service.public(), Reader(name("r"))
    old, new = [name("o") for _ in range(10)], [name("n") for _ in range(12)]
    push(service, "discover", old, [reader.name])
    assert "trimmed" not in reader.take(client, "first")
    assert push(service, "discover", new[:6], [reader.name])["pushed"] == 6
    page = read(client, "discover", reader.name, "up", reader.up)
    assert (page["items"], page["has_more"], page["trimmed"]) == ([], False, True)
    page = read(client, "discover", reader.name, "down", reader.drop)
    assert ids(page) == new[4::-1] and "trimmed" not in page
    push(service, "discover", new[6:], [reader.name])
    page = read(client, "discover", reader.name, "down", reader.drop, 100)
    assert ids(page) == new[:1:-1] and page["trimmed"] and page["newer"] == 0
    # The timeline's time was up: whatever the client has is older than all that will come.
    service.redis("DEL", f"wf:discover:{reader.name}")
    for direction in ("down", "up"):
        page = read(client, "discover", reader.name, direction, reader.drop)
        assert (page["items"], page["drop"], page["has_more"], page["trimmed"]) == ([], reader.drop, False, True)
    push(service, "discover", new[:1], [reader.name])
    assert ids(read(client, "discover", reader.name, "down", reader.drop)) == new[:1]
    service.check()


@pytest.mark.parametrize("channel", ["discover", "follow"])
def test_a_page_costs_one_round_trip(own_service, name, channel):
    service, reader, client = own_service, name("r"), own_service.public()
    push(service, channel, [name("i") for _ in range(20)], [reader])
    up = read(client, channel, reader)["up"]
    before = service.status()
    for _ in range(50):
        read(client, channel, reader, "up", up)
        read(client, channel, reader, "down", up)
    after = service.status()
    # What asking for the status adds, and what workers send meanwhile by themselves, is far below one for each page.
    assert 0 < after["redis round trips"] - before["redis round trips"] < 150, (before, after)


def test_naughty_ids_come_back_byte_for_byte_or_are_named(service, shared, name):
    with open(os.path.join(shared, "corpora/BLNS/blns.json"), encoding="utf-8") as file:
        strings = json.load(file)
    with open(os.path.join(shared, "corpora/hostile/hostile.json"), encoding="utf-8") as file:
        strings += json.load(file)["ids"] + ["\ud800", "a\udfff", "é" * 64, "é" * 64 + "x", "x" * 128, "a\u2028"]
    reader, good = name("r"), []
    for text in dict.fromkeys(strings):
        body = {"items": [text], "customers": [reader]}
        reply = service.internal().post("/api/waterfall/discover", body)
        if is_id(text):
            assert reply.json() == {"pushed": 1, "duplicates": 0}, (text, reply)
            good.append(text)
        else:
            assert_problem(reply, 400)
            for members in ({"items": ["i"], "customers": [text]}, {"items": ["i"], "followersOf": text}):
                assert_problem(service.internal().post("/api/waterfall/follow", members), 400)
            reply = service.internal().put("/api/follows", {"follower": reader, "author": text})
            assert_problem(reply, 413 if len(json.dumps(text)) > 16000 else 400)
    shown = Reader(reader)
    shown.take(service.public(), "first", 100)
    shown.exhaust(service.public())
    assert len(good) > 100 and shown.shown == good[::-1]


# --- who follows whom


def follows(client, reader):
    reply = client.get("/api/follows", query={"follower": reader})
    assert reply.status == 200, reply
    return reply.json()["items"]


def test_follows_are_put_listed_and_taken_back_by_body_or_query(service, name):
    internal, reader, authors = service.internal(), name("r"), sorted(name("a") for _ in range(3))
    for author in authors + authors[:1]:
        assert internal.put("/api/follows", {"follower": reader, "author": author}).json() == {"ok": True}
    assert follows(service.public(), reader) == authors
    assert internal.ask("DELETE", "/api/follows", {"follower": reader, "author": authors[0]}).json() == {"ok": True}
    assert internal.delete("/api/follows", query={"follower": reader, "author": authors[1]}).json() == {"ok": True}
    assert internal.delete("/api/follows", query={"follower": reader, "author": authors[1]}).json() == {"ok": True}
    assert follows(service.public(), reader) == authors[2:]


def test_what_an_author_publishes_comes_to_who_follows_and_the_job_says_when(service, name):
    internal, reader, author, items = service.internal(), name("r"), name("a"), [name("i") for _ in range(3)]
    hidden = name("h")
    service.put(hidden, hidden=True)
    assert internal.put("/api/follows", {"follower": reader, "author": author}).status == 200
    reply = internal.post("/api/waterfall/follow", {"items": [*items, hidden], "followersOf": author})
    assert reply.status == 202 and set(reply.json()) == {"job", "rejected"}, reply
    assert reply.json()["rejected"] == [{"item": hidden, "code": "hidden_item"}]
    job = reply.json()["job"]
    wait_until(lambda: internal.get(f"/api/jobs/{job}").json()["state"] == "done", "the job")
    assert ids(read(service.public(), "follow", reader)) == items[::-1]
    reply = internal.post("/api/waterfall/follow", {"items": [hidden], "followersOf": author})
    assert (reply.status, reply.json()) == (200, {"pushed": 0, "duplicates": 0, "rejected": [{"item": hidden, "code": "hidden_item"}]})


def test_too_many_follows_are_a_conflict(instance, name):
    service, reader = instance("--no-limits", waterfall__max_follows=2, **PATIENT), name("r")
    put = service.internal().put
    assert [put("/api/follows", {"follower": reader, "author": f"a{number}"}).status for number in (1, 2, 1)] == [200, 200, 200]
    assert_problem(put("/api/follows", {"follower": reader, "author": "a3"}), 409, "too_many_follows")
    assert follows(service.public(), reader) == ["a1", "a2"]


# --- who may


def test_writes_are_not_for_the_public(service, name):
    item, reader, public = name("i"), name("r"), service.public()
    for reply in (public.post("/api/waterfall/discover", {"items": [item], "customers": [reader]}),
                  public.put("/api/follows", {"follower": reader, "author": "a"}),
                  public.delete("/api/follows", query={"follower": reader, "author": "a"})):
        assert_problem(reply, 403)
    assert_problem(public.delete(f"/api/waterfall/discover/{item}", query={"customerId": reader}), 404)
    # The workers refuse them too, whatever a site's own nginx lets through.
    pair = json.dumps({"follower": reader, "author": "a"}).encode()
    batch = json.dumps({"items": [item], "customers": [reader]}).encode()
    with Connection(service.socket_path) as nginx:
        for method, uri, body, refusal in (("POST", "/api/waterfall/discover", batch, 405), ("PUT", "/api/follows", pair, 405),
                                           ("DELETE", "/api/follows", pair, 405), ("DELETE", f"/api/waterfall/discover/{item}?customerId={reader}", b"", 404)):
            assert nginx.ask(zone="public", method=method, uri=uri, body=body)[0] == refusal
    assert timeline(service, "discover", reader) == [] and follows(public, reader) == []


def test_in_header_mode_a_claim_opens_nobodys_timeline(instance, name):
    service, reader = instance("--no-limits", identity__mode='"header"', **PATIENT), name("r")
    item = name("i")
    push(service, "discover", [item], [reader])
    service.internal().put("/api/follows", {"follower": reader, "author": "a"})
    public = service.public()
    assert_problem(public.get("/api/waterfall/discover", query={"customerId": reader}), 400, "bad_id", "customerId")
    assert_problem(public.get("/api/follows", query={"follower": reader}), 400, "bad_id", "follower")
    assert ids(read(service.internal(), "discover", reader)) == [item]
    assert follows(service.internal(), reader) == ["a"]
    # What nginx found by auth_request counts, and a claim beside it does not.
    with Connection(service.socket_path) as nginx:
        for claim in ("", f"?customerId={reader}", "?customerId=other"):
            status, body = nginx.ask(zone="public", uri="/api/waterfall/discover" + claim, FRESHET_USER=reader)
            assert status == 200 and ids(json.loads(body)) == [item]
        status, body = nginx.ask(zone="public", uri=f"/api/waterfall/discover?customerId={reader}", FRESHET_USER="other")
        assert status == 200 and ids(json.loads(body)) == []


def test_in_token_mode_the_token_says_whose_timeline_it_is(instance, name):
    secret = "e2e-secret-" + "k" * 32
    with tempfile.NamedTemporaryFile("w", dir="/tmp", prefix="freshet-token-") as file:
        file.write(secret)
        file.flush()
        os.chmod(file.name, 0o644)  # the service may run as somebody else
        service = instance("--no-limits", identity__mode='"token"', identity__token_keys=f'{{ k1 = "{file.name}" }}', **PATIENT)
    mine, theirs = name("r"), name("r")
    item = name("i")
    push(service, "discover", [item], [mine])

    def bearer(reader):
        said = f"v1.k1.{reader}.{int(time.time()) + 600}"
        return {"headers": {"Authorization": f"Bearer {said}.{hmac.new(secret.encode(), said.encode(), hashlib.sha256).hexdigest()}"}}

    get = service.public().get
    path = f"/api/waterfall/discover?customerId={mine}"
    assert ids(get(path, **bearer(mine)).json()) == [item]
    assert ids(get(path, **bearer(theirs)).json()) == []
    assert_problem(get(path), 400, "bad_id", "customerId")
    forged = bearer(mine)["headers"]["Authorization"][:-1] + "_"
    assert_problem(get(path, headers={"Authorization": forged}), 401, "bad_token")


def test_without_a_reader_a_page_is_refused_and_the_member_named(service):
    assert_problem(service.public().get("/api/waterfall/discover"), 400, "bad_id", "customerId")
    assert_problem(service.public().get("/api/follows"), 400, "bad_id", "follower")


# --- bad input

BAD_CURSORS = ["NaN", "inf", "1e400", "-1", str(2**60), str(SCORE_END), "text", "1.5", "1e3", "", " 1", "0x10", "9" * 40, "null", "１２"]


@pytest.mark.parametrize("direction", [None, "first", "down", "up"])
def test_a_cursor_that_is_none_is_named(service, direction):
    client = service.public()
    for score in BAD_CURSORS:
        query = {"customerId": "bad", "score": score} | ({"direction": direction} if direction else {})
        problem = assert_problem(client.get("/api/waterfall/discover", query=query), 400, "bad_number")
        assert problem["member"] == "score"
    assert read(client, "discover", "bad", "up", SCORE_END - 1)["items"] == []
    assert read(client, "discover", "bad", "down", SCORE_END - 1)["up"] == SCORE_END - 1
    if direction in ("down", "up"):
        reply = client.get("/api/waterfall/discover", query={"customerId": "bad", "direction": direction})
        assert assert_problem(reply, 400, "bad_number")["member"] == "score"


@pytest.mark.parametrize("members, code, member", [
    ({"direction": "left"}, "bad_parameter", "direction"), ({"direction": ""}, "bad_parameter", "direction"),
    ({"direction": "DOWN", "score": 1}, "bad_parameter", "direction"),
    ({"limit": 0}, "bad_number", "limit"), ({"limit": 101}, "bad_number", "limit"), ({"limit": -1}, "bad_number", "limit"),
    ({"limit": "five"}, "bad_number", "limit"), ({"limit": ""}, "bad_number", "limit"), ({"limit": "5.0"}, "bad_number", "limit"),
    ({"customerId": ""}, "bad_id", "customerId"), ({"customerId": "a:b"}, "bad_id", "customerId"), ({"customerId": "x" * 129}, "bad_id", "customerId"),
    ({"customerId": "{a}"}, "bad_id", "customerId")])
def test_a_bad_parameter_of_a_page_is_named(service, members, code, member):
    reply = service.public().get("/api/waterfall/discover", query={"customerId": "bad"} | members)
    assert assert_problem(reply, 400, code)["member"] == member


def test_an_unknown_channel_is_404_and_nothing_is_made_of_it(service, name):
    reader, internal = name("r"), service.internal()
    for channel in ("nowhere", "Discover", "discover%20", "discover%3Ax", "*", "%00", "x" * 300):
        for client in (service.public(), internal):
            reply = client.get(f"/api/waterfall/{channel}", query={"customerId": reader})
            assert reply.status == 404 or (channel == "%00" and reply.status == 400), (channel, reply)
        if channel == "%00":
            continue
        for reply in (internal.post(f"/api/waterfall/{channel}", {"items": ["i"], "customers": [reader]}),
                      internal.delete(f"/api/waterfall/{channel}/i", query={"customerId": reader})):
            assert assert_problem(reply, 404, "unknown_channel")["member"] == "channel"
    assert service.redis("KEYS", f"*{reader}*") == []


def many(count):
    return [f"n{number}" for number in range(count)]


@pytest.mark.parametrize("members, code, member", [
    ({"items": None}, "bad_list", "items"), ({"items": []}, "bad_list", "items"), ({"items": "i"}, "bad_list", "items"),
    ({"items": {"0": "i"}}, "bad_list", "items"), ({"items": many(101)}, "bad_list", "items"), ({"items": ["i", 1.5]}, "bad_id", "items"),
    ({"items": ["i", None]}, "bad_id", "items"), ({"items": [["i"]]}, "bad_id", "items"), ({"items": ["i", {}]}, "bad_id", "items"),
    ({"items": [True]}, "bad_id", "items"), ({"items": ["i", "a:b"]}, "bad_id", "items"), ({"items": ["i", ""]}, "bad_id", "items"),
    ({"items": ["list"]}, "bad_id", "items"), ({"items": ["x" * 129]}, "bad_id", "items"), ({"items": [1e300]}, "bad_id", "items"),
    ({"customers": None}, "bad_list", "customers"), ({"customers": []}, "bad_list", "customers"), ({"customers": "r"}, "bad_list", "customers"),
    ({"customers": many(10001)}, "bad_list", "customers"), ({"customers": many(60000)}, "bad_list", "customers"),
    ({"customers": ["r", "a b"]}, "bad_id", "customers"), ({"customers": ["r", ["s"]]}, "bad_id", "customers"), ({"customers": ["r", "a}b"]}, "bad_id", "customers"),
    ({"followersOf": "a"}, "bad_list", "customers"), ({"customers": None, "followersOf": ""}, "bad_id", "followersOf"),
    ({"customers": None, "followersOf": ["a"]}, "bad_id", "followersOf"), ({"customers": None, "followersOf": "a"}, "bad_parameter", "followersOf")])
def test_a_bad_push_is_named_and_nothing_is_written(service, members, code, member):
    before = service.redis("DBSIZE")
    body = {"items": ["i"], "customers": ["never"]} | members
    problem = assert_problem(service.internal().post("/api/waterfall/discover", body), 400, code)
    assert problem["member"] == member
    assert service.redis("EXISTS", "wf:discover:never", "wf:discover:r", "wf:discover:n0") == 0
    assert service.redis("DBSIZE") <= before


def test_the_place_of_a_bad_element_is_said(service):
    reply = service.internal().post("/api/waterfall/discover", {"items": ["a", "b", "c d"], "customers": ["r"]})
    assert assert_problem(reply, 400, "bad_id", "items")["detail"].startswith("element 3: ")


def test_whole_numbers_are_ids_as_everywhere(service, name):
    reader, number = name("r"), time.time_ns()
    assert push(service, "discover", [number, str(number)], [reader]) == {"pushed": 1, "duplicates": 1}
    assert ids(read(service.public(), "discover", reader)) == [str(number)]


@pytest.mark.parametrize("body, status, code", [
    (b"", 400, "bad_json"), (b"{", 400, "bad_json"), (b"[]", 400, "bad_body"), (b'{"items":["i"],"customers":["deep"],"x":' + b"[" * 100 + b"]" * 100 + b"}", 400, "bad_json"),
    (b"[" * 100000, 400, "bad_json"), (b'{"items":["\xff"],"customers":["deep"]}', 400, "bad_json"), (b'{"items":["i\\u0000"],"customers":["deep"]}', 400, "bad_id"),
    (b'{"items":["i"],"customers":[' + b'"deep",' * 200000 + b'"deep"]}', 400, "bad_json"), (b'{"items":["i"],"customers":["deep"]}{}', 400, "bad_json"),
    (b" " * (8 << 20) + b"{}", 413, None)], ids=itertools.count())
def test_bodies_that_are_no_push_are_refused_and_write_nothing(service, body, status, code):
    assert_problem(service.internal().post("/api/waterfall/discover", body), status, code)
    assert service.redis("EXISTS", "wf:discover:deep") == 0


def test_a_push_that_any_page_could_send_is_refused(service):
    reply = service.internal().post("/api/waterfall/discover", '{"items":["i"],"customers":["plain"]}', headers={"Content-Type": "text/plain"})
    assert_problem(reply, 400, "bad_content_type")
    assert service.redis("EXISTS", "wf:discover:plain") == 0


@pytest.mark.parametrize("members, code, member", [
    ({"follower": None}, "bad_id", "follower"), ({"follower": ""}, "bad_id", "follower"), ({"follower": ["f"]}, "bad_id", "follower"),
    ({"author": None}, "bad_id", "author"), ({"author": "a:b"}, "bad_id", "author"), ({"author": {}}, "bad_id", "author"), ({"author": "x" * 129}, "bad_id", "author")])
def test_a_bad_follow_is_named(service, members, code, member):
    internal = service.internal()
    for method in ("PUT", "DELETE"):
        assert assert_problem(internal.ask(method, "/api/follows", {"follower": "never", "author": "a"} | members), 400, code)["member"] == member
    assert follows(internal, "never") == []


def test_bad_parameters_of_removals_and_methods_are_refused(service):
    internal = service.internal()
    assert_problem(internal.delete("/api/waterfall/discover/i"), 400, "bad_id", "customerId")
    assert_problem(internal.delete("/api/waterfall/discover/i", query={"customerId": "a b"}), 400, "bad_id", "customerId")
    assert_problem(internal.delete("/api/waterfall/discover/a%3Ab", query={"customerId": "r"}), 400, "bad_id", "itemId")
    assert_problem(internal.delete("/api/follows", query={"follower": "r"}), 400, "bad_id", "author")
    assert_problem(internal.put("/api/waterfall/discover", {}), 405)
    assert_problem(internal.post("/api/waterfall/discover/i", {}), 405)
    assert_problem(service.public().get("/api/follows", query={"follower": "a:b"}), 400, "bad_id", "follower")


# --- faults


def test_without_redis_pages_are_empty_and_writes_are_told_to_come_back(own_service, name):
    service, reader, items = own_service, Reader(name("r")), [name("i") for _ in range(12)]
    client, internal = service.public(), service.internal()
    push(service, "discover", items[:10], [reader.name])
    reader.take(client, "first")
    kept = (reader.drop, reader.up, list(reader.shown))
    without_redis(service)
    for direction in ("first", "down", "up"):
        query = {"customerId": reader.name, "direction": direction, "score": reader.up, "limit": 5}
        reply = client.get("/api/waterfall/discover", query=query)
        cursor = 0 if direction == "first" else reader.up
        assert (reply.status, reply.headers["Freshet-Degraded"]) == (200, "true")
        assert reply.json() == {"items": [], "drop": cursor, "up": cursor, "has_more": True, "newer": 0, "degraded": True}
    assert client.get("/api/follows", query={"follower": reader.name}).json() == {"items": [], "degraded": True}
    for reply in (internal.post("/api/waterfall/discover", {"items": items[10:], "customers": [reader.name]}),
                  internal.post("/api/waterfall/follow", {"items": items[10:], "followersOf": "a"}),
                  internal.delete(f"/api/waterfall/discover/{items[0]}", query={"customerId": reader.name}),
                  internal.put("/api/follows", {"follower": reader.name, "author": "a"}),
                  internal.delete("/api/follows", query={"follower": reader.name, "author": "a"})):
        assert_problem(reply, 503)
        assert int(reply.headers["Retry-After"]) >= 1
    back_again(service)
    assert (reader.drop, reader.up, reader.shown) == kept
    reader.exhaust(client)
    assert reader.shown == items[9::-1]
    service.check()


def test_a_redis_that_hangs_or_has_no_memory_is_an_empty_page_or_a_503(shipped_service, name):
    service, reader = shipped_service, Reader(name("r"))
    items = [name("i") for _ in range(10)]
    wait_until(lambda: service.internal().post("/api/waterfall/discover", {"items": items, "customers": [reader.name]}).status == 200, "the push")
    wait_until(lambda: not reader.take(service.public(), "first").get("degraded"), "a page")
    body = {"items": [name("n")], "customers": [reader.name]}

    def page():
        reply = service.public().get("/api/waterfall/discover", query={"customerId": reader.name, "direction": "up", "score": reader.up})
        assert reply.status == 200, reply
        return reply.json()

    redis = service.pid("redis")
    try:
        os.kill(redis, signal.SIGSTOP)
        for _ in range(20):
            assert page() == {"items": [], "drop": reader.up, "up": reader.up, "has_more": True, "newer": 0, "degraded": True}
    finally:
        os.kill(redis, signal.SIGCONT)
    wait_until(lambda: "degraded" not in page(), "normal service")
    service.redis("CONFIG", "SET", "maxmemory", "1")
    assert_problem(service.internal().post("/api/waterfall/discover", body), 503)
    assert_problem(service.internal().put("/api/follows", {"follower": reader.name, "author": "a"}), 503)
    assert page()["drop"] <= reader.up
    service.redis("CONFIG", "SET", "maxmemory", "0")
    wait_until(lambda: service.internal().post("/api/waterfall/discover", body).status == 200, "normal service")
    wait_until(lambda: reader.take(service.public(), "up", 100)["items"], "the older ones")
    wait_until(lambda: reader.take(service.public(), "down", 100)["items"], "the newer one")
    assert reader.shown == body["items"] + items[::-1]
    service.check()


def test_redis_killed_under_pushes_and_reads_loses_and_repeats_nothing(own_service, name):
    service = own_service
    service.redis("CONFIG", "SET", "appendfsync", "always")  # what Redis acknowledged it shall have kept
    clients, pushed = walk_under_load(service, name, kill_redis_once)
    finish_walks(service, clients, pushed)


def test_workers_killed_under_pushes_and_reads_lose_and_repeat_nothing(own_service, name):
    service = own_service
    clients, pushed = walk_under_load(service, name, kill_workers)
    finish_walks(service, clients, pushed)


def kill_redis_once(service, load, pushed):
    wait_until(lambda: len(pushed) > 70 or load.errors, "pushes")
    without_redis(service)
    seen = len(load.results)
    wait_until(lambda: len(load.results) > seen + 50 or load.errors, "load without Redis")
    back_again(service)
    seen = len(pushed)
    wait_until(lambda: len(pushed) > seen + 30 or load.errors, "pushes")


def kill_workers(service, load, pushed):
    def alive():
        return {pid for pid in service.workers() if birth(pid)}

    whole = len(alive())
    for _ in range(10):
        seen = len(pushed)
        wait_until(lambda seen=seen: len(pushed) > seen + 4 or load.errors, "pushes")
        victim = random.choice(sorted(alive()))
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda victim=victim: victim not in alive() and len(alive()) == whole, "the pool to be whole")


def walk_under_load(service, name, harm):
    """Four readers walk about while two writers push to all of them; a lost request is made again, as a client does."""
    clients = [Reader(name("r")) for _ in range(4)]
    readers, lock = [client.name for client in clients], threading.Lock()
    pushed = [f"before{number}-{readers[0]}" for number in range(40)]

    def work(connection, turn):
        if turn % 6 >= 4:
            return write(turn)
        client = clients[turn % 6]
        page = client.take(connection, ("down", "up", "down")[turn // 6 % 3], 1 + turn % 9)
        if page.get("degraded"):
            time.sleep(0.02)
        return page

    def write(turn):
        item = f"w{turn}-{readers[0]}"
        while True:
            reply = service.internal().post("/api/waterfall/discover", {"items": [item], "customers": readers})
            if reply.status == 200:
                with lock:
                    pushed.append(item)
                time.sleep(0.01)
                return turn
            assert reply.status in (502, 503, 504), reply
            time.sleep(0.02)

    push(service, "discover", pushed, readers)
    for client in clients:
        client.take(service.public(), "first")
    with Load(service.public, work, threads=6) as load:
        harm(service, load, pushed)
    assert load.errors == []
    return clients, pushed


def finish_walks(service, clients, pushed):
    for client in clients:
        client.exhaust(service.public())
        assert client.shown == timeline(service, "discover", client.name)
        assert set(client.shown) == set(pushed)
    assert len(pushed) > 80
    service.check()

"""Timelines through the whole service: the seed's walk, the shape of pages and pushes, and who may read what."""

import hashlib
import hmac
import json
import os
import random
import tempfile
import time

import pytest

from client import assert_problem
from fastcgi import Connection
from service import PATIENT, wait_until
from timelines import Reader, follows, ids, push, read, timeline

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
    assert set(page["items"][0]) == {"id", "score", "title", "update_time", "tags", "author", "url", "reason"}
    assert set(page["items"][1]) == {"id", "score", "reason"}
    assert (page["has_more"], page["newer"]) == (False, 0)
    assert b'"drop":%d,' % page["items"][0]["score"] in reply.body
    empty = read(client, "discover", name("nobody"))
    assert empty == {"items": [], "drop": 0, "up": 0, "has_more": False, "newer": 0}
    assert client.ask("HEAD", f"/api/waterfall/discover?customerId={reader}").status == 200


def test_each_item_says_why_it_is_there(service, name):
    internal, reader, author, old = service.internal(), name("r"), name("a"), "2026-01-02T03:04:05Z"
    liked, alike, other, published = (name("i") for _ in range(4))
    for item, tags, by in ((liked, ["sea", "war"], "ann"), (alike, ["war"], "bob"), (other, ["tea"], "bob"), (published, [], author)):
        service.put(item, tags=tags, author=by, published_at=old)
    done = internal.post("/api/interactions", {"userId": reader, "topicId": liked, "kind": "like"})
    assert done.json()["accepted"] == 1
    push(service, "discover", [other, alike], [reader])
    reasons = [item["reason"] for item in read(internal, "discover", reader)["items"]]
    assert [reason["kind"] for reason in reasons] == ["like", "more"]
    assert (reasons[0]["id"], reasons[0]["interaction"]) == (liked, "like")

    assert internal.put("/api/follows", {"userId": reader, "author": author}).status == 200
    assert internal.post("/api/waterfall/follow", {"items": [published], "followersOf": author}).status == 202
    wait_until(lambda: timeline(service, "follow", reader) == [published], "the job")
    (item,) = read(internal, "follow", reader)["items"]
    assert item["reason"] == {"kind": "followed", "author": author, "text": f"by {author}, whom you follow"}


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


def test_a_push_that_is_repeated_under_its_event_id_gives_the_same_reply_and_brings_nothing_back(service, name):
    a, b, reader, event = name("a"), name("b"), name("r"), name("e")
    internal = service.internal()
    hidden = name("h")
    service.put(hidden, hidden=True)
    body = {"items": [a, b, hidden], "customers": [reader], "eventId": event}
    first = internal.post("/api/waterfall/discover", body)
    assert first.status == 200 and first.json()["pushed"] == 2, first
    assert internal.delete(f"/api/waterfall/discover/{b}", query={"customerId": reader}).json() == {"removed": 1}
    again = internal.post("/api/waterfall/discover", body)
    assert (again.status, again.body) == (first.status, first.body)
    assert timeline(service, "discover", reader) == [a]
    assert 86000 < service.redis("TTL", f"job:discover:{event}") <= 86400
    # Another channel, and another id, are another push.
    assert internal.post("/api/waterfall/follow", body).json()["pushed"] == 2
    assert internal.post("/api/waterfall/discover", body | {"eventId": name("e")}).json()["pushed"] == 1
    assert timeline(service, "discover", reader) == [b, a]


def test_what_an_author_publishes_under_an_event_id_is_published_once(service, name):
    internal, reader, author, item, event = service.internal(), name("r"), name("a"), name("i"), name("e")
    assert internal.put("/api/follows", {"follower": reader, "author": author}).status == 200
    body = {"items": [item], "followersOf": author, "eventId": event}
    first = internal.post("/api/waterfall/follow", body)
    assert first.status == 202, first
    wait_until(lambda: timeline(service, "follow", reader) == [item], "the job")
    internal.delete(f"/api/waterfall/follow/{item}", query={"customerId": reader})
    again = internal.post("/api/waterfall/follow", body)
    assert (again.status, again.body) == (202, first.body) and timeline(service, "follow", reader) == []


def test_followers_of_an_author_are_of_one_channel_and_the_error_says_which_and_why(service):
    reply = service.internal().post("/api/waterfall/discover", {"items": ["i"], "followersOf": "a"})
    assert_problem(reply, 400, "bad_parameter", "followersOf")
    assert '"follow"' in reply.json()["detail"] and "waterfall.follow_channel" in reply.json()["detail"]
    described = service.public().get("/openapi.json").json()["components"]["schemas"]["Push"]["description"]
    assert "waterfall.follow_channel (follow)" in described and "since" in described


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
    assert service.redis("EXISTS", f"wf:discover:{{{nobody}}}") == 0


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
    service.redis("DEL", f"wf:discover:{{{reader.name}}}")
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


def test_a_page_shows_an_item_as_it_is_now(own_service, name):
    service, reader, item, client = own_service, name("r"), name("i"), own_service.public()
    service.put(item, title="first")
    push(service, "discover", [item], [reader])
    for title in ("second", "third"):
        for _ in range(20):
            read(client, "discover", reader)  # whichever worker it is knows the item
        service.put(item, title=title)
        assert {read(client, "discover", reader)["items"][0]["title"] for _ in range(20)} == {title}
    before = service.status()
    service.redis("PUBLISH", "hot:epoch", "garbage")
    service.redis("PUBLISH", "hot:epoch", "")
    wait_until(lambda: service.status()["announcements ignored"] >= before["announcements ignored"] + 2, "the workers' counts")
    wait_until(lambda: service.status()["card hits"] > 0 and service.status()["card bytes"] > 0, "the workers' counts")
    service.put(item, title="third", hidden=True)
    assert all(read(client, "discover", reader)["items"] == [] for _ in range(20))


# --- who follows whom


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

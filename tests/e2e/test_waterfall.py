"""Timelines through the whole service: paging as designed, the shape of pages and pushes, and access."""

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
from service import LONG_TIMEOUTS, wait_until
from timelines import Reader, follows, ids, push, read, timeline

# --- paging


def test_paging_works_as_designed(service, name):
    stem, reader, client = name("s"), Reader(name("r")), service.public()
    items = {number: f"{stem}-{number}" for number in range(100, 125)}
    numbers = {item: number for number, item in items.items()}

    def step(direction):
        page = reader.fetch(client, direction)
        return [numbers[item] for item in ids(page)], page

    push(service, "discover", [items[number] for number in range(100, 116)], [reader.name])
    received, page = step("first")
    assert received == [115, 114, 113, 112, 111] and page["has_more"] and page["newer"] == 0
    push(service, "discover", [items[number] for number in range(116, 125)], [reader.name])
    received, page = step("down")
    assert received == [120, 119, 118, 117, 116] and page["has_more"] and page["newer"] == 4
    received, page = step("up")
    assert received == [110, 109, 108, 107, 106] and page["has_more"] and page["newer"] == 14
    # Neither deleted nor new items shift the page.
    assert service.internal().delete(f"/api/waterfall/discover/{items[104]}", query={"customerId": reader.name}).json() == {"removed": 1}
    received, page = step("down")
    assert received == [124, 123, 122, 121] and not page["has_more"] and page["newer"] == 0
    received, page = step("up")
    assert received == [105, 103, 102, 101, 100] and not page["has_more"]
    assert [numbers[item] for item in reader.item_ids] == [number for number in range(124, 99, -1) if number != 104]
    for direction in ("down", "up"):
        received, page = step(direction)
        assert received == [] and not page["has_more"]


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
    assert client.request("HEAD", f"/api/waterfall/discover?customerId={reader}").status == 200


def test_each_item_has_a_reason(service, name):
    internal, reader, author, old = service.internal(), name("r"), name("a"), "2026-01-02T03:04:05Z"
    liked, similar, other, published = (name("i") for _ in range(4))
    for item, tags, by in ((liked, ["sea", "war"], "ann"), (similar, ["war"], "bob"), (other, ["tea"], "bob"), (published, [], author)):
        service.put(item, tags=tags, author=by, published_at=old)
    done = internal.post("/api/interactions", {"userId": reader, "topicId": liked, "kind": "like"})
    assert done.json()["accepted"] == 1
    push(service, "discover", [other, similar], [reader])
    reasons = [item["reason"] for item in read(internal, "discover", reader)["items"]]
    assert [reason["kind"] for reason in reasons] == ["like", "more"]
    assert (reasons[0]["id"], reasons[0]["interaction"]) == (liked, "like")

    assert internal.put("/api/follows", {"userId": reader, "author": author}).status == 200
    assert internal.post("/api/waterfall/follow", {"items": [published], "followersOf": author}).status == 202
    wait_until(lambda: timeline(service, "follow", reader) == [published], "the job to finish")
    (item,) = read(internal, "follow", reader)["items"]
    assert item["reason"] == {"kind": "followed", "author": author, "text": f"by {author}, whom you follow"}


def test_a_page_has_five_items_by_default(service, name):
    client, reader = service.public(), name("r")
    items = [name("i") for _ in range(100)]
    push(service, "discover", items, [reader])
    assert ids(read(client, "discover", reader)) == items[:-6:-1]
    assert ids(read(client, "discover", reader, limit=100)) == items[::-1]
    assert ids(read(client, "discover", reader, "first", limit=1)) == items[-1:]


def test_an_empty_page_does_not_move_the_cursor(service, name):
    client, reader = service.public(), name("r")
    push(service, "discover", [name("i")], [reader])
    page = read(client, "discover", reader)
    for direction in ("down", "up"):
        empty = read(client, "discover", reader, direction, page["drop"])
        assert (empty["items"], empty["drop"], empty["up"], empty["has_more"]) == ([], page["drop"], page["drop"], False)


def test_channels_of_one_reader_and_readers_of_one_channel_are_separate(service, name):
    client, one, two = service.public(), name("r"), name("r")
    a, b, c = name("a"), name("b"), name("c")
    push(service, "discover", [a], [one])
    push(service, "follow", [b], [one])
    push(service, "discover", [c], [two])
    assert ids(read(client, "discover", one)) == [a]
    assert ids(read(client, "follow", one)) == [b]
    assert ids(read(client, "discover", two)) == [c]


def test_a_cursor_of_another_channel_is_a_valid_position(service, name):
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


def test_pushing_again_keeps_the_position_and_counts_as_a_duplicate(service, name):
    client, a, b, one, two = service.public(), name("a"), name("b"), name("r"), name("r")
    assert push(service, "discover", [a, b], [one]) == {"pushed": 2, "duplicates": 0}
    before = read(client, "discover", one)
    assert push(service, "discover", [a], [one, two]) == {"pushed": 1, "duplicates": 1}
    assert read(client, "discover", one) == before
    assert push(service, "discover", [a, a], [name("r")]) == {"pushed": 1, "duplicates": 1}
    third = name("r")
    assert push(service, "discover", [a, b], [third, third]) == {"pushed": 2, "duplicates": 2}
    assert ids(read(client, "discover", third)) == [b, a]


def test_a_push_repeated_with_its_event_id_gets_the_same_reply_and_restores_nothing(service, name):
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
    # Another channel, or another event id, is another push.
    assert internal.post("/api/waterfall/follow", body).json()["pushed"] == 2
    assert internal.post("/api/waterfall/discover", body | {"eventId": name("e")}).json()["pushed"] == 1
    assert timeline(service, "discover", reader) == [b, a]


def test_a_publication_repeated_with_its_event_id_is_published_once(service, name):
    internal, reader, author, item, event = service.internal(), name("r"), name("a"), name("i"), name("e")
    assert internal.put("/api/follows", {"follower": reader, "author": author}).status == 200
    body = {"items": [item], "followersOf": author, "eventId": event}
    first = internal.post("/api/waterfall/follow", body)
    assert first.status == 202, first
    wait_until(lambda: timeline(service, "follow", reader) == [item], "the job to finish")
    internal.delete(f"/api/waterfall/follow/{item}", query={"customerId": reader})
    again = internal.post("/api/waterfall/follow", body)
    assert (again.status, again.body) == (202, first.body) and timeline(service, "follow", reader) == []


def test_followers_of_is_refused_in_other_channels_and_the_error_names_the_right_one(service):
    reply = service.internal().post("/api/waterfall/discover", {"items": ["i"], "followersOf": "a"})
    assert_problem(reply, 400, "bad_parameter", "followersOf")
    assert '"follow"' in reply.json()["detail"] and "waterfall.follow_channel" in reply.json()["detail"]
    described = service.public().get("/openapi.json").json()["components"]["schemas"]["Push"]["description"]
    assert "waterfall.follow_channel (follow)" in described and "since" in described


def test_hidden_and_deleted_items_are_not_pushed_and_each_is_named(service, name):
    visible, hidden, deleted, reader = name("s"), name("h"), name("d"), name("r")
    service.put(hidden, hidden=True)
    service.put(deleted)
    assert service.internal().delete(f"/api/items/{deleted}").status == 200
    refused = [{"item": hidden, "code": "hidden_item"}, {"item": deleted, "code": "hidden_item"}]
    assert push(service, "discover", [hidden, visible, deleted], [reader]) == {"pushed": 1, "duplicates": 0, "rejected": refused}
    assert timeline(service, "discover", reader) == [visible]
    other = name("r")
    assert push(service, "discover", [hidden, deleted], [other]) == {"pushed": 0, "duplicates": 0, "rejected": refused}
    assert service.redis("EXISTS", f"wf:discover:{{{other}}}") == 0


def test_items_hidden_later_are_skipped_and_the_page_is_filled_up(service, name):
    client, reader, items = service.public(), name("r"), [name("i") for _ in range(12)]
    for item in items:
        service.put(item)
    push(service, "discover", items, [reader])
    for item in items[4::2]:
        service.put(item, hidden=True)
    visible = [item for item in items[::-1] if item not in items[4::2]]
    page = read(client, "discover", reader)
    assert ids(page) == visible[:5] and page["has_more"]
    page = read(client, "discover", reader, "up", page["up"], 100)
    assert ids(page) == visible[5:] and not page["has_more"]


def test_with_items_unknown_reject_an_unknown_item_is_named(instance, name):
    service = instance("--no-limits", items__unknown='"reject"', **LONG_TIMEOUTS)
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


def test_an_item_can_be_removed_once_and_pushed_again(service, name):
    a, b, reader = name("a"), name("b"), name("r")
    push(service, "discover", [a, b], [reader])
    internal = service.internal()
    for removed in (1, 0):
        assert internal.delete(f"/api/waterfall/discover/{b}", query={"customerId": reader}).json() == {"removed": removed}
    assert ids(read(service.public(), "discover", reader)) == [a]
    # It returns with a score higher than every earlier one.
    push(service, "discover", [b], [reader])
    assert ids(read(service.public(), "discover", reader)) == [b, a]


def test_a_cursor_beyond_the_trimmed_end_is_reported(instance, name):
    service = instance("--no-limits", waterfall__max_items=10, **LONG_TIMEOUTS)
    client, reader = service.public(), Reader(name("r"))
    old, new = [name("o") for _ in range(10)], [name("n") for _ in range(12)]
    push(service, "discover", old, [reader.name])
    assert "trimmed" not in reader.fetch(client, "first")
    assert push(service, "discover", new[:6], [reader.name])["pushed"] == 6
    page = read(client, "discover", reader.name, "up", reader.up)
    assert (page["items"], page["has_more"], page["trimmed"]) == ([], False, True)
    page = read(client, "discover", reader.name, "down", reader.drop)
    assert ids(page) == new[4::-1] and "trimmed" not in page
    push(service, "discover", new[6:], [reader.name])
    page = read(client, "discover", reader.name, "down", reader.drop, 100)
    assert ids(page) == new[:1:-1] and page["trimmed"] and page["newer"] == 0
    # The timeline has expired, so all items of the client are older than any future one.
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
    # The status requests and the workers' own commands cost far less than one round trip per page.
    assert 0 < after["redis round trips"] - before["redis round trips"] < 150, (before, after)


def test_a_page_shows_the_current_version_of_an_item(own_service, name):
    service, reader, item, client = own_service, name("r"), name("i"), own_service.public()
    service.put(item, title="first")
    push(service, "discover", [item], [reader])
    for title in ("second", "third"):
        for _ in range(20):
            read(client, "discover", reader)  # makes every worker cache the item
        service.put(item, title=title)
        assert {read(client, "discover", reader)["items"][0]["title"] for _ in range(20)} == {title}
    before = service.status()
    service.redis("PUBLISH", "hot:epoch", "garbage")
    service.redis("PUBLISH", "hot:epoch", "")
    wait_until(lambda: service.status()["announcements ignored"] >= before["announcements ignored"] + 2, "the workers to publish their counters")
    wait_until(lambda: service.status()["card hits"] > 0 and service.status()["card bytes"] > 0, "the workers to publish their counters")
    service.put(item, title="third", hidden=True)
    assert all(read(client, "discover", reader)["items"] == [] for _ in range(20))


# --- follows


def test_follows_are_added_listed_and_removed_by_body_or_query(service, name):
    internal, reader, authors = service.internal(), name("r"), sorted(name("a") for _ in range(3))
    for author in authors + authors[:1]:
        assert internal.put("/api/follows", {"follower": reader, "author": author}).json() == {"ok": True}
    assert follows(service.public(), reader) == authors
    assert internal.request("DELETE", "/api/follows", {"follower": reader, "author": authors[0]}).json() == {"ok": True}
    assert internal.delete("/api/follows", query={"follower": reader, "author": authors[1]}).json() == {"ok": True}
    assert internal.delete("/api/follows", query={"follower": reader, "author": authors[1]}).json() == {"ok": True}
    assert follows(service.public(), reader) == authors[2:]


def test_publications_reach_followers_and_the_job_reports_completion(service, name):
    internal, reader, author, items = service.internal(), name("r"), name("a"), [name("i") for _ in range(3)]
    hidden = name("h")
    service.put(hidden, hidden=True)
    assert internal.put("/api/follows", {"follower": reader, "author": author}).status == 200
    reply = internal.post("/api/waterfall/follow", {"items": [*items, hidden], "followersOf": author})
    assert reply.status == 202 and set(reply.json()) == {"job", "rejected"}, reply
    assert reply.json()["rejected"] == [{"item": hidden, "code": "hidden_item"}]
    job = reply.json()["job"]
    wait_until(lambda: internal.get(f"/api/jobs/{job}").json()["state"] == "done", "the job to finish")
    assert ids(read(service.public(), "follow", reader)) == items[::-1]
    reply = internal.post("/api/waterfall/follow", {"items": [hidden], "followersOf": author})
    assert (reply.status, reply.json()) == (200, {"pushed": 0, "duplicates": 0, "rejected": [{"item": hidden, "code": "hidden_item"}]})


def test_too_many_follows_are_a_conflict(instance, name):
    service, reader = instance("--no-limits", waterfall__max_follows=2, **LONG_TIMEOUTS), name("r")
    put = service.internal().put
    assert [put("/api/follows", {"follower": reader, "author": f"a{number}"}).status for number in (1, 2, 1)] == [200, 200, 200]
    assert_problem(put("/api/follows", {"follower": reader, "author": "a3"}), 409, "too_many_follows")
    assert follows(service.public(), reader) == ["a1", "a2"]


# --- access


def test_writes_are_internal(service, name):
    item, reader, public = name("i"), name("r"), service.public()
    for reply in (public.post("/api/waterfall/discover", {"items": [item], "customers": [reader]}),
                  public.put("/api/follows", {"follower": reader, "author": "a"}),
                  public.delete("/api/follows", query={"follower": reader, "author": "a"})):
        assert_problem(reply, 403)
    assert_problem(public.delete(f"/api/waterfall/discover/{item}", query={"customerId": reader}), 404)
    # The workers refuse them too, even if a site's own nginx lets them through.
    pair = json.dumps({"follower": reader, "author": "a"}).encode()
    batch = json.dumps({"items": [item], "customers": [reader]}).encode()
    with Connection(service.socket_path) as nginx:
        for method, uri, body, refusal in (("POST", "/api/waterfall/discover", batch, 405), ("PUT", "/api/follows", pair, 405),
                                           ("DELETE", "/api/follows", pair, 405), ("DELETE", f"/api/waterfall/discover/{item}?customerId={reader}", b"", 404)):
            assert nginx.request(zone="public", method=method, uri=uri, body=body)[0] == refusal
    assert timeline(service, "discover", reader) == [] and follows(public, reader) == []


def test_in_header_mode_a_claimed_reader_is_ignored(instance, name):
    service, reader = instance("--no-limits", identity__mode='"header"', **LONG_TIMEOUTS), name("r")
    item = name("i")
    push(service, "discover", [item], [reader])
    service.internal().put("/api/follows", {"follower": reader, "author": "a"})
    public = service.public()
    assert_problem(public.get("/api/waterfall/discover", query={"customerId": reader}), 400, "bad_id", "customerId")
    assert_problem(public.get("/api/follows", query={"follower": reader}), 400, "bad_id", "follower")
    assert ids(read(service.internal(), "discover", reader)) == [item]
    assert follows(service.internal(), reader) == ["a"]
    # The user that nginx found with auth_request counts; a reader named by the request does not.
    with Connection(service.socket_path) as nginx:
        for claim in ("", f"?customerId={reader}", "?customerId=other"):
            status, body = nginx.request(zone="public", uri="/api/waterfall/discover" + claim, FRESHET_USER=reader)
            assert status == 200 and ids(json.loads(body)) == [item]
        status, body = nginx.request(zone="public", uri=f"/api/waterfall/discover?customerId={reader}", FRESHET_USER="other")
        assert status == 200 and ids(json.loads(body)) == []


def test_in_token_mode_the_token_identifies_the_reader(instance, name):
    secret = "e2e-secret-" + "k" * 32
    with tempfile.NamedTemporaryFile("w", dir="/tmp", prefix="freshet-token-") as file:
        file.write(secret)
        file.flush()
        os.chmod(file.name, 0o644)  # the service may run as another user
        service = instance("--no-limits", identity__mode='"token"', identity__token_keys=f'{{ k1 = "{file.name}" }}', **LONG_TIMEOUTS)
    mine, theirs = name("r"), name("r")
    item = name("i")
    push(service, "discover", [item], [mine])

    def bearer(reader):
        payload = f"v1.k1.{reader}.{int(time.time()) + 600}"
        return {"headers": {"Authorization": f"Bearer {payload}.{hmac.new(secret.encode(), payload.encode(), hashlib.sha256).hexdigest()}"}}

    get = service.public().get
    path = f"/api/waterfall/discover?customerId={mine}"
    assert ids(get(path, **bearer(mine)).json()) == [item]
    assert ids(get(path, **bearer(theirs)).json()) == []
    assert_problem(get(path), 400, "bad_id", "customerId")
    forged = bearer(mine)["headers"]["Authorization"][:-1] + "_"
    assert_problem(get(path, headers={"Authorization": forged}), 401, "bad_token")


def test_without_a_reader_a_page_is_refused_and_the_member_named(service):
    assert_problem(service.public().get("/api/waterfall/discover"), 400, "bad_id", "userId")
    assert_problem(service.public().get("/api/follows"), 400, "bad_id", "userId")

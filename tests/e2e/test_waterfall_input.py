"""Bad input to timelines and follows: the member is named, and nothing is written."""

import itertools
import json
import os
import time

import pytest

from client import assert_problem
from test_bad_input import as_read, author_key, is_id, is_name, nfc
from timelines import Reader, follows, ids, push, read

SCORE_END = 2**53
BAD_CURSORS = ["NaN", "inf", "1e400", "-1", str(2**60), str(SCORE_END), "text", "1.5", "1e3", "", " 1", "0x10", "9" * 40, "null", "１２"]


@pytest.mark.parametrize("direction", [None, "first", "down", "up"])
def test_an_invalid_cursor_is_named(service, direction):
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
    ({"customerId": ""}, "bad_id", "customerId"), ({"customerId": "a\tb"}, "bad_id", "customerId"), ({"customerId": "x" * 513}, "bad_id", "customerId"),
    ({"customerId": " a"}, "bad_id", "customerId")])
def test_a_bad_parameter_of_a_page_is_named(service, members, code, member):
    reply = service.public().get("/api/waterfall/discover", query={"customerId": "bad"} | members)
    assert assert_problem(reply, 400, code)["member"] == member


def test_an_unknown_channel_is_404_and_nothing_is_written(service, name):
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
    ({"items": [True]}, "bad_id", "items"), ({"items": ["i", "a\tb"]}, "bad_id", "items"), ({"items": ["i", ""]}, "bad_id", "items"),
    ({"items": ["x" * 513]}, "bad_id", "items"), ({"items": [1e300]}, "bad_id", "items"),
    ({"customers": None}, "bad_list", "customers"), ({"customers": []}, "bad_list", "customers"), ({"customers": "r"}, "bad_list", "customers"),
    ({"customers": many(10001)}, "bad_list", "customers"), ({"customers": many(60000)}, "bad_list", "customers"),
    ({"customers": ["r", "a\tb"]}, "bad_id", "customers"), ({"customers": ["r", ["s"]]}, "bad_id", "customers"), ({"customers": ["r", "a\nb"]}, "bad_id", "customers"),
    ({"followersOf": "a"}, "bad_list", "customers"), ({"customers": None, "followersOf": ""}, "bad_id", "followersOf"),
    ({"customers": None, "followersOf": ["a"]}, "bad_id", "followersOf"), ({"customers": None, "followersOf": "a"}, "bad_parameter", "followersOf")])
def test_a_bad_push_is_named_and_nothing_is_written(service, members, code, member):
    body = {"items": ["i"], "customers": ["never"]} | members
    problem = assert_problem(service.internal().post("/api/waterfall/discover", body), 400, code)
    assert problem["member"] == member
    assert service.keys_containing("{never}", "{r}", "{n0}") == []


def test_the_position_of_a_bad_element_is_reported(service):
    reply = service.internal().post("/api/waterfall/discover", {"items": ["a", "b", "c\td"], "customers": ["r"]})
    assert assert_problem(reply, 400, "bad_id", "items")["detail"].startswith("element 3: ")


def test_integers_are_valid_ids(service, name):
    reader, number = name("r"), time.time_ns()
    assert push(service, "discover", [number, str(number)], [reader]) == {"pushed": 1, "duplicates": 1}
    assert ids(read(service.public(), "discover", reader)) == [str(number)]


@pytest.mark.parametrize("body, status, code", [
    (b"", 400, "bad_json"), (b"{", 400, "bad_json"), (b"[]", 400, "bad_body"), (b'{"items":["i"],"customers":["deep"],"x":' + b"[" * 100 + b"]" * 100 + b"}", 400, "bad_json"),
    (b"[" * 100000, 400, "bad_json"), (b'{"items":["\xff"],"customers":["deep"]}', 400, "bad_json"), (b'{"items":["i\\u0000"],"customers":["deep"]}', 400, "bad_id"),
    (b'{"items":["i"],"customers":[' + b'"deep",' * 200000 + b'"deep"]}', 400, "bad_json"), (b'{"items":["i"],"customers":["deep"]}{}', 400, "bad_json"),
    (b" " * (8 << 20) + b"{}", 413, None)], ids=itertools.count())
def test_bodies_that_are_not_pushes_are_refused_and_write_nothing(service, body, status, code):
    assert_problem(service.internal().post("/api/waterfall/discover", body), status, code)
    assert service.redis("EXISTS", "wf:discover:{deep}") == 0


def test_a_push_without_a_json_content_type_is_refused(service):
    reply = service.internal().post("/api/waterfall/discover", '{"items":["i"],"customers":["plain"]}', headers={"Content-Type": "text/plain"})
    assert_problem(reply, 415, "bad_content_type")
    assert service.redis("EXISTS", "wf:discover:{plain}") == 0


@pytest.mark.parametrize("members, code, member", [
    ({"follower": None}, "bad_id", "follower"), ({"follower": ""}, "bad_id", "follower"), ({"follower": ["f"]}, "bad_id", "follower"),
    ({"author": None}, "bad_id", "author"), ({"author": "a\tb"}, "bad_id", "author"), ({"author": {}}, "bad_id", "author"), ({"author": "x" * 513}, "bad_id", "author")])
def test_a_bad_follow_is_named(service, members, code, member):
    internal = service.internal()
    for method in ("PUT", "DELETE"):
        assert assert_problem(internal.request(method, "/api/follows", {"follower": "never", "author": "a"} | members), 400, code)["member"] == member
    assert follows(internal, "never") == []


def test_bad_removals_and_methods_are_refused(service):
    internal = service.internal()
    assert_problem(internal.delete("/api/waterfall/discover/i"), 400, "bad_id", "userId")
    assert_problem(internal.delete("/api/waterfall/discover/i", query={"customerId": "a\tb"}), 400, "bad_id", "customerId")
    assert_problem(internal.delete("/api/waterfall/discover/a%09b", query={"customerId": "r"}), 400, "bad_id", "itemId")
    assert_problem(internal.delete("/api/follows", query={"follower": "r"}), 400, "bad_id", "author")
    assert_problem(internal.put("/api/waterfall/discover", {}), 405)
    assert_problem(internal.post("/api/waterfall/discover/i", {}), 405)
    assert_problem(service.public().get("/api/follows", query={"follower": "a\tb"}), 400, "bad_id", "follower")


def test_naughty_ids_are_returned_byte_for_byte_or_named(service, shared, name):
    with open(os.path.join(shared, "corpora/BLNS/blns.json"), encoding="utf-8") as file:
        strings = json.load(file)
    with open(os.path.join(shared, "corpora/hostile/hostile.json"), encoding="utf-8") as file:
        strings += json.load(file)["ids"] + ["\ud800", "a\udfff", "é" * 256, "é" * 256 + "x", "x" * 512, "a\u2028", "a:b", "{x}", "a b"]
    reader, good = name("r"), []
    for text in dict.fromkeys(strings):
        body = {"items": [text], "customers": [reader]}
        reply = service.internal().post("/api/waterfall/discover", body)
        if is_id(as_read(text)):
            assert reply.json() == {"pushed": 1, "duplicates": 0}, (text, reply)
            good.append(as_read(text))
        else:
            assert_problem(reply, 400)
            assert_problem(service.internal().post("/api/waterfall/follow", {"items": ["i"], "customers": [text]}), 400)
        if not is_name(author_key(as_read(text))):
            assert_problem(service.internal().post("/api/waterfall/follow", {"items": ["i"], "followersOf": text}), 400)
            reply = service.internal().put("/api/follows", {"follower": reader, "author": text})
            assert_problem(reply, 413 if len(json.dumps(text)) > 16000 else 400)
    client = Reader(reader)
    client.fetch(service.public(), "first", 100)
    client.exhaust(service.public())
    expected = [nfc(text) for text in good[::-1]]
    assert len(client.item_ids) >= 500 and client.item_ids == expected[:len(client.item_ids)]  # waterfall.max_items

"""Hostile input in every member of every endpoint: refused with the member's name, or stored and returned byte for byte."""

import glob
import json
import math
import os
import re
import time
import unicodedata

import pytest

from client import assert_problem, quote_segment
from service import LONG_TIMEOUTS, Instance

# other than spaces
WHITE_SPACE = set("\t\n\v\f\r\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000")
# zero-width joiners; the other format characters are invisible or reorder text
ALLOWED_FORMAT_CHARACTERS = set("\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\ufff9\ufffa\ufffb")
ID_MEMBERS = {"/api/track": ["articleId", "userId", "sessionId", "fingerprint", "eventId"],
              "/api/views": ["articleId", "fingerprint", "eventId"]}
# An hour ago: a score below list.min_score would be trimmed with its version, and an earlier write of another worker could
# then arrive later.
PUBLISHED = int(time.time()) - 3600
LARGEST_ITEM = 2 << 20  # nginx's limit for a PUT, in bytes


def is_id(text):
    """The rule of the API, implemented independently of the service."""
    return is_name(text) and not {".", ".."} & set(text.split("/"))


def is_name(text):
    """Has the characters and the length of an id, as tags and the keys of authors have, too."""
    try:
        raw = nfc(text).encode("utf-8")
    except UnicodeEncodeError:
        return False
    invisible = any(unicodedata.category(c) == "Cf" and ord(c) < 0x10000 and c not in ALLOWED_FORMAT_CHARACTERS or c == "\u2065" for c in text)
    forbidden = invisible or any(unicodedata.category(c) == "Cc" or c in WHITE_SPACE for c in text)
    return 1 <= len(raw) <= 512 and not forbidden and text.strip(" ") == text


def nfc(text):
    return unicodedata.normalize("NFC", text)


def single_spaced(text):
    return re.sub(f"[ {''.join(WHITE_SPACE)}]+", " ", text).strip(" ")


def is_tag(text):
    """Up to 64 characters of an id once white space is cleaned, also in the form in which tags are compared, which has no invisible characters."""
    text = single_spaced(text)
    if not is_name(text):
        return False
    key = folded(text)
    return len(text) <= 64 and len(key) <= 64 and is_name(key)


def folded(text):
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return "".join(c for c in text if (unicodedata.category(c) != "Cf" or c in ALLOWED_FORMAT_CHARACTERS - set("\u200c\u200d")) and not "\ufe00" <= c <= "\ufe0f" and c not in "\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")


def author_key(text):
    return folded(text).strip(" ")


@pytest.fixture(scope="module")
def instance(shared):
    """Its workers must not be replaced, and Redis must hold nothing unexpected at the end."""
    started = Instance("--no-limits", **LONG_TIMEOUTS)
    try:
        started.start()
        workers = started.workers()
        yield started
        assert started.workers() == workers, "a worker was replaced"
        started.check()
        refused = started.status()["refused"]
        assert refused["protocol"] == 0 and refused["deadline"] == 0, refused
    finally:
        started.stop()


@pytest.fixture(scope="module")
def hostile(shared):
    with open(os.path.join(shared, "corpora/hostile/hostile.json"), encoding="utf-8") as file:
        return json.load(file)


def as_read(text):
    """Half a surrogate pair, which only an escape can carry, is read as U+FFFD."""
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


@pytest.fixture(scope="module")
def strings(shared, hostile):
    """Invalid ids and naughty strings, including lone surrogates, which only an escape sequence can carry."""
    with open(os.path.join(shared, "corpora/BLNS/blns.json"), encoding="utf-8") as file:
        naughty = json.load(file)
    assert len(naughty) > 400
    more = ["\ud800", "a\udfff", "\udc00\ud800", "hll", "list", "x" * 512, "é" * 256, "é" * 256 + "x", "e\u0301" * 256, "https://example.org/?a={b}&c=%7B", "a b", "👩\u200d💻", "\x7f", "\x85", "a\u2028"]
    return hostile["ids"] + naughty + more


def valid_event(path, name):
    if path == "/api/track":
        return {"articleId": name(), "dwellMs": 1, "userId": "u"}
    return {"articleId": name(), "publishedAt": 1700000000, "fingerprint": name()}


@pytest.mark.parametrize("path, member", [(path, member) for path, members in ID_MEMBERS.items() for member in members])
def test_an_event_with_a_valid_id_counts_and_an_invalid_id_is_named(instance, strings, name, path, member):
    client = instance.public()
    # All members are parsed alike.
    for escaped in (True, False) if member == "articleId" else (True,):
        for text in strings if member == "articleId" else strings[::4]:
            if not escaped and any("\ud800" <= c <= "\udfff" for c in text):
                continue
            body = json.dumps(valid_event(path, name) | {member: text}, ensure_ascii=escaped)
            reply = client.post(path, body)
            if len(body.encode()) > 16384:
                assert_problem(reply, 413, "too_large")
            elif not text and member not in ("articleId", "fingerprint" if path == "/api/views" else ""):
                assert reply.status == 200, reply  # counts as absent
            elif is_id(as_read(text)) and (path, member) == ("/api/views", "eventId") and len(as_read(text).encode()) < 16:
                assert_problem(reply, 400, "bad_id", "eventId")  # anonymous event ids must be too long to guess
            elif is_id(as_read(text)):
                assert reply.status == 200, (text, reply)
            else:
                assert_problem(reply, 400, "bad_id", member)


def test_an_article_is_found_by_the_exact_bytes_of_its_id(instance, strings):
    public, internal = instance.public(), instance.internal()
    accepted = [text for text in dict.fromkeys(strings) if is_id(text)]
    assert len(accepted) > 150
    for text in accepted:
        before = internal.get(f"/api/articles/{quote_segment(text)}/stats")
        assert before.status in (200, 400, 404), before
        assert public.track(text, 5, userId=f"once-{time.monotonic_ns()}").status == 200
        after = internal.get("/api/stats", query={"ids": text}) if "," not in text else None
        if after is not None:
            assert after.status == 200 and list(after.json()) == [nfc(text)], (text, after)
            assert after.json()[nfc(text)]["pv"] >= 1


def test_values_of_other_types_are_not_ids(instance, name):
    client = instance.public()
    for path, members in ID_MEMBERS.items():
        for member in members:
            for value in (True, 1.5, [], {}, ["a"], {"$gt": ""}, 1e300, 2**64, -2**63 - 1):
                assert_problem(client.post(path, valid_event(path, name) | {member: value}), 400, "bad_id", member)
            null = client.post(path, valid_event(path, name) | {member: None})
            if member == "articleId" or (path, member) == ("/api/views", "fingerprint"):
                assert_problem(null, 400, "bad_id", member)
            else:
                assert null.status == 200, (member, null)


def test_valid_dwell_times_count_and_others_are_refused(instance, hostile, name):
    client = instance.public()
    for raw in hostile["numbers_raw"] + ["1e3", "1E400", "-9223372036854775809", "00", "01", ".5", "5.", "1_0", "NaN", '"1"', "[1]", "null"]:
        reply = client.post("/api/track", '{"articleId":"%s","userId":"u","dwellMs":%s}' % (name(), raw))
        try:
            value = json.loads(raw, parse_constant=lambda _: None)
        except ValueError:
            value = None
        if raw == "1e-400":  # the parser refuses what a double cannot hold
            value = None
        rounded = math.floor(value + 0.5) if type(value) is float and math.isfinite(value) else value if type(value) is int else -1
        if 0 <= rounded < 2**63:
            assert reply.status == 200 and reply.json()["avg_dwell_ms"] == min(rounded, 180000), (raw, reply)
        else:
            problem = assert_problem(reply, 400)
            assert problem["code"] == "bad_json" or (problem["code"], problem["member"]) == ("bad_number", "dwellMs"), (raw, problem)


def test_empty_names_and_times_and_reader_0_count_as_absent_on_every_route(instance, name):
    public, internal, reader, item = instance.public(), instance.internal(), name("r"), name("i")
    instance.put(item)
    empty = {"userId": "", "sessionId": "", "fingerprint": "", "publishedAt": "", "eventId": ""}
    assert public.track(item, 1, **empty).status == 200
    assert public.track(item, 1, **dict.fromkeys(empty)).json()["uv"] == 1, "the same visitor as with null"
    assert_problem(public.view(item, ""), 400, "bad_id", "fingerprint")
    assert_problem(public.view(item, "f", ""), 400, "bad_time", "publishedAt")
    assert public.view(item, name("f"), eventId="").status == 200
    for nothing in ("", 0, "0"):
        # The member of the route's other name counts instead.
        assert public.post("/api/feed", {"action": "peek", "userId": nothing, "agent_id": reader}).status == 200
        assert public.get("/api/waterfall/discover", query={"userId": nothing, "customerId": reader}).status == 200
        assert public.get("/api/follows", query={"userId": nothing, "follower": reader}).status == 200
        assert public.get("/api/recommendations", query={"userId": nothing}).status == 200
        for reply in (public.post("/api/feed", {"action": "peek", "userId": nothing}), public.post("/api/history", {"userId": nothing, "topicId": item}),
                      public.get("/api/history", query={"userId": nothing}), public.delete("/api/history", query={"userId": nothing}),
                      public.post("/api/feedback", {"userId": nothing, "topicId": item, "kind": "not_interested"}),
                      public.delete("/api/feedback", query={"userId": nothing, "topicId": item}), public.get("/api/follows", query={"userId": nothing}),
                      public.get("/api/waterfall/discover", query={"userId": nothing}),
                      internal.put("/api/follows", {"userId": nothing, "author": "a"}),
                      internal.post("/api/interactions", {"userId": nothing, "topicId": item, "kind": "like"}),
                      internal.post("/api/history/merge", {"from": nothing, "to": reader})):
            assert_problem(reply, 400, "bad_id")
    assert internal.post("/api/interactions", {"userId": reader, "topicId": item, "kind": "like", "at": "", "eventId": ""}).json()["accepted"] == 1
    assert internal.put(f"/api/items/{item}", {"title": "t", "published_at": PUBLISHED, "update_time": ""}).status == 200


def test_sessions_of_reader_0_are_visitors_of_their_own_if_the_site_reports_them(instance, name):
    for client in (instance.internal(), instance.public()):  # mode `open`
        item = name("i")
        for number in range(20):
            reply = client.track(item, 1, userId=0, sessionId=name("s"))
            assert (reply.json()["pv"], reply.json()["uv"]) == (number + 1, number + 1), reply
    public, item = instance.public(), name("i")
    cookie = {"Cookie": public.post("/api/visitor", None).headers["Set-Cookie"].split(";")[0]}
    for session in ("s1", "s2"):
        assert public.post("/api/track", {"articleId": item, "dwellMs": 1, "userId": "0", "sessionId": session}, headers=cookie).json()["uv"] == 1


def times(hostile):
    """[(raw JSON, accepted)]. None: either is fine."""
    accepted = {"0", '"2099-01-01T00:00:00Z"', '"2026-01-01T00:00:00"', '"2026-01-01"', "null", '""'}
    more = [("253402300799", True), ("-1", False), ("1.5", False), ("1e9", False), ('"1700000000"', False), ('"2026-01-01T00:00:00+02:00"', True),
            ('"2026-01-01T00:00:00.123456Z"', True), ('"2026-01-01 00:00:00"', True),
            ('"Thu, 01 Jan 2026 00:00:00 +0000"', True), ('"0000-00-00 00:00:00"', True), ('"2026-01-01t00:00:00z"', None), ('"2026-13-01T00:00:00Z"', False),
            ('"2026-01-01T25:00:00Z"', False), ('"2026-01-01T00:00:00Z "', False), ("true", False), ("[]", False), ("99999999999999999999", False)]
    return [(raw, raw in accepted) for raw in hostile["timestamps_raw"]] + more


@pytest.mark.parametrize("path", list(ID_MEMBERS))
def test_valid_event_times_count_and_invalid_ones_are_named(instance, hostile, name, path):
    for raw, good in times(hostile):
        members = dict(valid_event(path, name))
        members.pop("publishedAt", None)
        reply = instance.public().post(path, json.dumps(members)[:-1] + f',"publishedAt":{raw}}}')
        if raw in ("null", '""', '"0000-00-00 00:00:00"') and path == "/api/views":  # required
            good = False
        if good is None:
            assert reply.status in (200, 400)
        elif good:
            assert reply.status == 200, (raw, reply)
        else:
            assert_problem(reply, 400, "bad_time", "publishedAt")


def test_bodies_that_are_not_events_are_refused(instance, hostile, shared):
    files = sorted(glob.glob(os.path.join(shared, "corpora/JSONTestSuite/test_parsing/*.json")))
    bodies = [body.encode() for body in hostile["bodies_raw"]]
    bodies += [b"\xef\xbb\xbf{}", b'{"articleId":"\xff"}', b'{"articleId":"\xed\xa0\x80"}', b"\x00", b'{"articleId":"a","dwellMs":1}{}', b"{}" * 5000]
    for path in files:
        with open(path, "rb") as file:
            bodies.append(file.read())
    assert len(bodies) > 300
    internal, public = instance.internal(), instance.public()
    for body in bodies:
        for method, client, path in (("POST", public, "/api/track"), ("POST", public, "/api/views"), ("PUT", internal, "/api/items/bad-body")):
            if method == "PUT" and b'"title"' in body:
                continue  # one of the files is a valid item
            reply = client.request(method, path, body)
            assert_problem(reply, 413 if len(body) > (LARGEST_ITEM if method == "PUT" else 4096) else 400)
    assert internal.get("/api/items/bad-body").status == 404


def test_malformed_json_is_bad_json(instance, shared):
    client = instance.public()
    files = sorted(glob.glob(os.path.join(shared, "corpora/JSONTestSuite/test_parsing/n_*.json")))
    assert len(files) > 180
    for path in files:
        with open(path, "rb") as file:
            body = file.read()
        # Sent as is, and as the value of an unknown member.
        if len(body) <= 16384:
            assert_problem(client.post("/api/track", body), 400, "bad_json")
            inside = b'{"articleId":"n","userId":"u","dwellMs":1,"x":' + body + b"}"
            assert client.post("/api/track", inside).status in (200, 400), path


def test_bad_lines_of_a_bulk_request_are_named_and_the_others_accepted(instance, shared, hostile, name):
    client, item = instance.internal(), name()
    files = sorted(glob.glob(os.path.join(shared, "corpora/JSONTestSuite/test_parsing/[ny]_*.json")))
    lines = [b'{"id":"%s","title":"x","published_at":%d}' % (item.encode(), PUBLISHED)]
    for path in files:
        with open(path, "rb") as file:
            lines += file.read().replace(b"\r", b" ").split(b"\n")
    lines += [body.encode() for body in hostile["bodies_raw"]]
    reply = client.post("/api/items", b"\n".join(lines))
    assert reply.status == 200, reply
    blank = sum(not line.strip(b" \t\r") for line in lines)
    assert reply.json()["accepted"] == 1, reply
    assert len(reply.json()["rejected"]) == len(lines) - blank - 1
    assert client.get(f"/api/items/{item}").json()["title"] == "x"


LIMITS = {"title": 1024, "url": 2048, "author": 512, "text": 256 * 1024}


@pytest.mark.parametrize("member", list(LIMITS))
def test_text_of_an_item_is_returned_byte_for_byte(instance, strings, name, member):
    """Except that titles and authors have one line."""
    client, item = instance.internal(), name()
    for text in strings[::4] if member == "author" else strings:  # an author has the rules of a title
        body = json.dumps({"title": "t", "published_at": PUBLISHED} | {member: text})
        reply = client.put(f"/api/items/{item}", body)
        if len(body) > LARGEST_ITEM:
            assert_problem(reply, 413, "too_large")
        elif len(as_read(text).encode()) > LIMITS[member]:
            assert_problem(reply, 400, "bad_string", member)
        elif member == "url" and (scheme := re.match(r"[\x00-\x20]*([a-z][a-z0-9+.-]*):", text, re.IGNORECASE)) and scheme[1].lower() not in ("http", "https"):
            assert_problem(reply, 400, "bad_url", "url")
        elif member in ("title", "author") and re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", text):
            assert_problem(reply, 400, "bad_string", member)
        else:
            assert reply.status == 200, (text, reply)
            expected = as_read(re.sub(r"[\t\r\n\u2028\u2029]+", " ", text) if member in ("title", "author") else text)
            if member == "author" and not author_key(expected):
                expected = ""
            assert client.get(f"/api/items/{item}").json().get(member, "") == expected


@pytest.mark.parametrize("member", ["title", "author"])
def test_titles_and_authors_are_one_line_without_control_characters(instance, name, member):
    client, item = instance.internal(), name()
    for text, expected in (("a\tb", "a b"), ("a\r\nb\n\nc", "a b c"), ("\na\r", " a "), ("é\u2028\u2029\u202e", "é \u202e")):
        assert client.put(f"/api/items/{item}", {"title": "t", "published_at": PUBLISHED} | {member: text}).status == 200
        assert client.get(f"/api/items/{item}").json()[member] == expected
    for text in ("\x1b[2J", "a\0", "a\x0bb", "\x7f", "\x85", "\x9b2J"):
        assert_problem(client.put(f"/api/items/{item}", {"title": "t", "published_at": PUBLISHED} | {member: text}), 400, "bad_string", member)
        line = json.dumps({"id": item, "title": "t", "published_at": PUBLISHED} | {member: text})
        assert [row["code"] for row in client.post("/api/items", line).json()["rejected"]] == ["bad_string"]


def test_tags_and_path_ids_of_items_are_returned_byte_for_byte(instance, strings):
    client = instance.internal()
    for text in strings:
        body = json.dumps({"title": "t", "published_at": PUBLISHED, "tags": [text]})
        reply = client.put("/api/items/tagged", body)
        if is_tag(as_read(text)):
            assert reply.status == 200, (text, reply)
            assert client.get("/api/items/tagged").json()["tags"] == [single_spaced(as_read(text))]
        else:
            assert_problem(reply, 413 if len(body) > LARGEST_ITEM else 400)
        path = f"/api/items/{quote_segment(text)}"
        reply = client.put(path, {"title": text[:100] if is_id(text) else "t", "published_at": PUBLISHED})
        if reply.status == 200:
            assert is_id(text), (text, reply)
            got = client.get(path).json()
            assert (got["id"], got["title"]) == (nfc(text), text[:100])
            assert client.delete(path).json() == {"ok": True}
        else:
            # Empty: no such route. With NUL, or leading out of the root: refused by nginx already.
            assert reply.status in (400, 404, 405, 414), (text, reply)
            assert not is_id(text), (text, reply)
            assert reply.headers["Content-Type"] == "application/problem+json"


def test_item_members_of_the_wrong_type_are_named(instance):
    wrong = {"title": [None, 1, True, [], {}], "text": [1, []], "url": [1, {}], "author": [5, False], "tags": ["a", [1], [[]], {}, ["a"] * 101],
             "hidden": [0, "true", []], "published_at": ["", "now", 1.5, -1, [], "0000-00-00"], "update_time": ["x", {}, -1],
             "section": [1, [], "x" * 65], "language": [1, "en_US"], "story": [1.5, "\x07"], "text_format": [1, "rich"], "expires_at": [1, 0, "soon"],
             "weight": [-1, 11, "1"]}
    for member, values in wrong.items():
        for value in values:
            assert_problem(instance.internal().put("/api/items/kinds", {"title": "t", "published_at": PUBLISHED} | {member: value}), 400, member=member)
    assert instance.internal().get("/api/items/kinds").status == 404


@pytest.mark.parametrize("member", ["limit", "model", "mode", "window", "tag", "at", "unknown"])
def test_naughty_list_parameters_are_named_or_served(instance, strings, member):
    public = instance.public()
    for text in strings:
        reply = public.get(f"/api/hot?model=engagement&{member}={quote_segment(text)}" if member == "at" else f"/api/hot?{member}={quote_segment(text)}")
        if reply.status == 414 or len(text) > 8000:
            assert_problem(reply, 414)
        elif "\0" in text:
            assert_problem(reply, 400, "bad_target", member)
        elif member == "unknown" or (member == "tag" and is_tag(text)) or (member == "limit" and text in ("1", "100")):
            assert reply.status == 200, (text, reply)
        elif reply.status != 200 or member == "tag":
            assert_problem(reply, 400, member=member)


def test_naughty_ids_in_stats_requests_are_named_or_served(instance, strings):
    internal = instance.internal()
    for text in strings:
        reply = internal.get(f"/api/stats?ids={quote_segment(text)}")
        if len(text) > 8000:
            assert_problem(reply, 414)
        elif all(is_id(part) for part in text.split(",")):
            assert reply.status == 200 and set(reply.json()) == set(nfc(text).split(",")), (text, reply)
        else:
            assert_problem(reply, 400, member="ids")
        reply = internal.get(f"/api/articles/{quote_segment(text)}/stats")
        assert reply.status in (200, 404) if is_id(text) else reply.status in (200, 400, 404, 414), (text, reply)


def test_malformed_request_targets_are_refused(instance):
    client = instance.public()
    for path in ("/api/hot?limit=%", "/api/hot?limit=%zz", "/api/hot?%", "/api/hot?tag=%ff", "/api/hot?" + "a&" * 140, "/api/hot?tag=%00"):
        assert_problem(client.get(path), 400)
    for path in ("/api/hot%zz", "/api/%"):
        assert client.get(path).status in (400, 404)

"""Everything stored about a reader can be exported, and erased completely: from Redis, the database, the stream and the spools."""

import glob
import os
import signal
import socket
import time

import pytest

from client import assert_problem
from recorded import RecorderData
from service import LONG_TIMEOUTS, birth, wait_until
from timelines import follows, push, read, timeline


def use_everything(service, reader, items):
    """Everything a reader can do: follows, timelines, a feed, reads, views, history, interactions, dismissals."""
    client, internal = service.public(), service.internal()
    for author in ("ann", "bob"):
        assert internal.put("/api/follows", {"follower": reader, "author": author}).status == 200
    for channel in ("follow", "discover"):
        assert push(service, channel, items, [reader])["pushed"] == len(items)
        assert len(read(client, channel, reader)["items"]) > 0
    for item in items:
        assert client.track(item, 20000, userId=reader, sessionId=reader, eventId=reader).status in (200, 202)
        assert client.view(item, reader).status in (200, 202)
        for kind in ("topic", "reply"):
            assert client.post("/api/history", {"userId": reader, "topicId": item, "kind": kind}).status in (200, 202)
        like = {"userId": reader, "topicId": item, "kind": "like", "eventId": f"like-{item}"}
        assert internal.post("/api/interactions", like).json() == {"accepted": 1, "rejected": []}
    unwanted = {"userId": reader, "topicId": items[0], "kind": "not_interested", "reason": "seen"}
    assert client.post("/api/feedback", unwanted).status in (200, 202)
    for action, event in (("refresh", "e1"), ("load_more", "e2")):
        assert client.post("/api/feed", {"action": action, "limit": 2, "agent_id": reader, "eventId": event}).status == 200


def put_items(service, name, count=6):
    items = [name("i") for _ in range(count)]
    for item in items:
        service.put(item)
    RecorderData(service).wait_until_indexed(items)
    return items


def feed_ids(service, reader, limit=50):
    reply = service.public().post("/api/feed", {"action": "refresh", "limit": limit, "agent_id": reader})
    assert reply.status == 200, reply
    return {item["id"] for item in reply.json()["data"]["items"]}


def erase(service, reader):
    reply = service.internal().delete(f"/api/users/{reader}")
    assert reply.status == 202, reply
    return reply.json()["job"]


def job(service, job_id):
    reply = service.internal().get(f"/api/jobs/{job_id}")
    assert reply.status in (200, 503), reply
    return reply.json() if reply.status == 200 else {"state": "unknown"}


def wait_until_done(service, job_id):
    wait_until(lambda: job(service, job_id)["state"] == "done", "the erasure job", 60)
    assert job(service, job_id)["failed"] == 0


class RespClient:
    """A client for Redis' protocol that returns values as bytes, because not all of them are text."""

    def __init__(self, service):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(service.redis_socket())
        self._file = self._socket.makefile("rb")

    def command(self, *words):
        parts = [str(word).encode() if not isinstance(word, bytes) else word for word in words]
        self._socket.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts))
        return self._reply()

    def _reply(self):
        line = self._file.readline()[:-2]
        kind, rest = line[:1], line[1:]
        if kind == b"$":
            return self._file.read(int(rest) + 2)[:-2] if int(rest) >= 0 else b""
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        assert kind in b"+:", line
        return rest

    def close(self):
        self._file.close()
        self._socket.close()


def redis_content(service):
    """All keys and values in Redis, except the bytes of the seen filter."""
    redis, keys, cursor = RespClient(service), set(), None
    while cursor != b"0":
        cursor, page = redis.command("SCAN", cursor or "0", "COUNT", 1000)
        keys |= set(page)
    read = {b"string": ("GET",), b"hash": ("HGETALL",), b"set": ("SMEMBERS",), b"list": ("LRANGE", 0, -1), b"zset": ("ZRANGE", 0, -1),
            b"stream": ("XRANGE", "-", "+")}
    out = []
    for key in sorted(keys):
        value_type = redis.command("TYPE", key)
        if value_type != b"none" and not key.startswith(b"bf:global:"):
            command, *rest = read[value_type]
            out.append(f"{key} {redis.command(command, key, *rest)}")
    redis.close()
    return "\n".join(out)


def files_containing(service, reader):
    """Our files that contain the id: the database, its write-ahead log, and spools. Redis' files are not included."""
    found = []
    for folder in ("record", "spool"):
        for path in glob.glob(os.path.join(service.state, folder, "**"), recursive=True):
            if os.path.isfile(path):
                with open(path, "rb") as file:
                    if reader.encode() in file.read():
                        found.append(path)
    return found


def assert_erased(service, reader):
    assert reader not in redis_content(service)
    assert files_containing(service, reader) == []


def recorded_interactions(service, reader):
    connection = RecorderData(service).connect()
    try:
        return connection.execute("SELECT count(*) FROM interactions JOIN readers ON key = reader WHERE id = ?", (reader,)).fetchone()[0]
    finally:
        connection.close()


def wait_until_recorded(service, reader, count):
    wait_until(lambda: recorded_interactions(service, reader) == count, "the interactions to be recorded", 30)


@pytest.fixture
def site(instance):
    return instance("--no-limits", **LONG_TIMEOUTS)


def assert_timelines_exported(export, reader, items):
    """Timelines are exported with their members but without internal marks, other keys with the reader's own entry."""
    values = {key["key"]: key["value"] for key in export["redis"] if key["type"] == "zset"}
    for channel in ("follow", "discover"):
        assert set(values[f"wf:{channel}:{{{reader}}}"]) == set(items)
        assert set(values[f"active:{channel}"]) == {reader}
        assert abs(int(values[f"active:{channel}"][reader]) - time.time()) < 60
    assert values[f"follow:authors:{{{reader}}}"] == {"ann": "0", "bob": "0"}
    for author in ("ann", "bob"):
        assert set(values[f"follow:readers:{{{author}}}"]) == {reader}
        assert abs(int(values[f"follow:readers:{{{author}}}"][reader]) / 1e6 - time.time()) < 60
    assert not [member for value in values.values() for member in value if member.startswith(":")]


def test_an_export_contains_everything_and_is_empty_after_an_erasure(site, name):
    items, reader, other = put_items(site, name), name("reader"), name("other")
    for each in (reader, other):
        use_everything(site, each, items)
        wait_until_recorded(site, each, len(items))
    site.wait_for_background_writes()
    export = site.internal().get(f"/api/users/{reader}").json()
    prefixes = {key["key"].split("{" + reader)[0] for key in export["redis"] if reader in key["key"]}
    assert prefixes >= {"user:interactions:", "user:views:topic:", "user:views:reply:", "user:views:at:", "user:not_interested:",
                        "user:not_interested:why:", "user:events:", "feed:state:", "wf:follow:", "wf:discover:", "follow:authors:"}, prefixes
    assert {row["topicId"] for row in export["database"]["interactions"]} == set(items)
    descriptions = {key["key"]: key["what"] for key in export["redis"]}
    assert descriptions[f"user:interactions:{{{reader}}}"] == "your interactions with items, and when they happened" and all(descriptions.values())
    assert export["database"]["not_interested"][0]["reason"] == "seen"
    assert [row["author"] for row in export["database"]["follows"]] == ["ann", "bob"]
    assert all(abs(row["at"] - time.time()) < 60 and set(row) == {"author", "at"} for row in export["database"]["follows"])
    assert_timelines_exported(export, reader, items)
    assert "next" not in export["database"]
    assert other not in str(export)
    assert site.public().get(f"/api/users/{reader}").status == 404
    assert site.public().delete(f"/api/users/{reader}").status == 404

    shown_before = feed_ids(site, reader)
    wait_until_done(site, erase(site, reader))
    assert_erased(site, reader)
    assert f"user:interactions:{{{other}}}" in redis_content(site) and recorded_interactions(site, other) == len(items)
    export = site.internal().get(f"/api/users/{reader}").json()
    assert export == {"userId": reader, "redis": [], "database": {"interactions": [], "not_interested": [], "follows": []}}
    assert timeline(site, "discover", other) == items[::-1] and follows(site.internal(), other) == ["ann", "bob"]
    # The filter has forgotten the reader too, and every worker records new impressions.
    again = feed_ids(site, reader)
    assert again >= shown_before and set(items) <= again
    wait_until(lambda: not feed_ids(site, reader), "the impressions to be recorded")
    site.check()


def test_unknown_readers_and_repeated_requests_are_erased_too(site, name):
    reader = name("unknown")
    jobs = [erase(site, reader), erase(site, reader)]
    for each in jobs:
        wait_until_done(site, each)
    assert_erased(site, reader)
    assert_problem(site.internal().get("/api/jobs/never-was"), 404, "unknown_job")
    assert_problem(site.internal().delete("/api/users/a%09b"), 400, "bad_id")
    assert_problem(site.internal().get(f"/api/users/{reader}?from=-1"), 400, "bad_number")


def test_an_erasure_finishes_although_the_recorder_is_killed_repeatedly(site, name):
    items, reader = put_items(site, name), name("reader")
    use_everything(site, reader, items)
    job_id = erase(site, reader)
    for _ in range(8):
        pid = wait_until(site.recorder, "a recorder")
        time.sleep(0.3)  # at some point of its life
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: birth(pid) is None, "its exit")
    wait_until_done(site, job_id)
    assert_erased(site, reader)


def test_spooled_events_are_erased_even_if_redis_fails_meanwhile(site, name):
    items, reader = put_items(site, name), name("reader")

    def write_queued():
        assert site.public().track(items[0], 20000, userId=reader, sessionId=reader).status == 202
        assert site.public().post("/api/history", {"userId": reader, "topicId": items[0]}).status == 202
        assert site.internal().post("/api/interactions", {"userId": reader, "topicId": items[0], "kind": "post"}).json()["accepted"] == 1
        assert any("spool" in path for path in files_containing(site, reader))

    site.make_redis_unavailable()
    write_queued()
    os.kill(site.workers()[0], signal.SIGKILL)  # another process has to replay its spool
    site.restart_redis()
    wait_until(lambda: site.status()["redis ready"] > 0, "Redis to be available")
    job_id = wait_until(lambda: (reply := site.internal().delete(f"/api/users/{reader}")).status == 202 and reply.json()["job"], "the erasure to be accepted")
    site.make_redis_unavailable()
    site.restart_redis()
    wait_until_done(site, job_id)
    assert_erased(site, reader)
    assert recorded_interactions(site, reader) == 0
    site.check()


def test_an_export_goes_on_past_its_first_page(site, name):
    items, reader = put_items(site, name, 3), name("reader")
    use_everything(site, reader, items)
    wait_until_recorded(site, reader, len(items))
    rows = 20000  # per page
    connection = RecorderData(site).connect()
    connection.execute("""WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
                          INSERT INTO interactions (reader, at, item, kind) SELECT key, n, 'old' || n, 'l' FROM readers, numbers WHERE id = ?""", (rows, reader))
    connection.close()

    def export(position):
        return site.internal().get(f"/api/users/{reader}?from={position}").json()

    first = export(0)
    rest = export(first["database"]["next"])
    assert len(first["database"]["interactions"]) == rows and len(rest["database"]["interactions"]) == len(items) and "next" not in rest["database"]
    exported = [row["topicId"] for page in (first, rest) for row in page["database"]["interactions"]]
    assert len(set(exported)) == len(exported) and set(exported) == {*items, *(f"old{n}" for n in range(1, rows + 1))}
    assert export(rows + len(items))["database"]["interactions"] == []
    assert {f"user:interactions:{{{reader}}}", f"user:views:topic:{{{reader}}}", f"feed:state:{{{reader}}}", f"wf:discover:{{{reader}}}",
            f"follow:authors:{{{reader}}}"} <= {key["key"] for key in first["redis"]}

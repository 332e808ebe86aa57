"""What authors publish reaches every follower once, in order, whatever dies meanwhile; and what is pulled joins its readers' pages."""

import os
import random
import signal
import threading
import time

import pytest

from client import Load, assert_problem
from service import PATIENT, kill_workers, wait_until
from timelines import Reader, follows, ids, push, read, timeline

# Both keep to what one script of Redis sees, so that no step of a job comes between.
DIFFERENT = """local odd = {}
for _, reader in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '+inf')) do
  if table.concat(redis.call('ZREVRANGEBYSCORE', 'wf:follow:{' .. reader .. '}', '+inf', '(0'), ' ') ~= ARGV[1] then odd[#odd + 1] = reader end
end
return odd"""
TAKE_OUT_WHAT_IS_SERVED = """local taken = {}
for _, reader in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(0', redis.call('HGET', KEYS[1], 'cursor') or '0')) do
  if redis.call('ZREM', 'wf:follow:{' .. reader .. '}', ARGV[1]) == 1 then taken[#taken + 1] = reader end
end
return taken"""
CLEAR = "for _, reader in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '+inf')) do redis.call('DEL', 'wf:follow:{' .. reader .. '}') end"
FILL_STREAM = "while redis.call('XLEN', KEYS[1]) < 1000 do redis.call('XADD', KEYS[1], '*', 'op', 'unfollow', 'reader', 'x', 'author', 'x') end"


def follow(service, reader, author):
    reply = service.internal().put("/api/follows", {"follower": reader, "author": author})
    assert reply.status == 200, reply


def follow_all(service, readers, author):
    internal = service.internal()
    for reader in readers:
        assert internal.put("/api/follows", {"follower": reader, "author": author}).status == 200


def unfollow(service, reader, author):
    assert service.internal().delete("/api/follows", query={"follower": reader, "author": author}).status == 200


def publish(service, author, items):
    reply = service.internal().post("/api/waterfall/follow", {"items": items, "followersOf": author})
    assert reply.status == 202, reply
    return reply.json()["job"]


def told(client, job):
    reply = client.get(f"/api/jobs/{job}")
    assert reply.status in (200, 502, 503, 504), reply
    return reply.json() if reply.status == 200 else {"state": "unknown", "done": 0, "total": 0}


def wait_done(service, job, total, limit_s=60):
    client = service.internal()
    wait_until(lambda: told(client, job)["state"] == "done", "the job", limit_s)
    assert told(client, job) == {"state": "done", "done": total, "total": total, "failed": 0}


def different(service, author, items):
    """Followers whose timelines are not exactly these, newest first."""
    return service.redis("EVAL", DIFFERENT, 1, f"follow:readers:{{{author}}}", " ".join(items))


def within(service, job):
    """Waits until the job has begun; returns whether it is not over yet."""
    client = service.internal()
    state = wait_until(lambda: (now := told(client, job)["state"]) in ("running", "done") and now, "the job to begin", 30)
    return state == "running"


def kill_recorder(service):
    victim = wait_until(service.recorder, "a recorder")
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: service.recorder() not in (None, victim), "another recorder")


# --- by push


def test_all_followers_have_everything_once_and_in_order(service, name):
    author, readers, jobs, items = name("a"), [name("r") for _ in range(250)], [], []
    follow_all(service, readers, author)
    for size in (1, 3, 2):
        items += [name("i") for _ in range(size)]
        jobs.append(publish(service, author, items[-size:]))
    for job in jobs:
        wait_done(service, job, len(readers))
    assert different(service, author, items[::-1]) == []
    assert ids(read(service.public(), "follow", readers[0], limit=100)) == items[::-1]
    again = publish(service, author, items[:2])
    wait_done(service, again, len(readers))
    assert different(service, author, items[::-1]) == []
    service.check()


def test_many_publications_of_one_author_keep_their_order(service, name):
    author, readers, items = name("a"), [name("r") for _ in range(120)], [name("i") for _ in range(60)]
    follow_all(service, readers, author)
    jobs = [publish(service, author, [item]) for item in items]  # faster than they are done
    wait_done(service, jobs[-1], len(readers))
    assert all(told(service.internal(), job)["state"] == "done" for job in jobs)  # first in, first out
    assert different(service, author, items[::-1]) == []


def test_an_author_whom_nobody_follows_publishes_for_those_to_come(service, name):
    author, reader, items = name("a"), name("r"), [name("i") for _ in range(25)]
    job = publish(service, author, items)
    assert told(service.internal(), job) == {"state": "done", "done": 0, "total": 0, "failed": 0}
    push(service, "follow", [name("o")], [reader])
    page = read(service.public(), "follow", reader)
    follow(service, reader, author)
    newer = read(service.public(), "follow", reader, "down", page["drop"], 100)
    assert ids(newer) == items[:4:-1]  # waterfall.backfill of them, on top
    unfollow(service, reader, author)
    assert ids(read(service.public(), "follow", reader)) == ids(page)


def test_who_comes_and_goes_while_jobs_run_has_it_once_or_not_at_all(service, name):
    author, readers, left, items = name("a"), [name("r") for _ in range(400)], [], []
    follow_all(service, readers, author)
    for _ in range(4):
        items += [name("i") for _ in range(5)]  # in all as many as a back-fill has
        job = publish(service, author, items[-5:])
        for _ in range(25):
            left.append(readers.pop(random.randrange(len(readers))))
            unfollow(service, left[-1], author)
            readers.append(name("late"))
            follow(service, readers[-1], author)
    wait_until(lambda: told(service.internal(), job)["state"] == "done", "the job")
    assert set(service.redis("ZRANGEBYSCORE", f"follow:readers:{{{author}}}", "(0", "+inf")) == set(readers)
    assert different(service, author, items[::-1]) == []
    for reader in left:
        assert timeline(service, "follow", reader) == []
    service.check()


# --- whatever dies


def test_a_recorder_killed_within_jobs_leaves_nobody_out_and_serves_nobody_twice(own_service, name):
    service, author, readers = own_service, name("a"), [name("r") for _ in range(2000)]
    follow_all(service, readers, author)
    kills = 0
    for _ in range(4):
        batch = [name("i") for _ in range(50)]  # twenty followers a step
        job, served = publish(service, author, batch), set()
        for _ in range(3):
            if not within(service, job):
                break
            kill_recorder(service)
            kills += 1
            # Who reads it and takes it out of the timeline shall not see it again.
            taken = service.redis("EVAL", TAKE_OUT_WHAT_IS_SERVED, 2, f"job:{job}", f"follow:readers:{{{author}}}", batch[0])
            assert not served & set(taken), "served twice"
            served |= set(taken)
        wait_done(service, job, len(readers))
        odd = set(different(service, author, batch[::-1]))
        assert odd == served, "left out, or served twice"
        for reader in random.sample(sorted(served), min(5, len(served))):
            assert timeline(service, "follow", reader) == batch[:0:-1]
        service.redis("EVAL", CLEAR, 1, f"follow:readers:{{{author}}}")
    assert kills >= 4, "they came at the wrong moments"
    service.check()


def test_redis_killed_within_a_job_loses_and_repeats_nothing(own_service, name):
    service, author, readers = own_service, name("a"), [name("r") for _ in range(2000)]
    follow_all(service, readers, author)
    items, kills = [], 0
    for _ in range(3):
        items += [name("i") for _ in range(50)]
        job = publish(service, author, items[-50:])
        if within(service, job):
            kills += 1
        service.kill_redis()
        service.restart_redis()
        wait_until(lambda: service.status()["redis ready"] == len(service.workers()), "every worker to see Redis")
        wait_done(service, job, len(readers))
    assert kills > 0
    assert different(service, author, items[::-1]) == []
    service.check()


def test_workers_killed_under_publications_lose_and_repeat_nothing(own_service, name):
    service, author, readers = own_service, name("a"), [name("r") for _ in range(50)]
    follow_all(service, readers, author)
    lock, published = threading.Lock(), []

    def write(client, turn):
        """Again until it is acknowledged, as whoever feeds a service does; what was not may have happened or not."""
        item = name("i")
        with lock:  # one at a time: their order is the author's
            while True:
                try:
                    reply = client.post("/api/waterfall/follow", {"items": [item], "followersOf": author})
                except OSError:
                    reply = None
                if reply is not None and reply.status == 202:
                    published.append(item)
                    return reply.json()["job"]
                assert reply is None or reply.status in (502, 503, 504), reply
                time.sleep(0.02)

    with Load(service.internal, write, threads=2) as load:
        kill_workers(service, load, published, times=8)
    assert load.errors == []
    for job in load.results:
        wait_done(service, job, len(readers))
    assert different(service, author, published[::-1][:500]) == []
    service.check()


def test_without_a_recorder_publications_wait_for_one(instance, name):
    service = instance("--no-limits", recorder__enabled="false", stream__max_len=1000, **PATIENT)
    author, readers, items = name("a"), [name("r") for _ in range(300)], [name("i") for _ in range(3)]
    follow_all(service, readers, author)
    jobs = [publish(service, author, [item]) for item in items]
    assert [told(service.internal(), job)["state"] for job in jobs] == ["queued"] * 3
    late = name("late")
    follow(service, late, author)
    assert ids(read(service.public(), "follow", late)) == items[::-1]
    assert ids(read(service.public(), "follow", readers[0])) == []
    # It shall not keep more than so many: the next is told to come back, and did nothing.
    service.redis("EVAL", FILL_STREAM, 1, "recorder:stream")
    more, internal = name("i"), service.internal()
    for reply in (internal.post("/api/waterfall/follow", {"items": [more], "followersOf": author}),
                  internal.put("/api/follows", {"follower": name("r"), "author": author}),
                  internal.delete("/api/follows", query={"follower": late, "author": author})):
        assert_problem(reply, 503, "stream_full")
        assert int(reply.headers["Retry-After"]) >= 1
    assert more not in service.redis("ZRANGE", f"follow:outbox:{{{author}}}", 0, -1)
    assert follows(internal, late) == [author]
    service.configure(recorder__enabled="true")
    service.reload()
    for job in jobs:
        wait_done(service, job, len(readers))
    assert different(service, author, items[::-1]) == []
    unfollow(service, late, author)
    service.check()


# --- by pull


@pytest.fixture
def pulling(instance):
    return instance("--no-limits", fanout__max_push=1, **PATIENT)


def publish_to_pull(service, author, items):
    """Every worker knows of it then: the list of who is pulled is a second old at most."""
    job, told_at = publish(service, author, items), time.monotonic()
    wait_until(lambda: time.monotonic() > told_at + 1, "a second")
    return job


def test_what_is_pulled_joins_on_top_and_counts_as_newer(pulling, name):
    service, client, author, readers = pulling, pulling.public(), name("a"), [Reader(name("r"), "follow") for _ in range(3)]
    follow_all(service, [reader.name for reader in readers], author)
    own, items = name("own"), [name("i") for _ in range(12)]
    push(service, "follow", [own], [readers[0].name])
    one = readers[0]
    one.take(client, "first")
    job = publish_to_pull(service, author, items[:9])
    assert told(service.internal(), job) == {"state": "done", "done": 0, "total": 0, "failed": 0}
    assert timeline(service, "follow", one.name) == [own]  # until the next page
    page = one.take(client, "down")
    assert ids(page) == items[4::-1] and page["newer"] == 4 and page["has_more"]
    publish_to_pull(service, author, items[9:])
    page = one.take(client, "down")
    assert ids(page) == items[9:4:-1] and page["newer"] == 2
    one.exhaust(client)
    assert one.shown == items[::-1] + [own]
    two = readers[1]
    two.take(client, "first")
    two.exhaust(client)
    assert two.shown == items[::-1]
    # What was taken out does not come back by pulling again.
    assert service.internal().delete(f"/api/waterfall/follow/{items[0]}", query={"customerId": two.name}).json() == {"removed": 1}
    assert items[0] not in ids(read(client, "follow", two.name, limit=100))
    unfollow(service, one.name, author)
    assert ids(read(client, "follow", one.name)) == [own]
    publish_to_pull(service, author, [name("i")])
    assert ids(read(client, "follow", one.name)) == [own]
    service.check()


def test_two_first_pages_at_once_copy_once(pulling, name):
    service, author = pulling, name("a")
    readers = [name("r") for _ in range(30)]
    follow_all(service, readers, author)
    items = [name("i") for _ in range(10)]
    publish(service, author, items)
    pages, barrier = {reader: [] for reader in readers}, threading.Barrier(2)

    def look():
        client = service.public()
        for reader in readers:
            barrier.wait(30)
            pages[reader].append(read(client, "follow", reader, limit=100))

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for reader, (one, two) in pages.items():
        assert one == two and ids(one) == items[::-1]
        assert service.redis("ZCOUNT", f"wf:follow:{{{reader}}}", "(0", "+inf") == len(items)
        assert int(service.redis("ZSCORE", f"wf:follow:{{{reader}}}", ":")) == -one["drop"]
    service.check()


def test_an_author_who_gains_and_loses_followers_is_pushed_or_pulled_and_nothing_is_lost(pulling, name):
    service, author, one, two = pulling, name("a"), name("r"), name("r")
    follow(service, one, author)
    items = []

    def add():
        items.append(name("i"))
        return publish(service, author, items[-1:])

    wait_done(service, add(), 1)  # pushed
    follow(service, two, author)
    assert told(service.internal(), add())["total"] == 0  # pulled
    unfollow(service, two, author)
    wait_done(service, add(), 1)
    follow(service, two, author)
    add()
    shown = ids(read(service.public(), "follow", one))
    assert sorted(shown) == sorted(items) and shown[0] == items[-1]
    assert ids(read(service.public(), "follow", two)) == items[::-1]
    service.check()

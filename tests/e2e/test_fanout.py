"""Fan-out: an author's publications reach every follower once and in order whichever process dies, and pulled publications
are merged into the pages of their readers.
"""

import os
import random
import signal
import threading
import time

import pytest

from client import Load, assert_problem
from service import LONG_TIMEOUTS, kill_workers, wait_until
from timelines import Reader, follows, ids, push, read, timeline

# Each script is atomic in Redis, so no step of a job runs in between.
WRONG_TIMELINES = """local wrong = {}
for _, reader in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '(0', '+inf')) do
  if table.concat(redis.call('ZREVRANGEBYSCORE', 'wf:follow:{' .. reader .. '}', '+inf', '(0'), ' ') ~= ARGV[1] then wrong[#wrong + 1] = reader end
end
return wrong"""
REMOVE_DELIVERED = """local removed = {}
for _, reader in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(0', redis.call('HGET', KEYS[1], 'cursor') or '0')) do
  if redis.call('ZREM', 'wf:follow:{' .. reader .. '}', ARGV[1]) == 1 then removed[#removed + 1] = reader end
end
return removed"""
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


def job_status(client, job):
    reply = client.get(f"/api/jobs/{job}")
    assert reply.status in (200, 502, 503, 504), reply
    return reply.json() if reply.status == 200 else {"state": "unknown", "done": 0, "total": 0}


def wait_done(service, job, total, limit_s=60):
    client = service.internal()
    wait_until(lambda: job_status(client, job)["state"] == "done", "the job to finish", limit_s)
    assert job_status(client, job) == {"state": "done", "done": total, "total": total, "failed": 0}


def wrong_timelines(service, author, items):
    """Followers whose timelines are not exactly these items, newest first."""
    return service.redis("EVAL", WRONG_TIMELINES, 1, f"follow:readers:{{{author}}}", " ".join(items))


def wait_until_running(service, job):
    """Waits until the job has started. Returns whether it is still running."""
    client = service.internal()
    state = wait_until(lambda: (now := job_status(client, job)["state"]) in ("running", "done") and now, "the job to start", 30)
    return state == "running"


def kill_recorder(service):
    victim = wait_until(service.recorder, "a recorder")
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: service.recorder() not in (None, victim), "a new recorder")


# --- push


def test_all_followers_get_everything_once_and_in_order(service, name):
    author, readers, jobs, items = name("a"), [name("r") for _ in range(250)], [], []
    follow_all(service, readers, author)
    for size in (1, 3, 2):
        items += [name("i") for _ in range(size)]
        jobs.append(publish(service, author, items[-size:]))
    for job in jobs:
        wait_done(service, job, len(readers))
    assert wrong_timelines(service, author, items[::-1]) == []
    assert ids(read(service.public(), "follow", readers[0], limit=100)) == items[::-1]
    again = publish(service, author, items[:2])
    wait_done(service, again, len(readers))
    assert wrong_timelines(service, author, items[::-1]) == []
    service.check()


def test_many_publications_of_one_author_keep_their_order(service, name):
    author, readers, items = name("a"), [name("r") for _ in range(120)], [name("i") for _ in range(60)]
    follow_all(service, readers, author)
    jobs = [publish(service, author, [item]) for item in items]  # faster than they are completed
    wait_done(service, jobs[-1], len(readers))
    assert all(job_status(service.internal(), job)["state"] == "done" for job in jobs)  # first in, first out
    assert wrong_timelines(service, author, items[::-1]) == []


def test_publications_of_an_author_without_followers_reach_later_followers(service, name):
    author, reader, items = name("a"), name("r"), [name("i") for _ in range(25)]
    job = publish(service, author, items)
    assert job_status(service.internal(), job) == {"state": "done", "done": 0, "total": 0, "failed": 0}
    push(service, "follow", [name("o")], [reader])
    page = read(service.public(), "follow", reader)
    follow(service, reader, author)
    newer = read(service.public(), "follow", reader, "down", page["drop"], 100)
    assert ids(newer) == items[:4:-1]  # the newest waterfall.backfill items, on top
    unfollow(service, reader, author)
    assert ids(read(service.public(), "follow", reader)) == ids(page)


def test_readers_who_follow_or_unfollow_while_jobs_run_get_items_once_or_not_at_all(service, name):
    author, readers, unfollowed, items = name("a"), [name("r") for _ in range(400)], [], []
    follow_all(service, readers, author)
    for _ in range(4):
        items += [name("i") for _ in range(5)]  # as many in total as a backfill has
        job = publish(service, author, items[-5:])
        for _ in range(25):
            unfollowed.append(readers.pop(random.randrange(len(readers))))
            unfollow(service, unfollowed[-1], author)
            readers.append(name("late"))
            follow(service, readers[-1], author)
    wait_until(lambda: job_status(service.internal(), job)["state"] == "done", "the job to finish")
    assert set(service.redis("ZRANGEBYSCORE", f"follow:readers:{{{author}}}", "(0", "+inf")) == set(readers)
    assert wrong_timelines(service, author, items[::-1]) == []
    for reader in unfollowed:
        assert timeline(service, "follow", reader) == []
    service.check()


# --- crashes


def test_a_recorder_killed_during_jobs_skips_no_follower_and_delivers_nothing_twice(own_service, name):
    service, author, readers = own_service, name("a"), [name("r") for _ in range(2000)]
    follow_all(service, readers, author)
    kills = 0
    for _ in range(4):
        batch = [name("i") for _ in range(50)]  # a step serves twenty followers
        job, all_removed = publish(service, author, batch), set()
        for _ in range(3):
            if not wait_until_running(service, job):
                break
            kill_recorder(service)
            kills += 1
            # A reader who removes an item from the timeline must not get it again.
            removed = service.redis("EVAL", REMOVE_DELIVERED, 2, f"job:{job}", f"follow:readers:{{{author}}}", batch[0])
            assert not all_removed & set(removed), "delivered twice"
            all_removed |= set(removed)
        wait_done(service, job, len(readers))
        wrong = set(wrong_timelines(service, author, batch[::-1]))
        assert wrong == all_removed, "skipped or delivered twice"
        for reader in random.sample(sorted(all_removed), min(5, len(all_removed))):
            assert timeline(service, "follow", reader) == batch[:0:-1]
        service.redis("EVAL", CLEAR, 1, f"follow:readers:{{{author}}}")
    assert kills >= 4, "too few kills hit a running job"
    service.check()


def test_redis_killed_during_a_job_loses_and_repeats_nothing(own_service, name):
    service, author, readers = own_service, name("a"), [name("r") for _ in range(2000)]
    follow_all(service, readers, author)
    items, kills = [], 0
    for _ in range(3):
        items += [name("i") for _ in range(50)]
        job = publish(service, author, items[-50:])
        if wait_until_running(service, job):
            kills += 1
        service.kill_redis()
        service.restart_redis()
        wait_until(lambda: service.status()["redis ready"] == len(service.workers()), "every worker to reconnect to Redis")
        wait_done(service, job, len(readers))
    assert kills > 0
    assert wrong_timelines(service, author, items[::-1]) == []
    service.check()


def test_workers_killed_during_publications_lose_and_repeat_nothing(own_service, name):
    service, author, readers = own_service, name("a"), [name("r") for _ in range(50)]
    follow_all(service, readers, author)
    lock, published = threading.Lock(), []

    def write(client, turn):
        """Retries until acknowledged, as a site's back end would. A failed attempt may or may not have been applied."""
        item = name("i")
        with lock:  # one at a time, so that the author's order is known
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
    assert wrong_timelines(service, author, published[::-1][:500]) == []
    service.check()


def test_without_a_recorder_publications_are_queued(instance, name):
    service = instance("--no-limits", recorder__enabled="false", stream__max_len=1000, **LONG_TIMEOUTS)
    author, readers, items = name("a"), [name("r") for _ in range(300)], [name("i") for _ in range(3)]
    follow_all(service, readers, author)
    jobs = [publish(service, author, [item]) for item in items]
    assert [job_status(service.internal(), job)["state"] for job in jobs] == ["queued"] * 3
    late = name("late")
    follow(service, late, author)
    assert ids(read(service.public(), "follow", late)) == items[::-1]
    assert ids(read(service.public(), "follow", readers[0])) == []
    # The stream has a maximum length: further writes are refused with Retry-After and have no effect.
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
    assert wrong_timelines(service, author, items[::-1]) == []
    unfollow(service, late, author)
    service.check()


# --- pull


@pytest.fixture
def pull_service(instance):
    return instance("--no-limits", fanout__max_push=1, **LONG_TIMEOUTS)


def publish_to_pull(service, author, items):
    """Publishes and waits until every worker pulls from this author: the list of pulled authors is at most a second old."""
    job, published_at = publish(service, author, items), time.monotonic()
    wait_until(lambda: time.monotonic() > published_at + 1, "a second")
    return job


def test_pulled_items_are_added_on_top_and_count_as_newer(pull_service, name):
    service, client, author, readers = pull_service, pull_service.public(), name("a"), [Reader(name("r"), "follow") for _ in range(3)]
    follow_all(service, [reader.name for reader in readers], author)
    own, items = name("own"), [name("i") for _ in range(12)]
    push(service, "follow", [own], [readers[0].name])
    one = readers[0]
    one.fetch(client, "first")
    job = publish_to_pull(service, author, items[:9])
    assert job_status(service.internal(), job) == {"state": "done", "done": 0, "total": 0, "failed": 0}
    assert timeline(service, "follow", one.name) == [own]  # pulled items are copied when the next page is read
    page = one.fetch(client, "down")
    assert ids(page) == items[4::-1] and page["newer"] == 4 and page["has_more"]
    publish_to_pull(service, author, items[9:])
    page = one.fetch(client, "down")
    assert ids(page) == items[9:4:-1] and page["newer"] == 2
    one.exhaust(client)
    assert one.item_ids == items[::-1] + [own]
    two = readers[1]
    two.fetch(client, "first")
    two.exhaust(client)
    assert two.item_ids == items[::-1]
    # A removed item is not pulled again.
    assert service.internal().delete(f"/api/waterfall/follow/{items[0]}", query={"customerId": two.name}).json() == {"removed": 1}
    assert items[0] not in ids(read(client, "follow", two.name, limit=100))
    unfollow(service, one.name, author)
    assert ids(read(client, "follow", one.name)) == [own]
    publish_to_pull(service, author, [name("i")])
    assert ids(read(client, "follow", one.name)) == [own]
    service.check()


def test_concurrent_first_pages_copy_pulled_items_once(pull_service, name):
    service, author = pull_service, name("a")
    readers = [name("r") for _ in range(30)]
    follow_all(service, readers, author)
    items = [name("i") for _ in range(10)]
    publish(service, author, items)
    pages, barrier = {reader: [] for reader in readers}, threading.Barrier(2)

    def read_pages():
        client = service.public()
        for reader in readers:
            barrier.wait(30)
            pages[reader].append(read(client, "follow", reader, limit=100))

    threads = [threading.Thread(target=read_pages) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for reader, (one, two) in pages.items():
        assert one == two and ids(one) == items[::-1]
        assert service.redis("ZCOUNT", f"wf:follow:{{{reader}}}", "(0", "+inf") == len(items)
        assert int(service.redis("ZSCORE", f"wf:follow:{{{reader}}}", "\x1e")) == -one["drop"]
    service.check()


def test_an_author_switches_between_push_and_pull_without_losing_items(pull_service, name):
    service, author, one, two = pull_service, name("a"), name("r"), name("r")
    follow(service, one, author)
    items = []

    def add():
        items.append(name("i"))
        return publish(service, author, items[-1:])

    wait_done(service, add(), 1)  # pushed
    follow(service, two, author)
    assert job_status(service.internal(), add())["total"] == 0  # pulled
    unfollow(service, two, author)
    wait_done(service, add(), 1)
    follow(service, two, author)
    add()
    page_ids = ids(read(service.public(), "follow", one))
    assert sorted(page_ids) == sorted(items) and page_ids[0] == items[-1]
    assert ids(read(service.public(), "follow", two)) == items[::-1]
    service.check()

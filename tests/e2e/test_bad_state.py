"""Unexpected content of Redis: keys of the wrong type, garbage on the invalidation channel, a rank written by another tool,
truncated filter shards, another schema, and a clock that jumps back. Each is reported, or ignored and counted; nothing
is lost.
"""

import os
import subprocess
import time

import pytest

from client import assert_problem
from service import CTL, wait_until
from shifted_clock import ShiftedClock

HOUR_S = 3600


def feed_page(service, reader, limit=5):
    reply = service.public().post("/api/feed", {"action": "refresh", "agent_id": reader, "limit": limit})
    assert reply.status == 200, reply
    return [each["id"] for each in reply.json()["data"]["items"]]


def replace_with_wrong_type(service, key, write):
    """Puts a key of another type in the place of `key`. Returns a function that restores it."""
    existed = service.redis("EXISTS", key)
    if existed:
        service.redis("RENAME", key, key + ".ours")
    write(key)

    def undo():
        service.redis("DEL", key)
        if existed:
            service.redis("RENAME", key + ".ours", key)

    return undo


@pytest.mark.parametrize("key, model", [("hot:article:{%s}", "engagement"), ("hot:uv:hll:{%s}", "engagement"), ("hot:article:{%s}", "views")])
def test_a_counter_of_the_wrong_type_is_an_error_for_that_article_only(own_service, name, key, model):
    bad, good = name("bad"), name("good")
    for item in (bad, good):
        own_service.put(item)
    undo = replace_with_wrong_type(own_service, key % bad, lambda k: own_service.redis("LPUSH", k, "foreign"))
    public = own_service.public()
    count = (lambda item: public.track(item, userId="eve")) if model == "engagement" else (lambda item: public.view(item, "f"))
    assert_problem(count(bad), 500, "internal")  # the public is not told what the error was
    assert "WRONGTYPE" in own_service.log()
    assert count(good).status == 200
    assert [each["id"] for each in own_service.hot(model=model)] == [good]
    undo()
    assert count(bad).status == 200
    wait_until(lambda: {each["id"] for each in own_service.hot(model=model)} == {bad, good}, "the rebuilt list")
    own_service.check()


@pytest.mark.parametrize("key", ["feed:state:{%s}", "feed:cache:{%s}", "user:not_interested:{%s}", "user:events:{%s}"])
def test_a_readers_key_of_the_wrong_type_is_an_error_for_that_reader_only(own_service, name, key):
    items = [name() for _ in range(20)]
    for item in items:
        own_service.put(item)
    wait_until(lambda: len(feed_page(own_service, name("r"), 20)) == 20, "all items to be indexed")
    eve, adam = name("eve"), name("adam")
    undo = replace_with_wrong_type(own_service, key % eve, lambda k: own_service.redis("SADD", k, "foreign"))
    reply = own_service.public().post("/api/feed", {"action": "refresh", "agent_id": eve, "limit": 5})
    assert reply.status in (200, 500), reply
    if reply.status == 500:
        assert_problem(reply, 500, "internal")
    assert len(feed_page(own_service, adam)) == 5
    undo()
    assert len(feed_page(own_service, eve)) == 5


def test_garbage_on_the_invalidation_channel_is_counted_and_ignored(own_service, name):
    item = name()
    own_service.put(item)
    assert own_service.public().track(item, 0, userId="a").status == 200
    assert own_service.hot(model="engagement")[0]["title"] == f"about {item}"
    ignored = own_service.status()["announcements ignored"]
    garbage = ["card", "card a\tb", "all of it", "\x01\x02", "x" * 100_000, "{}"]
    received = sum(own_service.redis("PUBLISH", "hot:epoch", each) for each in garbage)
    assert received >= len(garbage) * len(own_service.workers())
    wait_until(lambda: own_service.status()["announcements ignored"] == ignored + received, "every worker to count every message")
    own_service.put(item, title="another")
    wait_until(lambda: own_service.hot(model="engagement")[0]["title"] == "another", "a valid invalidation to be applied")


def test_a_rank_written_by_another_tool_is_found_and_corrected(own_service, name):
    first, second = name("first"), name("second")
    for item, readers in ((first, 3), (second, 1)):
        own_service.put(item)
        for reader in range(readers):
            assert own_service.public().track(item, 0, userId=f"u{reader}").status == 200
    assert [each["id"] for each in own_service.hot(model="engagement")] == [first, second]
    own_service.redis("ZADD", "hot:rank", 1e9, second)  # like a tool of an older version, with a score of its own
    assert own_service.stats(second)["score"] < own_service.stats(first)["score"]  # computed from the counters
    with pytest.raises(AssertionError, match=second):
        own_service.check()
    assert own_service.public().track(second, 0, userId="u9").status == 200
    wait_until(lambda: [each["id"] for each in own_service.hot(model="engagement")] == [first, second], "its next event to correct its rank")
    own_service.check()


def test_a_misaligned_filter_shard_loses_no_impressions(own_service, name):
    items, reader = [name() for _ in range(12)], name("r")
    for item in items:
        own_service.put(item)
    wait_until(lambda: len(feed_page(own_service, name("other"), 12)) == 12, "all items to be indexed")
    before = feed_page(own_service, reader, 4)
    shards = wait_until(lambda: [key for key in own_service.redis("KEYS", "bf:global:*{*") if own_service.redis("STRLEN", key) >= 12], "the impressions to reach the filter")
    own_service.wait_for_background_writes()
    for key in shards:
        own_service.redis("APPEND", key, "?")
    between = feed_page(own_service, reader, 4)
    own_service.wait_for_background_writes()
    after = feed_page(own_service, reader, 4)
    assert len(between) == len(after) == 4 and not set(before) & set(between) and not set(before + between) & set(after)
    assert "event=seen_shard_misaligned" in own_service.log()


@pytest.mark.parametrize("schema", ["1", "2", "4"])
def test_data_of_another_schema_is_refused_with_an_error_message(own_service, name, schema):
    item = name()
    own_service.put(item)
    assert own_service.public().track(item, userId="a").status == 200
    own_service.wait_for_background_writes()
    own_service.redis("HSET", "hot:rank:meta", "schema", schema)
    worker = own_service.workers()[0]
    os.kill(worker, 9)  # its successor checks the data before it serves
    message = f"has schema {schema}, but this program supports only schema 3"
    wait_until(lambda: message in own_service.log(), "the error in the log")
    for command in (["check"], ["rebuild-rank"], ["backup", own_service.state + "/backup"]):
        done = subprocess.run([CTL, *command, "--state", own_service.state], capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode != 0 and message in done.stdout + done.stderr, (command, done)
    assert own_service.stats(item)["pv"] == 1  # by workers that have already checked
    own_service.redis("HSET", "hot:rank:meta", "schema", "3")
    wait_until(lambda: own_service.status()["redis ready"] == len(own_service.workers()) and worker not in own_service.workers(), "its replacement to serve")
    own_service.check()


@pytest.fixture
def set_clock(own_service):
    """set_clock(seconds): shifts Redis' clock by this offset from now on."""
    clock = ShiftedClock(os.path.join(own_service.state, "clock"))
    own_service.make_redis_unavailable()
    own_service.restart_redis(environment=clock.environment)
    wait_until(lambda: own_service.status()["redis ready"] == len(own_service.workers()), "all workers to connect")
    return clock.set


def test_nothing_is_lost_or_repeated_when_the_clock_of_redis_jumps_back_an_hour(own_service, name, set_clock):
    public, internal, reader = own_service.public(), own_service.internal(), name("r")
    hot, cold = name("hot"), name("cold")
    for item in (hot, cold):
        own_service.put(item, published_at=int(time.time()) - 2 * HOUR_S)
        assert public.track(item, userId="u0").status == 200

    def push():
        item = name("pushed")
        own_service.put(item, published_at=int(time.time()) - 2 * HOUR_S)
        replies = []

        def answered():  # retried until a worker's connection for long requests is open again
            replies.append(internal.post("/api/waterfall/discover", {"items": [item], "customers": [reader]}))
            return replies[-1].status != 503

        wait_until(answered, "the push to succeed")
        assert replies[-1].json()["pushed"] == 1
        return item

    def page(**query):
        return public.get("/api/waterfall/discover", query={"customerId": reader} | query).json()

    pushed = [push(), push()]
    newest = page()
    own_service.wait_for_background_writes()
    before = int(own_service.redis("TIME")[0])
    set_clock(-HOUR_S)
    wait_until(lambda: int(own_service.redis("TIME")[0]) < before - HOUR_S // 2, "the clock to jump back")
    for user in range(1, 4):
        assert public.track(hot, userId=f"u{user}").status == 200
    assert own_service.stats(hot)["pv"] == 4
    wait_until(lambda: [each["id"] for each in own_service.hot(model="engagement")][:2] == [hot, cold], "new events to be ranked")
    pushed.append(push())
    above = page(direction="down", score=newest["drop"])
    assert [each["id"] for each in above["items"]] == pushed[2:]
    assert [each["id"] for each in page()["items"]] == pushed[::-1]
    set_clock(0)
    wait_until(lambda: int(own_service.redis("TIME")[0]) >= before, "the clock to be restored")
    pushed.append(push())
    assert [each["id"] for each in page(direction="down", score=above["drop"])["items"]] == pushed[3:]
    own_service.check()

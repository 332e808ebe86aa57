"""What somebody else wrote into Redis: keys of a foreign type in the place of ours, garbage where we announce, a rank that another tool placed, a
filter's shard cut anywhere, an older schema, and a clock of Redis that goes back. Each is a clear error or ignored and counted; nothing is lost."""

import os
import time

import pytest

from client import assert_problem
from service import BUILD, wait_until

HOUR_S = 3600


def refresh(service, reader, limit=5):
    reply = service.public().post("/api/feed", {"action": "refresh", "agent_id": reader, "limit": limit})
    assert reply.status == 200, reply
    return [each["id"] for each in reply.json()["data"]["items"]]


def foreign(service, key, write):
    """Puts another type in the place of `key`, and gives back what was there."""
    had = service.redis("EXISTS", key)
    if had:
        service.redis("RENAME", key, key + ".ours")
    write(key)

    def undo():
        service.redis("DEL", key)
        if had:
            service.redis("RENAME", key + ".ours", key)

    return undo


@pytest.mark.parametrize("key, model", [("hot:article:{%s}", "engagement"), ("hot:uv:hll:{%s}", "engagement"), ("hot:article:{%s}", "views")])
def test_a_counter_of_a_foreign_type_is_a_clear_error_and_harms_no_other(own_service, name, key, model):
    bad, good = name("bad"), name("good")
    for item in (bad, good):
        own_service.put(item)
    undo = foreign(own_service, key % bad, lambda k: own_service.redis("LPUSH", k, "foreign"))
    public = own_service.public()
    count = (lambda item: public.track(item, userId="eve")) if model == "engagement" else (lambda item: public.view(item, "f"))
    assert_problem(count(bad), 500, "internal")  # what it is is nothing for the public
    assert "WRONGTYPE" in own_service.log()
    assert count(good).status == 200
    assert [each["id"] for each in own_service.hot(model=model)] == [good]
    undo()
    assert count(bad).status == 200
    wait_until(lambda: {each["id"] for each in own_service.hot(model=model)} == {bad, good}, "the next list")
    own_service.check()


@pytest.mark.parametrize("key", ["feed:state:{%s}", "feed:cache:{%s}", "user:not_interested:{%s}", "user:events:{%s}"])
def test_what_is_a_readers_of_a_foreign_type_is_an_error_for_that_reader_alone(own_service, name, key):
    items = [name() for _ in range(20)]
    for item in items:
        own_service.put(item)
    wait_until(lambda: len(refresh(own_service, name("r"), 20)) == 20, "all items in the index")
    eve, adam = name("eve"), name("adam")
    undo = foreign(own_service, key % eve, lambda k: own_service.redis("SADD", k, "foreign"))
    reply = own_service.public().post("/api/feed", {"action": "refresh", "agent_id": eve, "limit": 5})
    assert reply.status in (200, 500), reply
    if reply.status == 500:
        assert_problem(reply, 500, "internal")
    assert len(refresh(own_service, adam)) == 5
    undo()
    assert len(refresh(own_service, eve)) == 5


def test_garbage_that_is_announced_is_counted_and_moves_nothing(own_service, name):
    item = name()
    own_service.put(item)
    assert own_service.public().track(item, 0, userId="a").status == 200
    assert own_service.hot(model="engagement")[0]["title"] == f"about {item}"
    ignored = own_service.status()["announcements ignored"]
    garbage = ["card", "card a b", "all of it", "\x01\x02", "x" * 100_000, "{}"]
    heard = sum(own_service.redis("PUBLISH", "hot:epoch", each) for each in garbage)
    assert heard >= len(garbage) * len(own_service.workers())
    wait_until(lambda: own_service.status()["announcements ignored"] == ignored + heard, "each to be counted by each worker")
    own_service.put(item, title="another")
    wait_until(lambda: own_service.hot(model="engagement")[0]["title"] == "another", "what is announced well to be heard")


def test_a_place_that_another_tool_wrote_is_found_and_mended(own_service, name):
    first, second = name("first"), name("second")
    for item, readers in ((first, 3), (second, 1)):
        own_service.put(item)
        for reader in range(readers):
            assert own_service.public().track(item, 0, userId=f"u{reader}").status == 200
    assert [each["id"] for each in own_service.hot(model="engagement")] == [first, second]
    own_service.redis("ZADD", "hot:rank", 1e9, second)  # as a tool of an older version would, with a place of its own
    assert own_service.stats(second)["score"] < own_service.stats(first)["score"]  # by the counters
    with pytest.raises(AssertionError, match=second):
        own_service.check()
    assert own_service.public().track(second, 0, userId="u9").status == 200
    wait_until(lambda: [each["id"] for each in own_service.hot(model="engagement")] == [first, second], "its next event to place it anew")
    own_service.check()


def test_a_shard_of_the_filter_that_is_cut_anywhere_loses_no_impression(own_service, name):
    items, reader = [name() for _ in range(12)], name("r")
    for item in items:
        own_service.put(item)
    wait_until(lambda: len(refresh(own_service, name("other"), 12)) == 12, "all items in the index")
    before = refresh(own_service, reader, 4)
    shards = wait_until(lambda: [key for key in own_service.redis("KEYS", "bf:global:*{*") if own_service.redis("STRLEN", key) >= 12], "impressions in the filter")
    own_service.await_placed()
    for key in shards:
        own_service.redis("APPEND", key, "?")
    between = refresh(own_service, reader, 4)
    own_service.await_placed()
    after = refresh(own_service, reader, 4)
    assert len(between) == len(after) == 4 and not set(before) & set(between) and not set(before + between) & set(after)
    assert "event=seen_shard_misaligned" in own_service.log()


def test_data_of_an_older_schema_is_refused_with_a_sentence(own_service, name):
    item = name()
    own_service.put(item)
    assert own_service.public().track(item, userId="a").status == 200
    own_service.await_placed()
    own_service.redis("HSET", "hot:rank:meta", "schema", "1")
    worker = own_service.workers()[0]
    os.kill(worker, 9)  # its successor looks at the data before it serves
    wait_until(lambda: "has schema 1, and this program reads and writes schema 2 alone" in own_service.log(), "the sentence")
    assert own_service.stats(item)["pv"] == 1  # by those that have looked already
    own_service.redis("HSET", "hot:rank:meta", "schema", "2")
    wait_until(lambda: own_service.status()["redis ready"] == len(own_service.workers()) and worker not in own_service.workers(), "its successor")
    own_service.check()


@pytest.fixture
def set_clock(own_service):
    """set_clock(seconds): Redis' clock, from now on off by so much."""
    path = os.path.join(own_service.state, "clock")

    def write(offset):
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(f"{offset:+d}")
        os.chmod(path + ".new", 0o644)
        os.replace(path + ".new", path)

    write(0)
    own_service.lose_redis()
    own_service.restart_redis(environment={"LD_PRELOAD": os.path.join(BUILD, "tests/e2e/shifted_clock.so"), "SHIFTED_CLOCK": path})
    wait_until(lambda: own_service.status()["redis ready"] == len(own_service.workers()), "all workers' connections")
    return write


def test_a_clock_of_redis_that_goes_back_by_an_hour_loses_and_repeats_nothing(own_service, name, set_clock):
    public, internal, reader = own_service.public(), own_service.internal(), name("r")
    hot, cold = name("hot"), name("cold")
    for item in (hot, cold):
        own_service.put(item, published_at=int(time.time()) - 2 * HOUR_S)
        assert public.track(item, userId="u0").status == 200

    def push():
        item = name("pushed")
        own_service.put(item, published_at=int(time.time()) - 2 * HOUR_S)
        replies = []

        def answered():  # by a worker whose other connection, that of long requests, is there again too
            replies.append(internal.post("/api/waterfall/discover", {"items": [item], "customers": [reader]}))
            return replies[-1].status != 503

        wait_until(answered, "the push")
        assert replies[-1].json()["pushed"] == 1
        return item

    def page(**query):
        return public.get("/api/waterfall/discover", query={"customerId": reader} | query).json()

    pushed = [push(), push()]
    newest = page()
    own_service.await_placed()
    before = int(own_service.redis("TIME")[0])
    set_clock(-HOUR_S)
    wait_until(lambda: int(own_service.redis("TIME")[0]) < before - HOUR_S // 2, "the clock to have gone back")
    for user in range(1, 4):
        assert public.track(hot, userId=f"u{user}").status == 200
    assert own_service.stats(hot)["pv"] == 4
    wait_until(lambda: [each["id"] for each in own_service.hot(model="engagement")][:2] == [hot, cold], "what counts now to be placed now")
    pushed.append(push())
    above = page(direction="down", score=newest["drop"])
    assert [each["id"] for each in above["items"]] == pushed[2:]
    assert [each["id"] for each in page()["items"]] == pushed[::-1]
    set_clock(0)
    wait_until(lambda: int(own_service.redis("TIME")[0]) >= before, "the clock to be right again")
    pushed.append(push())
    assert [each["id"] for each in page(direction="down", score=above["drop"])["items"]] == pushed[3:]
    own_service.check()

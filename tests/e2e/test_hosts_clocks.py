"""Hosts with different clocks, and a host whose clock is changed (shifted_clock.c). Redis' clock is authoritative."""

import os
import time

import pytest

from recorded import RecorderData
from service import LONG_TIMEOUTS, Instance, wait_until
from shifted_clock import ShiftedClock
from test_privacy import erase, wait_until_done


@pytest.fixture
def host(request):
    """host(first, offset): starts another host on the first one's Redis, with its clock shifted by `offset` seconds. Its
    set_clock() shifts the clock of its running processes.
    """
    started = []

    def start(first, offset, **directives):
        started_host = Instance("--no-limits", peer=first, recorder__enabled="false", **LONG_TIMEOUTS, **directives)
        clock = ShiftedClock(os.path.join(started_host.state, "clock"), offset)
        started_host.set_clock, started_host.environment = clock.set, clock.environment
        started.append(started_host)
        return started_host.start()

    yield start
    for started_host in reversed(started):
        started_host.stop()


def log_clock_offset_s(service):
    """Seconds by which the clock of the host's log is ahead of the file's modification time. Verifies that the shift works."""
    line = [each for each in service.log().splitlines() if "event=" in each][-1]
    return time.mktime(time.strptime(line[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone - os.path.getmtime(os.path.join(service.state, "log/freshetd.log"))


def feed_ids(service, reader):
    reply = service.public().post("/api/feed", {"action": "refresh", "limit": 50, "userId": reader})
    assert reply.status == 200, reply
    return {each["id"] for each in reply.json()["data"]["items"]}


def hot_ids(service):
    return {each["id"] for each in service.hot(model="engagement", limit=100)}


def test_hosts_with_clocks_two_minutes_off_show_and_count_the_same(instance, host, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    late, early = host(first, -120), host(first, 120)
    assert -125 < log_clock_offset_s(late) < -115 and 115 < log_clock_offset_s(early) < 125
    now = int(time.time())
    fresh, embargoed = name("fresh"), name("embargoed")
    for each, at in ((fresh, now), (embargoed, now + 90)):
        assert first.internal().put(f"/api/items/{each}", {"title": each, "published_at": at}).status == 200
    wait_until(lambda: RecorderData(first).indexed_ids() == {fresh, embargoed}, "the items to be indexed")
    for number, each in enumerate((first, late, early)):
        for item in (fresh, embargoed):
            reply = each.internal().track(item, 20000, userId=name("u"), sessionId=f"s{number}")
            assert reply.status == 200, reply
    # By its own clock, the late host would hold back the published item, and the early one would show the other.
    for each in (first, late, early):
        wait_until(lambda each=each: hot_ids(each) == {fresh}, "the hot list")
        wait_until(lambda each=each: feed_ids(each, name("r")) == {fresh}, "the feed")
    assert int(first.redis("HGET", f"hot:article:{{{fresh}}}", "pv")) == 3


def test_the_age_of_spooled_events_is_unaffected_when_the_clock_is_set(instance, host, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    second = host(first, 0)
    item, reader = name("i"), name("r")
    first.put(item)
    first.make_redis_unavailable()
    wait_until(lambda: second.status()["redis ready"] == 0, "the workers to notice that Redis is unavailable")
    assert second.public().post("/api/history", {"userId": reader, "topicId": item}).status == 202
    second.set_clock(9 * 86400)  # older than spool.max_age, by this clock
    first.restart_redis()
    wait_until(lambda: second.status()["replayed"] + second.status()["background dropped"] == 1, "the spool to be replayed")
    assert second.status()["replayed"] == 1 and first.redis("KEYS", f"*{reader}*")
    assert "too_old" not in second.log()


def test_events_after_an_erasure_are_kept_even_if_the_clock_was_wrong(instance, host, name):
    first = instance("--no-limits", **LONG_TIMEOUTS)
    second = host(first, 0)
    item, reader = name("i"), name("r")
    first.put(item)
    wait_until_done(first, erase(first, reader))
    for key in first.redis("KEYS", "user:erased:*"):  # pretends that the erasure was ten minutes ago
        first.redis("SET", key, int(time.time()) - 600, "KEEPTTL")
    first.make_redis_unavailable()
    wait_until(lambda: second.status()["redis ready"] == 0, "the workers to notice that Redis is unavailable")
    second.set_clock(-3600)
    assert second.public().post("/api/history", {"userId": reader, "topicId": item}).status == 202
    second.set_clock(0)
    first.restart_redis()
    wait_until(lambda: second.status()["replayed"] + second.status()["background dropped"] == 1, "the spool to be replayed")
    assert f"user:views:topic:{{{reader}}}" in first.keys_containing(reader)

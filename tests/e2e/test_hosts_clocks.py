"""Hosts whose clocks differ, and one whose clock is set: shifted_clock.c is between their processes and the time of day. What counts is Redis' clock."""

import os
import time

import pytest

from recorded import Recorded
from service import BUILD, PATIENT, Instance, wait_until
from test_privacy import forget, wait_done


@pytest.fixture
def host(request):
    """host(first, offset in seconds): one beside the first; set_clock() moves the clock of all its processes while they run."""
    started = []

    def start(first, offset, **directives):
        one = Instance("--no-limits", beside=first, recorder__enabled="false", **PATIENT, **directives)
        path = os.path.join(one.state, "clock")

        def set_clock(seconds):
            with open(path + ".new", "w", encoding="ascii") as file:
                file.write(f"{seconds:+d}\n")
            os.chmod(path + ".new", 0o644)
            os.replace(path + ".new", path)

        set_clock(offset)
        one.set_clock = set_clock
        one.environment = {"LD_PRELOAD": os.path.join(BUILD, "tests/e2e/shifted_clock.so"), "SHIFTED_CLOCK": path}
        started.append(one)
        return one.start()

    yield start
    for one in reversed(started):
        one.stop()


def log_is_off_by(service):
    """By how much the host's own clock is ahead, as its log has it: a check that it is."""
    line = [each for each in service.log().splitlines() if "event=" in each][-1]
    return time.mktime(time.strptime(line[:19], "%Y-%m-%dT%H:%M:%S")) - time.timezone - os.path.getmtime(os.path.join(service.state, "log/freshetd.log"))


def shown(service, reader):
    reply = service.public().post("/api/feed", {"action": "refresh", "limit": 50, "userId": reader})
    assert reply.status == 200, reply
    return {each["id"] for each in reply.json()["data"]["items"]}


def listed(service):
    return {each["id"] for each in service.hot(model="engagement", limit=100)}


def test_hosts_two_minutes_apart_show_and_count_the_same(instance, host, name):
    first = instance("--no-limits", **PATIENT)
    late, early = host(first, -120), host(first, 120)
    assert -125 < log_is_off_by(late) < -115 and 115 < log_is_off_by(early) < 125
    now = int(time.time())
    fresh, embargoed = name("fresh"), name("embargoed")
    for each, at in ((fresh, now), (embargoed, now + 90)):
        assert first.internal().put(f"/api/items/{each}", {"title": each, "published_at": at}).status == 200
    wait_until(lambda: Recorded(first).indexed() == {fresh, embargoed}, "the index")
    for number, each in enumerate((first, late, early)):
        for item in (fresh, embargoed):
            reply = each.internal().track(item, 20000, userId=name("u"), sessionId=f"s{number}")
            assert reply.status == 200, reply
    # By its own clock the late one would hold back what is out, and the early one show what is not.
    for each in (first, late, early):
        wait_until(lambda each=each: listed(each) == {fresh}, "the list")
        wait_until(lambda each=each: shown(each, name("r")) == {fresh}, "the feed")
    assert int(first.redis("HGET", f"hot:article:{{{fresh}}}", "pv")) == 3


def test_what_waits_in_a_spool_is_as_old_as_it_is_when_the_clock_is_set(instance, host, name):
    first = instance("--no-limits", **PATIENT)
    second = host(first, 0)
    item, reader = name("i"), name("r")
    first.put(item)
    first.lose_redis()
    wait_until(lambda: second.status()["redis ready"] == 0, "the loss of Redis to be noticed")
    assert second.public().post("/api/history", {"userId": reader, "topicId": item}).status == 202
    second.set_clock(9 * 86400)  # beyond spool.max_age, by this clock
    first.restart_redis()
    wait_until(lambda: second.status()["replayed"] + second.status()["background dropped"] == 1, "the spool to be applied")
    assert second.status()["replayed"] == 1 and first.redis("KEYS", f"*{reader}*")
    assert "too_old" not in second.log()


def test_what_comes_after_an_erasure_is_kept_though_the_clock_was_wrong_when_it_came(instance, host, name):
    first = instance("--no-limits", **PATIENT)
    second = host(first, 0)
    item, reader = name("i"), name("r")
    first.put(item)
    wait_done(first, forget(first, reader))
    for key in first.redis("KEYS", "user:erased:*"):  # ten minutes ago
        first.redis("SET", key, int(time.time()) - 600, "KEEPTTL")
    first.lose_redis()
    wait_until(lambda: second.status()["redis ready"] == 0, "the loss of Redis to be noticed")
    second.set_clock(-3600)
    assert second.public().post("/api/history", {"userId": reader, "topicId": item}).status == 202
    second.set_clock(0)
    first.restart_redis()
    wait_until(lambda: second.status()["replayed"] + second.status()["background dropped"] == 1, "the spool to be applied")
    assert f"user:views:topic:{{{reader}}}" in first.keys_of(reader)

"""freshetctl push-recommendations beside the running service: what it pushes is on the reader's pages, and what was shown is not shown again."""

import json
import signal
import subprocess
import time

import pytest

from service import CTL, PATIENT, wait_until
from test_feed import Feed, put_items



@pytest.fixture
def site(instance):
    """An instance with nothing in it and one worker, which sees what it was told at once."""
    return instance("--no-limits", **PATIENT, pm__max_children="1")


def ctl(site, *arguments):
    done = subprocess.run([CTL, "push-recommendations", *arguments, "--state", site.state], capture_output=True, text=True, check=False, timeout=240)
    return done.returncode, done.stdout + done.stderr


def fill(site, *arguments):
    status, said = ctl(site, "discover", *arguments)
    assert status == 0, said
    return said


def page(site, reader, limit=100):
    reply = site.internal().get("/api/waterfall/discover", query={"customerId": reader, "limit": limit})
    assert reply.status == 200, reply
    return [item["id"] for item in reply.json()["items"]]


def test_the_feed_and_fill_never_show_a_reader_the_same_item(site, name):
    items, reader = put_items(site, name, 24), name("ann")
    feed = Feed(site, reader)
    shown = feed.ids("refresh", 6)
    assert len(shown) == 6
    assert "1 served" in fill(site, "--reader", reader, "--limit", "8")
    filled = page(site, reader)
    assert len(filled) == 8 and not set(filled) & set(shown)
    shown += feed.all(5)  # what still waits in its buffer is checked anew
    assert not set(filled) & set(shown)
    assert sorted(shown + filled) == sorted(items)
    status, said = ctl(site, "--reader", reader, "discover")
    assert status == 0 and "1 with nothing new; 0 items pushed" in said
    assert page(site, reader) == filled
    site.check()


def test_the_best_recommendation_is_on_top_of_the_page(site, name):
    items, reader = put_items(site, name, 8), name("ann")
    for number, item in enumerate(items[:5]):
        for viewer in range(5 - number):
            assert site.public().view(item, f"f{viewer}").status == 200
    wait_until(lambda: [each["id"] for each in recommended(site, reader)] == items[:5], "the trend")
    fill(site, "--reader", reader, "--limit", "5")
    assert page(site, reader) == items[:5]


def recommended(site, reader):
    return site.internal().get("/api/recommendations", query={"userId": reader, "limit": 5}).json()["items"]


def test_who_opened_the_channel_is_filled_and_then_left_alone_until_they_have_read_it(site, name):
    put_items(site, name, 24)
    reader = name("ann")
    assert "0 readers" in fill(site)
    assert page(site, reader) == []
    assert "1 served" in fill(site, "--limit", "3")
    for _ in range(2):
        assert "0 served, 1 skipped" in fill(site, "--limit", "3")
    # A visit in the second of the push does not count as one after it.
    wait_until(lambda: len(page(site, reader)) == 3 and "1 served" in fill(site, "--limit", "3"), "more")
    assert len(set(page(site, reader))) == 6


def test_a_dry_run_prints_what_would_be_pushed_and_pushes_nothing(site, name):
    put_items(site, name, 5)
    reader = name("ann")
    said = fill(site, "--reader", reader, "--limit", "2", "--dry-run")
    promised = said.splitlines()[0].removeprefix(reader + ":").split()
    assert len(promised) == 2 and "2 items would be pushed" in said
    sums = json.loads(fill(site, "--reader", reader, "--limit", "2", "--dry-run", "--json"))
    assert (sums["channel"], sums["readers"], sums["served"], sums["pushed"], sums["dry_run"]) == ("discover", 1, 1, 2, True)
    assert page(site, reader) == []
    fill(site, "--reader", reader, "--limit", "2")
    assert page(site, reader) == promised


def test_every_so_often_it_fills_who_has_come_until_sigterm(site, name):
    put_items(site, name, 12)
    reader = name("ann")
    with subprocess.Popen([CTL, "push-recommendations", "discover", "--every", "1", "--limit", "2", "--state", site.state], stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: len(page(site, reader)) == 12, "the channel to be filled", 60)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_run_that_is_ended_in_the_middle_and_repeated_serves_everybody_once(site, name, number):
    put_items(site, name, 12)
    readers = [name("r") for _ in range(3000)]
    for first in range(0, len(readers), 500):
        site.redis("ZADD", "active:discover", *(word for each in readers[first:first + 500] for word in (int(time.time()), each)))

    def held():
        count = "local out = {} for i, name in ipairs(ARGV) do out[i] = redis.call('ZCOUNT', 'wf:discover:{' .. name .. '}', '(0', '+inf') end return out"
        return [each for first in range(0, len(readers), 500) for each in site.redis("EVAL", count, 0, *readers[first:first + 500])]

    with subprocess.Popen([CTL, "push-recommendations", "discover", "--limit", "3", "--state", site.state], stdout=subprocess.PIPE, text=True) as process:
        wait_until(lambda: sum(held()) > 0, "the first of them")
        process.send_signal(number)
        said = process.communicate(timeout=80)[0]
        assert process.returncode == (-signal.SIGKILL if number == signal.SIGKILL else 1)
    assert number == signal.SIGKILL or "interrupted" in said
    assert set(held()) == {0, 3}  # in the middle, and nobody by half
    fill(site, "--limit", "3")
    assert set(held()) == {3}


def test_what_is_wrong_is_said_and_pushes_nothing(site, name):
    put_items(site, name, 3)
    for arguments, words in ((["elsewhere"], "no channel elsewhere"), (["follow"], "follow is filled by those who are followed"),
                             (["discover", "--reader", "a:b"], "--reader a:b is no id"), (["discover", "--readers", "/none"], "/none")):
        status, said = ctl(site, *arguments)
        assert status == 2 and words in said, said
    assert ctl(site, "discover", "--limit", "0")[0] == 2
    assert ctl(site)[0] == 2
    site.signal("redis", signal.SIGKILL)
    wait_until(lambda: ctl(site, "discover", "--reader", name("ann"))[0] == 2, "Redis to be gone")
    assert f"Redis at {site.state}/run/redis.sock" in ctl(site, "discover", "--reader", name("ann"))[1]

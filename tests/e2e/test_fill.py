"""freshetctl push-recommendations against a running service: pushed items are on the reader's pages, and items already
shown are not pushed.
"""

import json
import signal
import subprocess
import time

import pytest

from service import CTL, LONG_TIMEOUTS, wait_until
from test_feed import Feed, put_items



@pytest.fixture
def site(instance):
    """An empty instance with one worker, which sees its own changes immediately."""
    return instance("--no-limits", **LONG_TIMEOUTS, pm__max_children="1")


def ctl(site, *arguments):
    done = subprocess.run([CTL, "push-recommendations", *arguments, "--state", site.state], capture_output=True, text=True, check=False, timeout=240)
    return done.returncode, done.stdout + done.stderr


def push(site, *arguments):
    """The output of a push after pending activity of readers was written."""
    site.wait_for_background_writes()
    status, output = ctl(site, "discover", *arguments)
    assert status == 0, output
    return output


def page(site, reader, limit=100):
    reply = site.internal().get("/api/waterfall/discover", query={"customerId": reader, "limit": limit})
    assert reply.status == 200, reply
    return [item["id"] for item in reply.json()["items"]]


def test_the_feed_and_pushed_recommendations_never_show_an_item_twice(site, name):
    items, reader = put_items(site, name, 24), name("ann")
    feed = Feed(site, reader)
    feed_items = feed.ids("refresh", 6)
    assert len(feed_items) == 6
    assert "1 served" in push(site, "--reader", reader, "--limit", "8")
    pushed = page(site, reader)
    assert len(pushed) == 8 and not set(pushed) & set(feed_items)
    feed_items += feed.read_all(5)  # buffered items are checked again
    assert not set(pushed) & set(feed_items)
    assert sorted(feed_items + pushed) == sorted(items)
    status, output = ctl(site, "--reader", reader, "discover")
    assert status == 0 and "1 with nothing new; 0 items pushed" in output
    assert page(site, reader) == pushed
    site.check()


def test_the_best_recommendation_is_on_top_of_the_page(site, name):
    items, reader = put_items(site, name, 8), name("ann")
    for number, item in enumerate(items[:5]):
        for viewer in range(5 - number):
            assert site.public().view(item, f"f{viewer}").status == 200
    wait_until(lambda: [each["id"] for each in recommended(site, reader)] == items[:5], "the trend to be computed")
    push(site, "--reader", reader, "--limit", "5")
    assert page(site, reader) == items[:5]


def recommended(site, reader):
    return site.internal().get("/api/recommendations", query={"userId": reader, "limit": 5}).json()["items"]


def test_a_reader_who_opened_the_channel_is_served_again_only_after_the_next_visit(site, name):
    put_items(site, name, 24)
    reader = name("ann")
    assert "0 readers" in push(site)
    assert page(site, reader) == []
    assert "1 served" in push(site, "--limit", "3")
    for _ in range(2):
        assert "0 served, 1 skipped" in push(site, "--limit", "3")
    # A visit in the same second as the push does not count as a later one.
    wait_until(lambda: len(page(site, reader)) == 3 and "1 served" in push(site, "--limit", "3"), "a second push")
    assert len(set(page(site, reader))) == 6


def test_a_dry_run_prints_the_items_and_pushes_nothing(site, name):
    put_items(site, name, 5)
    reader = name("ann")
    output = push(site, "--reader", reader, "--limit", "2", "--dry-run")
    previewed = output.splitlines()[0].removeprefix(reader + ":").split()
    assert len(previewed) == 2 and "2 items would be pushed" in output
    summary = json.loads(push(site, "--reader", reader, "--limit", "2", "--dry-run", "--json"))
    assert (summary["channel"], summary["readers"], summary["served"], summary["pushed"], summary["dry_run"]) == ("discover", 1, 1, 2, True)
    assert page(site, reader) == []
    push(site, "--reader", reader, "--limit", "2")
    assert page(site, reader) == previewed


def test_the_every_option_serves_active_readers_periodically_until_sigterm(site, name):
    put_items(site, name, 12)
    reader = name("ann")
    with subprocess.Popen([CTL, "push-recommendations", "discover", "--every", "1", "--limit", "2", "--state", site.state], stdout=subprocess.PIPE, text=True) as process:
        try:
            wait_until(lambda: len(page(site, reader)) == 12, "the channel to be filled", 60)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM])
def test_an_interrupted_run_that_is_repeated_serves_every_reader_once(site, name, signal_number):
    put_items(site, name, 12)
    readers = [name("r") for _ in range(3000)]
    for first in range(0, len(readers), 500):
        site.redis("ZADD", "active:discover", *(word for each in readers[first:first + 500] for word in (int(time.time()), each)))

    def timeline_sizes():
        count = "local out = {} for i, name in ipairs(ARGV) do out[i] = redis.call('ZCOUNT', 'wf:discover:{' .. name .. '}', '(0', '+inf') end return out"
        return [each for first in range(0, len(readers), 500) for each in site.redis("EVAL", count, 0, *readers[first:first + 500])]

    with subprocess.Popen([CTL, "push-recommendations", "discover", "--limit", "3", "--state", site.state], stdout=subprocess.PIPE, text=True) as process:
        wait_until(lambda: sum(timeline_sizes()) > 0, "the first reader to be served")
        process.send_signal(signal_number)
        output = process.communicate(timeout=80)[0]
        assert process.returncode == (-signal.SIGKILL if signal_number == signal.SIGKILL else 1)
    assert signal_number == signal.SIGKILL or "interrupted" in output
    assert set(timeline_sizes()) == {0, 3}  # interrupted, but no reader was served partially
    push(site, "--limit", "3")
    assert set(timeline_sizes()) == {3}


def test_bad_arguments_are_reported_and_push_nothing(site, name):
    put_items(site, name, 3)
    for arguments, words in ((["elsewhere"], "unknown channel elsewhere"), (["follow"], "follow is the follow channel"),
                             (["discover", "--reader", " a"], "--reader  a is not a valid id"), (["discover", "--readers", "/none"], "/none")):
        status, output = ctl(site, *arguments)
        assert status == 2 and words in output, output
    assert ctl(site, "discover", "--limit", "0")[0] == 2
    assert ctl(site)[0] == 2
    site.signal("redis", signal.SIGKILL)
    wait_until(lambda: ctl(site, "discover", "--reader", name("ann"))[0] == 2, "Redis to be unreachable")
    assert f"Redis at {site.state}/run/redis.sock" in ctl(site, "discover", "--reader", name("ann"))[1]

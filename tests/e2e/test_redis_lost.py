"""A Redis that lost its data while it was written to is reported everywhere, until freshetctl rebuild-redis restores it."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from client import Load
from recorded import Writers
from service import CTL, LONG_TIMEOUTS, birth, wait_until


def freshetctl(service, *arguments):
    done = subprocess.run([CTL, *arguments, "--state", service.state], capture_output=True, text=True, check=False, timeout=480)
    return done.returncode, done.stdout + done.stderr


def lost_since(service):
    return service.status()["redis lost since"]


def list_replies(service, name):
    """Replies to requests for each kind of list."""
    reader, internal, public = name("r"), service.internal(), service.public()
    return [internal.get("/api/hot"), internal.get("/api/hot", query={"model": "engagement", "at": int(time.time()) + 60}),
            internal.get(f"/api/recommendations?userId={reader}"),
            public.get("/api/waterfall/discover", query={"customerId": reader}), public.post("/api/feed", {"action": "refresh", "agent_id": reader})]


def degraded_values(replies):
    assert {reply.status for reply in replies} == {200}, replies
    return {reply.headers["Freshet-Degraded"] for reply in replies}


def items_finding(service):
    done = subprocess.run([CTL, "doctor", "--json", "--nginx", "", "--state", service.state], capture_output=True, text=True, check=False, timeout=240)
    return next(each for each in json.loads(done.stdout)["findings"] if each["check"] == "redis.items")


def flush(service):
    service.redis("FLUSHALL")


def lose_files(service):
    """Kills Redis and deletes its append-only file."""
    pid = service.pid("redis")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: birth(pid) is None, "the exit of Redis")
    for each in os.listdir(os.path.join(service.state, "redis")):
        shutil.rmtree(os.path.join(service.state, "redis", each))
    service.restart_redis()


@pytest.mark.parametrize("lose", [flush, lose_files])
def test_a_loss_during_writes_is_reported_everywhere_until_redis_is_rebuilt(instance, name, lose):
    own_service = instance("--no-limits", recorder__rebuild='"manual"', **LONG_TIMEOUTS)
    own_service.expects_acl_denials = True  # doctor tests the account's rights
    before = {item: own_service.put(item)["title"] for item in (name("before") for _ in range(200))}
    wait_until(lambda: own_service.status()["recorder items"] >= len(before), "the items to be recorded")
    assert lost_since(own_service) == 0 and degraded_values(list_replies(own_service, name)) == {None}
    assert items_finding(own_service)["grade"] == "ok"
    with Load(own_service.internal, Writers(name).write, threads=2) as load:
        wait_until(lambda: len(load.results) > 50 or load.errors, "writes")
        lose(own_service)
        wait_until(lambda: lost_since(own_service) or load.errors, "the loss to be reported")
        assert degraded_values(list_replies(own_service, name)) == {"true"}
    assert not load.errors, load.errors[:3]
    assert own_service.internal().get(f"/api/items/{next(iter(before))}").status == 404
    assert "event=redis_data_lost " in own_service.log() and 'fix="freshetctl rebuild-redis"' in own_service.log()
    assert f"freshet_redis_lost_time_seconds {lost_since(own_service)}" in own_service.internal().get("/metrics").body.decode()
    finding = items_finding(own_service)
    assert finding["grade"] == "error" and finding["cure"].startswith("run `freshetctl rebuild-redis`"), finding
    status, output = freshetctl(own_service, "check")
    assert status == 1 and "rebuild-redis" in output, output
    status, output = freshetctl(own_service, "check", "--json", "--quiet")
    report = json.loads(output)
    assert status == 1 and report["violations"] == 1, output
    assert [(each["kind"], each["level"], each["times"]) for each in report["findings"] if each["level"] == "violation"] == [("lost", "violation", 1)]

    # Processes that start now know of the loss too.
    recorder = own_service.recorder()
    os.kill(recorder, signal.SIGKILL)
    wait_until(lambda: own_service.recorder() not in (None, recorder), "a new recorder")
    own_service.reload_and_drain()
    wait_until(lambda: own_service.status()["recorder"] == "running", "the recorder to run")
    assert lost_since(own_service) and degraded_values(list_replies(own_service, name)) == {"true"}

    writers = Writers(name)  # its writes are not lost again
    with Load(own_service.internal, writers.write, threads=2) as load:
        wait_until(lambda: len(load.results) > 50 or load.errors, "writes")
        status, output = freshetctl(own_service, "rebuild-redis")
        assert status == 0, output
    assert not load.errors, load.errors[:3]
    wait_until(lambda: lost_since(own_service) == 0, "the loss to be cleared")
    assert degraded_values(list_replies(own_service, name)) == {None}
    expected = before | writers.expected
    wait_until(lambda: own_service.status()["recorder items"] >= len(expected), "the items to be recorded")
    assert {item: own_service.internal().get(f"/api/items/{item}").json().get("title") for item in expected} == expected
    assert items_finding(own_service)["grade"] == "ok"
    own_service.check()


@pytest.mark.parametrize("lose", [flush, lose_files])
def test_the_recorder_repairs_a_loss_during_writes(own_service, name, lose):
    before = {item: own_service.put(item)["title"] for item in (name("before") for _ in range(200))}
    wait_until(lambda: own_service.status()["recorder items"] >= len(before), "the items to be recorded")
    writers = Writers(name)
    with Load(own_service.internal, writers.write, threads=2) as load:
        wait_until(lambda: len(load.results) > 50 or load.errors, "writes")
        lose(own_service)
        wait_until(lambda: "event=redis_rebuilt " in own_service.log() or load.errors, "the recorder to repair it")
        count_before = len(load.results)
        wait_until(lambda: len(load.results) > count_before + 50 or load.errors, "writes")
    assert not load.errors, load.errors[:3]
    wait_until(lambda: lost_since(own_service) == 0 and own_service.status()["recorder lag entries"] == 0, "the loss to be cleared")
    wait_until(lambda: degraded_values(list_replies(own_service, name)) == {None}, "complete lists")
    assert {item: own_service.internal().get(f"/api/items/{item}").json().get("title") for item in before} == before
    own_service.check()


def test_a_redis_that_kept_its_data_reports_no_loss(own_service, name):
    """After the first start, reloads, and a Redis killed with its files intact."""
    written = 0

    def put():
        nonlocal written
        item = {"title": "an item", "published_at": int(time.time())}
        wait_until(lambda: own_service.internal().put(f"/api/items/{name('i')}", item).status == 200, "a write")
        written += 1
        # The recorder checks its consumer group before it records.
        wait_until(lambda: own_service.status()["recorder items"] == written, "the item to be recorded")
        assert own_service.redis("EXISTS", "hot:lost") == 0

    for disturb in (own_service.reload_and_drain, lambda: (own_service.make_redis_unavailable(), own_service.restart_redis()), own_service.reload_and_drain):
        put()
        disturb()
        put()
    assert lost_since(own_service) == 0

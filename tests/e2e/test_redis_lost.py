"""A Redis that lost its data under writes says so everywhere, until freshetctl rebuild-redis has brought it back."""

import json
import os
import shutil
import signal
import subprocess
import time

import pytest

from client import Load
from recorded import Writers
from service import CTL, PATIENT, birth, wait_until


def freshetctl(service, *arguments):
    done = subprocess.run([CTL, *arguments, "--state", service.state], capture_output=True, text=True, check=False, timeout=480)
    return done.returncode, done.stdout + done.stderr


def lost_since(service):
    return service.status()["redis lost since"]


def lists(service, name):
    """The replies of all lists."""
    reader, internal, public = name("r"), service.internal(), service.public()
    return [internal.get("/api/hot"), internal.get("/api/hot", query={"model": "engagement", "at": int(time.time()) + 60}),
            internal.get(f"/api/recommendations?userId={reader}"),
            public.get("/api/waterfall/discover", query={"customerId": reader}), public.post("/api/feed", {"action": "refresh", "agent_id": reader})]


def degraded(replies):
    assert {reply.status for reply in replies} == {200}, replies
    return {reply.headers["Freshet-Degraded"] for reply in replies}


def items_finding(service):
    done = subprocess.run([CTL, "doctor", "--json", "--nginx", "", "--state", service.state], capture_output=True, text=True, check=False, timeout=240)
    return next(each for each in json.loads(done.stdout)["findings"] if each["check"] == "redis.items")


def flush(service):
    service.redis("FLUSHALL")


def lose_files(service):
    """kill -9, and its append-only file is gone."""
    pid = service.pid("redis")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: birth(pid) is None, "Redis' end")
    for each in os.listdir(os.path.join(service.state, "redis")):
        shutil.rmtree(os.path.join(service.state, "redis", each))
    service.restart_redis()


@pytest.mark.parametrize("lose", [flush, lose_files])
def test_a_loss_under_writes_is_told_everywhere_until_it_is_mended(instance, name, lose):
    own_service = instance("--no-limits", recorder__rebuild='"manual"', **PATIENT)
    own_service.expects_refusals = True  # of what the doctor asks whether the account may
    before = {item: own_service.put(item)["title"] for item in (name("before") for _ in range(200))}
    wait_until(lambda: own_service.status()["recorder items"] >= len(before), "the recorder")
    assert lost_since(own_service) == 0 and degraded(lists(own_service, name)) == {None}
    assert items_finding(own_service)["grade"] == "ok"
    with Load(own_service.internal, Writers(name).write, threads=2) as load:
        wait_until(lambda: len(load.results) > 50 or load.errors, "writes")
        lose(own_service)
        wait_until(lambda: lost_since(own_service) or load.errors, "the loss to be told")
        assert degraded(lists(own_service, name)) == {"true"}
    assert not load.errors, load.errors[:3]
    assert own_service.internal().get(f"/api/items/{next(iter(before))}").status == 404
    assert "event=redis_lost " in own_service.log() and 'cure="freshetctl rebuild-redis"' in own_service.log()
    assert f"freshet_redis_lost_time_seconds {lost_since(own_service)}" in own_service.internal().get("/metrics").body.decode()
    finding = items_finding(own_service)
    assert finding["grade"] == "error" and finding["cure"].startswith("freshetctl rebuild-redis"), finding
    status, said = freshetctl(own_service, "check")
    assert status == 1 and "rebuild-redis" in said, said
    status, said = freshetctl(own_service, "check", "--json", "--quiet")
    found = json.loads(said)
    assert status == 1 and found["violations"] == 1, said
    assert [(each["kind"], each["level"], each["times"]) for each in found["findings"] if each["level"] == "violation"] == [("lost", "violation", 1)]

    # Whoever starts anew knows it too.
    recorder = own_service.recorder()
    os.kill(recorder, signal.SIGKILL)
    wait_until(lambda: own_service.recorder() not in (None, recorder), "another recorder")
    own_service.renew()
    wait_until(lambda: own_service.status()["recorder"] == "running", "the recorder")
    assert lost_since(own_service) and degraded(lists(own_service, name)) == {"true"}

    writers = Writers(name)  # what they write is not lost again
    with Load(own_service.internal, writers.write, threads=2) as load:
        wait_until(lambda: len(load.results) > 50 or load.errors, "writes")
        status, said = freshetctl(own_service, "rebuild-redis")
        assert status == 0, said
    assert not load.errors, load.errors[:3]
    wait_until(lambda: lost_since(own_service) == 0, "the end of it")
    assert degraded(lists(own_service, name)) == {None}
    kept = before | writers.kept
    wait_until(lambda: own_service.status()["recorder items"] >= len(kept), "the recorder")
    assert {item: own_service.internal().get(f"/api/items/{item}").json().get("title") for item in kept} == kept
    assert items_finding(own_service)["grade"] == "ok"
    own_service.check()


@pytest.mark.parametrize("lose", [flush, lose_files])
def test_a_loss_under_writes_is_mended_by_the_recorder(own_service, name, lose):
    before = {item: own_service.put(item)["title"] for item in (name("before") for _ in range(200))}
    wait_until(lambda: own_service.status()["recorder items"] >= len(before), "the recorder")
    writers = Writers(name)
    with Load(own_service.internal, writers.write, threads=2) as load:
        wait_until(lambda: len(load.results) > 50 or load.errors, "writes")
        lose(own_service)
        wait_until(lambda: "event=redis_rebuilt " in own_service.log() or load.errors, "the recorder to mend it")
        seen = len(load.results)
        wait_until(lambda: len(load.results) > seen + 50 or load.errors, "writes")
    assert not load.errors, load.errors[:3]
    wait_until(lambda: lost_since(own_service) == 0 and own_service.status()["recorder lag entries"] == 0, "the end of it")
    wait_until(lambda: degraded(lists(own_service, name)) == {None}, "whole lists")
    assert {item: own_service.internal().get(f"/api/items/{item}").json().get("title") for item in before} == before
    own_service.check()


def test_a_redis_that_kept_its_data_has_lost_nothing(own_service, name):
    """First start, reloads, Redis killed with its file kept."""
    written = 0

    def put():
        nonlocal written
        item = {"title": "an item", "published_at": int(time.time())}
        wait_until(lambda: own_service.internal().put(f"/api/items/{name('i')}", item).status == 200, "a write")
        written += 1
        # Once it is recorded, the recorder has looked for its group.
        wait_until(lambda: own_service.status()["recorder items"] == written, "the recorder")
        assert own_service.redis("EXISTS", "hot:lost") == 0

    for again in (own_service.renew, lambda: (own_service.lose_redis(), own_service.restart_redis()), own_service.renew):
        put()
        again()
        put()
    assert lost_since(own_service) == 0

"""A backup of a service that serves, and a service from a backup: what readers did is there again, and nothing else."""

import os
import random
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
from client import Load
from recorded import Recorded, Writers
from service import CTL, PATIENT, birth, children, kill_in_the_middle, wait_until
from test_privacy import Redis, forget, use, wait_done, wait_recorded



def ctl(service, *words, fails=None):
    """Runs freshetctl; `fails`: what it must say when it refuses."""
    done = subprocess.run([CTL, *words, "--state", service.state], capture_output=True, text=True, check=False, timeout=300)
    if fails is None:
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    else:
        assert done.returncode == 2 and fails in done.stderr, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def folder():
    made = f"/tmp/freshet-e2e-{os.getpid()}-backup"
    shutil.rmtree(made, ignore_errors=True)
    os.mkdir(made, 0o700)
    yield made
    shutil.rmtree(made)


def stop_freshetd(service):
    master = service.pid("freshetd")
    all_of_it = [master, *children(master)]
    os.kill(master, signal.SIGTERM)
    wait_until(lambda: not any(birth(pid) for pid in all_of_it), "the end of freshetd", 60)


def start_freshetd(service, as_was):
    """Again, as scripts/run started it."""
    command, user = as_was
    with open(os.path.join(service.state, "log/freshetd.log"), "ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                   user=user.st_uid, group=user.st_gid, extra_groups=[])
    service.replace_process("freshetd", process.pid, "QUIT")
    service.kept = process  # so that it is reaped
    wait_until(lambda: service.internal().get("/ping").status == 200, "/ping", 60)


def how_it_runs(service):
    with open(f"/proc/{service.pid('freshetd')}/cmdline", "rb") as file:
        command = [word.decode() for word in file.read().split(b"\0")[:-1]]
    command[0] = os.readlink(f"/proc/{service.pid('freshetd')}/exe")
    return command, os.stat(f"/proc/{service.pid('freshetd')}")


def restore(service, backup, *options):
    as_was = how_it_runs(service)
    stop_freshetd(service)
    ctl(service, "restore", backup, *options, "-q")
    start_freshetd(service, as_was)


def put_items(service, name, count=6):
    items = [name("i") for _ in range(count)]
    Recorded(service).wait_for({item: service.put(item)["title"] for item in items})
    return items


def settled(service):
    """Everything is recorded, nothing spooled."""
    service.await_placed()
    def quiet():
        status = service.status()
        return status["recorder"] == "running" and status["recorder lag entries"] == 0
    wait_until(quiet, "the recorder", 60)


ONLY_NOW = re.compile("(?:.*score|age|age_seconds|decay|hours|divisor|current)$")  # another value at each moment

# Made anew by a restore, living shorter than one, or another at each look.
FLEETING = (b"hot:list", b"hot:rank", b"hot:placed", b"hot:unplaced", b"feed:cache", b"feed:state", b"recorder:", b"job:")


def content(service):
    """{key: content} of Redis; a HyperLogLog is what it counts."""
    redis, cursor, out = Redis(service), None, {}
    read = {b"hash": ("HGETALL",), b"set": ("SMEMBERS",), b"list": ("LRANGE", 0, -1), b"zset": ("ZRANGE", 0, -1, "WITHSCORES")}
    while cursor != b"0":
        cursor, page = redis.ask("SCAN", cursor or "0", "COUNT", 1000)
        for key in page:
            if key.startswith(FLEETING) or 0 <= int(redis.ask("PTTL", key)) <= 90_000:
                continue
            kind = redis.ask("TYPE", key)
            if kind == b"string":
                out[key] = redis.ask("GET", key)
            elif kind in read:
                command, *rest = read[kind]
                found = redis.ask(command, key, *rest)
                out[key] = sorted(zip(found[::2], found[1::2])) if kind == b"hash" else sorted(found) if kind == b"set" else found
    redis.close()
    return out


def lasting(value):
    """Without what is another at each moment."""
    if isinstance(value, list):
        return [lasting(each) for each in value]
    if isinstance(value, dict):
        return {name: lasting(each) for name, each in value.items() if not ONLY_NOW.match(name)}
    return value


def told(service, readers, items):
    """What the service says of them, through its own routes."""
    out = {"hot": service.hot(limit=50)}
    for item in items:
        out[item] = service.stats(item)
    for reader in readers:
        out[reader] = service.internal().get("/api/history", query={"userId": reader}).json()
        for channel in ("follow", "discover"):
            page = service.internal().get(f"/api/waterfall/{channel}", query={"customerId": reader, "limit": 50}).json()
            out[reader, channel] = page["items"]
        out[reader, "follows"] = service.internal().get("/api/follows", query={"follower": reader}).json()
    return lasting({str(key): value for key, value in out.items()})


def test_a_service_from_a_backup_knows_everything(instance, folder, name):
    service = instance("--no-limits", **PATIENT)
    readers, items = [name("reader") for _ in range(3)], put_items(service, name)
    for reader in readers:
        use(service, reader, items)
        wait_recorded(service, reader, len(items))
    scheduled = name("i")  # in its places already, and shown to nobody
    service.put(scheduled, published_at=int(time.time()) + 86400)
    assert service.public().view(scheduled, "f").status == 200
    settled(service)
    backup = os.path.join(folder, "backup")
    before = content(service)
    ctl(service, "backup", backup, "-q", "--with-config")
    assert "whole and unchanged" in ctl(service, "backup", "--verify", backup)
    ctl(service, "backup", "--verify", backup + "-none", fails="no such folder")
    assert os.path.exists(os.path.join(backup, "config/freshet.toml")) and not os.path.exists(os.path.join(backup, "config/salt"))
    said = told(service, readers, items)
    assert content(service).keys() - before.keys() == set()

    # Another host: an empty Redis, an empty folder, the same salt.
    other = instance("--no-limits", **PATIENT)
    salt = os.path.join(service.state, "etc/salt")
    shutil.copyfile(salt, os.path.join(other.state, "etc/salt"))
    ctl(other, "restore", backup, fails="the service runs")
    restore(other, backup, "--replace")
    after = content(other)
    assert {key: (before.get(key), after.get(key)) for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == {}
    assert told(other, readers, items) == said
    other.check()
    assert Recorded(other).titles() == Recorded(service).titles()
    wait_until(lambda: Recorded(other).indexed() == {*items, scheduled}, "the index")
    # And it goes on: a recorder that reads the stream, counters that count.
    other.put("late")
    wait_until(lambda: "late" in Recorded(other).titles(), "the recorder", 60)
    assert other.public().track(items[0], 1000, userId="new", sessionId="new").json()["pv"] == said[items[0]]["pv"] + 1


def test_a_backup_under_load_is_whole_and_one(instance, folder, name):
    service = instance("--no-limits", **PATIENT)
    writers, stop = Writers(name), threading.Event()
    items = put_items(service, name)

    def read(client, turn):
        reader = f"reader-{turn % 40}"
        client.track(random.choice(items), 100, userId=reader, sessionId=f"{reader}-{turn}")
        client.view(random.choice(items), reader)
        service.internal().put("/api/follows", {"follower": reader, "author": f"author-{turn % 7}"})
        if turn % 5 == 0:
            service.internal().delete("/api/follows", query={"follower": reader, "author": f"author-{turn % 7}"})

    backups = [os.path.join(folder, str(number)) for number in range(3)]
    with Load(service.internal, writers.write, 2) as load, Load(service.public, read, 2) as reading:
        for backup in backups:
            seen = len(load.results) + len(reading.results)
            wait_until(lambda seen=seen: len(load.results) + len(reading.results) > seen + 100, "the load", 60)
            ctl(service, "backup", backup, "-q")
            ctl(service, "backup", "--verify", backup)
        kept = dict(writers.kept)
    stop.set()
    assert not load.errors and not reading.errors
    assert len(kept) > 50

    restore(service, backups[-1], "--replace")
    service.check()
    settled(service)
    # What Redis, database and index have is the same set of items, each with one title.
    titles = Recorded(service).titles()
    wait_until(lambda: Recorded(service).indexed() == set(titles), "the index", 60)
    assert len(titles) > len(items)
    for item, title in titles.items():
        reply = service.internal().get(f"/api/items/{item}")
        assert reply.status == 200 and reply.json()["title"] == title, reply
    redis = Redis(service)
    hashes = {key.split(b":", 1)[1].decode().strip("{}") for key in redis.ask("KEYS", "item:*") if redis.ask("HEXISTS", key, "published_at") == b"1"}
    redis.close()
    assert hashes == set(titles)


def test_a_backup_that_is_killed_at_any_moment_is_none_or_whole(instance, folder, name):
    service = instance("--no-limits", **PATIENT)
    put_items(service, name, 30)
    began = time.monotonic()
    ctl(service, "backup", os.path.join(folder, "first"), "-q")
    takes_s, killed, whole, turn = time.monotonic() - began, 0, 0, 0
    while turn < 30 or (killed == 0 and turn < 300):  # the machine may have been busier before
        turn += 1
        backup = os.path.join(folder, f"killed-{turn % 3}")
        shutil.rmtree(backup, ignore_errors=True)
        killed += kill_in_the_middle(1.2 * takes_s, "backup", backup, "-q", "--state", service.state)
        if os.path.exists(backup):
            ctl(service, "backup", "--verify", backup)
            whole += 1
        elif os.path.exists(backup + ".partial"):
            # Without a manifest, or whole but for its name.
            said = subprocess.run([CTL, "backup", "--verify", backup + ".partial", "--state", service.state], capture_output=True, text=True,
                                  check=False, timeout=300)
            assert said.returncode == 0 or (said.returncode == 1 and "manifest" in said.stderr), said
    assert killed > 0
    last = os.path.join(folder, "last")
    ctl(service, "backup", last, "-q")
    ctl(service, "backup", "--verify", last)


def test_a_restore_that_was_killed_can_be_repeated(instance, folder, name):
    service = instance("--no-limits", **PATIENT)
    items = put_items(service, name, 30)
    for item in items:
        service.public().track(item, 1000, userId="r", sessionId="r")
    settled(service)
    backup = os.path.join(folder, "backup")
    ctl(service, "backup", backup, "-q")
    before, as_was = content(service), how_it_runs(service)
    stop_freshetd(service)
    began = time.monotonic()
    ctl(service, "restore", backup, "--replace", "-q")
    takes_s, killed, turn = time.monotonic() - began, 0, 0
    while turn < 10 or (killed == 0 and turn < 100):
        turn += 1
        killed += kill_in_the_middle(1.2 * takes_s, "restore", backup, "--replace", "-q", "--state", service.state)
    assert killed > 0
    ctl(service, "restore", backup, "--replace", "-q")
    start_freshetd(service, as_was)
    assert content(service) == before
    service.check()
    assert set(Recorded(service).titles()) == set(items)


def test_who_was_erased_after_the_backup_does_not_come_back(instance, folder, name):
    service = instance("--no-limits", **PATIENT)
    gone, stays, items = name("gone"), name("stays"), put_items(service, name)
    for reader in (gone, stays):
        use(service, reader, items)
        wait_recorded(service, reader, len(items))
    settled(service)
    backup = os.path.join(folder, "backup")
    ctl(service, "backup", backup, "-q")
    wait_done(service, forget(service, gone))
    restore(service, backup, "--replace")
    everything = repr(content(service))
    assert stays in everything and gone not in everything
    wait_recorded(service, stays, len(items))
    assert service.internal().get(f"/api/users/{gone}").json().get("interactions", []) == []
    service.check()

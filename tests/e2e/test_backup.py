"""Backups of a running service and services restored from backups: everything is restored, and nothing else appears."""

import contextlib
import hashlib
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import threading
import time

import pytest
from client import Load
from proxy import Proxy
from recorded import RecorderData, Writers
from service import CTL, LONG_TIMEOUTS, birth, children, kill_while_running, wait_until
from test_privacy import RespClient, erase, recorded_interactions, use_everything, wait_until_done, wait_until_recorded



def ctl(service, *words, fails=None):
    """Runs freshetctl. `fails`: the message expected when the command refuses."""
    done = subprocess.run([CTL, *words, "--state", service.state], capture_output=True, text=True, check=False, timeout=300)
    if fails is None:
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    else:
        assert done.returncode == 2 and fails in done.stderr, (words, done.stdout, done.stderr)
    return done.stdout


@pytest.fixture
def folder():
    path = f"/tmp/freshet-e2e-{os.getpid()}-backup"
    shutil.rmtree(path, ignore_errors=True)
    os.mkdir(path, 0o700)
    yield path
    shutil.rmtree(path)


def stop_freshetd(service):
    master = service.pid("freshetd")
    pids = [master, *children(master)]
    os.kill(master, signal.SIGTERM)
    wait_until(lambda: not any(birth(pid) for pid in pids), "freshetd to exit", 60)


def launch_freshetd(service, invocation):
    """Starts freshetd again, with the command and user with which scripts/run started it, without waiting for it."""
    command, user = invocation
    with open(os.path.join(service.state, "log/freshetd.log"), "ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                                   user=user.st_uid, group=user.st_gid, extra_groups=[])
    service.replace_process("freshetd", process.pid, "QUIT")
    service.restarted_process = process  # a reference, so that the process is reaped


def start_freshetd(service, invocation):
    launch_freshetd(service, invocation)
    wait_until(lambda: service.internal().get("/ping").status == 200, "a reply to /ping", 60)


def invocation_of(service):
    with open(f"/proc/{service.pid('freshetd')}/cmdline", "rb") as file:
        command = [word.decode() for word in file.read().split(b"\0")[:-1]]
    command[0] = os.readlink(f"/proc/{service.pid('freshetd')}/exe")
    return command, os.stat(f"/proc/{service.pid('freshetd')}")


def restore(service, backup, *options):
    invocation = invocation_of(service)
    stop_freshetd(service)
    ctl(service, "restore", backup, *options, "-q")
    start_freshetd(service, invocation)


def put_items(service, name, count=6):
    items = [name("i") for _ in range(count)]
    RecorderData(service).wait_for({item: service.put(item)["title"] for item in items})
    return items


def wait_until_idle(service):
    """Waits until everything is recorded."""
    service.wait_for_background_writes()
    def is_recorded():
        status = service.status()
        return status["recorder"] == "running" and status["recorder lag entries"] == 0
    wait_until(is_recorded, "the recorder to catch up", 60)


VOLATILE_FIELDS = re.compile("(?:.*score|age|age_seconds|decay|hours|divisor|current)$")  # values that change with time

# Keys that are rebuilt after a restore, that expire sooner than a restore takes, or that change on every read.
VOLATILE_KEYS = (b"hot:list", b"hot:rank", b"hot:placed", b"hot:unplaced", b"hot:covisits", b"feed:cache", b"feed:state", b"recorder:", b"job:")


def content(service):
    """{key: content} of Redis. A HyperLogLog appears as its bytes."""
    redis, cursor, out = RespClient(service), None, {}
    read = {b"hash": ("HGETALL",), b"set": ("SMEMBERS",), b"list": ("LRANGE", 0, -1), b"zset": ("ZRANGE", 0, -1, "WITHSCORES")}
    while cursor != b"0":
        cursor, page = redis.command("SCAN", cursor or "0", "COUNT", 1000)
        for key in page:
            if key.startswith(VOLATILE_KEYS) or 0 <= int(redis.command("PTTL", key)) <= 90_000:
                continue
            value_type = redis.command("TYPE", key)
            if value_type == b"string":
                out[key] = redis.command("GET", key)
            elif value_type in read:
                command, *rest = read[value_type]
                found = redis.command(command, key, *rest)
                out[key] = sorted(zip(found[::2], found[1::2])) if value_type == b"hash" else sorted(found) if value_type == b"set" else found
    redis.close()
    return out


def without_volatile(value):
    """Removes values that change with time."""
    if isinstance(value, list):
        return [without_volatile(each) for each in value]
    if isinstance(value, dict):
        return {name: without_volatile(each) for name, each in value.items() if not VOLATILE_FIELDS.match(name)}
    return value


def responses(service, readers, items):
    """The replies of the service's own routes about these readers and items."""
    out = {"hot": service.hot(limit=50)}
    for item in items:
        out[item] = service.stats(item)
    for reader in readers:
        out[reader] = service.internal().get("/api/history", query={"userId": reader}).json()
        for channel in ("follow", "discover"):
            page = service.internal().get(f"/api/waterfall/{channel}", query={"customerId": reader, "limit": 50}).json()
            out[reader, channel] = page["items"]
        out[reader, "follows"] = service.internal().get("/api/follows", query={"follower": reader}).json()
    return without_volatile({str(key): value for key, value in out.items()})


def test_a_service_restored_from_a_backup_has_all_data(instance, folder, name):
    service = instance("--no-limits", **LONG_TIMEOUTS)
    readers, items = [name("reader") for _ in range(3)], put_items(service, name)
    for reader in readers:
        use_everything(service, reader, items)
        wait_until_recorded(service, reader, len(items))
    scheduled = name("i")  # ranked already, but not visible
    service.put(scheduled, published_at=int(time.time()) + 86400)
    assert service.public().view(scheduled, "f").status == 200
    wait_until_idle(service)
    backup = os.path.join(folder, "backup")
    before = content(service)
    ctl(service, "backup", backup, "-q", "--with-config")
    assert "complete and unchanged" in ctl(service, "backup", "--verify", backup)
    ctl(service, "backup", "--verify", backup + "-none", fails="no such folder")
    assert os.path.exists(os.path.join(backup, "config/freshet.toml")) and not os.path.exists(os.path.join(backup, "config/salt"))
    expected = responses(service, readers, items)
    assert content(service).keys() - before.keys() == set()

    # A different host: an empty Redis, an empty directory, the same salt.
    other = instance("--no-limits", **LONG_TIMEOUTS)
    salt = os.path.join(service.state, "etc/salt")
    shutil.copyfile(salt, os.path.join(other.state, "etc/salt"))
    ctl(other, "restore", backup, fails="the service is running")
    restore(other, backup, "--replace", "--accept-unknown-erasures")
    after = content(other)
    assert {key: (before.get(key), after.get(key)) for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == {}
    assert responses(other, readers, items) == expected
    other.check()
    assert RecorderData(other).titles() == RecorderData(service).titles()
    wait_until(lambda: RecorderData(other).indexed_ids() == {*items, scheduled}, "the index to be rebuilt")
    # The service continues: the recorder reads the stream, and counters count.
    other.put("late")
    wait_until(lambda: "late" in RecorderData(other).titles(), "the new item to be recorded", 60)
    assert other.public().track(items[0], 1000, userId="new", sessionId="new").json()["pv"] == expected[items[0]]["pv"] + 1


def read_records(dump):
    """Records of a dump (scripts/ctl/backup/redis_dump.h): (type, key, expiry in ms, members or the value)."""
    at = dump.index(b"\n") + 1
    while at < len(dump):
        kind, key_length, expires_ms, length = struct.unpack_from("<cIqI", dump, at)
        at += struct.calcsize("<cIqI")
        key, body = dump[at : at + key_length], dump[at + key_length : at + key_length + length]
        at += key_length + length
        if kind in b"TE":
            yield kind, key, expires_ms, body
            continue
        members, begin = [], 0
        while begin < length:
            (size,) = struct.unpack_from("<I", body, begin)
            members.append(body[begin + 4 : begin + 4 + size])
            begin += 4 + size
        yield kind, key, expires_ms, members


def to_schema_2(dump):
    """The dump as the version with schema 2 wrote it: other separators and marks, and ids in key names as they are."""
    out = [b"FRESHET REDIS 2\n"]
    for kind, key, expires_ms, content_of_key in read_records(dump):
        assert b"%" not in key.replace(b"%1Einvisible", b""), key
        if kind not in b"TE":
            members = content_of_key
            if not key.startswith(b"hot:article:"):  # has binary fields
                members = [re.sub(b"^\x1e(view:|undo:)", b"\\1", each).replace(b"\x1f", b" ").replace(b"\x1e", b":") for each in members]
            content_of_key = b"".join(struct.pack("<I", len(each)) + each for each in members)
        key = key.replace(b"%1Einvisible", b" invisible")
        out.append(struct.pack("<cIqI", kind, len(key), expires_ms, len(content_of_key)) + key + content_of_key)
    return b"".join(out)


def downgrade_database(path):
    connection = sqlite3.connect(path)
    for column in ("author_id", "section", "language", "story", "text_format", "expires_at", "weight"):
        connection.execute(f"ALTER TABLE items DROP COLUMN {column}")
    connection.execute("DROP TABLE view_counts")
    connection.execute("DROP TABLE covisits")
    connection.execute("PRAGMA user_version = 3")
    connection.commit()
    connection.close()


def make_previous(service, backup):
    """Makes the backup, the database and Redis of a stopped service those of the version with schema 2."""
    downgrade_database(RecorderData(service).database)
    service.redis("HSET", "hot:rank:meta", "schema", 2)
    downgrade_database(os.path.join(backup, "freshet.db"))
    with open(os.path.join(backup, "redis.dump"), "rb") as file:
        dump = to_schema_2(file.read())
    with open(os.path.join(backup, "redis.dump"), "wb") as file:
        file.write(dump)
    with open(os.path.join(backup, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    manifest.update(format=2, schema=3)
    for each in manifest["files"]:
        with open(os.path.join(backup, each["name"]), "rb") as file:
            data = file.read()
        each.update(bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    text = json.dumps(manifest, separators=(",", ":")).encode()
    with open(os.path.join(backup, "manifest.json"), "wb") as file:
        file.write(text)
    with open(os.path.join(backup, "manifest.sha256"), "w", encoding="ascii") as file:
        file.write(f"{hashlib.sha256(text).hexdigest()}  manifest.json\n")


def test_an_upgrade_from_the_previous_schema_keeps_every_count(instance, folder, name):
    service = instance("--no-limits", **LONG_TIMEOUTS)
    readers, items = [name("reader") for _ in range(2)], put_items(service, name)
    for reader in readers:
        use_everything(service, reader, items)
        wait_until_recorded(service, reader, len(items))
    expected = responses(service, readers, items)
    wait_until_idle(service)
    backup, invocation, before = os.path.join(folder, "backup"), invocation_of(service), content(service)
    # As OPERATIONS.md says; the previous version is this one, with its data made that version's.
    stop_freshetd(service)
    ctl(service, "backup", backup, "-q")
    make_previous(service, backup)
    ctl(service, "restore", backup, fails="the data in Redis has schema 2")
    ctl(service, "restore", backup, "--replace", "-q")
    start_freshetd(service, invocation)
    after = content(service)
    assert {key: (before.get(key), after.get(key)) for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == {}
    assert responses(service, readers, items) == expected
    assert RecorderData(service).titles().keys() == set(items)
    service.check()


def test_a_backup_made_under_load_is_consistent(instance, folder, name):
    service = instance("--no-limits", **LONG_TIMEOUTS)
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
            count_before = len(load.results) + len(reading.results)
            wait_until(lambda count_before=count_before: len(load.results) + len(reading.results) > count_before + 100, "the load", 60)
            ctl(service, "backup", backup, "-q")
            ctl(service, "backup", "--verify", backup)
        expected = dict(writers.expected)
    stop.set()
    assert not load.errors and not reading.errors
    assert len(expected) > 50

    restore(service, backups[-1], "--replace")
    service.check()
    wait_until_idle(service)
    # Redis, the database and the index hold the same items with the same titles.
    titles = RecorderData(service).titles()
    wait_until(lambda: RecorderData(service).indexed_ids() == set(titles), "the index to catch up", 60)
    assert len(titles) > len(items)
    for item, title in titles.items():
        reply = service.internal().get(f"/api/items/{item}")
        assert reply.status == 200 and reply.json()["title"] == title, reply
    redis = RespClient(service)
    hashes = {key.split(b":", 1)[1].decode().strip("{}") for key in redis.command("KEYS", "item:*") if redis.command("HEXISTS", key, "published_at") == b"1"}
    redis.close()
    assert hashes == set(titles)


def test_a_killed_backup_leaves_no_backup_or_a_complete_one(instance, folder, name):
    service = instance("--no-limits", **LONG_TIMEOUTS)
    put_items(service, name, 30)
    began = time.monotonic()
    ctl(service, "backup", os.path.join(folder, "first"), "-q")
    duration_s, killed, complete, turn = time.monotonic() - began, 0, 0, 0
    while turn < 12 or (killed == 0 and turn < 300):  # the machine may have been busier when the time was measured
        turn += 1
        backup = os.path.join(folder, f"killed-{turn % 3}")
        shutil.rmtree(backup, ignore_errors=True)
        killed += kill_while_running(1.2 * duration_s, "backup", backup, "-q", "--state", service.state)
        if os.path.exists(backup):
            ctl(service, "backup", "--verify", backup)
            complete += 1
        elif os.path.exists(backup + ".partial"):
            # Either the manifest is missing, or the backup is complete and only its name is not final.
            verified = subprocess.run([CTL, "backup", "--verify", backup + ".partial", "--state", service.state], capture_output=True, text=True,
                                      check=False, timeout=300)
            assert verified.returncode == 0 or (verified.returncode == 1 and "manifest" in verified.stderr), verified
    assert killed > 0
    last = os.path.join(folder, "last")
    ctl(service, "backup", last, "-q")
    ctl(service, "backup", "--verify", last)


def test_a_killed_restore_can_be_repeated(instance, folder, name):
    service = instance("--no-limits", **LONG_TIMEOUTS)
    items = put_items(service, name, 30)
    for item in items:
        service.public().track(item, 1000, userId="r", sessionId="r")
    wait_until_idle(service)
    backup = os.path.join(folder, "backup")
    ctl(service, "backup", backup, "-q")
    before, invocation = content(service), invocation_of(service)
    stop_freshetd(service)
    began = time.monotonic()
    ctl(service, "restore", backup, "--replace", "-q")
    duration_s, killed, turn = time.monotonic() - began, 0, 0
    while turn < 6 or (killed == 0 and turn < 100):
        turn += 1
        killed += kill_while_running(1.2 * duration_s, "restore", backup, "--replace", "-q", "--state", service.state)
    assert killed > 0
    ctl(service, "restore", backup, "--replace", "-q")
    start_freshetd(service, invocation)
    assert content(service) == before
    service.check()
    assert set(RecorderData(service).titles()) == set(items)


def erase_after_backup(service, folder, name):
    """Two readers use everything, and one of them is erased after a backup: (erased, remaining, items, backup)."""
    erased, remaining, items = name("gone"), name("stays"), put_items(service, name)
    for reader in (erased, remaining):
        use_everything(service, reader, items)
        wait_until_recorded(service, reader, len(items))
    wait_until_idle(service)
    backup = os.path.join(folder, "backup")
    ctl(service, "backup", backup, "-q")
    wait_until_done(service, erase(service, erased))
    return erased, remaining, items, backup


def test_a_reader_erased_after_the_backup_is_not_restored(instance, folder, name):
    service = instance("--no-limits", **LONG_TIMEOUTS)
    erased, remaining, items, backup = erase_after_backup(service, folder, name)
    restore(service, backup, "--replace")
    everything = repr(content(service))
    assert remaining in everything and erased not in everything
    wait_until_recorded(service, remaining, len(items))
    assert service.internal().get(f"/api/users/{erased}").json().get("interactions", []) == []
    service.check()


def test_a_restore_into_a_server_that_is_too_old_changes_nothing(instance, folder, name):
    service = instance("--no-limits", **LONG_TIMEOUTS)
    put_items(service, name)
    wait_until_idle(service)
    backup = os.path.join(folder, "backup")
    ctl(service, "backup", backup, "-q")
    invocation = invocation_of(service)
    stop_freshetd(service)
    before = content(service)
    with Proxy(service.redis_socket()) as proxy:
        real = re.search(r"redis_version:([0-9.]+)", service.redis_text("INFO", "server"))[1]
        old = ("6.2." + "9" * len(real))[:len(real)]
        proxy.set(version=old)
        service.configure(redis__url=f'"{proxy.url}"')
        ctl(service, "restore", backup, "--replace", "-q", fails=f"Redis {old} lacks EXPIRE with GT and SET with NX and GET: "
            "Freshet needs Redis 7.0 or later, or Valkey. Nothing was changed")
    service.configure()
    assert content(service) == before
    start_freshetd(service, invocation)


def kill_restore(service, *words, when):
    """Runs freshetctl restore and kills it once when() holds. Each reply of Redis is late, so that the test notices in
    time.
    """
    with Proxy(service.redis_socket()) as proxy:
        proxy.set(delay_s=(0.3, 0.3))
        service.configure(redis__url=f'"{proxy.url}"')
        process = subprocess.Popen([CTL, "restore", *words, "-q", "--state", service.state], stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            wait_until(lambda: when() or process.poll() is not None, "the moment to kill the restore", 60)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, process.stderr.read()
        process.stderr.close()
    service.configure()


def inode(path):
    return os.stat(path).st_ino if os.path.exists(path) else None


@pytest.mark.parametrize("known_from", ["database", "file"])
@pytest.mark.parametrize("stage", ["deleted", "loaded", "in place"])
def test_a_killed_restore_brings_no_erased_reader_back(instance, folder, name, stage, known_from):
    service = instance("--no-limits", **LONG_TIMEOUTS)
    erased, remaining, items, backup = erase_after_backup(service, folder, name)
    options = ["--replace"]
    invocation = invocation_of(service)
    stop_freshetd(service)
    database = RecorderData(service).database
    if known_from == "file":  # as on a new host
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.remove(database + suffix)
        options += ["--erase", os.path.join(folder, "erased")]
        with open(options[-1], "w", encoding="utf-8") as file:
            file.write(f"{erased}\n")
    before = inode(database)
    loaded = ("EXISTS", f"user:events:{{{erased}}}")
    def has_reached_stage():
        if stage == "deleted":
            return not service.redis("EXISTS", f"user:events:{{{remaining}}}")
        return service.redis(*loaded) if stage == "loaded" else inode(database) != before
    kill_restore(service, backup, *options, when=has_reached_stage)
    assert service.redis(*loaded) == (stage == "loaded")  # readers are erased before the database is in place
    # As after a reboot of the host: nothing serves from this Redis or records it.
    launch_freshetd(service, invocation)
    logged = "a restore is running or was interrupted; if none is running, repeat `freshetctl restore DIR --replace`"
    wait_until(lambda: logged in service.log(), "the error in the log")
    reply = service.internal().get("/api/history", query={"userId": erased})
    assert reply.status in (502, 503, 504), reply
    stop_freshetd(service)
    ctl(service, "restore", backup, "-q", *options)
    start_freshetd(service, invocation)
    everything = repr(content(service))
    assert remaining in everything and erased not in everything
    assert recorded_interactions(service, erased) == 0 and recorded_interactions(service, remaining) == len(items)
    service.check()

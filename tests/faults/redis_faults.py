"""F7 to F10 and F18: Redis is killed, hangs, is slow, drops connections, refuses commands, or loses all keys."""

import contextlib
import os
import signal
import subprocess
import threading
import time

from proxy import Proxy
from service import REDIS_CLI, birth, children, comm, wait_until

from faults.load import PAGE_READS
from faults.scenario import fault, percentile

READ_P99_MS, OPEN_READ_P99_MS, SLOWEST_MS = 150, 20, 300
RECOVERY_S = 1.0
FSYNC_INTERVAL_S = 1.0  # a crash of Redis may lose the writes of the last second (appendfsync everysec)
CLIENT_DELAY_S = 0.1    # between an acknowledgement by Redis and its arrival at the client
OUTAGE_STATUSES = (200, 429, 503)  # allowed for items and counters, which only Redis has


def expect_read_p99(run, load, label, limit_ms, *windows):
    seconds = sorted(each for since, until in windows for each in load.latencies_s(PAGE_READS, since, until))
    run.expect_at_most(f"{label}: reads p50 {1000 * percentile(seconds, 0.5):.1f} ms, p99", 1000 * percentile(seconds, 0.99), limit_ms)


def expect_reads_served(run, load, since, until):
    """R4: page reads are served, from stale copies or empty if necessary."""
    statuses = load.statuses(PAGE_READS, since, until)
    refused = sum(count for status, count in statuses.items() if status != 200)
    run.expect_none("reads without a 200", refused, [f"statuses {statuses}"] if refused else [])


def recovery_s(load, since, until, names=None):
    """Seconds from `since` to the last reply (to these operations) that was degraded, queued or refused."""
    return load.last_time((0, 202, 503), names, since, until) - since


def is_crash_loss(balance, kills):
    """R5 for a crash of Redis: lost events must have been acknowledged in the last second before it, or during the
    write to the append-only file, which may wait up to another second for a sync.
    """
    return len(balance.lost_times) == balance.lost and all(
        any(kill - FSYNC_INTERVAL_S - 1 <= acknowledged <= kill + CLIENT_DELAY_S for kill in kills) for acknowledged in balance.lost_times)


@fault("F7", "Redis killed and restarted after 3 s (AOF everysec)", "reads 100 % 2xx; normal ≤ 1 s after Redis answers")
def redis_killed(run):
    with run.instance() as service:
        load = run.load(service, run.readers(service), allowed=OUTAGE_STATUSES, think_s=0.004)
        killed, outages, recoveries = [], [], []
        with load:
            for _ in range(run.scale(1, 5)):
                load.wait_for(500)
                pid, began = service.pid("redis"), birth(service.pid("redis"))
                os.kill(pid, signal.SIGKILL)
                killed.append(time.monotonic())
                wait_until(lambda pid=pid, began=began: birth(pid) != began, "Redis to exit")
                time.sleep(3)
                outages.append((killed[-1], time.monotonic()))
                service.restart_redis()
                restarted = time.monotonic()
                time.sleep(3)
                recoveries.append((restarted, time.monotonic()))
        run.report(f"{len(killed)} kills")
        expect_reads_served(run, load, outages[0][0], recoveries[-1][1])
        expect_read_p99(run, load, "while down", READ_P99_MS, *outages)
        run.expect_at_most("normal within", max(recovery_s(load, *window) for window in recoveries), RECOVERY_S, "s")
        run.report(f"{load.statuses(since=killed[0]).get(202, 0):,} writes spooled")
        run.expect_none("unexpected replies", load.failed, load.failures)
        run.check_events(service, load, may_lose=lambda balance: is_crash_loss(balance, killed))
        run.check_replies(load)


@fault("F8", "Redis stopped (SIGSTOP) for 10 s", "p99 ≤ 150 ms, ≤ 20 ms once the circuit breaker is open; R1 holds")
def redis_stopped(run):
    with run.instance() as service:
        load, seconds = run.load(service, run.readers(service), allowed=OUTAGE_STATUSES, think_s=0.004), run.scale(3, 10)
        with load:
            load.wait_for(1000)
            redis, before = service.pid("redis"), time.monotonic()
            try:
                os.kill(redis, signal.SIGSTOP)
                since = time.monotonic()
                time.sleep(seconds)
            finally:
                os.kill(redis, signal.SIGCONT)
            until = time.monotonic()
            time.sleep(2)
        expect_read_p99(run, load, "before", 10**9, (None, before))
        expect_reads_served(run, load, since, until)
        expect_read_p99(run, load, "stopped", READ_P99_MS, (since, until))
        expect_read_p99(run, load, "breaker open", OPEN_READ_P99_MS, (since + 1, until))
        run.expect_at_most("slowest request", 1000 * max(load.latencies_s(None, since, until)), SLOWEST_MS)
        run.report(f"normal after {recovery_s(load, until, None):.2f} s")
        run.expect_none("unexpected replies", load.failed, load.failures)
        run.check_events(service, load)
        run.check_replies(load)


# Settings of the proxy: slow, slower than redis.timeout, one-byte chunks, slow chunks, RST during replies, and a
# mixture.
PROXY_FAULTS = [{"delay_s": (0.001, 0.03)}, {"delay_s": (0.02, 0.09)}, {"chunk": 1}, {"chunk": 1, "chunk_pause_s": 0.0005},
                {"reset_chance": 0.02}, {"delay_s": (0.0, 0.03), "chunk": 7, "reset_chance": 0.01}]


@fault("F9", "a proxy in front of Redis: delays, one-byte chunks, RST during replies", "R1 holds; no request > 300 ms")
def redis_slow(run):
    with run.instance() as service, Proxy(os.path.join(service.state, "run/redis.sock"), run.rng.randrange(2**32)) as proxy:
        readers = run.readers(service)
        service.configure(redis__url=f'"{proxy.url}"')
        service.reload()
        load = run.load(service, readers, allowed=OUTAGE_STATUSES, think_s=0.008)
        with load:
            load.wait_for(300)
            since = time.monotonic()
            for settings in PROXY_FAULTS * run.scale(1, 2):
                proxy.set(**settings)
                time.sleep(run.scale(1, 4))
                until = time.monotonic()
                proxy.set()
                time.sleep(0.5)
            load.wait_for(300)
        service.configure()
        service.reload()
        run.expect_at_most("slowest request", 1000 * max(load.latencies_s(None, since, until)), SLOWEST_MS)
        run.report(f"reads p99 {1000 * percentile(load.latencies_s(PAGE_READS, since, until), 0.99):.0f} ms")
        run.report(f"{proxy.resets} RST, {proxy.chunks:,} chunks, {proxy.delayed:,} delays, {proxy.connections} connections")
        expect_reads_served(run, load, since, until)
        run.expect_none("unexpected replies", load.failed, load.failures)
        run.check_events(service, load)
        run.check_replies(load)


# --- F10: each context manager makes a real Redis answer with one error, and undoes it


def _set_config(service, **values):
    for name, value in values.items():
        service.redis("CONFIG", "SET", name.replace("_", "-"), value)


@contextlib.contextmanager
def oom(service):
    _set_config(service, maxmemory="1")
    yield
    _set_config(service, maxmemory="0")


@contextlib.contextmanager
def readonly(service):
    service.redis("REPLICAOF", "127.0.0.1", "1")
    yield
    service.redis("REPLICAOF", "NO", "ONE")


LOADING_S = 5  # longer than a worker waits between two attempts to connect


@contextlib.contextmanager
def loading(service):
    """Restarts Redis with a file that takes LOADING_S to load."""
    # Redis answers between keys whose values cannot be compressed. With other values it answers only after about fifty
    # keys, which is beyond every deadline.
    service.redis("EVAL", "for i = 1, 2000 do local t = {} for j = 1, 30 do t[j] = redis.sha1hex(i * 30 + j) end "
                          "redis.call('SET', 'hot:session:{load}:' .. i, table.concat(t), 'EX', 3600) end", 0)
    # The base of the append-only file is loaded key by key. While Redis replays commands it answers nothing.
    service.redis("BGREWRITEAOF")
    wait_until(lambda: service.persistence("aof_rewrite_in_progress") == "0" and service.persistence("aof_base_size") != "0", "the rewrite of the append-only file")
    delay_us = LOADING_S * 10**6 // service.redis("DBSIZE")
    pid, began = service.pid("redis"), birth(service.pid("redis"))
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: birth(pid) != began, "Redis to exit")
    starting = threading.Thread(target=service.restart_redis, args=("--key-load-delay", str(delay_us), "--loading-process-events-interval-bytes", "1024"))
    starting.start()
    wait_until(lambda: _fails_with(service, "LOADING"), "Redis to answer LOADING")
    yield
    starting.join()


def _fails_with(service, code):
    try:
        service.redis("GET", "hot:epoch")
    except AssertionError as error:
        return code in str(error)
    return False


@contextlib.contextmanager
def busy(service):
    _set_config(service, busy_reply_threshold="5")
    with subprocess.Popen([REDIS_CLI, "-s", os.path.join(service.state, "run/redis.sock"), "EVAL", "while true do end", "0"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as endless:
        yield
        wait_until(lambda: _kill_script(service), "the script to end")
        endless.wait(20)
    _set_config(service, busy_reply_threshold="5000")


def _kill_script(service):
    """Returns whether Redis accepted SCRIPT KILL, or runs no script."""
    try:
        service.redis("SCRIPT", "KILL")
    except AssertionError as error:
        return "NOTBUSY" in str(error)
    return True


@contextlib.contextmanager
def misconf(service):
    """Makes a snapshot fail by killing its process."""
    _set_config(service, save="3600 1", rdb_key_save_delay="100000")
    service.redis("BGSAVE")
    saver = wait_until(lambda: next((pid for pid in children(service.pid("redis")) if comm(pid)), None), "the snapshot's process")
    os.kill(saver, signal.SIGKILL)
    wait_until(lambda: "rdb_last_bgsave_status:err" in service.redis("EVAL", "return redis.call('INFO', 'persistence')", 0), "the snapshot to fail")
    yield
    _set_config(service, save="", rdb_key_save_delay="0")


@contextlib.contextmanager
def noauth(service):
    """Disables the service's account and closes its connections."""
    service.redis("ACL", "SETUSER", "freshet", "off")
    service.redis("CLIENT", "KILL", "USER", "freshet")
    yield
    service.redis("ACL", "SETUSER", "freshet", "on")


@contextlib.contextmanager
def noperm(service):
    """Revokes commands that most requests need."""
    service.redis("ACL", "SETUSER", "freshet", "-evalsha", "-hmget", "-xreadgroup")
    yield
    service.redis("ACL", "SETUSER", "freshet", "+evalsha", "+hmget", "+xreadgroup")


STATES = {"OOM": oom, "READONLY": readonly, "LOADING": loading, "BUSY": busy, "MISCONF": misconf, "NOAUTH": noauth, "NOPERM": noperm}
COUNTER_NAMES = {"NOPERM": "permission"}  # others have the state's name in lower case


def find_counter(status, name):
    """The value of the counter with this name anywhere in the status, or None."""
    for key, value in status.items():
        if isinstance(value, dict):
            if (inner := find_counter(value, name)) is not None:
                return inner
        elif isinstance(value, int) and (key == name or key.endswith(f" {name}")):
            return value
    return None


def round_trips(service, load):
    """(round trips of the workers to Redis, requests of the load) so far."""
    return service.status()["redis round trips"], load.requests


@fault("F10", "Redis refuses: OOM, READONLY, LOADING, BUSY, MISCONF, NOAUTH, NOPERM in turn", "≤ 2 attempts a request, each state counted")
def redis_refuses(run):
    with run.instance() as service:
        service.expects_acl_denials = True
        load, max_attempts, uncounted, refused = run.load(service, run.readers(service), allowed=OUTAGE_STATUSES, think_s=0.008), 0.0, [], {}
        with load:
            for name, state in STATES.items():
                load.wait_for(200)
                counter = COUNTER_NAMES.get(name, name.lower())
                before = find_counter(service.status(), counter) or 0
                with state(service):
                    began, first = time.monotonic(), round_trips(service, load)
                    time.sleep(run.scale(0.7, 4))
                    until, last = time.monotonic(), round_trips(service, load)
                max_attempts = max(max_attempts, (last[0] - first[0]) / max(1, last[1] - first[1]))
                for status, count in load.statuses(PAGE_READS, began, until).items():
                    if status != 200:
                        refused[f"{name}: {status}"] = count
                if (find_counter(service.status(), counter) or 0) <= before:
                    uncounted.append(counter)
                wait_until(lambda: _is_normal(service), f"normal service after {name}", 20)
        run.report(f"{len(STATES)} states")
        run.expect_at_most("at most", max_attempts, 2, "attempts a request")
        run.report(f"not counted: {', '.join(uncounted)}" if uncounted else "each state counted", not uncounted)
        run.expect_none("reads without a 200", sum(refused.values()), [str(refused)] if refused else [])
        run.expect_none("unexpected replies", load.failed, load.failures)
        run.check_events(service, load)
        run.check_replies(load)


def _is_normal(service):
    reply = service.internal().track("f10-probe", 1, userId="f10-probe", sessionId=str(time.monotonic_ns()))
    return reply.status == 200


# --- F18


def is_flush_loss(balance, flushes):
    """Events that were acknowledged before the last FLUSHALL are lost, and no others."""
    return len(balance.lost_times) == balance.lost and all(each <= flushes[-1] + CLIENT_DELAY_S for each in balance.lost_times)


@fault("F18", "FLUSHALL and SCRIPT FLUSH under load", "0 × 5xx; items return, later reports count once; old lists gone ≤ 3 s")
def redis_flushed(run):
    with run.instance(long_timeouts=True) as service:
        readers = run.readers(service, 12)
        items = {item for reader in readers for item in reader.items}
        wait_until(lambda: service.status()["recorder items"] >= len(items), "the items to be recorded")
        # 404: items that the recorder has not restored yet.
        load = run.load(service, readers, connections=6, think_s=0.01, only=("track", "view", "hot", "item"), allowed=(200, 404))
        flushes, forgotten_s, restored_s = [], [], []

        def listed(item):
            return any(each["id"] == item for each in service.internal().get("/api/hot?model=engagement&limit=100").json())

        with load:
            for number in range(run.scale(2, 10)):
                old = f"only-before-{number}"
                service.internal().track(old, 1)
                wait_until(lambda old=old: listed(old), "the article to be listed")
                load.wait_for(200)
                service.redis("FLUSHALL")
                service.redis("SCRIPT", "FLUSH")
                flushes.append(time.monotonic())
                wait_until(lambda old=old: not listed(old), "the list from before to be gone", 30)
                forgotten_s.append(time.monotonic() - flushes[-1])
                wait_until(lambda: _is_restored(service, items, len(flushes)), "the recorder to restore the items", 60)
                restored_s.append(time.monotonic() - flushes[-1])
                load.wait_for(100)
        errors = {status: count for status, count in load.statuses().items() if status == 0 or status >= 500}
        run.report(f"{len(flushes)} flushes; items restored within {max(restored_s):.1f} s")
        run.expect_at_most("old lists gone after", max(forgotten_s), 3, "s")
        run.expect_none("× 5xx or lost", sum(errors.values()), [str(errors)])
        run.expect_none("unexpected replies", load.failed, load.failures)
        run.report("the schema is marked again", service.redis("HGET", "hot:rank:meta", "schema") is not None, safety=True)
        balance = run.check_events(service, load, may_lose=lambda balance: is_flush_loss(balance, flushes))
        run.report(f"{balance.acknowledged - balance.lost:,} counted since the last flush", balance.acknowledged > balance.lost, safety=True)
        run.check_replies(load)


def _is_restored(service, items, losses):
    """Returns whether the recorder has repaired so many losses, and the service has these items."""
    status = service.status()
    if status["redis lost since"] or status["recorder lag entries"] or service.log().count("event=redis_rebuilt ") < losses:
        return False
    internal = service.internal()
    return all(internal.get(f"/api/items/{item}").status == 200 for item in sorted(items))

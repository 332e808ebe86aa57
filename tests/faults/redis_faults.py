"""F7 to F10: Redis dies, hangs, is slow, breaks off, or says no."""

import contextlib
import os
import signal
import subprocess
import threading
import time

from proxy import Proxy
from service import birth, children, comm, wait_until

from faults.load import LISTS
from faults.scenario import fault, percentile

READS_MS, OPEN_MS, SLOWEST_MS = 150, 20, 300
BACK_S = 1.0
FSYNC_S = 1.0          # what a crash of Redis may cost (AOF everysec)
LATE_S = 0.1           # a client hears of an acknowledgement so much later
AWAY = (200, 429, 503)  # of an item or counters that only Redis has


def reads(run, load, what, limit_ms, *windows):
    seconds = sorted(each for since, until in windows for each in load.seconds(LISTS, since, until))
    run.at_most(f"{what}: reads p50 {1000 * percentile(seconds, 0.5):.1f} ms, p99", 1000 * percentile(seconds, 0.99), limit_ms)


def all_answered(run, load, since, until):
    """R4: a read is answered, perhaps from an old copy, perhaps with nothing."""
    statuses = load.statuses(LISTS, since, until)
    refused = sum(count for status, count in statuses.items() if status != 200)
    run.none("reads without a 200", refused, [f"statuses {statuses}"] if refused else [])


def back_to_normal(load, since, until, names=None):
    """Seconds from `since` to the last reply (to these operations) that was degraded, queued or refused."""
    return load.last_of((0, 202, 503), names, since, until) - since


def lost_within_a_second(balance, kills):
    """R5 of a crash of Redis: what it loses was acknowledged in the last second before it (and the write to the file, which may wait for a sync)."""
    return len(balance.lost_times) == balance.lost and all(
        any(kill - FSYNC_S - 1 <= when <= kill + LATE_S for kill in kills) for when in balance.lost_times)


@fault("F7", "kill -9 Redis (AOF everysec), start it again after 3 s", "reads 100 % 2xx; normal ≤ 1 s after Redis answers")
def redis_killed(run):
    with run.instance() as service:
        load = run.load(service, run.readers(service), allowed=AWAY, think_s=0.004)
        killed, away, back = [], [], []
        with load:
            for _ in range(run.scale(1, 5)):
                load.wait_for(500)
                pid, began = service.pid("redis"), birth(service.pid("redis"))
                os.kill(pid, signal.SIGKILL)
                killed.append(time.monotonic())
                wait_until(lambda pid=pid, began=began: birth(pid) != began, "Redis' end")
                time.sleep(3)
                away.append((killed[-1], time.monotonic()))
                service.restart_redis()
                answers = time.monotonic()
                time.sleep(3)
                back.append((answers, time.monotonic()))
        run.figure(f"{len(killed)} kills")
        all_answered(run, load, away[0][0], back[-1][1])
        reads(run, load, "away", READS_MS, *away)
        run.at_most("normal after at most", max(back_to_normal(load, *window) for window in back), BACK_S, "s")
        run.figure(f"{load.statuses(since=killed[0]).get(202, 0):,} writes spooled")
        run.none("unexpected replies", load.failed, load.failures)
        run.balance(service, load, may_lose=lambda balance: lost_within_a_second(balance, killed))
        run.judge(load)


@fault("F8", "SIGSTOP Redis for 10 s", "p99 ≤ 150 ms, ≤ 20 ms once open; R1 holds")
def redis_stopped(run):
    with run.instance() as service:
        load, seconds = run.load(service, run.readers(service), allowed=AWAY, think_s=0.004), run.scale(3, 10)
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
        reads(run, load, "before", 10**9, (None, before))
        all_answered(run, load, since, until)
        reads(run, load, "stopped", READS_MS, (since, until))
        reads(run, load, "open", OPEN_MS, (since + 1, until))
        run.at_most("the slowest of all", 1000 * max(load.seconds(None, since, until)), SLOWEST_MS)
        run.figure(f"normal after {back_to_normal(load, until, None):.2f} s")
        run.none("unexpected replies", load.failed, load.failures)
        run.balance(service, load)
        run.judge(load)


HARMS = [("slow", {"delay_s": (0.001, 0.03)}), ("slower than its deadline", {"delay_s": (0.02, 0.09)}),
         ("1-byte chunks", {"chunk": 1}), ("slow chunks", {"chunk": 1, "chunk_pause_s": 0.0005}),
         ("RST in mid-reply", {"reset_chance": 0.02}), ("all of it", {"delay_s": (0.0, 0.03), "chunk": 7, "reset_chance": 0.01})]


@fault("F9", "a TCP proxy before Redis: delays, 1-byte chunks, RST in mid-reply", "R1 holds; no request > 300 ms")
def redis_slow(run):
    with run.instance() as service, Proxy(os.path.join(service.state, "run/redis.sock"), run.dice.randrange(2**32)) as proxy:
        readers = run.readers(service)
        service.configure(redis__url=f'"{proxy.url}"')
        service.reload()
        load, windows = run.load(service, readers, allowed=AWAY, think_s=0.008), []
        with load:
            load.wait_for(300)
            for name, harm in HARMS * run.scale(1, 2):
                proxy.set(**harm)
                began = time.monotonic()
                time.sleep(run.scale(1, 4))
                windows.append((name, began, time.monotonic()))
                proxy.set()
                time.sleep(0.5)
            load.wait_for(300)
        service.configure()
        service.reload()
        slowest = load.seconds(None, windows[0][1], windows[-1][2])
        run.at_most("the slowest request", 1000 * slowest[-1], SLOWEST_MS)
        run.figure(f"reads p99 {1000 * percentile(load.seconds(LISTS, windows[0][1], windows[-1][2]), 0.99):.0f} ms")
        run.figure(f"{proxy.resets} RST, {proxy.chunks:,} chunks, {proxy.delayed:,} delays, {proxy.connections} connections")
        all_answered(run, load, windows[0][1], windows[-1][2])
        run.none("unexpected replies", load.failed, load.failures)
        run.balance(service, load)
        run.judge(load)


# --- F10: each makes a real Redis say one thing, and undoes it


def _config(service, **values):
    for name, value in values.items():
        service.redis("CONFIG", "SET", name.replace("_", "-"), value)


@contextlib.contextmanager
def oom(service):
    _config(service, maxmemory="1")
    yield
    _config(service, maxmemory="0")


@contextlib.contextmanager
def readonly(service):
    service.redis("REPLICAOF", "127.0.0.1", "1")
    yield
    service.redis("REPLICAOF", "NO", "ONE")


LOADING_S = 5  # longer than a worker waits between two tries to connect


@contextlib.contextmanager
def loading(service):
    """Started again with a file that it takes its time to read."""
    # Between two keys that cannot be compressed Redis answers; else only after some fifty, which is beyond every deadline.
    service.redis("EVAL", "for i = 1, 2000 do local t = {} for j = 1, 30 do t[j] = redis.sha1hex(i * 30 + j) end "
                          "redis.call('SET', 'hot:session:{load}:' .. i, table.concat(t), 'EX', 3600) end", 0)
    # As the base of the file it is read key by key; while it reads commands Redis listens to nobody.
    service.redis("BGREWRITEAOF")
    wait_until(lambda: service.persistence("aof_rewrite_in_progress") == "0" and service.persistence("aof_base_size") != "0", "the file's base")
    delay_us = LOADING_S * 10**6 // service.redis("DBSIZE")
    pid, began = service.pid("redis"), birth(service.pid("redis"))
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: birth(pid) != began, "Redis' end")
    starting = threading.Thread(target=service.restart_redis, args=("--key-load-delay", str(delay_us), "--loading-process-events-interval-bytes", "1024"))
    starting.start()
    wait_until(lambda: _says(service, "LOADING"), "LOADING")
    yield
    starting.join()


def _says(service, what):
    try:
        service.redis("GET", "hot:epoch")
    except AssertionError as error:
        return what in str(error)
    return False


@contextlib.contextmanager
def busy(service):
    _config(service, busy_reply_threshold="5")
    with subprocess.Popen(["redis-cli", "-s", os.path.join(service.state, "run/redis.sock"), "EVAL", "while true do end", "0"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as endless:
        yield
        wait_until(lambda: _script_killed(service), "the script's end")
        endless.wait(20)
    _config(service, busy_reply_threshold="5000")


def _script_killed(service):
    try:
        service.redis("SCRIPT", "KILL")
    except AssertionError as error:
        return "NOTBUSY" in str(error)
    return True


@contextlib.contextmanager
def misconf(service):
    """A snapshot that fails: its process is killed."""
    _config(service, save="3600 1", rdb_key_save_delay="100000")
    service.redis("BGSAVE")
    saver = wait_until(lambda: next((pid for pid in children(service.pid("redis")) if comm(pid)), None), "the saver")
    os.kill(saver, signal.SIGKILL)
    wait_until(lambda: "rdb_last_bgsave_status:err" in service.redis("EVAL", "return redis.call('INFO', 'persistence')", 0), "the failure")
    yield
    _config(service, save="", rdb_key_save_delay="0")


@contextlib.contextmanager
def noauth(service):
    """The service's account is switched off, and its connections ended."""
    service.redis("ACL", "SETUSER", "freshet", "off")
    service.redis("CLIENT", "KILL", "USER", "freshet")
    yield
    service.redis("ACL", "SETUSER", "freshet", "on")


@contextlib.contextmanager
def noperm(service):
    """Its account loses the right to what most requests need."""
    service.redis("ACL", "SETUSER", "freshet", "-evalsha", "-hmget", "-xreadgroup")
    yield
    service.redis("ACL", "SETUSER", "freshet", "+evalsha", "+hmget", "+xreadgroup")


STATES = {"OOM": oom, "READONLY": readonly, "LOADING": loading, "BUSY": busy, "MISCONF": misconf, "NOAUTH": noauth, "NOPERM": noperm}
COUNTED = {"NOPERM": "permission"}  # the classes' names are else the states' in lower case


def counted(status, name):
    """A counter of that name anywhere in the status, or None."""
    for key, value in status.items():
        if isinstance(value, dict):
            if (inner := counted(value, name)) is not None:
                return inner
        elif isinstance(value, int) and (key == name or key.endswith(f" {name}")):
            return value
    return None


def round_trips(service, load):
    """Of the workers to Redis, and the load's requests."""
    return service.status()["redis round trips"], load.requests


@fault("F10", "OOM, READONLY, LOADING, BUSY, MISCONF, NOAUTH, NOPERM, each for a while", "≤ 2 tries a request, a counter each")
def redis_refuses(run):
    with run.instance() as service:
        service.expects_refusals = True
        load, most, uncounted, refused = run.load(service, run.readers(service), allowed=AWAY, think_s=0.008), 0.0, [], {}
        with load:
            for name, state in STATES.items():
                load.wait_for(200)
                wanted = COUNTED.get(name, name.lower())
                before = counted(service.status(), wanted) or 0
                with state(service):
                    began, first = time.monotonic(), round_trips(service, load)
                    time.sleep(run.scale(0.7, 4))
                    until, last = time.monotonic(), round_trips(service, load)
                most = max(most, (last[0] - first[0]) / max(1, last[1] - first[1]))
                for status, count in load.statuses(LISTS, began, until).items():
                    if status != 200:
                        refused[f"{name}: {status}"] = count
                if (counted(service.status(), wanted) or 0) <= before:
                    uncounted.append(wanted)
                wait_until(lambda: _normal(service), f"normal service after {name}", 20)
        run.figure(f"{len(STATES)} states")
        run.at_most("tries a request", most, 2, "")
        run.figure(f"not counted: {', '.join(uncounted)}" if uncounted else "a counter each", not uncounted)
        run.none("reads without a 200", sum(refused.values()), [str(refused)] if refused else [])
        run.none("unexpected replies", load.failed, load.failures)
        run.balance(service, load)
        run.judge(load)


def _normal(service):
    reply = service.internal().track("f10-probe", 1, userId="f10-probe", sessionId=str(time.monotonic_ns()))
    return reply.status == 200

"""A complete instance of the service, started by scripts/run in its own temporary directory."""

import binascii
import contextlib
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from client import Client

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import loopback  # noqa: E402
import redis_client  # noqa: E402
from redis_programs import REDIS_CLI, REDIS_SERVER  # noqa: E402
from waiting import remove_tree, wait_until  # noqa: E402

BUILD = os.environ.get("FRESHET_BUILD_DIR", os.path.join(ROOT, "build/release"))
CTL = os.path.join(BUILD, "scripts/freshetctl")  # not scripts/freshetctl, which checks packages and the build first
SHARED = os.environ.get("FRESHET_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))

# Number of masters of the Redis Cluster that each instance uses instead of a single server. 0: a single server.
CLUSTER = int(os.environ.get("FRESHET_CLUSTER", "0"))
FIRST_NODE = 7101
# In a cluster, keys shared by all articles end with one fixed hash tag (Keys::kShared), keys of a partition with the
# partition's tag.
SHARED_KEY = re.compile(r"(hot:(epoch|groups|lost|list[^{}]*|rank:(lock|turn))|recorder:lease)$")
PARTITION_KEY = re.compile(r"(hot:(rank|placed|unplaced|score|published|hidden|newest|unlisted|current)(:[^{}]*)?|tag:[^{}]*|recorder:(stream|fence))$")
PARTITIONS = 16
# Index of the member argument, counted from the key.
MEMBER_OFFSET = {"ZADD": 2} | dict.fromkeys(("ZSCORE", "ZRANK", "ZREVRANK", "ZREM", "SISMEMBER", "SADD", "SREM", "HDEL"), 1)


def partition_tags():
    """Hash tags of the partitions, computed like core/redis/partitions/partitions.cpp does."""
    with open(os.path.join(ROOT, "core/redis/partitions/partitions.cpp"), encoding="utf-8") as file:
        table = "".join(re.findall(r'^    "(\w+)";?$', file.read(), re.M))
    tags = [table[start:start + 3] for start in range(0, len(table), 3)]
    return [tags[(2 * partition + 1) * len(tags) // (2 * PARTITIONS)] for partition in range(PARTITIONS)]


def partition_of(article):
    return binascii.crc_hqx(str(article).encode(), 0) % 16384 * PARTITIONS // 16384

REQUEST_ID = r"\d+\.\d{3}-\d+-\d+"  # the format set in nginx/freshet-http.conf
# Redis may take longer than the default 50 ms on a machine that is busy with builds or other tests.
LONG_TIMEOUTS = {"redis__timeout": '"1s"', "gateway__request_budget": '"3s"'}
# Makes nginx close idle connections to workers after a tenth of the shipped time, so that draining workers exit soon.
# nginx still closes first.
SHORT_KEEPALIVE = r"s/^\( *keepalive_\(time\|timeout\)\) 5s;/\1 500ms;/"


def kill_while_running(max_s, *command):
    """Starts a freshetctl command and kills it after a random time of at most `max_s`. Returns whether it was still running."""
    process = subprocess.Popen([CTL, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(random.uniform(0, max_s))
    was_running = process.poll() is None
    if was_running:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return was_running


def children(pid):
    """Reads the list until two consecutive reads agree: the kernel may omit a child while another one exits."""
    def read():
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                return [int(child) for child in file.read().split()]
        except OSError:
            return []
    before, now = None, read()
    while now != before:
        before, now = now, read()
    return now


def birth(pid):
    """Start time of the process in clock ticks since boot, as text. None if it does not exist or is a zombie."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def rss_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


CLOCK_TICKS = os.sysconf("SC_CLK_TCK")  # a second


def cpu_ticks(pid):
    """CPU time of the process so far."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def descriptors(pid):
    """The process's open descriptors, without the files of the search index: a worker opens those of each week's
    partition at its first search and keeps them, and how many weeks the items span depends on the date."""
    count = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since
            count += not os.readlink(f"/proc/{pid}/fd/{name}").endswith(".glass")
    return count


def kill_workers(service, load, done, times):
    """Kills random workers, one at a time: each after the load has added entries to `done`, and once the pool is complete again."""

    def alive():
        return {pid for pid in service.workers() if birth(pid)}

    pool_size = len(alive())
    for _ in range(times):
        count_before = len(done)
        wait_until(lambda count_before=count_before: len(done) > count_before + 4 or load.errors, "progress of the load")
        victim = random.choice(sorted(alive()))
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda victim=victim: victim not in alive() and len(alive()) == pool_size, "a complete pool")


def stop_orphans():
    """Stops instances left behind by test runs that were killed."""
    for state in glob.glob("/tmp/freshet-e2e-*"):
        pid = int(state.split("-")[2])
        if not os.path.exists(f"/proc/{pid}"):
            subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", state], capture_output=True, check=False, timeout=480)
            shutil.rmtree(state, ignore_errors=True)


class Instance:
    """One instance. options: for scripts/run. directives: dotted configuration names (dots written as __) and their
    TOML values. `peer`: an instance whose Redis this one uses too, as if both were hosts of one deployment.
    """

    def __init__(self, *options, peer=None, **directives):
        self.peer = peer
        if peer:
            options += ("--redis", peer.redis_url())
            directives = {"redis__username": '"freshet"', "redis__password_file": f'"{peer.state}/etc/redis-service"'} | directives
        # Not pytest's tmp_path: the path of a unix socket is limited to 107 bytes.
        self.state = tempfile.mkdtemp(prefix=f"freshet-e2e-{os.getpid()}-", dir="/tmp")
        os.chmod(self.state, 0o755)
        if CLUSTER and not {"--redis", "--cluster"} & set(options):
            options += ("--cluster", str(CLUSTER))
        self.masters = int(options[options.index("--cluster") + 1]) if "--cluster" in options else 0
        self._loopback = loopback.Loopback()
        self.host, self.port, self.internal_port = self._loopback.host, loopback.PUBLIC, loopback.INTERNAL
        self.command_prefix = []  # words in front of the start command
        self.socket_path = os.path.join(self.state, "run/freshetd.sock")
        self._options, self.nginx_edit = options, SHORT_KEEPALIVE
        # Most tests report articles that were never PUT, and check the effect of the first report.
        self._nodes = []
        self._seen, self._directives = {}, {"items__unknown": '"list"', "limits__contribution_after": 0} | directives
        self.expects_acl_denials = False  # Redis ACL denials are part of the test
        self.environment = {}  # added to the environment of its processes
        self.configure()
        # A fixed salt: with some salts, two of a handful of visitors fall into the same HyperLogLog register and count
        # as one.
        with open(os.path.join(self.state, "etc/salt"), "w", opener=lambda path, flags: os.open(path, flags, 0o600), encoding="ascii") as file:
            file.write("0123456789abcdef" * 4)

    def configure(self, **directives):
        """Writes the configuration with `directives` as changes to the initial one. Takes effect at the next start or reload."""
        folder = os.path.join(self.state, "etc/conf.d")
        os.makedirs(folder, exist_ok=True)
        lines = [f"{name.replace('__', '.')} = {value}\n" for name, value in (self._directives | directives).items()]
        with open(os.path.join(folder, "test.toml"), "w", encoding="utf-8") as file:
            file.writelines(lines)

    def start(self):
        command = [*self.command_prefix, os.path.join(ROOT, "scripts/run"), "--detach", "--no-sample", "--state", self.state, "--address", self._loopback.host,
                   "--port", str(self.port), "--internal-port", str(self.internal_port), *self._options]
        done = subprocess.run(command, env=os.environ | self.environment | {"FRESHET_NGINX_EDIT": self.nginx_edit}, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        wait_until(lambda: self.internal().get("/ping").status == 200, "a reply to /ping")
        wait_until(self._all_processes_run, "all processes")
        self.record_processes()
        return self

    def _all_processes_run(self):
        status = self.status()
        return status["recorder"] in ("running", "waiting", "off") and status["total processes"] == len(self.workers())

    def stop(self):
        """Stops the instance. Fails if a process survives, or if Redis denied the service's account a command."""
        self.record_processes()
        denials = self.acl_denials()
        subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", self.state], stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=480, check=True)
        survivors = {pid: role for pid, (began, role) in self._seen.items() if birth(pid) == began}
        remove_tree(self.state)
        self._loopback.close()
        assert not survivors, f"still running after the stop: {survivors}"
        assert not denials or self.expects_acl_denials, f"Redis denied the shipped account: {denials}"

    def acl_denials(self):
        """ACL denials of the service's account (systemd/redis-acl.conf) since Redis was started. Empty if Redis is unreachable."""
        try:
            return [(entry["reason"], entry["object"], entry["username"]) for entry in self.redis("ACL", "LOG")]
        except (AssertionError, ValueError, subprocess.TimeoutExpired):
            return []

    # --- processes

    def pid(self, role):
        """`role`: redis, freshetd (its master) or nginx (its master)."""
        if role == "redis" and self.masters:
            pytest.skip("needs a single Redis server")
        with open(os.path.join(self.state, "run/processes"), encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.split()[0] == role)

    def workers(self):
        return [pid for pid in children(self.pid("freshetd")) if comm(pid) == "freshetd-worker"]

    def recorder(self):
        """pid of the running recorder, or None."""
        return next((pid for pid in children(self.pid("freshetd")) if comm(pid) == "freshetd-record" and birth(pid)), None)

    def status_process(self):
        """pid of the running status process, or None."""
        return next((pid for pid in children(self.pid("freshetd")) if comm(pid) == "freshetd-status" and birth(pid)), None)

    def record_processes(self):
        """Records the running processes for the check in stop(). Returns {pid: (start time, role)}."""
        now = {}
        for role in ("redis", "freshetd", "nginx") if not self.masters else ("freshetd", "nginx"):
            try:
                pid = self.pid(role)
            except (OSError, StopIteration):
                continue
            for each in (pid, *children(pid)):
                if began := birth(each):
                    now[each] = (began, role)
        self._seen.update(now)
        return now

    def signal(self, role, number):
        os.kill(self.pid(role), number)

    def reload(self):
        """Sends SIGHUP and waits until the new generation serves and the old workers were told to drain."""
        before = self.status()["generation"]
        self.signal("freshetd", signal.SIGHUP)
        wait_until(lambda: self.status()["generation"] > before, "a new generation")
        self.record_processes()

    def replace_process(self, role, pid, stop_signal):
        """Registers a process started by the test in the place of a dead one, so that stop() ends it with `stop_signal`."""
        path = os.path.join(self.state, "run/processes")
        with open(path, encoding="utf-8") as file:
            lines = [f"{role} {pid} {birth(pid)} {stop_signal}" if line.split()[0] == role else line for line in file.read().splitlines()]
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        os.replace(path + ".new", path)  # readers see the old or the new file, never half of it
        self.record_processes()

    def reload_and_drain(self):
        """reload(), then waits until all old workers have exited: they answer for a while."""
        before = set(self.workers())
        self.reload()
        wait_until(lambda: not before & set(self.workers()), "the exit of the old workers")

    # --- requests and Redis

    def public(self, **options):
        return Client(self.host, self.port, **options)

    def internal(self, **options):
        return Client(self.host, self.internal_port, **options)

    def status(self):
        return self.internal().get("/status?json").json()

    def redis(self, *command):
        """Runs a command and returns the reply decoded from JSON; fails on an error reply. In a cluster it runs on the
        node that owns the key, or on all masters or partitions, with merged replies.
        """
        if not self.masters:
            return self.redis_command(*command)
        name, *arguments = (f"{each}:{{all}}" if SHARED_KEY.match(str(each)) else each for each in command)
        index = next((position for position, argument in enumerate(arguments) if PARTITION_KEY.match(str(argument))), None)
        if index is not None and name != "KEYS":
            return self._redis_on_partitions(name, arguments, index)
        if name in ("KEYS", "ACL", "CLIENT"):
            replies = [self.redis_command(name, *arguments, node=node) for node in self.nodes("master")]
            assert replies, "no master replies"
            return [each for reply in replies for each in reply] if isinstance(replies[0], list) else replies[0]
        if name == "EVAL":
            pytest.skip("one script accesses keys of several slots")
        if name == "FLUSHALL":
            return [self.redis_command(name, node=node) for node in self.nodes("master")][0]
        if name == "DEL":
            return sum(self.redis_command(name, each) for each in arguments)
        return self.redis_command(name, *arguments)

    def _redis_on_partitions(self, name, arguments, index):
        """Runs the command on the member's partition, or on all of them: numbers are added, lists are concatenated."""
        keys = [f"{arguments[index]}:{{{tag}}}" for tag in partition_tags()]
        if name in MEMBER_OFFSET:
            keys = [keys[partition_of(arguments[index + MEMBER_OFFSET[name]])]]
        replies = [self.redis_command(name, *arguments[:index], key, *arguments[index + 1:]) for key in keys]
        if len(replies) == 1:
            return replies[0]
        replies = [each for each in replies if each is not None]
        if replies and isinstance(replies[0], list):
            return [each for reply in replies for each in reply]
        return sum(replies) if replies and isinstance(replies[0], int) else next(iter(replies), None)

    def redis_command(self, *command, node=None):
        """Runs a command on one node of a cluster (by port), which may redirect to another."""
        if not self.masters:
            return redis_client.query(self.redis_socket(), *command)
        done = subprocess.run([*self._redis_cli(node), "-e", "--json", *map(str, command)], env=self._redis_environment(), capture_output=True,
                              check=False, timeout=80)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return json.loads(done.stdout.decode(errors="replace"))  # some values are binary

    def redis_text(self, *command, node=None):
        """For commands with a plain-text reply, such as INFO."""
        if not self.masters:
            return redis_client.query(self.redis_socket(), *command).replace("\r\n", "\n")
        done = subprocess.run([*self._redis_cli(node), "-e", *command], env=self._redis_environment(), capture_output=True, text=True, check=False, timeout=80)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def nodes(self, role):
        """Ports of the cluster's live nodes with the role "master" or "slave"."""
        for port in range(FIRST_NODE, FIRST_NODE + 2 * self.masters):
            with contextlib.suppress(AssertionError):
                rows = [line.split() for line in self.redis_text("CLUSTER", "NODES", node=port).splitlines()]
                return [int(row[1].split("@")[0].rsplit(":", 1)[1]) for row in rows if role in row[2] and "fail" not in row[2] and row[7] == "connected"]
        return []

    def redis_url(self):
        if not self.masters:
            return f"unix://{self.redis_socket()}"
        return "redis+cluster://" + ",".join(f"{self.host}:{FIRST_NODE + number}" for number in range(self.masters))

    def redis_socket(self):
        if self.masters:
            pytest.skip("needs a single Redis server")
        return os.path.join(self.state, "run/redis.sock")

    def _redis_cli(self, node=None):
        return [REDIS_CLI, "-c", "-h", self.host, "-p", str(node or FIRST_NODE)]

    def _redis_environment(self):
        with open(os.path.join(self.state, "etc/redis-default"), encoding="ascii") as file:
            return os.environ | {"REDISCLI_AUTH": file.read()}

    def persistence(self, field):
        """One field of INFO persistence."""
        text = self.redis_text("INFO", "persistence")
        return dict(line.split(":", 1) for line in text.split() if ":" in line)[field]

    def kill_redis(self):
        """Kills Redis with SIGKILL after it has flushed its acknowledged writes to disk, and waits until it is gone."""
        self.redis("CONFIG", "SET", "appendfsync", "always")  # flushes buffered writes immediately
        pid = self.pid("redis")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: birth(pid) is None, "the exit of Redis")

    def make_redis_unavailable(self):
        """kill_redis(), then waits until every worker has noticed."""
        self.kill_redis()
        wait_until(lambda: self.status()["redis ready"] == 0, "the workers to notice that Redis is unavailable")

    def restart_redis(self, *options, environment=None):
        """Starts the killed server again on the same files. options: extra arguments for redis-server; environment: extra variables."""
        run = os.path.join(self.state, "run")
        user = os.stat(os.path.join(self.state, "redis"))
        with open(os.path.join(self.state, "log/redis.log"), "ab") as log:
            process = subprocess.Popen(
                [REDIS_SERVER, f"{self.state}/etc/redis-acl.conf", "--port", "0", "--unixsocket", f"{run}/redis.sock", "--unixsocketperm", "770",
                 "--dir", f"{self.state}/redis", "--appendonly", "yes", "--appendfsync", "everysec", "--save", "", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, user=user.st_uid, group=user.st_gid,
                env=os.environ | (environment or {}))
        self.replace_process("redis", process.pid, "TERM")
        self._redis = process  # a reference, so that the process is reaped
        wait_until(self._redis_replies, "Redis")

    # --- cluster

    def node_pid(self, port):
        with open(os.path.join(self.state, "run/processes"), encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.split()[0] == f"redis-{port}")

    def start_node(self, port):
        """Starts the killed node again on the same files."""
        folder = os.path.join(self.state, f"redis/{port}")
        user = os.stat(folder)
        with open(os.path.join(self.state, f"log/redis-{port}.log"), "ab") as log:
            process = subprocess.Popen(
                [REDIS_SERVER, f"{self.state}/etc/redis-acl.conf", "--bind", self.host, "--port", str(port), "--cluster-enabled", "yes",
                 "--cluster-announce-ip", self.host, "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no", "--dir", folder, "--appendonly", "yes",
                 "--appendfsync", "everysec", "--save", ""],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, user=user.st_uid, group=user.st_gid)
        self.replace_process(f"redis-{port}", process.pid, "TERM")
        self._nodes.append(process)  # references, so that the processes are reaped

    def _redis_replies(self):
        try:
            return self.redis("PING") == "PONG"
        except (AssertionError, ValueError):
            return False

    def check(self):
        """Checks the invariants of the running instance: key names, TTLs, caps, sums. Pending rank updates are written
        first, because freshetctl would otherwise check them twice.
        """
        self.wait_for_background_writes(1)
        done = subprocess.run([CTL, "check", "--state", self.state], capture_output=True,
                              text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def log(self, name="freshetd"):
        with open(os.path.join(self.state, f"log/{name}.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    # --- common steps

    def put(self, item, **members):
        """PUTs an item, by default published now."""
        members = {"title": f"about {item}", "published_at": int(time.time())} | members
        reply = self.internal().put(f"/api/items/{item}", members)
        assert reply.status == 200, reply
        return members

    def wait_for_background_writes(self, limit_s=10):
        """Waits until pending rank updates and contributions of earlier events are written, but at most `limit_s`:
        under a constant load, or while Redis is unavailable, the queue never empties.
        """
        deadline, idle = time.monotonic() + limit_s, 0
        # twice: a reply may arrive shortly before its worker publishes the queue length
        while idle < 2 and time.monotonic() < deadline:
            # the field is missing while there is no worker
            idle = idle + 1 if self.status().get("background queued") == 0 else 0
            time.sleep(0.01)

    def wait_for_memory_sample(self):
        """Waits until the workers know Redis' maxmemory, and how full it was then."""
        line = f"freshet_redis_max_memory_bytes {self.redis('CONFIG', 'GET', 'maxmemory')['maxmemory']}"
        wait_until(lambda: line in self.internal().get("/metrics").body.decode().splitlines(), "a sample of Redis' memory")

    def keys_containing(self, *names):
        """Keys whose names contain one of these: ids, readers, sessions. Waits for asynchronous writes of earlier requests first."""
        self.wait_for_background_writes()
        return [key for name in names for key in self.redis("KEYS", f"*{name}*")]

    def hot(self, **query):
        """The list as computed by the workers (nginx caches the public one), including all earlier events."""
        self.wait_for_background_writes()
        reply = self.internal().get("/api/hot", query=query)
        assert reply.status == 200, reply
        return reply.json()

    def stats(self, item):
        self.wait_for_background_writes()
        reply = self.internal().get(f"/api/articles/{item}/stats")
        assert reply.status == 200, reply
        return reply.json()

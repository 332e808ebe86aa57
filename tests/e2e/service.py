"""A whole instance of the service, as scripts/run starts it, in a short-lived directory of its own."""

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
from waiting import remove_tree, wait_until  # noqa: E402

BUILD = os.environ.get("FRESHET_BUILD_DIR", os.path.join(ROOT, "build/release"))
CTL = os.path.join(BUILD, "scripts/freshetctl")  # not scripts/freshetctl, which first sees to packages and the build
SHARED = os.environ.get("FRESHET_SHARED", os.path.join(os.path.dirname(ROOT), "shared"))

# Masters of the Redis Cluster that each instance has instead of one server; 0: one server.
CLUSTER = int(os.environ.get("FRESHET_CLUSTER", "0"))
FIRST_NODE = 7101
# What all articles share has one word in braces behind its name in a cluster (Keys::kShared), and what those of a group share the group's tag.
SHARED_KEY = re.compile(r"(hot:(epoch|groups|lost|list[^{}]*|rank:(lock|turn))|recorder:lease)$")
GROUP_KEY = re.compile(r"(hot:(rank|placed|unplaced|score|published|hidden|newest|unlisted|current)(:[^{}]*)?|tag:[^{}]*|recorder:(stream|fence))$")
GROUPS = 16
# Where the member stands behind the key.
OF_A_MEMBER = {"ZADD": 2} | dict.fromkeys(("ZSCORE", "ZRANK", "ZREVRANK", "ZREM", "SISMEMBER", "SADD", "SREM", "HDEL"), 1)


def group_tags():
    """The tags of the groups of a cluster, as core/redis/partitions/partitions.cpp has them."""
    with open(os.path.join(ROOT, "core/redis/partitions/partitions.cpp"), encoding="utf-8") as file:
        table = "".join(re.findall(r'^    "(\w+)";?$', file.read(), re.M))
    every = [table[at:at + 3] for at in range(0, len(table), 3)]
    return [every[(2 * group + 1) * len(every) // (2 * GROUPS)] for group in range(GROUPS)]


def group_of(article):
    return binascii.crc_hqx(str(article).encode(), 0) % 16384 * GROUPS // 16384

REQUEST_ID = r"\d+\.\d{3}-\d+-\d+"  # as nginx/freshet-http.conf makes it
# On a machine that builds or tests something else meanwhile Redis may well take longer than 50 ms.
PATIENT = {"redis__timeout": '"1s"', "gateway__request_budget": '"3s"'}
# nginx gives idle connections to workers up after a tenth of the shipped time, so that those who drain end soon. Still it closes first.
LETS_GO_SOON = r"s/^\( *keepalive_\(time\|timeout\)\) 5s;/\1 500ms;/"


def kill_in_the_middle(most_s, *command):
    """Begins a command of freshetctl, and ends it within `most_s`. Whether it still ran."""
    process = subprocess.Popen([CTL, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    time.sleep(random.uniform(0, most_s))
    ran = process.poll() is None
    if ran:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    return ran


def children(pid):
    """As two looks in a row agree: while one ends the kernel may leave another out of its list."""
    def look():
        try:
            with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
                return [int(child) for child in file.read().split()]
        except OSError:
            return []
    before, now = None, look()
    while now != before:
        before, now = now, look()
    return now


def birth(pid):
    """When the process began; None when there is none (any more)."""
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


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def kill_workers(service, load, done, times):
    """Kills a worker, any, so many times, each when the load has got some more `done`, and the pool is whole again."""

    def alive():
        return {pid for pid in service.workers() if birth(pid)}

    whole = len(alive())
    for _ in range(times):
        seen = len(done)
        wait_until(lambda seen=seen: len(done) > seen + 4 or load.errors, "what the load does")
        victim = random.choice(sorted(alive()))
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda victim=victim: victim not in alive() and len(alive()) == whole, "the pool to be whole")


def stop_orphans():
    """Ends instances whose test run was killed before it could."""
    for state in glob.glob("/tmp/freshet-e2e-*"):
        pid = int(state.split("-")[2])
        if not os.path.exists(f"/proc/{pid}"):
            subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", state], capture_output=True, check=False, timeout=480)
            shutil.rmtree(state, ignore_errors=True)


class Instance:
    """options: of scripts/run; directives: dotted names of the configuration (dots as __) and their TOML values. `beside`: an instance whose
    Redis is this one's, too, as if the two were hosts of one deployment."""

    def __init__(self, *options, beside=None, **directives):
        self.beside = beside
        if beside:
            options += ("--redis", beside.redis_url())
            directives = {"redis__username": '"freshet"', "redis__password_file": f'"{beside.state}/etc/redis-service"'} | directives
        # A unix socket's path has 107 bytes at most, so not pytest's own tmp_path.
        self.state = tempfile.mkdtemp(prefix=f"freshet-e2e-{os.getpid()}-", dir="/tmp")
        os.chmod(self.state, 0o755)
        if CLUSTER and not {"--redis", "--cluster"} & set(options):
            options += ("--cluster", str(CLUSTER))
        self.masters = int(options[options.index("--cluster") + 1]) if "--cluster" in options else 0
        self._loopback = loopback.Loopback()
        self.host, self.port, self.internal_port = self._loopback.host, loopback.PUBLIC, loopback.INTERNAL
        self.inside = []  # what stands before the command that starts it
        self.socket_path = os.path.join(self.state, "run/freshetd.sock")
        self._options, self.nginx_edit = options, LETS_GO_SOON
        # Most tests name articles that they never put, and look at what a first report did.
        self._nodes = []
        self._seen, self._directives = {}, {"items__unknown": '"list"', "limits__contribution_after": 0} | directives
        self.expects_refusals = False  # by Redis, of its account
        self.environment = {}  # of its processes, beside this one's
        self.configure()
        # Not a new one each run: with some, of a few visitors two would meet in a HyperLogLog's register and count as one.
        with open(os.path.join(self.state, "etc/salt"), "w", opener=lambda path, flags: os.open(path, flags, 0o600), encoding="ascii") as file:
            file.write("0123456789abcdef" * 4)

    def configure(self, **directives):
        """What is to differ from the instance's first configuration; in force after a start or a reload."""
        folder = os.path.join(self.state, "etc/conf.d")
        os.makedirs(folder, exist_ok=True)
        lines = [f"{name.replace('__', '.')} = {value}\n" for name, value in (self._directives | directives).items()]
        with open(os.path.join(folder, "test.toml"), "w", encoding="utf-8") as file:
            file.writelines(lines)

    def start(self):
        command = [*self.inside, os.path.join(ROOT, "scripts/run"), "--detach", "--no-sample", "--state", self.state, "--address", self._loopback.host,
                   "--port", str(self.port), "--internal-port", str(self.internal_port), *self._options]
        done = subprocess.run(command, env=os.environ | self.environment | {"FRESHET_NGINX_EDIT": self.nginx_edit}, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=900, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        wait_until(lambda: self.internal().get("/ping").status == 200, "/ping")
        wait_until(self._is_complete, "every process")
        self.note_processes()
        return self

    def _is_complete(self):
        status = self.status()
        return status["recorder"] in ("running", "waiting", "off") and status["total processes"] == len(self.workers())

    def stop(self):
        """Ends the instance; fails when a process of it is left, or when Redis refused its account something."""
        self.note_processes()
        refused = self.refused_by_redis()
        subprocess.run([os.path.join(ROOT, "scripts/run"), "--stop", "--state", self.state], stdin=subprocess.DEVNULL,
                       capture_output=True, timeout=480, check=True)
        left = {pid: what for pid, (began, what) in self._seen.items() if birth(pid) == began}
        remove_tree(self.state)
        self._loopback.close()
        assert not left, f"still alive after the stop: {left}"
        assert not refused or self.expects_refusals, f"the shipped account may not do what was tried: {refused}"

    def refused_by_redis(self):
        """What was refused to the service's account since Redis was started, by systemd/redis-acl.conf; nothing when Redis is not there."""
        try:
            return [(entry["reason"], entry["object"], entry["username"]) for entry in self.redis("ACL", "LOG")]
        except (AssertionError, ValueError, subprocess.TimeoutExpired):
            return []

    # --- its processes

    def pid(self, role):
        """Of redis, freshetd (the master) or nginx (the master)."""
        if role == "redis" and self.masters:
            pytest.skip("names the one server, of which there are many here")
        with open(os.path.join(self.state, "run/processes"), encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.split()[0] == role)

    def workers(self):
        return [pid for pid in children(self.pid("freshetd")) if comm(pid) == "freshetd-worker"]

    def recorder(self):
        """The pid of the living recorder, or None."""
        return next((pid for pid in children(self.pid("freshetd")) if comm(pid) == "freshetd-record" and birth(pid)), None)

    def status_process(self):
        """The pid of the living one, or None."""
        return next((pid for pid in children(self.pid("freshetd")) if comm(pid) == "freshetd-status" and birth(pid)), None)

    def note_processes(self):
        """Remembers who lives, for the check at the end; returns {pid: (birth, what)}."""
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
        """Asks for a new generation and waits until it serves and the old workers have been told to go."""
        before = self.status()["generation"]
        self.signal("freshetd", signal.SIGHUP)
        wait_until(lambda: self.status()["generation"] > before, "a new generation")
        self.note_processes()

    def replace_process(self, role, pid, how):
        """A process of the test's own takes a dead one's place, so that stop() ends it: by the signal `how`."""
        path = os.path.join(self.state, "run/processes")
        with open(path, encoding="utf-8") as file:
            lines = [f"{role} {pid} {birth(pid)} {how}" if line.split()[0] == role else line for line in file.read().splitlines()]
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        os.replace(path + ".new", path)  # whole for whoever reads it meanwhile
        self.note_processes()

    def renew(self):
        """reload(), until nobody is left who knows what was before: an old worker answers for a while."""
        before = set(self.workers())
        self.reload()
        wait_until(lambda: not before & set(self.workers()), "the old workers to go")

    # --- talking to it

    def public(self, **options):
        return Client(self.host, self.port, **options)

    def internal(self, **options):
        return Client(self.host, self.internal_port, **options)

    def status(self):
        return self.internal().get("/status?json").json()

    def redis(self, *command):
        """The reply as JSON has it. Fails on an error reply. In a cluster: of whoever has the key, or of all masters or groups together."""
        if not self.masters:
            return self.ask_redis(*command)
        name, *words = (f"{each}:{{all}}" if SHARED_KEY.match(str(each)) else each for each in command)
        at = next((place for place, word in enumerate(words) if GROUP_KEY.match(str(word))), None)
        if at is not None and name != "KEYS":
            return self._ask_groups(name, words, at)
        if name in ("KEYS", "ACL", "CLIENT"):
            said = [self.ask_redis(name, *words, node=node) for node in self.nodes("master")]
            assert said, "no master answers"
            return [each for some in said for each in some] if isinstance(said[0], list) else said[0]
        if name == "EVAL":
            pytest.skip("looks at many readers' keys by one script")
        if name == "FLUSHALL":
            return [self.ask_redis(name, node=node) for node in self.nodes("master")][0]
        if name == "DEL":
            return sum(self.ask_redis(name, each) for each in words)
        return self.ask_redis(name, *words)

    def _ask_groups(self, name, words, at):
        """Of the member's group, or of all: numbers summed up, lists one behind the other."""
        keys = [f"{words[at]}:{{{tag}}}" for tag in group_tags()]
        if name in OF_A_MEMBER:
            keys = [keys[group_of(words[at + OF_A_MEMBER[name]])]]
        said = [self.ask_redis(name, *words[:at], key, *words[at + 1:]) for key in keys]
        if len(said) == 1:
            return said[0]
        said = [each for each in said if each is not None]
        if said and isinstance(said[0], list):
            return [each for some in said for each in some]
        return sum(said) if said and isinstance(said[0], int) else next(iter(said), None)

    def ask_redis(self, *command, node=None):
        """The same of one node of a cluster (its port), which may name another."""
        done = subprocess.run([*self._redis_cli(node), "-e", "--json", *map(str, command)], env=self._redis_environment(), capture_output=True,
                              check=False, timeout=80)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def redis_text(self, *command, node=None):
        """INFO and its like, which redis-cli prints as it comes."""
        done = subprocess.run([*self._redis_cli(node), "-e", *command], env=self._redis_environment(), capture_output=True, text=True, check=False, timeout=80)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def nodes(self, role):
        """Ports of a cluster's nodes that live and are "master" or "slave"."""
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
            pytest.skip("names the one server, of which there are many here")
        return os.path.join(self.state, "run/redis.sock")

    def _redis_cli(self, node=None):
        if not self.masters:
            return ["redis-cli", "-s", os.path.join(self.state, "run/redis.sock")]
        return ["redis-cli", "-c", "-h", self.host, "-p", str(node or FIRST_NODE)]

    def _redis_environment(self):
        if not self.masters:
            return None
        with open(os.path.join(self.state, "etc/redis-default"), encoding="ascii") as file:
            return os.environ | {"REDISCLI_AUTH": file.read()}

    def persistence(self, field):
        """A field of INFO persistence."""
        said = self.redis_text("INFO", "persistence")
        return dict(line.split(":", 1) for line in said.split() if ":" in line)[field]

    def kill_redis(self):
        """kill -9, when it has written down what it acknowledged; waits for its end."""
        self.redis("CONFIG", "SET", "appendfsync", "always")  # also writes what it held back
        pid = self.pid("redis")
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: birth(pid) is None, "Redis' end")

    def lose_redis(self):
        """kill_redis(), and every worker has noticed."""
        self.kill_redis()
        wait_until(lambda: self.status()["redis ready"] == 0, "the loss of Redis to be noticed")

    def restart_redis(self, *options, environment=None):
        """After its death: the same server on the same files. options: of redis-server, beside those it always has; environment: beside ours."""
        run = os.path.join(self.state, "run")
        user = os.stat(os.path.join(self.state, "redis"))
        with open(os.path.join(self.state, "log/redis.log"), "ab") as log:
            process = subprocess.Popen(
                ["redis-server", f"{self.state}/etc/redis-acl.conf", "--port", "0", "--unixsocket", f"{run}/redis.sock", "--unixsocketperm", "770",
                 "--dir", f"{self.state}/redis", "--appendonly", "yes", "--appendfsync", "everysec", "--save", "", *options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, user=user.st_uid, group=user.st_gid,
                env=os.environ | (environment or {}))
        self.replace_process("redis", process.pid, "TERM")
        self._redis = process  # kept, so that it is reaped
        wait_until(self._redis_answers, "Redis")

    # --- a cluster's

    def node_pid(self, port):
        with open(os.path.join(self.state, "run/processes"), encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.split()[0] == f"redis-{port}")

    def start_node(self, port):
        """After its death: the same server on the same files."""
        folder = os.path.join(self.state, f"redis/{port}")
        user = os.stat(folder)
        with open(os.path.join(self.state, f"log/redis-{port}.log"), "ab") as log:
            process = subprocess.Popen(
                ["redis-server", f"{self.state}/etc/redis-acl.conf", "--bind", self.host, "--port", str(port), "--cluster-enabled", "yes",
                 "--cluster-announce-ip", self.host, "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no", "--dir", folder, "--appendonly", "yes",
                 "--appendfsync", "everysec", "--save", ""],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, user=user.st_uid, group=user.st_gid)
        self.replace_process(f"redis-{port}", process.pid, "TERM")
        self._nodes.append(process)  # kept, so that it is reaped

    def _redis_answers(self):
        try:
            return self.redis("PING") == "PONG"
        except (AssertionError, ValueError):
            return False

    def check(self):
        """The invariants of a running instance: key names, TTLs, caps, sums. Without what waits to be placed there is nothing to look at twice."""
        self.await_placed(1)
        done = subprocess.run([CTL, "check", "--state", self.state], capture_output=True,
                              text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def log(self, name="freshetd"):
        with open(os.path.join(self.state, f"log/{name}.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    # --- what tests say often

    def put(self, item, **members):
        """Puts an item, published now unless said otherwise."""
        members = {"title": f"about {item}", "published_at": int(time.time())} | members
        reply = self.internal().put(f"/api/items/{item}", members)
        assert reply.status == 200, reply
        return members

    def await_placed(self, limit_s=10):
        """Until what was counted before has its places in the ranks, and is remembered of its visitors: when nothing waits to be written, or after
        `limit_s`, under a load that never ends and while Redis is away."""
        deadline, idle = time.monotonic() + limit_s, 0
        while idle < 2 and time.monotonic() < deadline:  # twice: a reply leaves shortly before its worker's rows say what it left to be written
            idle = idle + 1 if self.status().get("background queued") == 0 else 0  # without a worker it says nothing of it
            time.sleep(0.01)

    def keys_of(self, *names):
        """The keys that hold something of these: ids, readers, sessions. What other requests left to be written behind their replies is none of them."""
        self.await_placed()
        return [key for name in names for key in self.redis("KEYS", f"*{name}*")]

    def hot(self, **query):
        """The list as the workers have it (nginx caches the public one), with all that was counted before."""
        self.await_placed()
        reply = self.internal().get("/api/hot", query=query)
        assert reply.status == 200, reply
        return reply.json()

    def stats(self, item):
        self.await_placed()
        reply = self.internal().get(f"/api/articles/{item}/stats")
        assert reply.status == 200, reply
        return reply.json()

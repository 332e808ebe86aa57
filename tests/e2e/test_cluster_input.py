"""Clusters that are not as they should be: each is told in a sentence that names the cure, and nothing is lost meanwhile."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading

import pytest
from service import CTL, FIRST_NODE, PATIENT, Instance, loopback, remove_tree, wait_until

MASTERS, NODE = 3, 16379


@pytest.fixture(scope="module")
def cluster():
    started = Instance("--cluster", str(MASTERS), "--no-limits", **PATIENT)
    started.expects_refusals = True
    try:
        yield started.start()
    finally:
        started.stop()


class LoneServer:
    """A Redis without accounts at a loopback address of its own; start() may be called again, with other options."""

    def __init__(self):
        self._where = loopback.Loopback((NODE, NODE + 10000))
        self._folder, self.host, self._process = tempfile.mkdtemp(prefix=f"freshet-e2e-{os.getpid()}-redis-", dir="/tmp"), self._where.host, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._end()
        self._where.close()
        remove_tree(self._folder)

    def start(self, *options):
        self._end()
        self._process = subprocess.Popen(["redis-server", "--bind", self.host, "--port", str(NODE), "--protected-mode", "no", "--save", "",
                                          "--dir", self._folder, *options], stdout=subprocess.DEVNULL, start_new_session=True)
        wait_until(lambda: self.ask("PING").strip() == "PONG", "the server")
        return self

    def start_as_cluster(self):
        self.start("--cluster-enabled", "yes")
        self.ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: "cluster_state:ok" in self.ask("CLUSTER", "INFO"), "the cluster")
        return self

    def ask(self, *command):
        return subprocess.run(["redis-cli", "-h", self.host, "-p", str(NODE), *map(str, command)], capture_output=True, text=True, check=False).stdout

    def url(self):
        return f"redis+cluster://{self.host}:{NODE}"

    def _end(self):
        if self._process:
            self._process.terminate()
            self._process.wait(30)


def freshetctl(service, *arguments, account=()):
    done = subprocess.run([CTL, *arguments, "--state", service.state, *account], capture_output=True, text=True, check=False, timeout=480)
    return done.stdout + done.stderr


def said(service, event, *words):
    """Whether a line of the log about this event has these words."""
    with contextlib.suppress(FileNotFoundError):
        return any(f"event={event} " in line and all(each in line for each in words) for line in service.log().splitlines())


def test_a_node_that_is_no_cluster_is_named_by_workers_recorder_and_tools():
    with LoneServer().start() as server:
        service = Instance("--no-limits", "--redis", server.url(), **PATIENT)
        starting = threading.Thread(target=service.start)  # workers take no connection before they know the time of Redis
        starting.start()
        try:
            sentence = f"{server.host}:{NODE} is no node of a cluster: write redis:// in redis.url, or set cluster-enabled yes there"
            wait_until(lambda: said(service, "cluster_coverage_lost", sentence), "the workers' sentence")
            wait_until(lambda: said(service, "recorder_paused", sentence), "the recorder's sentence")
            assert sentence in freshetctl(service, "check")
            assert sentence in freshetctl(service, "doctor", "--nginx", "")
            # In turns with another it would fill the log.
            assert not said(service, "cluster_coverage_lost", "none of ")
            server.start_as_cluster()
            starting.join(60)
            wait_until(lambda: service.public().track("a", 1, userId="u", sessionId="s").status == 200, "service")
        finally:
            starting.join(60)
            service.stop()


def test_a_cluster_of_one_master_serves_and_is_warned_of(instance):
    with LoneServer().start_as_cluster() as server:
        service = instance("--no-limits", "--redis", server.url(), **PATIENT)
        wait_until(lambda: service.public().track("a", 1, userId="u", sessionId="s").status == 200, "service")
        told = freshetctl(service, "doctor", "--nginx", "")
        assert "fewer than three masters" in told and "three masters or more, on different hosts" in told, told


def test_a_slot_that_nobody_has_at_the_start_is_named_and_its_writes_wait(cluster, name):
    article, other = name("a"), name("b")
    slot = cluster.ask_redis("CLUSTER", "KEYSLOT", f"hot:article:{{{article}}}")
    owner = next(port for port in cluster.nodes("master") if has(cluster, port, slot))
    try:
        take_from_all(cluster, slot, owner)
        before = cluster.status()["generation"]
        cluster.signal("freshetd", signal.SIGHUP)  # the old workers serve until the new ones have all they need
        sentence = "1 of 16384 slots have no master: start it, or give them to another by redis-cli --cluster fix"
        wait_until(lambda: said(cluster, "cluster_coverage_lost", sentence), "the workers' sentence")
        assert cluster.public().track(article, 1, userId="u", sessionId="s", eventId=name("e")).status == 202
        operator = ("--redis-user", f"freshet-operator:{cluster.state}/etc/redis-operator")
        told = freshetctl(cluster, "doctor", "--nginx", "", account=operator)
        assert "1 of 16,384 slots have no master" in told and "redis-cli --cluster fix" in told, told
    finally:
        cluster.ask_redis("CLUSTER", "ADDSLOTS", slot, node=owner)
    wait_until(lambda: cluster.status()["generation"] > before, "a new generation")
    wait_until(lambda: cluster.public().track(other, 1, userId="u", sessionId="s").status == 200, "normal service")
    wait_until(lambda: cluster.redis("HGET", f"hot:article:{{{article}}}", "pv") == "1", "what was queued to be counted")


def take_from_all(service, slot, owner):
    """Takes a slot from its owner first, which would claim it again by its next ping, then from what each node believes, until all agree."""
    ports = [owner, *(port for port in range(FIRST_NODE, FIRST_NODE + 2 * MASTERS) if port != owner)]

    def taken():
        for port in ports:
            service.ask_redis("CLUSTER", "DELSLOTS", slot, node=port)
        return all("cluster_slots_assigned:16383" in service.redis_text("CLUSTER", "INFO", node=port) for port in ports)
    wait_until(taken, "nodes that agree that nobody has the slot")


def has(service, port, slot):
    """Whether a node has a slot, by what it says itself."""
    row = next(line.split() for line in service.redis_text("CLUSTER", "NODES", node=port).splitlines() if "myself" in line)
    return any(int(each.split("-")[0]) <= slot <= int(each.split("-")[-1]) for each in row[8:] if not each.startswith("["))


def test_a_node_with_other_passwords_is_named_and_its_writes_wait(cluster, name):
    lease = cluster.ask_redis("CLUSTER", "KEYSLOT", "recorder:lease:{all}")
    victim = next(port for port in cluster.nodes("master") if has(cluster, port, lease))
    article = next(each for each in (name("a") for _ in range(1000))
                   if has(cluster, victim, cluster.ask_redis("CLUSTER", "KEYSLOT", f"hot:article:{{{each}}}")))

    def passwords(*what):
        for user, file in (("freshet", "redis-service"), ("freshet-operator", "redis-operator")):
            with open(os.path.join(cluster.state, "etc", file), encoding="ascii") as right:
                cluster.ask_redis("ACL", "SETUSER", user, "resetpass", *(what or (">" + right.read(),)), node=victim)
            cluster.ask_redis("CLIENT", "KILL", "USER", user, node=victim)
    passwords(">another")
    try:
        sentence = f"the node at {cluster.host}:{victim} refuses us (WRONGPASS"
        cure = "give it the accounts that the others have"
        wait_until(lambda: said(cluster, "cluster_coverage_lost", sentence, cure), "the workers' sentence")
        os.kill(cluster.recorder(), signal.SIGKILL)  # the next one finds the node so when it starts
        wait_until(lambda: said(cluster, "recorder_paused", sentence, cure), "the recorder's sentence")
        told = freshetctl(cluster, "check", account=("--redis-user", f"freshet-operator:{cluster.state}/etc/redis-operator"))
        assert sentence in told and cure in told, told
        assert cluster.public().track(article, 1, userId="u", sessionId="s", eventId=name("e")).status == 202
        assert cluster.public().get("/api/hot?model=engagement").status == 200
    finally:
        passwords()
    wait_until(lambda: cluster.redis("HGET", f"hot:article:{{{article}}}", "pv") == "1", "what was queued to be counted")
    wait_until(lambda: cluster.status()["recorder"] == "running", "the recorder")
    cluster.check()

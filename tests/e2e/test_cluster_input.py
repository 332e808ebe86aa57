"""Misconfigured clusters: each is reported in one sentence that names the fix, and nothing is lost meanwhile."""

import contextlib
import os
import signal
import subprocess
import tempfile
import threading

import pytest
from service import CTL, FIRST_NODE, LONG_TIMEOUTS, REDIS_CLI, REDIS_SERVER, Instance, loopback, remove_tree, wait_until

MASTERS, NODE = 3, 16379


@pytest.fixture(scope="module")
def cluster():
    started = Instance("--cluster", str(MASTERS), "--no-limits", **LONG_TIMEOUTS)
    started.expects_acl_denials = True
    try:
        yield started.start()
    finally:
        started.stop()


class LoneServer:
    """A Redis without accounts on its own loopback address. start() may be called again with other options."""

    def __init__(self):
        self._loopback = loopback.Loopback((NODE, NODE + 10000))
        self._folder, self.host, self._process = tempfile.mkdtemp(prefix=f"freshet-e2e-{os.getpid()}-redis-", dir="/tmp"), self._loopback.host, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._terminate()
        self._loopback.close()
        remove_tree(self._folder)

    def start(self, *options):
        self._terminate()
        self._process = subprocess.Popen([REDIS_SERVER, "--bind", self.host, "--port", str(NODE), "--protected-mode", "no", "--save", "",
                                          "--dir", self._folder, *options], stdout=subprocess.DEVNULL, start_new_session=True)
        wait_until(lambda: self.redis_cli("PING").strip() == "PONG", "the server to start")
        return self

    def start_as_cluster(self):
        self.start("--cluster-enabled", "yes")
        self.redis_cli("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: "cluster_state:ok" in self.redis_cli("CLUSTER", "INFO"), "the cluster to be ready")
        return self

    def redis_cli(self, *command):
        return subprocess.run([REDIS_CLI, "-h", self.host, "-p", str(NODE), *map(str, command)], capture_output=True, text=True, check=False).stdout

    def url(self):
        return f"redis+cluster://{self.host}:{NODE}"

    def _terminate(self):
        if self._process:
            self._process.terminate()
            self._process.wait(30)


def freshetctl(service, *arguments, account=()):
    done = subprocess.run([CTL, *arguments, "--state", service.state, *account], capture_output=True, text=True, check=False, timeout=480)
    return done.stdout + done.stderr


def has_logged(service, event, *words):
    """Returns whether the log has a line about this event that contains all these words."""
    with contextlib.suppress(FileNotFoundError):
        return any(f"event={event} " in line and all(each in line for each in words) for line in service.log().splitlines())


def test_a_node_outside_a_cluster_is_reported_by_workers_recorder_and_tools():
    with LoneServer().start() as server:
        service = Instance("--no-limits", "--redis", server.url(), **LONG_TIMEOUTS)
        # in a thread: workers accept no connection before they know Redis' time
        starting = threading.Thread(target=service.start)
        starting.start()
        try:
            sentence = f"{server.host}:{NODE} is not a cluster node: use redis:// in redis.url, or set cluster-enabled yes there"
            wait_until(lambda: has_logged(service, "cluster_coverage_lost", sentence), "the workers' error in the log")
            wait_until(lambda: has_logged(service, "recorder_paused", sentence), "the recorder's error in the log")
            assert sentence in freshetctl(service, "check")
            assert sentence in freshetctl(service, "doctor", "--nginx", "")
            # A second error that alternates with the first would fill the log.
            assert not has_logged(service, "cluster_coverage_lost", "does not answer: start its nodes")
            server.start_as_cluster()
            starting.join(60)
            wait_until(lambda: service.public().track("a", 1, userId="u", sessionId="s").status == 200, "the service to work")
        finally:
            starting.join(60)
            service.stop()


def test_a_cluster_of_one_master_works_with_a_warning(instance):
    with LoneServer().start_as_cluster() as server:
        service = instance("--no-limits", "--redis", server.url(), **LONG_TIMEOUTS)
        wait_until(lambda: service.public().track("a", 1, userId="u", sessionId="s").status == 200, "the service to work")
        output = freshetctl(service, "doctor", "--nginx", "")
        assert "fewer than three masters" in output and "three or more masters on different hosts" in output, output


def test_a_slot_without_a_master_is_reported_and_its_writes_are_queued(cluster, name):
    article, other = name("a"), name("b")
    slot = cluster.redis_command("CLUSTER", "KEYSLOT", f"hot:article:{{{article}}}")
    owner = next(port for port in cluster.nodes("master") if owns_slot(cluster, port, slot))
    try:
        unassign_everywhere(cluster, slot, owner)
        before = cluster.status()["generation"]
        cluster.signal("freshetd", signal.SIGHUP)  # the old workers serve until the new ones are ready
        sentence = "1 of 16384 slots have no master: start it, or reassign them with redis-cli --cluster fix"
        wait_until(lambda: has_logged(cluster, "cluster_coverage_lost", sentence), "the workers' error in the log")
        assert cluster.public().track(article, 1, userId="u", sessionId="s", eventId=name("e")).status == 202
        operator = ("--redis-user", f"freshet-operator:{cluster.state}/etc/redis-operator")
        output = freshetctl(cluster, "doctor", "--nginx", "", account=operator)
        assert "1 of 16,384 slots have no master" in output and "redis-cli --cluster fix" in output, output
    finally:
        cluster.redis_command("CLUSTER", "ADDSLOTS", slot, node=owner)
    wait_until(lambda: cluster.status()["generation"] > before, "a new generation")
    wait_until(lambda: cluster.public().track(other, 1, userId="u", sessionId="s").status == 200, "normal service")
    wait_until(lambda: cluster.redis("HGET", f"hot:article:{{{article}}}", "pv") == "1", "the queued event to be counted")


def unassign_everywhere(service, slot, owner):
    """Removes a slot from its owner, which would otherwise claim it again with its next ping, and then from the other
    nodes' view, until all agree.
    """
    ports = [owner, *(port for port in range(FIRST_NODE, FIRST_NODE + 2 * MASTERS) if port != owner)]

    def is_unassigned():
        for port in ports:
            service.redis_command("CLUSTER", "DELSLOTS", slot, node=port)
        return all("cluster_slots_assigned:16383" in service.redis_text("CLUSTER", "INFO", node=port) for port in ports)
    wait_until(is_unassigned, "all nodes to see the slot as unassigned")


def owns_slot(service, port, slot):
    """Returns whether a node has a slot, according to the node itself."""
    row = next(line.split() for line in service.redis_text("CLUSTER", "NODES", node=port).splitlines() if "myself" in line)
    return any(int(each.split("-")[0]) <= slot <= int(each.split("-")[-1]) for each in row[8:] if not each.startswith("["))


def test_a_node_with_other_passwords_is_reported_and_its_writes_are_queued(cluster, name):
    lease = cluster.redis_command("CLUSTER", "KEYSLOT", "recorder:lease:{all}")
    victim = next(port for port in cluster.nodes("master") if owns_slot(cluster, port, lease))
    article = next(each for each in (name("a") for _ in range(1000))
                   if owns_slot(cluster, victim, cluster.redis_command("CLUSTER", "KEYSLOT", f"hot:article:{{{each}}}")))

    def set_passwords(*rules):
        for user, file in (("freshet", "redis-service"), ("freshet-operator", "redis-operator")):
            with open(os.path.join(cluster.state, "etc", file), encoding="ascii") as password:
                cluster.redis_command("ACL", "SETUSER", user, "resetpass", *(rules or (">" + password.read(),)), node=victim)
            cluster.redis_command("CLIENT", "KILL", "USER", user, node=victim)
    set_passwords(">another")
    try:
        sentence = f"the node at {cluster.host}:{victim} refuses the connection (WRONGPASS"
        fix = "give it the same accounts as the other nodes"
        wait_until(lambda: has_logged(cluster, "cluster_coverage_lost", sentence, fix), "the workers' error in the log")
        os.kill(cluster.recorder(), signal.SIGKILL)  # the next recorder finds the node in this state when it starts
        wait_until(lambda: has_logged(cluster, "recorder_paused", sentence, fix), "the recorder's error in the log")
        output = freshetctl(cluster, "check", account=("--redis-user", f"freshet-operator:{cluster.state}/etc/redis-operator"))
        assert sentence in output and fix in output, output
        assert cluster.public().track(article, 1, userId="u", sessionId="s", eventId=name("e")).status == 202
        assert cluster.public().get("/api/hot?model=engagement").status == 200
    finally:
        set_passwords()
    wait_until(lambda: cluster.redis("HGET", f"hot:article:{{{article}}}", "pv") == "1", "the queued event to be counted")
    wait_until(lambda: cluster.status()["recorder"] == "running", "the recorder to run")
    cluster.check()

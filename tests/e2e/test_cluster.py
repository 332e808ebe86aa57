"""A Redis Cluster of three masters with a replica each: slots move and masters fail while readers are served."""

import os
import signal
import subprocess
import threading
import time

import pytest
import redis
from client import Load
from readers import Readers, known_items, read_items
from redis.crc import key_slot
from service import CTL, FIRST_NODE, LONG_TIMEOUTS, Instance, partition_of, partition_tags, wait_until

MASTERS = 3
# Writes that a master acknowledged within this time before it was killed may be missing on its replica.
REPLICATION_LAG_S = 0.1


@pytest.fixture(scope="module")
def cluster():
    started = Instance("--cluster", str(MASTERS), "--no-limits", **LONG_TIMEOUTS)
    try:
        yield started.start()
    finally:
        started.stop()


def move_keys(service, source, target):
    """Moves all slots in which the master has keys, as `redis-cli --cluster reshard` does."""
    with open(os.path.join(service.state, "etc/redis-default"), encoding="ascii") as file:
        password = file.read().strip()
    ids = {port: node for port, (node, _) in masters(service).items()}
    nodes = {port: redis.Redis(service.host, port, password=password) for port in ids}
    slots = {key_slot(key) for key in nodes[source].keys()}
    assert len(slots) > 20, slots
    for slot in sorted(slots):
        nodes[target].execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[source])
        nodes[source].execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[target])
        while keys := nodes[source].execute_command("CLUSTER GETKEYSINSLOT", slot, 10):
            nodes[source].execute_command("MIGRATE", service.host, target, "", 0, 60000, "AUTH", password, "KEYS", *keys)
        for port in (target, source, *(ids.keys() - {target, source})):
            nodes[port].execute_command("CLUSTER SETSLOT", slot, "NODE", ids[target])
    for node in nodes.values():
        node.close()


def freshetctl(service, *command):
    done = subprocess.run([CTL, *command, "--state", service.state], capture_output=True, text=True, check=False, timeout=480)
    return done.returncode, done.stdout + done.stderr


def masters(service):
    """{port: (node id, [(first slot, last slot)…])}"""
    out = {}
    for line in service.redis_text("CLUSTER", "NODES", node=service.nodes("master")[0]).splitlines():
        row = line.split()
        if "master" in row[2] and "fail" not in row[2]:
            ranges = [each.split("-") for each in row[8:] if not each.startswith("[")]
            out[int(row[1].split("@")[0].rsplit(":", 1)[1])] = (row[0], [(int(each[0]), int(each[-1])) for each in ranges])
    return out


def owner(service, slot):
    return next(port for port, (_, ranges) in masters(service).items() if any(first <= slot <= last for first, last in ranges))


def wait_for_replicas(service):
    wait_until(lambda: len(service.nodes("slave")) == MASTERS and len(service.nodes("master")) == MASTERS, "a replica of each master")
    for port in service.nodes("slave"):
        wait_until(lambda port=port: "master_link_status:up" in service.redis_text("INFO", "replication", node=port), "the replica to be in sync")


class PageLoad(Load):
    """Requests for pages. Each must get a reply, which may be degraded."""

    def __init__(self, service):
        def work(client, turn):
            paths = ("/api/hot?model=engagement&limit=5", f"/api/recommendations?userId=r{turn % 7}&limit=3", f"/api/history?userId=r{turn % 7}")
            reply = client.get(paths[turn % len(paths)])
            assert reply.status == 200, reply
            return "Freshet-Degraded" in reply.headers
        super().__init__(service.public, work, threads=2)


def test_moving_slots_under_load_loses_nothing_and_counts_nothing_twice(cluster, name):
    titles, readers = known_items(cluster, name), Readers(cluster, name, articles=20)
    shared = cluster.redis_command("CLUSTER", "KEYSLOT", "hot:epoch:{all}")
    source = owner(cluster, shared)
    target = next(port for port in masters(cluster) if port != source)
    with Load(cluster.public, readers.report) as writes, Load(cluster.internal, read_items(titles), threads=2) as reads, PageLoad(cluster) as pages:
        wait_until(lambda: len(writes.results) > 100, "load")
        move_keys(cluster, source, target)
        assert owner(cluster, shared) == target
        count_before = len(writes.results)
        wait_until(lambda: len(writes.results) > count_before + 100, "load after the move")
    assert writes.errors == [] and reads.errors == [] and pages.errors == []
    assert readers.statuses <= {200, 202}
    readers.assert_counted_once()
    cluster.check()


def test_a_killed_masters_slots_are_served_again_and_queued_events_count_once(cluster, name):
    wait_for_replicas(cluster)
    articles, acknowledged, lock = [name("a") for _ in range(30)], [], threading.Lock()

    def report(client, turn):
        article, deadline = articles[turn % len(articles)], time.monotonic() + 60
        while True:
            reply = client.track(article, 1, userId=f"k{turn}", sessionId=f"k{turn}", eventId=f"k{turn}")
            if reply.status in (200, 202):
                with lock:
                    acknowledged.append((time.monotonic(), article, reply.status))
                return reply.status
            assert reply.status == 503 and time.monotonic() < deadline, reply
            time.sleep(0.01)

    def counted():
        return {article: int(cluster.redis("HGET", f"hot:article:{{{article}}}", "pv") or 0) for article in articles}

    def expected(until=float("inf"), since=float("-inf")):
        return {article: sum(each == article and since <= at < until for at, each, _ in acknowledged) for article in articles}

    shared_owner = owner(cluster, cluster.redis_command("CLUSTER", "KEYSLOT", "hot:epoch:{all}"))
    slots = {port: sum(last - first + 1 for first, last in ranges) for port, (_, ranges) in masters(cluster).items() if port != shared_owner}
    victim = max(slots, key=slots.get)
    with Load(cluster.public, report) as writes, PageLoad(cluster) as pages:
        wait_until(lambda: len(writes.results) > 200, "load")
        pid = cluster.node_pid(victim)
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        wait_until(lambda: victim not in cluster.nodes("master") and len(cluster.nodes("master")) == MASTERS, "a new master")
        count_before = len(writes.results)
        wait_until(lambda: writes.results[count_before:].count(200) > 200 and 202 not in writes.results[-50:], "normal service")
    assert writes.errors == [] and pages.errors == []
    assert any(status == 202 for _, _, status in acknowledged), "no event was queued"
    wait_until(lambda: cluster.status()["spooled bytes"] == 0 and cluster.status()["background queued"] == 0, "the spool to be replayed")
    unsent = expected(since=killed - REPLICATION_LAG_S, until=killed)

    def settled():
        now, acknowledged_counts = counted(), expected()
        return all(acknowledged_counts[each] - unsent[each] <= now[each] <= acknowledged_counts[each] for each in articles)
    wait_until(settled, "the acknowledged events to be counted")
    cluster.start_node(victim)
    wait_for_replicas(cluster)
    cluster.check()


def test_the_first_configured_node_may_be_down(cluster):
    """Workers and tools find the other nodes."""
    wait_for_replicas(cluster)
    victim = FIRST_NODE
    os.kill(cluster.node_pid(victim), signal.SIGKILL)
    try:
        wait_until(lambda: victim not in cluster.nodes("master") and len(cluster.nodes("master")) == MASTERS, "its replica to take over")
        cluster.reload_and_drain()
        assert cluster.public().track("seen", 1, userId="u", sessionId="s").status in (200, 202)
        wait_until(lambda: cluster.internal().get("/health/ready").status == 200, "the service to be ready")
        cluster.check()
    finally:
        cluster.start_node(victim)
        wait_for_replicas(cluster)


def test_a_different_number_of_partitions_is_reported_and_refused_while_a_service_runs(cluster):
    assert cluster.redis("GET", "hot:groups") == "16"
    cluster.configure(redis__partitions=8)
    try:
        status, output = freshetctl(cluster, "check")
        assert status != 0 and "16 partitions" in output and "`freshetctl repartition`" in output, output
        status, output = freshetctl(cluster, "repartition")
        assert status != 0 and "a service is running" in output, output
    finally:
        cluster.configure()
    assert cluster.redis("GET", "hot:groups") == "16"
    cluster.check()


def test_an_erasure_is_written_to_the_stream_of_the_readers_partition(cluster, name):
    reader, recorder = name("r"), cluster.recorder()
    os.kill(recorder, signal.SIGSTOP)  # otherwise it reads the entry immediately
    try:
        assert cluster.internal().delete(f"/api/users/{reader}").status == 202
        entries = cluster.redis_command("XRANGE", f"recorder:stream:{{{partition_tags()[partition_of(reader)]}}}", "-", "+")
        assert any(reader in fields for _, fields in entries), entries
    finally:
        os.kill(recorder, signal.SIGCONT)

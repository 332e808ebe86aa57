"""A failover by three real sentinels: the service follows the new master and leaves the old one alone, and acknowledged
events count once.
"""

import signal
import time

import pytest
from client import Load
from readers import Readers
from sentinels import Deployment
from service import wait_until

TIMEOUTS = {"redis__timeout": '"500ms"', "gateway__request_budget": '"2s"'}


@pytest.fixture
def deployment():
    one = Deployment()
    yield one
    one.stop()


class CountersOnMaster:
    """Adapts an instance to Readers: its counters are on the current master."""

    def __init__(self, service, deployment):
        self.status, self.redis = service.status, deployment.redis


def put_items(service, name):
    """Puts items. Returns {id: title}."""
    return {item: service.put(item)["title"] for item in [name("i") for _ in range(10)]}


def read_items(titles):
    ids = list(titles)

    def work(client, turn):
        item = ids[turn % len(ids)]
        reply = client.get(f"/api/items/{item}")
        assert reply.status in (200, 503), reply
        if reply.status == 200:
            got = reply.json()
            assert (got["id"], got["title"]) == (item, titles[item]), "the reply belongs to another item"
        return reply.status

    return work


def report_new_events(readers):
    """A load of events that were not reported before."""
    return lambda client, turn: readers.report(client, 1_000_000 + turn)


def wait_for_counted_events(results):
    """Waits until 50 more events were counted immediately."""
    count_before = len(results)
    wait_until(lambda: results[count_before:].count(200) > 50, "counted events", 60)


def wait_until_ready(service):
    return wait_until(lambda: service.internal().get("/health/ready").status == 200, "the service to be ready", 60)


def test_a_killed_master_is_replaced_and_nothing_acknowledged_is_lost(instance, deployment, name):
    service = instance("--no-limits", **TIMEOUTS, **deployment.directives())
    readers, titles = Readers(CountersOnMaster(service, deployment), name), put_items(service, name)
    with Load(service.public, readers.report) as writes:
        wait_for_counted_events(writes.results)
    deployment.wait_for_replicas()  # unreplicated writes are lost with their master
    old = deployment.master()
    deployment.signal(old, signal.SIGKILL)
    with Load(service.public, report_new_events(readers)) as writes, Load(service.internal, read_items(titles), threads=2) as reads:
        wait_until(lambda: writes.results.count(202) > 20, "queued events", 60)
        wait_until(lambda: deployment.master() not in (old, None), "a failover", 60)
        wait_until_ready(service)
        wait_for_counted_events(writes.results)
        wait_until(lambda: reads.results[-20:].count(200) == 20, "reads", 60)
    assert writes.errors == [] and reads.errors == []
    assert deployment.master() != old
    readers.assert_counted_once()


def test_an_old_master_that_comes_back_gets_no_writes(instance, deployment, name):
    service = instance("--no-limits", **TIMEOUTS, **deployment.directives())
    readers = Readers(CountersOnMaster(service, deployment), name)
    with Load(service.public, readers.report) as writes:
        wait_for_counted_events(writes.results)
    deployment.wait_for_replicas()
    old = deployment.master()
    deployment.signal(old, signal.SIGSTOP)
    with Load(service.public, report_new_events(readers)) as writes:
        wait_until(lambda: deployment.master() not in (old, None), "a failover", 60)
        wait_until_ready(service)
        wait_for_counted_events(writes.results)
        # A worker that has not noticed the failover would trust the old master. Redis' own protection is
        # min-replicas-to-write.
        wait_until(lambda: service.status()["redis ready"] == len(service.workers()), "all workers to connect to the new master", 60)
        # The old master still accepts connections that the kernel took while it was stopped, and reads what was sent
        # before the failover.
        before, began = deployment.kernel_connections(old), time.monotonic()
        deployment.signal(old, signal.SIGCONT)  # it believes that it is the master
        while deployment.info(old, "replication").get("role") != "slave":
            assert deployment.service_connections(old) <= before, "a new connection to the old master"
            assert time.monotonic() - began < 60
        wait_for_counted_events(writes.results)
        wait_until(lambda: not deployment.service_connections(old), "the service to leave the old master")
    assert writes.errors == []
    readers.assert_counted_once()


def test_idle_connections_follow_a_planned_failover_too(instance, deployment, name):
    service, item = instance("--no-limits", **TIMEOUTS, **deployment.directives()), name("i")
    service.put(item)
    old = deployment.master()
    deployment.wait_for_replicas()
    deployment.redis_cli(deployment.sentinels[0], "SENTINEL", "FAILOVER", "feeds")
    wait_until(lambda: deployment.master() not in (old, None), "a failover", 60)
    new = deployment.master()
    wait_until_ready(service)
    wait_until(lambda: not deployment.service_connections(old), "the old master to have no connections", 60)
    wait_until(lambda: deployment.service_connections(new), "connections to the new master", 60)
    wait_until(lambda: service.internal().put(f"/api/items/{item}", {"title": "new", "published_at": 1}).status == 200, "a write", 30)
    assert deployment.redis_cli(new, "HGET", f"item:{{{item}}}", "title") == "new"
    # One worker's cached item must be invalidated through the subscription, which has moved too.
    wait_until(lambda: service.internal().get(f"/api/items/{item}").json()["title"] == "new", "the new title")


def test_a_reload_with_an_unknown_master_name_leaves_the_old_generation_serving(instance, deployment):
    service = instance("--no-limits", **TIMEOUTS, **deployment.directives())
    service.configure(**(deployment.directives() | {"redis__sentinel_master": '"others"'}))
    before = service.workers()
    service.signal("freshetd", signal.SIGHUP)
    wait_until(lambda: "the sentinel does not know this master" in service.log() or "sentinel_lookup_failed" in service.log(), "the reason in the log", 60)
    assert service.internal().get("/ping").status == 200  # the old generation serves
    assert set(before) & set(service.workers())

"""A failover by three real sentinels: the new master is followed, the old one is left alone, and what was acknowledged counts once."""

import signal
import time

import pytest
from client import Load
from readers import Readers
from sentinels import Deployment
from service import wait_until

TIMES = {"redis__timeout": '"500ms"', "gateway__request_budget": '"2s"'}


@pytest.fixture
def deployment():
    one = Deployment()
    yield one
    one.stop()


class Counting:
    """An instance whose counters are on whatever is the master."""

    def __init__(self, service, deployment):
        self.status, self.redis = service.status, deployment.redis


def put_some(service, name):
    """{id: title} of known items."""
    return {item: service.put(item)["title"] for item in [name("i") for _ in range(10)]}


def read(titles):
    ids = list(titles)

    def work(client, turn):
        item = ids[turn % len(ids)]
        reply = client.get(f"/api/items/{item}")
        assert reply.status in (200, 503), reply
        if reply.status == 200:
            got = reply.json()
            assert (got["id"], got["title"]) == (item, titles[item]), "another item's reply"
        return reply.status

    return work


def others(readers):
    """A load of events that were not reported before."""
    return lambda client, turn: readers.report(client, 1_000_000 + turn)


def reports(results):
    """Waits until so many more events were counted at once."""
    seen = len(results)
    wait_until(lambda: results[seen:].count(200) > 50, "counted events", 60)


def normal(service):
    return wait_until(lambda: service.internal().get("/health/ready").status == 200, "readiness", 60)


def test_a_killed_master_is_replaced_and_nothing_acknowledged_is_lost(instance, deployment, name):
    service = instance("--no-limits", **TIMES, **deployment.directives())
    readers, titles = Readers(Counting(service, deployment), name), put_some(service, name)
    with Load(service.public, readers.report) as writes:
        reports(writes.results)
    deployment.replicated()  # what a master acknowledges and has not replicated dies with it
    old = deployment.master()
    deployment.signal(old, signal.SIGKILL)
    with Load(service.public, others(readers)) as writes, Load(service.internal, read(titles), threads=2) as reads:
        wait_until(lambda: writes.results.count(202) > 20, "queued events", 60)
        wait_until(lambda: deployment.master() not in (old, None), "a failover", 60)
        normal(service)
        reports(writes.results)
        wait_until(lambda: reads.results[-20:].count(200) == 20, "reads", 60)
    assert writes.errors == [] and reads.errors == []
    assert deployment.master() != old
    readers.assert_counted_once()


def test_a_master_that_comes_back_is_not_written_to(instance, deployment, name):
    service = instance("--no-limits", **TIMES, **deployment.directives())
    readers = Readers(Counting(service, deployment), name)
    with Load(service.public, readers.report) as writes:
        reports(writes.results)
    deployment.replicated()
    old = deployment.master()
    deployment.signal(old, signal.SIGSTOP)
    with Load(service.public, others(readers)) as writes:
        wait_until(lambda: deployment.master() not in (old, None), "a failover", 60)
        normal(service)
        reports(writes.results)
        # A worker that has not heard of the failover yet would believe it: Redis' own fence for that is min-replicas-to-write.
        wait_until(lambda: service.status()["redis ready"] == len(service.workers()), "all workers at the new master", 60)
        # It will accept what the kernel took for it while it stood, and read what was sent before the failover.
        before, began = deployment.known_to_the_kernel(old), time.monotonic()
        deployment.signal(old, signal.SIGCONT)  # it takes itself for the master
        while deployment.info(old, "replication").get("role") != "slave":
            assert deployment.of_the_service(old) <= before, "a new connection to the old master"
            assert time.monotonic() - began < 60
        reports(writes.results)
        wait_until(lambda: not deployment.of_the_service(old), "the service to be gone from it")
    assert writes.errors == []
    readers.assert_counted_once()


def test_a_planned_failover_is_followed_by_idle_connections_too(instance, deployment, name):
    service, item = instance("--no-limits", **TIMES, **deployment.directives()), name("i")
    service.put(item)
    old = deployment.master()
    deployment.replicated()
    deployment.ask(deployment.sentinels[0], "SENTINEL", "FAILOVER", "feeds")
    wait_until(lambda: deployment.master() not in (old, None), "a failover", 60)
    new = deployment.master()
    normal(service)
    wait_until(lambda: not deployment.of_the_service(old), "nobody on the old master", 60)
    wait_until(lambda: deployment.of_the_service(new), "the service on the new one", 60)
    wait_until(lambda: service.internal().put(f"/api/items/{item}", {"title": "new", "published_at": 1}).status == 200, "a write", 30)
    assert deployment.ask(new, "HGET", f"item:{{{item}}}", "title") == "new"
    # One worker's list must hear of the change through the subscription that moved too.
    wait_until(lambda: service.internal().get(f"/api/items/{item}").json()["title"] == "new", "the new title")


def test_sentinels_that_do_not_know_the_name_leave_the_service_unready(instance, deployment):
    service = instance("--no-limits", **TIMES, **deployment.directives())
    service.configure(**(deployment.directives() | {"redis__sentinel_master": '"others"'}))
    before = service.workers()
    service.signal("freshetd", signal.SIGHUP)
    wait_until(lambda: "no master of that name" in service.log() or "sentinel_lookup_failed" in service.log(), "the reason in the log", 60)
    assert service.internal().get("/ping").status == 200  # the old generation serves
    assert set(before) & set(service.workers())

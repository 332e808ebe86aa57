"""H1 to H9: a site of several machines in network namespaces. Nodes of its Redis Cluster and Freshet hosts are
disconnected, killed and moved.
"""

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time

import lan
from recorded import RecorderData, Writers
from service import birth, stop_orphans, wait_until

from faults.invariants import broken_invariants
from faults.load import GETS, PAGE_READS
from faults.redis_faults import OUTAGE_STATUSES, recovery_s
from faults.scenario import fault, percentile
from faults.site import ADDED, REDIS, running_site

# A killed master may not have sent its last acknowledged writes to its replica: those of this many seconds may be lost.
REPLICATION_LAG_S = 0.1
LEASE_S = 3.0
# cluster-node-timeout where a node fails; and where none does, so that a busy node is not mistaken for a failed one.
NODE_TIMEOUT_S, LONG_NODE_TIMEOUT_S = 2.0, 10.0
LONG_TIMEOUTS = {"redis__timeout": '"3s"', "gateway__request_budget": '"9s"'}


class HostLoads:
    """One Load per host, each with its own readers. allowed: as for Load."""

    def __init__(self, run, site, allowed=(200,)):
        self.each = [run.load(host, run.readers(host, 12), connections=3, think_s=0.02, allowed=allowed) for host in site.hosts]
        self._run, self._site = run, site

    def __enter__(self):
        for load in self.each:
            load.__enter__()
        self.wait_for(150)
        return self

    def __exit__(self, *_):
        for load in self.each:
            load.stop()

    def masters(self):
        """The cluster's masters, sorted by how many of these readers' articles they have, most first. Similar ids have
        nearby slots, so some masters may have none.
        """
        return self._site.nodes.masters_by_ids(article for load in self.each for reader in load.readers for article in (reader.article, reader.viewed_article))

    def wait_for(self, count):
        for load in self.each:
            load.wait_for(count)

    def statuses(self, names=None, since=None, until=None):
        out = {}
        for load in self.each:
            for status, count in load.statuses(names, since, until).items():
                out[status] = out.get(status, 0) + count
        return out

    def p99_ms(self, since, until):
        return 1000 * percentile(sorted(each for load in self.each for each in load.latencies_s(None, since, until)), 0.99)

    def check(self, may_lose=None):
        """Checks all replies and events after the load has stopped."""
        self._run.report(f"{sum(load.requests for load in self.each):,} requests")
        self._run.expect_none("mixed up", sum(load.mixed_up for load in self.each), [text for load in self.each for text in load.mixups])
        self._run.expect_none("unexpected replies", sum(load.failed for load in self.each), [text for load in self.each for text in load.failures])
        pages = self.statuses(PAGE_READS)
        self._run.expect_none("pages without a 200", sum(pages.values()) - pages.get(200, 0), [str(pages)])
        for host, load in zip(self._site.hosts, self.each):
            self._run.check_events(host, load, may_lose)

    def expect_no_errors(self):
        errors = {status: count for status, count in self.statuses().items() if status == 0 or status >= 500}
        self._run.expect_none("× 5xx or lost", sum(errors.values()), [str(errors)])

    def read_recovery_s(self, since, until):
        """Seconds from `since` to the last read that was degraded or refused."""
        return max(recovery_s(load, since, until, GETS) for load in self.each)


@contextlib.contextmanager
def site_or_skip(run, nodes_fail):
    """The running site, or None where namespaces are not available. Checks the invariants at the end."""
    if reason := lan.missing_requirement():
        run.report(f"SKIPPED: {reason}", False)
        yield None
        return
    lan.remove_orphans()
    stop_orphans()
    folder = tempfile.mkdtemp(prefix=f"freshet-e2e-{os.getpid()}-site-", dir="/tmp")
    os.chmod(folder, 0o755)
    try:
        with (running_site(folder, NODE_TIMEOUT_S) if nodes_fail else running_site(folder, LONG_NODE_TIMEOUT_S, **LONG_TIMEOUTS)) as site:
            yield site
            broken = [text for host in site.hosts if os.path.exists(os.path.join(host.state, "run/processes")) for text in broken_invariants(host)]
            run.expect_none("invariants broken", len(broken), broken)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def format_seconds(durations):
    return ", ".join(f"{each:.2f}" for each in durations)


def lost_shortly_before(times):
    """Returns a may_lose function: loss is allowed for events acknowledged within REPLICATION_LAG_S before one of the
    times.
    """
    def is_allowed(balance):
        return len(balance.lost_times) == balance.lost and all(
            any(end - REPLICATION_LAG_S <= each <= end for end in times) for each in balance.lost_times)
    return is_allowed


def site_fault(name, description, target, nodes_fail=True):
    """Registers function(run, site). nodes_fail: whether the cluster has to detect failures of nodes."""
    def register(function):
        def run_with_site(run):
            with site_or_skip(run, nodes_fail) as site:
                if site:
                    function(run, site)
        return fault(name, description, target)(run_with_site)
    return register


@site_fault("H1", "nothing: two hosts use a cluster of three masters", "0 lost, 0 counted twice, 0 × 5xx", nodes_fail=False)
def steady(run, site):
    with HostLoads(run, site) as loads:
        began = time.monotonic()
        loads.wait_for(run.scale(300, 5000))
        run.report(f"p99 {loads.p99_ms(began, None):.0f} ms")
    loads.expect_no_errors()
    loads.check()


@site_fault("H2", "1,500 slots move to another master, then all slots of the shared keys", "0 lost, 0 counted twice, 0 × 5xx; p99 ≤ 3 × before",
            nodes_fail=False)
def slots_moved(run, site):
    nodes = site.nodes
    with HostLoads(run, site) as loads:
        before = time.monotonic()
        loads.wait_for(run.scale(150, 1500))
        since = time.monotonic()
        masters = list(nodes.masters())
        nodes.reshard(masters[0], masters[1], run.scale(300, 1500))
        shared = nodes.shared_slots()
        for slot, source in shared.items():
            nodes.move(slot, source, next(each for each in nodes.masters() if each != source))
        until = time.monotonic()
        loads.wait_for(150)
        before_ms, moving_ms = loads.p99_ms(before, since), loads.p99_ms(since, until)
    run.report(f"{run.scale(300, 1500):,} slots and {len(shared)} of shared keys moved in {until - since:.1f} s")
    run.expect_at_most(f"p99 {before_ms:.0f} ms before, {moving_ms:.0f} ms meanwhile:", moving_ms / before_ms, 3, "×")
    loads.expect_no_errors()
    loads.check()


@site_fault("H3", "kill -9 each master in turn; it returns as a replica", "pages 100 % 200; reads complete ≤ timeout + 2 s; 0 lost")
def masters_killed(run, site):
    nodes, failover_s, read_recovery_s, write_recovery_s, killed = site.nodes, [], [], [], []
    with HostLoads(run, site, OUTAGE_STATUSES) as loads:
        for victim in loads.masters()[:run.scale(1, 3)]:
            successor = nodes.replica_of(victim)
            killed.append(time.monotonic())
            nodes.kill(victim)
            wait_until(lambda victim=victim, successor=successor: successor in nodes.masters() and victim not in nodes.masters(), "the failover", 30)
            failover_s.append(time.monotonic() - killed[-1])
            loads.wait_for(200)
            # The new master has no replica, so with min-replicas-to-write it accepts writes only when the old one is
            # back.
            began = time.monotonic()
            read_recovery_s.append(loads.read_recovery_s(killed[-1], began))
            nodes.start(victim)
            nodes.wait_for_replicas()
            write_recovery_s.append(site.wait_until_normal() - began)
            loads.wait_for(100)
        queued = loads.statuses(since=killed[0]).get(202, 0)
    run.report(f"{len(killed)} killed, {queued:,} writes queued", queued > 0, safety=True)
    run.report(f"failover after {format_seconds(failover_s)} s, reads complete after {format_seconds(read_recovery_s)} s")
    run.expect_at_most("reads complete after at most", max(read_recovery_s), NODE_TIMEOUT_S + 2, "s")
    run.report(f"writes normal {max(write_recovery_s):.1f} s after the killed node was started again")
    loads.check(lost_shortly_before(killed))


@site_fault("H4", "a master's machine is disconnected until its replica has taken over", "pages 100 % 200; reads complete ≤ timeout + 2 s; 0 lost")
def master_disconnected(run, site):
    nodes = site.nodes
    with HostLoads(run, site, OUTAGE_STATUSES) as loads:
        victim = loads.masters()[0]
        name = REDIS[nodes.hosts.index(victim[0])]
        successor = nodes.replica_of(victim)
        cut = time.monotonic()
        site.lan.cut(name, "back")
        wait_until(lambda: successor in nodes.masters() and victim not in nodes.masters(), "the failover", 30)
        failover_s = time.monotonic() - cut
        loads.wait_for(200)
        healed = time.monotonic()
        site.lan.heal(name, "back")
        nodes.wait_for_replicas()
        normal_s = site.wait_until_normal() - healed
        queued = loads.statuses(since=cut).get(202, 0)
    run.report(f"{queued:,} writes queued", queued > 0, safety=True)
    run.report(f"failover after {failover_s:.2f} s")
    run.expect_at_most("reads complete after", loads.read_recovery_s(cut, healed), NODE_TIMEOUT_S + 2, "s")
    run.report(f"writes normal {normal_s:.1f} s after the reconnection")
    loads.check(lost_shortly_before([cut]))


@site_fault("H5", "a Freshet host is disconnected from Redis, but not from its clients", "degraded reads, queued writes merged; 0 lost, 0 counted twice")
def host_disconnected(run, site):
    with HostLoads(run, site, OUTAGE_STATUSES) as loads:
        cut = time.monotonic()
        site.lan.cut("freshet2", "back")
        wait_until(lambda: site.second.status()["redis ready"] == 0, "the host to notice that Redis is unreachable")
        noticed = time.monotonic()
        loads.wait_for(run.scale(150, 2000))
        healed = time.monotonic()
        site.lan.heal("freshet2", "back")
        normal_s = site.wait_until_normal() - healed
        connected = loads.each[0].statuses(since=cut, until=healed)
        load = loads.each[1]
        queued, degraded = load.statuses(("track", "view", "history_view"), noticed, healed), load.degraded_count(noticed, healed)
    run.expect_none("replies of the other host 5xx or lost", sum(count for status, count in connected.items() if status == 0 or status >= 500), [str(connected)])
    run.report(f"{degraded:,} pages degraded, {queued.get(202, 0):,} writes queued", queued.get(202, 0) > 0 and degraded > 0, safety=True)
    run.report(f"normal {normal_s:.1f} s after the reconnection")
    loads.check()


@site_fault("H6", "workers are frozen while slots move, and continue with an outdated slot map", "0 lost, 0 counted twice, 0 × 5xx", nodes_fail=False)
def workers_frozen(run, site):
    nodes = site.nodes
    with HostLoads(run, site) as loads:
        workers = site.second.workers()
        try:
            for pid in workers:
                os.kill(pid, signal.SIGSTOP)
            masters = list(nodes.masters())
            nodes.reshard(masters[0], masters[2], 100)
            for slot, source in nodes.shared_slots().items():
                nodes.move(slot, source, next(each for each in nodes.masters() if each != source))
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGCONT)
        loads.wait_for(200)
    run.expect_none("workers lost", len(set(workers) - set(site.second.workers())))
    loads.expect_no_errors()
    loads.check()


@site_fault("H7", "a fourth master receives a quarter of the slots, returns them and leaves", "0 lost, 0 counted twice, 0 × 5xx", nodes_fail=False)
def node_added_and_removed(run, site):
    nodes, slots = site.nodes, run.scale(300, 4096)
    masters = list(nodes.masters())
    added, added_replica = (nodes.hosts[0], ADDED), (nodes.hosts[1], ADDED)
    with HostLoads(run, site) as loads:
        began = time.monotonic()
        known = "{}:{}".format(*masters[0])
        for each in (added, added_replica):
            nodes.start(each)
        nodes.call(added, "CONFIG", "SET", "min-replicas-to-write", 0)  # otherwise it rejects what redis-cli copies to it
        nodes.tool("add-node", "{}:{}".format(*added), known)
        wait_until(lambda: added in nodes.rows() and len(nodes.rows(added)) == 7, "the new node to be known")
        nodes.tool("add-node", "{}:{}".format(*added_replica), known, "--cluster-slave", "--cluster-master-id", nodes.rows()[added][0])
        wait_until(lambda: nodes.reports(added_replica, "master_link_status:up", ("INFO", "replication")), "its replica")
        wait_until(lambda: all(len(nodes.rows(each)) == 8 for each in nodes.rows()), "all nodes to know both")
        nodes.call(added, "CONFIG", "SET", "min-replicas-to-write", 1)
        nodes.reshard(masters[0], added, slots)
        loads.wait_for(150)
        nodes.reshard(added, masters[1], slots)
        for each in (added_replica, added):
            nodes.tool("del-node", known, nodes.rows(each)[each][0])
        loads.wait_for(150)
        run.report(f"{slots:,} slots moved and returned in {time.monotonic() - began:.1f} s")
    loads.expect_no_errors()
    loads.check()


@site_fault("H8", "each node is restarted, masters after a failover", "pages 100 % 200; 0 lost")
def rolling_restart(run, site):
    nodes = site.nodes
    with HostLoads(run, site, OUTAGE_STATUSES) as loads:
        began = time.monotonic()
        for number, address in enumerate([each for each in nodes.rows()][:run.scale(2, 6)]):
            if address in nodes.masters():
                successor = nodes.replica_of(address)
                nodes.call(successor, "CLUSTER", "FAILOVER")
                wait_until(lambda successor=successor: successor in nodes.masters(), "the failover")
            nodes.restart(address)
            nodes.wait_for_replicas()
        run.report(f"{number + 1} nodes in {time.monotonic() - began:.1f} s, {loads.statuses().get(202, 0):,} writes queued")
        site.wait_until_normal()
        loads.wait_for(100)
    loads.check()


@site_fault("H9", "the recorder's host loses power, another host has its volume", "refused ≤ 1 s; taken over ≤ lease + 1 s; 0 lost")
def recorder_host_lost(run, site):
    first, second = site.hosts
    volume, numbers, lock = os.path.join(first.state, "record"), iter(range(10**9)), threading.Lock()

    def new_name(prefix):
        with lock:
            return f"{prefix}-h9-{next(numbers)}"
    writers = Writers(new_name, refusals=(500, 502, 503, 504))
    second.configure(recorder__enabled="true", recorder__database=f'"{volume}/freshet.db"', search__index=f'"{volume}/index"')
    requested = time.monotonic()
    second.signal("freshetd", signal.SIGHUP)
    wait_until(lambda: "event=recorder_paused reason=lease_held" in second.log(), "the second recorder to be refused")
    run.expect_at_most("the second recorder refused after", time.monotonic() - requested, 1, "s")
    RecorderData(second).wait_for_state("waiting", "lease_held")
    stop = threading.Event()

    def write():
        client, turn = second.internal(), 0
        while not stop.is_set():
            writers.write(client, turn)
            turn += 1
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    wait_until(lambda: len(writers.expected) > 100, "writes")
    processes = {pid: birth(pid) for pid in first.machine.processes()}
    lost = time.monotonic()
    site.lan.cut("freshet1", "back", "front")
    site.kill_host(first)
    wait_until(lambda: second.status()["recorder"] == "running", "the takeover", 30)
    run.expect_at_most("taken over after", time.monotonic() - lost, LEASE_S + 1, "s")
    wait_until(lambda: not any(birth(pid) == born for pid, born in processes.items()), "the host's processes to end")
    count = len(writers.expected)
    wait_until(lambda: len(writers.expected) > count + 100, "writes")
    stop.set()
    thread.join(60)
    recorded = RecorderData(first)  # on the volume
    wait_until(lambda: set(recorded.titles()) >= set(writers.expected), "acknowledged items to be recorded", 60)
    titles = recorded.titles()
    wrong = [item for item, title in writers.expected.items() if titles.get(item) != title]
    run.expect_none(f"of {len(writers.expected):,} acknowledged items lost", len(wrong), wrong)
    remaining = [item for item in titles if item.startswith("w-h9-") and item not in writers.expected]
    run.expect_none("deleted items left", len(remaining), remaining)
    site.lan.heal("freshet1", "back", "front")
    first.start()

"""H1 to H9: many machines, on networks of their own: their Redis Cluster is cut, killed and moved about, and so are the hosts before it."""

import contextlib
import os
import shutil
import signal
import tempfile
import threading
import time

import lan
from recorded import Recorded, Writers
from service import birth, stop_orphans, wait_until

from faults.invariants import broken_invariants
from faults.load import GETS, LISTS
from faults.redis_away import AWAY, back_to_normal
from faults.scenario import fault, percentile
from faults.site import GUEST, REDIS, site

# What a master acknowledged in the moment before its end may not have been on its way to its replica.
SENT_S = 0.1
LEASE_S = 3.0
# Where a node is to be missed, and where a busy machine is not to be mistaken for one that is away.
NODE_TIMEOUT_S, PATIENCE_S = 2.0, 10.0
PATIENT = {"redis__timeout": '"3s"', "gateway__request_budget": '"9s"'}


class Loads:
    """A load of each host, from readers of its own; together they are what the site's clients saw. allowed: as Load has it."""

    def __init__(self, run, where, allowed=(200,)):
        self.each = [run.load(host, run.readers(host, 12), connections=3, think_s=0.02, allowed=allowed) for host in where.hosts]
        self._run, self._where = run, where

    def __enter__(self):
        for load in self.each:
            load.__enter__()
        self.wait_for(150)
        return self

    def __exit__(self, *_):
        for load in self.each:
            load.stop()

    def masters(self):
        """The cluster's, first the one with most of the articles that these readers count for. Another may have none: the slots of alike ids are alike."""
        return self._where.nodes.masters_of(article for load in self.each for reader in load.readers for article in (reader.article, reader.viewed_article))

    def wait_for(self, more):
        for load in self.each:
            load.wait_for(more)

    def statuses(self, names=None, since=None, until=None):
        out = {}
        for load in self.each:
            for status, count in load.statuses(names, since, until).items():
                out[status] = out.get(status, 0) + count
        return out

    def p99_ms(self, since, until):
        return 1000 * percentile(sorted(each for load in self.each for each in load.seconds(None, since, until)), 0.99)

    def judge(self, may_lose=None):
        """After the end: every reply, and every event."""
        self._run.figure(f"{sum(load.requests for load in self.each):,} requests")
        self._run.none("mix-ups", sum(load.mixed_up for load in self.each), [text for load in self.each for text in load.mixups])
        self._run.none("unexpected replies", sum(load.failed for load in self.each), [text for load in self.each for text in load.failures])
        lists = self.statuses(LISTS)
        self._run.none("pages without a 200", sum(lists.values()) - lists.get(200, 0), [str(lists)])
        for host, load in zip(self._where.hosts, self.each):
            self._run.balance(host, load, may_lose)

    def judge_refused(self):
        refused = {status: count for status, count in self.statuses().items() if status == 0 or status >= 500}
        self._run.none("× 5xx or lost", sum(refused.values()), [str(refused)])

    def reads_back_s(self, since, until):
        """From `since` to the last read that was degraded or refused."""
        return max(back_to_normal(load, since, until, GETS) for load in self.each)


@contextlib.contextmanager
def whole_site(run, patient):
    """The site, or None where there can be none; ends with the invariants."""
    if why := lan.why_not():
        run.figure(f"SKIPPED: {why}", False)
        yield None
        return
    lan.remove_orphans()
    stop_orphans()
    folder = tempfile.mkdtemp(prefix=f"freshet-e2e-{os.getpid()}-site-", dir="/tmp")
    os.chmod(folder, 0o755)
    try:
        with (site(folder, PATIENCE_S, **PATIENT) if patient else site(folder, NODE_TIMEOUT_S)) as made:
            yield made
            broken = [text for host in made.hosts if os.path.exists(os.path.join(host.state, "run/processes")) for text in broken_invariants(host)]
            run.none("invariants broken", len(broken), broken)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def in_seconds(each):
    return ", ".join(f"{took:.2f}" for took in each)


def within(seconds, moments):
    """may_lose of a balance: only what was acknowledged so shortly before one of these moments."""
    def allowed(balance):
        return len(balance.lost_times) == balance.lost and all(any(moment - seconds <= each <= moment for moment in moments) for each in balance.lost_times)
    return allowed


def many_hosts(name, done, target, patient=False):
    """A fault that has a site. patient: nobody is to be missed."""
    def register(function):
        def carried_out(run):
            with whole_site(run, patient) as where:
                if where:
                    function(run, where)
        return fault(name, done, target)(carried_out)
    return register


@many_hosts("H1", "two hosts before a cluster of three, undisturbed", "0 lost, 0 twice, 0 × 5xx", patient=True)
def steady(run, where):
    with Loads(run, where) as loads:
        began = time.monotonic()
        loads.wait_for(run.scale(300, 5000))
        run.figure(f"p99 {loads.p99_ms(began, None):.0f} ms")
    loads.judge_refused()
    loads.judge()


@many_hosts("H2", "1,500 slots move to another master, then every slot of what all articles share", "0 lost, 0 twice, 0 × 5xx; p99 ≤ 3 × steady", patient=True)
def resharded(run, where):
    nodes = where.nodes
    with Loads(run, where) as loads:
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
        steady_ms, moving_ms = loads.p99_ms(before, since), loads.p99_ms(since, until)
    run.figure(f"{run.scale(300, 1500):,} slots and {len(shared)} with what all share in {until - since:.1f} s")
    run.at_most(f"p99 {steady_ms:.0f} ms, meanwhile {moving_ms:.0f} ms:", moving_ms / steady_ms, 3, "×")
    loads.judge_refused()
    loads.judge()


@many_hosts("H3", "kill -9 each master in turn; it comes back as a replica", "pages 100 % 200; back ≤ timeout + 2 s; 0 lost")
def masters_killed(run, where):
    nodes, placed, reads_back, back, killed = where.nodes, [], [], [], []
    with Loads(run, where, AWAY) as loads:
        for victim in loads.masters()[:run.scale(1, 3)]:
            heir = nodes.replica_of(victim)
            killed.append(time.monotonic())
            nodes.kill(victim)
            wait_until(lambda victim=victim, heir=heir: heir in nodes.masters() and victim not in nodes.masters(), "its replica's turn", 30)
            placed.append(time.monotonic() - killed[-1])
            loads.wait_for(200)
            # The heir has no replica, so by min-replicas-to-write its writes wait until the other is back.
            began = time.monotonic()
            reads_back.append(loads.reads_back_s(killed[-1], began))
            nodes.start(victim)
            nodes.await_replicas()
            back.append(where.await_normal() - began)
            loads.wait_for(100)
        queued = loads.statuses(since=killed[0]).get(202, 0)
    run.figure(f"{len(killed)} killed, {queued:,} writes queued", queued > 0, safety=True)
    run.figure(f"Redis' replicas in their places after {in_seconds(placed)} s, reads whole after {in_seconds(reads_back)}")
    run.at_most("reads whole again after", max(reads_back), NODE_TIMEOUT_S + 2, "s")
    run.figure(f"writes {max(back):.1f} s after the killed one was started again")
    loads.judge(within(SENT_S, killed))


@many_hosts("H4", "the cable of a master's machine is cut, and mended once its replica has its place", "pages 100 % 200; back ≤ timeout + 2 s; 0 lost")
def master_cut_off(run, where):
    nodes = where.nodes
    with Loads(run, where, AWAY) as loads:
        victim = loads.masters()[0]
        name = REDIS[nodes.hosts.index(victim[0])]
        heir = nodes.replica_of(victim)
        cut = time.monotonic()
        where.lan.cut(name, "back")
        wait_until(lambda: heir in nodes.masters() and victim not in nodes.masters(), "its replica's turn", 30)
        placed = time.monotonic() - cut
        loads.wait_for(200)
        mended = time.monotonic()
        where.lan.heal(name, "back")
        nodes.await_replicas()
        normal = where.await_normal() - mended
        queued = loads.statuses(since=cut).get(202, 0)
    run.figure(f"{queued:,} writes queued", queued > 0, safety=True)
    run.figure(f"its replica in its place after {placed:.2f} s")
    run.at_most("reads whole again after", loads.reads_back_s(cut, mended), NODE_TIMEOUT_S + 2, "s")
    run.figure(f"writes {normal:.1f} s after the mending")
    loads.judge(within(SENT_S, [cut]))


@many_hosts("H5", "a Freshet host loses Redis, not its clients", "it serves degraded reads, spools, and merges without loss or repetition")
def host_cut_off(run, where):
    with Loads(run, where, AWAY) as loads:
        cut = time.monotonic()
        where.lan.cut("freshet2", "back")
        wait_until(lambda: where.second.status()["redis ready"] == 0, "the loss to be noticed")
        noticed = time.monotonic()
        loads.wait_for(run.scale(150, 2000))
        mended = time.monotonic()
        where.lan.heal("freshet2", "back")
        normal = where.await_normal() - mended
        other = loads.each[0].statuses(since=cut, until=mended)
        here = loads.each[1]
        queued, degraded = here.statuses(("track", "view", "look"), noticed, mended), here.degraded(noticed, mended)
    run.none("of the other host's replies 5xx or lost", sum(count for status, count in other.items() if status == 0 or status >= 500), [str(other)])
    run.figure(f"{queued.get(202, 0):,} writes queued, {degraded:,} reads degraded", queued.get(202, 0) > 0 and degraded > 0, safety=True)
    run.figure(f"normal {normal:.1f} s after the mending")
    loads.judge()


@many_hosts("H6", "workers stand still while slots move, and go on with a map that is old", "0 lost, 0 twice, 0 × 5xx", patient=True)
def stale_map(run, where):
    nodes = where.nodes
    with Loads(run, where) as loads:
        workers = where.second.workers()
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
    run.none("workers lost", len(set(workers) - set(where.second.workers())))
    loads.judge_refused()
    loads.judge()


@many_hosts("H7", "a fourth master joins, gets a quarter of the slots, gives them back and leaves", "0 lost, 0 twice, 0 × 5xx", patient=True)
def node_comes_and_goes(run, where):
    nodes, slots = where.nodes, run.scale(300, 4096)
    masters = list(nodes.masters())
    guest, guests_replica = (nodes.hosts[0], GUEST), (nodes.hosts[1], GUEST)
    with Loads(run, where) as loads:
        began = time.monotonic()
        known = "{}:{}".format(*masters[0])
        for each in (guest, guests_replica):
            nodes.start(each)
        nodes.ask(guest, "CONFIG", "SET", "min-replicas-to-write", 0)  # or it takes nothing from redis-cli
        nodes.tool("add-node", "{}:{}".format(*guest), known)
        wait_until(lambda: guest in nodes.rows() and len(nodes.rows(guest)) == 7, "the new node to be known")
        nodes.tool("add-node", "{}:{}".format(*guests_replica), known, "--cluster-slave", "--cluster-master-id", nodes.rows()[guest][0])
        wait_until(lambda: nodes.says(guests_replica, "master_link_status:up", ("INFO", "replication")), "its replica")
        wait_until(lambda: all(len(nodes.rows(each)) == 8 for each in nodes.rows()), "all to know them")
        nodes.ask(guest, "CONFIG", "SET", "min-replicas-to-write", 1)
        nodes.reshard(masters[0], guest, slots)
        loads.wait_for(150)
        nodes.reshard(guest, masters[1], slots)
        for each in (guests_replica, guest):
            nodes.tool("del-node", known, nodes.rows(each)[each][0])
        loads.wait_for(150)
        run.figure(f"{slots:,} slots there and back in {time.monotonic() - began:.1f} s")
    loads.judge_refused()
    loads.judge()


@many_hosts("H8", "each node is restarted, a master after it handed over to its replica", "pages 100 % 200; 0 lost")
def rolling_restart(run, where):
    nodes = where.nodes
    with Loads(run, where, AWAY) as loads:
        began = time.monotonic()
        for number, address in enumerate([each for each in nodes.rows()][:run.scale(2, 6)]):
            if address in nodes.masters():
                heir = nodes.replica_of(address)
                nodes.ask(heir, "CLUSTER", "FAILOVER")
                wait_until(lambda heir=heir: heir in nodes.masters(), "the hand-over")
            nodes.restart(address)
            nodes.await_replicas()
        run.figure(f"{number + 1} nodes in {time.monotonic() - began:.1f} s, {loads.statuses().get(202, 0):,} writes queued")
        where.await_normal()
        loads.wait_for(100)
    loads.judge()


@many_hosts("H9", "the recorder's host loses its power; the other has its volume", "refused ≤ 1 s; taken over ≤ lease + 1 s; 0 lost")
def recorders_host_lost(run, where):
    first, second = where.hosts
    volume, numbers, lock = os.path.join(first.state, "record"), iter(range(10**9)), threading.Lock()

    def name(word):
        with lock:
            return f"{word}-h9-{next(numbers)}"
    writers = Writers(name, refusals=(500, 502, 503, 504))
    second.configure(recorder__enabled="true", recorder__database=f'"{volume}/freshet.db"', search__index=f'"{volume}/index"')
    asked = time.monotonic()
    second.signal("freshetd", signal.SIGHUP)
    wait_until(lambda: "event=recorder_paused for=lease_held" in second.log(), "the refusal")
    run.at_most("the second recorder refused after", time.monotonic() - asked, 1, "s")
    Recorded(second).wait_until_it("waiting", "lease_held")
    stop = threading.Event()

    def write():
        client, turn = second.internal(), 0
        while not stop.is_set():
            writers.write(client, turn)
            turn += 1
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    wait_until(lambda: len(writers.kept) > 100, "writes")
    processes = {pid: birth(pid) for pid in first.machine.processes()}
    lost = time.monotonic()
    where.lan.cut("freshet1", "back", "front")
    where.kill_host(first)
    wait_until(lambda: second.status()["recorder"] == "running", "the take-over", 30)
    run.at_most("taken over after", time.monotonic() - lost, LEASE_S + 1, "s")
    wait_until(lambda: not any(birth(pid) == born for pid, born in processes.items()), "the end of the host's processes")
    seen = len(writers.kept)
    wait_until(lambda: len(writers.kept) > seen + 100, "writes")
    stop.set()
    thread.join(60)
    recorded = Recorded(first)  # the volume
    wait_until(lambda: set(recorded.titles()) >= set(writers.kept), "what was acknowledged to be recorded", 60)
    titles = recorded.titles()
    wrong = [item for item, title in writers.kept.items() if titles.get(item) != title]
    run.none(f"of {len(writers.kept):,} acknowledged items lost", len(wrong), wrong)
    more = [item for item in titles if item.startswith("w-h9-") and item not in writers.kept]
    run.none("deleted items left", len(more), more)
    where.lan.heal("freshet1", "back", "front")
    first.start()

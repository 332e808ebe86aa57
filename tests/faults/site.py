"""A site of many machines (tests/support/lan.py): three with Redis, two with Freshet, and the client, which is this process.

Each Redis machine has a master and the replica of its neighbour's: a Redis Cluster, with the shipped accounts. The machines of Freshet are on the
switch "front", where the client is, and on "back", where Redis is; the first has the recorder, and what it writes lies on a volume that both see.
"""

import contextlib
import hashlib
import os
import signal
import subprocess
import time

import redis
from lan import Lan
from redis.crc import key_slot
from service import CTL, LETS_GO_SOON, PATIENT, ROOT, Instance, wait_until

from faults.scenario import NO_LIMITS

REDIS, FRESHET = ("redis1", "redis2", "redis3"), ("freshet1", "freshet2")
MASTER, REPLICA, GUEST = 6379, 6380, 6381  # ports on each Redis machine
SLOTS = 16384
NOBODY = (65534, 65534)
PASSWORD = "not a secret"
GONE = (redis.exceptions.RedisError, OSError)
CONFIGURATION = f"""cluster-enabled yes
cluster-require-full-coverage no
cluster-migration-barrier 999
appendonly yes
appendfsync everysec
save ""
requirepass "{PASSWORD}"
masterauth "{PASSWORD}"
min-replicas-to-write 1
min-replicas-max-lag 10
"""


class Host(Instance):
    """Freshet on one of the machines."""

    def __init__(self, machine, nodes, **directives):
        super().__init__("--no-limits", "--redis", nodes.url(), redis__username='"freshet"', redis__password_file=f'"{nodes.folder}/password"',
                         **(NO_LIMITS | PATIENT | directives))
        self.machine, self._cluster, self.masters = machine, nodes, len(REDIS)
        self.inside, front = machine.inside(), machine.addresses["front"]
        self.nginx_edit = LETS_GO_SOON + rf"; s/^\( *listen \){self.host}:\([0-9]*\)/\1{front}:\2; listen {self.host}:\2/"
        self.host = front

    def nodes(self, role):
        return [address for address, row in self._cluster.rows().items() if role in row[2] and "fail" not in row[2]]

    def _redis_cli(self, node=None):
        host, port = node or self._cluster.any()
        return ["redis-cli", "-c", "-h", host, "-p", str(port)]

    def _redis_environment(self):
        return os.environ | {"REDISCLI_AUTH": PASSWORD}

    def check(self):
        self.await_placed(1)
        done = subprocess.run([CTL, "check", "--state", self.state, "--redis-user", f"freshet-operator:{self._cluster.folder}/password"],
                              capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class Nodes:
    """The servers of the cluster by their addresses (host, port)."""

    def __init__(self, lan, folder, timeout_s):
        self._lan, self.folder, self._processes = lan, folder, {}
        self._machines = {lan.machines[name].addresses["back"]: lan.machines[name] for name in REDIS}
        with open(os.path.join(folder, "password"), "w", encoding="ascii") as file:
            file.write(PASSWORD)
        digest = hashlib.sha256(PASSWORD.encode()).hexdigest()
        with open(os.path.join(ROOT, "systemd/redis-acl.conf"), encoding="utf-8") as shipped, \
                open(os.path.join(folder, "redis.conf"), "w", encoding="utf-8") as file:
            file.write(f"cluster-node-timeout {int(1000 * timeout_s)}\n" + CONFIGURATION + shipped.read().replace(" on resetpass", f" on resetpass #{digest}"))
        self.hosts = list(self._machines)
        masters = [(host, MASTER) for host in self.hosts]
        for address in [*masters, *((host, REPLICA) for host in self.hosts)]:
            self.start(address)
        # One after the other they would take the epochs' collisions to settle.
        for number, address in enumerate(masters):
            self.ask(address, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            self.ask(address, "CLUSTER", "ADDSLOTSRANGE", SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1)
        for host in self.hosts:
            for port in (MASTER, REPLICA):
                self.ask(masters[0], "CLUSTER", "MEET", host, port)
        wait_until(lambda: all(len(self.rows(each)) == 6 and self.says(each, "cluster_state:ok") for each in self._processes), "a cluster")
        for number, host in enumerate(self.hosts):
            self.ask((host, REPLICA), "CLUSTER", "REPLICATE", self.rows()[masters[number - 1]][0])
        self.await_replicas()

    def url(self):
        return "redis+cluster://" + ",".join(f"{host}:{MASTER}" for host in self.hosts)

    # --- its servers

    def start(self, address):
        """Also again, on the same files."""
        host, port = address
        folder = os.path.join(self.folder, f"{host}-{port}")
        os.makedirs(folder, exist_ok=True)
        os.chown(folder, *NOBODY)
        with open(os.path.join(self.folder, f"{host}-{port}.log"), "ab") as log:
            self._processes[address] = subprocess.Popen(
                [*self._machines[host].inside(), "setpriv", f"--reuid={NOBODY[0]}", f"--regid={NOBODY[1]}", "--clear-groups", "redis-server",
                 f"{self.folder}/redis.conf", "--bind", host, "--port", str(port), "--dir", folder],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_until(lambda: self.answers(address), f"Redis at {host}:{port}")

    def kill(self, address, number=signal.SIGKILL):
        self._processes[address].send_signal(number)
        self._processes[address].wait(30)

    def restart(self, address):
        """As an operator does it: what it has is on its disk."""
        self.kill(address, signal.SIGTERM)
        self.start(address)

    # --- what they say

    def ask(self, address, *command):
        """Of this one alone; raises one of GONE."""
        host, port = address
        with contextlib.closing(redis.Redis(host, port, password=PASSWORD, socket_timeout=5, socket_connect_timeout=5, decode_responses=True)) as client:
            # As it comes: the library's own idea of a reply depends on the command.
            connection = client.connection_pool.get_connection("_")
            try:
                connection.send_command(*command)
                return connection.read_response()
            finally:
                client.connection_pool.release(connection)

    def answers(self, address):
        try:
            return self.ask(address, "PING") == "PONG"
        except GONE:
            return False

    def says(self, address, line, command=("CLUSTER", "INFO")):
        try:
            return line in self.ask(address, *command)
        except GONE:
            return False

    def any(self):
        """One that is there and in step with the others."""
        return wait_until(lambda: next((each for each in self._processes if self.says(each, "cluster_state:ok")), None), "a node of the cluster")

    def rows(self, of=None):
        """address → its words in CLUSTER NODES, as a node sees them."""
        out = {}
        for line in self.ask(of or self.any(), "CLUSTER", "NODES").splitlines():
            words = line.split()
            host, _, port = words[1].split("@")[0].rpartition(":")
            out[(host, int(port))] = words
        return out

    def masters(self):
        """address → its slots, of those that have any."""
        out = {}
        for address, words in self.rows().items():
            ranges = [each.split("-") for each in words[8:] if not each.startswith("[")]
            if "master" in words[2] and "fail" not in words[2] and ranges:
                out[address] = [slot for each in ranges for slot in range(int(each[0]), int(each[-1]) + 1)]
        return out

    def masters_of(self, ids):
        """All of them, first the one that has most of these ids."""
        slots = [key_slot(each.encode()) for each in ids]
        masters = {address: set(owned) for address, owned in self.masters().items()}
        return sorted(masters, key=lambda each: -sum(slot in masters[each] for slot in slots))

    def await_replicas(self):
        """Until each master has one, and both think so."""
        def whole():
            rows, masters = self.rows(), self.masters()
            followed = {row[3] for address, row in rows.items() if "slave" in row[2] and self.says(address, "master_link_status:up", ("INFO", "replication"))}
            return sum(map(len, masters.values())) == SLOTS and {rows[each][0] for each in masters} <= followed and \
                all(self.says(each, "state=online", ("INFO", "replication")) for each in masters)
        wait_until(whole, "a replica of each master", 60)

    def replica_of(self, master):
        rows = self.rows()
        return next(address for address, row in rows.items() if row[3] == rows[master][0] and "fail" not in row[2])

    # --- slots

    def tool(self, *command):
        wait_until(self._agree, "nodes that say the same of the cluster", 60)
        done = subprocess.run(["redis-cli", "--cluster", *map(str, command), "--cluster-yes"], env=os.environ | {"REDISCLI_AUTH": PASSWORD},
                              capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr
        return done.stdout

    def _agree(self):
        """Who is what to whom, and has which slots."""
        def view(of):
            return {(words[0], words[2].replace("myself,", ""), words[3], *words[8:]) for words in self.rows(of).values()}
        try:
            return len({frozenset(view(each)) for each in self.rows()}) == 1
        except GONE:
            return False

    def reshard(self, source, target, slots):
        rows = self.rows()
        self.tool("reshard", "{}:{}".format(*source), "--cluster-from", rows[source][0], "--cluster-to", rows[target][0], "--cluster-slots", slots)

    def move(self, slot, source, target):
        """What reshard does, of one slot that it would not choose."""
        rows = self.rows()
        self.ask(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", rows[source][0])
        self.ask(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", rows[target][0])
        while keys := self.ask(source, "CLUSTER", "GETKEYSINSLOT", slot, 10):
            self.ask(source, "MIGRATE", *target, "", 0, 5000, "AUTH", PASSWORD, "KEYS", *keys)
        for each in (target, source, *(other for other in self.masters() if other not in (source, target))):
            self.ask(each, "CLUSTER", "SETSLOT", slot, "NODE", rows[target][0])

    def shared_slots(self):
        """slot → its master, of each slot with a key of what all articles share."""
        out = {}
        for master in self.masters():
            for pattern in ("hot:rank:*", "hot:published*", "hot:newest*", "recorder:stream*", "hot:epoch*"):
                for key in self.ask(master, "KEYS", pattern):
                    out[self.ask(master, "CLUSTER", "KEYSLOT", key)] = master
        return out


class Site:
    """lan, nodes, and the two hosts: first (which records) and second."""

    def __init__(self, lan, nodes, first, second):
        self.lan, self.nodes, self.first, self.second = lan, nodes, first, second
        self.hosts = (first, second)

    def kill_host(self, host):
        """All its processes at once, as its power would."""
        host.note_processes()
        for pid in host.machine.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def await_normal(self, limit_s=60):
        """Until both hosts count at once, whichever master has it, and nothing waits. Returns when (time.monotonic)."""
        def normal(host):
            stamp = time.monotonic_ns()
            return all(host.internal().track(f"normal-{at}", 1, userId="normal", sessionId=f"s{stamp}").status == 200 for at in range(9))
        wait_until(lambda: all(normal(host) for host in self.hosts), "normal service", limit_s)
        return time.monotonic()


@contextlib.contextmanager
def site(folder, node_timeout_s, **directives):
    """directives: of both hosts."""
    switches = {name: ("back",) for name in REDIS} | {name: ("back", "front") for name in FRESHET} | {"client": ("back", "front")}
    lan = Lan(switches, folder)
    with contextlib.ExitStack() as last:
        last.callback(lan.close)
        last.enter_context(lan.here("client"))
        nodes = Nodes(lan, folder, node_timeout_s)
        first = Host(lan.machines["freshet1"], nodes, **directives)
        last.callback(first.stop)
        volume = os.path.join(first.state, "record")
        second = Host(lan.machines["freshet2"], nodes, recorder__enabled="false", search__index=f'"{volume}/index"', **directives)
        last.callback(second.stop)
        first.start()
        second.start()
        yield Site(lan, nodes, first, second)

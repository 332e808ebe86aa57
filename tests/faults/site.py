"""A site of several machines (tests/support/lan.py): three with Redis, two with Freshet, and the client, which is this
process.

The Redis machines form a cluster with the shipped accounts: each has a master and the replica of another machine's
master. The Freshet hosts are connected to the switch "front", where the client is, and to "back", where Redis is. The
first host runs the recorder, whose files are on a volume that both hosts see.
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
from service import CTL, LONG_TIMEOUTS, REDIS_CLI, REDIS_SERVER, ROOT, SHORT_KEEPALIVE, Instance, wait_until

from faults.scenario import NO_LIMITS

REDIS, FRESHET = ("redis1", "redis2", "redis3"), ("freshet1", "freshet2")
MASTER, REPLICA, ADDED = 6379, 6380, 6381  # ports on each Redis machine
SLOTS = 16384
NOBODY = (65534, 65534)
PASSWORD = "not a secret"
UNAVAILABLE = (redis.exceptions.RedisError, OSError)
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
                         **(NO_LIMITS | LONG_TIMEOUTS | directives))
        self.machine, self._cluster, self.masters = machine, nodes, len(REDIS)
        self.command_prefix, front = machine.command_prefix(), machine.addresses["front"]
        self.nginx_edit = SHORT_KEEPALIVE + rf"; s/^\( *listen \){self.host}:\([0-9]*\)/\1{front}:\2; listen {self.host}:\2/"
        self.host = front

    def nodes(self, role):
        return [address for address, row in self._cluster.rows().items() if role in row[2] and "fail" not in row[2]]

    def _redis_cli(self, node=None):
        host, port = node or self._cluster.healthy_node()
        return [REDIS_CLI, "-c", "-h", host, "-p", str(port)]

    def _redis_environment(self):
        return os.environ | {"REDISCLI_AUTH": PASSWORD}

    def check(self):
        self.wait_for_background_writes(1)
        done = subprocess.run([CTL, "check", "--state", self.state, "--redis-user", f"freshet-operator:{self._cluster.folder}/password"],
                              capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


class ClusterNodes:
    """The servers of the cluster, by address (host, port)."""

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
        # Assigned epochs: resolving collisions would take the masters several seconds.
        for number, address in enumerate(masters):
            self.call(address, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            self.call(address, "CLUSTER", "ADDSLOTSRANGE", SLOTS * number // 3, SLOTS * (number + 1) // 3 - 1)
        for host in self.hosts:
            for port in (MASTER, REPLICA):
                self.call(masters[0], "CLUSTER", "MEET", host, port)
        wait_until(lambda: all(len(self.rows(each)) == 6 and self.reports(each, "cluster_state:ok") for each in self._processes), "the cluster to form")
        for number, host in enumerate(self.hosts):
            self.call((host, REPLICA), "CLUSTER", "REPLICATE", self.rows()[masters[number - 1]][0])
        self.wait_for_replicas()

    def url(self):
        return "redis+cluster://" + ",".join(f"{host}:{MASTER}" for host in self.hosts)

    # --- servers

    def start(self, address):
        """Starts a server, with its previous files if it has any."""
        host, port = address
        folder = os.path.join(self.folder, f"{host}-{port}")
        os.makedirs(folder, exist_ok=True)
        os.chown(folder, *NOBODY)
        with open(os.path.join(self.folder, f"{host}-{port}.log"), "ab") as log:
            self._processes[address] = subprocess.Popen(
                [*self._machines[host].command_prefix(), "setpriv", f"--reuid={NOBODY[0]}", f"--regid={NOBODY[1]}", "--clear-groups", REDIS_SERVER,
                 f"{self.folder}/redis.conf", "--bind", host, "--port", str(port), "--dir", folder],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_until(lambda: self.answers(address), f"Redis at {host}:{port}")

    def kill(self, address, number=signal.SIGKILL):
        self._processes[address].send_signal(number)
        self._processes[address].wait(30)

    def restart(self, address):
        """Restarts a server cleanly; it keeps its data."""
        self.kill(address, signal.SIGTERM)
        self.start(address)

    # --- queries

    def call(self, address, *command):
        """Sends a command to one server, without following redirections. Raises one of UNAVAILABLE."""
        host, port = address
        with contextlib.closing(redis.Redis(host, port, password=PASSWORD, socket_timeout=5, socket_connect_timeout=5, decode_responses=True)) as client:
            # Avoids the library's parsing of replies by command.
            connection = client.connection_pool.get_connection("_")
            try:
                connection.send_command(*command)
                return connection.read_response()
            finally:
                client.connection_pool.release(connection)

    def answers(self, address):
        try:
            return self.call(address, "PING") == "PONG"
        except UNAVAILABLE:
            return False

    def reports(self, address, line, command=("CLUSTER", "INFO")):
        """True if the server's reply contains the line."""
        try:
            return line in self.call(address, *command)
        except UNAVAILABLE:
            return False

    def healthy_node(self):
        """The address of a server that sees a complete cluster."""
        return wait_until(lambda: next((each for each in self._processes if self.reports(each, "cluster_state:ok")), None), "a node of the cluster")

    def rows(self, seen_by=None):
        """{address: fields of its line in CLUSTER NODES}, as one server sees the cluster."""
        out = {}
        for line in self.call(seen_by or self.healthy_node(), "CLUSTER", "NODES").splitlines():
            row = line.split()
            host, _, port = row[1].split("@")[0].rpartition(":")
            out[(host, int(port))] = row
        return out

    def masters(self):
        """{address: slots} of the masters that have slots."""
        out = {}
        for address, row in self.rows().items():
            ranges = [each.split("-") for each in row[8:] if not each.startswith("[")]
            if "master" in row[2] and "fail" not in row[2] and ranges:
                out[address] = [slot for each in ranges for slot in range(int(each[0]), int(each[-1]) + 1)]
        return out

    def masters_by_ids(self, ids):
        """Addresses of all masters, sorted by how many of the ids they have, most first."""
        slots = [key_slot(each.encode()) for each in ids]
        masters = {address: set(owned) for address, owned in self.masters().items()}
        return sorted(masters, key=lambda each: -sum(slot in masters[each] for slot in slots))

    def wait_for_replicas(self):
        """Waits until each master has a connected replica, as both see it."""
        def is_complete():
            rows, masters = self.rows(), self.masters()
            followed = {row[3] for address, row in rows.items() if "slave" in row[2] and self.reports(address, "master_link_status:up", ("INFO", "replication"))}
            return sum(map(len, masters.values())) == SLOTS and {rows[each][0] for each in masters} <= followed and \
                all(self.reports(each, "state=online", ("INFO", "replication")) for each in masters)
        wait_until(is_complete, "a replica of each master", 60)

    def replica_of(self, master):
        rows = self.rows()
        return next(address for address, row in rows.items() if row[3] == rows[master][0] and "fail" not in row[2])

    # --- slots

    def tool(self, *command):
        """Runs redis-cli --cluster. Returns its output."""
        wait_until(self._agree, "the nodes to agree on the cluster", 60)
        done = subprocess.run([REDIS_CLI, "--cluster", *map(str, command), "--cluster-yes"], env=os.environ | {"REDISCLI_AUTH": PASSWORD},
                              capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr
        return done.stdout

    def _agree(self):
        """True if all servers report the same roles, masters and slots."""
        def view(address):
            return {(row[0], row[2].replace("myself,", ""), row[3], *row[8:]) for row in self.rows(address).values()}
        try:
            return len({frozenset(view(each)) for each in self.rows()}) == 1
        except UNAVAILABLE:
            return False

    def reshard(self, source, target, slots):
        rows = self.rows()
        self.tool("reshard", "{}:{}".format(*source), "--cluster-from", rows[source][0], "--cluster-to", rows[target][0], "--cluster-slots", slots)

    def move(self, slot, source, target):
        """Moves one given slot, which reshard() cannot."""
        rows = self.rows()
        self.call(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", rows[source][0])
        self.call(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", rows[target][0])
        while keys := self.call(source, "CLUSTER", "GETKEYSINSLOT", slot, 10):
            self.call(source, "MIGRATE", *target, "", 0, 5000, "AUTH", PASSWORD, "KEYS", *keys)
        for each in (target, source, *(other for other in self.masters() if other not in (source, target))):
            self.call(each, "CLUSTER", "SETSLOT", slot, "NODE", rows[target][0])

    def shared_slots(self):
        """{slot: master} of each slot with a key that all articles share."""
        out = {}
        for master in self.masters():
            for pattern in ("hot:rank:*", "hot:published*", "hot:newest*", "recorder:stream*", "hot:epoch*"):
                for key in self.call(master, "KEYS", pattern):
                    out[self.call(master, "CLUSTER", "KEYSLOT", key)] = master
        return out


class Site:
    """The network, the cluster's nodes and the two Freshet hosts. The first one runs the recorder."""

    def __init__(self, lan, nodes, first, second):
        self.lan, self.nodes, self.first, self.second = lan, nodes, first, second
        self.hosts = (first, second)

    def kill_host(self, host):
        """Kills all processes of the host at once, like a power failure."""
        host.record_processes()
        for pid in host.machine.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def wait_until_normal(self, limit_s=60):
        """Waits until both hosts count reports on all masters without queueing them. Returns the time (time.monotonic).
        """
        def is_normal(host):
            stamp = time.monotonic_ns()
            return all(host.internal().track(f"normal-{at}", 1, userId="normal", sessionId=f"s{stamp}").status == 200 for at in range(9))
        wait_until(lambda: all(is_normal(host) for host in self.hosts), "normal service", limit_s)
        return time.monotonic()


@contextlib.contextmanager
def running_site(folder, node_timeout_s, **directives):
    """directives: for both hosts."""
    switches = {name: ("back",) for name in REDIS} | {name: ("back", "front") for name in FRESHET} | {"client": ("back", "front")}
    lan = Lan(switches, folder)
    with contextlib.ExitStack() as stack:
        stack.callback(lan.close)
        stack.enter_context(lan.on_machine("client"))
        nodes = ClusterNodes(lan, folder, node_timeout_s)
        first = Host(lan.machines["freshet1"], nodes, **directives)
        stack.callback(first.stop)
        volume = os.path.join(first.state, "record")
        second = Host(lan.machines["freshet2"], nodes, recorder__enabled="false", search__index=f'"{volume}/index"', **directives)
        stack.callback(second.stop)
        first.start()
        second.start()
        yield Site(lan, nodes, first, second)

"""A highly available Redis: a master, two replicas and three real sentinels on their own loopback address."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
import tempfile

from service import REDIS_CLI, REDIS_SERVER, ROOT, loopback, redis_client, remove_tree, wait_until

NAME = "feeds"
PASSWORD = "not a secret"
SENTINEL = """port {port}
bind {host}
bind-source-addr {host}
protected-mode no
dir {folder}
sentinel monitor {name} {host} {master} 2
sentinel down-after-milliseconds {name} 1500
sentinel failover-timeout {name} 6000
"""


class Deployment:
    """Servers with the shipped accounts. `password_file` contains the service's password."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix=f"freshet-sentinels-{os.getpid()}-", dir="/tmp")
        os.chmod(self.folder, 0o755)
        self.password_file = os.path.join(self.folder, "password")
        with open(self.password_file, "w", encoding="ascii") as file:
            file.write(PASSWORD)
        os.chmod(self.password_file, 0o644)
        self._processes = {}  # {port: process}
        self.servers, self.sentinels = list(range(16379, 16382)), list(range(26379, 26382))  # ports
        self._loopback = loopback.Loopback([*self.servers, *self.sentinels])
        self.host = self._loopback.host
        for port in self.servers:
            self._start_server(port, self.servers[0])
        wait_until(lambda: self.info(self.servers[0], "replication").get("connected_slaves") == "2", "two replicas")
        for port in self.sentinels:
            self._start_sentinel(port)
        wait_until(self._sentinels_know_each_other, "the sentinels to discover each other", 60)

    def _run(self, port, *command):
        with open(os.path.join(self.folder, f"{port}.log"), "ab") as log:
            self._processes[port] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_until(lambda: self._answers(port), f"the server on port {port}")

    def _start_server(self, port, master):
        accounts = os.path.join(self.folder, "accounts.conf")
        digest = hashlib.sha256(PASSWORD.encode()).hexdigest()
        with open(os.path.join(ROOT, "systemd/redis-acl.conf"), encoding="utf-8") as shipped, open(accounts, "w", encoding="utf-8") as file:
            file.write(shipped.read().replace("user freshet on resetpass", f"user freshet on resetpass #{digest}"))
        folder = os.path.join(self.folder, str(port))
        os.mkdir(folder)
        replica = () if port == master else ("--replicaof", f"{self.host} {master}")
        self._run(port, REDIS_SERVER, accounts, "--port", str(port), "--bind", self.host, "--bind-source-addr", self.host, "--protected-mode", "no",
                  "--dir", folder, "--save", "", "--appendonly", "yes", "--repl-diskless-sync-delay", "0", *replica)

    def _start_sentinel(self, port):
        folder = os.path.join(self.folder, str(port))
        os.mkdir(folder)
        config = os.path.join(folder, "sentinel.conf")
        with open(config, "w", encoding="ascii") as file:
            file.write(SENTINEL.format(host=self.host, port=port, folder=folder, name=NAME, master=self.servers[0]))
        self._run(port, REDIS_SERVER, config, "--sentinel")

    def directives(self):
        addresses = ", ".join(f'"{self.host}:{port}"' for port in self.sentinels)
        return {"redis__sentinels": f"[{addresses}]", "redis__sentinel_master": f'"{NAME}"', "redis__username": '"freshet"',
                "redis__password_file": f'"{self.password_file}"', "redis__url": '"redis://127.0.0.1:1"'}

    def redis_cli(self, port, *command):
        return redis_client.query((self.host, port), *command)

    def _answers(self, port):
        try:
            return self.redis_cli(port, "PING") == "PONG"
        except redis_client.RedisError:
            return False

    def text(self, port, *command):
        """For commands whose reply is plain text even with --json."""
        return subprocess.run([REDIS_CLI, "-h", self.host, "-p", str(port), *command], capture_output=True, text=True, check=False, timeout=80).stdout

    def info(self, port, section):
        return dict(line.strip().split(":", 1) for line in self.text(port, "INFO", section).splitlines() if ":" in line)

    def _sentinels_know_each_other(self):
        for port in self.sentinels:
            fields = self.redis_cli(port, "SENTINEL", "MASTER", NAME)
            if not isinstance(fields, dict):
                fields = dict(zip(fields[::2], fields[1::2]))
            if (fields["num-other-sentinels"], fields["num-slaves"], fields["flags"]) != ("2", "2", "master"):
                return False
        return True

    def master(self):
        """Port of the master according to all sentinels, or None while they disagree."""
        ports = {int(self.redis_cli(port, "SENTINEL", "get-master-addr-by-name", NAME)[1]) for port in self.sentinels}
        return ports.pop() if len(ports) == 1 else None

    def redis(self, *command):
        return self.redis_cli(self.master(), *command)

    def wait_for_replicas(self):
        """Waits until the replicas have all of the master's writes."""
        wait_until(lambda: self.redis("WAIT", 2, 1000) == 2, "replication")

    def signal(self, port, number):
        os.kill(self._processes[port].pid, number)
        if number == signal.SIGKILL:
            self._processes[port].wait(20)

    def service_connections(self, port):
        """Ports of the service's connections that this server has accepted."""
        lines = self.text(port, "CLIENT", "LIST").splitlines()
        clients = [dict(word.split("=", 1) for word in line.split() if "=" in word) for line in lines]
        return {int(client["addr"].rpartition(":")[2]) for client in clients if client["user"] == "freshet"}

    def kernel_connections(self, port):
        """Ports of the peers of all connections to this server, including those not accepted yet and those whose peer has hung up."""
        with open("/proc/net/tcp", encoding="ascii") as file:
            ends = [line.split()[1:3] for line in file.readlines()[1:]]
        here = f"{int.from_bytes(socket.inet_aton(self.host), sys.byteorder):08X}:{port:04X}"
        return {int(peer.partition(":")[2], 16) for own, peer in ends if own == here}

    def stop(self):
        for process in self._processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
                process.wait(20)
        remove_tree(self.folder)
        self._loopback.close()

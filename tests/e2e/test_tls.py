"""Redis behind TLS, reached through stunnel on Freshet's host: a single server, and a cluster with all nodes at the
tunnel's address.
"""

import os
import shutil
import signal
import subprocess
import tempfile

import pytest
from service import LONG_TIMEOUTS, REDIS_CLI, REDIS_SERVER, Instance, birth, loopback, wait_until

STUNNEL = shutil.which("stunnel4")
pytestmark = pytest.mark.skipif(STUNNEL is None, reason="stunnel4 is not installed")
PORTS = [16401, 16402, 16403]
TUNNEL = """foreground = yes
pid =
syslog = no
[redis-{port}]
client = yes
accept = {near}:{port}
connect = {far}:{port}
CAfile = {folder}/ca.pem
verifyChain = yes
checkIP = {far}
TIMEOUTconnect = 2
"""


class TlsRedis:
    """TLS-only Redis servers with a tunnel to each. `near` is the address of the tunnels, `far` that of the servers."""

    def __init__(self, ports, *options):
        self.folder, self._ports, self._options = tempfile.mkdtemp(prefix=f"freshet-e2e-{os.getpid()}-tls-", dir="/tmp"), ports, options
        self._near, self._far = loopback.Loopback(ports), loopback.Loopback([*ports, *(port + 10000 for port in ports)])
        self.near, self.far = self._near.host, self._far.host
        self._processes = {}
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=redis", "-addext",
                        f"subjectAltName=IP:{self.far}", "-keyout", f"{self.folder}/key.pem", "-out", f"{self.folder}/ca.pem"],
                       check=True, capture_output=True)

    def __enter__(self):
        for port in self._ports:
            folder = os.path.join(self.folder, str(port))
            os.mkdir(folder)
            self._run(f"redis-{port}", REDIS_SERVER, "--port", "0", "--tls-port", str(port), "--bind", self.far, "--bind-source-addr", self.far,
                      "--dir", folder, "--protected-mode", "no", "--tls-cert-file", f"{self.folder}/ca.pem", "--tls-key-file", f"{self.folder}/key.pem",
                      "--tls-ca-cert-file", f"{self.folder}/ca.pem", "--tls-auth-clients", "no", "--requirepass", "secret", "--masterauth", "secret",
                      "--save", "", *self._options)
            self.start_tunnel(port)
        for port in self._ports:
            wait_until(lambda port=port: self.redis_cli(port, "PING") == "PONG", "Redis behind its tunnel")
        with open(f"{self.folder}/password", "w", encoding="ascii") as file:
            file.write("secret")
        return self

    def __exit__(self, *_):
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(30)
        self._near.close()
        self._far.close()
        shutil.rmtree(self.folder)

    def _run(self, name, *command):
        with open(os.path.join(self.folder, f"{name}.log"), "ab") as log:
            self._processes[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def start_tunnel(self, port):
        path = os.path.join(self.folder, f"stunnel-{port}.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(TUNNEL.format(near=self.near, far=self.far, port=port, folder=self.folder))
        self._run(f"stunnel-{port}", STUNNEL, path)

    def kill_tunnel(self, port):
        process = self._processes[f"stunnel-{port}"]
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert birth(process.pid) is None

    def redis_cli(self, port, *command):
        done = subprocess.run([REDIS_CLI, "-h", self.near, "-p", str(port), *map(str, command)], env=os.environ | {"REDISCLI_AUTH": "secret"},
                              capture_output=True, text=True, check=False, timeout=80)
        return done.stdout.strip()

    def redis_cli_all(self, *command):
        """The replies of all servers. Nodes of a cluster that do not own the key redirect."""
        return [self.redis_cli(port, *command) for port in self._ports]

    def make_instance(self, url):
        """An instance that uses the tunnels."""
        os.chmod(self.folder, 0o755)
        return Instance("--no-limits", "--redis", url, redis__password_file=f'"{self.folder}/password"', **LONG_TIMEOUTS)


def assert_event_counts(tls_redis, service, name):
    article = name("a")
    wait_until(lambda: service.public().track(name("warm"), 1, userId="u", sessionId="s").status == 200, "the service to work")
    assert service.public().track(article, 1, userId="u", sessionId="s", eventId=name("e")).status == 200
    assert "1" in tls_redis.redis_cli_all("HGET", f"hot:article:{{{article}}}", "pv")


def test_a_redis_behind_tls_works_and_an_interruption_loses_nothing(name):
    with TlsRedis(PORTS[:1]) as tls_redis:
        service = tls_redis.make_instance(f"redis://{tls_redis.near}:{PORTS[0]}")
        try:
            service.start()
            assert_event_counts(tls_redis, service, name)
            tls_redis.kill_tunnel(PORTS[0])
            wait_until(lambda: service.status()["redis ready"] == 0, "the workers to notice that Redis is unavailable")
            article = name("queued")
            assert service.public().track(article, 1, userId="u", sessionId="s", eventId=name("e")).status == 202
            tls_redis.start_tunnel(PORTS[0])
            wait_until(lambda: tls_redis.redis_cli(PORTS[0], "HGET", f"hot:article:{{{article}}}", "pv") == "1", "the queued event to be counted")
        finally:
            service.stop()


def test_a_cluster_behind_tunnels_works_if_its_nodes_announce_only_their_ports(name):
    """With cluster-preferred-endpoint-type unknown-endpoint. Each node has its own port, and its tunnel the same one."""
    with TlsRedis(PORTS, "--cluster-enabled", "yes", "--tls-cluster", "yes", "--tls-replication", "yes", "--cluster-preferred-endpoint-type",
                  "unknown-endpoint") as tls_redis:
        for number, port in enumerate(PORTS):
            tls_redis.redis_cli(port, "CLUSTER", "ADDSLOTSRANGE", 16384 * number // 3, 16384 * (number + 1) // 3 - 1)
            tls_redis.redis_cli(PORTS[0], "CLUSTER", "MEET", tls_redis.far, port)
        wait_until(lambda: all("cluster_state:ok" in tls_redis.redis_cli(port, "CLUSTER", "INFO") for port in PORTS), "the cluster to be ready")
        service = tls_redis.make_instance(f"redis+cluster://{tls_redis.near}:{PORTS[1]}")
        try:
            service.start()
            for _ in range(10):
                assert_event_counts(tls_redis, service, name)
            service.check()
        finally:
            service.stop()

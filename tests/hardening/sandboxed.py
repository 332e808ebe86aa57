"""Runs the service in the unit's sandbox, with sockets and notifications as from systemd, and with a Redis outside."""

import functools
import glob
import json
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest
import unit

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(unit.ROOT, "tests/e2e"))
from fastcgi import Connection  # noqa: E402
from service import REDIS_CLI, REDIS_SERVER, birth, children, comm, loopback, wait_until  # noqa: E402

SALT = "0123456789abcdef0123456789abcdef"
USER = pwd.getpwnam("nobody")


class NotificationReceiver:
    """Collects notifications like systemd."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        os.chmod(path, 0o777)
        self.lines = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            self.lines += self._socket.recv(65536).decode().splitlines()


def listening_socket(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.bind(path)
    os.chmod(path, 0o666)
    sock.listen(128)
    return sock


def process_tree(pid):
    out = [pid]
    for child in children(pid):
        out += process_tree(child)
    return out


def as_service_user():
    """Command prefix that runs a program as the service's user."""
    return ["setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups"] if os.geteuid() == 0 else []


@functools.cache
def sandbox_unavailable_reason():
    """Why unprivileged users may not create namespaces here, as in most containers and every chroot; empty if they may."""
    probe = subprocess.run([*as_service_user(), *unit.NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "/usr/bin/true"], capture_output=True,
                           text=True, check=False)
    return "" if probe.returncode == 0 else f"no unprivileged namespaces here: {probe.stderr.strip()}"


class SandboxedService:
    """`directives`: setting names (dots as __) and TOML values. `traced`: strace records every failing call."""

    def __init__(self, traced=False, service=None, **directives):
        self.state = tempfile.mkdtemp(prefix="freshet-hard-", dir="/tmp")
        os.chmod(self.state, 0o755)
        for name in ("bin", "run", "lib", "etc/conf.d", "log", "credentials", "redis"):
            os.makedirs(self.path_of(name))
        self.unit = service or unit.directives()
        build = os.environ.get("FRESHET_BUILD_DIR", os.path.join(unit.ROOT, "build/release"))
        self.program = self.path_of("bin/freshetd")
        shutil.copy(os.path.join(build, "fcgi/freshetd"), self.program)
        self._write_files(directives)
        self.socket_path, self.status_path = self.path_of("run/freshetd.sock"), self.path_of("run/status.sock")
        self.traces = self.path_of("trace") if traced else None
        self.redis_options, self.redis_password = [], None
        self._process = self._redis = None

    def path_of(self, name):
        return os.path.join(self.state, name)

    def _write_files(self, directives):
        shutil.copy(os.path.join(unit.ROOT, "systemd/freshet.toml"), self.path_of("etc/freshet.toml"))
        values = {"listen__address": f'"{self.path_of("run/freshetd.sock")}"', "pm__status_listen": f'"{self.path_of("run/status.sock")}"',
                  "redis__url": f'"unix://{self.path_of("run/redis.sock")}"', "spool__path": f'"{self.path_of("lib/spool")}"',
                  "recorder__database": f'"{self.path_of("lib/freshet.db")}"', "search__index": f'"{self.path_of("lib/index")}"',
                  "recommend__model": f'"{self.path_of("lib/freshet.model")}"', "train__publish": f'"{self.path_of("lib")}"', "identity__salt_file": '"salt"', "pm__max_children": "2",
                  "redis__timeout": '"2s"', "gateway__request_budget": '"5s"', "error_log": f'"{self.path_of("log/error.log")}"',
                  "spool__max_bytes": "1048576", "track__pixel": "true"} | directives
        with open(self.path_of("etc/conf.d/test.toml"), "w", encoding="utf-8") as file:
            file.writelines(f"{name.replace('__', '.')} = {value}\n" for name, value in values.items())
        # [LoadCredential]: readable only by the service's user, in a read-only folder.
        with open(self.path_of("credentials/salt"), "w", encoding="utf-8") as file:
            file.write(SALT + "\n")
        os.chmod(self.path_of("credentials/salt"), 0o400)
        for folder, _, names in os.walk(self.state):
            for path in [folder, *(os.path.join(folder, name) for name in names)]:
                if os.geteuid() == 0 and path != self.state:
                    os.chown(path, USER.pw_uid, USER.pw_gid)
        os.chmod(self.path_of("credentials"), 0o500)
        with open(self.path_of("filters.json"), "w", encoding="utf-8") as file:
            json.dump(unit.filters(self.unit), file)

    def command(self, descriptors=""):
        """Command prefix that runs a program in the sandbox, as the service's user."""
        prefix = as_service_user()
        if reason := sandbox_unavailable_reason():
            assert os.environ.get("CI") != "true", reason
            pytest.skip(reason)
        enter = unit.bubblewrap(self.unit, [self.path_of("run"), self.path_of("lib"), self.path_of("log")],
                                [self.path_of("etc"), self.path_of("credentials"), self.path_of("filters.json"), self.path_of("bin"), HERE])
        return [*prefix, *enter, "/usr/bin/python3", os.path.join(HERE, "enter.py"), self.path_of("filters.json"), descriptors]

    def start(self):
        with open(self.path_of("redis/log"), "wb") as log:
            self._redis = subprocess.Popen([REDIS_SERVER, "--port", "0", "--unixsocket", self.path_of("run/redis.sock"), "--unixsocketperm", "777",
                                            "--dir", self.path_of("redis"), "--save", "", *self.redis_options], stdout=log, stderr=log)
        wait_until(lambda: os.path.exists(self.path_of("run/redis.sock")), "Redis to start")
        self.notify = NotificationReceiver(self.path_of("run/notify.sock"))
        sockets = [listening_socket(self.socket_path), listening_socket(self.status_path)]
        environment = {"NOTIFY_SOCKET": self.path_of("run/notify.sock"), "CREDENTIALS_DIRECTORY": self.path_of("credentials"),
                       "PATH": "/usr/bin:/bin"}
        # Traces failing calls only, with process names: bubblewrap and Python probe a lot before the program starts.
        trace = ["strace", "-f", "-q", "-Y", "-e", "status=failed", "-o", self.traces] if self.traces else []
        descriptors = ",".join(str(each.fileno()) for each in sockets)
        with open(self.path_of("log/output"), "ab") as log:
            self._process = subprocess.Popen(
                [*trace, *self.command(descriptors), self.program, "-F", "-y", self.path_of("etc/freshet.toml")],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[each.fileno() for each in sockets])
        for each in sockets:
            each.close()
        wait_until(lambda: "READY=1" in self.notify.lines or self._process.poll() is not None, "READY", 60)
        assert self._process.poll() is None, self.log()
        return self

    def stop(self):
        """Stops the service and returns its exit status. No process may be left."""
        try:
            return self._stop_service()
        finally:
            if self._redis:
                self._redis.terminate()
                self._redis.wait(20)
            shutil.rmtree(self.state)

    def _stop_service(self):
        if not self._process or self._process.poll() is not None:
            return None
        processes = process_tree(self._process.pid)
        if "READY=1" in self.notify.lines:
            os.kill(self.master(), signal.SIGTERM)
        else:
            self._process.kill()  # bubblewrap ends the others
        status = self._process.wait(60)
        wait_until(lambda: not any(birth(pid) for pid in processes), "all processes to end")
        return status

    def _pids_named(self, name):
        return [pid for pid in process_tree(self._process.pid) if comm(pid) == name and birth(pid)]

    def processes(self):
        return [pid for name in ("freshetd", "freshetd-worker", "freshetd-record", "freshetd-status", "freshetd-model") for pid in self._pids_named(name)]

    def master(self):
        return self._pids_named("freshetd")[0]

    def workers(self):
        return self._pids_named("freshetd-worker")

    def recorder(self):
        return self._pids_named("freshetd-record")[0]

    def request(self, method, uri, body=None, zone="internal", path=None, **params):
        """Returns (status, parsed JSON or bytes)."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        with Connection(path or self.socket_path, 30) as connection:
            reply = connection.request(method=method, uri=uri, body=data, zone=zone, keep=False, **params)
        assert reply is not None, (method, uri, self.log()[-2000:])
        try:
            return reply[0], json.loads(reply[1])
        except ValueError:
            return reply

    def redis(self, *command):
        password = self.redis_password or (self.redis_options[1] if "--requirepass" in self.redis_options else None)
        done = subprocess.run([REDIS_CLI, "-s", self.path_of("run/redis.sock"), "-e", *command], capture_output=True, text=True, check=True,
                              env=os.environ | ({"REDISCLI_AUTH": password} if password else {}))
        return done.stdout.strip()

    def redis_signal(self, number):
        self._redis.send_signal(number)

    def log(self):
        out = ""
        for path in sorted(glob.glob(self.path_of("log/*"))):
            with open(path, encoding="utf-8", errors="replace") as file:
                out += file.read()
        return out

    def refused_calls(self):
        """Returns the calls that the program was refused: {(call, error): example line}."""
        out = {}
        with open(self.traces, encoding="utf-8", errors="replace") as file:
            for line in file:
                match = re.match(r"\d+<freshetd[^>]*> +(?:<\.\.\. )?(\w+)(?: resumed>|\().* = -1 (EPERM|EACCES|EAFNOSUPPORT|ENOSYS|EROFS)\b", line)
                if match:
                    out.setdefault((match[1], match[2]), line.strip())
        return out


def now():
    return int(time.time())

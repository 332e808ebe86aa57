"""A service under what the unit locks away: its sockets and notifications as systemd gives them, and a Redis outside."""

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
from service import birth, children, comm, loopback, wait_until  # noqa: E402

SALT = "0123456789abcdef0123456789abcdef"
USER = pwd.getpwnam("nobody")


class Notify:
    """What systemd would hear."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(path)
        os.chmod(path, 0o777)
        self.lines = []
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            self.lines += self._socket.recv(65536).decode().splitlines()


def listening(path):
    made = socket.socket(socket.AF_UNIX)
    made.bind(path)
    os.chmod(path, 0o666)
    made.listen(128)
    return made


def below(pid):
    out = [pid]
    for child in children(pid):
        out += below(child)
    return out


def unprivileged():
    """What runs a command as the service's user."""
    return ["setpriv", f"--reuid={USER.pw_uid}", f"--regid={USER.pw_gid}", "--clear-groups"] if os.geteuid() == 0 else []


@functools.cache
def sandboxes_forbidden():
    """Why this machine lets no unprivileged user make namespaces, as in most containers and every chroot; empty when it does."""
    tried = subprocess.run([*unprivileged(), *unit.NAMESPACES, "--ro-bind", "/", "/", "--proc", "/proc", "/usr/bin/true"], capture_output=True,
                           text=True, check=False)
    return "" if tried.returncode == 0 else f"no unprivileged namespaces here: {tried.stderr.strip()}"


class Sandboxed:
    """`directives`: dotted names (dots as __) and TOML values. `traced`: strace notes every call that fails."""

    def __init__(self, traced=False, service=None, **directives):
        self.state = tempfile.mkdtemp(prefix="freshet-hard-", dir="/tmp")
        os.chmod(self.state, 0o755)
        for name in ("bin", "run", "lib", "etc/conf.d", "log", "credentials", "redis"):
            os.makedirs(self.at(name))
        self.unit = service or unit.directives()
        build = os.environ.get("FRESHET_BUILD_DIR", os.path.join(unit.ROOT, "build/release"))
        self.program = self.at("bin/freshetd")
        shutil.copy(os.path.join(build, "fcgi/freshetd"), self.program)
        self._write_files(directives)
        self.socket_path, self.status_path = self.at("run/freshetd.sock"), self.at("run/status.sock")
        self.traces = self.at("trace") if traced else None
        self.redis_options, self.redis_password = [], None
        self._process = self._redis = None

    def at(self, name):
        return os.path.join(self.state, name)

    def _write_files(self, directives):
        shutil.copy(os.path.join(unit.ROOT, "systemd/freshet.toml"), self.at("etc/freshet.toml"))
        values = {"listen__address": f'"{self.at("run/freshetd.sock")}"', "pm__status_listen": f'"{self.at("run/status.sock")}"',
                  "redis__url": f'"unix://{self.at("run/redis.sock")}"', "spool__path": f'"{self.at("lib/spool")}"',
                  "recorder__database": f'"{self.at("lib/freshet.db")}"', "search__index": f'"{self.at("lib/index")}"',
                  "recommend__model": f'"{self.at("lib/freshet.model")}"', "train__publish": f'"{self.at("lib")}"', "identity__salt_file": '"salt"', "pm__max_children": "2",
                  "redis__timeout": '"2s"', "gateway__request_budget": '"5s"', "error_log": f'"{self.at("log/error.log")}"',
                  "spool__max_bytes": "1048576"} | directives
        with open(self.at("etc/conf.d/test.toml"), "w", encoding="utf-8") as file:
            file.writelines(f"{name.replace('__', '.')} = {value}\n" for name, value in values.items())
        # [LoadCredential]: a file that only the service's user can read, in a folder that nobody can write.
        with open(self.at("credentials/salt"), "w", encoding="utf-8") as file:
            file.write(SALT + "\n")
        os.chmod(self.at("credentials/salt"), 0o400)
        for folder, _, names in os.walk(self.state):
            for path in [folder, *(os.path.join(folder, name) for name in names)]:
                if os.geteuid() == 0 and path != self.state:
                    os.chown(path, USER.pw_uid, USER.pw_gid)
        os.chmod(self.at("credentials"), 0o500)
        with open(self.at("filters.json"), "w", encoding="utf-8") as file:
            json.dump(unit.filters(self.unit), file)

    def command(self, descriptors=""):
        """What runs a program in the sandbox, as the user."""
        as_user = unprivileged()
        if why := sandboxes_forbidden():
            assert os.environ.get("CI") != "true", why
            pytest.skip(why)
        enter = unit.bubblewrap(self.unit, [self.at("run"), self.at("lib"), self.at("log")],
                                [self.at("etc"), self.at("credentials"), self.at("filters.json"), self.at("bin"), HERE])
        return [*as_user, *enter, "/usr/bin/python3", os.path.join(HERE, "enter.py"), self.at("filters.json"), descriptors]

    def start(self):
        with open(self.at("redis/log"), "wb") as log:
            self._redis = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.at("run/redis.sock"), "--unixsocketperm", "777",
                                            "--dir", self.at("redis"), "--save", "", *self.redis_options], stdout=log, stderr=log)
        wait_until(lambda: os.path.exists(self.at("run/redis.sock")), "Redis")
        self.notify = Notify(self.at("run/notify.sock"))
        sockets = [listening(self.socket_path), listening(self.status_path)]
        environment = {"NOTIFY_SOCKET": self.at("run/notify.sock"), "CREDENTIALS_DIRECTORY": self.at("credentials"),
                       "PATH": "/usr/bin:/bin"}
        # Only calls that fail, each with its process' name: before the program, bubblewrap and Python try this and that.
        trace = ["strace", "-f", "-q", "-Y", "-e", "status=failed", "-o", self.traces] if self.traces else []
        descriptors = ",".join(str(each.fileno()) for each in sockets)
        with open(self.at("log/output"), "ab") as log:
            self._process = subprocess.Popen(
                [*trace, *self.command(descriptors), self.program, "-F", "-y", self.at("etc/freshet.toml")],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[each.fileno() for each in sockets])
        for each in sockets:
            each.close()
        wait_until(lambda: "READY=1" in self.notify.lines or self._process.poll() is not None, "READY", 60)
        assert self._process.poll() is None, self.log()
        return self

    def stop(self):
        """The exit status of the service, which must leave nobody behind."""
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
        left = below(self._process.pid)
        if "READY=1" in self.notify.lines:
            os.kill(self.master(), signal.SIGTERM)
        else:
            self._process.kill()  # bubblewrap takes the others along
        status = self._process.wait(60)
        wait_until(lambda: not any(birth(pid) for pid in left), "the end of all")
        return status

    def _named(self, name):
        return [pid for pid in below(self._process.pid) if comm(pid) == name and birth(pid)]

    def processes(self):
        return [pid for name in ("freshetd", "freshetd-worker", "freshetd-record", "freshetd-status", "freshetd-model") for pid in self._named(name)]

    def master(self):
        return self._named("freshetd")[0]

    def workers(self):
        return self._named("freshetd-worker")

    def recorder(self):
        return self._named("freshetd-record")[0]

    def ask(self, method, uri, body=None, zone="internal", path=None, **params):
        """(status, parsed JSON or bytes)."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        with Connection(path or self.socket_path, 30) as connection:
            reply = connection.ask(method=method, uri=uri, body=data, zone=zone, keep=False, **params)
        assert reply is not None, (method, uri, self.log()[-2000:])
        try:
            return reply[0], json.loads(reply[1])
        except ValueError:
            return reply

    def redis(self, *command):
        password = self.redis_password or (self.redis_options[1] if "--requirepass" in self.redis_options else None)
        done = subprocess.run(["redis-cli", "-s", self.at("run/redis.sock"), "-e", *command], capture_output=True, text=True, check=True,
                              env=os.environ | ({"REDISCLI_AUTH": password} if password else {}))
        return done.stdout.strip()

    def redis_signal(self, number):
        self._redis.send_signal(number)

    def log(self):
        out = ""
        for path in sorted(glob.glob(self.at("log/*"))):
            with open(path, encoding="utf-8", errors="replace") as file:
                out += file.read()
        return out

    def refused(self):
        """{(call, error)} that a process of the program was refused, with an example each."""
        out = {}
        with open(self.traces, encoding="utf-8", errors="replace") as file:
            for line in file:
                match = re.match(r"\d+<freshetd[^>]*> +(?:<\.\.\. )?(\w+)(?: resumed>|\().* = -1 (EPERM|EACCES|EAFNOSUPPORT|ENOSYS|EROFS)\b", line)
                if match:
                    out.setdefault((match[1], match[2]), line.strip())
        return out


def now():
    return int(time.time())

"""Freshet, started by scripts/run under the same conditions as its peers."""

import glob
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import procs
from procs import BenchError, Server, stopped_on_failure, wait_until
from peers import ROOT, loopback
from redis_server import RedisServer

RUN_LIMIT_S = 900  # scripts/run may have to build first
READY_LIMIT_S = 10


# On a busy host commands may exceed the shipped timeout, and degraded replies are cheap and would distort the results.
LONG_TIMEOUTS = {"redis.timeout": '"2s"', "gateway.request_budget": '"2900ms"'}


class Freshet:
    """A running instance: a RedisServer, and nginx and freshetd started by scripts/run of the tree `root`.

    settings: directives and their TOML values.
    """

    def __init__(self, run_directory, name="freshet", root=ROOT, settings=None):
        self.name = name
        self._run = os.path.join(root, "scripts", "run")
        self.state = os.path.join(run_directory, name)
        self._loopback = loopback.Loopback()
        self.host, self.port, self.internal_port = self._loopback.host, loopback.PUBLIC, loopback.INTERNAL
        self.internal_url = f"http://{self.host}:{self.internal_port}"
        self.redis = RedisServer(os.path.join(run_directory, name + "-redis"))
        self.fcgi_socket = os.path.join(self.state, "run", "freshetd.sock")
        self._roots = {"redis": self.redis.server.pid}
        with stopped_on_failure(self):
            self._start()
            self._roots["nginx"] = root_of(listeners(tcp=(self.host, self.port)))
            self._roots["worker"] = root_of(listeners(unix_path=self.fcgi_socket))
            self._configure_nginx_like_peers()
            self._apply_settings(LONG_TIMEOUTS | (settings or {}))

    def _start(self):
        done = subprocess.run(
            [self._run, "--detach", "--no-sample", "--no-limits", "--state", self.state, "--address", self.host, "--port", str(self.port),
             "--internal-port", str(self.internal_port), "--redis", "unix://" + self.redis.socket_path],
            capture_output=True, text=True, timeout=RUN_LIMIT_S, check=False)
        if done.returncode != 0:
            raise BenchError(f"scripts/run: {(done.stdout + done.stderr)[-2000:]}")

    def _configure_nginx_like_peers(self):
        """Gives nginx one worker process, no access log and as many requests per connection as the peers. Everything else
        stays as shipped.
        """
        master = self._roots["nginx"]
        words = _command_line(master)
        main_file = words[words.index("-c") + 1]
        for path in glob.glob(os.path.join(os.path.dirname(main_file), "*.conf")):
            with open(path, encoding="utf-8") as file:
                text = re.sub(r"(?m)^worker_processes\s[^;]*;", "worker_processes 1;", file.read())
            text = re.sub(r"(?m)^(\s*)keepalive_requests 100;", r"\1keepalive_requests 10000;", text)
            with open(path, "w", encoding="utf-8") as file:
                file.write(re.sub(r"(?m)^(\s*)access_log\s[^;]*;", r"\1access_log off;", text))
        os.kill(master, signal.SIGHUP)
        wait_until(lambda: _nginx_workers(master) == 1, "nginx to run one worker process")

    def _apply_settings(self, settings):
        path = os.path.join(self.state, "etc", "freshet.toml")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for name, value in settings.items():
            text, found = re.subn(rf"(?m)^#?{re.escape(name)} = .*$", f"{name} = {value}", text)
            if found != 1:
                raise BenchError(f"freshet.toml does not contain {name}")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.kill(self.master_pid(), signal.SIGUSR2)
        wait_until(lambda: self._status()["reloads"] == 1, "freshetd to reload")

    def _status(self):
        with urllib.request.urlopen(f"{self.internal_url}/status?json", timeout=5) as reply:
            return json.load(reply)

    def address_of(self, contender):
        return self.host, self.internal_port if contender.internal else self.port

    def queued_writes(self):
        """Number of reports answered with 202 because Redis exceeded its timeout. They are cheaper than counted ones.
        """
        return self._status()["queued writes"]

    def redis_client(self):
        return self.redis.client

    def groups(self):
        return {name: procs.process_tree(root) for name, root in self._roots.items()}

    def master_pid(self):
        return self._roots["worker"]

    def stop(self):
        subprocess.run([self._run, "--stop", "--state", self.state], capture_output=True, timeout=60, check=False)
        self.redis.stop()
        self._loopback.close()

    def ready_command(self, copy):
        """The command that starts a second freshetd with the same configuration and its files in `copy`."""
        config = next(iter(glob.glob(os.path.join(self.state, "**", "freshet.toml"), recursive=True)), None)
        if config is None:
            raise BenchError(f"no freshet.toml under {self.state}")
        shutil.copytree(self.state, copy, ignore=lambda directory, names: [
            name for name in names if not os.path.isfile(os.path.join(directory, name))
            and not os.path.isdir(os.path.join(directory, name))])
        moved = config.replace(self.state, copy)
        with open(config, encoding="utf-8") as file:
            text = file.read().replace(self.state + "/", copy + "/")
        with open(moved, "w", encoding="utf-8") as file:
            file.write(text)
        program = os.readlink(f"/proc/{self.master_pid()}/exe")
        return [program, "-F", "-y", moved] + (["-R"] if os.geteuid() == 0 else [])


def milliseconds_to_ready(argv, directory):
    """Returns the milliseconds from the start of a program to READY=1 on systemd's notification socket. Stops the
    program.
    """
    path = os.path.join(directory, "notify.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(path)
        os.chmod(path, 0o777)
        notify.settimeout(READY_LIMIT_S)
        started = time.monotonic()
        server = Server(argv[0], argv, os.path.join(directory, "start.log"), {"NOTIFY_SOCKET": path})
        try:
            while b"READY=1" not in notify.recv(4096):
                pass
            return (time.monotonic() - started) * 1e3
        except TimeoutError:
            raise BenchError(f"{argv[0]} was not ready within {READY_LIMIT_S} s: {server.log_tail()}") from None
        finally:
            server.stop()
            os.unlink(path)


def listeners(tcp=None, unix_path=None):
    """Pids of processes that have the listening socket of (host, port) or of a Unix socket's path open."""
    inodes = set()
    if tcp is not None:
        host, port = tcp
        local = f"{int.from_bytes(socket.inet_aton(host), sys.byteorder):08X}:{port:04X}"
        for line in _rows("/proc/net/tcp"):
            if line[3] == "0A" and line[1] == local:
                inodes.add(line[9])
    else:
        for line in _rows("/proc/net/unix"):
            if len(line) == 8 and line[7] == unix_path and line[3] == "00010000":
                inodes.add(line[6])
    names = {f"socket:[{inode}]" for inode in inodes}
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _holds(pid, names)]


def root_of(pids):
    """The process among `pids` whose process tree contains all of them."""
    for pid in pids:
        if set(pids) <= set(procs.process_tree(pid)):
            return pid
    raise BenchError(f"no common master of the processes {pids}")


def _rows(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return [line.split() for line in file.read().splitlines()[1:]]


def _holds(pid, names):
    try:
        return any(os.readlink(f"/proc/{pid}/fd/{fd}") in names for fd in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def _command_line(pid):
    """The arguments of a process, empty if it has exited."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            text = file.read().rstrip(b"\0").decode()
    except OSError:
        return []
    # nginx replaces its arguments with one string: "nginx: master process nginx -c …"
    return text.split("\0") if "\0" in text else text.split()


def _nginx_workers(master):
    return sum(1 for pid in procs.process_tree(master) if "worker process" in " ".join(_command_line(pid)))

"""Starts and stops processes, and reads their CPU time and memory from /proc."""

import contextlib
import os
import signal
import socket
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
from waiting import wait_until  # noqa: E402

STOP_LIMIT_S = 10.0


class BenchError(Exception):
    """Something that the benchmark needs is missing or has failed. The message is shown to the user."""


@contextlib.contextmanager
def stopped_on_failure(deployment):
    """Stops the deployment if the block raises."""
    try:
        yield deployment
    except BaseException:
        deployment.stop()
        raise


def accepts(address):
    """True if a server accepts connections at `address`: (host, port) or a socket's path."""
    family = socket.AF_INET if isinstance(address, tuple) else socket.AF_UNIX
    with socket.socket(family) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(address)
            return True
        except OSError:
            return False


class Server:
    """A foreground process with its output in a log file. stop() ends only this process."""

    def __init__(self, name, argv, log_path, env=None):
        self.name = name
        self._log_path = log_path
        with open(log_path, "ab") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             env=dict(os.environ, **(env or {})))
        self.pid = self._process.pid

    def wait_for(self, address):
        """Waits until `address` accepts connections. Raises, with the end of the log, if the process exits; also on a
        timeout.
        """
        wait_until(lambda: accepts(address) or self._process.poll() is not None, f"{self.name} at {address}")
        if self._process.poll() is not None:
            raise BenchError(f"{self.name} exited with status {self._process.returncode}: {self.log_tail()}")
        return self

    def log_tail(self):
        with open(self._log_path, encoding="utf-8", errors="replace") as log:
            return log.read()[-600:].strip()

    def stop(self, signal_number=signal.SIGTERM):
        if self._process.poll() is None:
            self._process.send_signal(signal_number)
            try:
                self._process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()


def _parent_pids():
    """{pid: parent pid} of all processes."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as stat:
                    parents[int(entry)] = int(stat.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                pass
    return parents


def process_tree(root):
    """`root` and all its descendants, root first."""
    parents, found = _parent_pids(), [root]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def cpu_us(pids):
    """User and system CPU time of all threads of `pids` so far, in microseconds.

    /proc/PID/task/*/schedstat counts nanoseconds. /proc/PID/stat counts ticks of 10 ms, but includes threads that have
    ended.
    """
    total = 0.0
    tick_us = 1e6 / os.sysconf("SC_CLK_TCK")
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            ticks = (int(fields[11]) + int(fields[12])) * tick_us
            total += max(_threads_us(pid), ticks - 2 * tick_us)
        except OSError:
            continue
    return total


def _threads_us(pid):
    total = 0.0
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as schedstat:
                total += int(schedstat.read().split()[0]) / 1e3
        except (OSError, IndexError):
            continue
    return total


def process_name(pid):
    with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as comm:
        return comm.read().strip()


def pss_kib(pid):
    """Proportional set size in KiB: private memory plus a proportional share of shared memory."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as rollup:
        return next(int(line.split()[1]) for line in rollup if line.startswith("Pss:"))

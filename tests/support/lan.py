"""Simulated machines for tests: network namespaces connected by switches, with cables that can be cut. Needs root and a
kernel that allows it.

Each machine has its own loopback interface, machine id and host name, so programs see a separate machine. Nothing is
added to the host's own network: the switches are in a namespace, too. Leftovers of a killed test are removed when the
next one creates a Lan.
"""

import contextlib
import ctypes
import os
import signal
import subprocess

from waiting import wait_until

PREFIX = "freshet-lan-"  # followed by the creator's pid and the machine's name
FOLDER = "/run/netns"
# Differs per machine: a pid is meaningful only on the machine with the same identity.
IDENTITY = "/etc/machine-id" if os.path.exists("/etc/machine-id") else "/proc/sys/kernel/random/boot_id"
_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


def missing_requirement():
    """Returns why this process cannot create machines, or None. CI must be able to create them."""
    missing = None
    if os.geteuid() != 0:
        missing = "needs root"
    else:
        probe = subprocess.run(["unshare", "--net", "--mount", "--uts", "ip", "link", "add", "probe", "type", "bridge"], capture_output=True, text=True,
                               check=False)
        if probe.returncode != 0:
            missing = f"cannot create network namespaces: {probe.stderr.strip()}"
    # CI itself decides to run tests without root.
    assert missing in (None, "needs root") or os.environ.get("CI") != "true", missing
    return missing


def _ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr.strip()}"
    return done.stdout


def _remove(space):
    """Kills the processes in a namespace and deletes its name; the kernel removes the rest."""
    for pid in _pids(space):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _ip("netns", "del", space)


def _pids(space):
    return [pid for pid in map(int, _ip("netns", "pids", space).split()) if pid != os.getpid()]


def remove_orphans():
    """Removes the namespaces of tests that were killed."""
    for space in os.listdir(FOLDER) if os.path.isdir(FOLDER) else ():
        if space.startswith(PREFIX) and not os.path.exists(f"/proc/{space[len(PREFIX):].split('-')[0]}"):
            with contextlib.suppress(AssertionError):  # another process removed it concurrently
                _remove(space)


class Machine:
    """space: its network namespace. addresses: switch → the machine's address on it."""

    def __init__(self, name, space, addresses, folder):
        self.name, self.space, self.addresses = name, space, addresses
        self._identity = os.path.join(folder, f"{name}.machine-id")
        with open(self._identity, "w", encoding="ascii") as file:
            file.write(os.urandom(16).hex() + "\n")

    def command_prefix(self):
        """Prefix of a command that runs it on this machine."""
        return ["nsenter", f"--net={FOLDER}/{self.space}", "unshare", "--mount", "--uts", "sh", "-c",
                'mount --bind "$1" "$2" && hostname "$3" && shift 3 && exec "$@"', "sh", self._identity, IDENTITY, self.name]

    def processes(self):
        return _pids(self.space)


class Lan:
    """machines: name → its switches (short names). folder: for the machines' identity files. Call close() at the end."""

    _count = 0

    def __init__(self, machines, folder):
        remove_orphans()
        Lan._count += 1
        self._stem = f"{PREFIX}{os.getpid()}-{Lan._count}"
        self._switches, self.machines, self._spaces = f"{self._stem}-switches", {}, []
        try:
            self._make(machines, folder)
        except BaseException:
            self.close()
            raise

    def _make(self, machines, folder):
        self._add_space(self._switches)
        networks = sorted({switch for switches in machines.values() for switch in switches})
        for switch in networks:
            _ip("-n", self._switches, "link", "add", switch, "type", "bridge")
            _ip("-n", self._switches, "link", "set", switch, "up")
        for number, (name, switches) in enumerate(machines.items(), 1):
            space = f"{self._stem}-{name}"
            self._add_space(space)
            addresses = {}
            for switch in switches:
                addresses[switch] = f"10.77.{networks.index(switch)}.{number}"
                port = self._port(name, switch)
                _ip("-n", self._switches, "link", "add", port, "type", "veth", "peer", "name", switch, "netns", space)
                _ip("-n", space, "address", "add", f"{addresses[switch]}/24", "dev", switch)
                _ip("-n", space, "link", "set", switch, "up")
                _ip("-n", self._switches, "link", "set", port, "master", switch, "up")
            self.machines[name] = Machine(name, space, addresses, folder)

    def _add_space(self, space):
        _ip("netns", "add", space)
        self._spaces.append(space)
        _ip("-n", space, "link", "set", "lo", "up")

    @staticmethod
    def _port(name, switch):
        return f"{name}-{switch}"

    def cut(self, name, *switches):
        """Drops all traffic of the cables in both directions, without notifying either end."""
        for switch in switches:
            _ip("-n", self._switches, "link", "set", self._port(name, switch), "nomaster")

    def heal(self, name, *switches):
        for switch in switches:
            _ip("-n", self._switches, "link", "set", self._port(name, switch), "master", switch)

    @contextlib.contextmanager
    def on_machine(self, name):
        """Moves this thread, and the threads and processes it starts, to the machine's network for the duration of the
        block.
        """
        with open("/proc/thread-self/ns/net", "rb") as before, open(f"{FOLDER}/{self.machines[name].space}", "rb") as there:
            _enter(there)
            try:
                yield
            finally:
                _enter(before)

    def close(self):
        """Ends everything that runs on the machines and removes them."""
        for space in reversed(self._spaces):
            pids = _pids(space)
            _remove(space)
            wait_until(lambda pids=pids: not any(_is_running(pid) for pid in pids), f"the processes in {space} to end")
        self._spaces.clear()


def _is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _enter(space):
    if _libc.setns(space.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")

"""Machines of a test's own: network namespaces on switches, with cables that can be cut. Needs root, and a kernel that allows it.

Each has its own loopback, and by machine-id and name it is another machine to whoever asks. Nothing of it is in the network of the host that it
runs on: the switches are in a namespace, too. What a killed test left is ended by whoever makes the next one.
"""

import contextlib
import ctypes
import os
import signal
import subprocess

from waiting import wait_until

PREFIX = "freshet-lan-"  # then the pid of who made it, and the machine
FOLDER = "/run/netns"
# Another machine's: only one that has the same identity may conclude from a pid.
IDENTITY = "/etc/machine-id" if os.path.exists("/etc/machine-id") else "/proc/sys/kernel/random/boot_id"
_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


def why_not():
    """What this process lacks for machines of its own; None: nothing. CI must have it."""
    why = None
    if os.geteuid() != 0:
        why = "needs root"
    else:
        probe = subprocess.run(["unshare", "--net", "--mount", "--uts", "ip", "link", "add", "probe", "type", "bridge"], capture_output=True, text=True,
                               check=False)
        if probe.returncode != 0:
            why = f"no network of its own can be made here: {probe.stderr.strip()}"
    # As whoever is not root CI itself has decided.
    assert why in (None, "needs root") or os.environ.get("CI") != "true", why
    return why


def _ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr.strip()}"
    return done.stdout


def _end(space):
    """Ends the processes in a namespace, and takes its name: the kernel does the rest."""
    for pid in _pids(space):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    _ip("netns", "del", space)


def _pids(space):
    return [pid for pid in map(int, _ip("netns", "pids", space).split()) if pid != os.getpid()]


def remove_orphans():
    """Of tests that were killed."""
    for space in os.listdir(FOLDER) if os.path.isdir(FOLDER) else ():
        if space.startswith(PREFIX) and not os.path.exists(f"/proc/{space[len(PREFIX):].split('-')[0]}"):
            with contextlib.suppress(AssertionError):  # somebody else removed it meanwhile
                _end(space)


class Machine:
    """space: of its network. addresses: switch → its address there."""

    def __init__(self, name, space, addresses, folder):
        self.name, self.space, self.addresses = name, space, addresses
        self._identity = os.path.join(folder, f"{name}.machine-id")
        with open(self._identity, "w", encoding="ascii") as file:
            file.write(os.urandom(16).hex() + "\n")

    def inside(self):
        """Before a command that is to run there."""
        return ["nsenter", f"--net={FOLDER}/{self.space}", "unshare", "--mount", "--uts", "sh", "-c",
                'mount --bind "$1" "$2" && hostname "$3" && shift 3 && exec "$@"', "sh", self._identity, IDENTITY, self.name]

    def processes(self):
        return _pids(self.space)


class Lan:
    """machines: name → the switches that it is on (names of a few letters). folder: where their identities lie. Ends with close()."""

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
        """From now on nothing comes through its cable, neither way, and nobody is told."""
        for switch in switches:
            _ip("-n", self._switches, "link", "set", self._port(name, switch), "nomaster")

    def heal(self, name, *switches):
        for switch in switches:
            _ip("-n", self._switches, "link", "set", self._port(name, switch), "master", switch)

    @contextlib.contextmanager
    def here(self, name):
        """This thread, and those and what it starts, are on that machine's network meanwhile."""
        with open("/proc/thread-self/ns/net", "rb") as before, open(f"{FOLDER}/{self.machines[name].space}", "rb") as there:
            _enter(there)
            try:
                yield
            finally:
                _enter(before)

    def close(self):
        """Ends what runs there."""
        for space in reversed(self._spaces):
            pids = _pids(space)
            _end(space)
            wait_until(lambda pids=pids: not any(_lives(pid) for pid in pids), f"the end of what ran in {space}")
        self._spaces.clear()


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def _enter(space):
    if _libc.setns(space.fileno(), CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")

"""A Debian booted by systemd in a container, on this process's private network (created by `run`)."""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "tests/e2e"), os.path.join(ROOT, "tests/support")]
from waiting import wait_until  # noqa: E402

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


def unified_hierarchy():
    """Mount point of cgroup2; mounts it next to the cgroup v1 hierarchies if necessary."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        found = re.search(r"^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2 ", file.read(), re.M)
    if found:
        return found[1]
    path = "/sys/fs/cgroup/unified"
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", "cgroup2", "cgroup2", path], check=True)
    return path


class Machine:
    def __init__(self, root):
        self.root, self._nspawn, self._leader = root, None, None
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        os.makedirs("/run/systemd/nspawn", exist_ok=True)  # nspawn's runtime folder
        subprocess.run(["mount", "-t", "tmpfs", "nspawn", "/run/systemd/nspawn"], check=True)
        self._group = os.path.join(unified_hierarchy(), f"freshet-boot-{os.path.basename(os.path.dirname(root))}")
        os.makedirs(self._group)
        self.console = open(os.path.join(os.path.dirname(root), "console"), "w+", encoding="utf-8")

    def at(self, path):
        """A path of the machine, as seen from here."""
        return self.root + path

    def boot(self):
        """Returns when the system is running without failed units."""
        # With cgroup v1, systemd in a container is not notified of empty cgroups.
        environment = os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
        # The network namespace is this process's own (created by unshare), so that a reboot stays in it.
        command = ["systemd-nspawn", "-q", "-D", self.root, "--machine=freshet-boot", "--register=no", "--keep-unit", "--console=pipe", "-b",
                   "--resolv-conf=off", "--timezone=off", "--link-journal=no", f"--network-namespace-path=/proc/{os.getpid()}/ns/net"]
        self._nspawn = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.console, stderr=subprocess.STDOUT, env=environment,
                                        preexec_fn=self._enter_group)
        self._await_boot()

    def reboot(self):
        self.run("systemctl reboot", check=False)
        assert self._nspawn.wait(60) == 133  # with --keep-unit the caller has to start it again
        self.boot()

    def power_off(self):
        self.run("systemctl poweroff", check=False)
        assert self._nspawn.wait(60) == 0

    def close(self):
        """Works in any state."""
        if self._nspawn and self._nspawn.poll() is None:
            for pid in children(self._nspawn.pid) + [self._nspawn.pid]:
                os.kill(pid, 9)
            self._nspawn.wait(10)
        for folder, _, _ in os.walk(self._group, topdown=False):
            wait_until(lambda folder=folder: self._remove(folder), f"the end of the processes in {folder}", 10)

    def run(self, script, check=True, timeout=240):
        """Runs bash in the machine as root; returns its stdout and stderr."""
        command = ["nsenter", "-t", str(self._leader), "-m", "-u", "-i", "-p", "-C", "env", "-i", f"PATH={PATH}", "HOME=/root", "LC_ALL=C.UTF-8",
                   "DEBIAN_FRONTEND=noninteractive", "bash", "-euo", "pipefail", "-c", "cd /root\n" + script]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              timeout=timeout)
        assert not check or done.returncode == 0, f"{script}\nexit {done.returncode}: {done.stdout}"
        return done.stdout.strip()

    def ok(self, script):
        """Returns whether the script exits 0."""
        return self.run(f"({script}) >/dev/null 2>&1 && echo yes || true") == "yes"

    def show(self, unit, *properties):
        """{property: value} from systemctl."""
        output = self.run(f"systemctl show {unit} -p {','.join(properties)}")
        return dict(line.split("=", 1) for line in output.splitlines())

    def journal(self, unit, since=0.0):
        """Messages of the unit, and of systemd about it, since `since` (a time.time())."""
        return self.run(f"journalctl --sync; journalctl -q -u {unit} -o cat --since=@{since:.6f}")

    def write(self, path, text, mode=0o644):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        with open(self.at(path), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(self.at(path), mode)

    def copy_file(self, source, path):
        os.makedirs(os.path.dirname(self.at(path)), exist_ok=True)
        shutil.copy(source, self.at(path))

    def _enter_group(self):
        with open(os.path.join(self._group, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write("0")

    def _await_boot(self):
        def leader():
            assert self._nspawn.poll() is None, self._console_output()
            # Until systemd listens, the container is incomplete and cannot be entered.
            return next((pid for pid in children(self._nspawn.pid) if os.path.exists(f"/proc/{pid}/root/run/systemd/private")), None)

        try:
            self._leader = wait_until(leader, "init")
            state = wait_until(lambda: re.search("running|degraded", self.run("systemctl is-system-running", check=False)), "the end of the boot", 60)[0]
        except AssertionError as error:
            raise AssertionError(f"{error}: {self._console_output()}") from error
        assert state == "running", self.run("systemctl --failed --no-pager; journalctl -b -p warning --no-pager | tail -n 40")

    def diagnostics(self):
        """Diagnostics for the report of a failed test."""
        if self._leader is None or self._nspawn is None or self._nspawn.poll() is not None:
            return self._console_output()
        return self.run("systemctl --failed --no-legend; journalctl -b -q -u 'freshet*' --no-pager | tail -n 40; tail -n 10 /var/log/redis/*.log /var/log/valkey/*.log", check=False)

    def _console_output(self):
        self.console.flush()
        with open(self.console.name, encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]

    @staticmethod
    def _remove(folder):
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

"""A temporary root directory in which dpkg installs, removes and purges as on a real host, including maintainer scripts.

It contains the programs that the scripts run (sh, perl with deb-systemd-helper, systemd-sysusers) and a dpkg database
with the host's entries of the given packages. No systemd runs in it: systemctl is a script that logs its arguments.
Without root, everything runs in a user namespace.
"""

import os
import re
import shutil
import subprocess

PROGRAMS = ["/bin/sh", "/bin/rm", "/bin/rmdir", "/bin/mkdir", "/bin/chown", "/usr/bin/perl", "/bin/systemd-sysusers", "/usr/bin/deb-systemd-helper", "/usr/bin/deb-systemd-invoke"]
AS_ROOT = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]


def available():
    """True if such a root can be entered here."""
    return subprocess.run([*AS_ROOT, "chroot", "/", "/bin/true"], capture_output=True, check=False).returncode == 0


class Root:
    def __init__(self, path, packages):
        """packages: names of the packages that the tested package depends on."""
        self.path = path
        for program in PROGRAMS:
            self.copy_program(program)
        perl = subprocess.run(["perl", "-e", "print grep m{/perl-base$}, @INC"], capture_output=True, text=True, check=True).stdout
        shutil.copytree(perl, path + perl)
        for folder in ("tmp", "dev", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "etc/systemd/system"):
            os.makedirs(os.path.join(path, folder), exist_ok=True)
        self.write("dev/null", "")
        for name in ("passwd", "group"):
            self.write("etc/" + name, "root:x:0:0:root:/root:/bin/sh\n" if name == "passwd" else "root:x:0:\n")
        self.copy_package_entries(packages)
        os.makedirs(path + "/run/systemd/system")  # the scripts take this as a sign that systemd runs
        self.write("usr/bin/systemctl", '#!/bin/sh\necho "$*" >>/tmp/systemctl\n')
        os.chmod(path + "/usr/bin/systemctl", 0o755)

    def systemctl_calls(self):
        """systemctl's calls since the last call, without options."""
        calls = [re.sub(r"--\S+ ", "", line) for line in self.read("tmp/systemctl").splitlines()]
        self.write("tmp/systemctl", "")
        return calls

    def copy_program(self, program):
        """Copies a program of the host with its libraries."""
        self._copy(program)
        self.copy_libraries(program)

    def copy_libraries(self, program):
        linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        for library in re.findall(r"(/\S+) \(0x", linked):
            self._copy(library)

    def _copy(self, file):
        os.makedirs(os.path.dirname(self.path + file), exist_ok=True)
        shutil.copy(file, self.path + file)

    def copy_package_entries(self, packages):
        """Copies the host's entries of these packages, or of those that provide them, to the root's database."""
        with open("/var/lib/dpkg/status", encoding="utf-8") as file:
            entries = file.read().strip().split("\n\n")
        entries_to_copy = []
        for entry in entries:
            names = re.findall(r"[\w.+-]{2,}", " ".join(re.findall(r"^(?:Package|Provides): (.*)$", entry, re.M)))
            if not set(names) & set(packages):
                continue
            entries_to_copy.append(re.sub(r"^Conffiles:\n(?: .*\n)+", "", entry, flags=re.M))
            architecture = re.search(r"^Architecture: (.*)$", entry, re.M)[1]
            same = re.search(r"^Multi-Arch: same$", entry, re.M)
            self.write(f"var/lib/dpkg/info/{names[0]}{':' + architecture if same else ''}.list", "")
        self.write("var/lib/dpkg/status", "\n\n".join(entries_to_copy) + "\n\n")
        self.write("var/lib/dpkg/info/format", "1\n")

    def write(self, name, text):
        path = os.path.join(self.path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.path, name), encoding="utf-8") as file:
            return file.read()

    def dpkg(self, *arguments):
        """(exit status, output)."""
        return self._run("dpkg", f"--root={self.path}", "--log=/dev/null", *arguments)

    def run(self, *command):
        return self._run("chroot", self.path, *command)

    def _run(self, *command):
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"}
        done = subprocess.run([*AS_ROOT, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=480, env=environment)
        return done.returncode, done.stdout + done.stderr

    def paths(self):
        """All files, links and folders, except dpkg's own database."""
        found = set()
        for folder, folders, files in os.walk(self.path):
            found |= {os.path.join(folder, name)[len(self.path):] for name in folders + files}
        return {name for name in found if not name.startswith(("/var/lib/dpkg", "/dev"))}

"""scripts/deps with a fake apt: what it calls, what it refuses, and its messages. tests/scripts/bare uses the real one."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOLS = ["awk", "bash", "cat", "dirname", "env", "grep", "head", "sed", "sleep", "sort", "tail", "tr"]
APT = """#!/usr/bin/env bash
echo "$*" >>"$FAKE/apt_calls"
case " $* " in *" -s "*) step=simulate ;; *" update "*) step=update ;; *" -d "*) step=download ;; *) step=install ;; esac
source "$FAKE/$step"
"""
# A fake root: changes nothing on this host.
SUDO = """#!/usr/bin/env bash
case $1 in tee) exec cat >/dev/null ;; chmod | rm) ;; true) exit "$(cat "$FAKE/sudo_status")" ;; *) exec "$@" ;; esac
"""
NO_NETWORK = "echo 'E: Failed to fetch InRelease  Temporary failure resolving'; exit 100\n"
LOCKED = "echo 'E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (unattended-upgr)'; exit 100\n"


class Deps(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="freshet-deps-")
        self.addCleanup(shutil.rmtree, self.folder)
        os.chmod(self.folder, 0o755)
        os.makedirs(self.path("bin"))
        os.makedirs(self.path("scripts"))
        shutil.copy(os.path.join(ROOT, "scripts/deps"), self.path("scripts/deps"))
        for tool in TOOLS:
            os.symlink(shutil.which(tool), self.path("bin/" + tool))
        self.program("apt-get", APT)
        self.program("sudo", SUDO)
        self.installed("all")
        self.write("sudo_status", "0")
        self.write("simulate", "echo 'Inst jq (1)'\n")
        for name in ("update", "download", "install", "apt_calls"):
            self.write(name, "")
        os.chmod(self.path("apt_calls"), 0o666)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)

    def program(self, name, text):
        self.write("bin/" + name, text)
        os.chmod(self.path("bin/" + name), 0o755)

    def listed(self, *sections):
        return self.deps("--list", *sections)[1].split()

    def installed(self, *packages, but=()):
        """Sets dpkg-query's output; "all" stands for every package of the list."""
        names = self.listed("build", "run", "test", "bench") if packages == ("all",) else packages
        lines = "".join(f"installed {name}\n" for name in names if name not in but)
        self.program("dpkg-query", f"#!/usr/bin/env bash\necho '{lines}'\n")

    def deps(self, *arguments):
        """(status, output). Never runs as root, so it cannot change the host."""
        user = {"user": "nobody", "extra_groups": []} if os.geteuid() == 0 else {}
        done = subprocess.run([self.path("scripts/deps"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=240,
                              env={"PATH": self.path("bin"), "FAKE": self.folder}, cwd="/", **user)
        return done.returncode, done.stdout

    def apt_calls(self):
        """apt-get's calls since the last call, without options: [["-s", "install", "jq"], …]."""
        with open(self.path("apt_calls"), encoding="utf-8") as file:
            lines = [re.sub(r"-o \S+ ?|-qq ?|-y ?|--no-install-recommends ?", "", line).split() for line in file]
        self.write("apt_calls", "")
        return lines

    def assert_refused(self, pattern, *arguments):
        """It exits 1 with one sentence, after the line about what it installs."""
        status, output = self.deps(*arguments)
        lines = [line for line in output.splitlines() if not line.startswith("deps: installing ")]
        self.assertEqual((status, len(lines)), (1, 1), output)
        self.assertRegex(lines[0], f"^deps: {pattern}")

    def test_the_list_has_every_package_once_and_sections_include_their_dependencies(self):
        everything = self.listed("build", "run", "test", "bench")
        self.assertEqual(len(everything), len(set(everything)))
        self.assertTrue(all(re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", package) for package in everything), everything)
        self.assertLess(set(self.listed("build")), set(self.listed("run")))
        self.assertLess(set(self.listed("run")), set(self.listed("bench")))

    def test_nothing_is_called_when_no_package_is_missing(self):
        self.assertEqual(self.deps("run"), (0, ""))
        self.assertEqual(self.apt_calls(), [])

    def test_missing_packages_are_simulated_downloaded_and_installed_with_both_times_printed(self):
        self.installed("all", but=["jq"])
        status, output = self.deps("run")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"^deps: installing jq\ndeps: 1 packages: \d+ s to download, \d+ s to install\n$")
        self.assertEqual(self.apt_calls(), [["-s", "install", "jq"], ["-d", "install", "jq"], ["install", "jq"]])

    def test_a_failed_download_is_retried(self):
        self.installed("all", but=["jq"])
        self.deps("run")
        with open(self.path("apt_calls"), encoding="utf-8") as file:
            self.assertIn("-o Acquire::Retries=3 ", next(line for line in file if " -d " in line))

    def test_either_of_two_alternatives_suffices_and_the_first_is_installed(self):
        self.installed("libboost1.81-dev", *self.listed("build"), but=["libboost-dev"])
        self.assertEqual(self.deps("build"), (0, ""))
        self.installed("all", but=["libboost-dev"])
        self.deps("build")
        self.assertEqual(self.apt_calls()[0], ["-s", "install", "libboost-dev"])

    def test_a_command_from_another_source_suffices(self):
        self.installed("all", but=["nodejs"])
        self.program("node", "")
        self.assertEqual(self.deps("test"), (0, ""))

    def test_packages_are_removed_only_when_allowed(self):
        self.installed("all", but=["libboost-dev"])
        self.write("simulate", "printf '%s\\n' 'Remv libboost1.81-dev [1.81.0]' 'Remv libmine-dev [1]' 'Inst libboost-dev (1.74)'\n")
        self.assert_refused(r"to install libboost-dev, apt would remove libboost1.81-dev libmine-dev; nothing was changed\..*--allow-removals$", "build")
        self.assertEqual(self.apt_calls(), [["-s", "install", "libboost-dev"]])
        self.assertEqual(self.deps("--allow-removals", "build")[0], 0)
        with open(self.path("apt_calls"), encoding="utf-8") as file:
            self.assertIn("APT::Get::Remove=1", file.read().splitlines()[-1])

    def test_apt_itself_is_told_to_remove_nothing(self):
        self.installed("all", but=["jq"])
        self.deps("run")
        with open(self.path("apt_calls"), encoding="utf-8") as file:
            self.assertTrue(all("APT::Get::Remove=0" in line for line in file.read().splitlines()[1:]))

    def test_missing_or_outdated_lists_are_updated(self):
        self.installed("all", but=["jq"])
        self.write("simulate", 'grep -q "update$" "$FAKE/apt_calls" || { echo "E: Unable to locate package jq"; exit 100; }\n')
        self.assertEqual(self.deps("run")[0], 0)
        self.assertEqual([line[0] for line in self.apt_calls()], ["-s", "update", "-s", "-d", "install"])
        self.write("simulate", "")
        self.write("download", 'grep -q "update$" "$FAKE/apt_calls" || { echo "E: Failed to fetch jq.deb  404  Not Found"; exit 100; }\n')
        self.assertEqual(self.deps("run")[0], 0)
        self.assertEqual([line[0] for line in self.apt_calls()], ["-s", "-d", "update", "-s", "-d", "install"])

    def test_a_missing_network_is_reported_in_one_sentence(self):
        self.installed("all", but=["jq"])
        self.write("download", NO_NETWORK)
        self.write("update", NO_NETWORK)
        self.assert_refused(r"the package lists could not be downloaded; is there a network\? apt says: Failed to fetch", "run")
        self.write("update", "")
        self.assert_refused(r"the packages could not be downloaded; is there a network\? apt says: Failed to fetch", "run")

    def test_an_unknown_package_is_reported(self):
        self.installed("all", but=["jq"])
        self.write("simulate", "echo 'E: Unable to locate package jq'; exit 100\n")
        self.assert_refused(r"apt cannot install the missing packages \(jq\): Unable to locate package jq$", "run")

    def test_a_held_lock_is_awaited_and_its_holder_is_printed(self):
        self.installed("all", but=["jq"])
        self.write("install", f'[[ $(grep -c " install jq" "$FAKE/apt_calls") -gt 4 ]] || {{ {LOCKED} }}\n')
        status, output = self.deps("run")
        self.assertEqual(status, 0, output)
        self.assertEqual(output.count("deps: waiting for process 4711 (unattended-upgr), which holds apt's lock\n"), 1, output)
        self.write("install", LOCKED)
        self.assert_refused(r"process 4711 \(unattended-upgr\) has held apt's lock for 0 s; nothing was installed$", "--wait", "0", "run")

    def test_without_root_the_missing_packages_are_printed(self):
        self.installed("all", but=["jq", "curl"])
        self.write("sudo_status", "1")
        self.assert_refused("missing packages: curl jq; sudo failed$", "run")
        os.remove(self.path("bin/sudo"))
        self.assert_refused("missing packages: curl jq; run as root or install sudo$", "run")
        self.assertEqual(self.apt_calls(), [])

    def test_outside_debian_it_points_to_the_list(self):
        os.remove(self.path("bin/dpkg-query"))
        status, output = self.deps("run")
        self.assertEqual((status, output.count("\n")), (0, 1), output)
        self.assertIn("./scripts/deps --list", output)


class Tools(unittest.TestCase):
    def configure_with_cmake(self, version):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "cmake"), "w", encoding="utf-8") as file:
                file.write(f'#!/bin/sh\n[ "$1" != --version ] || echo "cmake version {version}"\n')
            os.chmod(os.path.join(folder, "cmake"), 0o755)
            done = subprocess.run(["bash", "-c", f"source {ROOT}/scripts/lib.sh; configure"], capture_output=True, text=True, check=False,
                                  env={"PATH": f"{folder}:{os.environ['PATH']}"})
            return done.returncode, done.stderr

    def test_an_old_cmake_is_rejected_with_the_required_version(self):
        self.assertEqual(self.configure_with_cmake("3.18.4"), (1, "bash: CMake 3.25 or later is required, as in Debian 12; found 3.18.4\n"))
        for version in ("3.25.1", "3.100.0", "4.0.1"):
            self.assertEqual(self.configure_with_cmake(version), (0, ""), version)

    def compiler(self, name, version):
        done = subprocess.run(["cmake", f"-DCMAKE_CXX_COMPILER_ID={name}", f"-DCMAKE_CXX_COMPILER_VERSION={version}", "-P",
                               os.path.join(ROOT, "scripts/cmake/Compiler.cmake")], capture_output=True, text=True, check=False)
        return done.returncode, " ".join(done.stderr.split())

    def test_an_unsupported_compiler_is_rejected_with_the_required_versions(self):
        for name, version in (("GNU", "12.2.0"), ("GNU", "14.1.0"), ("Clang", "14.0.6")):
            self.assertEqual(self.compiler(name, version), (0, ""))
        for name, version in (("GNU", "11.4.0"), ("Clang", "13.0.1"), ("Intel", "2021.1")):
            status, output = self.compiler(name, version)
            self.assertEqual(status, 1, name)
            self.assertIn(f"Freshet needs GCC 12, Clang 14 or later; this is {name} {version}.", output)


if __name__ == "__main__":
    unittest.main()

"""The Debian package: lintian accepts it, its contents are complete, and it leaves behind what Debian expects."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import root as temporary_root
from contents import BUILD, CONFFILES, DEBIAN_FILES, FILES, UNITS

REQUIRED_PROGRAMS = {"cpack": "cmake", "dpkg-deb": "dpkg", "dpkg-shlibdeps": "dpkg-dev", "file": "file"}
MISSING = [f"{program} (package {package})" for program, package in REQUIRED_PROGRAMS.items() if not shutil.which(program)]


def run(*command, **more):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=480, **more)
    return done.returncode, done.stdout + done.stderr


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if MISSING:
            raise unittest.SkipTest("SKIPPED: not installed: " + ", ".join(MISSING))
        cls.folder = tempfile.mkdtemp(prefix="freshet-package-")
        os.chmod(cls.folder, 0o755)
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.deb = cls.pack(cls.folder)

    @staticmethod
    def pack(folder):
        # Permissions in the package must not depend on the umask.
        status, output = run("cpack", "-G", "DEB", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", folder, umask=0o077)
        assert status == 0, output
        (deb,) = glob.glob(os.path.join(folder, "*.deb"))
        return deb

    def field(self, name):
        return run("dpkg-deb", "-f", self.deb, name)[1].strip()

    def unpack(self, name):
        folder = os.path.join(self.folder, name)
        self.assertEqual(run("dpkg-deb", "-x", self.deb, folder)[0], 0)
        return folder

    @unittest.skipUnless(shutil.which("lintian"), "SKIPPED: lintian is not installed (package lintian)")
    def test_lintian_accepts_it(self):
        status, output = run("lintian", "--fail-on", "error,warning", "--allow-root", self.deb)
        # without perl's messages about locales
        tags = [line for line in output.splitlines() if re.match(r"[EW]: ", line)]
        self.assertEqual((status, tags), (0, []), output)

    def test_packing_again_gives_the_same_bytes(self):
        again = self.pack(os.path.join(self.folder, "again"))
        with open(self.deb, "rb") as first, open(again, "rb") as second:
            self.assertTrue(first.read() == second.read())

    def test_it_contains_the_listed_files_owned_by_root(self):
        lines = run("dpkg-deb", "-c", self.deb)[1].splitlines()
        rows = [(line.split()[0], line.split()[1], line.split(None, 5)[5][1:]) for line in lines]
        self.assertEqual({path for _, _, path in rows if not path.endswith("/")}, FILES | DEBIAN_FILES)
        for mode, owner, path in rows:
            program = path.startswith(("/usr/sbin/", "/usr/bin/")) or path.endswith("/")
            self.assertEqual((mode[1:], owner), ("rwxr-xr-x" if program else "rw-r--r--", "root/root"), path)

    def test_files_for_the_administrator_are_conffiles(self):
        control = os.path.join(self.folder, "control")
        run("dpkg-deb", "-e", self.deb, control)
        with open(os.path.join(control, "conffiles"), encoding="utf-8") as file:
            self.assertEqual(set(file.read().split()), CONFFILES)

    def test_it_depends_on_the_libraries_it_is_linked_with(self):
        self.assertRegex(self.field("Depends"), r"libhiredis.*libmd4c0.*libsqlite3-0.*libxapian30.*libxml2")
        self.assertIn("libjs-chart.js", self.field("Depends"))
        self.assertRegex(self.field("Recommends"), r"redis-server \(>= .*\) \| valkey-server, nginx")

    def test_the_programs_are_stripped_and_have_the_package_s_version(self):
        programs = self.unpack("programs")
        for program in ("usr/sbin/freshetd", "usr/bin/freshetctl"):
            path = os.path.join(programs, program)
            self.assertIn("stripped", run("file", path)[1].replace("not stripped", ""))
            self.assertIn(self.field("Version").split("-")[0], run(path, "--version")[1])

    @unittest.skipUnless(shutil.which("systemd-analyze"), "SKIPPED: systemd-analyze is not installed (package systemd)")
    def test_systemd_accepts_the_units_and_their_programs(self):
        folder = self.unpack("units")
        shutil.copytree("/usr/lib/systemd/system", folder + "/usr/lib/systemd/system", symlinks=True, dirs_exist_ok=True)
        self.unpack("units")  # ours win over the host's units of the same name
        os.makedirs(folder + "/bin")
        shutil.copy("/bin/kill", folder + "/bin/kill")  # ExecReload=
        shutil.copy("/usr/bin/xapian-tcpsrv", folder + "/usr/bin")  # from the package that ours suggests
        _, output = run("systemd-analyze", "verify", "--man=no", "--root=" + folder, *UNITS)
        self.assertEqual([line for line in output.splitlines() if "freshet" in line], [])

    @unittest.skipUnless(temporary_root.available(), "SKIPPED: needs root or user namespaces")
    def test_installed_edited_upgraded_removed_and_purged(self):
        wanted = re.findall(r"[a-z][\w.+-]+(?=[ ,|]|$)", re.sub(r"\([^)]*\)", "", self.field("Depends")))
        host = temporary_root.Root(os.path.join(self.folder, "host"), wanted)
        for program in ("fcgi/freshetd", "scripts/freshetctl"):
            host.copy_libraries(os.path.join(BUILD, program))
        host.write("tmp/systemctl", "")
        before = host.paths()
        self.dpkg(host, "--install", self.deb)
        self.check_installed(host)
        host.write("etc/freshet/freshet.toml", "pm.max_children = 3\n")
        for file in ("etc/freshet/conf.d/own.toml", "var/lib/freshet/freshet.db", "var/lib/nginx/freshet_hot/a",
                     "var/log/nginx/freshet-public.log", "var/log/nginx/access.log"):
            host.write(file, "")
        wants = host.path + "/etc/systemd/system/sockets.target.wants"  # `systemctl enable freshet.socket`
        os.makedirs(wants)
        os.symlink("/usr/lib/systemd/system/freshet.socket", wants + "/freshet.socket")
        self.dpkg(host, "--install", self.deb)
        self.assertEqual(host.read("etc/freshet/freshet.toml"), "pm.max_children = 3\n")
        restart = "try-restart freshet.service freshet-train.timer freshet-tune.timer freshet-fill.timer freshet-check.timer freshet-fetch-model.timer"
        self.assertEqual(host.systemctl_calls(), ["daemon-reload", restart])

        self.dpkg(host, "--remove", "freshet")
        stop = "stop freshet-train.timer freshet-tune.timer freshet-fill.timer freshet-check.timer freshet-fetch-model.timer freshet.service freshet.socket freshet-search@*.service freshet-import@*.timer"
        self.assertEqual(host.systemctl_calls(), [stop, "daemon-reload"])
        left = host.paths() - before
        self.assertLessEqual(CONFFILES | {"/var/lib/freshet/freshet.db", "/etc/freshet/conf.d/own.toml"}, left)
        self.assertEqual(left & ((FILES | DEBIAN_FILES) - CONFFILES), set())

        self.dpkg(host, "--purge", "freshet")
        files = {path for path in host.paths() - before if not os.path.isdir(host.path + path)}
        accounts = {"/etc/.pwd.lock", "/etc/passwd-", "/etc/group-", "/etc/shadow", "/etc/gshadow"}
        # Files of the administrator and of nginx.
        self.assertEqual(files - accounts, {"/etc/freshet/conf.d/own.toml", "/var/log/nginx/access.log"})
        ours = {path for path in host.paths() if "freshet" in path}
        self.assertEqual(ours, {"/etc/freshet", "/etc/freshet/conf.d", "/etc/freshet/conf.d/own.toml"})
        self.assertIn("freshet:", host.read("etc/passwd"))  # Debian policy: accounts stay, so that ids are not reused

    def dpkg(self, host, *arguments):
        status, output = host.dpkg(*arguments)
        self.assertEqual(status, 0, output)
        self.assertNotRegex(output, "(?i)error|not found", output)

    def check_installed(self, host):
        self.assertRegex(host.read("etc/passwd"), r"(?m)^freshet:.*:/var/lib/freshet:")
        self.assertEqual(os.stat(host.path + "/etc/freshet/secrets").st_mode & 0o777, 0o700)
        self.assertEqual(glob.glob(host.path + "/etc/systemd/system/**/*", recursive=True), [], "something was enabled")
        self.assertEqual(host.systemctl_calls(), ["daemon-reload"], "something was started")
        status, output = host.run("/usr/sbin/freshetd", "-t")
        self.assertEqual(status, 0, output)


if __name__ == "__main__":
    unittest.main()

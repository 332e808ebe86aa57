"""The Debian package: lintian accepts it, it holds what it should, and what it leaves behind is what Debian expects."""

import glob
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import root as throw_away
from contents import BUILD, CONFFILES, DEBIAN_FILES, FILES, UNITS

NEEDED = {"cpack": "cmake", "dpkg-deb": "dpkg", "dpkg-shlibdeps": "dpkg-dev", "file": "file"}
MISSING = [f"{program} (package {package})" for program, package in NEEDED.items() if not shutil.which(program)]


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
        # The permissions in the package must not come from who builds it.
        status, said = run("cpack", "-G", "DEB", "--config", os.path.join(BUILD, "CPackConfig.cmake"), "-B", folder, umask=0o077)
        assert status == 0, said
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
        status, said = run("lintian", "--fail-on", "error,warning", "--allow-root", self.deb)
        tags = [line for line in said.splitlines() if re.match(r"[EW]: ", line)]  # not what perl says of locales
        self.assertEqual((status, tags), (0, []), said)

    def test_packed_again_later_it_is_the_same_bytes(self):
        again = self.pack(os.path.join(self.folder, "again"))
        with open(self.deb, "rb") as first, open(again, "rb") as second:
            self.assertTrue(first.read() == second.read())

    def test_it_holds_what_is_listed_owned_by_root(self):
        lines = run("dpkg-deb", "-c", self.deb)[1].splitlines()
        rows = [(line.split()[0], line.split()[1], line.split(None, 5)[5][1:]) for line in lines]
        self.assertEqual({path for _, _, path in rows if not path.endswith("/")}, FILES | DEBIAN_FILES)
        for mode, owner, path in rows:
            program = path.startswith(("/usr/sbin/", "/usr/bin/")) or path.endswith("/")
            self.assertEqual((mode[1:], owner), ("rwxr-xr-x" if program else "rw-r--r--", "root/root"), path)

    def test_what_an_administrator_edits_is_a_conffile(self):
        control = os.path.join(self.folder, "control")
        run("dpkg-deb", "-e", self.deb, control)
        with open(os.path.join(control, "conffiles"), encoding="utf-8") as file:
            self.assertEqual(set(file.read().split()), CONFFILES)

    def test_it_depends_on_the_libraries_it_is_linked_with(self):
        self.assertRegex(self.field("Depends"), r"libhiredis.*libsqlite3-0.*libxapian30")
        self.assertIn("libjs-chart.js", self.field("Depends"))
        self.assertRegex(self.field("Recommends"), r"redis-server \(>= .*nginx")

    def test_the_programs_are_stripped_and_say_the_package_s_version(self):
        programs = self.unpack("programs")
        for program in ("usr/sbin/freshetd", "usr/bin/freshetctl"):
            path = os.path.join(programs, program)
            self.assertIn("stripped", run("file", path)[1].replace("not stripped", ""))
            self.assertIn(self.field("Version").split("-")[0], run(path, "--version")[1])

    @unittest.skipUnless(shutil.which("systemd-analyze"), "SKIPPED: systemd-analyze is not installed (package systemd)")
    def test_systemd_takes_the_units_with_the_programs_they_name(self):
        folder = self.unpack("units")
        shutil.copytree("/lib/systemd/system", folder + "/lib/systemd/system", symlinks=True, dirs_exist_ok=True)
        self.unpack("units")  # ours, should the host have some of the same name
        os.makedirs(folder + "/bin")
        shutil.copy("/bin/kill", folder + "/bin/kill")  # ExecReload=
        shutil.copy("/usr/bin/xapian-tcpsrv", folder + "/usr/bin")  # of the package that ours suggests
        _, said = run("systemd-analyze", "verify", "--man=no", "--root=" + folder, *UNITS)
        self.assertEqual([line for line in said.splitlines() if "freshet" in line], [])

    @unittest.skipUnless(throw_away.available(), "SKIPPED: needs root or user namespaces")
    def test_installed_edited_upgraded_removed_and_purged(self):
        wanted = re.findall(r"[a-z][\w.+-]+(?=[ ,|]|$)", re.sub(r"\([^)]*\)", "", self.field("Depends")))
        host = throw_away.Root(os.path.join(self.folder, "host"), wanted)
        for program in ("fcgi/freshetd", "scripts/freshetctl"):
            host.bring_libraries(os.path.join(BUILD, program))
        host.write("tmp/systemctl", "")
        before = host.paths()
        self.dpkg(host, "--install", self.deb)
        self.installed(host)
        host.write("etc/freshet/freshet.toml", "pm.max_children = 3\n")
        for file in ("etc/freshet/conf.d/own.toml", "var/lib/freshet/freshet.db", "var/lib/nginx/freshet_hot/a",
                     "var/log/nginx/freshet-public.log", "var/log/nginx/access.log"):
            host.write(file, "")
        wants = host.path + "/etc/systemd/system/sockets.target.wants"  # `systemctl enable freshet.socket`
        os.makedirs(wants)
        os.symlink("/lib/systemd/system/freshet.socket", wants + "/freshet.socket")
        self.dpkg(host, "--install", self.deb)
        self.assertEqual(host.read("etc/freshet/freshet.toml"), "pm.max_children = 3\n")
        restart = "try-restart freshet.service freshet-train.timer freshet-fill.timer freshet-check.timer freshet-fetch-model.timer"
        self.assertEqual(host.asked_systemctl(), ["daemon-reload", restart])

        self.dpkg(host, "--remove", "freshet")
        stop = "stop freshet-train.timer freshet-fill.timer freshet-check.timer freshet-fetch-model.timer freshet.service freshet.socket freshet-search@*.service"
        self.assertEqual(host.asked_systemctl(), [stop, "daemon-reload"])
        left = host.paths() - before
        self.assertLessEqual(CONFFILES | {"/var/lib/freshet/freshet.db", "/etc/freshet/conf.d/own.toml"}, left)
        self.assertEqual(left & ((FILES | DEBIAN_FILES) - CONFFILES), set())

        self.dpkg(host, "--purge", "freshet")
        files = {path for path in host.paths() - before if not os.path.isdir(host.path + path)}
        accounts = {"/etc/.pwd.lock", "/etc/passwd-", "/etc/group-", "/etc/shadow", "/etc/gshadow"}
        # The administrator's, and nginx's.
        self.assertEqual(files - accounts, {"/etc/freshet/conf.d/own.toml", "/var/log/nginx/access.log"})
        ours = {path for path in host.paths() if "freshet" in path}
        self.assertEqual(ours, {"/etc/freshet", "/etc/freshet/conf.d", "/etc/freshet/conf.d/own.toml"})
        self.assertIn("freshet:", host.read("etc/passwd"))  # as Debian's policy has it: an id is not given to somebody else

    def dpkg(self, host, *arguments):
        status, said = host.dpkg(*arguments)
        self.assertEqual(status, 0, said)
        self.assertNotRegex(said, "(?i)error|not found", said)

    def installed(self, host):
        self.assertRegex(host.read("etc/passwd"), r"(?m)^freshet:.*:/var/lib/freshet:")
        self.assertEqual(os.stat(host.path + "/etc/freshet/secrets").st_mode & 0o777, 0o700)
        self.assertEqual(glob.glob(host.path + "/etc/systemd/system/**/*", recursive=True), [], "something was enabled")
        self.assertEqual(host.asked_systemctl(), ["daemon-reload"], "something was started")
        status, said = host.run("/usr/sbin/freshetd", "-t")
        self.assertEqual(status, 0, said)


if __name__ == "__main__":
    unittest.main()

"""freshetd and freshetctl with wrong settings: no crash, and a message that names the directive or file."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

FRESHETD, FRESHETCTL = sys.argv[1:3]
SECRET = "0123456789abcdef0123456789abcdef"


def environment(**variables):
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("FRESHET_CONF_") and name != "CREDENTIALS_DIRECTORY"}
    return {**inherited, **{"FRESHET_CONF_" + name: value for name, value in variables.items()}}


class Settings(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.config = self.path("freshet.toml")
        self.write("freshet.toml", "")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def run_program(self, *command, **variables):
        done = subprocess.run(command, env=environment(**variables), capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def freshetd(self, *arguments, **variables):
        return self.run_program(FRESHETD, *arguments, "-R", "-y", self.config, **variables)

    def test_a_folder_in_place_of_a_file_is_an_error_with_its_name(self):
        folder = self.path("secret")
        os.mkdir(folder)
        message = f"{folder}: cannot be read: Is a directory"
        for name, value in (("IDENTITY_SALT_FILE", folder), ("REDIS_PASSWORD_FILE", folder), ("REDIS_SENTINEL_PASSWORD_FILE", folder),
                            ("IDENTITY_TOKEN_KEYS", f"k={folder}"), ("IDENTITY_INTERNAL_KEYS", f"k={folder}"), ("CLIENTS_DENY_FILE", folder)):
            for action in ("-t", "-F"):
                with self.subTest(directive=name, action=action):
                    status, output = self.freshetd(action, **{name: value})
                    self.assertEqual(status, 78, output)
                    self.assertIn(message, output)
        status, output = self.freshetd("-t", TUNE_FILE=folder)
        self.assertEqual(status, 0, output)  # a service must start without its tuned file
        self.assertIn(f"{folder} is ignored: {message}", output)

    def test_freshetctl_names_a_folder_in_place_of_a_file(self):
        folder = self.path("secret")
        os.mkdir(folder)
        for arguments, variables in ((("check",), {"REDIS_PASSWORD_FILE": folder}), (("check", "--redis-user", f"x:{folder}"), {}),
                                     (("import", "--job", folder), {})):
            with self.subTest(arguments=arguments):
                status, output = self.run_program(FRESHETCTL, *arguments, "--config", self.config, **variables)
                self.assertNotEqual(status, 0, output)
                self.assertIn(f"{folder}: cannot be read: Is a directory", output)

    def test_freshetctl_reads_the_installed_configuration(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to put a file into /etc, in a mount namespace")
        os.mkdir(self.path("freshet"))
        self.write("freshet/freshet.toml", "no_such_directive = 1\n")
        overlay = ("unshare", "--mount", "--propagation", "private", "sh", "-c", 'mount -t overlay none -o "lowerdir=$0:/etc" /etc && exec "$@"', self.folder)
        if self.run_program(*overlay, "true")[0] != 0:
            self.skipTest("no overlay can be mounted")
        message = '/etc/freshet/freshet.toml:1: unknown directive "no_such_directive"'
        for command in (("backup", self.path("backup")), ("restore", self.path("backup"), "--replace"), ("repartition",), ("check",), ("status",),
                        ("doctor",), ("tune", "--dry-run")):
            for options, is_read in (((), True), (("--config", self.config), False)):
                with self.subTest(command=command, options=options):
                    status, output = self.run_program(*overlay, FRESHETCTL, *command, *options)
                    self.assertNotEqual(status, 0, output)
                    self.assertEqual(message in output, is_read, output)

    def test_a_missing_file_is_an_error_with_directive_file_and_cause(self):
        for line in ('identity.salt_file = "/nope"', 'redis.password_file = "/nope"', 'redis.sentinel_password_file = "/nope"',
                     'identity.internal_keys = { k1 = "/nope" }', 'identity.token_keys = { k1 = "/nope" }',
                     'clients.deny_file = "/nope"', 'clients.allow_file = "/nope"'):
            self.write("freshet.toml", line + "\n")
            directive = line.partition(" ")[0]
            for action in ("-t", "-F"):
                with self.subTest(line=line, action=action):
                    status, output = self.freshetd(action)
                    self.assertEqual(status, 78, output)
                    self.assertIn(f"{directive}: /nope: cannot be read: No such file or directory", output)
        self.write("freshet.toml", 'identity.salt_file = "salt"\nredis.password_file = "/nope"\n')
        status, output = self.freshetd("-t")
        self.assertEqual(status, 78, output)
        hint = "; if a unit's LoadCredential= provides it, only the service can read it, and `systemctl reload freshet` tests the configuration there"
        self.assertIn(f"identity.salt_file: {self.path('salt')}: cannot be read: No such file or directory{hint}\n", output)
        self.assertIn("redis.password_file: /nope: cannot be read: No such file or directory\n", output)

    def test_an_empty_path_that_ends_workers_or_the_recorder_is_an_error(self):
        for directive in ("spool.path", "recorder.database", "search.index"):
            with self.subTest(directive=directive):
                self.write("freshet.toml", f'{directive} = ""\n')
                status, output = self.freshetd("-t")
                self.assertEqual(status, 78, output)
                self.assertIn(f"{directive} must not be empty", output)

    def test_files_that_only_the_tester_may_not_read_are_warnings_and_all_else_is_checked(self):
        user = 65534 if os.geteuid() == 0 else os.geteuid()
        os.chmod(self.folder, 0o755)
        os.mkdir(self.path("secrets"))
        self.write("secrets/salt", SECRET)
        key, deny = self.write("key", SECRET), self.write("deny", "192.0.2.1\n")
        for name in ("secrets", "key", "deny"):
            os.chmod(self.path(name), 0)
        self.addCleanup(os.chmod, self.path("secrets"), 0o700)
        lines = f'identity.salt_file = "salt"\nidentity.internal_keys = {{ k1 = "{key}" }}\nclients.deny_file = "{deny}"\n'

        def check(text):
            self.write("freshet.toml", text)
            done = subprocess.run([program, "-t", "-y", self.config], env=environment(), capture_output=True, text=True, timeout=60, check=False,
                                  user=user, extra_groups=[] if user == 65534 else None)
            return done.returncode, done.stderr

        program = self.path("freshetd")  # the build may be in a folder that the user cannot enter
        shutil.copy(FRESHETD, program)
        status, output = check(lines)
        self.assertEqual(status, 0, output)
        for directive, file in (("identity.salt_file", "secrets/salt"), ("identity.internal_keys", "key"), ("clients.deny_file", "deny")):
            self.assertRegex(output, f"WARNING: .*: {directive}: {self.path(file)}: cannot be read: Permission denied")
        status, output = check(lines + 'redis.url = "redis://h:99999"\n')
        self.assertEqual(status, 78, output)
        self.assertIn("the port must be 1..65535", output)
        status, output = check(lines.replace("{ k1 =", '{ k2 = "/nope", k1 ='))
        self.assertEqual(status, 78, output)
        self.assertIn("identity.internal_keys: /nope: cannot be read: No such file or directory", output)

    def test_credentials_that_systemd_hides_from_a_reload_are_accepted(self):
        self.write("freshet.toml", 'identity.salt_file = "salt"\nredis.password_file = "password"\n')
        status, output = self.run_program("env", f"CREDENTIALS_DIRECTORY={self.path('hidden')}", FRESHETD, "-t", "-y", self.config)
        self.assertEqual(status, 0, output)

    def test_no_message_contains_user_and_password_of_a_url(self):
        urls = ("redis:u:sekret@h:6379", "rediss://u:sekret@h", "redis://u:sekret@h:0", "redis+cluster://u:sekret@h", "sekret@h:1")
        for url in urls:
            self.write("freshet.toml", f'redis.url = "{url}"\n')
            runs = [self.freshetd(action) for action in ("-t", "-tt", "-F")]
            runs.append(self.run_program(FRESHETCTL, "check", "--redis", url))
            self.write("freshet.toml", "")
            runs.append(self.freshetd("-t", REDIS_URL=url))
            self.check_refused(url, runs)
        for url in ("http://u:sekret@h:1", "http:u:sekret@h:1"):
            self.check_refused(url, [self.freshetd("-t", RECOMMEND_MODEL_FROM=url), self.freshetd("-tt", RECOMMEND_MODEL_FROM=url),
                                     self.run_program(FRESHETCTL, "fetch-model", url),
                                     self.run_program(FRESHETCTL, "status", "--base", url)])

    def check_refused(self, url, runs):
        for status, output in runs:
            with self.subTest(url=url, output=output):
                self.assertNotEqual(status, 0)
                self.assertNotIn("sekret", output)

    def test_a_log_that_cannot_be_opened_is_an_error(self):
        os.mkdir(self.path("folder"))
        self.write("file", "")
        for log, cause in (("/proc/x", "No such file or directory"), ("/proc/x/y", "No such file or directory"),
                           (self.path("folder"), "Is a directory"), (self.path("file/log"), "Not a directory")):
            self.write("freshet.toml", f'error_log = "{log}"\n')
            for action in ("-t", "-F"):
                with self.subTest(log=log, action=action):
                    status, output = self.freshetd(action)
                    self.assertEqual(status, 78, output)
                    self.assertIn(f"error_log: {log}: cannot be opened for writing: {cause}", output)

    def test_an_unusable_key_is_an_error_with_directive_and_file(self):
        weak, good = self.write("weak", "short"), self.write("good", SECRET)
        too_short = f"{weak}: a key must have at least 16 bytes"
        for line, message in ((f'identity.salt_file = "{weak}"', f"identity.salt_file: {too_short}"),
                              (f'identity.token_keys = {{ k1 = "{weak}" }}', f"identity.token_keys: {too_short}"),
                              (f'identity.internal_keys = {{ k1 = "{weak}" }}', f"identity.internal_keys: {too_short}"),
                              (f'identity.token_keys = {{ "k 1" = "{good}" }}', "identity.token_keys: the key id \"k 1\" does not match [A-Za-z0-9_-]+"),
                              (f'identity.internal_keys = {{ "k.1" = "{good}" }}', "identity.internal_keys: the key id \"k.1\" does not match"),
                              ('bots.allow = ["("]', "bots.allow: (: missing )"),
                              ('redis.url = "redis://h:99999"', "redis.url: redis://h:99999: the port must be 1..65535")):
            self.write("freshet.toml", line + "\n")
            for action in ("-t", "-F"):
                with self.subTest(line=line, action=action):
                    status, output = self.freshetd(action)
                    self.assertEqual(status, 78, output)
                    self.assertIn(message, output)

    def check_at_start(self, setting, message):
        """Both -t and a start refuse the setting with this message."""
        directive = setting.partition(" ")[0]
        others = {"listen.address": self.path("sock"), "pm.status_listen": "", "pid": "", "spool.path": self.path("spool")}
        self.write("freshet.toml", setting + "\n" + "".join(f'{name} = "{value}"\n' for name, value in others.items() if name != directive))
        for action in ("-t", "-F"):
            with self.subTest(setting=setting, action=action):
                status, output = self.freshetd(action)
                self.assertEqual(status, 78, output)
                self.assertIn(message, output)

    def test_a_socket_or_pid_file_that_cannot_be_created_is_an_error(self):
        os.mkdir(self.path("folder"))
        self.write("file", "")
        absent, folder, below_file = self.path("absent/x"), self.path("folder"), self.path("file/x")
        for directive in ("listen.address", "pm.status_listen"):
            self.check_at_start(f'{directive} = "{absent}"', f"{directive}: cannot bind {absent}: No such file or directory; create its folder")
            self.check_at_start(f'{directive} = "{folder}"', f"{directive}: {folder} exists and is not a socket")
            self.check_at_start(f'{directive} = "{below_file}"', f"{directive}: cannot bind {below_file}: Not a directory")
        # Not a valid name, so no server is asked, which might not be reachable.
        self.check_at_start('listen.address = "-no-host.invalid:9000"', "listen.address: -no-host.invalid:9000: Name or service not known")
        self.check_at_start(f'pid = "{absent}"', f"pid: cannot write {absent}: No such file or directory")
        self.check_at_start(f'pid = "{folder}"', f"pid: cannot write {folder}: Is a directory")
        self.check_at_start(f'pid = "{below_file}"', f"pid: cannot write {below_file}: Not a directory")

    def test_a_missing_folder_in_run_is_no_error(self):
        """systemd, or a container's volume, creates it when the service starts."""
        self.write("freshet.toml", 'listen.address = "/run/freshet-absent/sock"\npm.status_listen = ""\npid = "/run/freshet-absent/pid"\n')
        status, output = self.freshetd("-t")
        self.assertEqual(status, 0, output)
        is_expected = os.path.exists("/run/systemd/system")
        for warning in ("listen.address: cannot bind /run/freshet-absent/sock: No such file or directory; create its folder",
                        "pid: cannot write /run/freshet-absent/pid: No such file or directory"):
            self.assertEqual(f"WARNING: {warning}" in output, not is_expected, output)

    def test_folders_that_only_the_tester_may_not_write_to_are_warnings(self):
        closed = self.path("closed")
        os.mkdir(closed, 0o555)
        os.chmod(self.folder, 0o755)
        self.write("freshet.toml", f'listen.address = "{closed}/sock"\npid = "{closed}/pid"\nslowlog = "{closed}/log"\n')
        program = self.path("freshetd")
        shutil.copy(FRESHETD, program)
        done = subprocess.run([program, "-t", "-y", self.config], env=environment(), capture_output=True, text=True, timeout=60, check=False,
                              **({"user": 65534, "extra_groups": []} if os.geteuid() == 0 else {}))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"WARNING: listen.address: cannot bind {closed}/sock: Permission denied; make its folder writable", done.stderr)
        self.assertIn(f"WARNING: pid: cannot write {closed}/pid: Permission denied", done.stderr)
        self.assertNotIn("slowlog", done.stderr)

    def test_a_chdir_that_the_workers_may_not_enter_ends_the_start(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to start as another user")
        os.chmod(self.folder, 0o777)
        os.mkdir(self.path("closed"), 0o600)
        program = self.path("freshetd")
        shutil.copy(FRESHETD, program)
        self.write("freshet.toml", f'chdir = "{self.path("closed")}"\nlisten.address = "{self.path("sock")}"\npm.status_listen = ""\n'
                   f'spool.path = "{self.path("spool")}"\npid = ""\n')
        message = f"chdir: cannot enter {self.path('closed')}: Permission denied"
        for action, expected, text in (("-t", 0, f"WARNING: {message}\n"), ("-F", 78, message)):
            with self.subTest(action=action):
                done = subprocess.run([program, action, "-y", self.config], env=environment(), capture_output=True, text=True, timeout=60, check=False,
                                      user=65534, group=65534, extra_groups=[])
                self.assertEqual(done.returncode, expected, done.stderr)
                self.assertIn(text, done.stderr)

    def test_a_start_as_root_that_would_be_refused_is_a_warning(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        warning = "WARNING: user: a start as root is refused: workers would run as root; set user to an unprivileged account, or allow root with -R\n"
        for settings, options, is_refused in (("", (), True), ('user = "root"\n', (), True), ('user = "nobody"\n', (), False), ("", ("-R",), False)):
            with self.subTest(settings=settings, options=options):
                self.write("freshet.toml", f'listen.address = "{self.path("sock")}"\npm.status_listen = ""\npid = ""\n{settings}')
                status, output = self.run_program(FRESHETD, "-t", *options, "-y", self.config)
                self.assertEqual(status, 0, output)
                self.assertEqual(warning in output, is_refused and not os.path.exists("/run/systemd/system"), output)
                if is_refused:
                    status, output = self.run_program(FRESHETD, "-F", "-y", self.config)
                    self.assertEqual(status, 78, output)
                    self.assertIn("root_refused", output)

    def test_a_path_that_the_service_can_do_without_is_a_warning(self):
        folder, file = self.path("folder"), self.write("file", "")
        os.mkdir(folder)
        for setting, path, cause in (("slowlog", self.path("absent/x"), "No such file or directory"), ("access.log", folder, "Is a directory"),
                                     ("spool.path", file, "Not a directory"), ("recorder.database", folder, "Is a directory"),
                                     ("recorder.database", f"{file}/x", "Not a directory"), ("search.index", file, "Not a directory")):
            self.write("freshet.toml", f'{setting} = "{path}"\nlisten.address = "{self.path("sock")}"\npm.status_listen = ""\n')
            with self.subTest(setting=setting, path=path):
                status, output = self.freshetd("-t")
                self.assertEqual(status, 0, output)
                self.assertIn(f"WARNING: {setting}: {path}: cannot be written: {cause}", output)

    def test_a_limit_that_cannot_be_raised_ends_the_start(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to start without the right to raise limits")
        os.chmod(self.folder, 0o777)
        program = self.path("freshetd")
        shutil.copy(FRESHETD, program)
        self.write("freshet.toml", f'rlimit_files = 5000\npm.max_in_flight = 100\nlisten.address = "{self.path("sock")}"\npm.status_listen = ""\n')
        message = "rlimit_files: 5000 exceeds this process's limit, 4096: raise that limit (systemd: LimitNOFILE=)"
        for action, expected in (("-t", 0), ("-F", 78)):
            with self.subTest(action=action):
                done = subprocess.run(["prlimit", "--nofile=1024:4096", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all",
                                       program, action, "-y", self.config], env=environment(), capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, expected, done.stderr)
                self.assertIn(message, done.stderr)

    def test_the_check_neither_creates_nor_truncates_the_log(self):
        log, fifo = self.write("log", "a line\n"), self.path("fifo")
        os.mkfifo(fifo)
        before = sorted(os.listdir(self.folder))
        for path in (log, fifo, self.path("new"), self.path("new/folder/log")):
            self.write("freshet.toml", f'error_log = "{path}"\n')
            with self.subTest(path=path):
                status, output = self.freshetd("-t")
                self.assertEqual(status, 0, output)
        self.assertEqual(sorted(os.listdir(self.folder)), before)
        self.assertEqual(self.log(), "a line\n")

    @contextlib.contextmanager
    def running_master(self):
        log = self.path("log")
        self.write("freshet.toml", f'listen.address = "{self.path("sock")}"\npid = "{self.path("pid")}"\nerror_log = "{log}"\n'
                   f'redis.url = "unix://{self.path("redis.sock")}"\npm.status_listen = ""\nrecorder.enabled = false\nspool.path = "{self.path("spool")}"\n'
                   f'identity.salt_file = "{self.path("salt")}"\npm.mode = "static"\npm.max_children = 1\n')
        with subprocess.Popen([FRESHETD, "-F", "-R", "-y", self.config], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as master:
            try:
                self.wait_for_log(master, "master_started")
                yield master
            finally:
                master.terminate()
                master.wait(60)

    def log(self):
        try:
            with open(self.path("log"), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def wait_for_log(self, master, event):
        deadline = time.monotonic() + 60
        while event not in self.log():
            self.assertIsNone(master.poll(), self.log())
            self.assertLess(time.monotonic(), deadline, self.log())
            time.sleep(0.02)

    def test_a_reload_that_finds_a_folder_leaves_the_service_running(self):
        salt = self.write("salt", SECRET)
        with self.running_master() as master:
            os.remove(salt)
            os.mkdir(salt)
            master.send_signal(signal.SIGHUP)
            self.wait_for_log(master, "reload_failed")
            self.assertIn(f"{salt}: cannot be read: Is a directory", self.log())
            os.rmdir(salt)
            self.write("salt", SECRET)
            master.send_signal(signal.SIGHUP)
            self.wait_for_log(master, "reload_started")
        self.assertEqual(master.returncode, 0, self.log())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])

"""scripts/run from a user's view: it starts what it prints, stops what it started, and explains failures."""

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN = os.path.join(ROOT, "scripts/run")
BUILD = os.environ.get("FRESHET_BUILD_DIR", os.path.join(ROOT, "build/release"))
DAEMON, CTL = os.path.join(BUILD, "fcgi/freshetd"), os.path.join(BUILD, "scripts/freshetctl")
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import loopback  # noqa: E402
from waiting import wait_until  # noqa: E402


def run(*arguments):
    done = subprocess.run([RUN, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=480)
    return done.returncode, done.stdout + done.stderr


def fetch(request):
    """Returns the reply; repeats a 503, which a starved worker of a busy machine may send."""
    for left in range(20, -1, -1):
        try:
            return urllib.request.urlopen(request, timeout=120)
        except urllib.error.HTTPError as error:
            if error.code != 503 or left == 0:
                raise
        time.sleep(0.5)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Run(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="freshet-run-", dir="/tmp")
        os.chmod(self.directory, 0o755)
        self.state = os.path.join(self.directory, "state")
        self.loopback = loopback.Loopback()
        self.host, self.port, self.internal_port = self.loopback.host, loopback.PUBLIC, loopback.INTERNAL

    def tearDown(self):
        run("--stop", "--state", self.state)
        shutil.rmtree(self.directory)
        self.loopback.close()

    def arguments(self):
        return ["--no-sample", "--state", self.state, "--address", self.host, "--port", self.port, "--internal-port", self.internal_port]

    def processes(self):
        """name → pid, from the state directory."""
        with open(os.path.join(self.state, "run/processes"), encoding="utf-8") as file:
            return {line.split()[0]: int(line.split()[1]) for line in file}

    def get(self, path, internal=False):
        with fetch(f"http://{self.host}:{self.internal_port if internal else self.port}{path}") as reply:
            return reply.status, reply.read().decode()

    def status_on(self, host, path):
        try:
            return fetch(f"http://{host}:{self.internal_port}{path}").status
        except urllib.error.HTTPError as error:
            return error.code

    def test_a_detached_instance_serves_until_stopped_and_can_be_restarted(self):
        for _ in range(2):
            status, output = run("--detach", *self.arguments())
            self.assertEqual(status, 0, output)
            self.assertIn(f"http://{self.host}:{self.port}/", output)
            pids = self.processes()
            self.assertEqual(set(pids), {"redis", "freshetd", "nginx", "outage"})
            self.assertIn("Hot now", self.get("/")[1])
            self.assertEqual(self.get("/ping", internal=True)[0], 200)
            for name in ("freshetd.sock", "redis.sock"):
                self.assertTrue(os.path.exists(os.path.join(self.state, "run", name)), name)
            other = loopback.Loopback()
            again, why = run("--detach", "--no-sample", "--state", self.state, "--address", other.host, "--port", self.port)
            other.close()
            self.assertNotEqual(again, 0)
            self.assertIn("already running", why)
            self.assertTrue(all(alive(pid) for pid in pids.values()))
            self.assertEqual(run("--stop", "--state", self.state)[0], 0)
            self.assertFalse(any(alive(pid) for pid in pids.values()))
            self.assertFalse(os.path.exists(os.path.join(self.state, "run/redis.sock")))

    def test_its_files_are_not_accessible_to_other_users(self):
        before = os.umask(0)  # the worst case of a caller
        try:
            status, output = run("--detach", *self.arguments())
        finally:
            os.umask(before)
        self.assertEqual(status, 0, output)
        self.assertEqual(self.get("/ping", internal=True)[0], 200)
        open_to_all = []
        for folder, folders, files in os.walk(self.state):
            for name in folders + files:
                status = os.lstat(os.path.join(folder, name))
                if not stat.S_ISLNK(status.st_mode) and status.st_mode & 0o007:
                    open_to_all.append((os.path.join(folder, name), oct(status.st_mode)))
        self.assertEqual(open_to_all, [])

    def test_the_printed_example_pushes_one_new_item(self):
        status, output = run("--detach", *self.arguments())
        self.assertEqual(status, 0, output)
        tried = next(line.partition("curl ")[2] for line in output.splitlines() if line.strip().startswith('"1 new"'))
        waiting = "/api/waterfall/discover?customerId=me&direction=down&score=0&limit=1"
        self.assertIn(f"http://{self.host}:{self.port}/waterfall.html?user=me", output)
        self.assertIn("No new articles", self.get("/waterfall.html?user=me")[1])
        self.assertEqual(json.loads(self.get(waiting)[1])["items"], [])
        done = subprocess.run(["bash", "-c", "curl -sS --retry 5 " + tried], capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.stdout, '{"pushed":1,"duplicates":0}', done.stderr)
        page = json.loads(self.get(waiting)[1])
        self.assertEqual(([item["id"] for item in page["items"]], page["newer"]), (["demo"], 0))

    def test_only_pages_of_the_given_origin_may_call_the_api(self):
        status, output = run("--detach", *self.arguments(), "--origin", "http://localhost:3000")
        self.assertEqual(status, 0, output)
        for origin, allowed in (("http://localhost:3000", "http://localhost:3000"), ("http://localhost:3001", None)):
            asked = urllib.request.Request(f"http://{self.host}:{self.port}/api/recommendations", headers={"Origin": origin})
            with fetch(asked) as reply:
                self.assertEqual(reply.headers.get("Access-Control-Allow-Origin"), allowed)
        report = urllib.request.Request(f"http://{self.host}:{self.port}/api/track", data=b'{"articleId":"new","dwellMs":5000}',
                                        headers={"Origin": "http://localhost:3000", "Content-Type": "application/json", "User-Agent": "Mozilla/5.0 Firefox/120.0"})
        self.assertEqual(fetch(report).status, 200)
        wait_until(lambda: '"new"' in self.get("/api/hot?model=engagement")[1], "the reported article in the list")

    def settings(self):
        done = subprocess.run([DAEMON, "-tt", "-R", "-y", os.path.join(self.state, "etc/freshet.toml")], capture_output=True, text=True, check=True)
        return (done.stdout + done.stderr).replace('"', "")

    def test_directives_are_set_for_this_start_and_later_ones(self):
        def start(*more):
            result = run("--detach", *self.arguments(), *more)
            if result[0] == 0:
                run("--stop", "--state", self.state)
            return result

        # A wrong --set changes nothing.
        for wrong, why in (("hot.half_live=1h", "no directive hot.half_live"), ("hot.half_life", "expected DIRECTIVE=VALUE"), ("hot.half_life=soon", "hot.half_life")):
            status, output = start("--set", wrong)
            self.assertEqual(status, 1, wrong)
            self.assertIn(why, output)
        status, output = start("--set", "hot.half_life=90m", "--set", "pm.max_children=3", "--set", 'bots.allow=["^curl/"]', "--set", "items.unknown=list")
        self.assertEqual(status, 0, output)
        for more in ((), ("--set", "pm.max_children=4", "--set", "items.unknown=")):
            status, output = start(*more)
            self.assertEqual(status, 0, output)
            settings = self.settings()
            self.assertRegex(settings, r"hot\.half_life = 90m  #")
            self.assertRegex(settings, r"bots\.allow = \[\^curl/\]")
            self.assertRegex(settings, rf"pm\.max_children = {4 if more else 3}\b")
            self.assertEqual("items.unknown = list" in settings, not more)

    def test_no_limits_lifts_the_quotas_of_networks(self):
        status, output = run("--detach", "--no-limits", *self.arguments())
        self.assertEqual(status, 0, output)
        for directive in ("pv_per_network", "network_factor"):
            self.assertRegex(self.settings(), rf"limits\.{directive} = 0\b")

    def copy_sample(self):
        """Copies scripts/sample/play and a fifth of the sample, with its first and last questions. Returns the copy of play."""
        scripts = os.path.join(self.directory, "scripts")
        os.makedirs(os.path.join(scripts, "sample"))
        for name in ("lib.sh", "sample/play"):
            shutil.copy(os.path.join(ROOT, "scripts", name), os.path.join(scripts, name))
        kept = None
        for name, key in (("items", "id"), ("events", "item")):
            with open(os.path.join(ROOT, f"scripts/sample/{name}.ndjson"), encoding="utf-8") as file:
                lines = [(json.loads(line)[key], line) for line in file]
            kept = kept or {item for item, _ in lines[:10] + lines[-110:]}
            with open(os.path.join(scripts, f"sample/{name}.ndjson"), "w", encoding="utf-8") as file:
                file.writelines(line for item, line in lines if item in kept)
        return os.path.join(scripts, "sample/play")

    def test_the_sample_repeats_with_new_dates_and_readers(self):
        status, output = run("--detach", *self.arguments())
        self.assertEqual(status, 0, output)
        command = ["env", f"FRESHET_BUILD_DIR={BUILD}", self.copy_sample(), "1", f"http://{self.host}:{self.internal_port}", self.state, "1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        hot = "/api/hot?model=engagement&limit=100"
        wait_until(lambda: len(json.loads(self.get(hot)[1])) == 100, "a full list")
        before = {item["id"] for item in json.loads(self.get(hot)[1])}
        self.assertFalse([each for each in before if "-" in each])
        counted_twice = json.loads(self.get("/status?json", internal=True)[1])["views of tracked articles"]
        self.assertEqual(counted_twice, 0)  # otherwise doctor warns
        follow = urllib.request.Request(f"http://{self.host}:{self.internal_port}/api/follows", method="PUT",
                                        data=b'{"follower": "fan", "author": "ahelwer"}', headers={"Content-Type": "application/json"})
        self.assertEqual(fetch(follow).status, 200)
        wait_until(lambda: '"4129"' in self.get("/api/waterfall/follow?customerId=fan")[1], "what the author wrote")
        command[3] = "2"
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as play:
            try:
                wait_until(lambda: "1-2" in self.get(hot)[1], "the first question of the second round")
                wait_until(lambda: self.status_of_item("1") == 404, "the first round's to be deleted")
                self.assertEqual((self.status_of_item("1-2"), self.status_of_item("4129")), (200, 200))
                with open(f"/proc/{play.pid}/task/{play.pid}/children", encoding="ascii") as file:
                    children = [int(each) for each in file.read().split()]
                self.assertTrue(children)
            finally:
                play.terminate()
        wait_until(lambda: not any(map(alive, children)), "what it started to end")
        # As if started again in the same state: the sample begins again, and nothing of the earlier one is left.
        command[3] = "1"
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        wait_until(lambda: {each["id"].rpartition("-")[2] for each in json.loads(self.get(hot)[1])} == {"3"}, "only the third round's questions")
        self.assertEqual([self.status_of_item(each) for each in ("1-2", "4129", "4129-3")], [404, 404, 200])
        page = json.loads(self.get("/api/waterfall/discover?customerId=me&direction=down&score=0&limit=50")[1])
        self.assertEqual({each["id"].rpartition("-")[2] for each in page["items"]}, {"3"})

    def status_of_item(self, item):
        """200 or 404; repeats a 503, which a busy machine may cause when Redis exceeds its default deadline."""
        status = []
        wait_until(lambda: status.append(self.status_on(self.host, f"/api/items/{item}")) or status[-1] != 503, "Redis")
        return status[-1]

    def test_ctrl_c_stops_exactly_the_started_processes(self):
        with subprocess.Popen(["sleep", "300"]) as bystander:
            with subprocess.Popen([RUN, *map(str, self.arguments())], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  start_new_session=True) as script:
                for line in script.stdout:
                    if "Ctrl-C" in line:
                        break
                pids = self.processes()
                os.killpg(script.pid, signal.SIGINT)
                self.assertEqual(script.wait(30), 0)
            self.assertFalse(any(alive(pid) for pid in pids.values()))
            self.assertIsNone(bystander.poll())
            bystander.kill()

    def test_it_exits_with_the_reason_when_a_server_dies(self):
        with subprocess.Popen([RUN, *map(str, self.arguments())], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as script:
            for line in script.stdout:
                if "Ctrl-C" in line:
                    break
            pids = self.processes()
            os.kill(pids["redis"], signal.SIGKILL)
            self.assertIn("redis exited", script.stdout.read())
            self.assertEqual(script.wait(30), 1)
        self.assertFalse(any(alive(pid) for pid in pids.values()))

    def test_a_port_in_use_is_reported_and_nothing_is_left_behind(self):
        with socket.socket() as taken:
            taken.bind((self.host, self.port))
            taken.listen()
            status, output = run("--detach", *self.arguments())
        self.assertEqual(status, 1)
        self.assertIn(f"port {self.port} is in use", output)
        self.assertFalse(os.path.exists(self.state))

    def test_two_instances_use_the_same_ports_on_different_addresses(self):
        other, state = loopback.Loopback(), os.path.join(self.directory, "other")
        try:
            for host, each in ((self.host, self.state), (other.host, state)):
                status, output = run("--detach", "--no-sample", "--state", each, "--address", host, "--port", self.port,
                                   "--internal-port", self.internal_port)
                self.assertEqual(status, 0, output)
            items = os.path.join(self.directory, "items")
            with open(items, "w", encoding="utf-8") as file:
                file.write('{"id":"there","title":"there","published_at":1}')
            subprocess.run([CTL, "import", "--state", state, items], check=True, capture_output=True, timeout=480)
            self.assertEqual(self.status_on(other.host, "/api/items/there"), 200)
            self.assertEqual(self.status_on(self.host, "/api/items/there"), 404)
        finally:
            run("--stop", "--state", state)
            other.close()

    def test_a_path_too_long_for_a_socket_is_reported(self):
        status, output = run("--detach", "--state", os.path.join(self.directory, "x" * 90))
        self.assertEqual(status, 1)
        self.assertIn("--state", output)

    def test_a_reused_pid_is_not_signaled(self):
        os.makedirs(os.path.join(self.state, "run"))
        with subprocess.Popen(["sleep", "300"]) as other:
            with open(os.path.join(self.state, "run/processes"), "w", encoding="utf-8") as file:
                file.write(f"nginx {other.pid} 1 QUIT\n")
            self.assertEqual(run("--stop", "--state", self.state)[0], 0)
            self.assertIsNone(other.poll())
            other.kill()

    def test_invalid_arguments_are_rejected(self):
        for wrong in (["--port", "0"], ["--port", "70000"], ["--port"], ["--port", "9", "--internal-port", "9"], ["--wrong"], ["--address", "192.0.2.1"], ["--origin", "localhost:3000"], ["--set", "hot.nothing=1"], ["--set"],
                      ["--address", "127.1"], ["--address", "0.0.0.0"]):
            self.assertNotEqual(run("--state", self.state, *wrong)[0], 0, wrong)
        self.assertFalse(os.path.exists(self.state))


if __name__ == "__main__":
    unittest.main()

"""scripts/run as a person uses it: it starts what it says, stops what it started, and says clearly why it cannot."""

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUN = os.path.join(ROOT, "scripts/run")


def two_free_ports():
    with socket.socket() as one, socket.socket() as other:
        for probe in (one, other):
            probe.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def wait_until(condition, what, limit_s=30):
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit_s} s in vain for {what}")
        time.sleep(0.05)


def run(*arguments):
    done = subprocess.run([RUN, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout + done.stderr


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
        self.port, self.internal_port = two_free_ports()

    def tearDown(self):
        run("--stop", "--state", self.state)
        shutil.rmtree(self.directory)

    def arguments(self):
        return ["--no-sample", "--state", self.state, "--port", self.port, "--internal-port", self.internal_port]

    def processes(self):
        """name → pid, as recorded in the state directory."""
        with open(os.path.join(self.state, "run/processes"), encoding="utf-8") as file:
            return {line.split()[0]: int(line.split()[1]) for line in file}

    def get(self, path, internal=False):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.internal_port if internal else self.port}{path}", timeout=5) as reply:
            return reply.status, reply.read().decode()

    def test_detached_it_serves_until_it_is_stopped_and_can_start_again(self):
        for _ in range(2):
            status, said = run("--detach", *self.arguments())
            self.assertEqual(status, 0, said)
            self.assertIn(f"http://127.0.0.1:{self.port}/", said)
            pids = self.processes()
            self.assertEqual(set(pids), {"redis", "freshetd", "nginx"})
            self.assertIn("Hot now", self.get("/")[1])
            self.assertEqual(self.get("/ping", internal=True)[0], 200)
            for name in ("freshetd.sock", "redis.sock"):
                self.assertTrue(os.path.exists(os.path.join(self.state, "run", name)), name)
            port, internal_port = two_free_ports()
            again, why = run("--detach", "--no-sample", "--state", self.state, "--port", port, "--internal-port", internal_port)
            self.assertNotEqual(again, 0)
            self.assertIn("already running", why)
            self.assertTrue(all(alive(pid) for pid in pids.values()))
            self.assertEqual(run("--stop", "--state", self.state)[0], 0)
            self.assertFalse(any(alive(pid) for pid in pids.values()))
            self.assertFalse(os.path.exists(os.path.join(self.state, "run/redis.sock")))

    def test_what_it_says_to_try_puts_one_new_item_on_the_channels_page(self):
        status, said = run("--detach", *self.arguments())
        self.assertEqual(status, 0, said)
        tried = next(line.partition("curl ")[2] for line in said.splitlines() if line.strip().startswith('"1 new"'))
        waiting = "/api/waterfall/discover?customerId=me&direction=down&score=0&limit=1"
        self.assertIn(f"http://127.0.0.1:{self.port}/waterfall.html?user=me", said)
        self.assertIn("Nothing new", self.get("/waterfall.html?user=me")[1])
        self.assertEqual(json.loads(self.get(waiting)[1])["items"], [])
        done = subprocess.run(["bash", "-c", "curl -sS --retry 5 " + tried], capture_output=True, text=True, check=False, timeout=30)
        self.assertEqual(done.stdout, '{"pushed":1,"duplicates":0}', done.stderr)
        page = json.loads(self.get(waiting)[1])
        self.assertEqual(([item["id"] for item in page["items"]], page["newer"]), (["demo"], 0))

    def test_ctrl_c_stops_what_it_started_and_nothing_else(self):
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

    def test_it_ends_and_says_why_when_a_server_dies(self):
        with subprocess.Popen([RUN, *map(str, self.arguments())], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as script:
            for line in script.stdout:
                if "Ctrl-C" in line:
                    break
            pids = self.processes()
            os.kill(pids["redis"], signal.SIGKILL)
            self.assertIn("redis ended", script.stdout.read())
            self.assertEqual(script.wait(30), 1)
        self.assertFalse(any(alive(pid) for pid in pids.values()))

    def test_a_port_in_use_is_said_and_nothing_is_left_behind(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", self.port))
            taken.listen()
            status, said = run("--detach", *self.arguments())
        self.assertEqual(status, 1)
        self.assertIn(f"port {self.port} is in use", said)
        self.assertFalse(os.path.exists(self.state))

    def test_a_path_too_long_for_a_socket_is_said(self):
        status, said = run("--detach", "--state", os.path.join(self.directory, "x" * 90))
        self.assertEqual(status, 1)
        self.assertIn("--state", said)

    def test_a_recorded_pid_that_belongs_to_another_process_now_is_left_alone(self):
        os.makedirs(os.path.join(self.state, "run"))
        with subprocess.Popen(["sleep", "300"]) as other:
            with open(os.path.join(self.state, "run/processes"), "w", encoding="utf-8") as file:
                file.write(f"nginx {other.pid} 1 QUIT\n")
            self.assertEqual(run("--stop", "--state", self.state)[0], 0)
            self.assertIsNone(other.poll())
            other.kill()

    def test_wrong_arguments_are_refused(self):
        for wrong in (["--port", "0"], ["--port", "70000"], ["--port"], ["--port", "9", "--internal-port", "9"], ["--wrong"]):
            self.assertNotEqual(run("--state", self.state, *wrong)[0], 0, wrong)
        self.assertFalse(os.path.exists(self.state))


if __name__ == "__main__":
    unittest.main()

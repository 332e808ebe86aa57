"""tests/support/contained.py: no test leaves a process behind, even if ctest is killed."""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("FRESHET_BUILD_DIR", os.path.join(ROOT, "build/release"))
CONTAINED = os.path.join(ROOT, "tests/support/contained.py")
PR_SET_CHILD_SUBREAPER = 36
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import waiting  # noqa: E402
from listed_tests import listed_tests  # noqa: E402


def tests():
    return listed_tests(BUILD, "-C", "long")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def descendants(pid):
    """{pid: name} of all living descendants."""
    out = {}
    try:
        children = "".join(read(f"/proc/{pid}/task/{thread}/children") for thread in os.listdir(f"/proc/{pid}/task"))
        for child in map(int, children.split()):
            name, state = read(f"/proc/{child}/stat").split("(", 1)[1].rsplit(")", 1)
            if state.split()[0] not in "ZX":
                out[child] = name
            out |= descendants(child)
    except (FileNotFoundError, ProcessLookupError):  # it has exited
        pass
    return out


def wait_until(condition, what):
    try:
        waiting.wait_until(condition, what)
    except AssertionError as error:
        raise AssertionError(f"{error}; processes: {descendants(os.getpid())}") from None


class Contained(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Adopts what escapes from ctest, so that descendants() finds it.
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def tearDown(self):
        for pid in descendants(os.getpid()):
            os.kill(pid, signal.SIGKILL)

    def assert_nothing_remains(self):
        wait_until(lambda: not descendants(os.getpid()), "all processes to end")

    def test_every_test_is_contained(self):
        outside = [name for name, command in tests().items() if CONTAINED not in command]
        self.assertEqual(outside, [])

    def test_a_killed_ctest_leaves_no_processes_behind(self):
        commands = tests()
        prefix = commands["test_recorder_kills"][:-1]
        # The servers of another Debian are started by its dynamic linker.
        redis = "ld-linux-x86-64" if "FRESHET_REDIS_SERVER" in os.environ else "redis-server"
        for command, programs in ((commands["test_recorder_kills"], {redis}), (commands["e2e_workers"], {redis, "nginx", "freshetd"}),
                                  ([*prefix, "bash", "-c", "setsid --fork sleep 1000; sleep 1000"], {"sleep"})):
            with self.subTest(command), tempfile.TemporaryDirectory() as directory:
                # A list of tests of its own: two runs of ctest in one tree would write the same log.
                with open(os.path.join(directory, "CTestTestfile.cmake"), "w", encoding="utf-8") as file:
                    file.write(f"add_test(one {' '.join(f'[=[{word}]=]' for word in command)})\n")
                run = subprocess.Popen(["ctest", "--test-dir", directory], stdout=subprocess.DEVNULL)
                wait_until(lambda wanted=programs: wanted <= set(descendants(os.getpid()).values()), f"{programs}")
                run.kill()
                run.wait()
                self.assert_nothing_remains()

    def test_daemons_end_with_their_test_and_its_status_is_passed_on(self):
        daemon = "setsid sleep 1000 >/dev/null 2>&1 &"
        for end, status in (("exit 77", 77), ("kill -SEGV $$", -signal.SIGSEGV)):
            done = subprocess.run([sys.executable, "-IS", CONTAINED, "bash", "-c", f"{daemon} {end}"], check=False)
            self.assertEqual(done.returncode, status)
            self.assert_nothing_remains()

    def test_a_terminated_test_ends_with_its_descendants(self):
        run = subprocess.Popen([sys.executable, "-IS", CONTAINED, "bash", "-c", "trap '' TERM; setsid sleep 1000 & setsid sleep 1001 & wait"])
        wait_until(lambda: list(descendants(run.pid).values()).count("sleep") == 2, "the daemons")
        run.terminate()
        self.assertEqual(run.wait(), -signal.SIGTERM)
        self.assert_nothing_remains()

    def test_a_test_that_would_end_after_the_deadline_is_skipped(self):
        for seconds, status in ((60, 77), (5, 0)):
            environment = dict(os.environ, FRESHET_TEST_SECONDS=str(seconds), FRESHET_TEST_DEADLINE=str(time.time() + 30))
            done = subprocess.run([sys.executable, "-IS", CONTAINED, "true"], env=environment, stdout=subprocess.DEVNULL, check=False)
            self.assertEqual(done.returncode, status)

    def test_the_test_does_not_inherit_its_own_duration(self):
        """It may run ctest, whose tests would be skipped."""
        environment = dict(os.environ, FRESHET_TEST_SECONDS="1", FRESHET_TEST_DEADLINE=str(time.time() + 3600))
        done = subprocess.run([sys.executable, "-IS", CONTAINED, "sh", "-c", 'test -z "${FRESHET_TEST_SECONDS-}"'], env=environment, check=False)
        self.assertEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main()

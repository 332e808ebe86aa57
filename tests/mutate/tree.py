"""A copy of the checkout with its own build tree, and processes that run in it and never outlive the caller."""

import contextlib
import ctypes
import hashlib
import json
import os
import shutil
import signal
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG = 36, 1


class Timeout(Exception):
    pass


def sources(root):
    """{path relative to root: absolute path} of every file that git tracks or would add."""
    listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=root, capture_output=True, check=True).stdout
    return {path: os.path.join(root, path) for path in sorted(set(listed.decode().split("\0")) - {""}) if os.path.isfile(os.path.join(root, path))}


def adopt_orphans():
    """Makes orphaned descendants children of this process, so that end_children() finds them."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def _children():
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]


def end_children():
    """Kills all descendants of this process."""
    while pids := _children():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, 0)


class Tree:
    """Creates `directory` or updates it, reusing what was built there before."""

    def __init__(self, directory, checkout):
        self.root = os.path.join(directory, "tree")
        self.build = os.path.join(self.root, "build/release")
        self.log = os.path.join(directory, "log")
        os.makedirs(self.root, exist_ok=True)
        os.makedirs(self.log, exist_ok=True)
        self.environment = {"FRESHET_SHARED": os.path.join(os.path.dirname(checkout), "shared"), **os.environ,
                            "FRESHET_BUILD_DIR": self.build}
        self.fingerprint = self._copy(checkout)
        modules, link = (os.path.join(root, "tests/browser/node_modules") for root in (checkout, self.root))
        if os.path.isdir(modules) and not os.path.islink(link):
            os.symlink(modules, link)

    def _copy(self, checkout):
        wanted, digest = sources(checkout), hashlib.sha256()
        for path, source in wanted.items():
            with open(source, "rb") as file:
                content = file.read()
            digest.update(path.encode() + b"\0" + hashlib.sha256(content).digest())
            target = os.path.join(self.root, path)
            with contextlib.suppress(FileNotFoundError), open(target, "rb") as file:
                if file.read() == content:
                    continue
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(source, target)
        for folder, folders, files in os.walk(self.root):
            if folder == self.root:
                folders[:] = [each for each in folders if each != "build"]
            for name in files:
                path = os.path.relpath(os.path.join(folder, name), self.root)
                if path not in wanted:
                    os.unlink(os.path.join(self.root, path))
        return digest.hexdigest()

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def write(self, path, text):
        if path.endswith(".py"):  # Python recognizes an outdated file by the second of its time and by its size
            shutil.rmtree(os.path.join(self.build, "pycache"), ignore_errors=True)
        with open(os.path.join(self.root, path), "w", encoding="utf-8") as file:
            file.write(text)

    def delete_log(self, log):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.log, log))

    def run(self, log, limit_s, *command):
        """The command's exit status; its output is appended to the log. Raises Timeout after `limit_s`. Leaves no process
        behind.
        """
        with open(os.path.join(self.log, log), "a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(command)}\n")
            file.flush()
            process = subprocess.Popen(command, cwd=self.root, env=self.environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                       start_new_session=True, preexec_fn=_die_with_parent)
            try:
                return process.wait(limit_s)
            except subprocess.TimeoutExpired:
                raise Timeout from None
            finally:
                process.kill()
                process.wait()
                end_children()

    def configure(self, limit_s):
        return self.run("configure", limit_s, "cmake", "--preset", "release", "-DBUILD_TESTING=ON") == 0

    def tests(self, select):
        """{name: targets to build for it} of the tests that ctest selects."""
        listing = subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1", *select], cwd=self.root, capture_output=True, text=True,
                              check=True).stdout
        programs = subprocess.run(["ninja", "-C", self.build, "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout
        programs = {line.partition(":")[0] for line in programs.splitlines() if line.endswith(": phony")}
        out = {}
        for test in json.loads(listing)["tests"]:
            labels = next((each["value"] for each in test.get("properties", ()) if each["name"] == "LABELS"), [])
            if test["name"] in programs:
                out[test["name"]] = [test["name"]]
            elif test["name"] in ("test_package", "test_install", "test_documents"):
                out[test["name"]] = ["all"]
            else:
                self_contained = "unit" in labels or test["name"].startswith("test_nginx_")
                out[test["name"]] = [] if self_contained else ["freshetd", "freshetctl"]
        return out

    def compile(self, log, limit_s, targets):
        return self.run(log, limit_s, "cmake", "--build", self.build, "-j", str(os.cpu_count()), "--target", *sorted(set(targets))) == 0

    def test(self, log, limit_s, select):
        """Names of tests that failed twice; one is enough. `select`: ctest options."""
        failed = os.path.join(self.build, "Testing/Temporary/LastTestsFailed.log")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(failed)
        if self.run(log, limit_s, "ctest", "--test-dir", self.build, "--output-on-failure", "--stop-on-failure", "--no-tests=error",
                    "--repeat", "until-pass:2", "-j", str(os.cpu_count()), *select) == 0:
            return []
        try:
            with open(failed, encoding="utf-8") as file:
                return [line.strip().partition(":")[2] for line in file]
        except FileNotFoundError:
            return ["ctest"]

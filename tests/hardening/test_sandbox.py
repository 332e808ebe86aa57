"""The service works in the sandbox of freshet.service: seccomp filters, namespaces, no capabilities, a read-only file
system.
"""

import http.server
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading

import pytest
import unit
from sandboxed import HERE, REDIS_SERVER, SALT, SandboxedService, as_service_user, birth, loopback, now, wait_until

for tool in ("bwrap", "systemd-analyze", "setpriv", REDIS_SERVER):
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not installed (./scripts/deps test)", allow_module_level=True)

# Every route of the interface once, ordered so that each finds the data it needs.
REQUESTS = [
    ("PUT", "/api/items/a", {"title": "about a", "published_at": 1, "tags": ["t"], "author": "ann", "text": "words of a"}),
    ("PUT", "/api/items/b", {"title": "about b", "published_at": 2, "tags": ["t"], "author": "ann", "text": "words of b"}),
    ("POST", "/api/items", b'{"id":"c","title":"about c","published_at":3}\n{"id":"d","title":"about d","published_at":4}\n'),
    ("GET", "/api/items/a", None),
    ("POST", "/api/track", {"articleId": "a", "dwellMs": 1000, "userId": "r", "sessionId": "s"}),
    ("POST", "/api/views", {"articleId": "a", "fingerprint": "f", "publishedAt": 1}),
    ("GET", "/api/track.gif?articleId=a", None),
    ("POST", "/api/visitor", {}),
    ("GET", "/api/visitor/export", None),
    ("DELETE", "/api/visitor", None),
    ("GET", "/api/hot?limit=10", None),
    ("GET", "/api/hot/preview?model=engagement", None),
    ("GET", "/api/articles/a/stats", None),
    ("GET", "/api/stats?ids=a,b", None),
    ("POST", "/api/feed", {"action": "refresh", "limit": 2, "agent_id": "r"}),
    ("POST", "/api/history", {"userId": "r", "topicId": "a", "kind": "topic"}),
    ("GET", "/api/history?userId=r", None),
    ("POST", "/api/history/merge", {"from": "q", "to": "r"}),
    ("POST", "/api/interactions", {"userId": "r", "topicId": "a", "kind": "like", "eventId": "e"}),
    ("POST", "/api/feedback", {"userId": "r", "topicId": "b", "kind": "not_interested"}),
    ("DELETE", "/api/feedback?userId=r&topicId=b", None),
    ("GET", "/api/recommendations?userId=r&limit=2", None),
    ("GET", "/api/items/a/similar", None),
    ("PUT", "/api/follows", {"follower": "r", "author": "ann"}),
    ("GET", "/api/follows?follower=r", None),
    ("POST", "/api/waterfall/discover", {"items": ["a", "b"], "customers": ["r"]}),
    ("GET", "/api/waterfall/discover?customerId=r", None),
    ("DELETE", "/api/waterfall/discover/a?customerId=r", None),
    ("DELETE", "/api/follows?follower=r&author=ann", None),
    ("DELETE", "/api/history?userId=r", None),
    ("GET", "/api/users/r", None),
    ("DELETE", "/api/users/r", None),
    ("GET", "/api/jobs/JOB", None),
    ("DELETE", "/api/items/d", None),
    ("GET", "/api/model", None),
    ("GET", "/api/whoami", None),
    ("GET", "/health/live", None),
    ("GET", "/health/ready", None),
    ("GET", "/ping", None),
    ("GET", "/status", None),
    ("GET", "/metrics", None),
]


# Without a visitor cookie these are errors.
NEED_COOKIE = {("GET", "/api/visitor/export"), ("DELETE", "/api/visitor")}


def request_every_route(service):
    """Requests every route. Returns the requests that failed."""
    failed, job = [], None
    for method, uri, body in REQUESTS:
        status, reply = service.request(method, uri.replace("JOB", str(job)), body)
        expected = range(400, 401) if (method, uri) in NEED_COOKIE else range(200, 300)
        if status not in expected:
            failed.append((method, uri, status, reply))
        if isinstance(reply, dict):
            job = reply.get("job", job)
    return failed


@pytest.fixture
def service():
    """service(…) starts a service. All are stopped after the test and must exit with 0."""
    running = []

    def start(**options):
        running.append(SandboxedService(**options))
        return running[-1].start()

    yield start
    for each in running:
        assert each.stop() in (0, None)


def titles(service):
    connection = sqlite3.connect(f"file:{service.path_of('lib/freshet.db')}?mode=ro", uri=True)
    try:
        return dict(connection.execute("SELECT id, title FROM items"))
    except sqlite3.Error:
        return {}
    finally:
        connection.close()


def exercise(service):
    """Exercises the service: every route, a reload and a crash under load, Redis unavailable, rotated logs. All writes
    must be recorded.
    """
    failed = request_every_route(service)
    assert not failed, failed
    wait_until(lambda: set(titles(service)) == {"a", "b", "c"}, "the recorder to commit", 60)

    # The publisher makes an unnamed copy next to the file, and reports that it is not a model.
    with open(service.path_of("lib/freshet.model"), "wb") as file:
        file.write(b"no model" * 1000)
    wait_until(lambda: "reason=model_corrupt" in service.log(), "the model file to be copied", 60)

    errors, stop, done = [], threading.Event(), []

    def load(number):
        while not stop.is_set():
            for method, uri, body in (("GET", "/api/hot", None), ("POST", "/api/track", {"articleId": "a", "dwellMs": 5, "userId": f"u{number}"}),
                                      ("POST", "/api/feed", {"action": "refresh", "limit": 2, "agent_id": f"u{number}"})):
                try:
                    status, reply = service.request(method, uri, body)
                    done.append(status)
                    if status >= 500:
                        errors.append((uri, status, reply))
                except (OSError, AssertionError) as error:
                    errors.append((uri, repr(error)))

    threads = [threading.Thread(target=load, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    try:
        before = set(service.workers())
        os.kill(service.master(), signal.SIGHUP)
        wait_until(lambda: service.workers() and not before & set(service.workers()), "a new generation", 60)
        assert any(line.startswith("RELOADING=1") for line in service.notify.lines)
        os.rename(service.path_of("log/error.log"), service.path_of("log/error.log.1"))
        os.kill(service.master(), signal.SIGUSR1)
        wait_until(lambda: os.path.exists(service.path_of("log/error.log")), "the reopened log", 30)
        seen = len(done)
        wait_until(lambda: len(done) > seen + 20, "more requests under load", 60)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not errors, errors[:5]

    upgrade(service)

    victim = service.workers()[0]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in service.workers() and len(service.workers()) == 2, "a replacement worker", 60)

    # While Redis does not answer, events are spooled, and replayed afterwards.
    counted = int(service.redis("hget", "hot:article:{a}", "pv"))
    service.redis_signal(signal.SIGSTOP)
    try:
        status, reply = service.request("POST", "/api/track", {"articleId": "a", "dwellMs": 5, "userId": "spooled", "eventId": "spooled"})
        assert status == 202, (status, reply)
        assert os.listdir(service.path_of("lib/spool"))
    finally:
        service.redis_signal(signal.SIGCONT)
    wait_until(lambda: int(service.redis("hget", "hot:article:{a}", "pv")) == counted + 1, "the spool's replay", 60)

    # One worker has replayed the spool; the other may not be connected to Redis yet.
    late = {"title": "written after the outage", "published_at": now()}
    wait_until(lambda: service.request("PUT", "/api/items/late", late)[0] == 200, "a successful write", 60)
    wait_until(lambda: "late" in titles(service), "the recorder to commit", 60)


def upgrade(service):
    """Upgrades to another copy of the binary."""
    old, before = service.master(), set(service.workers())
    shutil.copy(service.program, service.program + ".new")
    os.rename(service.program + ".new", service.program)
    os.kill(old, signal.SIGUSR2)
    wait_until(lambda: not birth(old), "the old master to end", 60)
    wait_until(lambda: len(service.workers()) == 2 and not before & set(service.workers()), "the new workers", 60)
    assert any(line.startswith("MAINPID=") for line in service.notify.lines), service.notify.lines
    assert service.request("GET", "/ping")[0] == 200


def test_the_requests_cover_every_route():
    with open(os.path.join(unit.ROOT, "nginx/html/openapi.json"), encoding="utf-8") as file:
        paths = json.load(file)["paths"]
    routes = {(method.upper(), path) for path, operations in paths.items() for method in operations}

    def matches(path, uri):
        wanted, given = path.split("/"), uri.partition("?")[0].split("/")
        return len(wanted) == len(given) and all(a == b or a.startswith("{") for a, b in zip(wanted, given))

    exact = {path for path in paths if "{" not in path}
    covered = {(method, uri.partition("?")[0]) for method, uri, _ in REQUESTS}
    missing = {(method, path) for method, path in routes
               if not any(method == m and matches(path, uri) and (uri == path or uri not in exact) for m, uri in covered)}
    assert not missing


def test_the_service_works_in_the_sandbox(service):
    exercise(service(traced=False))


def test_no_needed_call_is_refused(service):
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    sandboxed = service(traced=True)
    exercise(sandboxed)
    refused = {call: line for call, line in sandboxed.refused_calls().items() if call not in HARMLESS}
    assert not refused, "\n".join(refused.values())


# Refused as intended: the program or a library falls back.
HARMLESS = {
    ("clone3", "ENOSYS"),  # [RestrictNamespaces]: the C library then uses clone
}


def test_the_sandbox_refuses_what_it_should():
    """Each part of the sandbox refuses what it should."""
    sandboxed = SandboxedService()
    try:
        for words, message in ((["touch", "/usr/x"], "Read-only"), (["touch", sandboxed.path_of("etc/x")], "Read-only"), (["cat", "/proc/meminfo"], "denied"),
                            (["unshare", "-r", "true"], "not permitted"), (["chmod", "u+s", sandboxed.path_of("lib")], "not permitted"),
                            (["nice", "-n", "-5", "true"], "ermi"),
                            (["python3", "-c", "import socket; socket.socket()"], "not supported"),
                            (["python3", "-c", "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)"], "not permitted"),
                            (["python3", "-c", "import os; os.chown('/tmp', 1, 1)"], "not permitted")):
            done = subprocess.run([*sandboxed.command(), "/usr/bin/env", *words], env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, capture_output=True, text=True, check=False)
            assert message in done.stderr, (words, done.stdout, done.stderr)
        done = subprocess.run([*sandboxed.command(), "/usr/bin/cat", "/proc/self/status", sandboxed.path_of("credentials/salt")], capture_output=True, text=True, check=True)
        assert "CapBnd:\t0000000000000000" in done.stdout and "NoNewPrivs:\t1" in done.stdout and SALT in done.stdout
        done = subprocess.run([*sandboxed.command(), "/usr/bin/touch", sandboxed.path_of("lib/x")], check=False)
        assert done.returncode == 0
    finally:
        sandboxed.stop()


def test_a_unit_that_is_too_strict_is_detected():
    """Checks that the tests above can fail."""
    narrower = unit.directives()
    narrower["SystemCallFilter"] = [*narrower["SystemCallFilter"], "~@file-system"]
    sandboxed = SandboxedService(service=narrower)
    try:
        with pytest.raises(AssertionError):
            sandboxed.start()
    finally:
        sandboxed.stop()


def command_under_unit(name, folder, program):
    """Command that runs a program with the filters of a shipped unit, as the service's user."""
    filters = os.path.join(folder, "unit.json")
    with open(filters, "w", encoding="utf-8") as file:
        json.dump(unit.filters(unit.directives(os.path.join(unit.ROOT, "systemd", name))), file)
    os.chmod(filters, 0o644)
    return [*as_service_user(), sys.executable, os.path.join(HERE, "enter.py"), filters, "", *program]


def test_the_index_is_served_under_the_filters_of_its_unit(service):
    sandboxed = service()
    request_every_route(sandboxed)
    index, address = sandboxed.path_of("lib/index"), loopback.Loopback()
    wait_until(lambda: os.path.exists(os.path.join(index, "XAPIANDB")), "the index to be created")
    started = subprocess.Popen(command_under_unit("freshet-search@.service", sandboxed.state, ["/usr/bin/xapian-tcpsrv", "--quiet", "--interface", address.host, "--port", "7007", index]),
                               start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        stub = sandboxed.path_of("remote")
        with open(stub, "w", encoding="ascii") as file:
            file.write(f"remote {address.host}:7007\n")

        def documents():
            message = subprocess.run(["xapian-delve", stub], capture_output=True, text=True, check=False, timeout=240).stdout
            return "number of documents = 3" in message

        wait_until(documents, "the index to be served")
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        address.close()


class NoModel(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


def test_a_feed_is_fetched_under_the_filters_of_its_unit():
    server = http.server.HTTPServer(("127.0.0.1", 0), NoModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    build = os.environ.get("FRESHET_BUILD_DIR", os.path.join(unit.ROOT, "build/release"))
    folder = tempfile.mkdtemp(prefix="freshet-hard-", dir="/tmp")
    try:
        os.chmod(folder, 0o755)
        program = shutil.copy(os.path.join(build, "scripts/freshetctl"), folder)
        url = f"http://localhost:{server.server_address[1]}/feed"  # a name, which is looked up in a thread
        command = [program, "import", "--feed", url, "--public-only", "--hosts", "localhost"]
        done = subprocess.run(command_under_unit("freshet-import@.service", folder, command), capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 2 and f"{url}: there is nothing at this address (404)" in done.stderr, done.stdout + done.stderr
    finally:
        shutil.rmtree(folder)
        server.shutdown()


def test_a_model_is_fetched_under_the_filters_of_its_unit():
    server = http.server.HTTPServer(("127.0.0.1", 0), NoModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    build = os.environ.get("FRESHET_BUILD_DIR", os.path.join(unit.ROOT, "build/release"))
    folder = tempfile.mkdtemp(prefix="freshet-hard-", dir="/tmp")
    try:
        os.chmod(folder, 0o755)
        program = shutil.copy(os.path.join(build, "scripts/freshetctl"), folder)
        url = f"http://127.0.0.1:{server.server_address[1]}"
        done = subprocess.run(command_under_unit("freshet-fetch-model.service", folder, [program, "fetch-model", url]), capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 2 and f"{url}: it has no model" in done.stderr, done.stdout + done.stderr
    finally:
        shutil.rmtree(folder)
        server.shutdown()

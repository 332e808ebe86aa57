"""The service really runs under what freshet.service locks away: seccomp filters, namespaces, no capabilities, a read-only system."""

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
from sandboxed import HERE, SALT, Sandboxed, birth, loopback, now, unprivileged, wait_until

for tool in ("bwrap", "systemd-analyze", "setpriv", "redis-server"):
    if not shutil.which(tool):
        pytest.skip(f"{tool} is not there (./scripts/deps test)", allow_module_level=True)

# Every route of the interface once, in an order in which each finds what it needs.
REQUESTS = [
    ("PUT", "/api/items/a", {"title": "about a", "published_at": 1, "tags": ["t"], "author": "ann", "text": "words of a"}),
    ("PUT", "/api/items/b", {"title": "about b", "published_at": 2, "tags": ["t"], "author": "ann", "text": "words of b"}),
    ("POST", "/api/items", b'{"id":"c","title":"about c","published_at":3}\n{"id":"d","title":"about d","published_at":4}\n'),
    ("GET", "/api/items/a", None),
    ("POST", "/api/track", {"articleId": "a", "dwellMs": 1000, "userId": "r", "sessionId": "s"}),
    ("POST", "/api/views", {"articleId": "a", "fingerprint": "f", "publishedAt": 1}),
    ("POST", "/api/visitor", {}),
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
    ("GET", "/health/live", None),
    ("GET", "/health/ready", None),
    ("GET", "/ping", None),
    ("GET", "/status", None),
    ("GET", "/metrics", None),
]


def drive(service):
    """Every route; returns what was asked that got no 2xx."""
    failed, job = [], None
    for method, uri, body in REQUESTS:
        status, reply = service.ask(method, uri.replace("JOB", str(job)), body)
        if not 200 <= status < 300:
            failed.append((method, uri, status, reply))
        if isinstance(reply, dict):
            job = reply.get("job", job)
    return failed


@pytest.fixture
def service():
    """service(…): started; stopped when the test is over, with exit status 0."""
    running = []

    def start(**options):
        running.append(Sandboxed(**options))
        return running[-1].start()

    yield start
    for each in running:
        assert each.stop() in (0, None)


def titles(service):
    connection = sqlite3.connect(f"file:{service.at('lib/freshet.db')}?mode=ro", uri=True)
    try:
        return dict(connection.execute("SELECT id, title FROM items"))
    except sqlite3.Error:
        return {}
    finally:
        connection.close()


def live(service):
    """A day in its life: every route, under load a reload and a death, Redis away, logs reopened; what was written is recorded."""
    failed = drive(service)
    assert not failed, failed
    wait_until(lambda: set(titles(service)) == {"a", "b", "c"}, "the recorder", 60)

    # A copy without a name is made beside what stands there; it is no model, as the copy shows.
    with open(service.at("lib/freshet.model"), "wb") as file:
        file.write(b"no model" * 1000)
    wait_until(lambda: "why=model_corrupt" in service.log(), "the model file to be copied", 60)

    errors, stop, done = [], threading.Event(), []

    def load(number):
        while not stop.is_set():
            for method, uri, body in (("GET", "/api/hot", None), ("POST", "/api/track", {"articleId": "a", "dwellMs": 5, "userId": f"u{number}"}),
                                      ("POST", "/api/feed", {"action": "refresh", "limit": 2, "agent_id": f"u{number}"})):
                try:
                    status, reply = service.ask(method, uri, body)
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
        os.rename(service.at("log/error.log"), service.at("log/error.log.1"))
        os.kill(service.master(), signal.SIGUSR1)
        wait_until(lambda: os.path.exists(service.at("log/error.log")), "the reopened log", 30)
        seen = len(done)
        wait_until(lambda: len(done) > seen + 20, "the load", 60)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert not errors, errors[:5]

    upgrade(service)

    victim = service.workers()[0]
    os.kill(victim, signal.SIGKILL)
    wait_until(lambda: victim not in service.workers() and len(service.workers()) == 2, "another worker", 60)

    # Redis does not answer: what is counted goes into the spool, and from there into Redis.
    counted = int(service.redis("hget", "hot:article:{a}", "pv"))
    service.redis_signal(signal.SIGSTOP)
    try:
        status, reply = service.ask("POST", "/api/track", {"articleId": "a", "dwellMs": 5, "userId": "spooled", "eventId": "spooled"})
        assert status == 202, (status, reply)
        assert os.listdir(service.at("lib/spool"))
    finally:
        service.redis_signal(signal.SIGCONT)
    wait_until(lambda: int(service.redis("hget", "hot:article:{a}", "pv")) == counted + 1, "the spool's replay", 60)

    # One worker replayed it; the other may not have its Redis back yet.
    late = {"title": "written at last", "published_at": now()}
    wait_until(lambda: service.ask("PUT", "/api/items/late", late)[0] == 200, "a write", 60)
    wait_until(lambda: "late" in titles(service), "the recorder", 60)


def upgrade(service):
    """Another binary takes the place of the one that runs, and of its work."""
    old, before = service.master(), set(service.workers())
    shutil.copy(service.program, service.program + ".new")
    os.rename(service.program + ".new", service.program)
    os.kill(old, signal.SIGUSR2)
    wait_until(lambda: not birth(old), "the end of the old master", 60)
    wait_until(lambda: len(service.workers()) == 2 and not before & set(service.workers()), "the new workers", 60)
    assert any(line.startswith("MAINPID=") for line in service.notify.lines), service.notify.lines
    assert service.ask("GET", "/ping")[0] == 200


def test_every_route_is_asked():
    with open(os.path.join(unit.ROOT, "nginx/html/openapi.json"), encoding="utf-8") as file:
        paths = json.load(file)["paths"]
    routes = {(method.upper(), path) for path, operations in paths.items() for method in operations}

    def matches(path, uri):
        wanted, given = path.split("/"), uri.partition("?")[0].split("/")
        return len(wanted) == len(given) and all(a == b or a.startswith("{") for a, b in zip(wanted, given))

    exact = {path for path in paths if "{" not in path}
    asked = {(method, uri.partition("?")[0]) for method, uri, _ in REQUESTS}
    missing = {(method, path) for method, path in routes
               if not any(method == m and matches(path, uri) and (uri == path or uri not in exact) for m, uri in asked)}
    assert not missing


def test_the_service_lives_a_day_in_the_sandbox(service):
    live(service(traced=False))


def test_no_call_that_it_needs_is_refused(service):
    if not shutil.which("strace"):
        pytest.skip("strace is not there")
    one = service(traced=True)
    live(one)
    refused = {call: line for call, line in one.refused().items() if call not in HARMLESS}
    assert not refused, "\n".join(refused.values())


# Refused, and right so: the program or a library asks and goes on.
HARMLESS = {
    ("clone3", "ENOSYS"),  # [RestrictNamespaces]: the C library makes its threads by clone then
}


def test_the_sandbox_is_one():
    """Each part of it, by what it must refuse."""
    one = Sandboxed()
    try:
        for words, said in ((["touch", "/usr/x"], "Read-only"), (["touch", one.at("etc/x")], "Read-only"), (["cat", "/proc/meminfo"], "denied"),
                            (["unshare", "-r", "true"], "not permitted"), (["chmod", "u+s", one.at("lib")], "not permitted"),
                            (["nice", "-n", "-5", "true"], "ermi"),
                            (["python3", "-c", "import socket; socket.socket()"], "not supported"),
                            (["python3", "-c", "import mmap; mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)"], "not permitted"),
                            (["python3", "-c", "import os; os.chown('/tmp', 1, 1)"], "not permitted")):
            done = subprocess.run([*one.command(), "/usr/bin/env", *words], env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"}, capture_output=True, text=True, check=False)
            assert said in done.stderr, (words, done.stdout, done.stderr)
        done = subprocess.run([*one.command(), "/usr/bin/cat", "/proc/self/status", one.at("credentials/salt")], capture_output=True, text=True, check=True)
        assert "CapBnd:\t0000000000000000" in done.stdout and "NoNewPrivs:\t1" in done.stdout and SALT in done.stdout
        done = subprocess.run([*one.command(), "/usr/bin/touch", one.at("lib/x")], check=False)
        assert done.returncode == 0
    finally:
        one.stop()


def test_a_unit_that_allows_too_little_is_noticed():
    """The tests above can fail."""
    narrower = unit.directives()
    narrower["SystemCallFilter"] = [*narrower["SystemCallFilter"], "~@file-system"]
    one = Sandboxed(service=narrower)
    try:
        with pytest.raises(AssertionError):
            one.start()
    finally:
        one.stop()


def under(name, folder, program):
    """The command that runs a program with the filters of a shipped unit, as the service's user."""
    filters = os.path.join(folder, "unit.json")
    with open(filters, "w", encoding="utf-8") as file:
        json.dump(unit.filters(unit.directives(os.path.join(unit.ROOT, "systemd", name))), file)
    os.chmod(filters, 0o644)
    return [*unprivileged(), sys.executable, os.path.join(HERE, "enter.py"), filters, "", *program]


def test_the_index_is_served_under_the_filters_of_its_unit(service):
    one = service()
    drive(one)
    index, address = one.at("lib/index"), loopback.Loopback()
    wait_until(lambda: os.path.exists(os.path.join(index, "XAPIANDB")), "the index")
    started = subprocess.Popen(under("freshet-search@.service", one.state, ["/usr/bin/xapian-tcpsrv", "--quiet", "--interface", address.host, "--port", "7007", index]),
                               start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        stub = one.at("remote")
        with open(stub, "w", encoding="ascii") as file:
            file.write(f"remote {address.host}:7007\n")

        def documents():
            said = subprocess.run(["xapian-delve", stub], capture_output=True, text=True, check=False, timeout=240).stdout
            return "number of documents = 3" in said

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


def test_a_model_is_asked_for_under_the_filters_of_its_unit():
    server = http.server.HTTPServer(("127.0.0.1", 0), NoModel)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    build = os.environ.get("FRESHET_BUILD_DIR", os.path.join(unit.ROOT, "build/release"))
    folder = tempfile.mkdtemp(prefix="freshet-hard-", dir="/tmp")
    try:
        os.chmod(folder, 0o755)
        program = shutil.copy(os.path.join(build, "scripts/freshetctl"), folder)
        url = f"http://127.0.0.1:{server.server_address[1]}"
        done = subprocess.run(under("freshet-fetch-model.service", folder, [program, "fetch-model", url]), capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 2 and f"{url}: it has no model" in done.stderr, done.stdout + done.stderr
    finally:
        shutil.rmtree(folder)
        server.shutdown()

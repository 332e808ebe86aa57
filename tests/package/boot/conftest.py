import http.server
import threading

import pytest

from machine import Machine


def pytest_addoption(parser):
    parser.addoption("--machine-root", required=True)
    parser.addoption("--deb", required=True)
    parser.addoption("--server", choices=("redis", "valkey"), default="redis")


@pytest.fixture(scope="session")
def deb(request):
    return request.config.getoption("--deb")


@pytest.fixture(scope="session")
def server(request):
    """The word for which the guide's commands say $server."""
    return request.config.getoption("--server")


@pytest.fixture(scope="session")
def machine(request):
    """The machine, not booted yet."""
    one = Machine(request.config.getoption("--machine-root"))
    request.config.machine = one
    yield one
    one.close()


class Session(http.server.BaseHTTPRequestHandler):
    """The site's session check, where freshet-auth.conf expects it: the cookie `user` identifies the reader."""

    def do_GET(self):
        user = self.headers.get("Cookie", "").partition("user=")[2].partition(";")[0]
        self.send_response(204)
        if user:
            self.send_header("X-User-Id", user)
        self.end_headers()

    do_POST = do_GET

    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def session_check(machine):  # the machine sets up the network
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 9000), Session)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield
    server.shutdown()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    machine = getattr(item.config, "machine", None)
    if report.failed and machine:
        report.sections.append(("the machine", machine.diagnostics()))

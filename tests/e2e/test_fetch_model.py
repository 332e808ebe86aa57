"""freshetctl fetch-model against a server that is broken or hostile: the current model stays, time and memory are bounded,
and one sentence says why.
"""

import gzip
import os
import resource
import signal
import socket
import subprocess
import threading

import pytest

from service import CTL

MAGIC = b"FRSHMODL"
OK = b"HTTP/1.1 200 OK\r\n"
MAX_MEMORY = 256 << 20  # address space, of which an idle freshetctl takes a fifth
MAX_FILE = 320 << 20  # stands for a full disk


def forever(connection, data):
    while True:
        connection.sendall(data)


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


# {name: (what the server does with a connection, expected in the message)}
SERVERS = {
    "an endless body": (lambda each: forever(each, OK + b"\r\n" + b"x" * 65536), "not a model file"),
    "a model's first bytes, then an endless body": (lambda each: (each.sendall(OK + b"\r\n" + MAGIC), forever(each, bytes(1 << 20))), "File too large"),
    "endless chunks": (lambda each: forever(each, OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunk(b"x" * 65536)), "not a model file"),
    "endless headers": (lambda each: (each.sendall(OK), forever(each, b"X-Long: " + b"x" * 1000 + b"\r\n")), "Too large response headers"),
    "a length of terabytes": (lambda each: each.sendall(OK + b"Content-Length: 9999999999999\r\n\r\n" + MAGIC), "the reply is too large"),
    "a length that it does not send": (lambda each: each.sendall(OK + b"Content-Length: 1000\r\n\r\n" + MAGIC), "the reply was cut short"),
    "two lengths": (lambda each: each.sendall(OK + b"Content-Length: 8\r\nContent-Length: 9\r\n\r\n" + MAGIC), "the reply was cut short"),
    "a close in the middle of the header": (lambda each: each.sendall(OK + b"Content-Le"), "the reply was cut short"),
    "nothing": (lambda each: None, "the reply was cut short"),
    "no HTTP": (lambda each: each.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "HTTP/0.9"),
    "an empty body": (lambda each: each.sendall(OK + b"Content-Length: 0\r\n\r\n"), "the file is empty"),
    "the beginning of a model": (lambda each: each.sendall(OK + b"Content-Length: 8\r\n\r\n" + MAGIC), "too short"),
    "a page": (lambda each: each.sendall(OK + b"Content-Length: 900\r\n\r\n" + b"<html>" * 150), "not a model file"),
    "a model that is zeros": (lambda each: each.sendall(OK + b"Content-Length: 4096\r\n\r\n" + MAGIC + bytes(4088)), "version 0"),
    "304 for a model that was never fetched": (lambda each: each.sendall(b"HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n"), "returned 304"),
}


def compressed():
    body = gzip.compress(MAGIC + bytes(50 << 20))
    return OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body


SERVERS["a decompression bomb"] = (lambda each: each.sendall(compressed()), "not a model file")


class Server:
    """Answers each connection with act(connection) and closes it. `connections` counts them."""

    def __init__(self, act):
        self.connections, self._act, self._listening = 0, act, socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:{}".format(self._listening.getsockname()[1])
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                try:
                    connection.recv(65536)
                    self._act(connection)
                except OSError:
                    pass  # the client is gone

    def close(self):
        self._listening.close()


@pytest.fixture
def server():
    started = []

    def start(act):
        started.append(Server(act))
        return started[-1]

    yield start
    for each in started:
        each.close()


class Target:
    """A host's model file, and the configuration that names it."""

    def __init__(self, folder):
        self.folder, self.model, self._config = folder, folder / "freshet.model", folder / "freshet.toml"
        self._config.write_text(f'recommend.model = "{self.model}"\n')
        self.model.write_bytes(b"the current model")

    def fetch(self, url):
        """Runs fetch-model with little memory. Returns (exit status, output)."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
            resource.setrlimit(resource.RLIMIT_FSIZE, (MAX_FILE, MAX_FILE))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

        done = subprocess.run([CTL, "fetch-model", "--config", str(self._config), url], capture_output=True, text=True, check=False, timeout=60,
                              preexec_fn=limit)
        return done.returncode, (done.stdout + done.stderr).strip()

    def assert_unchanged(self):
        assert self.model.read_bytes() == b"the current model"
        assert sorted(os.listdir(self.folder)) == ["freshet.model", "freshet.toml"]


@pytest.fixture
def target(tmp_path):
    return Target(tmp_path)


@pytest.mark.parametrize("name", SERVERS)
def test_the_current_model_stays_whatever_the_server_sends(target, server, name):
    act, why = SERVERS[name]
    running = server(act)
    status, output = target.fetch(running.url)
    assert status == 2 and why in output and len(output.splitlines()) == 1, output
    assert (running.url if why != "File too large" else str(target.model)) in output
    target.assert_unchanged()


@pytest.mark.parametrize("location", ["file:///etc/passwd", "OTHER/api/model", "//169.254.169.254/latest"])
def test_a_redirect_is_not_followed(target, server, location):
    other = server(lambda each: each.sendall(OK + b"Content-Length: 8\r\n\r\n" + MAGIC))
    where = location.replace("OTHER", other.url).encode()
    running = server(lambda each: each.sendall(b"HTTP/1.1 302 Found\r\nLocation: " + where + b"\r\nContent-Length: 0\r\n\r\n"))
    status, output = target.fetch(running.url)
    assert status == 2 and output.endswith(f"{running.url}: GET /api/model returned 302"), output
    assert running.connections == 1 and other.connections == 0
    target.assert_unchanged()


def test_a_refused_reply_leaves_a_symbolic_link_as_it_is(target, server):
    outside = target.folder / "outside"
    outside.write_bytes(b"outside")
    target.model.unlink()
    target.model.symlink_to(outside)
    status, output = target.fetch(server(SERVERS["a page"][0]).url)
    assert status == 2 and "not a model file" in output, output
    assert outside.read_bytes() == b"outside" and target.model.is_symlink()

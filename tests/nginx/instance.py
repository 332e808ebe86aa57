"""A private nginx with the shipped configuration. Only paths and ports are changed, as in scripts/run."""

import http.client
import http.server
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/support"))
import loopback  # noqa: E402
from waiting import wait_until  # noqa: E402

AGENT = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"


def auth_edits(port):
    """Edits an administrator makes to use the site's session check at `port`."""
    return [("freshet-locations.conf", "#auth_request", "auth_request"), ("freshet-locations.conf", "#include", "include"),
            ("freshet-auth.conf", "127.0.0.1:9000", f"127.0.0.1:{port}")]


class Sessions:
    """The site's session check: cookie -> reader. "sid=banned" gets 403, "sid=expired" 401."""

    def __init__(self, readers):
        self.bodies, self.user_ids, self.uris = [], [], []  # the session checks' requests, in order
        sessions = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                cookies = {each.strip() for each in self.headers.get("Cookie", "").split(";")}
                sessions.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                sessions.user_ids.append(self.headers.get("X-User-Id"))
                sessions.uris.append(self.headers.get("X-Original-Uri"))
                self.send_response(403 if "sid=banned" in cookies else 401 if "sid=expired" in cookies else 200)
                for cookie, reader in readers.items():
                    if cookie in cookies:
                        self.send_header("X-User-Id", reader)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Reply:
    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()

    def json(self):
        return json.loads(self.body)


class Nginx:
    """edits: (file, old, new) replacements in the rendered configuration; HOST and DIR in `new` are this instance's. site: a
    server of the site in place of the public one, with %s for its address."""

    def __init__(self, edits=(), limits=True, site=None):
        self.directory = tempfile.mkdtemp(prefix="freshet-nginx-", dir="/tmp")
        os.chmod(self.directory, 0o755)
        for name in ("etc/nginx", "run", "log", "cache", "tmp"):
            os.makedirs(os.path.join(self.directory, name))
        self._loopback = loopback.Loopback()
        self.host, self.port, self.internal_port = self._loopback.host, loopback.PUBLIC, loopback.INTERNAL
        self.socket_path = os.path.join(self.directory, "run/freshetd.sock")
        user = "root" if os.geteuid() == 0 else ""
        subprocess.run(["bash", "-c", 'source "$1"; shift; render_nginx "$@"', "-", os.path.join(ROOT, "scripts/lib.sh"),
                        self.directory, self.host, str(self.port), str(self.internal_port), user, "1" if limits else "0"], check=True)
        for name, old, new in edits:
            self._edit(name, old, new.replace("HOST", self.host).replace("DIR", self.directory))
        if site:
            with open(os.path.join(self.directory, "etc/nginx/freshet-public.conf"), "w", encoding="utf-8") as file:
                file.write(site.replace("/etc/nginx/freshet/", f"{self.directory}/etc/nginx/").replace("%s", f"{self.host}:{self.port}"))
        self._process = None

    def _edit(self, name, old, new):
        path = os.path.join(self.directory, "etc/nginx", name)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        assert old in text, f"{name} has no {old!r}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(old, new))

    def _command(self, *more):
        return ["nginx", "-e", os.path.join(self.directory, "log/error.log"), "-p", self.directory,
                "-c", os.path.join(self.directory, "etc/nginx/nginx.conf"), *more]

    @property
    def pid(self):
        return self._process.pid

    def test(self):
        """Runs `nginx -t`: (status, output)."""
        done = subprocess.run(self._command("-t"), capture_output=True, text=True, check=False)
        return done.returncode, done.stderr

    def start(self):
        self._process = subprocess.Popen(self._command("-g", "daemon off;"))
        wait_until(self._accepts, "nginx to accept")
        return self

    def _accepts(self):
        try:
            socket.create_connection((self.host, self.internal_port), 1).close()
            return True
        except OSError:
            assert self._process.poll() is None, "nginx ended"
            return False

    def stop(self):
        if self._process:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(10)
        shutil.rmtree(self.directory)
        self._loopback.close()

    def log(self, name):
        with open(os.path.join(self.directory, "log", name), encoding="utf-8") as file:
            return file.read()

    def connect(self, internal=False):
        return socket.create_connection((self.host, self.internal_port if internal else self.port), 10)

    def fetch_many(self, path, times, headers):
        """The statuses of this many GETs on one connection."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=20)
        try:
            statuses = []
            for _ in range(times):
                connection.request("GET", path, None, {"User-Agent": AGENT, **headers})
                statuses.append(Reply(connection.getresponse()).status)
            return statuses
        finally:
            connection.close()

    def fetch(self, path, method=None, body=None, headers=None, internal=False, timeout=20):
        """Sends one request on its own connection. With a body, the method defaults to POST."""
        connection = http.client.HTTPConnection(self.host, self.internal_port if internal else self.port, timeout=timeout)
        try:
            connection.request(method or ("GET" if body is None else "POST"), path, body,
                               {"User-Agent": AGENT, **(headers or {})})
            return Reply(connection.getresponse())
        finally:
            connection.close()

"""Runs the same scenario with each client of scripts/clients, against an instance and against a stub server with faults."""

import gzip
import http.server
import json
import os
import re
import subprocess
import threading

import pytest

from service import LONG_TIMEOUTS, ROOT, Instance, wait_until

CLIENTS = os.path.join(ROOT, "scripts/clients")
HERE = os.path.join(ROOT, "tests/e2e/clients")
MODULES = os.path.join(ROOT, "tests/browser/node_modules/.bin")  # ./scripts/deps test
SECRET = "0123456789abcdef" * 4
LANGUAGES = {
    "javascript": ("node", "scenario.mjs", "javascript/example.mjs"),
    "python": ("/usr/bin/python3", "scenario.py", "python/example.py"),
    "php": ("php", "scenario.php", "php/example.php"),
}


def output(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Stub:
    """Rejects each event twice and accepts it the third time. /html returns a proxy's error page, /once is always busy."""

    def __init__(self):
        self.bodies, self.paths = [], []
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                stub.paths.append(self.path)
                status, kind, text = 503, "application/problem+json", b'{"code":"unavailable","msg":"busy"}'
                if self.path == "/html":
                    status, kind, text = 502, "text/html", b"<html>Bad Gateway</html>"
                elif self.path == "/api/track":
                    stub.bodies.append(json.loads(body))
                    if len([each for each in stub.bodies if each == stub.bodies[-1]]) == 3:
                        status, kind, text = 200, "application/json", b'{"pv":7}'
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = answer  # noqa: N815

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def stub():
    server = Stub()
    yield server
    server.close()


@pytest.fixture(scope="module")
def site():
    service = Instance("--no-limits", **LONG_TIMEOUTS)
    path = os.path.join(service.state, "etc/key")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(SECRET)
    os.chmod(path, 0o644)
    service.configure(identity__internal_keys=f'{{ k1 = "{path}" }}')
    try:
        yield service.start()
    finally:
        service.stop()


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_clients_behave_alike(site, stub, language):
    program, scenario, _ = LANGUAGES[language]
    name = f"client-{language}"
    addresses = [f"http://{site.host}:{port}" for port in (site.port, site.internal_port)]
    result = json.loads(output(program, os.path.join(HERE, scenario), *addresses, "k1", SECRET, stub.base, name))
    items = [f"{name}-{i}" for i in (1, 2, 3, 4)]
    assert result == {
        "put": {"ok": True}, "lines": 3, "title": "Über ééé", "pv": 1, "stats": 1, "pushed": 3, "first": [items[2], items[1]],
        "older": [items[0]], "newer": [items[3]], "look": True, "history": [items[0]], "dismissed": 1, "undismissed": 0,
        "follows": ["ann@x/y"], "feed": result["feed"], "page": "string", "more": result["more"],
        "invalid": [400, "bad_id", "articleId"], "unsigned": 401,
        "retried": 7, "html502": [502, "the service returned HTTP 502"], "not_repeatable": 503,
    }
    # A retried event keeps its id. A request that cannot be repeated is not retried.
    assert len(stub.bodies) == 3
    assert len({each["eventId"] for each in stub.bodies}) == 1
    assert stub.paths.count("/once") == 1
    assert stub.paths.count("/html") == 4


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_examples_of_the_clients_run(service, language):
    program, _, example = LANGUAGES[language]
    service.put("hello", title="Hello, world")
    service.put("other", title="Another")
    assert service.public().track("hello", 1000, sessionId=language).status == 200
    wait_until(lambda: service.public().get("/api/hot?model=engagement").json(), "a hot list")
    def example_output():
        done = subprocess.run([program, os.path.join(CLIENTS, example), f"http://{service.host}:{service.port}"],
                              capture_output=True, text=True, timeout=240, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return re.fullmatch(r"page views: \d+\n(.+: .+\n)+hottest: .+\n", done.stdout)
    wait_until(example_output, "a recommendation")


def test_the_readme_shows_the_examples():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
        readme = file.read()
    for language in ("javascript", "php"):
        with open(os.path.join(CLIENTS, LANGUAGES[language][2]), encoding="utf-8") as file:
            lines = [line for line in file.read().splitlines() if line and not line.startswith(("//", "<?php"))]
        assert len(lines) <= 10
        for line in lines:
            assert line in readme, (language, line)


def test_an_undeliverable_track_is_queued_and_delivered_once(stub):
    result = json.loads(output("node", os.path.join(HERE, "queue.mjs"), stub.base))
    assert result == {"replies": [{"ok": True, "queued": True}] * 2, "flushed": 0, "stored": 0}
    assert [each["articleId"] for each in stub.bodies] == ["a"] * 3 + ["b"] * 3
    assert len({each["eventId"] for each in stub.bodies}) == 2


def test_the_javascript_client_is_small_and_its_types_match_the_document(tmp_path):
    with open(os.path.join(CLIENTS, "javascript/freshet.mjs"), "rb") as file:
        assert len(gzip.compress(file.read())) <= 5 * 1024
    generated = tmp_path / "openapi.d.ts"
    output(os.path.join(MODULES, "openapi-typescript"), os.path.join(ROOT, "nginx/html/openapi.json"), "-o", str(generated))
    with open(os.path.join(CLIENTS, "javascript/openapi.d.ts"), encoding="utf-8") as file:
        assert file.read() == generated.read_text(encoding="utf-8"), "regenerate it: cd tests/browser && npx openapi-typescript ../../nginx/html/openapi.json -o ../../scripts/clients/javascript/openapi.d.ts"


@pytest.fixture
def project(tmp_path):
    """An empty project with the packed client installed."""
    packed = json.loads(output("npm", "pack", "--json", "--pack-destination", str(tmp_path), cwd=os.path.join(CLIENTS, "javascript")))[0]
    assert {each["path"] for each in packed["files"]} == {"package.json", "freshet.mjs", "freshet.d.mts", "openapi.d.ts"}
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "package.json").write_text('{"name": "site", "private": true, "type": "module"}', encoding="utf-8")
    output("npm", "install", "--offline", "--no-audit", "--no-fund", str(tmp_path / packed["filename"]), cwd=folder)
    return folder


def test_the_packed_client_can_be_installed_and_used(project, service):
    service.put("packed")
    (project / "use.mjs").write_text("""
import { Freshet } from "freshet-client";
console.log((await new Freshet({ base: process.argv[2] }).track({ articleId: "packed", dwellMs: 1 })).pv);
""", encoding="utf-8")
    assert output("node", "use.mjs", f"http://{service.host}:{service.port}", cwd=project) == "1\n"


def test_a_wrong_call_is_a_type_error(project):
    def type_errors(text):
        (project / "use.mts").write_text('import { Freshet } from "freshet-client";\nconst f = new Freshet();\n' + text, encoding="utf-8")
        done = subprocess.run([os.path.join(MODULES, "tsc"), "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "use.mts"],
                              capture_output=True, text=True, timeout=240, check=False, cwd=project)
        return done.stdout

    correct = "const [item] = await f.hot({ model: 'views' });\nitem?.score.toFixed();\n(await f.stats('a')).terms.pv.toFixed();\n"
    correct += "(await f.feed('a').refresh()).items.map((each) => each.id);\n(await f.timeline('c', 'a').older()).has_more;\n"
    assert type_errors(correct) == ""
    assert "TS2322" in type_errors("await f.hot({ model: 'nonsense' });")
    assert "TS2345" in type_errors("await f.track({ dwellMs: 1 });")

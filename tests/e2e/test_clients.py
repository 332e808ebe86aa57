"""Tries each client of scripts/clients against an instance, and its package and types. test_client_faults.py tests the rest."""

import gzip
import json
import os
import re
import subprocess
import sys
import tarfile
import time

import pytest

from service import LONG_TIMEOUTS, ROOT, Instance, wait_until

CLIENTS = os.path.join(ROOT, "scripts/clients")
sys.path.insert(0, os.path.join(CLIENTS, "python"))
from freshet import Freshet, FreshetError, token  # noqa: E402

HERE = os.path.join(ROOT, "tests/e2e/clients")
MODULES = os.path.join(ROOT, "tests/browser/node_modules/.bin")  # ./scripts/deps test
SECRET = "0123456789abcdef" * 4
LANGUAGES = {
    "javascript": ("node", "smoke.mjs", "javascript/example.mjs"),
    "python": ("/usr/bin/python3", "smoke.py", "python/example.py"),
    "php": ("php", "smoke.php", "php/example.php"),
}


def output(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def instance_with_key(directive, **directives):
    service = Instance("--no-limits", **LONG_TIMEOUTS, **directives)
    path = os.path.join(service.state, "etc/key")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(SECRET)
    os.chmod(path, 0o644)
    service.configure(**{directive: f'{{ k1 = "{path}" }}'})
    try:
        yield service.start()
    finally:
        service.stop()


@pytest.fixture(scope="module")
def site():
    yield from instance_with_key("identity__internal_keys")


@pytest.fixture
def token_site():
    yield from instance_with_key("identity__token_keys", identity__mode='"token"')


@pytest.fixture(scope="module")
def backend(site):
    return Freshet(f"http://{site.host}:{site.internal_port}", key=("k1", SECRET))


@pytest.mark.parametrize("language", LANGUAGES)
def test_all_clients_behave_alike(site, language):
    program, smoke, _ = LANGUAGES[language]
    name = f"client-{language}"
    addresses = [f"http://{site.host}:{port}" for port in (site.port, site.internal_port)]
    result = json.loads(output(program, os.path.join(HERE, smoke), *addresses, "k1", SECRET, name))
    items = [f"{name}-{i}" for i in (1, 2, 3, 4)]
    assert result == {
        "put": {"ok": True}, "lines": 3, "title": "Über ééé", "pv": 1, "stats": 1, "pushed": 3, "first": [items[2], items[1]],
        "older": [items[0]], "newer": [items[3]], "look": True, "history": [items[0]], "dismissed": 1, "undismissed": 0,
        "follows": ["ann@x/y"], "feed": result["feed"], "page": "string", "more": result["more"],
        "invalid": [400, "bad_id", "articleId"], "unsigned": 401, "whoami": {"key": "k1", "userId": None}, "ready": True,
        "merged": [True, [items[0]]], "exported": name, "erased": 0,
    }


def test_whoami_names_the_key_or_the_reader_and_refuses_what_does_not_work(site, token_site):
    def error(**options):
        with pytest.raises(FreshetError) as problem:
            Freshet(f"http://{site.host}:{site.internal_port}", **options).whoami()
        return problem.value.status, problem.value.code

    assert error(key=("k1", SECRET + "x")) == error(key=("k2", SECRET)) == error() == (401, "bad_signature")
    with pytest.raises(FreshetError, match="no such route"):
        Freshet(f"http://{site.host}:{site.port}").whoami()

    def whoami(secret, expires=None, **headers):
        bearer = {"Authorization": "Bearer " + token("k1", secret, "Zoë", expires)} if secret else headers
        return Freshet(f"http://{token_site.host}:{token_site.internal_port}", headers=bearer).whoami()

    assert whoami(SECRET) == {"key": None, "userId": "Zoë"}
    assert whoami(None) == whoami(None, Cookie="freshet_token=" + token("k1", "x" * 32, "ann")) == {"key": None, "userId": None}
    assert whoami(None, Cookie="freshet_token=" + token("k1", SECRET, "ann"))["userId"] == "ann"
    for code, secret, expires in (("bad_token", "x" * 32, None), ("expired_token", SECRET, time.time() - 60)):
        with pytest.raises(FreshetError) as problem:
            whoami(secret, expires)
        assert (problem.value.status, problem.value.code) == (401, code)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_examples_of_the_clients_run(site, backend, language):
    program, _, example = LANGUAGES[language]
    backend.put_item("hello", title="Hello, world", published_at=int(time.time()) - 60)
    backend.put_item("other", title="Another", published_at=int(time.time()) - 60)
    assert site.public().track("hello", 1000, sessionId=language).status == 200
    wait_until(lambda: site.public().get("/api/hot?model=engagement").json(), "a hot list")
    def example_output():
        text = output(program, os.path.join(CLIENTS, example), f"http://{site.host}:{site.port}")
        return re.fullmatch(r"page views: \d+\n(.+: .+\n)+hottest: .+\n", text)
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


def test_the_javascript_client_is_small_and_its_types_match_the_document(tmp_path):
    with open(os.path.join(CLIENTS, "javascript/freshet.mjs"), "rb") as file:
        assert len(gzip.compress(file.read())) <= 6.5 * 1024
    generated = tmp_path / "openapi.d.ts"
    output(os.path.join(MODULES, "openapi-typescript"), os.path.join(ROOT, "nginx/html/openapi.json"), "-o", str(generated))
    with open(os.path.join(CLIENTS, "javascript/openapi.d.ts"), encoding="utf-8") as file:
        assert file.read() == generated.read_text(encoding="utf-8"), "regenerate it: cd tests/browser && npx openapi-typescript ../../nginx/html/openapi.json -o ../../scripts/clients/javascript/openapi.d.ts"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """An empty project with the packed client installed."""
    folder = tmp_path_factory.mktemp("project")
    packed = json.loads(output("npm", "pack", "--json", "--pack-destination", str(folder), cwd=os.path.join(CLIENTS, "javascript")))[0]
    assert {each["path"] for each in packed["files"]} == {"package.json", "express.mjs", "express.d.mts", "freshet.mjs", "freshet.d.mts", "openapi.d.ts"}
    (folder / "package.json").write_text('{"name": "site", "private": true, "type": "module"}', encoding="utf-8")
    (folder / "node_modules").mkdir()
    with tarfile.open(folder / packed["filename"]) as archive:
        archive.extractall(folder / "node_modules")
    (folder / "node_modules/package").rename(folder / "node_modules/freshet-client")
    return folder


def test_the_packed_client_can_be_used(project, site, backend):
    backend.put_item("packed", title="Packed", published_at=int(time.time()) - 60)
    (project / "use.mjs").write_text("""
import { Freshet } from "freshet-client";
console.log((await new Freshet({ base: process.argv[2] }).track({ articleId: "packed", dwellMs: 1 })).pv);
""", encoding="utf-8")
    assert output("node", "use.mjs", f"http://{site.host}:{site.port}", cwd=project) == "1\n"


def test_a_wrong_call_is_a_type_error_and_a_right_one_is_not(project):
    (project / "use.mts").write_text("""
import { Freshet } from "freshet-client";
import { freshetExpress, links, type Lists } from "freshet-client/express";
const f = new Freshet();
const site = freshetExpress({ base: "http://127.0.0.1:8081", reader: (request: { user?: { id: string } }) => request.user?.id });
(await site.saved("a", { title: "T", published_at: 1 })).valueOf();
async (lists: Lists) => links(await lists.hot({ limit: 5 })) + links(await lists.similar("a"));
// @ts-expect-error: not a model
async (lists: Lists) => lists.hot({ model: "nonsense" });
// @ts-expect-error: no title
await site.saved("a", { published_at: 1 });
const { items: [item] } = await f.hot({ model: "views" });
item?.score.toFixed();
(await f.stats("a")).terms.pv.toFixed();
const { key, error } = await f.whoami();
key?.charAt(0);
error?.status.toFixed();
(await f.exportUser("ann", 500)).database?.next?.toFixed();
(await f.recommendations(null, { limit: 3 })).unavailable;
(await f.health()).missing.join();
await f.track({ articleId: "a" });
(await f.feed("a").refresh()).items.map((each) => each.id);
(await f.timeline("c", "a").older()).has_more;
// @ts-expect-error: not a model
await f.hot({ model: "nonsense" });
// @ts-expect-error: not a parameter
await f.recommendations("ann", { limits: 1 });
// @ts-expect-error: not a preset
new Freshet({ preset: "fast" });
// @ts-expect-error: no article
await f.track({ dwellMs: 1 });
// @ts-expect-error: not a member of a hot item
item?.nonsense;
""", encoding="utf-8")
    output(os.path.join(MODULES, "tsc"), "--noEmit", "--strict", "--module", "nodenext", "--target", "es2022", "use.mts", cwd=project)

"""Identity: the three modes as a site would use them, and signed requests to the internal server."""

import hashlib
import hmac
import os
import signal
import subprocess
import sys
import time
from urllib.parse import quote

import pytest

from client import assert_problem
from service import BUILD, CTL, LONG_TIMEOUTS, ROOT, Instance, children, wait_until

sys.path.append(os.path.join(ROOT, "tests/nginx"))
from instance import Sessions, auth_edits  # noqa: E402  the session back end of the nginx tests

KEYS = {"k1": "0123456789abcdef-1", "k2": "0123456789abcdef-2"}


def secret_files(service):
    """Writes KEYS to files that the service's user can read: {kid: path}."""
    paths = {}
    for kid, key in KEYS.items():
        paths[kid] = os.path.join(service.state, "etc", kid)
        with open(paths[kid], "w", encoding="utf-8") as file:
            file.write(key + "\n")
    return paths


def table(paths):
    return "{ " + ", ".join(f'{kid} = "{path}"' for kid, path in paths.items()) + " }"


def token(kid, reader, expires=None, key=None):
    payload = f"v1.{kid}.{quote(reader, safe='')}.{int(time.time()) + 60 if expires is None else expires}"
    return payload + "." + hmac.new((key or KEYS[kid]).encode(), payload.encode(), hashlib.sha256).hexdigest()


def history(client, headers=None, **query):
    return client.get("/api/history", headers=headers, query=query)


# --- header


@pytest.fixture(scope="module")
def with_sessions():
    """Mode "header" with the shipped auth_request, and the site's sessions behind it."""
    backend = Sessions({"sid=alice": "alice", "sid=bob": "bob", "sid=broken": "x" * 513})
    service = Instance("--no-limits", identity__mode='"header"', **LONG_TIMEOUTS)
    try:
        service.start()
        for name, old, new in auth_edits(backend.port):
            path = os.path.join(service.state, "etc/nginx", name)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            assert old in text
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new))
        before = set(children(service.pid("nginx")))
        service.signal("nginx", signal.SIGHUP)
        wait_until(lambda: (now := set(children(service.pid("nginx")))) and not before & now, "nginx to replace its workers")
        yield service
    finally:
        service.stop()
        backend.close()


def test_a_logged_in_reader_sees_only_their_own_history(with_sessions, name):
    public, items = with_sessions.public(), {"alice": name("a"), "bob": name("b")}
    for reader, item in items.items():
        assert public.post("/api/history", {"topicId": item}, headers={"Cookie": f"sid={reader}"}).status == 200
    for reader, item in items.items():
        items_shown = history(public, {"Cookie": f"sid={reader}"}).json()["items"]
        assert item in items_shown and not set(items.values()) - {item} & set(items_shown)
        # A reader named by the request changes nothing.
        assert history(public, {"Cookie": f"sid={reader}"}, userId="alice").json()["items"] == items_shown


def test_a_client_that_is_not_logged_in_has_no_history_whatever_it_sends(with_sessions, name):
    public = with_sessions.public()
    public.post("/api/history", {"topicId": name("a")}, headers={"Cookie": "sid=alice"})
    forged = {each: "alice" for each in ("X-User-Id", "FRESHET_USER", "Freshet-User", "Remote-User", "X-Remote-User")}
    forged["Authorization"] = "Bearer " + token("k1", "alice")
    for headers in ({}, forged, {"Cookie": "sid=alicf"}, {"Cookie": "freshet_token=" + token("k1", "alice")}):
        assert_problem(history(public, headers), 400, "bad_id")
        assert_problem(history(public, headers, userId="alice"), 400, "bad_id")
        assert_problem(public.post("/api/history", {"topicId": "x", "userId": "alice"}, headers=headers), 400, "bad_id")
    assert_problem(history(public, {"Cookie": "sid=broken"}), 401, "bad_user")
    assert history(public, {"Cookie": "sid=banned"}).status == 403


def test_the_sites_back_end_can_read_the_history_of_any_reader(with_sessions, name):
    item = name("a")
    with_sessions.public().post("/api/history", {"topicId": item}, headers={"Cookie": "sid=alice"})
    assert history(with_sessions.internal(), userId="alice").json()["items"][0] == item


# --- token


@pytest.fixture(scope="module")
def with_tokens():
    service = Instance("--no-limits", identity__mode='"token"', history__from_track="true", **LONG_TIMEOUTS)
    paths = secret_files(service)
    service.configure(identity__token_keys=table(paths))
    service.paths = paths
    try:
        yield service.start()
    finally:
        service.stop()


def bearer(text):
    return {"Authorization": f"Bearer {text}"}


def test_a_signed_token_names_its_reader_as_bearer_or_cookie(with_tokens, name):
    public, item, reader = with_tokens.public(), name("a"), name("r") + ".with dots/é"
    assert public.post("/api/history", {"topicId": item}, headers=bearer(token("k1", reader.replace(" ", "_")))).status == 200
    reader = reader.replace(" ", "_")
    assert history(public, bearer(token("k2", reader))).json()["items"] == [item]
    assert history(public, {"Cookie": "freshet_token=" + token("k1", reader)}).json()["items"] == [item]
    assert history(public, bearer(token("k1", reader)), userId="somebody").json()["items"] == [item]


def test_a_view_without_a_reader_is_attributed_to_the_token_and_added_to_the_history(with_tokens, name):
    public, item, headers = with_tokens.public(), name("a"), bearer(token("k1", name("r")))
    view = {"articleId": item, "fingerprint": "f", "publishedAt": int(time.time())}
    assert public.post("/api/views", view, headers=headers).status == 200
    wait_until(lambda: history(public, headers).json()["items"] == [item], "the view in the history")


def test_expired_and_forged_tokens_are_401(with_tokens):
    public, now = with_tokens.public(), int(time.time())
    assert_problem(history(public, bearer(token("k1", "alice", now - 1))), 401, "expired_token")
    good = token("k1", "alice")
    assert history(public, bearer(good)).status == 200
    forged = [good[:-1] + ("0" if good[-1] != "0" else "1"), good.replace("alice", "bob"), good.replace("k1", "k2"), good.replace("k1", "k3"),
              token("k1", "alice", key=KEYS["k2"]), good.rsplit(".", 1)[0], "x", good.replace("v1", "v2"),
              token("k1", "a\tb")]
    for each in forged:
        reply = history(public, bearer(each))
        assert_problem(reply, 401, "bad_token")
        assert reply.headers["WWW-Authenticate"] == "Bearer"
    # An invalid cookie is ignored, so that a page with a stale one keeps working.
    assert_problem(history(public, {"Cookie": "freshet_token=" + forged[0]}), 400, "bad_id")
    assert_problem(history(public, None, userId="alice"), 400, "bad_id")


def test_keys_are_rotated_by_two_reloads(with_tokens, name):
    public, old, new = with_tokens.public(), token("k1", name("r")), token("k2", name("r"))
    assert [history(public, bearer(each)).status for each in (old, new)] == [200, 200]
    with_tokens.configure(identity__token_keys=table({"k2": with_tokens.paths["k2"]}))
    with_tokens.reload_and_drain()
    try:
        assert [history(with_tokens.public(), bearer(each)).status for each in (old, new)] == [401, 200]
    finally:
        with_tokens.configure(identity__token_keys=table(with_tokens.paths))
        with_tokens.reload_and_drain()


# --- open


def test_open_mode_on_a_public_address_must_be_enabled_explicitly(instance):
    service = instance("--no-limits")
    program = os.path.join(BUILD, "fcgi/freshetd")

    def check(**directives):
        service.configure(**directives)
        return subprocess.run([program, "-t", "-y", os.path.join(service.state, "etc/freshet.toml")], capture_output=True, text=True, check=False,
                              timeout=240)

    for address in ("0.0.0.0:9000", "192.0.2.1:9000", "[::]:9000"):
        refused = check(identity__mode='"open"', listen__address=f'"{address}"')
        assert refused.returncode == 78 and "identity.open_public" in refused.stderr, refused
        assert check(identity__mode='"open"', identity__open_public="true", listen__address=f'"{address}"').returncode == 0
        assert check(identity__mode='"header"', listen__address=f'"{address}"').returncode == 0
    for address in ("127.0.0.1:9000", "[::1]:9000"):
        assert check(identity__mode='"open"', listen__address=f'"{address}"').returncode == 0


# --- keys of the internal server


@pytest.fixture(scope="module")
def signed_service():
    service = Instance("--no-limits", **LONG_TIMEOUTS)
    service.paths = secret_files(service)
    service.configure(identity__internal_keys=table(service.paths))
    try:
        yield service.start()
    finally:
        service.stop()


def signature(method, target, body=b"", kid="k1", key=None, at=None):
    at = int(time.time()) if at is None else at
    message = f"v1\n{method}\n{target}\n{at}\n{hashlib.sha256(body).hexdigest()}"
    digest = hmac.new((key or KEYS[kid]).encode(), message.encode(), hashlib.sha256).hexdigest()
    return {"Authorization": f"Freshet-HMAC-SHA256 kid={kid}, ts={at}, sig={digest}"}


def test_the_internal_server_requires_signatures_if_keys_are_configured(signed_service, name):
    internal, item, body = signed_service.internal(), name("i"), b'{"title":"x","published_at":1}'
    target = f"/api/items/{item}"
    for headers in ({}, signature("PUT", target), signature("POST", target, body), signature("PUT", target + "x", body),
                    signature("PUT", target, body, key="another"), bearer(token("k1", "alice"))):
        reply = internal.put(target, body.decode(), headers=headers)
        assert_problem(reply, 401, "bad_signature")
        assert reply.headers["WWW-Authenticate"] == "Freshet-HMAC-SHA256"
    for off in (-400, 400):
        reply = internal.put(target, body.decode(), headers=signature("PUT", target, body, at=int(time.time()) + off))
        assert_problem(reply, 401, "stale_signature")
    for kid in KEYS:
        assert internal.put(target, body.decode(), headers=signature("PUT", target, body, kid)).status == 200
        assert internal.get(target, headers=signature("GET", target, b"", kid)).json()["title"] == "x"
    for target in ("/api/hot?limit=3", "/api/stats?ids=" + item, "/api/users/x"):
        assert_problem(internal.get(target), 401, "bad_signature")
        assert internal.get(target, headers=signature("GET", target)).status == 200


def test_health_checks_and_the_public_server_need_no_signature(signed_service, name):
    for path in ("/ping", "/health/live", "/health/ready", "/status?json", "/metrics"):
        assert signed_service.internal().get(path).status == 200
    assert signed_service.public().get("/api/hot").status == 200
    assert signed_service.public().track(name("a"), 1, userId=name("r")).status == 200
    # A signature does not open anything there.
    assert signed_service.public().get("/status", headers=signature("GET", "/status")).status == 404


def test_the_documented_way_to_sign_in_a_shell_works(signed_service, name):
    with open(os.path.join(ROOT, "fcgi/http/signature.h"), encoding="utf-8") as file:
        shell = [line.removeprefix("//").strip() for line in file if line.startswith(("//   ts=$(", "//   message=$(", "//   sig=$("))]
    assert len(shell) == 3
    item = name("i")
    body = '{"id":"%s","title":"x","published_at":1}' % item
    script = f"""set -e; key={KEYS['k2']}; body='{body}'; {"; ".join(shell)}
        curl -fsS -H "Authorization: Freshet-HMAC-SHA256 kid=k2, ts=$ts, sig=$sig" -H 'Content-Type: application/x-ndjson' \
          --data-binary "$body" http://{signed_service.host}:{signed_service.internal_port}/api/items"""
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0 and '"accepted":1' in done.stdout, done


def test_freshetctl_signs_with_its_key(signed_service, name, tmp_path):
    item, file = name("i"), tmp_path / "items.ndjson"
    file.write_text('{"id":"%s","title":"x","published_at":1}\n' % item, encoding="utf-8")

    def tool(*more):
        return subprocess.run([CTL, "import", str(file), "--resume", str(tmp_path / "notes"), "-q", *more],
                              capture_output=True, text=True, check=False, timeout=480)

    base = ["--base", f"http://{signed_service.host}:{signed_service.internal_port}"]
    assert tool(*base).returncode != 0
    assert tool(*base, "--key", f"k1:{tmp_path}/nothing").returncode != 0
    # A key that is named, and the one of the configuration.
    for way in ([*base, "--key", f"k1:{signed_service.paths['k1']}"], ["--state", signed_service.state]):
        done = tool(*way)
        assert done.returncode == 0, done
        assert signed_service.redis("HGET", f"item:{{{item}}}", "title") == "x"
        assert signed_service.redis("DEL", f"item:{{{item}}}") == 1


def test_after_a_failed_reload_new_workers_accept_the_old_keys_only(instance):
    service = instance("--no-limits", **LONG_TIMEOUTS, pm__max_children=2)
    old, new = "the-old-key-of-sixteen", "the-new-key-of-sixteen"
    path = os.path.join(service.state, "etc/internal")

    def write(key):
        with open(path, "w", encoding="utf-8") as file:
            file.write(key + "\n")

    def accepts(key):
        return service.internal().get("/api/hot", headers=signature("GET", "/api/hot", key=key)).status == 200

    write(old)
    keys = {"identity__internal_keys": table({"k1": path})}
    service.configure(**keys)
    service.reload_and_drain()
    wait_until(lambda: accepts(old), "the key to be accepted")
    generation, workers = service.status()["generation"], service.workers()
    # The files are valid, but the workers find that this Redis lacks the module.
    write(new)
    service.configure(**keys, seen__filter='"redisbloom"')
    service.signal("freshetd", signal.SIGHUP)
    wait_until(lambda: service.status()["failed reloads"] == 1, "the reload to fail", 60)
    assert service.status()["generation"] == generation
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: len(set(service.workers()) - set(workers)) == 2, "new workers", 60)
    wait_until(lambda: accepts(old), "a new worker to serve", 60)
    for _ in range(20):  # either worker
        assert accepts(old) and not accepts(new)
    service.configure(**keys)
    service.reload()
    wait_until(lambda: accepts(new) and not accepts(old), "the new key to be accepted")

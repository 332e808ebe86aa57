"""INTEGRATION.md as a site would follow it: its session check behind PHP-FPM, and its signed requests in three languages."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

import pytest

from client import Client
from service import LONG_TIMEOUTS, ROOT, Instance, children, wait_until
from php_fpm import PHP_FPM

DOCUMENT = pathlib.Path(ROOT, "INTEGRATION.md").read_text(encoding="utf-8")
SECRET = "0123456789abcdef" * 4
FPM = """[global]
error_log = {folder}/php.log
[site]
listen = {folder}/php.sock
listen.mode = 0666
pm = static
pm.max_children = 2
php_admin_value[session.save_path] = {folder}
"""


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.M | re.S)


class Site:
    """An instance whose nginx uses the document's session.php. login.php stands in for the site's own login."""

    def __init__(self):
        self.service = Instance(**LONG_TIMEOUTS, identity__mode='"header"').start()
        self.folder = os.path.join(self.service.state, "site")
        os.mkdir(self.folder, 0o777)
        os.chmod(self.folder, 0o777)
        self.write("session.php", blocks("php")[0])
        self.write("login.php", "<?php session_start(); $_SESSION['user_id'] = $_SERVER['QUERY_STRING'];")
        self.write("fpm.conf", FPM.format(folder=self.folder))
        command = [PHP_FPM, "--nodaemonize", "--allow-to-run-as-root", "--fpm-config", os.path.join(self.folder, "fpm.conf")]
        if os.geteuid() == 0:
            command[:0] = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        self.php = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(os.path.join(self.folder, "php.sock")), "PHP-FPM")
        self.configure_nginx()

    def write(self, name, text):
        path = pathlib.Path(self.folder, name)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)

    def configure_nginx(self):
        nginx = pathlib.Path(self.service.state, "etc/nginx")
        location = blocks("nginx")[0].replace("/run/php/php-fpm.sock", f"{self.folder}/php.sock").replace("/var/www/", f"{self.folder}/")
        login = location.replace("/_freshet_who", "/login.php").replace("  internal;\n", "").replace("/session.php", "/login.php")
        login = login.replace("  error_page", "  fastcgi_param QUERY_STRING $query_string;\n  error_page")
        (nginx / "freshet-auth.conf").write_text(location + login, encoding="utf-8")
        steps = pathlib.Path(ROOT, "OPERATIONS.md").read_text(encoding="utf-8")
        edit = re.search(r"^sed -i ('.*') /etc/nginx/freshet/freshet-locations.conf$", steps, re.M)[1]
        subprocess.run(["bash", "-c", f"sed -i {edit} {nginx}/freshet-locations.conf"], check=True)
        old = set(children(self.service.pid("nginx")))
        self.service.signal("nginx", signal.SIGHUP)
        wait_until(lambda: not old & set(children(self.service.pid("nginx"))), "nginx's old processes to exit")
        wait_until(lambda: Client(self.service.host, self.service.port).get("/login.php?nobody").status == 200, "the site's login page")

    def stop(self):
        self.php.terminate()
        self.php.wait()
        self.service.stop()


@pytest.mark.skipif(not PHP_FPM, reason="php-fpm is not installed; ./scripts/deps test")
def test_the_sites_php_session_identifies_the_reader():
    site = Site()
    try:
        service = site.service
        service.put("hello", title="Hello")
        logged_in = service.public().get("/login.php?ann")
        cookie = {"Cookie": logged_in.headers["Set-Cookie"].split(";")[0]}
        assert service.public().post("/api/history", {"userId": "eve", "topicId": "hello"}, headers=cookie).status == 200
        assert service.internal().get("/api/history", query={"userId": "ann"}).json()["items"] == ["hello"]
        assert service.internal().get("/api/history", query={"userId": "eve"}).json()["items"] == []
        for headers in ({}, {"X-User-Id": "ann"}, {"Cookie": "PHPSESSID=forged"}):
            reply = service.public().get("/api/history", query={"userId": "ann"}, headers=headers)
            assert (reply.status, reply.json()["code"]) == (400, "bad_id"), headers
    finally:
        site.stop()


LANGUAGES = (("node", "mjs", "javascript"), ("php", "php", "php"), ("/usr/bin/python3", "py", "python"))


def example(folder, language, suffix, word):
    """Writes the document's example that contains `word` next to the client, in `folder`."""
    shutil.copytree(os.path.join(ROOT, "scripts/clients", language), folder, dirs_exist_ok=True)
    code = next(block for block in blocks({"javascript": "js"}.get(language, language)) if word in block)
    (folder / f"example.{suffix}").write_text(("<?php\n" if language == "php" else "") + code, encoding="utf-8")


def test_the_pages_of_every_language_are_rendered_with_and_without_the_service(service, tmp_path):
    service.put("rendered", title="<Rendered> & read", published_at=int(time.time()) - 60)
    assert service.internal().post("/api/views", {"articleId": "rendered", "fingerprint": "f", "publishedAt": int(time.time()) - 60}).status == 200
    wait_until(lambda: service.public().get("/api/hot").json(), "a hot list")
    for program, suffix, language in LANGUAGES:
        example(tmp_path / language, language, suffix, "page\"" if language != "php" else "'page'")

        def page(port):
            done = subprocess.run([program, f"example.{suffix}"], cwd=tmp_path / language, env=os.environ | {"FRESHET": f"http://{service.host}:{port}"},  # noqa: B023
                                  capture_output=True, text=True, timeout=240, check=True)
            return done.stdout, done.stderr

        wait_until(lambda: "Rendered" in page(service.port)[0] and "<Rendered" not in page(service.port)[0], "the page")  # noqa: B023
        html, log = page(1)  # refused
        assert html == "<ol></ol>\n" and "no hot list: the service is unreachable" in log, (language, html, log)


def test_signed_requests_of_every_language_are_accepted_and_wrong_signatures_refused(tmp_path):
    service = Instance(**LONG_TIMEOUTS)
    key = os.path.join(service.state, "etc/key")
    with open(key, "w", encoding="ascii") as file:
        file.write(SECRET)
    os.chmod(key, 0o644)
    service.configure(identity__internal_keys=f'{{ k1 = "{key}" }}')
    try:
        service.start()
        for program, suffix, language in LANGUAGES:
            folder = tmp_path / language
            example(folder, language, suffix, "FRESHET_SECRET")
            environment = os.environ | {"FRESHET": f"http://{service.host}:{service.internal_port}"}
            for secret, status in ((SECRET, 0), ("wrong" * 8, 1)):
                done = subprocess.run([program, f"example.{suffix}"], cwd=folder, env=environment | {"FRESHET_SECRET": secret},
                                      capture_output=True, text=True, timeout=240, check=False)
                assert (done.returncode != 0) == (status != 0), (language, done.stdout, done.stderr)
        assert service.internal().get("/api/items/from-php").status == 401
        wait_until(lambda: service.status()["recorder items"] == 3, "an item from each language")
    finally:
        service.stop()

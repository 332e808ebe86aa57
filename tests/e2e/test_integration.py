"""INTEGRATION.md as a site would follow it: each case's block, and its session check behind PHP-FPM. test_readme.py runs the
curl lines, tests/browser/list.test.mjs the pages of a static site."""

import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest

from client import Client
from service import CTL, LONG_TIMEOUTS, ROOT, Instance, children, wait_until
from php_fpm import PHP_FPM

sys.path.insert(0, os.path.join(ROOT, "scripts/clients/python"))
from freshet import Freshet, FreshetError, token  # noqa: E402

DOCUMENT = pathlib.Path(ROOT, "INTEGRATION.md").read_text(encoding="utf-8")
FPM = """[global]
error_log = {folder}/php.log
[site]
listen = {folder}/php.sock
listen.mode = 0666
pm = static
pm.max_children = 2
php_admin_value[session.save_path] = {folder}
"""


def block(language, word):
    """The document's first block in `language` that contains `word`."""
    return next(each for each in re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.M | re.S) if word in each)


class Site:
    """An instance whose nginx uses the document's session.php. login.php stands in for the site's own login."""

    def __init__(self):
        self.service = Instance(**LONG_TIMEOUTS, identity__mode='"header"').start()
        self.folder = os.path.join(self.service.state, "site")
        os.mkdir(self.folder, 0o777)
        os.chmod(self.folder, 0o777)
        self.write("session.php", block("php", "session_start"))
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
        location = block("nginx", "_freshet_who").replace("/run/php/php-fpm.sock", f"{self.folder}/php.sock").replace("/var/www/", f"{self.folder}/")
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


# --- The cases of the document ---------------------------------------------------------------------------------------------


def run(script, **options):
    return subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=240, check=True, **options).stdout


@pytest.fixture(scope="module")
def keyed():
    """An instance with the keys that the document makes."""
    patch = pytest.MonkeyPatch()
    service = Instance(**LONG_TIMEOUTS)
    etc = os.path.join(service.state, "etc")
    for folder in ("secrets", "conf.d", "import.d"):
        os.makedirs(os.path.join(etc, folder), exist_ok=True)
    script = block("bash", "openssl rand").replace("/etc/freshet/", f"{etc}/")
    script, commands = script.replace("umask 077", "umask 022"), "freshetd -t && systemctl restart freshet\n"
    assert script.endswith(commands)
    run(script.removesuffix(commands))
    patch.setenv("CREDENTIALS_DIRECTORY", f"{etc}/secrets")
    try:
        yield service.start()
    finally:
        patch.undo()
        service.stop()


def secret(service, name):
    return pathlib.Path(service.state, "etc/secrets", name).read_text(encoding="ascii").strip()


def test_the_keys_are_accepted_and_no_other(keyed):
    def whoami(key, **options):
        return Freshet(f"http://{keyed.host}:{keyed.internal_port}", key=("k1", key), **options).whoami()

    internal_key, token_key = (secret(keyed, name) for name in ("internal-key", "token-key"))
    assert whoami(internal_key) == {"key": "k1", "userId": None}
    bearer = {"Cookie": "freshet_token=" + token("k1", token_key, "ann")}
    assert whoami(internal_key, headers=bearer)["userId"] == "ann"
    with pytest.raises(FreshetError, match="not signed"):
        whoami(token_key)


def free_port():
    """Free on all addresses, since Node listens on all, and below the ports of outgoing connections."""
    while True:
        port = random.randrange(20000, 32000)
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::", port))
            return port


CASES = {
    "php": ("php example.php", "example.php", "php", "FreshetSite"),
    "javascript": ("node example.mjs", "example.mjs", "js", "express"),
    "python": ("/usr/bin/python3 -m flask --app example run --port {port}", "example.py", "python", "flask"),
}


class Example:
    """The document's example in a language, with another title for its post. In PHP a program that prints a page, otherwise a server."""

    def __init__(self, language, title, folder, environment):
        command, name, fence, word = CASES[language]
        shutil.copytree(os.path.join(ROOT, "scripts/clients", language), folder, dirs_exist_ok=True)
        (folder / name).write_text(block(fence, word).replace("A post", title), encoding="utf-8")
        if language == "javascript":
            (folder / "node_modules").symlink_to(os.path.join(ROOT, "tests/browser/node_modules"))
        self.port = free_port()
        self.command, self.folder, self.environment = command.format(port=self.port).split(), folder, os.environ | environment | {"PORT": str(self.port)}
        self.process = None if language == "php" else self._start(subprocess.DEVNULL)

    def _start(self, stdout):
        with open(self.folder / "log", "a", encoding="utf-8") as log:
            return subprocess.Popen(self.command, cwd=self.folder, env=self.environment, stdout=stdout, stderr=log, text=True)

    def page(self):
        """None while the server does not listen yet."""
        if not self.process:
            return self._start(subprocess.PIPE).communicate(timeout=240)[0]
        assert self.process.poll() is None, self.log()
        try:
            return Client("127.0.0.1", self.port).get("/posts/42").body.decode()
        except OSError:
            return None

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8")

    def stop(self):
        if self.process:
            self.process.terminate()
            self.process.wait()


@pytest.fixture
def start_example(tmp_path):
    examples = []

    def start(language, title, **environment):
        examples.append(Example(language, title, tmp_path / language, environment))
        return examples[-1]

    yield start
    for each in examples:
        each.stop()


@pytest.mark.parametrize("language", CASES)
def test_an_example_sends_its_post_and_shows_it(keyed, start_example, language):
    example = start_example(language, f"In {language}", FRESHET=f"http://{keyed.host}:{keyed.internal_port}",
                            FRESHET_KEY=secret(keyed, "internal-key"), FRESHET_TOKEN_KEY=secret(keyed, "token-key"))
    wait_until(lambda: f'<ol><li><a href="/posts/42">In {language}</a></li></ol>\n' in (example.page() or ""), "the post")
    assert """ data-freshet='{"article":"42"}'></script>""" in example.page()


def test_the_commands_that_start_an_example_give_it_the_keys(keyed):
    script = block("bash", "node app.mjs").replace("/etc/freshet/", f"{keyed.state}/etc/").replace("node app.mjs", "env")
    environment = dict(line.split("=", 1) for line in run(script).splitlines() if line.startswith(("FRESHET", "PORT")))
    assert environment["FRESHET"] == "http://127.0.0.1:8081" and environment["PORT"] == "3000"
    assert [environment["FRESHET_KEY"], environment["FRESHET_TOKEN_KEY"]] == [secret(keyed, "internal-key"), secret(keyed, "token-key")]


@pytest.mark.parametrize("failure", ["the service is unreachable", "signed"])
@pytest.mark.parametrize("language", CASES)
def test_an_example_shows_its_page_without_the_service_and_with_a_wrong_key(keyed, start_example, language, failure):
    port = keyed.internal_port if failure == "signed" else 1  # refused
    example = start_example(language, "No post", FRESHET=f"http://{keyed.host}:{port}", FRESHET_KEY="wrong" * 8, FRESHET_TOKEN_KEY="wrong" * 8)
    assert wait_until(example.page, "the page").endswith("</script><ol></ol>\n")
    wait_until(lambda: failure in example.log(), "the error")


UNIT = pathlib.Path(ROOT, "systemd/freshet-import@.service")


def test_the_feed_of_a_static_site_is_imported_as_its_unit_does(keyed, tmp_path):
    now = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() - 60))
    feed = tmp_path / "feed.xml"
    feed.write_text(f"""<rss version="2.0"><channel><title>Blog</title><link>https://www.example.org/</link>
      <item><title>From the feed</title><link>https://www.example.org/2026/caf%C3%A9/?ref=rss</link><pubDate>{now}</pubDate></item></channel></rss>""", encoding="utf-8")
    state = keyed.state
    first, *systemd = block("bash", "import.d").splitlines()
    assert all(line.startswith("systemctl ") and " freshet-import@blog." in line for line in systemd)
    run(first.replace("https://www.example.org/feed.xml", str(feed)).replace("/etc/freshet/", f"{state}/etc/"))
    command = re.search(r"^ExecStart=(.*)$", UNIT.read_text(encoding="utf-8"), re.M)[1].replace("%i", "blog").replace("/usr/bin/freshetctl", CTL)
    command = command.replace("--config /etc/freshet/freshet.toml", f"--state {state}").replace("/etc/freshet/", f"{state}/etc/")
    run(f"{command} --cache {tmp_path}", env=os.environ | {"CREDENTIALS_DIRECTORY": f"{state}/etc/secrets"})

    def listed():
        return [each for each in keyed.public().get("/api/hot?model=trending").json() if each.get("title") == "From the feed"]

    found = wait_until(listed, "the entry")[0]
    assert (found["id"], found["url"]) == ("/2026/café", "https://www.example.org/2026/caf%C3%A9/?ref=rss")


def test_the_keys_for_wordpress_are_printed(keyed):
    printed = run(block("bash", "tail").replace("/etc/freshet/", f"{keyed.state}/etc/"))
    assert secret(keyed, "internal-key") in printed and secret(keyed, "token-key") in printed

"""The peers, which a site could run instead. Each has a folder under peers/, its own nginx, and its own redis-server if
it needs one.
"""

import json
import os
import subprocess
import urllib.request
from dataclasses import dataclass

import procs  # adds tests/support to the path
import loopback
from php_fpm import PHP_FPM
from procs import ROOT, BenchError, Server, stopped_on_failure
from redis_server import RedisServer

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(HERE, "peers")

ORIGINAL_SCRIPT = os.path.join(PEERS, "seed", "track.lua")
EARLIER_SCRIPT = os.path.join(PEERS, "ours", "track.lua")  # Freshet's own, from the time when scripts updated the ranks
WORKER_PROCESSES = os.cpu_count() or 2  # processes of the echo server; as many as freshetd has
PHP_CHILDREN = 4  # 2, 4 and 8 with 32 connections on two cores: 7,000, 9,100 and 9,200 req/s; 189, 170 and 174 µs
LUA_MODULES = ("ndk_http_module.so", "ngx_http_lua_module.so")
MODULE_DIRECTORY = "/usr/lib/nginx/modules"


def script_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@dataclass
class Contender:
    """A URL of a deployment and the wrk script that sends requests to it.

    internal: the URL is on the deployment's internal server. counts_all: every report counts as a view.
    """
    name: str
    deployment: object
    path: str = "/"
    script: str = "get.lua"
    internal: bool = False
    counts_all: bool = False

    @property
    def url(self):
        host, port = self.deployment.address_of(self)
        return f"http://{host}:{port}{self.path}"


def check_titles(section, contenders, query="", body=None):
    """Adds a problem to the section if a page is empty or has items without titles."""
    for contender in contenders:
        request = urllib.request.Request(contender.url + query, body and json.dumps(body).encode(), {"Content-Type": "application/json"} if body else {})
        with urllib.request.urlopen(request, timeout=5) as reply:
            page = json.load(reply)
        items = page.get("data", page)["items"]
        if not items or not all(item.get("title") for item in items):
            section.problems.append(f"{contender.name}: a page of {len(items)} items, some without a title")


class Peer:
    """nginx, optionally with a worker and Redis, in its own directory. Configuration: peers/<name>/*.in."""

    def __init__(self, name, run_directory, tokens=None, with_redis=False, modules=(), folder=None):
        self.name = name
        self.run = os.path.join(run_directory, folder or name)
        os.makedirs(self.run)
        self._loopback = loopback.Loopback()
        self._address = self._loopback.host, loopback.PUBLIC
        self.redis = RedisServer(os.path.join(self.run, "redis")) if with_redis else None
        self._servers = {"redis": self.redis.server} if self.redis else {}
        self._tokens = {"RUN": self.run, "ADDRESS": "{}:{}".format(*self._address), "PEER": os.path.join(PEERS, name),
                        "USER": "user root;" if os.geteuid() == 0 else "",
                        "MODULES": "".join(f"load_module {MODULE_DIRECTORY}/{module};\n" for module in modules)}
        self._tokens.update(tokens or {})

    def load_scripts(self):
        """Loads the original script and our earlier one into Redis, and sets the tokens SEED_SHA and OURS_SHA for
        templates.
        """
        for token, path in (("SEED_SHA", ORIGINAL_SCRIPT), ("OURS_SHA", EARLIER_SCRIPT)):
            self._tokens[token] = self.redis.client.script_load(script_text(path))

    def render(self, template, target=None):
        """Replaces the tokens of a template. Returns the path of the result."""
        with open(os.path.join(PEERS, template), encoding="utf-8") as file:
            text = file.read()
        for token, value in self._tokens.items():
            text = text.replace(f"@{token}@", value)
        path = os.path.join(self.run, target or os.path.basename(template).removesuffix(".in"))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def add_worker(self, argv, socket_name):
        server = Server(self.name, argv, os.path.join(self.run, "worker.log"))
        self._servers["worker"] = server
        server.wait_for(os.path.join(self.run, socket_name))

    def start_nginx(self):
        config = self.render("nginx.conf.in")
        for part in ("http.conf.in", "server.conf.in"):
            self.render(os.path.join(self.name, part))
        argv = ["nginx", "-p", self.run, "-e", os.path.join(self.run, "nginx-error.log"), "-c", config]
        self._servers["nginx"] = Server(f"{self.name}'s nginx", argv, os.path.join(self.run, "nginx.log"))
        self._servers["nginx"].wait_for(self._address)
        return self

    def address_of(self, _contender):
        return self._address

    def queued_writes(self):
        return 0

    def redis_client(self):
        return self.redis.client if self.redis else None

    def groups(self):
        """{group name: pids}: the process tree of each server."""
        return {name: procs.process_tree(server.pid) for name, server in self._servers.items()}

    def master_pid(self):
        return self._servers["worker"].pid

    def ready_command(self, copy):
        """The command that starts a second worker with the same configuration and its socket in `copy`."""
        os.makedirs(copy, exist_ok=True)
        config = self.render(f"{self.name}/php-fpm.conf.in", "second.conf")
        with open(config, encoding="utf-8") as file:
            text = file.read().replace(self.run, copy)
        with open(config, "w", encoding="utf-8") as file:
            file.write(text)
        return php_command(config)

    def stop(self):
        for name in ("nginx", "worker"):
            if name in self._servers:
                self._servers[name].stop()
        if self.redis:
            self.redis.stop()
        self._loopback.close()


def nginx_static(run_directory):
    """nginx `return 200`: the lower bound."""
    with stopped_on_failure(Peer("nginx-static", run_directory)) as peer:
        return peer.start_nginx()


def libfcgi_echo(run_directory):
    """A libfcgi program that accepts a connection per request."""
    with stopped_on_failure(Peer("libfcgi-echo", run_directory)) as peer:
        program = os.path.join(peer.run, "echo")
        argv = ["cc", "-O2", "-o", program, os.path.join(PEERS, "libfcgi-echo", "echo.c"), "-l:libfcgi.a"]
        compiled = subprocess.run(argv, capture_output=True, text=True, check=False)
        if compiled.returncode != 0:
            raise BenchError(f"echo.c does not compile: {compiled.stderr}")
        peer.add_worker([program, os.path.join(peer.run, "echo.sock"), str(WORKER_PROCESSES)], "echo.sock")
        return peer.start_nginx()


def php_command(config):
    return [PHP_FPM, "--nodaemonize", "--fpm-config", config] + (["-R"] if os.geteuid() == 0 else [])


def php_fpm(run_directory, children=PHP_CHILDREN, name="php-fpm"):
    """PHP-FPM and phpredis with persistent connections. name: of its folder, so that several can run."""
    tokens = {"CHILDREN": str(children), "FPM_USER": "user = root\ngroup = root" if os.geteuid() == 0 else ""}
    with stopped_on_failure(Peer("php-fpm", run_directory, with_redis=True, tokens=tokens, folder=name)) as peer:
        peer.load_scripts()
        peer.add_worker(php_command(peer.render("php-fpm/php-fpm.conf.in")), "php-fpm.sock")
        return peer.start_nginx()


def nginx_lua(run_directory):
    """nginx, Lua and lua-nginx-redis with a connection pool, without FastCGI."""
    with stopped_on_failure(Peer("nginx-lua", run_directory, with_redis=True, modules=LUA_MODULES)) as peer:
        peer.load_scripts()
        return peer.start_nginx()

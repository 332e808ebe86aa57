"""The peers: what a site would run instead, each a folder under peers/, each with its own nginx and redis-server."""

import json
import os
import subprocess
import urllib.request
from dataclasses import dataclass

import procs  # which finds tests/support
import loopback
from procs import ROOT, BenchError, Server, stopped_on_failure
from redis_server import RedisServer

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(HERE, "peers")

SEED_SCRIPT = os.path.join(PEERS, "seed", "track.lua")
OUR_SCRIPT = os.path.join(PEERS, "ours", "track.lua")  # as it was when scripts ranked
WORKER_PROCESSES = os.cpu_count() or 2  # echo's: as many as freshetd has
PHP_CHILDREN = 4  # tried 2, 4, 8 at 32 connections on two cores: 7.0, 9.1, 9.2 k req/s; 189, 170, 174 µs
LUA_MODULES = ("ndk_http_module.so", "ngx_http_lua_module.so")
MODULE_DIRECTORY = "/usr/lib/nginx/modules"


def script_text(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@dataclass
class Contender:
    """One thing to measure: a URL of a deployment, and the wrk script that asks it.

    internal: it is on the deployment's internal server. counts_all: it counts every report as a view.
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
    """A page whose items have no titles is not the work that is measured: a problem of the section."""
    for contender in contenders:
        request = urllib.request.Request(contender.url + query, body and json.dumps(body).encode(), {"Content-Type": "application/json"} if body else {})
        with urllib.request.urlopen(request, timeout=5) as reply:
            page = json.load(reply)
        items = page.get("data", page)["items"]
        if not items or not all(item["title"] for item in items):
            section.problems.append(f"{contender.name}: {len(items)} items of a page, some without a title")


class Peer:
    """nginx, perhaps a worker, perhaps Redis, in a directory of their own. Configuration: peers/<name>/*.in."""

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
        """Loads the seed's script and ours into Redis; templates know them by the tokens SEED_SHA and OURS_SHA."""
        for token, path in (("SEED_SHA", SEED_SCRIPT), ("OURS_SHA", OUR_SCRIPT)):
            self._tokens[token] = self.redis.client.script_load(script_text(path))

    def render(self, template, target=None):
        """Fills the tokens of a template in; returns the path of the result."""
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
        """Group name → pids: the master of each part and all its descendants."""
        return {name: procs.family(server.pid) for name, server in self._servers.items()}

    def master_pid(self):
        return self._servers["worker"].pid

    def ready_command(self, copy):
        """The arguments that start a second worker of the same configuration whose socket lies under `copy`."""
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
    """nginx `return 200`: the floor."""
    with stopped_on_failure(Peer("nginx-static", run_directory)) as peer:
        return peer.start_nginx()


def libfcgi_echo(run_directory):
    """A libfcgi program that accepts once per request."""
    with stopped_on_failure(Peer("libfcgi-echo", run_directory)) as peer:
        program = os.path.join(peer.run, "echo")
        argv = ["cc", "-O2", "-o", program, os.path.join(PEERS, "libfcgi-echo", "echo.c"), "-l:libfcgi.a"]
        compiled = subprocess.run(argv, capture_output=True, text=True, check=False)
        if compiled.returncode != 0:
            raise BenchError(f"echo.c does not compile: {compiled.stderr}")
        peer.add_worker([program, os.path.join(peer.run, "echo.sock"), str(WORKER_PROCESSES)], "echo.sock")
        return peer.start_nginx()


def php_command(config):
    return ["php-fpm8.2", "--nodaemonize", "--fpm-config", config] + (["-R"] if os.geteuid() == 0 else [])


def php_fpm(run_directory, children=PHP_CHILDREN, name="php-fpm"):
    """PHP-FPM + phpredis, on a persistent connection. `name`: of its folder, when there are several."""
    tokens = {"CHILDREN": str(children), "FPM_USER": "user = root\ngroup = root" if os.geteuid() == 0 else ""}
    with stopped_on_failure(Peer("php-fpm", run_directory, with_redis=True, tokens=tokens, folder=name)) as peer:
        peer.load_scripts()
        peer.add_worker(php_command(peer.render("php-fpm/php-fpm.conf.in")), "php-fpm.sock")
        return peer.start_nginx()


def nginx_lua(run_directory):
    """nginx + Lua + lua-nginx-redis with a pool of kept connections: no FastCGI hop."""
    with stopped_on_failure(Peer("nginx-lua", run_directory, with_redis=True, modules=LUA_MODULES)) as peer:
        peer.load_scripts()
        return peer.start_nginx()

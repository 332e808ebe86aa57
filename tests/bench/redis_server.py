"""A private redis-server per contender, and the few commands the harness sends it."""

import os
import socket
import time

from procs import BenchError, Server, wait_until

# The persistence every contender gets. Rewrites are asked for between turns, never inside one.
CONFIG = """port 0
unixsocket {directory}/redis.sock
unixsocketperm 777
dir {directory}
appendonly yes
appendfsync everysec
auto-aof-rewrite-percentage 0
save ""
daemonize no
"""
REWRITE_LIMIT_S = 120
QUIET_S = 0.15


class RedisClient:
    """One blocking connection on a unix socket; replies become int, bytes, list or None, errors are raised."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._input = self._socket.makefile("rb")

    def close(self):
        self._input.close()
        self._socket.close()

    def run(self, *words):
        return self.run_all([words])[0]

    def run_all(self, commands):
        """Sends all commands in one pipeline and returns all replies."""
        self._socket.sendall(b"".join(map(_encode, commands)))
        return [self._reply() for _ in commands]

    def _reply(self):
        line = self._input.readline()
        kind, rest = line[:1], line[1:-2]
        if kind == b"+":
            return rest
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self._input.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self._reply() for _ in range(int(rest))]
        raise BenchError(f"Redis said {line!r}")

    def info(self, field, default=None):
        for line in self.run("INFO", "everything").decode().splitlines():
            if line.startswith(field + ":"):
                return line.partition(":")[2]
        if default is None:
            raise BenchError(f"Redis knows no {field}")
        return default


def _encode(words):
    parts = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class RedisServer:
    """A redis-server with the contenders' common persistence, on a unix socket in `directory`."""

    def __init__(self, directory):
        os.makedirs(directory, exist_ok=True)
        self.socket_path = os.path.join(directory, "redis.sock")
        config = os.path.join(directory, "redis.conf")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(directory=directory))
        self.server = Server("redis-server", ["redis-server", config], os.path.join(directory, "redis.log"))
        self.server.wait_for(self.socket_path)
        self.client = RedisClient(self.socket_path)

    def stop(self):
        self.client.close()
        self.server.stop()


def quiet(client):
    """Waits until no more writes come in: requests that wrk gave up at the end of a turn may still be under way."""
    def writes():
        return [client.info(f"cmdstat_{command}", "none") for command in ("evalsha", "zadd")]

    def idle():
        before = writes()
        time.sleep(QUIET_S)
        return writes() == before

    wait_until(idle, "Redis to be idle")


def empty(client):
    """Drops every key and shrinks the append-only file, so that each turn starts from the same state."""
    quiet(client)
    client.run("FLUSHALL", "SYNC")
    compact(client)


def compact(client):
    """Rewrites the append-only file and waits for it, so that no rewrite falls into a measured turn."""
    def idle():
        return client.info("aof_rewrite_in_progress") == "0" and client.info("aof_rewrite_scheduled") == "0"

    wait_until(idle, "Redis to finish rewriting", REWRITE_LIMIT_S)
    client.run("BGREWRITEAOF")
    wait_until(idle, "Redis to finish rewriting", REWRITE_LIMIT_S)


def sum_of_views(client):
    """The sum of all hot:pv:* counters: how many views the store has counted."""
    total, cursor = 0, b"0"
    while True:
        cursor, keys = client.run("SCAN", cursor, "MATCH", "hot:pv:*", "COUNT", 5000)
        if keys:
            total += sum(int(value or 0) for value in client.run("MGET", *keys))
        if cursor == b"0":
            return total

"""A private redis-server per contender, and the few commands the harness sends it."""

import os
import time

import redis
from procs import Server, wait_until

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
        self.client = redis.Redis(unix_socket_path=self.socket_path)

    def stop(self):
        self.client.close()
        self.server.stop()


def run_all(client, commands):
    """Sends all commands in one pipeline."""
    pipeline = client.pipeline(transaction=False)
    for words in commands:
        pipeline.execute_command(*words)
    pipeline.execute()


def quiet(client):
    """Waits until no more writes come in: requests that wrk gave up at the end of a turn may still be under way."""
    def writes():
        stats = client.info("commandstats")
        return [stats.get(f"cmdstat_{command}") for command in ("evalsha", "zadd")]

    def idle():
        before = writes()
        time.sleep(QUIET_S)
        return writes() == before

    wait_until(idle, "Redis to be idle")


def empty(client):
    """Drops every key and shrinks the append-only file, so that each turn starts from the same state."""
    quiet(client)
    client.flushall()
    compact(client)


def compact(client):
    """Rewrites the append-only file and waits for it, so that no rewrite falls into a measured turn."""
    def idle():
        persistence = client.info("persistence")
        return not persistence["aof_rewrite_in_progress"] and not persistence["aof_rewrite_scheduled"]

    wait_until(idle, "Redis to finish rewriting", REWRITE_LIMIT_S)
    client.bgrewriteaof()
    wait_until(idle, "Redis to finish rewriting", REWRITE_LIMIT_S)


def sum_of_views(client):
    """How many views the store has counted: pv of all hot:article:{id}, and all hot:pv:* of those who count as the seed does."""
    keys = list(client.scan_iter("hot:pv:*", count=5000))
    total = sum(int(value or 0) for first in range(0, len(keys), 5000) for value in client.mget(keys[first:first + 5000]))
    asked = client.pipeline(transaction=False)
    for key in client.scan_iter("hot:article:*", count=5000):
        asked.hget(key, "pv")
    return total + sum(int(value or 0) for value in asked.execute())

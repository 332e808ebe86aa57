"""A private redis-server for each contender, and commands that the harness sends to it."""

import os
import time

import redis
from procs import Server, wait_until

# All contenders have the same persistence. Rewrites of the append-only file are triggered between turns only.
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
IDLE_S = 0.15


class RedisServer:
    """A redis-server with CONFIG, on a Unix socket in `directory`."""

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
    for command in commands:
        pipeline.execute_command(*command)
    pipeline.execute()


def wait_until_idle(client):
    """Waits until no more writes arrive. Requests that wrk abandoned at the end of a turn may still be in flight."""
    def writes():
        stats = client.info("commandstats")
        return [stats.get(f"cmdstat_{command}") for command in ("evalsha", "zadd")]

    def is_idle():
        before = writes()
        time.sleep(IDLE_S)
        return writes() == before

    wait_until(is_idle, "Redis to be idle")


def flush(client):
    """Deletes all keys and shrinks the append-only file, so that each turn starts from the same state."""
    wait_until_idle(client)
    client.flushall()
    rewrite_aof(client)


def rewrite_aof(client):
    """Rewrites the append-only file and waits until it is finished, so that no turn includes a rewrite."""
    def is_finished():
        persistence = client.info("persistence")
        return not persistence["aof_rewrite_in_progress"] and not persistence["aof_rewrite_scheduled"]

    wait_until(is_finished, "Redis to finish rewriting", REWRITE_LIMIT_S)
    client.bgrewriteaof()
    wait_until(is_finished, "Redis to finish rewriting", REWRITE_LIMIT_S)


def total_views(client):
    """Number of counted views: the sum of pv in hot:article:{id} (Freshet) and of hot:pv:* (the original script and our
    earlier one).
    """
    keys = list(client.scan_iter("hot:pv:*", count=5000))
    total = sum(int(value or 0) for first in range(0, len(keys), 5000) for value in client.mget(keys[first:first + 5000]))
    pipeline = client.pipeline(transaction=False)
    for key in client.scan_iter("hot:article:*", count=5000):
        pipeline.hget(key, "pv")
    return total + sum(int(value or 0) for value in pipeline.execute())

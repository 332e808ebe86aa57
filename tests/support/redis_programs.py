"""The Redis server that tests start, and its command line tool: $FRESHET_REDIS_SERVER (such as /usr/bin/valkey-server) or redis-server."""

import os

REDIS_SERVER = os.environ.get("FRESHET_REDIS_SERVER") or "redis-server"
REDIS_CLI = REDIS_SERVER.removesuffix("-server") + "-cli"

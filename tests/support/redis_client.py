"""Commands for a Redis server, without starting redis-cli for each of them."""

import json
import os
import socket

TIMEOUT_S = 80


class RedisError(AssertionError):
    """An error reply, or no reply."""


def query(address, *command):
    """Runs a command on a new connection. address: (host, port), or the path of a unix socket. Returns the reply as
    `redis-cli --json` prints it, decoded."""
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    try:
        with socket.socket(family) as connection:
            connection.settimeout(TIMEOUT_S)
            connection.connect(address)
            connection.sendall(_encoded("HELLO", "3") + _encoded(*command))
            with connection.makefile("rb") as stream:
                _reply(stream)
                return _reply(stream)
    except (OSError, EOFError, RedisError) as error:
        raise RedisError(command, str(error)) from error


def _encoded(*words):
    parts = [os.fsencode(str(word)) for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)


def _reply(stream):
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError("the connection was closed")
    kind, text = line[:1], line[1:-2].decode(errors="replace")
    if kind == b"_" or text == "-1" and kind in b"$*":
        return None
    if kind in (b"$", b"="):
        value = stream.read(int(text) + 2)[:-2].decode(errors="replace")  # some values are binary
        return value if kind == b"$" else value[4:]
    if kind in (b"*", b"~"):
        return [_reply(stream) for _ in range(int(text))]
    if kind == b"%":
        return {_reply(stream): _reply(stream) for _ in range(int(text))}
    if kind == b"-":
        raise RedisError(text)
    if kind == b"#":
        return text == "t"
    return text if kind == b"+" else json.loads(text)  # an integer or a double

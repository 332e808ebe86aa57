"""Loopback addresses, each for one instance at a time, so that every instance can use the same ports."""

import random
import socket

PUBLIC, INTERNAL = 18080, 18081  # below the kernel's ephemeral port range
CLAIM = 18079  # binding it claims an address; nothing listens on it

_random = random.SystemRandom()  # not seeded: a test's seed would make all of them try the same addresses first


def try_bind(host, port, reuse=False):
    """Returns a socket bound to this address, or None if it is in use. again: also if its connections have only just been
    closed.
    """
    out = socket.socket()
    try:
        out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(reuse))
        out.bind((host, port))
        return out
    except OSError:
        out.close()
        return None


class Loopback:
    """An address that is reserved until close() or the end of this process, and on which no orphan of another run listens."""

    def __init__(self, ports=(PUBLIC, INTERNAL)):
        for _ in range(1000):
            self.host = f"127.{_random.randrange(1, 255)}.{_random.randrange(256)}.{_random.randrange(1, 255)}"
            self._claim = try_bind(self.host, CLAIM)
            if self._claim and all(self._is_free(port) for port in ports):
                return
            self.close()
        raise AssertionError(f"no loopback address has the ports {ports} free")

    def _is_free(self, port):
        probe = try_bind(self.host, port, reuse=True)
        if probe:
            probe.close()
        return probe is not None

    def close(self):
        if self._claim:
            self._claim.close()

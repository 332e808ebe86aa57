"""Addresses of the loopback network, each for one instance at a time: with one of its own everybody can have the same ports."""

import random
import socket

PUBLIC, INTERNAL = 18080, 18081  # below the range that the kernel gives out
CLAIM = 18079                    # whoever is bound to it has the address; nobody listens there

_dice = random.SystemRandom()  # a test's seed would send all of them to the same addresses first


def bound(host, port, again=False):
    """A socket with this address, or None when somebody has it. again: also when connections to it have just ended."""
    out = socket.socket()
    try:
        out.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(again))
        out.bind((host, port))
        return out
    except OSError:
        out.close()
        return None


class Loopback:
    """An address that nobody else claims until close() or the end of this process, and where no orphan of another run listens."""

    def __init__(self, ports=(PUBLIC, INTERNAL)):
        for _ in range(1000):
            self.host = f"127.{_dice.randrange(1, 255)}.{_dice.randrange(256)}.{_dice.randrange(1, 255)}"
            self._claim = bound(self.host, CLAIM)
            if self._claim and all(self._is_free(port) for port in ports):
                return
            self.close()
        raise AssertionError(f"no loopback address has the ports {ports} free")

    def _is_free(self, port):
        probe = bound(self.host, port, again=True)
        if probe:
            probe.close()
        return probe is not None

    def close(self):
        if self._claim:
            self._claim.close()

"""A minimal FastCGI client for the workers' socket, for well-formed and malformed requests."""

import socket
import struct

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT = 1, 2, 3, 4, 5, 6


def record(kind, content=b"", request=1):
    return struct.pack(">BBHHBB", 1, kind, request, len(content), 0, 0) + content


def stream(kind, content):
    chunks = [content[at:at + 65535] for at in range(0, len(content), 65535)]
    return b"".join(record(kind, chunk) for chunk in chunks) + record(kind)


def _length(size):
    return bytes([size]) if size < 128 else struct.pack(">I", size | 0x80000000)


def request(method="GET", uri="/ping", body=b"", keep=True, zone="internal", **params):
    fields = {"REQUEST_METHOD": method, "REQUEST_URI": uri, "CONTENT_LENGTH": str(len(body)), "REMOTE_ADDR": "127.0.0.1",
              "HTTP_USER_AGENT": "Mozilla/5.0 Firefox/120.0", "FRESHET_ZONE": zone, "FRESHET_REQUEST_ID": "e2e"}
    if body:
        fields["CONTENT_TYPE"] = "application/json"
    pairs = b""
    for key, value in (fields | params).items():
        key, value = key.encode(), value if isinstance(value, bytes) else value.encode()
        pairs += _length(len(key)) + _length(len(value)) + key + value
    return record(BEGIN, struct.pack(">HB5x", 1, 1 if keep else 0)) + stream(PARAMS, pairs) + stream(STDIN, body)


class Connection:
    def __init__(self, path, timeout=10):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self._got = b""

    def send(self, data):
        self.socket.sendall(data)

    def reply(self):
        """(status, body) of the next reply, or None if the peer closed the connection first."""
        out = b""
        while True:
            while len(self._got) >= 8:
                _, kind, _, size, padding, _ = struct.unpack(">BBHHBB", self._got[:8])
                if len(self._got) < 8 + size + padding:
                    break
                content, self._got = self._got[8:8 + size], self._got[8 + size + padding:]
                if kind == STDOUT:
                    out += content
                elif kind == END:
                    head, _, body = out.partition(b"\r\n\r\n")
                    lines = dict(line.split(b": ", 1) for line in head.split(b"\r\n"))
                    return int(lines.get(b"Status", b"200").split()[0]), body
            more = self.socket.recv(65536)
            if not more:
                return None
            self._got += more

    def request(self, **fields):
        self.send(request(**fields))
        return self.reply()

    def closed_by_peer(self, within_s):
        """Waits at most `within_s`, discarding data. Returns whether the peer closed the connection."""
        self.socket.settimeout(within_s)
        try:
            while self.socket.recv(65536):
                pass
            return True
        except ConnectionResetError:
            return True
        except TimeoutError:
            return False

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

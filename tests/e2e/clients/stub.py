"""A loopback server for the clients' tests. Sends scripted answers, including the ways in which servers fail, and records
the raw bytes of each request."""

import json
import selectors
import socket
import struct
import threading
import time

PATIENCE_S = 60  # after that, a client that should have given up is disconnected
DRIP_S = 0.05


class Request:
    def __init__(self, connection, head):
        lines = head.decode("latin-1").split("\r\n")
        self.connection, self.body = connection, b""
        self.at = self.answered_at = time.monotonic()
        self.method, self.target, _ = lines[0].split(" ")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        self.size = int(self.headers.get("content-length", 0))


class Stub:
    """Listens on one port per script. A script is a list of answers, one per request. An answer has the members
    `json` or `text`, `status`, `headers` and `delay_ms`; or `fault`, one of those in _fail(). The member `then` is "close" if
    the server closes the connection after the reply. A request that the script does not expect gets 500.

    `script` may also be a function that takes a Request and returns the answer.
    """

    def __init__(self):
        self._selector = selectors.DefaultSelector()
        self._listeners, self._lock, self._connections = [], threading.Lock(), 0
        self._wake, wake = socket.socketpair()
        self._selector.register(wake, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def add(self, script, refuse=None):
        """Returns (port, requests): the port that answers as scripted, and the list of requests that will arrive there. `refuse`:
        "connections" gets an error, "silently" none, as from a host that is down."""
        listener, requests = socket.socket(), []
        listener.bind(("127.0.0.1", 0))
        self._listeners.append(listener)
        if refuse == "silently":  # the queue of connections to accept is full
            listener.listen(0)
            self._listeners.append(socket.create_connection(listener.getsockname()))
        elif not refuse:  # a bound socket that does not listen refuses connections, and the port stays reserved
            listener.listen(64)
            self._selector.register(listener, selectors.EVENT_READ, (script, requests))
        return listener.getsockname()[1], requests

    def close(self):
        self._wake.close()
        self._thread.join()
        for listener in self._listeners:
            listener.close()

    def _accept(self):
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                client, _ = key.fileobj.accept()
                client.settimeout(PATIENCE_S)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connections += 1
                threading.Thread(target=self._serve, args=(client, self._connections, *key.data), daemon=True).start()

    def _serve(self, client, number, script, requests):
        with client:
            try:
                received = b""
                while True:
                    while b"\r\n\r\n" not in received:
                        more = client.recv(65536)
                        if not more:
                            return
                        received += more
                        if received[0] == 0x16:  # the first byte of a TLS handshake
                            requests.append("TLS")
                            return
                    head, _, received = received.partition(b"\r\n\r\n")
                    request = Request(number, head)
                    while len(received) < request.size:
                        more = client.recv(65536)
                        if not more:
                            return
                        received += more
                    request.body, received = received[:request.size], received[request.size:]
                    with self._lock:
                        requests.append(request)
                        turn = len(requests) - 1
                    if callable(script):
                        answer = script(request)
                    else:
                        answer = script[turn] if turn < len(script) else {"status": 500, "json": {"msg": "unexpected request"}}
                    if not _reply(client, request, answer):
                        return
            except OSError:
                pass  # the client gave up


def _reply(client, request, answer):
    """Returns whether the connection may be used for another request."""
    if "fault" in answer:
        _fail(client, answer["fault"])
        return False
    time.sleep(answer.get("delay_ms", 0) / 1000)
    request.answered_at = time.monotonic()
    client.sendall(_message(answer))
    return answer.get("then") != "close"


def _message(answer):
    text = json.dumps(answer["json"]).encode() if "json" in answer else answer.get("text", "").encode("latin-1")
    status = answer.get("status", 200)
    headers = {"Content-Type": "application/json" if status < 400 else "application/problem+json", "Content-Length": str(len(text))}
    headers |= answer.get("headers", {})
    if "Transfer-Encoding" in headers:
        del headers["Content-Length"]
    if status == 204:
        headers = {}
    return (f"HTTP/1.1 {status} Reason\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n").encode() + text


def _fail(client, fault):
    message = _message({"json": {"items": ["lost"] * 20}})
    half = len(message) - 40
    if fault == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif fault == "garbage":
        client.sendall(b"\x00\xff\x16 not HTTP\r\n\r\n{}")
    elif fault == "cut":
        client.sendall(message[:half])
    elif fault == "cut_head":
        client.sendall(message[:30])
    elif fault == "hang":
        _stale(client, message)
    elif fault == "stall":
        client.sendall(message[:half])
        _stale(client, message[half:])
    elif fault == "drip":
        client.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            client.sendall(b"x")
            time.sleep(DRIP_S)
    else:
        assert fault == "close", fault


def _stale(client, message):
    """Waits until the client has given up. A client that uses the connection again gets the reply to the earlier request."""
    if client.recv(1):
        client.sendall(message)

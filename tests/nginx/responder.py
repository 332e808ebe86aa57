"""A FastCGI responder that echoes what it receives, for the tests of the nginx configuration.

The JSON reply contains the parameters, the body's length and a serial number. Words in the query change the behavior:
  die-once      closes the connection at the first request
  die-six       closes the connection at each of the first six requests
  answers-once  closes the connection at every request but the first
  hang          never answers
  big           adds 2 KiB to the reply
  huge          adds 16 MiB to the reply
  head          adds a header of 7 KiB
  absent        answers 404
  denied        answers 403
  limited       answers 429
  model         lets nginx send the model file instead (X-Accel-Redirect)
  cached        lets a hot list be cached for a minute rather than a second
The responder runs in its own thread.
"""

import asyncio
import collections
import json
import os
import struct
import threading

_BEGIN, _PARAMS, _STDIN, _STDOUT, _END = 1, 4, 5, 6, 3


class Responder:
    def __init__(self, path):
        self.path = path
        self.requests = []  # parameters of every request, in order of arrival
        self.connections = 0  # open now
        self._died = collections.Counter()
        self._answered = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait()

    def close(self):
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join()

    def _run(self):
        self._loop.run_until_complete(self._serve())
        self._loop.close()

    async def _serve(self):
        self._stopped = asyncio.Event()
        server = await asyncio.start_unix_server(self._connection, self.path, backlog=1024)
        os.chmod(self.path, 0o777)
        self._ready.set()
        await self._stopped.wait()
        server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # the transports close in the loop's next iteration

    async def _connection(self, reader, writer):
        self.connections += 1
        try:
            while await self._request(reader, writer):
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.connections -= 1
            writer.close()

    async def _request(self, reader, writer):
        """Reads and answers one request. False if the connection must be closed."""
        encoded, length = b"", 0
        while True:
            _, kind, number, size, padding, _ = struct.unpack(">BBHHBB", await reader.readexactly(8))
            content = (await reader.readexactly(size + padding))[:size]
            if kind == _PARAMS:
                encoded += content
            elif kind == _STDIN and content:
                length += len(content)
            elif kind == _STDIN:
                break
        params = _decode(encoded)
        self.requests.append(params)
        uri = params["REQUEST_URI"]
        if self._died[uri] < (1 if "die-once" in uri else 6 if "die-six" in uri else 0):
            self._died[uri] += 1
            return False
        if "answers-once" in uri and uri in self._answered:
            return False
        self._answered.add(uri)
        if "hang" in uri:
            await reader.read()
            return False
        writer.write(_reply(number, dict(params, body=length, serial=len(self.requests)), uri))
        return True


def _reply(number, facts, uri):
    head = "Content-Type: application/json\r\nX-Request-Id: the-worker's-own\r\n"
    head += "Status: 404\r\n" if "absent" in uri else "Status: 403\r\n" if "denied" in uri else "Status: 429\r\n" if "limited" in uri else ""
    if "/api/hot" in uri:
        head += ('Cache-Control: public, max-age=1, stale-while-revalidate=60\r\nETag: "one"\r\nSet-Cookie: visitor=1\r\n'
                 f'X-Accel-Expires: {60 if "cached" in uri else 1}\r\n')
    if uri.endswith("?model"):
        head += "X-Accel-Redirect: /freshet.model\r\n"
    if "head" in uri:
        head += f"X-Long: {'x' * 7168}\r\n"
    body = json.dumps(facts) + " " * (2048 if "big" in uri else 16 << 20 if "huge" in uri else 0)
    content = f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode()
    records = [content[at:at + 65535] for at in range(0, len(content), 65535)]
    return (b"".join(struct.pack(">BBHHBB", 1, _STDOUT, number, len(each), 0, 0) + each for each in records)
            + struct.pack(">BBHHBB", 1, _END, number, 8, 0, 0) + bytes(8))


def _decode(encoded):
    params, at = {}, 0
    while at < len(encoded):
        sizes = []
        for _ in range(2):
            if encoded[at] < 128:
                sizes.append(encoded[at])
                at += 1
            else:
                sizes.append(struct.unpack(">I", encoded[at:at + 4])[0] & 0x7FFFFFFF)
                at += 4
        name, value = encoded[at:at + sizes[0]], encoded[at + sizes[0]:at + sum(sizes)]
        params[name.decode()] = value.decode("latin-1")
        at += sum(sizes)
    return params

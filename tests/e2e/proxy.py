"""A TCP proxy between the service and Redis that delays or fragments replies, holds them back, or resets connections
mid-reply.

    with Proxy(os.path.join(state, "run/redis.sock"), seed=1) as proxy:  # redis.url = proxy.url
        proxy.set(delay_s=(0.01, 0.04))                                  # from now on, on every connection
        proxy.set(chunk=1, chunk_pause_s=0.0002, reset_chance=0.01)
        proxy.set()                                                      # no impairment
"""

import asyncio
import dataclasses
import random
import re
import socket
import struct
import threading

READ_BYTES = 65536


@dataclasses.dataclass(frozen=True)
class Impairment:
    """delay_s: (min, max) delay of each read of a reply.
    chunk: replies are sent in chunks of this size, with chunk_pause_s between them; 0 sends them whole.
    reset_chance: probability, for each read of a reply, of an RST in the middle of it.
    stalled: replies are held back until this changes.
    refuse: new connections are reset immediately.
    version: INFO reports this version of Redis, such as "5.0.1", and no Valkey. It must be as long as the real one.
    """
    delay_s: tuple = (0.0, 0.0)
    chunk: int = 0
    chunk_pause_s: float = 0.0
    reset_chance: float = 0.0
    stalled: bool = False
    refuse: bool = False
    version: str = ""


class Proxy:
    """upstream: path of a unix socket, or a port on the loopback address. Runs its own event loop in a thread."""

    def __init__(self, upstream, seed=0):
        self.connections = self.resets = self.delayed = self.chunks = 0  # totals since the start
        self._upstream, self._random = upstream, random.Random(seed)
        self._impairment, self._open = Impairment(), {}  # (client, redis) → the task that forwards between them
        self._server = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._server.setblocking(False)
        self.port = self._server.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}"
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def set(self, **impairment):
        """Replaces the impairment of all connections. Parameters that are not given are off."""
        new = Impairment(**impairment)

        def change():
            self._impairment = new
        self._run_in_loop(change)

    def reset_all(self):
        """Resets every connection with an RST now."""
        self._run_in_loop(lambda: [task.cancel() for task in self._open.values()])

    # --- in the proxy's thread

    def _run_in_loop(self, work):
        done = threading.Event()

        def run():
            work()
            done.set()
        self._loop.call_soon_threadsafe(run)
        assert done.wait(10), "the proxy's event loop is stuck"

    def _run(self):
        asyncio.set_event_loop(self._loop)
        accepting = self._loop.create_task(self._accept())
        self._loop.run_forever()
        tasks = [task for task in asyncio.all_tasks(self._loop) if not task.done()]
        for task in (accepting, *tasks):
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._server.close()
        for pair in list(self._open):
            self._reset(*pair)
        self._loop.close()

    async def _accept(self):
        while True:
            client, _ = await self._loop.sock_accept(self._server)
            self.connections += 1
            self._loop.create_task(self._forward(client))

    async def _forward(self, client):
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        redis = socket.socket(socket.AF_UNIX if isinstance(self._upstream, str) else socket.AF_INET)
        redis.setblocking(False)
        pair = (client, redis)
        self._open[pair] = asyncio.current_task()
        try:
            if self._impairment.refuse:
                return
            await self._loop.sock_connect(redis, self._upstream if isinstance(self._upstream, str) else ("127.0.0.1", self._upstream))
            replies = asyncio.Queue()
            tasks = [self._loop.create_task(task) for task in (self._commands(client, redis), self._read(redis, replies), self._reply(replies, client))]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        except OSError:
            pass  # one side is gone, so the other is closed too
        finally:
            self._reset(*pair)

    async def _commands(self, client, redis):
        while data := await self._loop.sock_recv(client, READ_BYTES):
            await self._loop.sock_sendall(redis, data)

    async def _read(self, redis, replies):
        """Queues each piece with its own due time, so that a delay adds latency and does not limit the throughput."""
        due = 0.0
        while data := await self._loop.sock_recv(redis, READ_BYTES):
            low, high = self._impairment.delay_s
            self.delayed += high > 0
            due = max(due, self._loop.time() + self._random.uniform(low, high))
            replies.put_nowait((due, data))

    async def _reply(self, replies, client):
        while True:
            due, data = await replies.get()
            await asyncio.sleep(due - self._loop.time())
            while self._impairment.stalled:
                await asyncio.sleep(0.01)
            impairment = self._impairment
            if impairment.reset_chance > 0 and self._random.random() < impairment.reset_chance:
                self.resets += 1
                await self._loop.sock_sendall(client, data[:self._random.randrange(len(data))])
                await asyncio.sleep(0.001)  # lets the client read the partial reply before the RST
                return
            if impairment.version:
                data = re.sub(rb"(?<=redis_version:)[0-9.]+", impairment.version.encode(), data)
                data = data.replace(b"\r\nvalkey_version:", b"\r\nhidden_version:")
            size = impairment.chunk or len(data)
            for start in range(0, len(data), size):
                await self._loop.sock_sendall(client, data[start:start + size])
                if impairment.chunk:
                    self.chunks += 1
                    await asyncio.sleep(impairment.chunk_pause_s)

    def _reset(self, client, redis):
        """Sends an RST to the client and closes the connection to Redis normally."""
        self._open.pop((client, redis), None)
        if client.fileno() >= 0:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        redis.close()

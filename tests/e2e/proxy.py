"""A TCP proxy between the service and Redis that is slow, cuts what passes into pieces, swallows it or breaks off in mid-reply.

    with Proxy(os.path.join(state, "run/redis.sock"), seed=1) as proxy:  # redis.url = proxy.url
        proxy.set(delay_s=(0.01, 0.04))                                  # from now on, on every connection
        proxy.set(chunk=1, chunk_pause_s=0.0002, reset_chance=0.01)
        proxy.set()                                                      # well again
"""

import asyncio
import dataclasses
import random
import socket
import struct
import threading

READ_BYTES = 65536


@dataclasses.dataclass(frozen=True)
class Harm:
    """delay_s: what each read of a reply waits, (least, most). chunk: replies leave in pieces of so many bytes (0: whole), with a pause
    between them. reset_chance: of each read of a reply, to end in mid-reply with an RST. stalled: replies are held back until that changes.
    refuse: new connections are reset at once."""
    delay_s: tuple = (0.0, 0.0)
    chunk: int = 0
    chunk_pause_s: float = 0.0
    reset_chance: float = 0.0
    stalled: bool = False
    refuse: bool = False


class Proxy:
    """upstream: the path of a unix socket, or a port of the loopback address. Its own loop, in a thread of its own."""

    def __init__(self, upstream, seed=0):
        self.connections = self.resets = self.delayed = self.chunks = 0  # since the start
        self._upstream, self._dice = upstream, random.Random(seed)
        self._harm, self._open = Harm(), {}  # (client, redis) → the task that carries it
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

    def set(self, **harm):
        """What is done from now on; what is not named is not done."""
        new = Harm(**harm)

        def change():
            self._harm = new
        self._soon(change)

    def reset_all(self):
        """Ends every connection with an RST now."""
        self._soon(lambda: [task.cancel() for task in self._open.values()])

    # --- in the thread

    def _soon(self, work):
        done = threading.Event()

        def run():
            work()
            done.set()
        self._loop.call_soon_threadsafe(run)
        assert done.wait(10), "the proxy's loop does not turn"

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
            self._loop.create_task(self._carry(client))

    async def _carry(self, client):
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        redis = socket.socket(socket.AF_UNIX if isinstance(self._upstream, str) else socket.AF_INET)
        redis.setblocking(False)
        pair = (client, redis)
        self._open[pair] = asyncio.current_task()
        try:
            if self._harm.refuse:
                return
            await self._loop.sock_connect(redis, self._upstream if isinstance(self._upstream, str) else ("127.0.0.1", self._upstream))
            replies = asyncio.Queue()
            ways = [self._loop.create_task(way) for way in (self._commands(client, redis), self._read(redis, replies), self._reply(replies, client))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            pass  # one of the two is gone: so is the other
        finally:
            self._reset(*pair)

    async def _commands(self, client, redis):
        while data := await self._loop.sock_recv(client, READ_BYTES):
            await self._loop.sock_sendall(redis, data)

    async def _read(self, redis, replies):
        """What was read at different moments waits side by side, so a delay is a latency and no limit of the rate."""
        due = 0.0
        while data := await self._loop.sock_recv(redis, READ_BYTES):
            least, most = self._harm.delay_s
            self.delayed += most > 0
            due = max(due, self._loop.time() + self._dice.uniform(least, most))
            replies.put_nowait((due, data))

    async def _reply(self, replies, client):
        while True:
            due, data = await replies.get()
            await asyncio.sleep(due - self._loop.time())
            while self._harm.stalled:
                await asyncio.sleep(0.01)
            harm = self._harm
            if harm.reset_chance > 0 and self._dice.random() < harm.reset_chance:
                self.resets += 1
                await self._loop.sock_sendall(client, data[:self._dice.randrange(len(data))])
                await asyncio.sleep(0.001)  # the part is read before the end of it is known
                return
            piece = harm.chunk or len(data)
            for at in range(0, len(data), piece):
                await self._loop.sock_sendall(client, data[at:at + piece])
                if harm.chunk:
                    self.chunks += 1
                    await asyncio.sleep(harm.chunk_pause_s)

    def _reset(self, client, redis):
        """An RST to whoever asked; Redis sees an ordinary end."""
        self._open.pop((client, redis), None)
        if client.fileno() >= 0:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        redis.close()

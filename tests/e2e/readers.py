"""Simulated readers that report and read under load, and record which events the service must have counted."""

import threading
import time

from service import wait_until


class Readers:
    """Reports events with event ids, each from its own reader and session, spread over articles. Remembers those that were
    acknowledged.
    """

    def __init__(self, instance, name, articles=5):
        self.articles = [name("a") for _ in range(articles)]
        self.acknowledged = {article: [] for article in self.articles}
        self.statuses, self.slowest_s = set(), 0.0
        self._instance, self._lock = instance, threading.Lock()

    def report(self, client, turn):
        """One event, repeated with the same event id until it is acknowledged, as a page would retry."""
        article, dwell = self.articles[turn % len(self.articles)], turn % 1000
        event = f"e{turn}"
        deadline = time.monotonic() + 60
        while True:
            reply = client.track(article, dwell, userId=f"u{turn}", sessionId=f"s{turn}", eventId=event)
            with self._lock:
                self.statuses.add(reply.status)
                self.slowest_s = max(self.slowest_s, reply.seconds)
                if reply.status in (200, 202):
                    self.acknowledged[article].append(dwell)
                    return reply.status
            assert reply.status in (502, 503, 504), reply
            assert time.monotonic() < deadline, "never acknowledged"
            time.sleep(0.01)  # the pace of a client that was told to retry

    def counted(self):
        return {article: tuple(int(value or 0) for value in self._instance.redis("HMGET", f"hot:article:{{{article}}}", "pv", "ms"))
                for article in self.articles}

    def expected(self):
        return {article: (len(dwells), sum(dwells)) for article, dwells in self.acknowledged.items()}

    def assert_counted_once(self):
        def settled():
            return self._instance.status()["spooled bytes"] == 0 and self.counted() == self.expected()
        try:
            wait_until(settled, "the spool to be replayed", 30)
        except AssertionError:
            assert self.counted() == self.expected(), (self.counted(), self.expected(), self._instance.status())
            raise
        assert sum(len(dwells) for dwells in self.acknowledged.values()) > 50


def known_items(instance, name, count=20):
    """{id: title} of new items, so that each GET reply can be verified."""
    client, titles = instance.internal(), {}
    for _ in range(count):
        item = name("i")
        titles[item] = f"about {item}"
        body = {"title": titles[item], "published_at": int(time.time())}
        # With the shipped timeouts, Redis on a busy machine may be too slow for one of them.
        wait_until(lambda item=item, body=body: client.put(f"/api/items/{item}", body).status == 200, "the item to be written")
    return titles


def read_items(titles, allowed=(200,)):
    """A load that reads known items and verifies that each reply belongs to the requested item."""
    ids = list(titles)

    def work(client, turn):
        item = ids[turn % len(ids)]
        reply = client.get(f"/api/items/{item}")
        assert reply.status in allowed, reply
        if reply.status == 200:
            got = reply.json()
            assert (got["id"], got["title"]) == (item, titles[item]), "the reply belongs to another item"
        return reply

    return work


def mixed_load(instance, name):
    titles, readers = known_items(instance, name), Readers(instance, name)
    reads = read_items(titles)

    def work(client, turn):
        if turn % 2:
            return reads(client, turn).status
        return readers.report(client, turn)

    return readers, work

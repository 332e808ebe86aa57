"""Data that the recorder of an instance has stored, read with independent tools: sqlite3 and xapian-delve."""

import os
import signal
import sqlite3
import subprocess
import threading

from service import wait_until


class RecorderData:
    def __init__(self, instance):
        self.database = os.path.join(instance.state, "record/freshet.db")
        self.index = os.path.join(instance.state, "record/index")
        self._instance = instance

    def connect(self):
        # The recorder briefly locks the database when it opens or checkpoints it.
        return sqlite3.connect(f"file:{self.database}?mode=rw", uri=True, timeout=30, isolation_level=None)

    def titles(self):
        """{id: title} of the items in the database."""
        connection = self.connect()
        try:
            return dict(connection.execute("SELECT id, title FROM items"))
        finally:
            connection.close()

    def _count(self):
        connection = self.connect()
        try:
            return connection.execute("SELECT count(*) FROM items").fetchone()[0]
        finally:
            connection.close()

    def indexed_ids(self):
        """Ids of the items in the index."""
        done = subprocess.run(["xapian-delve", "-1", "-A", "Q", self.index], capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, done.stderr
        return {line.split()[0][1:] for line in done.stdout.splitlines() if line.startswith("Q")}

    def make_read_only(self):
        """Makes the database and its directory read-only, and restarts the recorder so that it opens them that way."""
        self._set_modes(0o444, 0o555)
        before = self._instance.recorder()
        os.kill(before, signal.SIGKILL)  # it could still write to files that it has open
        wait_until(lambda: self._instance.recorder() not in (None, before), "a new recorder")

    def make_writable(self):
        self._set_modes(0o600, 0o755)

    def _set_modes(self, file_mode, directory_mode):
        directory = os.path.dirname(self.database)
        for file in os.listdir(directory):
            if file.startswith("freshet.db"):
                os.chmod(os.path.join(directory, file), file_mode)
        os.chmod(directory, directory_mode)

    def wait_for(self, titles, limit_s=30.0):
        """Waits until the database and the index hold exactly these items."""
        def settled():
            try:
                return self._count() == len(titles) and self.titles() == titles and self.indexed_ids() == set(titles)
            except (sqlite3.Error, AssertionError):  # not created yet, or a commit is in progress
                return False
        try:
            wait_until(settled, "the recorder to catch up", limit_s)
        except AssertionError:
            assert self.titles() == titles
            assert self.indexed_ids() == set(titles)
            raise

    def wait_until_indexed(self, items, limit_s=30.0):
        """Waits until the index holds these items; it may hold others."""
        def is_indexed():
            try:
                return self.indexed_ids() >= set(items)
            except AssertionError:  # as in wait_for()
                return False
        wait_until(is_indexed, "the items to be indexed", limit_s)

    def wait_for_state(self, state, reason=None):
        """Waits for this recorder state (and reason) in /status. Returns the status."""
        def reached():
            status = self._instance.status()
            return status if status["recorder"] == state and reason in (None, status["recorder reason"]) else None
        return wait_until(reached, f"recorder state {state} {reason or ''}", 30)


class Writers:
    """A load of PUTs and DELETEs; each item is written by one writer. `expected` holds the acknowledged items, which must
    not be lost.
    """

    def __init__(self, name, refusals=(502, 503, 504)):
        self.expected, self._name, self._refusals, self._lock = {}, name, refusals, threading.Lock()
        self.refused = 0

    def write(self, client, turn):
        item, title = self._name("w"), f"title {turn}"
        if not self._retry(lambda: client.put(f"/api/items/{item}", {"title": title, "published_at": 1700000000 + turn})):
            return None
        with self._lock:
            self.expected[item] = title
        if turn % 10 == 9 and self._retry(lambda: client.delete(f"/api/items/{item}")):
            with self._lock:
                del self.expected[item]
        return item

    def _retry(self, send):
        """Retries until acknowledged, as a site's back end would. A failed attempt may or may not have been applied."""
        for _ in range(2000):
            try:
                reply = send()
            except OSError:
                reply = None
            if reply is not None and reply.status == 200:
                return True
            assert reply is None or reply.status in self._refusals, reply
            self.refused += 1
            threading.Event().wait(0.02)
        raise AssertionError("never acknowledged")

"""What the recorder keeps of an instance, read as a stranger would: with sqlite3 and with Xapian's own tool."""

import os
import signal
import sqlite3
import subprocess
import threading

from service import wait_until


class Recorded:
    def __init__(self, instance):
        self.database = os.path.join(instance.state, "record/freshet.db")
        self.index = os.path.join(instance.state, "record/index")
        self._instance = instance

    def connect(self):
        # The recorder locks it for a moment when it opens or checkpoints it.
        return sqlite3.connect(f"file:{self.database}?mode=rw", uri=True, timeout=30, isolation_level=None)

    def titles(self):
        """{id: title} of the database."""
        connection = self.connect()
        try:
            return dict(connection.execute("SELECT id, title FROM items"))
        finally:
            connection.close()

    def indexed(self):
        """The ids in the index."""
        done = subprocess.run(["xapian-delve", "-1", "-A", "Q", self.index], capture_output=True, text=True, check=False, timeout=240)
        assert done.returncode == 0, done.stderr
        return {line.split()[0][1:] for line in done.stdout.splitlines() if line.startswith("Q")}

    def forbid_writing(self):
        """Makes database and folder read-only, for a recorder that opens them from now on."""
        self._give_rights(0o444, 0o555)
        before = self._instance.recorder()
        os.kill(before, signal.SIGKILL)  # what it has open it may go on writing
        wait_until(lambda: self._instance.recorder() not in (None, before), "another recorder")

    def allow_writing(self):
        self._give_rights(0o600, 0o755)

    def _give_rights(self, of_files, of_folder):
        folder = os.path.dirname(self.database)
        for file in os.listdir(folder):
            if file.startswith("freshet.db"):
                os.chmod(os.path.join(folder, file), of_files)
        os.chmod(folder, of_folder)

    def wait_for(self, titles, limit_s=30.0):
        """Until database and index hold exactly these items."""
        def settled():
            try:
                return self.titles() == titles and self.indexed() == set(titles)
            except (sqlite3.Error, AssertionError):  # not made yet, or a commit is under way
                return False
        try:
            wait_until(settled, "the recorder", limit_s)
        except AssertionError:
            assert self.titles() == titles
            assert self.indexed() == set(titles)
            raise

    def wait_until_indexed(self, items, limit_s=30.0):
        """Until the index holds these items, and maybe others."""
        def there():
            try:
                return self.indexed() >= set(items)
            except AssertionError:  # as in wait_for()
                return False
        wait_until(there, "the index", limit_s)

    def wait_until_it(self, state, reason=None):
        """Waits for a state in /status (and a reason); returns the status."""
        def reached():
            status = self._instance.status()
            return status if status["recorder"] == state and reason in (None, status["recorder reason"]) else None
        return wait_until(reached, f"a recorder that is {state} {reason or ''}", 30)


class Writers:
    """A load of PUTs and DELETEs, each item one writer's own; knows what was acknowledged and must therefore be kept."""

    def __init__(self, name, refusals=(502, 503, 504)):
        self.kept, self._name, self._refusals, self._lock = {}, name, refusals, threading.Lock()
        self.refused = 0

    def write(self, client, turn):
        item, title = self._name("w"), f"written in turn {turn}"
        if not self._repeat(lambda: client.put(f"/api/items/{item}", {"title": title, "published_at": 1700000000 + turn})):
            return None
        with self._lock:
            self.kept[item] = title
        if turn % 10 == 9 and self._repeat(lambda: client.delete(f"/api/items/{item}")):
            with self._lock:
                del self.kept[item]
        return item

    def _repeat(self, ask):
        """Until it is acknowledged, as whoever feeds a service does: what was not may have happened or not."""
        for _ in range(2000):
            try:
                reply = ask()
            except OSError:
                reply = None
            if reply is not None and reply.status == 200:
                return True
            assert reply is None or reply.status in self._refusals, reply
            self.refused += 1
            threading.Event().wait(0.02)
        raise AssertionError("never acknowledged")

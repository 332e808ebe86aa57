"""Invariants that must hold after every fault: keys, TTLs, caps and sums in Redis (freshetctl check), an intact
database, no zombies.
"""

import os
import sqlite3
import time

from service import children, comm, descriptors, rss_kib


def process_state(pid):
    """The state letter from /proc (R, S, Z …), or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return None


def process_tree(pid):
    """The process and all its descendants."""
    found = [pid]
    for each in found:
        found += children(each)
    return found


def zombies(instance):
    """{pid: name} of zombies that were not reaped within half a second."""
    masters = [instance.pid(role) for role in ("freshetd", "nginx")]

    def find():
        return {pid: comm(pid) for master in masters for pid in process_tree(master) if process_state(pid) == "Z"}
    first = find()
    if first:
        time.sleep(0.5)
    return {pid: name for pid, name in find().items() if pid in first}


def integrity_error(path):
    """The result of SQLite's integrity check, or None if the database is intact."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    try:
        result = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
    except sqlite3.Error as error:
        result = [str(error)]
    finally:
        connection.close()
    return None if result == ["ok"] else "; ".join(result)


def broken_invariants(instance):
    """Descriptions of broken invariants. Redis must be available, and the load must have stopped."""
    broken = []
    try:
        instance.check()
    except AssertionError as error:
        broken += [line for line in str(error).splitlines() if line][:20]
    database = os.path.join(instance.state, "record/freshet.db")
    if os.path.exists(database) and (error := integrity_error(database)):
        broken.append(f"SQLite: {error}")
    if left := zombies(instance):
        broken.append(f"zombies: {left}")
    return broken


MORE_DESCRIPTORS = 4  # of connections that nginx keeps open to a worker that is idle again


class Resources:
    """Descriptors and resident memory of each worker at the time of construction."""

    def __init__(self, instance):
        self.descriptors = {pid: descriptors(pid) for pid in instance.workers()}
        self.rss_kib = {pid: rss_kib(pid) for pid in instance.workers()}

    def descriptor_change(self, before):
        """The largest absolute change among workers that existed before."""
        return max((abs(count - before.descriptors[pid]) for pid, count in self.descriptors.items() if pid in before.descriptors), default=0)

    def descriptor_growth(self, before):
        """The largest increase among workers that existed before."""
        return max((count - before.descriptors[pid] for pid, count in self.descriptors.items() if pid in before.descriptors), default=0)

    def rss_growth(self, before):
        """The largest relative growth of resident memory among workers that existed before."""
        return max((kib / before.rss_kib[pid] - 1 for pid, kib in self.rss_kib.items() if pid in before.rss_kib), default=0.0)

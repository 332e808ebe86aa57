"""What must hold after every fault: keys, TTLs, caps and sums in Redis, a sound database, and no process left behind or undead."""

import os
import sqlite3
import time

from service import children, comm, descriptors, rss_kib


def state_of(pid):
    """The letter of /proc (R, S, Z …), or None."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return None


def family(pid):
    """The process and all that come from it."""
    found = [pid]
    for each in found:
        found += children(each)
    return found


def zombies(instance):
    """{pid: name} of undead children, which have had half a second to be reaped."""
    masters = [instance.pid(role) for role in ("freshetd", "nginx")]

    def undead():
        return {pid: comm(pid) for master in masters for pid in family(master) if state_of(pid) == "Z"}
    first = undead()
    if first:
        time.sleep(0.5)
    return {pid: name for pid, name in undead().items() if pid in first}


def unsound(path):
    """What SQLite says of a database's integrity, or None when it is sound."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    try:
        said = [row[0] for row in connection.execute("PRAGMA integrity_check(5)")]
    except sqlite3.Error as error:
        said = [str(error)]
    finally:
        connection.close()
    return None if said == ["ok"] else "; ".join(said)


def broken_invariants(instance):
    """A list of texts. Redis must be there, and the load must have ended."""
    broken = []
    try:
        instance.check()
    except AssertionError as error:
        broken += [line for line in str(error).splitlines() if line][:20]
    database = os.path.join(instance.state, "record/freshet.db")
    if os.path.exists(database) and (said := unsound(database)):
        broken.append(f"SQLite: {said}")
    if undead := zombies(instance):
        broken.append(f"zombies: {undead}")
    return broken


INDEX_FILES = 12  # that a worker opens for its first searches, and keeps


class Resources:
    """Descriptors and resident memory of each worker at one moment."""

    def __init__(self, instance):
        self.descriptors = {pid: descriptors(pid) for pid in instance.workers()}
        self.rss_kib = {pid: rss_kib(pid) for pid in instance.workers()}

    def most_more_descriptors(self, before):
        """The largest change of a worker that was there before."""
        return max((abs(count - before.descriptors[pid]) for pid, count in self.descriptors.items() if pid in before.descriptors), default=0)

    def more_descriptors(self, before):
        """How many more a worker that was there before has, at most."""
        return max((count - before.descriptors[pid] for pid, count in self.descriptors.items() if pid in before.descriptors), default=0)

    def growth(self, before):
        """The largest growth of a worker's resident memory, as a share."""
        return max((kib / before.rss_kib[pid] - 1 for pid, kib in self.rss_kib.items() if pid in before.rss_kib), default=0.0)

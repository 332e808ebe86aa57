"""scripts/scale with a tiny instance: both tables in their form, and used_memory's growth beside what MEMORY USAGE says of the keys."""

import contextlib
import glob
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
A_KEY = 80  # bytes that MEMORY USAGE leaves out: its deadline's entry, 24 of pointers, what jemalloc rounds up


def scale(*arguments, **environment):
    return subprocess.run([os.path.join(ROOT, "scripts/scale"), *arguments], capture_output=True, text=True, check=False, timeout=300,
                          env=os.environ | environment)


def processes_in(folder):
    """The command lines that name the folder."""
    lines = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            lines.append(file.read().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if folder in line]


def table(said, head):
    """Label → numbers, of the table with such a head."""
    lines = said.split(head, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return {cells[0].strip(): [float(word.replace(",", "")) for word in re.findall(r"[\d.,]*\d(?:e[-+]\d+)?", "|".join(cells[1:]))]
            for cells in (line.strip("|").split("|") for line in lines)}


class Scale(unittest.TestCase):
    def test_it_measures_what_redis_says_of_the_keys_and_leaves_nothing(self):
        with tempfile.TemporaryDirectory(prefix="freshet-scale-") as folder:
            os.chmod(folder, 0o755)
            done = scale("--tiny", TMPDIR=folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual((os.listdir(folder), processes_in(folder)), ([], []))
        memory = table(done.stdout, "| a million times | seen on")
        self.assertEqual({len(row) for row in memory.values()}, {5}, memory)
        self.assertEqual(len(memory), 12)
        for what, (count, *pairs) in memory.items():
            # Beyond MEMORY USAGE: what a key takes (of an article's three, and one in sets that all share; two at most of all others), a
            # skiplist's nodes, which are more to the allocator, and what Redis and the service do meanwhile.
            keys, meanwhile = (5, 1_000) if what.startswith("article") else (2, 32)
            for used, usage in (pairs[:2], pairs[2:]):
                self.assertLessEqual(0.98 * usage - meanwhile / count, used, what)
                self.assertLessEqual(used, 1.2 * usage + keys * A_KEY / 1000 + meanwhile / count, what)
        full = memory["timeline of 500 items, full, 30 days"]
        self.assertLess(full[3], full[1] / 3, "raised listpacks")
        self.assertGreater(full[4], 500 * 16 / 1000, "500 ids and scores")
        costs = table(done.stdout, "| a million times | Redis s")
        self.assertEqual({len(row) for row in costs.values()}, {6}, costs)
        self.assertEqual(len(costs), 11)
        for what, row in costs.items():
            self.assertGreater(min(row[:3]), 0, what)
        self.assertRegex(done.stdout, r"\nDisk: .*\nFork: .*\nRaised: ")

    def test_what_cannot_be_measured_is_refused(self):
        done = scale("--articles", "10")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--articles is at least 508", done.stderr)


if __name__ == "__main__":
    unittest.main()

"""scripts/scale with a tiny instance: the form of both tables, and used_memory's growth compared with MEMORY USAGE."""

import contextlib
import glob
import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KEY_OVERHEAD = 80  # bytes that MEMORY USAGE omits: the expiry's entry, pointers (24), jemalloc's rounding


def scale(*arguments, **environment):
    return subprocess.run([os.path.join(ROOT, "scripts/scale"), *arguments], capture_output=True, text=True, check=False, timeout=300,
                          env=os.environ | environment)


def processes_in(folder):
    """Command lines that contain the folder."""
    lines = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            lines.append(file.read().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if folder in line]


def table(output, head):
    """Label → numbers, from the table with this head."""
    lines = output.split(head, 1)[1].split("\n\n", 1)[0].splitlines()[2:]
    return {cells[0].strip(): [float(word.replace(",", "")) for word in re.findall(r"[\d.,]*\d(?:e[-+]\d+)?", "|".join(cells[1:]))]
            for cells in (line.strip("|").split("|") for line in lines)}


class Scale(unittest.TestCase):
    def test_it_measures_memory_per_key_and_leaves_nothing_behind(self):
        with tempfile.TemporaryDirectory(prefix="freshet-scale-") as folder:
            os.chmod(folder, 0o755)
            done = scale("--tiny", TMPDIR=folder)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual((os.listdir(folder), processes_in(folder)), ([], []))
        memory = table(done.stdout, "| a million times | sample")
        self.assertEqual({len(row) for row in memory.values()}, {5}, memory)
        self.assertEqual(len(memory), 12)
        for what, (count, *pairs) in memory.items():
            # Beyond MEMORY USAGE: the overhead per key (five for an article: three of its own and its entries in shared
            # sets; at most two otherwise), skiplist nodes, which the allocator rounds up, and memory used by Redis and
            # the service during the test.
            keys, meanwhile = (5, 1_000) if what.startswith("article") else (2, 32)
            for used, usage in (pairs[:2], pairs[2:]):
                self.assertLessEqual(0.98 * usage - meanwhile / count, used, what)
                self.assertLessEqual(used, 1.2 * usage + keys * KEY_OVERHEAD / 1000 + meanwhile / count, what)
        full = memory["timeline of 500 items, full, 30 days"]
        self.assertLess(full[3], full[1] / 3, "raised listpacks")
        self.assertGreater(full[4], 500 * 16 / 1000, "500 ids and scores")
        costs = table(done.stdout, "| a million times | Redis s")
        self.assertEqual({len(row) for row in costs.values()}, {6}, costs)
        self.assertEqual(len(costs), 11)
        for what, row in costs.items():
            self.assertGreater(min(row[:3]), 0, what)
        self.assertRegex(done.stdout, r"\nDisk: .*\nFork: .*\nRaised: ")

    def test_too_small_counts_are_rejected(self):
        done = scale("--articles", "10")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--articles is at least 508", done.stderr)
        self.assertIn("--tags is 0 to 100", scale("--tags", "101").stderr)


if __name__ == "__main__":
    unittest.main()

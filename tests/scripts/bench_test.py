"""scripts/bench in its short form: every contender serves every request, and the table has a row for each. No times."""

import os
import re
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STARVED = re.compile(r"connections made no progress|no connection stayed open")  # a busy host may do that to a turn of a second


def bench(*arguments, **environment):
    return subprocess.run([os.path.join(ROOT, "scripts/bench"), *arguments], capture_output=True, text=True, check=False, timeout=600,
                          env=os.environ | environment)


def rows(output):
    """Contender → [requests per second, CPU of nginx, worker and Redis], of the last row with its name."""
    found = re.findall(r"^\| (.+?)(?: ⚠)? \| ([\d,]+) \|.*? \(([\d.]+) \+ ([\d.]+) \+ ([\d.]+)\) \|", output, re.MULTILINE)
    return {name: [float(each.replace(",", "")) for each in numbers] for name, *numbers in found}


class Bench(unittest.TestCase):
    def test_readers_with_interests_and_a_reader_day(self):
        with tempfile.TemporaryDirectory(prefix="freshet-") as folder:
            os.chmod(folder, 0o755)
            done = bench("--smoke", "--items", "1000", "--interests", "3", "feed", "reader-day", TMPDIR=folder)
            self.assertEqual(os.listdir(folder), [])
        problems = [line for line in done.stderr.splitlines() if line.startswith("⚠") and not STARVED.search(line)]
        self.assertEqual(problems, [], done.stderr)
        measured = rows(done.stdout)
        self.assertEqual(set(measured), {"Freshet refresh", "Freshet reader-day", "PHP-FPM reader-day"}, done.stdout + done.stderr)
        for contender, numbers in measured.items():
            self.assertGreater(min(numbers), 0, contender)
        for label in ("Freshet refresh: p99 at", "Freshet reader-day: CPU of all 9 requests", "PHP-FPM reader-day: CPU of all 9 requests",
                      "P11 reader-day: CPU ÷ that of PHP-FPM reader-day"):
            self.assertIn(label, done.stdout)

    def test_a_corpus_that_apt_does_not_have_is_skipped_visibly(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
            config.write('Dir::State::Lists "/nonexistent";\nDir::State::status "/dev/null";\n')
            config.flush()
            done = bench("--smoke", "--interests", "3", "--corpus", "debian", "feed", APT_CONFIG=config.name)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("SKIPPED: feed with --corpus debian: apt knows no packages", done.stderr)

    def test_wrong_arguments_are_rejected(self):
        for arguments, problem in ((("compare", "HEAD", "track"), "optionally feed or reader-day"), (("--interests", "501"), "--interests must be 0 to 500"),
                                   (("--items", "10"), "--items 1,000 to"), (("feet",), "unknown benchmark feet")):
            done = bench(*arguments)
            self.assertEqual(done.returncode, 2)
            self.assertIn(problem, done.stderr)


if __name__ == "__main__":
    unittest.main()

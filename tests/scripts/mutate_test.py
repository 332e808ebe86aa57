"""scripts/mutate: what it draws, that it distinguishes killed mutations from survivors, and that it leaves nothing behind."""

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("FRESHET_BUILD_DIR", os.path.join(ROOT, "build/release"))
sys.path.insert(0, os.path.join(ROOT, "tests"))

from mutate import __main__ as mutate  # noqa: E402
from mutate import concerns, draw, tree  # noqa: E402
from support.listed_tests import listed_tests  # noqa: E402

# A minimal checkout with two directives; its test checks one of them and leaves a process behind.
SMALL = {
    "CMakePresets.json": '{"version": 6, "configurePresets": [{"name": "release", "generator": "Ninja", "binaryDir": "${sourceDir}/build/release"}]}',
    "CMakeLists.txt": 'cmake_minimum_required(VERSION 3.25)\nproject(small NONE)\nenable_testing()\n'
                      'add_test(NAME hardening_small COMMAND ${CMAKE_SOURCE_DIR}/small_test)\n'
                      'set_tests_properties(hardening_small PROPERTIES LABELS unit)\n',
    "small_test": '#!/bin/sh\nsetsid sh -c \'echo $$ >>"$LEFT"; exec sleep 600\' >/dev/null 2>&1 &\ncd "$(dirname "$0")"\n'
                  '[ -z "$HANG" ] || sleep 600\nuntil [ -s "$LEFT" ]; do :; done\ngrep -qx LimitCORE=0 systemd/small.service\n',
    "systemd/small.service": "[Service]\nLimitCORE=0\nNice=5\n",
}


def texts():
    out = {}
    for path, source in tree.sources(ROOT).items():
        if draw.kind_of(path):
            with open(source, encoding="utf-8") as file:
                out[path] = file.read()
    return out


class Draw(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.sources = texts()
        cls.all = [one for path, text in cls.sources.items() for _, found in draw.mutations(path, text) for one in found]

    def test_a_seed_is_deterministic_and_a_larger_count_extends_the_draw(self):
        forty = draw.draw("7", 40, self.sources)
        self.assertEqual(len(set(forty)), 40)
        self.assertEqual(draw.draw("7", 40, self.sources), forty)
        self.assertEqual(draw.draw("7", 60, self.sources)[:40], forty)
        self.assertNotEqual(draw.draw("8", 40, self.sources), forty)
        self.assertEqual({draw.kind_of(one.path) for one in forty}, set(draw.KINDS))

    def test_every_mutation_changes_exactly_its_line(self):
        self.assertGreater(len(self.all), 2000)
        for one in self.all:
            before = self.sources[one.path].split("\n")
            after = draw.applied(one, self.sources[one.path]).split("\n")
            self.assertEqual([number for number, (old, new) in enumerate(zip(before, after), 1) if old != new], [one.line])
            self.assertEqual(len(before), len(after))

    def test_mutations_that_tests_once_missed_are_drawn(self):
        wanted = [("nginx/freshet-locations.conf", r"limit_req zone=freshet_reads .*", ""),
                  ("core/hot/parts/add_view.lua", r"if first_today == 1 then call\('EXPIRE', uv_day, ARGV\[arg\], 'NX'\) end", ""),
                  ("core/hot/view.lua", r"if event then call\('SET', event, 'dedup', 'EX', 86400\) end", ""),
                  ("core/hot/track.lua", r"call\('EXPIRE', KEYS\[2\], ttl\)", ""),
                  ("nginx/html/freshet.js", r"clearTimeout\(timer\);", ";"),
                  ("nginx/html/calls.js", r"const shellQuote = .*", "const shellQuote = (text) => `'${String(text)}'`;"),
                  ("nginx/html/scroll.js", r"if \(scroller.busy\) return;", ";")]
        for path, old, new in wanted:
            with self.subTest(path=path, old=old):
                self.assertTrue(any(one.path == path and re.fullmatch(old, one.old.strip()) and one.new.strip() == new for one in self.all))

    def test_comments_and_string_contents_are_not_mutated(self):
        for path, line in (("core/hot/a.lua", "-- a == 1"), ("fcgi/handlers/a.cpp", "// if (a == 1) b();"), ("nginx/a.conf", "# limit 1;"),
                           ("systemd/a.service", "#LimitCORE=0"), ("core/hot/a.lua", "local a = 'b == 1'"), ("nginx/a.conf", "listen 80;"),
                           ("nginx/html/a.js", "// a === 1\nconst a = 'b === 1', c = `d === 1`;"), ("scripts/clients/python/freshet.py", "# a == 1\na = 'b == 1'"),
                           ("scripts/clients/php/Freshet.php", "<?php\n// a === 1\nreturn 'b === 1' . \"{$c}$d === 1\";")):
            self.assertEqual(draw.mutations(path, line), [], line)

    def test_part_of_a_statement_is_not_deleted(self):
        for path, text in (("core/hot/a.lua", "call('SET', 'a',\n  'b')"), ("fcgi/handlers/a.cpp", "f(1,\n  g(2));"),
                           ("nginx/a.conf", "log_format a\n  'b'\n  'c';")):
            found = [one for _, each in draw.mutations(path, text) for one in each]
            self.assertEqual([one for one in found if one.new == ""], [], text)

    def test_parsed_languages_have_the_usual_changes(self):
        for path, text, expected in (
                ("nginx/html/a.js", "if (a && b !== 1) c();", {"if (!(a && b !== 1)) c();", ";", "if (a || b !== 1) c();", "if (a) c();", "if (b !== 1) c();",
                                                               "if (a && b === 1) c();", "if (a && b !== 2) c();", "if (a && b !== 1) ;"}),
                ("nginx/html/a.js", "f({ a: 1.5, ...b }, () => !g(encodeURIComponent(c.trim())));", {
                    ";", "f({ ...b }, () => !g(encodeURIComponent(c.trim())));", "f({ a: 1.5 }, () => !g(encodeURIComponent(c.trim())));",
                    "f({ a: 3, ...b }, () => !g(encodeURIComponent(c.trim())));", "f({ a: 1.5, ...b }, () => g(encodeURIComponent(c.trim())));",
                    "f({ a: 1.5, ...b }, () => !g(encodeURI(c.trim())));", "f({ a: 1.5, ...b }, () => !g(encodeURIComponent(c)));"}),
                ("scripts/clients/python/freshet.py", "ä = f(b, c=True) if d < 2 else g(h=1)", {
                    "ä = f(b) if d < 2 else g(h=1)", "ä = f(b, c=False) if d < 2 else g(h=1)", "ä = f(b, c=True) if not (d < 2) else g(h=1)",
                    "ä = f(b, c=True) if d <= 2 else g(h=1)", "ä = f(b, c=True) if d < 3 else g(h=1)", "ä = f(b, c=True) if d < 2 else g()", "ä = f(b, c=True) if d < 2 else g(h=2)"}),
                ("scripts/clients/php/Freshet.php", "<?php if (!$ä) { rawurlencode($b); }", {
                    "<?php if (!(!$ä)) { rawurlencode($b); }", "<?php if ($ä) { rawurlencode($b); }", "<?php if (!$ä) { urlencode($b); }", "<?php if (!$ä) { ; }"})):
            with self.subTest(text=text):
                self.assertEqual({one.new for _, each in draw.mutations(path, text) for one in each}, expected)

    def test_every_equivalent_mutation_can_still_be_drawn(self):
        for each in mutate.equivalents():
            self.assertTrue(any(mutate.same(one, each) for one in self.all), each)
            self.assertGreater(len(each["why"]), 20)


class Concerns(unittest.TestCase):
    def test_every_file_has_existing_tests(self):
        names = list(listed_tests(BUILD))
        for path in texts():
            for option, pattern in concerns.stages(path, draw.kind_of(path)):
                with self.subTest(path=path, pattern=pattern):
                    self.assertEqual(option, "-R", "a row for it in tests/mutate/concerns.py")
                    self.assertTrue([name for name in names if re.search(pattern, name)])


class Small(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.checkout, self.leftovers = os.path.join(folder.name, "small"), os.path.join(folder.name, "leftovers")
        for path, text in SMALL.items():
            path = os.path.join(self.checkout, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        os.chmod(os.path.join(self.checkout, "small_test"), 0o755)
        with open(os.path.join(self.checkout, ".gitignore"), "w", encoding="ascii") as file:
            file.write("build/\n")
        for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qm", "small"]):
            subprocess.run(["git", *command], cwd=self.checkout, check=True)

    def mutate(self, *options, **environment):
        return subprocess.Popen([sys.executable, "-m", "mutate", "--checkout", self.checkout, "--seed", "1", *options], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env=dict(os.environ, PYTHONPATH=os.path.join(ROOT, "tests"), **{"LEFT": self.leftovers, "HANG": "", **environment}))

    def assert_nothing_left(self):
        with open(self.leftovers, encoding="ascii") as file:
            for pid in file.read().split():
                self.assertFalse(os.path.exists(f"/proc/{pid}"), pid)
        output = subprocess.run(["git", "status", "--porcelain"], cwd=self.checkout, capture_output=True, text=True, check=True).stdout
        self.assertEqual(output, "")

    def test_a_tested_directive_is_killed_and_an_untested_one_survives(self):
        process = self.mutate()
        output = process.communicate(timeout=400)[0]
        self.assertEqual(process.returncode, 1, output)
        rows = re.findall(r"^ +\d+  (\w+) +(\S*) +\d+  systemd/small.service:(\d)  ", output, re.M)
        self.assertEqual({row for row in rows}, {("killed", "hardening_small", "2"), ("survived", "", "3")}, output)
        self.assertIn("seed 1, 2 mutations: 1 killed, 1 survived, 0 did not build, 0 equivalent, 0 not run", output)
        self.assert_nothing_left()
        os.unlink(self.leftovers)
        again = self.mutate()
        self.assertIn("1 killed, 1 survived", again.communicate(timeout=400)[0])
        self.assertFalse(os.path.exists(self.leftovers), "what is known is not run again")

    def test_a_test_that_always_fails_kills_no_mutation(self):
        with open(os.path.join(self.checkout, "CMakeLists.txt"), "a", encoding="utf-8") as file:
            file.write('add_test(NAME test_units COMMAND false)\nset_tests_properties(test_units PROPERTIES LABELS unit)\n')
        output = self.mutate().communicate(timeout=400)[0]
        self.assertIn("test_units fails without any mutation", output)
        self.assertIn("1 killed, 1 survived, 0 did not build, 0 equivalent, 0 not run", output)

    def test_an_interrupted_run_leaves_nothing_behind(self):
        environment = {"HANG": "1"}
        process = self.mutate(**environment)
        deadline = time.monotonic() + 60
        while not (os.path.exists(self.leftovers) and os.path.getsize(self.leftovers)):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        process.terminate()
        process.communicate(timeout=240)
        self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main()

"""The repository's checks find violations: each rule is violated once in a small tree."""

import contextlib
import io
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def check(name, files):
    """Runs scripts/check-NAME on a tree of these files: (status, output)."""
    with tempfile.TemporaryDirectory() as tree:
        for path, text in files.items():
            os.makedirs(os.path.join(tree, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(tree, path), "w", encoding="utf-8") as file:
                file.write(text)
        # In this process, because Python takes longer to start than a check of a small tree.
        program = os.path.join(ROOT, f"scripts/check-{name}")
        with mock.patch.object(sys, "argv", [program, tree]), contextlib.chdir(tree), contextlib.redirect_stdout(io.StringIO()) as output:
            try:
                runpy.run_path(program, run_name="__main__")
                status = 0
            except SystemExit as exit_:
                status = exit_.code or 0
        return status, output.getvalue()


def check_layers(files):
    return check("layers", files)


class Layers(unittest.TestCase):
    def assert_violation(self, path, line):
        status, output = check_layers({path: f"#pragma once\n{line}\n"})
        self.assertEqual(status, 1, f"{path}: {line}")
        self.assertIn(f"{path}:2:", output)

    def assert_accepted(self, path, line):
        status, output = check_layers({path: f"#pragma once\n{line}\n"})
        self.assertEqual(status, 0, output)

    def test_a_layer_may_not_include_one_above_it(self):
        self.assert_violation("core/base/a.h", '#include "core/hot/views.h"')
        self.assert_violation("core/hot/counting.h", '#include "core/redis/keys.h"')
        self.assert_violation("core/hot/counting.cpp", '#include "core/hot/hot_store.h"')
        self.assert_violation("core/hot/views.cpp", '#include "core/async/task.h"')
        self.assert_violation("core/hot/views.cpp", '#include "core/hot/ports.h"')
        self.assert_violation("core/redis/breaker.h", '#include "core/hot/hot_store.h"')
        self.assert_violation("fcgi/handlers/a.h", '#include "core/hot/hot_store.h"')
        self.assert_violation("fcgi/handlers/a.h", '#  include "core/redis/keys.h"')
        self.assert_violation("fcgi/process/a.h", '#include "core/hot/ports.h"')

    def test_allowed_includes_pass(self):
        self.assert_accepted("core/hot/a_store.h", '#include "core/hot/hot_lists.h"')
        self.assert_accepted("core/hot/a_store.h", '#include "core/redis/keys.h"')
        self.assert_accepted("core/recommend/ranker.h", '#include "core/hot/views.h"')
        self.assert_accepted("fcgi/handlers/a.h", '#include "core/hot/hot_lists.h"')
        self.assert_accepted("fcgi/freshetd.cpp", '#include "core/hot/hot_store.h"')
        self.assert_accepted("core/base/json.cpp", "#include <rapidjson/reader.h>")
        self.assert_accepted("core/feed/a.h", "#include <vector>")

    def test_third_party_headers_are_restricted_to_their_folders(self):
        self.assert_violation("core/config/config.cpp", "#include <rapidjson/reader.h>")
        self.assert_violation("fcgi/http/a.cpp", "#include <fcgiapp.h>")
        self.assert_violation("core/feed/a.cpp", "#include <hiredis.h>")
        self.assert_violation("core/feed/a.cpp", "#include <hiredis/async.h>")
        self.assert_violation("core/hot/a.cpp", "#include <boost/asio.hpp>")

    def test_only_listed_dependencies_between_modules_are_allowed(self):
        self.assert_violation("core/hot/a_store.h", '#include "core/feed/feed_store.h"')
        # a rule including a use case's port
        self.assert_violation("core/recommend/ranker.h", '#include "core/readers/ports.h"')

    def test_an_oversized_folder_is_reported(self):
        files = {f"core/hot/a{i}.lua": "" for i in range(41)}
        status, output = check_layers(files)
        self.assertEqual(status, 1)
        self.assertIn("core/hot: 41 files", output)
        modules = ("base", "config", "async", "redis", "items", "hot")
        status, output = check_layers({f"core/{module}/a.lua": "x\n" * (30 if module == "hot" else 10) for module in modules})
        self.assertIn("core/hot: 30 lines", output)

    def test_includes_start_at_the_repository_root(self):
        self.assert_violation("core/base/a.cpp", '#include "a.h"')

    def test_an_unknown_folder_and_a_test_header_are_violations(self):
        self.assert_violation("core/other/a.h", '#include "core/base/ids.h"')
        self.assert_violation("core/base/a.h", '#include "tests/support/fake_redis.h"')

    def test_a_tree_without_sources_fails(self):
        self.assertEqual(check_layers({"README": ""})[0], 1)


class Keys(unittest.TestCase):
    PATTERNS = "".join(f'KeyPattern{{"{name}", "string", true, Subject::kNone}},\n' for name in
                   ("a:{*}", "b:{*}:*", "one", "mark:one", "mark:two", "hot:one", "hot:two", "hot:epoch", "day:*"))

    def check_keys(self, path, text):
        files = {"core/redis/keys.h": self.PATTERNS, path: text, "core/hot/well.lua": "-- KEYS 1 a:{id}\n"}
        status, output = check("keys", files)
        return status, output

    def assert_violation(self, path, text, why):
        status, output = self.check_keys(path, text)
        self.assertEqual(status, 1, text)
        self.assertRegex(output, f"{path}.*: .*{why}")

    def assert_accepted(self, path, text):
        status, output = self.check_keys(path, text)
        self.assertEqual(status, 0, output)

    def test_a_script_may_only_use_keys_of_one_slot(self):
        self.assert_accepted("core/hot/a.lua", "-- KEYS 1 a:{id}  2 b:{id}:{day}  [3 b:{id}:{event}]\n-- ARGV 1 x\n")
        self.assert_accepted("core/hot/a.lua", "-- KEYS 1 mark:one or mark:two\n")
        self.assert_violation("core/hot/a.lua", "-- KEYS 1 a:{id}  2 b:{reader}:{day}\n", "spans slots")
        self.assert_violation("core/hot/a.lua", "-- KEYS 1 a:{id}\n--      2 hot:one\n", "spans slots")
        self.assert_violation("core/hot/a.lua", "-- KEYS 1 mark:one  2 mark:two\n", "spans slots")
        self.assert_violation("core/hot/a.lua", "-- KEYS 1… a:{id} of each\n", "spans slots")
        self.assert_accepted("core/hot/a.lua", "-- KEYS 1 hot:one  2 hot:two\n")  # the keys of one partition share a slot
        # keys shared by all articles are in another slot
        self.assert_violation("core/hot/a.lua", "-- KEYS 1 hot:one  2 hot:epoch\n", "spans slots")
        self.assert_violation("core/hot/a.lua", "-- KEYS 1 day:{day}  2 b:{id}:{day}\n", "spans slots")

    def test_a_call_for_many_ids_requires_slot_or_zero(self):
        self.assert_accepted("core/hot/a_b.lua", "-- KEYS 1… a:{id} of each, by slot_or_zero()\n")
        files = {"core/redis/keys.h": self.PATTERNS, "core/hot/a_b.lua": "-- KEYS 1… a:{id} of each, by slot_or_zero()\n"}
        status, output = check("keys", files | {"core/hot/c.cpp": "calls[keys_.slot_or_zero(key)];\nout.script(scripts::kAB);\n"})
        self.assertEqual(status, 0, output)
        status, output = check("keys", files | {"core/hot/c.cpp": "out.script(scripts::kAB);\n"})
        self.assertEqual(status, 1)
        self.assertIn("core/hot/c.cpp: sends core/hot/a_b.lua without Keys::slot_or_zero()", output)

    def test_a_head_lists_every_key_by_a_known_pattern(self):
        self.assert_violation("core/hot/a.lua", "-- KEYS 1 c:{id}\n", "no row of kKeyPatterns")
        self.assert_violation("core/hot/a.lua", "-- KEYS 1 a:{id}\nreturn KEYS[2]\n", "KEYS.2.")
        self.assert_violation("core/hot/a.lua", "return KEYS[1]\n", "no line -- KEYS")

    def test_commands_with_several_keys_are_found(self):
        self.assert_accepted("core/hot/a.cpp", 'out.add("DEL", keys.one(id)).add("RENAMES");  // add("DEL", a, b)\n')
        self.assert_violation("core/hot/a.cpp", '\nout.add("DEL", keys.a(1, 2), keys.b());', "DEL spans slots")
        self.assert_violation("core/hot/a.cpp", 'out.command(1 + n).arg("MGET");', "MGET spans slots")
        self.assert_violation("core/hot/a.cpp", 'out.add("MULTI")', "MULTI spans slots")
        self.assert_violation("core/hot/a.cpp", 'out.add("EVAL", kLook, 2, a, b);', "kLook spans slots")
        self.assert_accepted("core/hot/a.cpp", 'out.add("EVAL", kLook, 1, a, b);')

    def test_listed_exceptions_are_allowed_and_must_be_needed(self):
        self.assert_accepted("scripts/ctl/backup/save_redis.cpp", 'out.add("MULTI")')
        # In the complete tree, unused exceptions are reported.
        status, output = check("keys", {"core/redis/keys.h": self.PATTERNS, "core/hot/well.lua": "-- KEYS 1 a:{id}\n", "scripts/check-keys": ""})
        self.assertEqual(status, 1)
        self.assertIn("scripts/ctl/backup/save_redis.cpp: MULTI is an exception that is not needed", output)


class Language(unittest.TestCase):
    def findings(self, path, text):
        status, output = check("language", {path: text})
        self.assertEqual(status, 1 if "0 findings" not in output else 0, output)
        return output.splitlines()[:-1]

    def test_text_must_not_begin_with_a_relative_word(self):
        for path, text in (("core/a.h", "// Of a page: its items.\n"), ("core/a.h", "int a;  // whether it is set\n"),
                           ("core/a.lua", "-- What is left\n"), ("scripts/a.py", '"""Who asked."""\n'), ("A.md", "- Whoever asks waits.\n"),
                           ("tests/a_test.cpp", 'TEST_CASE("what was sent arrives", "[a]") {\n')):
            self.assertEqual(len(self.findings(path, text)), 1, text)
        for path, text in (("core/a.h", "// Items of a page.\n"), ("A.md", "- What does it cost?\n"), ("core/a.h", "int a;  // of the last page\n"),
                           ("A.md", "```\nwhat\n```\n"), ("core/a.cpp", 'f("// what");\n')):
            self.assertEqual(self.findings(path, text), [], text)

    def test_words_to_avoid_are_found(self):
        for word in ("anew", "nobody", "vouched for", "behind the reply", "beside"):
            self.assertEqual(len(self.findings("A.md", f"It is {word} here.\n")), 1, word)
        self.assertEqual(self.findings("A.md", "`nobody` is an account.\n"), [])

    def test_a_retired_name_must_not_be_declared_again(self):
        files = {"scripts/retired-names.txt": "a::Standing EventAdmission\n", "core/a.h": "namespace a {\nstruct Standing {};\n}\n",
                 "core/b.h": "namespace b {\nstruct Standing {};\n}\n"}
        status, output = check("language", files)
        self.assertEqual(status, 1)
        self.assertEqual(output.splitlines()[:-1], ["core/a.h:2: a::Standing is now EventAdmission"])


class Results(unittest.TestCase):
    def test_tests_do_not_read_the_error_of_an_unchecked_result(self):
        """error() of a result with a value is undefined behavior. Replies of Redis have an error() of their own."""
        found = []
        for folder, _, names in os.walk(os.path.join(ROOT, "tests")):
            for name in names:
                if name.endswith((".cpp", ".h")):
                    with open(os.path.join(folder, name), encoding="utf-8") as file:
                        found += [f"{name}: {line.strip()}" for line in file if re.search(r"(?<!->front\()(?<!unused\()\)\.error\(\)", line)
                                  or (re.search(r"(CHECK|REQUIRE|INFO)\w*\(.*\w\.error\(\)\.", line) and not re.search(r" \? | \|\| | && |if \(!", line))]
        self.assertEqual(found, [], "use error_of()")


class Crawlers(unittest.TestCase):
    def test_the_list_is_the_source_s_with_our_additions(self):
        with tempfile.TemporaryDirectory() as tree:
            os.makedirs(os.path.join(tree, "scripts"))
            os.makedirs(os.path.join(tree, "fcgi/http"))
            for name in ("scripts/update_crawlers", "fcgi/http/more_crawlers.txt"):
                shutil.copy(os.path.join(ROOT, name), os.path.join(tree, name))
            for name, text in (("list.json", json.dumps([{"pattern": each} for each in ("Googlebot", "GrokBot", "last ")])), ("LICENSE", "free")):
                with open(os.path.join(tree, name), "w", encoding="utf-8") as file:
                    file.write(text)
            subprocess.run([os.path.join(tree, "scripts/update_crawlers"), os.path.join(tree, "list.json"), "abc"], check=True, capture_output=True)
            lists = []
            for name in ("fcgi/http/crawlers.txt", "fcgi/http/more_crawlers.txt"):
                with open(os.path.join(tree, name), encoding="utf-8") as file:
                    lists.append([line for line in file.read().splitlines() if not line.startswith("#")])
        written, additions = lists
        self.assertIn("GrokBot", additions)
        self.assertEqual(written, ["Googlebot", "GrokBot", "last "] + [each for each in additions if each != "GrokBot"])
        with open(os.path.join(ROOT, "fcgi/http/crawlers.txt"), encoding="utf-8") as file:
            self.assertLessEqual(set(additions), set(file.read().splitlines()), "run scripts/update_crawlers")


if __name__ == "__main__":
    unittest.main()

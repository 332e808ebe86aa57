"""The checks find what they are for: each rule is broken once in a small tree."""

import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def check(name, files):
    """Runs scripts/check-NAME on a tree of these files: (status, output)."""
    with tempfile.TemporaryDirectory() as tree:
        for path, text in files.items():
            os.makedirs(os.path.join(tree, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(tree, path), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([os.path.join(ROOT, f"scripts/check-{name}"), tree], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


def check_layers(files):
    return check("layers", files)


class Layers(unittest.TestCase):
    def assert_broken(self, path, line):
        status, said = check_layers({path: f"#pragma once\n{line}\n"})
        self.assertEqual(status, 1, f"{path}: {line}")
        self.assertIn(f"{path}:2:", said)

    def assert_kept(self, path, line):
        status, said = check_layers({path: f"#pragma once\n{line}\n"})
        self.assertEqual(status, 0, said)

    def test_a_layer_may_not_include_one_above_it(self):
        self.assert_broken("core/base/a.h", '#include "core/hot/views.h"')
        self.assert_broken("core/hot/counting.h", '#include "core/redis/keys.h"')
        self.assert_broken("core/hot/counting.cpp", '#include "core/hot/hot_store.h"')
        self.assert_broken("core/hot/views.cpp", '#include "core/async/task.h"')
        self.assert_broken("core/hot/views.cpp", '#include "core/hot/ports.h"')
        self.assert_broken("core/redis/breaker.h", '#include "core/hot/hot_store.h"')
        self.assert_broken("fcgi/handlers/a.h", '#include "core/hot/hot_store.h"')
        self.assert_broken("fcgi/handlers/a.h", '#  include "core/redis/keys.h"')
        self.assert_broken("fcgi/process/a.h", '#include "core/hot/ports.h"')

    def test_what_the_table_allows_passes(self):
        self.assert_kept("core/hot/a_store.h", '#include "core/hot/hot_lists.h"')
        self.assert_kept("core/hot/a_store.h", '#include "core/redis/keys.h"')
        self.assert_kept("core/recommend/ranker.h", '#include "core/hot/views.h"')
        self.assert_kept("fcgi/handlers/a.h", '#include "core/hot/hot_lists.h"')
        self.assert_kept("fcgi/freshetd.cpp", '#include "core/hot/hot_store.h"')
        self.assert_kept("core/base/json.cpp", "#include <rapidjson/reader.h>")
        self.assert_kept("core/feed/a.h", "#include <vector>")

    def test_third_parties_stay_in_their_places(self):
        self.assert_broken("core/config/config.cpp", "#include <rapidjson/reader.h>")
        self.assert_broken("fcgi/http/a.cpp", "#include <fcgiapp.h>")
        self.assert_broken("core/feed/a.cpp", "#include <hiredis.h>")
        self.assert_broken("core/feed/a.cpp", "#include <hiredis/async.h>")
        self.assert_broken("core/hot/a.cpp", "#include <boost/asio.hpp>")

    def test_rooms_know_each_other_by_the_list_alone(self):
        self.assert_broken("core/hot/a_store.h", '#include "core/feed/feed_store.h"')
        self.assert_broken("core/recommend/ranker.h", '#include "core/readers/ports.h"')  # a rule, and a use-case's port

    def test_a_folder_that_outgrew_its_place_is_named(self):
        files = {f"core/hot/a{i}.lua": "" for i in range(41)}
        status, said = check_layers(files)
        self.assertEqual(status, 1)
        self.assertIn("core/hot: 41 files", said)
        rooms = ("base", "config", "async", "redis", "items", "hot")
        status, said = check_layers({f"core/{room}/a.lua": "x\n" * (30 if room == "hot" else 10) for room in rooms})
        self.assertIn("core/hot: 30 lines", said)

    def test_includes_are_rooted_at_the_repository(self):
        self.assert_broken("core/base/a.cpp", '#include "a.h"')

    def test_an_unknown_folder_and_a_tests_header_are_found(self):
        self.assert_broken("core/other/a.h", '#include "core/base/ids.h"')
        self.assert_broken("core/base/a.h", '#include "tests/support/fake_redis.h"')

    def test_a_tree_without_sources_fails(self):
        self.assertEqual(check_layers({"README": ""})[0], 1)


class Keys(unittest.TestCase):
    ROWS = "".join(f'KeyPattern{{"{name}", "string", true, About::kNobody}},\n' for name in
                   ("a:{*}", "b:{*}:*", "one", "mark:one", "mark:two", "hot:one", "hot:two", "hot:epoch", "day:*"))

    def checked(self, path, text):
        files = {"core/redis/keys.h": self.ROWS, path: text, "core/hot/well.lua": "-- KEYS 1 a:{id}\n"}
        status, said = check("keys", files)
        return status, said

    def assert_broken(self, path, text, why):
        status, said = self.checked(path, text)
        self.assertEqual(status, 1, text)
        self.assertRegex(said, f"{path}.*: .*{why}")

    def assert_kept(self, path, text):
        status, said = self.checked(path, text)
        self.assertEqual(status, 0, said)

    def test_a_script_stays_with_what_is_in_braces(self):
        self.assert_kept("core/hot/a.lua", "-- KEYS 1 a:{id}  2 b:{id}:{day}  [3 b:{id}:{event}]\n-- ARGV 1 x\n")
        self.assert_kept("core/hot/a.lua", "-- KEYS 1 mark:one or mark:two\n")
        self.assert_broken("core/hot/a.lua", "-- KEYS 1 a:{id}  2 b:{reader}:{day}\n", "spans slots")
        self.assert_broken("core/hot/a.lua", "-- KEYS 1 a:{id}\n--      2 hot:one\n", "spans slots")
        self.assert_broken("core/hot/a.lua", "-- KEYS 1 mark:one  2 mark:two\n", "spans slots")
        self.assert_broken("core/hot/a.lua", "-- KEYS 1… a:{id} of each\n", "spans slots")
        self.assert_kept("core/hot/a.lua", "-- KEYS 1 hot:one  2 hot:two\n")  # what the articles of a group share is in one
        self.assert_broken("core/hot/a.lua", "-- KEYS 1 hot:one  2 hot:epoch\n", "spans slots")  # and what all share in another
        self.assert_broken("core/hot/a.lua", "-- KEYS 1 day:{day}  2 b:{id}:{day}\n", "spans slots")

    def test_a_call_of_many_ids_is_of_one_slot_when_its_sender_asks_for_that(self):
        self.assert_kept("core/hot/a_b.lua", "-- KEYS 1… a:{id} of each, by slot_or_zero()\n")
        files = {"core/redis/keys.h": self.ROWS, "core/hot/a_b.lua": "-- KEYS 1… a:{id} of each, by slot_or_zero()\n"}
        status, said = check("keys", files | {"core/hot/c.cpp": "calls[keys_.slot_or_zero(key)];\nout.script(scripts::kAB);\n"})
        self.assertEqual(status, 0, said)
        status, said = check("keys", files | {"core/hot/c.cpp": "out.script(scripts::kAB);\n"})
        self.assertEqual(status, 1)
        self.assertIn("core/hot/c.cpp: sends core/hot/a_b.lua without Keys::slot_or_zero()", said)

    def test_a_head_names_every_key_as_the_table_does(self):
        self.assert_broken("core/hot/a.lua", "-- KEYS 1 c:{id}\n", "no row of kKeyPatterns")
        self.assert_broken("core/hot/a.lua", "-- KEYS 1 a:{id}\nreturn KEYS[2]\n", "KEYS.2.")
        self.assert_broken("core/hot/a.lua", "return KEYS[1]\n", "no line -- KEYS")

    def test_commands_of_several_keys_are_found(self):
        self.assert_kept("core/hot/a.cpp", 'out.add("DEL", keys.one(id)).add("RENAMES");  // add("DEL", a, b)\n')
        self.assert_broken("core/hot/a.cpp", '\nout.add("DEL", keys.a(1, 2), keys.b());', "DEL spans slots")
        self.assert_broken("core/hot/a.cpp", 'out.command(1 + n).arg("MGET");', "MGET spans slots")
        self.assert_broken("core/hot/a.cpp", 'out.add("MULTI")', "MULTI spans slots")
        self.assert_broken("core/hot/a.cpp", 'out.add("EVAL", kLook, 2, a, b);', "kLook spans slots")
        self.assert_kept("core/hot/a.cpp", 'out.add("EVAL", kLook, 1, a, b);')

    def test_what_is_listed_may_span_and_must(self):
        self.assert_kept("scripts/ctl/backup/save_redis.cpp", 'out.add("MULTI")')
        # In the whole tree the list has nothing that spans no more.
        status, said = check("keys", {"core/redis/keys.h": self.ROWS, "core/hot/well.lua": "-- KEYS 1 a:{id}\n", "scripts/check-keys": ""})
        self.assertEqual(status, 1)
        self.assertIn("scripts/ctl/backup/save_redis.cpp: MULTI spans no slots, or is gone", said)


if __name__ == "__main__":
    unittest.main()

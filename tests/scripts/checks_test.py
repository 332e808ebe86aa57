"""The checks find what they are for: each rule is broken once in a small tree."""

import os
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def check_layers(files):
    """Runs scripts/check-layers on a tree of these files: (status, output)."""
    with tempfile.TemporaryDirectory() as tree:
        for path, text in files.items():
            os.makedirs(os.path.join(tree, os.path.dirname(path)), exist_ok=True)
            with open(os.path.join(tree, path), "w", encoding="utf-8") as file:
                file.write(text)
        done = subprocess.run([os.path.join(ROOT, "scripts/check-layers"), tree], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


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
        self.assert_kept("core/recommend/ranking.h", '#include "core/hot/views.h"')
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
        self.assert_broken("core/recommend/ranking.h", '#include "core/readers/ports.h"')  # a rule, and a use-case's port

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


if __name__ == "__main__":
    unittest.main()

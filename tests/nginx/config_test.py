"""The classic mistakes of nginx configurations, looked for in the shipped files (with the includes in place)."""

import os
import re
import unittest

from instance import ROOT

SYSTEM = "/etc/nginx/freshet/"
TOKEN = re.compile(r"""\s+|\#[^\n]*|(?P<word>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{};]|(?:[^\s;{}"']|\$\{|(?<=\$)\{)+)""")
LARGEST_BOT_LIST = 20


class Block:
    """A directive with its arguments; `inner` holds the directives in its braces, `outer` is the block around it."""

    def __init__(self, words, outer, file):
        self.name = words[0] if words else ""
        self.arguments = [word[1:-1] if word[:1] in "\"'" else word for word in words[1:]]
        self.outer, self.file, self.inner = outer, file, []

    def __str__(self):
        return f"{self.file}: {self.name} {' '.join(self.arguments)}"

    def walk(self):
        for block in self.inner:
            yield block
            yield from block.walk()

    def own(self, name):
        return [block for block in self.inner if block.name == name]


def parse(name, outer):
    with open(os.path.join(ROOT, "nginx", name), encoding="utf-8") as file:
        text = file.read()
    words, block = [], outer
    for match in TOKEN.finditer(text):
        word = match["word"]
        if word in (";", "{"):
            if words[0] == "include" and words[1].startswith(SYSTEM):
                parse(words[1][len(SYSTEM):], block)
            else:
                block.inner.append(Block(words, block, name))
                if word == "{":
                    block = block.inner[-1]
            words = []
        elif word == "}":
            block = block.outer
        elif word:
            words.append(word)
    assert block is outer and not words, f"{name} ends in the middle of something"


class Config(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = Block([], None, "")
        parse("nginx.conf", cls.root)
        cls.blocks = list(cls.root.walk())

    def named(self, *names):
        return [block for block in self.blocks if block.name in names]

    def test_every_shipped_file_is_part_of_the_whole(self):
        files = {block.file for block in self.blocks}
        offered = {"freshet-auth.conf"}  # by a line that is commented out
        self.assertEqual(files | offered, {name for name in os.listdir(os.path.join(ROOT, "nginx")) if name.endswith(".conf")})

    def test_nothing_depends_on_if_or_maps_a_path_by_alias(self):
        self.assertEqual([str(block) for block in self.named("if", "alias", "rewrite", "valid_referers", "autoindex")], [])

    def test_no_decoded_uri_reaches_a_reply_or_an_upstream(self):
        for block in self.named("return", "add_header", "fastcgi_param", "proxy_pass", "fastcgi_pass", "root"):
            if block.arguments[0] == "FRESHET_SITE":
                continue  # compared with the Origin, and nothing is made of it
            self.assertNotRegex(" ".join(block.arguments), r"\$(?:\{)?(?:uri|document_uri|http_host|host)\b", block)

    def test_a_block_with_headers_of_its_own_repeats_the_request_id_and_nosniff(self):
        for block in [self.root, *self.blocks]:
            headers = [header.arguments[0] for header in block.own("add_header")]
            if headers:
                self.assertIn("X-Request-Id", headers, block)
                self.assertIn("X-Content-Type-Options", headers, block)
                for header in block.own("add_header"):
                    self.assertEqual(header.arguments[-1], "always", header)

    def test_a_block_that_hides_headers_of_its_own_still_hides_the_workers_request_id(self):
        for block in self.blocks:
            hidden = [header.arguments[0] for header in block.own("fastcgi_hide_header")]
            self.assertTrue(not hidden or "X-Request-Id" in hidden, block)

    def test_a_block_with_parameters_has_all_of_them_and_one_zone(self):
        with_parameters = [block for block in self.blocks if block.own("fastcgi_param")]
        self.assertEqual(len(with_parameters), 4)  # two servers, and the last resort of each
        for block in with_parameters:
            names = [param.arguments[0] for param in block.own("fastcgi_param")]
            self.assertEqual(len(names), len(set(names)), block)
            self.assertIn("HTTP_PROXY", names)
            self.assertIn("FRESHET_ZONE", names)
            self.assertEqual([flag.arguments for flag in block.own("fastcgi_pass_request_headers")], [["off"]])

    def test_every_location_that_asks_the_pool_stands_below_its_parameters(self):
        asking = self.named("fastcgi_pass")
        self.assertGreater(len(asking), 5)
        for block in asking:
            around = block.outer
            while around and not around.own("fastcgi_param"):
                around = around.outer
            self.assertIsNotNone(around, block)

    def test_regular_expressions_of_locations_are_anchored_at_both_ends(self):
        for block in self.named("location"):
            if block.arguments[0].startswith("~"):
                self.assertRegex(block.arguments[1], r"^\^.*\$$", block)

    def test_no_address_is_believed_by_default(self):
        self.assertEqual(self.named("set_real_ip_from", "real_ip_header"), [])

    def test_no_limit_of_the_public_server_is_everybodys(self):
        zones = {block.arguments[1].removeprefix("zone=").split(":")[0]: block.arguments[0] for block in self.named("limit_conn_zone")}
        public = [limit for limit in self.named("limit_conn") if limit.file != "freshet-internal.conf"]
        self.assertGreater(len(public), 3)
        for limit in public:
            self.assertIn(zones[limit.arguments[0]], ("$freshet_address", "$freshet_body_address", "$freshet_body_network"), limit)

    def test_every_location_of_the_public_server_that_takes_a_body_bounds_those_of_an_address_and_a_network(self):
        for block in self.named("fastcgi_pass"):
            if block.file == "freshet-internal.conf" or block.arguments[0] == "freshet_fresh":  # the last resort has been counted
                continue
            around = block.outer
            while not around.own("limit_conn"):
                around = around.outer
            limits = {tuple(limit.arguments) for limit in around.own("limit_conn")}
            self.assertEqual(limits, {("freshet_address", "128"), ("freshet_bodies", "16"), ("freshet_body_networks", "64")}, block)

    def test_there_are_descriptors_for_every_connection_and_its_upstream(self):
        connections, files = (int(self.named(name)[0].arguments[0]) for name in ("worker_connections", "worker_rlimit_nofile"))
        self.assertGreaterEqual(connections, 16384)
        self.assertGreaterEqual(files, 2 * connections)

    def test_no_line_of_the_error_log_names_who_asked_for_what(self):
        for block in self.named("fastcgi_pass", "proxy_pass"):
            level = next(around.own("error_log")[0].arguments[1] for around in self._around(block) if around.own("error_log"))
            self.assertEqual(level, "emerg", block)
        for server in self.named("server"):
            if server.inner:
                self.assertIn(server.own("error_log")[0].arguments[1], ("alert", "emerg"), server)

    @staticmethod
    def _around(block):
        while block.outer is not None:
            block = block.outer
            yield block

    def test_the_bot_prefilter_is_short(self):
        crawlers = next(block for block in self.named("map") if block.arguments[1] == "$freshet_crawler")
        patterns = sum(len(entry.name.split("|")) for entry in crawlers.inner if entry.name != "default")
        self.assertLessEqual(patterns, LARGEST_BOT_LIST)

    def test_every_error_that_nginx_answers_has_its_row_and_the_row_says_its_status(self):
        problems = next(block for block in self.named("map") if block.arguments[1] == "$freshet_problem")
        rows = {entry.name: entry.arguments[0] for entry in problems.inner if entry.name != "default"}
        for status, text in rows.items():
            self.assertIn(f'"status":{status},', text)
        pages = {code for page in self.named("error_page") for code in page.arguments[:-1] if code.isdigit() and code != "494"}
        self.assertLessEqual(pages, set(rows))

    def test_nginx_waits_for_a_worker_longer_than_the_worker_for_a_reply_and_asks_again_within_that_time(self):
        pool = [block for block in self.blocks if block.own("fastcgi_param")]
        bulk = [block for block in self.named("location") if [each.arguments for each in block.own("client_max_body_size")] == [["8m"]]]
        self.assertEqual((len(pool), len(bulk)), (4, 1))
        for blocks, budget_s in ((pool, 1), (bulk, 30)):  # gateway.request_budget is 0.2 s, and a second where Redis is slow; gateway.bulk_budget
            for block in blocks:
                read, again = (int(self._innermost(block, name).removesuffix("s")) for name in ("fastcgi_read_timeout", "fastcgi_next_upstream_timeout"))
                self.assertTrue(budget_s + 1 < read <= budget_s + 5, block)
                self.assertTrue(read < again <= read + 5, block)
        for name, most in (("fastcgi_connect_timeout", 1), ("fastcgi_send_timeout", 3), ("proxy_connect_timeout", 1), ("proxy_read_timeout", 2)):
            for block in self._with_auth():
                for each in block.own(name):
                    self.assertLessEqual(int(each.arguments[0].removesuffix("s")), most, each)

    @staticmethod
    def _innermost(block, name):
        """The value in force in `block`."""
        while not block.own(name):
            block = block.outer
        return block.own(name)[-1].arguments[0]

    def _with_auth(self):
        offered = Block([], None, "")
        parse("freshet-auth.conf", offered)
        return [*self.blocks, *offered.walk()]

    def test_everything_that_nginx_writes_lies_in_folders_that_the_configuration_names(self):
        self.assertEqual({block.name for block in self.blocks if block.name.endswith("_temp_path")},
                         {f"{name}_temp_path" for name in ("client_body", "fastcgi", "proxy", "uwsgi", "scgi")})

    def test_no_connection_to_a_worker_outlives_ten_seconds_without_a_new_one_being_made(self):
        pool = next(block for block in self.named("upstream"))
        self.assertEqual(sum(int(pool.own(name)[0].arguments[0].removesuffix("s")) for name in ("keepalive_time", "keepalive_timeout")), 10)

    def test_nginx_is_who_the_socket_unit_lets_in(self):
        with open(os.path.join(ROOT, "systemd/freshet.socket"), encoding="utf-8") as file:
            self.assertIn(f"\nSocketUser={self.named('user')[0].arguments[0]}\n", file.read())

    def test_the_other_pools_are_the_same_sockets(self):
        pool, fresh, status = ({server.arguments[0]: server.arguments[1:] for server in block.own("server")} for block in self.named("upstream"))
        self.assertEqual(fresh, {path: options for path, options in pool.items() if "backup" not in options})
        self.assertEqual(status, {"unix:/run/freshet/status.sock": ["max_fails=0"], "unix:/run/freshet/freshetd.sock": ["max_fails=0", "backup"]})

    def test_the_pool_has_one_socket_in_six_spellings_three_in_reserve_that_never_count_as_down(self):
        servers = next(block for block in self.named("upstream")).own("server")
        paths = [server.arguments[0].removeprefix("unix:") for server in servers]
        self.assertEqual((len(set(paths)), len({os.path.normpath(path) for path in paths})), (6, 1))
        self.assertEqual(["backup" in server.arguments for server in servers], [False] * 3 + [True] * 3)
        self.assertTrue(all("max_fails=0" in server.arguments for server in servers))
        self.assertEqual({tries.arguments[0] for tries in self.named("fastcgi_next_upstream_tries")}, {"6"})


if __name__ == "__main__":
    unittest.main()

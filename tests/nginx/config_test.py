"""Checks the shipped nginx configuration (with includes resolved) for common mistakes."""

import os
import re
import unittest

from instance import ROOT

SYSTEM = "/etc/nginx/freshet/"
TOKEN = re.compile(r"""\s+|\#[^\n]*|(?P<word>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[{};]|(?:[^\s;{}"']|\$\{|(?<=\$)\{)+)""")
MAX_BOT_PATTERNS = 20


class Block:
    """A directive with its arguments. `inner`: the directives in its braces; `outer`: the enclosing block."""

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
    assert block is outer and not words, f"{name} ends inside a directive or block"


def budget_s(name):
    """The default of a budget of the gateway, in seconds."""
    with open(os.path.join(ROOT, "core/config/settings.h"), encoding="utf-8") as file:
        return int(re.search(rf"milliseconds {name}\{{(\d+)\}};", file.read())[1]) / 1000


def routes_of_workers():
    """(path, zone, whether it has gateway.bulk_budget) of each route in the workers' table."""
    with open(os.path.join(ROOT, "fcgi/handlers/routes.cpp"), encoding="utf-8") as file:
        rows = re.findall(r'Route\{Method::k\w+,\s*"([^"]+)",\s*Zone::(\w+),\s*(.*?)\},?\n(?=    Route|\};)', file.read(), re.DOTALL)
    return [(re.sub(r"\{\w+\}", "x", path), zone, "Budget::kBulk" in rest or "kBulkBodyLimit" in rest) for path, zone, rest in rows]


def location_of(block, path):
    """The innermost location that serves this path: an exact one, or the first regular expression, or the longest prefix."""
    found, prefix = None, ""
    for location in block.own("location"):
        kind, pattern = location.arguments if len(location.arguments) == 2 else ("", location.arguments[0])
        if kind == "=" and pattern == path:
            return location
        if kind == "" and path.startswith(pattern) and len(pattern) > len(prefix):
            found, prefix = location, pattern
    for location in block.own("location"):
        if location.arguments[0] == "~" and re.search(location.arguments[1].replace("(?<", "(?P<"), path):
            return location_of(location, path)
    return location_of(found, path) if found else block


class Config(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = Block([], None, "")
        parse("nginx.conf", cls.root)
        cls.blocks = list(cls.root.walk())

    def named(self, *names):
        return [block for block in self.blocks if block.name in names]

    def test_every_shipped_file_is_included(self):
        files = {block.file for block in self.blocks}
        optional = {"freshet-auth.conf"}  # included by a line that is commented out
        self.assertEqual(files | optional, {name for name in os.listdir(os.path.join(ROOT, "nginx")) if name.endswith(".conf")})

    def test_no_block_uses_if_alias_or_rewrite(self):
        self.assertEqual([str(block) for block in self.named("if", "alias", "rewrite", "valid_referers", "autoindex")], [])

    def test_no_decoded_uri_reaches_a_reply_or_an_upstream(self):
        for block in self.named("return", "add_header", "fastcgi_param", "proxy_pass", "fastcgi_pass", "root"):
            if block.arguments[0] == "FRESHET_SITE":
                continue  # only compared with the Origin
            self.assertNotRegex(" ".join(block.arguments), r"\$(?:\{)?(?:uri|document_uri|http_host|host)\b", block)

    def test_a_block_with_its_own_headers_repeats_the_request_id_and_nosniff(self):
        for block in [self.root, *self.blocks]:
            headers = [header.arguments[0] for header in block.own("add_header")]
            if headers:
                self.assertIn("X-Request-Id", headers, block)
                self.assertIn("X-Content-Type-Options", headers, block)
                for header in block.own("add_header"):
                    self.assertEqual(header.arguments[-1], "always", header)

    def test_a_block_that_hides_headers_also_hides_the_workers_request_id(self):
        for block in self.blocks:
            hidden = [header.arguments[0] for header in block.own("fastcgi_hide_header")]
            self.assertTrue(not hidden or "X-Request-Id" in hidden, block)

    def test_a_block_with_parameters_has_all_of_them_and_one_zone(self):
        with_parameters = [block for block in self.blocks if block.own("fastcgi_param")]
        self.assertEqual(len(with_parameters), 4)  # two servers, and the fallback location of each
        for block in with_parameters:
            names = [param.arguments[0] for param in block.own("fastcgi_param")]
            self.assertEqual(len(names), len(set(names)), block)
            self.assertIn("HTTP_PROXY", names)
            self.assertIn("FRESHET_ZONE", names)
            self.assertEqual([flag.arguments for flag in block.own("fastcgi_pass_request_headers")], [["off"]])

    def test_every_location_that_passes_to_the_pool_inherits_the_parameters(self):
        passing = self.named("fastcgi_pass")
        self.assertGreater(len(passing), 5)
        for block in passing:
            enclosing = block.outer
            while enclosing and not enclosing.own("fastcgi_param"):
                enclosing = enclosing.outer
            self.assertIsNotNone(enclosing, block)

    def test_regular_expressions_of_locations_are_anchored_at_both_ends(self):
        for block in self.named("location"):
            if block.arguments[0].startswith("~"):
                self.assertRegex(block.arguments[1], r"^\^.*\$$", block)

    def test_no_proxy_is_trusted_by_default(self):
        self.assertEqual(self.named("set_real_ip_from", "real_ip_header"), [])

    def test_every_limit_of_the_public_server_is_per_client(self):
        zones = {block.arguments[1].removeprefix("zone=").split(":")[0]: block.arguments[0] for block in self.named("limit_conn_zone")}
        public = [limit for limit in self.named("limit_conn") if limit.file != "freshet-internal.conf"]
        self.assertGreater(len(public), 3)
        for limit in public:
            self.assertIn(zones[limit.arguments[0]], ("$freshet_address", "$freshet_network", "$freshet_body_address", "$freshet_body_network"), limit)

    def test_every_public_location_limits_bodies_and_replies_by_address_and_network(self):
        for block in self.named("fastcgi_pass"):
            # the fallback location's requests were counted before
            if block.file == "freshet-internal.conf" or block.arguments[0] == "freshet_fresh":
                continue
            enclosing = block.outer
            while not enclosing.own("limit_conn"):
                enclosing = enclosing.outer
            limits = {tuple(limit.arguments) for limit in enclosing.own("limit_conn")}
            self.assertEqual(limits, {("freshet_address", "128"), ("freshet_networks", "512"), ("freshet_bodies", "16"), ("freshet_body_networks", "64")}, block)

    def test_every_limit_of_an_addresss_requests_has_one_of_its_network(self):
        zones = {block.arguments[1]: block.arguments for block in self.named("limit_req_zone")}
        self.assertEqual(zones["zone=freshet_network_requests:8m"], ["$freshet_network", "zone=freshet_network_requests:8m", "rate=400r/s"])
        blocks = [block for block in self.blocks if block.own("limit_req")]
        self.assertGreater(len(blocks), 4)
        for block in blocks:
            self.assertIn(["zone=freshet_network_requests", "burst=800", "nodelay"], [limit.arguments for limit in block.own("limit_req")], block)

    def test_there_are_descriptors_for_every_connection_and_its_upstream(self):
        connections, files = (int(self.named(name)[0].arguments[0]) for name in ("worker_connections", "worker_rlimit_nofile"))
        self.assertGreaterEqual(connections, 16384)
        self.assertGreaterEqual(files, 2 * connections)

    def test_the_error_log_does_not_identify_readers(self):
        for block in self.named("fastcgi_pass", "proxy_pass"):
            level = next(enclosing.own("error_log")[0].arguments[1] for enclosing in self._enclosing(block) if enclosing.own("error_log"))
            self.assertEqual(level, "emerg", block)
        for server in self.named("server"):
            if server.inner:
                self.assertIn(server.own("error_log")[0].arguments[1], ("alert", "emerg"), server)

    @staticmethod
    def _enclosing(block):
        while block.outer is not None:
            block = block.outer
            yield block

    def test_the_bot_prefilter_is_short(self):
        crawlers = next(block for block in self.named("map") if block.arguments[1] == "$freshet_crawler")
        patterns = sum(len(entry.name.split("|")) for entry in crawlers.inner if entry.name != "default")
        self.assertLessEqual(patterns, MAX_BOT_PATTERNS)

    def test_every_error_of_nginx_has_a_problem_with_its_status(self):
        problems = next(block for block in self.named("map") if block.arguments[1] == "$freshet_problem")
        rows = {entry.name: entry.arguments[0] for entry in problems.inner if entry.name != "default"}
        for status, text in rows.items():
            self.assertIn(f'"status":{status},', text)
        pages = {code for page in self.named("error_page") for code in page.arguments[:-1] if code.isdigit() and code != "494"}
        self.assertLessEqual(pages, set(rows))

    def test_nginx_waits_longer_than_the_workers_budget_and_retries_within_bounds(self):
        public, internal = (next(block for block in self.named("server") if block.file == f"freshet-{zone}.conf") for zone in ("public", "internal"))
        zones = {"kInternal": [internal], "kPublic": [public, internal]}
        routes = routes_of_workers()
        self.assertGreater(sum(bulk for _, _, bulk in routes), 5)
        for path, zone, bulk in routes:
            # Five times gateway.request_budget, for sites where Redis is slow.
            budget = budget_s("bulk_budget") if bulk else 5 * budget_s("request_budget")
            for server in zones[zone]:
                block = location_of(server, path)
                read, retry = (int(self._innermost(block, name).removesuffix("s")) for name in ("fastcgi_read_timeout", "fastcgi_next_upstream_timeout"))
                self.assertGreater(read, budget + 1, f"{path}: {block}")
                self.assertTrue(read < retry <= read + 5, f"{path}: {block}")
                self.assertLessEqual(read, 35, block)
        for server, read in ((public, "3s"), (internal, "35s")):
            again = next(block for block in server.own("location") if block.arguments == ["@freshet_again"])
            self.assertEqual(self._innermost(again, "fastcgi_read_timeout"), read)
        for name, max_s in (("fastcgi_connect_timeout", 1), ("fastcgi_send_timeout", 3), ("proxy_connect_timeout", 1), ("proxy_read_timeout", 2)):
            for block in self._with_auth():
                for each in block.own(name):
                    self.assertLessEqual(int(each.arguments[0].removesuffix("s")), max_s, each)

    @staticmethod
    def _innermost(block, name):
        """The value in effect in `block`."""
        while not block.own(name):
            block = block.outer
        return block.own(name)[-1].arguments[0]

    def test_every_get_of_a_worker_is_tried_again(self):
        """Where a location has error pages of its own, it does not inherit the retry. The pixel changes data, so it is not repeated."""
        passes = [block.outer for block in self.named("fastcgi_pass") if block.arguments == ["freshet"]]
        passes = [location for location in passes if self._innermost(location, "fastcgi_next_upstream") != "off"]
        self.assertGreater(len(passes), 4)
        for location in passes:
            block = location
            while not block.own("error_page"):
                block = block.outer
            target = next((page.arguments[-1] for page in block.own("error_page") if "502" in page.arguments), None)
            self.assertEqual(target, "@freshet_again", location)

    def _with_auth(self):
        optional = Block([], None, "")
        parse("freshet-auth.conf", optional)
        return [*self.blocks, *optional.walk()]

    def test_every_folder_that_nginx_writes_to_is_configured(self):
        self.assertEqual({block.name for block in self.blocks if block.name.endswith("_temp_path")},
                         {f"{name}_temp_path" for name in ("client_body", "fastcgi", "proxy", "uwsgi", "scgi")})

    def test_no_connection_to_a_worker_lasts_longer_than_ten_seconds(self):
        pool = next(block for block in self.named("upstream"))
        self.assertEqual(sum(int(pool.own(name)[0].arguments[0].removesuffix("s")) for name in ("keepalive_time", "keepalive_timeout")), 10)

    def test_nginx_runs_as_the_user_of_the_socket_unit(self):
        with open(os.path.join(ROOT, "systemd/freshet.socket"), encoding="utf-8") as file:
            self.assertIn(f"\nSocketUser={self.named('user')[0].arguments[0]}\n", file.read())

    def test_the_other_pools_use_the_same_sockets(self):
        pool, fresh, status = ({server.arguments[0]: server.arguments[1:] for server in block.own("server")} for block in self.named("upstream"))
        self.assertEqual(fresh, {path: options for path, options in pool.items() if "backup" not in options})
        self.assertEqual(status, {"unix:/run/freshet/status.sock": ["max_fails=0"], "unix:/run/freshet/freshetd.sock": ["max_fails=0", "backup"]})

    def test_the_pool_is_one_socket_in_six_spellings_three_of_them_backups(self):
        servers = next(block for block in self.named("upstream")).own("server")
        paths = [server.arguments[0].removeprefix("unix:") for server in servers]
        self.assertEqual((len(set(paths)), len({os.path.normpath(path) for path in paths})), (6, 1))
        self.assertEqual(["backup" in server.arguments for server in servers], [False] * 3 + [True] * 3)
        self.assertTrue(all("max_fails=0" in server.arguments for server in servers))
        self.assertEqual({tries.arguments[0] for tries in self.named("fastcgi_next_upstream_tries")}, {"6"})


if __name__ == "__main__":
    unittest.main()

"""Checks the shipped files for the mistakes that gixy looks for, with its rules (gixy itself needs a parser that Debian
does not have).

Each rule is a function that takes a whole configuration and yields its findings. Each is tested with bad and good
snippets, so that none passes vacuously. Intended exceptions of the shipped files are in ALLOWED, with the reason.
"""

import os
import re
import tempfile
import unittest

from config_test import Block, parse

RULES = {}

# (rule, part of the directive) → why it is correct here
ALLOWED = {
    ("unanchored_pattern", "$http_user_agent"): "User-Agents are matched by a word anywhere in them",
    ("unanchored_pattern", "$http_accept"): "a list of types, one of which may be text/html",
}


def rule(function):
    RULES[function.__name__] = function
    return function


def enclosing_blocks(block):
    """The enclosing blocks, the nearest first."""
    while block.outer is not None:
        block = block.outer
        yield block


def enclosing_location(block):
    return next((outer for outer in enclosing_blocks(block) if outer.name == "location"), None)


def location_pattern(location):
    """(modifier, pattern) of a location; the modifier of a prefix is ""."""
    words = location.arguments
    return (words[0], words[1]) if len(words) == 2 else ("", words[0])


def variables(text):
    return set(re.findall(r"\$\{?(\w+)", text))


def groups(pattern):
    """{name or number as text: source} of the capturing groups."""
    out, number, open_groups = {}, 0, []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 2
            continue
        if char == "[":
            at = pattern.index("]", at + 2)
        elif char == "(":
            named = re.match(r"\(\?P?<(\w+)>", pattern[at:])
            captures = named is not None or pattern[at + 1:at + 2] != "?"
            number += captures
            open_groups.append((at, named[1] if named else None, number if captures else None))
        elif char == ")":
            start, name, count = open_groups.pop()
            for key in filter(None, (name, str(count) if count else None)):
                out[key] = pattern[start:at + 1]
        at += 1
    return out


def can_match_newline(source):
    """True if a group can match a line break: it has a negated class without it, or a class that includes it."""
    negated = re.findall(r"\[\^((?:\\.|[^\]\\])*)\]", source)
    return any(r"\n" not in each and r"\s" not in each for each in negated) or re.search(r"\\[sWDH]|\(\?\w*s\w*\)", source) is not None


# Variables that nginx has decoded, so that they can contain line breaks.
DECODED = {"uri", "document_uri"}


@rule
def http_splitting(root):
    for block in root.walk():
        if block.name not in ("return", "rewrite", "add_header", "proxy_set_header", "proxy_pass", "set"):
            continue
        bad = set(DECODED)
        for outer in (block, *enclosing_blocks(block)):
            sources = [location_pattern(outer)[1]] if outer.name == "location" and outer.arguments and location_pattern(outer)[0].startswith("~") else []
            sources += [outer.arguments[0]] if outer.name == "rewrite" else []
            sources += [outer.arguments[-1].rstrip(")")] if outer.name == "if" and "~" in " ".join(outer.arguments) else []
            bad |= {name for source in sources for name, text in groups(source).items() if can_match_newline(text)}
        if variables(" ".join(block.arguments)) & bad:
            yield block


@rule
def ssrf(root):
    for block in root.walk():
        if block.name.endswith("_pass") and block.arguments:
            host = re.sub(r"^\w+://", "", block.arguments[0]).split("/")[0]
            inner = enclosing_location(block)
            if "$" in host and not (inner and inner.own("internal")):
                yield block


@rule
def missing_resolver(root):
    for block in root.walk():
        if block.name.endswith("_pass") and block.arguments and "$" in block.arguments[0]:
            if not any(outer.own("resolver") for outer in enclosing_blocks(block)):
                yield block


@rule
def origins(root):
    """A list of origins or referers that matches more than intended."""
    for block in root.walk():
        if block.name == "map" and block.arguments[0] in ("$http_origin", "$http_referer"):
            patterns = [(entry, entry.name.strip("\"'").lstrip("~*")) for entry in block.inner if entry.name.strip("\"'").startswith("~")]
        elif block.name == "if" and re.match(r"\(\$http_(?:origin|referer)$", block.arguments[0]) and block.arguments[1].lstrip("!").startswith("~"):
            patterns = [(block, block.arguments[-1].removesuffix(")"))]
        else:
            continue
        for where, pattern in patterns:
            host = pattern.partition("://")[2]
            if not pattern.startswith("^") or not re.search(r"\$$|/", host) or re.search(r"(?<!\\)\.(?![*+])", pattern):
                yield where


@rule
def add_header_redefinition(root):
    for block in root.walk():
        own = {header.arguments[0].lower() for header in block.own("add_header")}
        outer = next((each for each in enclosing_blocks(block) if each.own("add_header")), None) if own else None
        if outer and not {header.arguments[0].lower() for header in outer.own("add_header")} <= own:
            yield block


@rule
def fastcgi_param_loss(root):
    """A level with its own parameters inherits none."""
    for block in root.walk():
        own = {param.arguments[0] for param in block.own("fastcgi_param")}
        outer = next((each for each in enclosing_blocks(block) if each.own("fastcgi_param")), None) if own else None
        if outer and not {param.arguments[0] for param in outer.own("fastcgi_param")} <= own:
            yield block


@rule
def add_header_multiline(root):
    for block in root.walk():
        if block.name in ("add_header", "more_set_headers", "proxy_set_header") and "\n" in "".join(block.arguments):
            yield block


@rule
def alias_traversal(root):
    for block in root.walk():
        inner = enclosing_location(block)
        if block.name == "alias" and inner:
            modifier, prefix = location_pattern(inner)
            if modifier in ("", "^~") and block.arguments[0].endswith("/") and not prefix.endswith("/"):
                yield block


@rule
def host_spoofing(root):
    for block in root.walk():
        if block.name in ("proxy_set_header", "fastcgi_param", "return", "rewrite", "add_header", "proxy_pass") and "http_host" in variables(
                " ".join(block.arguments)):
            yield block


@rule
def valid_referers(root):
    return (block for block in root.walk() if block.name == "valid_referers" and "none" in block.arguments)


@rule
def unanchored_pattern(root):
    for block in root.walk():
        if block.name == "location" and location_pattern(block)[0].startswith("~"):
            pattern, where = location_pattern(block)[1], block
            if not (pattern.startswith("^") and pattern.endswith("$")):
                yield where
        if block.name == "map":
            for entry in block.inner:
                pattern = entry.name.strip("\"'")
                if pattern.startswith("~") and not re.match(r"~\*?(?:\(\?\w+\))?\^", pattern):
                    yield block


@rule
def if_is_evil(root):
    """In a location, `if` acts as a nested location; only `set` and what ends the request is safe."""
    for block in root.walk():
        if block.name == "if" and enclosing_location(block):
            for inner in block.inner:
                if inner.name not in ("return", "set") and not (inner.name == "rewrite" and inner.arguments[-1] in ("last", "redirect", "permanent")):
                    yield inner


@rule
def allow_without_deny(root):
    for block in root.walk():
        if block.own("allow") and not any(deny.arguments == ["all"] for deny in block.own("deny")):
            yield block


@rule
def return_bypasses_access(root):
    """return takes effect before allow and deny."""
    for block in root.walk():
        if block.name in ("location", "server") and block.own("return") and (block.own("allow") or block.own("deny")):
            yield block


@rule
def autoindex_on(root):
    """Directory listings."""
    return (block for block in root.walk() if block.name == "autoindex" and block.arguments == ["on"])


@rule
def version_disclosure(root):
    for block in root.walk():
        if block.name == "server_tokens" and block.arguments != ["off"]:
            yield block
        if block.name == "http" and not block.own("server_tokens"):
            yield block


@rule
def files_below_connections(root):
    """Each connection through the pool uses two descriptors."""
    connections = next((int(block.arguments[0]) for block in root.walk() if block.name == "worker_connections"), 0)
    files = next((int(block.arguments[0]) for block in root.walk() if block.name == "worker_rlimit_nofile"), 0)
    if connections and files < 2 * connections:
        yield next(block for block in root.walk() if block.name == "worker_connections")


def read(text):
    root = Block([], None, "")
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        parse(file.name, root)
    return root


def findings(root, name):
    for block in RULES[name](root):
        words = " ".join([block.name, *block.arguments])
        if not any(allowed == name and part in words for allowed, part in ALLOWED):
            yield str(block)


IN_LOCATION = "http { server_tokens off; server { location %s { %s } } }"

# rule: (snippets with findings, snippets without)
SNIPPETS = {
    "http_splitting": (
        [IN_LOCATION % ("/", "return 302 https://example.org$uri;"), IN_LOCATION % ("/", "add_header X-Was $document_uri;"),
         IN_LOCATION % ("~ ^/a/([^/]*)$", "add_header X-Name $1;"), IN_LOCATION % ("~ ^/a/(?<name>[^/]*)$", "return 301 /b/$name;"),
         IN_LOCATION % ("/", "rewrite ^/a/([^.]*)$ /b/$1 redirect;")],
        [IN_LOCATION % ("/", "return 302 https://example.org$request_uri;"), IN_LOCATION % (r"~ ^/a/([^/\n]*)$", "add_header X-Name $1;"),
         IN_LOCATION % ("~ ^/a/([a-z]*)$", "return 301 /b/$1;")]),
    "ssrf": (
        [IN_LOCATION % ("~ ^/to/(.*)$", "proxy_pass http://$1;"), IN_LOCATION % ("/", "fastcgi_pass $arg_pool;")],
        [IN_LOCATION % ("/", "proxy_pass http://pool/$request_uri;"), IN_LOCATION % ("/", "internal; proxy_pass http://$upstream_http_x;")]),
    "missing_resolver": (
        [IN_LOCATION % ("/", "proxy_pass http://$pool;")],
        [IN_LOCATION % ("/", "resolver 127.0.0.53; proxy_pass http://$pool;"), IN_LOCATION % ("/", "proxy_pass http://pool;")]),
    "origins": (
        [IN_LOCATION % ("/", "if ($http_origin ~ https://example\\.org) { return 403; }"),
         IN_LOCATION % ("/", "if ($http_origin !~ ^https://example.org$) { return 403; }"),
         'http { server_tokens off; map $http_origin $ok { "~^https://(a|b)\\.example\\.org" 1; } }'],
        [IN_LOCATION % ("/", "if ($http_origin !~ ^https://example\\.org$) { return 403; }"),
         'http { server_tokens off; map $http_origin $ok { "~^https://(a|b)\\.example\\.org$" 1; } }']),
    "add_header_redefinition": (
        ["http { server_tokens off; add_header X-A 1; server { location / { add_header X-B 1; } } }"],
        ["http { server_tokens off; add_header X-A 1; server { location / { add_header X-B 1; add_header x-a 2; } } }"]),
    "fastcgi_param_loss": (
        ["http { server_tokens off; server { fastcgi_param A 1; location / { fastcgi_param B 1; } } }"],
        ["http { server_tokens off; server { fastcgi_param A 1; location / { fastcgi_pass pool; } } }"]),
    "add_header_multiline": (
        [IN_LOCATION % ("/", "add_header X-A 'one\n two';")], [IN_LOCATION % ("/", "add_header X-A 'one two';")]),
    "alias_traversal": (
        [IN_LOCATION % ("/i", "alias /data/;"), IN_LOCATION % ("^~ /i", "alias /data/;")],
        [IN_LOCATION % ("/i/", "alias /data/;"), IN_LOCATION % ("= /i", "alias /data/;")]),
    "host_spoofing": (
        [IN_LOCATION % ("/", "proxy_set_header Host $http_host;"), IN_LOCATION % ("/", "return 301 https://$http_host/;"),
         IN_LOCATION % ("/", "fastcgi_param HTTP_HOST $http_host;")],
        [IN_LOCATION % ("/", "proxy_set_header Host $host;")]),
    "valid_referers": (
        [IN_LOCATION % ("/", "valid_referers none server_names;")], [IN_LOCATION % ("/", "valid_referers server_names;")]),
    "unanchored_pattern": (
        [IN_LOCATION % ("~ /api/items", "return 404;"), IN_LOCATION % ("~ ^/api/items", "return 404;"),
         'http { server_tokens off; map $uri $a { "~secret" 1; } }'],
        [IN_LOCATION % ("~ ^/api/items$", "return 404;"), 'http { server_tokens off; map $uri $a { "~^/secret" 1; } }']),
    "if_is_evil": (
        [IN_LOCATION % ("/", "if ($a) { add_header X-A 1; }"), IN_LOCATION % ("/", "if ($a) { rewrite ^ /b break; }")],
        [IN_LOCATION % ("/", "if ($a) { return 403; }"), "http { server_tokens off; server { if ($a) { rewrite ^ /b break; } } }"]),
    "allow_without_deny": (
        [IN_LOCATION % ("/", "allow 10.0.0.0/8;")], [IN_LOCATION % ("/", "allow 10.0.0.0/8; deny all;")]),
    "return_bypasses_access": (
        [IN_LOCATION % ("/", "deny all; return 200 secret;")], [IN_LOCATION % ("/", "return 404; location /a { deny all; }")]),
    "autoindex_on": ([IN_LOCATION % ("/", "autoindex on;")], [IN_LOCATION % ("/", "autoindex off;")]),
    "version_disclosure": (["http { server_tokens on; }", "http { }"], ["http { server_tokens off; }"]),
    "files_below_connections": (
        ["events { worker_connections 4096; }", "worker_rlimit_nofile 4096; events { worker_connections 4096; }"],
        ["worker_rlimit_nofile 8192; events { worker_connections 4096; }"]),
}


class Mistakes(unittest.TestCase):
    def test_every_rule_finds_bad_snippets_and_passes_good_ones(self):
        self.assertEqual(set(SNIPPETS), set(RULES))
        for name, (bad, good) in SNIPPETS.items():
            for text in bad:
                with self.subTest(rule=name, bad=text):
                    self.assertNotEqual(list(findings(read(text), name)), [])
            for text in good:
                with self.subTest(rule=name, good=text):
                    self.assertEqual(list(findings(read(text), name)), [])

    def test_the_shipped_files_have_no_findings(self):
        root = Block([], None, "")
        parse("nginx.conf", root)
        self.assertGreater(len(list(root.walk())), 100)
        for name in RULES:
            with self.subTest(rule=name):
                self.assertEqual(list(findings(root, name)), [])

    def test_every_allowed_exception_still_exists(self):
        root = Block([], None, "")
        parse("nginx.conf", root)
        for name, part in ALLOWED:
            with self.subTest(rule=name, directive=part):
                self.assertTrue(any(part in " ".join([block.name, *block.arguments]) for block in RULES[name](root)))


if __name__ == "__main__":
    unittest.main()

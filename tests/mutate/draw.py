"""Generates small, one-line changes that keep a source syntactically valid, and selects some of them by a seed."""

import random
import re
from collections import namedtuple
from itertools import groupby

from mutate import parsed

# Line `line` (from 1) of file `path` changes from `old` to `new`; a deleted line becomes empty. `how`: the kind of
# change.
Mutation = namedtuple("Mutation", "path line how old new")

# kind: which files. Kinds alternate; the larger ones come up more often. Those without OPERATORS below are parsed.
KINDS = {
    "lua": re.compile(r"core/\w+/(?:parts/)?\w+\.lua"),
    "handlers": re.compile(r"fcgi/handlers/\w+\.cpp"),
    "nginx": re.compile(r"nginx/[\w-]+\.conf"),
    "systemd": re.compile(r"systemd/(?:[\w-]+\.(?:service|socket|timer)|redis-acl\.conf)"),
    "pages": re.compile(r"nginx/html/[\w-]+\.js"),
    "clients": re.compile(r"scripts/clients/\w+/[Ff]reshet\.(?:mjs|php|py)"),
}
TURNS = ["lua", "handlers", "pages", "nginx", "lua", "systemd", "clients", "lua", "handlers", "nginx", "pages", "lua", "handlers", "nginx", "lua", "systemd", "handlers",
         "clients", "lua", "nginx", "handlers", "pages", "lua", "nginx", "systemd"]

STRING = r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\''
HIDDEN = {
    "lua": re.compile(STRING + r"|--.*"),
    "handlers": re.compile(STRING + r"|//.*"),
    "nginx": re.compile(STRING + r"|(?:^|(?<=\s))#.*"),
    "systemd": re.compile(r"^\s*#.*"),
}
OPPOSITE = {"==": "~=", "~=": "==", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">"}


def kind_of(path):
    return next((kind for kind, files in KINDS.items() if files.fullmatch(path)), None)


def code_only(line, kind):
    """The line with comments and string contents replaced by spaces, at the same length."""

    def blank(match):
        text = match[0]
        return text[0] + " " * (len(text) - 2) + text[-1] if text[0] in "\"'" else " " * len(text)

    return HIDDEN[kind].sub(blank, line)


def swaps(line, code, pattern, other):
    """Yields the line with one match of `pattern` in its code replaced by other(match), for each match."""
    for match in re.finditer(pattern, code):
        new = other(match)
        if new is not None:
            yield line[:match.start()] + new + line[match.end():]


def flipped(kind):
    def other(match):
        word = OPPOSITE[match[1]]
        return f" {'!=' if word == '~=' and kind == 'handlers' else word} "

    return other


def raised(match):
    return "1" if match[0] == "0" else str(int(match[0]) + 1)


def doubled(match):
    return "1" if match[0] == "0" else str(int(match[0]) * 2)


def negated(line, code, before, after, opposite):
    """Negates an `if` condition, except for plain checks of whether a result exists, which every request would notice."""
    match = re.match(rf"(\s*(?:\}} )?(?:else ?)?if {before})(.+?)({after}.*)$", code)
    if match and match[2].count("(") == match[2].count(")") and not re.fullmatch(r"!?\w+|.*[;{].*|.* = .*", match[2]):
        start, end = match.span(2)
        yield line[:start] + opposite % line[start:end] + line[end:]


def lua(line, code, is_complete):
    statement = re.match(r"\s*(?:(?:redis\.)?p?call\(|[a-z_]\w*\(|[a-z_][\w.\[\]]*(?:, [a-z_][\w.\[\]]*)* = |if .* end$)", code)
    if is_complete and statement and not re.match(r"\s*(?:local|function|for|return) ", code) and not code.rstrip().endswith(("{", "function()", "=")):
        yield "dropped EXPIRE" if "EXPIRE" in line else "deleted", [""]
    yield "flipped", swaps(line, code, r" (==|~=|<=|>=|<|>) ", flipped("lua"))
    yield "negated", negated(line, code, "", " then", "not (%s)")
    yield "changed", swaps(line, code, r"(?<![\w.\[%])\d+(?![\w.\]])", raised)
    yield "swapped", swaps(line, code, r" (and|or) ", lambda match: " or " if match[1] == "and" else " and ")
    yield "swapped", swaps(line, code, r" ([+-]) (?!0\b)", lambda match: " - " if match[1] == "+" else " + ")
    yield "swapped", swaps(line, code, r"math\.(min|max)\(", lambda match: "math.max(" if match[1] == "min" else "math.min(")
    yield "dropped EXPIRE", swaps(line, line, r", '(?:EX|PX)', \w+(?:\[\d+\])?(?=[,)])", lambda match: "")
    yield "dropped", swaps(line, line, r", '(?:NX|GT)'(?=[,)])", lambda match: "")


def handlers(line, code, is_complete):
    if code.startswith("#"):
        return
    if is_complete and re.fullmatch(r"\s*(?:[\w.:>\[\]-]+\(.*\)|[\w.>\[\]-]+ [|+-]?= .*|if \(.*\) .*|\+\+\w+|writer\b.*\));\s*", code):
        yield "deleted", [""]
    if is_complete and re.fullmatch(r"\s*(?:\w+)?\{.*\},\s*", code):
        yield "deleted", [""]
    yield "flipped", swaps(line, code, r" (==|!=|<=|>=|<|>) ", flipped("handlers"))
    yield "negated", negated(line, code, r"\(", r"\) (?:\{|\w)", "!(%s)")
    yield "changed", swaps(line, code, r"(?<![\w.])\d+(?![\w.]|'\d)", raised)
    yield "changed", swaps(line, code, r"(?<![\w.])\d+(?=_KiB|_MiB)", raised)
    yield "swapped", swaps(line, code, r" (&&|\|\|) ", lambda match: " || " if match[1] == "&&" else " && ")
    yield "swapped", swaps(line, code, r"\b(true|false)\b", lambda match: "true" if match[1] == "false" else "false")
    yield "swapped", swaps(line, code, r"std::(min|max)\b", lambda match: "std::max" if match[1] == "min" else "std::min")
    yield "swapped", swaps(line, code, r"Zone::k(Public|Internal)\b", lambda match: "Zone::kInternal" if match[1] == "Public" else "Zone::kPublic")


def nginx(line, code, is_complete):
    name = re.match(r"\s*(\S*)", code)[1]
    if name.startswith("listen") or not re.search(r"[;{]\s*$", code.rstrip()):
        return
    if is_complete and code.rstrip().endswith(";"):
        yield "deleted", [""]
    if "status" not in name and name not in ("error_page", "return"):
        yield "changed", swaps(line, code, r"(?<=[ =])\d+(?=(?:[kmgs]|ms|r/[sm])?[;\s])", doubled)
    yield "swapped", swaps(line, code, r"\b(on|off)(?=;)", lambda match: "off" if match[1] == "on" else "on")
    yield "swapped", swaps(line, code, r"FRESHET_ZONE (public|internal)", lambda match: "FRESHET_ZONE " + ("internal" if match[1] == "public" else "public"))
    if name not in ("location", "map", "upstream", "server", "limit_conn_zone", "limit_req_zone", "limit_conn", "log_format", "fastcgi_param"):
        yield "dropped", swaps(line, code, r"(?<=\S) [\w./=]+(?= [^;{]*;| *;)", lambda match: "" if len(code.split()) > 2 else None)
    else:
        # nginx omits an empty HTTP_ parameter even without if_not_empty.
        yield "dropped", swaps(line, code, r" (?:nodelay|if_not_empty)(?=;)", lambda match: None if " HTTP_" in code else "")


def systemd(line, code, is_complete):
    if not is_complete or ("=" not in code and not code.startswith("user ")) or code.startswith(("Description=", "Documentation=")):
        return
    if not code.startswith("user "):
        yield "deleted", [""]
        yield "changed", swaps(line, code, r"(?<=[=])\d+(?=(?:ms|min|s)?$)", doubled)
        yield "swapped", swaps(line, code, r"(?<==)(yes|no)$", lambda match: "no" if match[1] == "yes" else "yes")
    if not code.startswith(("Exec", "OnCalendar")):
        yield "dropped", swaps(line, code, r"(?<=\S) [^ ]+", lambda match: "")


OPERATORS = {"lua": lua, "handlers": handlers, "nginx": nginx, "systemd": systemd}


def mutations(path, text):
    """All mutations of the file, in order: [(line, [Mutation])], without lines that have none."""
    kind = kind_of(path)
    lines = text.split("\n")
    if kind not in OPERATORS:
        changes = groupby(parsed.line_changes(path, text), key=lambda change: change[0])
        rows = ((number, [Mutation(path, number, how, lines[number - 1], new) for _, how, new in found if new != lines[number - 1]]) for number, found in changes)
        return [(number, found) for number, found in rows if found]
    codes = [code_only(line, kind) for line in lines]
    depth, out, previous = 0, [], ""
    for number, (line, code) in enumerate(zip(lines, codes), 1):
        opened, closed = (sum(code.count(each) for each in word) for word in ("([", ")]"))
        # True for a complete statement, directive or row outside brackets.
        is_complete = depth == 0 and opened == closed and code.count("{") == code.count("}")
        if kind in ("nginx", "handlers"):
            is_complete = is_complete and (not previous or previous[-1] in ";{}:,")
        depth += opened - closed
        found = []
        for how, replacements in OPERATORS[kind](line, code, is_complete) if code.strip() else ():
            found += [Mutation(path, number, how, line, new) for new in replacements if new != line]
        if found:
            out.append((number, found))
        previous = code.rstrip() or previous
    return out


def draw(seed, count, sources):
    """Selects `count` mutations from sources {path: text}. The same seed and texts give the same sequence whatever the
    count. Kinds without files are skipped; at most one mutation per line.
    """
    pending = {}
    for kind in KINDS:
        sites = [found for path in sorted(sources) if kind_of(path) == kind for _, found in mutations(path, sources[path])]
        generator = random.Random(f"{seed} {kind}")
        generator.shuffle(sites)
        pending[kind] = [generator.choice([one for one in found if one.how == how])
                         for found in sites for how in [generator.choice(sorted({one.how for one in found}))]]
    selected = []
    while len(selected) < count and any(pending.values()):
        for kind in TURNS:
            if pending[kind] and len(selected) < count:
                selected.append(pending[kind].pop(0))
    return selected


def applied(mutation, text):
    """The file's text with the mutation applied."""
    lines = text.split("\n")
    assert lines[mutation.line - 1] == mutation.old, f"{mutation.path}:{mutation.line} has changed"
    lines[mutation.line - 1] = mutation.new
    return "\n".join(lines)

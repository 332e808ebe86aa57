"""Changes to languages with a parser: JavaScript by acorn, PHP by its own tokenizer, Python by ast."""

import ast
import functools
import json
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
COMMANDS = {".js": ("node", "javascript.mjs"), ".mjs": ("node", "javascript.mjs"), ".php": ("php", "php.php")}
FLIPPED = {ast.Eq: "!=", ast.NotEq: "==", ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in"}
SWAPPED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.And: "or", ast.Or: "and"}
SWAPPED_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


class _Python(ast.NodeVisitor):
    """Collects (start, end, how, new), in bytes."""

    def __init__(self, data):
        self.data, self.edits = data, []
        self.line_starts = [0]
        for line in data.splitlines(keepends=True):
            self.line_starts.append(self.line_starts[-1] + len(line))

    def start(self, node):
        return self.line_starts[node.lineno - 1] + node.col_offset

    def end(self, node):
        return self.line_starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node):
        return self.data[self.start(node):self.end(node)].decode()

    def add(self, node, how, new):
        self.edits.append((self.start(node), self.end(node), how, new))

    def between(self, left, right, how, new):
        """Replaces the operator between two operands."""
        gap = re.fullmatch(rb"[\s)]*(\S.*?)[\s(]*", self.data[self.end(left):self.start(right)])
        if gap:
            self.edits.append((self.end(left) + gap.start(1), self.end(left) + gap.end(1), how, new))

    def visit(self, node):
        super().visit(node)
        if isinstance(node, (ast.Expr, ast.AugAssign, ast.Raise)) or (isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name)):
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
                self.add(node, "deleted", "pass")
        elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
            self.add(node.test, "negated", f"not ({self.text(node.test)})")
        elif isinstance(node, ast.Compare):
            for left, operator, right in zip([node.left, *node.comparators], node.ops, node.comparators):
                self.between(left, right, "flipped", FLIPPED[type(operator)])
        elif isinstance(node, ast.BoolOp):
            for left, right in zip(node.values, node.values[1:]):
                self.between(left, right, "swapped", SWAPPED[type(node.op)])
            self.add(node, "dropped", self.text(node.values[0]))
            self.add(node, "dropped", self.text(node.values[-1]))
        elif isinstance(node, ast.BinOp) and type(node.op) in SWAPPED:
            self.between(node.left, node.right, "swapped", SWAPPED[type(node.op)])
            self.add(node, "dropped", self.text(node.left))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.add(node, "dropped", self.text(node.operand))
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            self.add(node, "swapped", str(not node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            self.add(node, "changed", str(node.value + 1))
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id in SWAPPED_NAMES:
                self.add(node.func, "swapped", SWAPPED_NAMES[node.func.id])
            for keyword in node.keywords[-1:]:  # the last one, whose comma is before it
                previous = (node.args + [each.value for each in node.keywords[:-1]] or [node.func])[-1]
                before = self.end(previous) + (0 if node.args or node.keywords[1:] else 1)
                self.edits.append((before, self.end(keyword), "dropped", ""))


@functools.cache
def edits(path, text):
    """[(start, end, how, new)] in characters; all keep the file valid."""
    data, suffix = text.encode(), os.path.splitext(path)[1]
    if suffix == ".py":
        visitor = _Python(data)
        visitor.visit(ast.parse(data))
        found = visitor.edits
    else:
        program, script = COMMANDS[suffix]
        found = json.loads(subprocess.run([program, os.path.join(HERE, script)], input=data, capture_output=True, check=True).stdout)
        if program == "node":  # which counts UTF-16 units, as many as characters without those beyond U+FFFF
            return found
    return [(len(data[:start].decode()), len(data[:end].decode()), how, new) for start, end, how, new in found]


def line_changes(path, text):
    """[(line, how, new line)] of the edits within one line, in order."""
    out = []
    for start, end, how, new in sorted(map(tuple, edits(path, text))):
        first, last = text.rfind("\n", 0, start) + 1, (text + "\n").find("\n", start)
        if end <= last and "\n" not in new:
            out.append((text.count("\n", 0, start) + 1, how, text[first:start] + new + text[end:last]))
    return out

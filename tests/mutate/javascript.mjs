// Reads JavaScript from stdin and prints the changes that tests/mutate can make to it: [[start, end, how, new], …].
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

// The npm packages of all tests.
const { parse } = createRequire(new URL("../browser/package.json", import.meta.url))("acorn");

const kFlipped = { "===": "!==", "!==": "===", "<": "<=", "<=": "<", ">": ">=", ">=": ">" };
const kSwapped = { "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "/", "/": "*", "++": "--", "--": "++", "+=": "-=", "-=": "+=" };
const kSwappedNames = new Map(Object.entries({ max: "min", min: "max", append: "prepend", prepend: "append", some: "every", every: "some",
  encodeURIComponent: "encodeURI" }));
const kDroppedCalls = new Set(["trim", "replace", "replaceAll", "toLowerCase", "toUpperCase", "filter", "slice", "sort", "catch", "reverse", "toFixed", "toPrecision"]);

const text = readFileSync(0, "utf8");
const edits = [];
const isText = (node) => node.type === "TemplateLiteral" || (node.type === "Literal" && typeof node.value === "string");
const textOf = (node) => text.slice(node.start, node.end);

function swapOperator(node, how, operator, left, right) {
  const start = text.indexOf(node.operator, left);
  if (operator && start < right) edits.push([start, start + node.operator.length, how, operator]);
}

const kVisitors = {
  ExpressionStatement(node) {
    if (!node.directive && !isText(node.expression)) edits.push([node.start, node.end, "deleted", ";"]);
  },
  IfStatement(node) {
    edits.push([node.test.start, node.test.end, "negated", `!(${textOf(node.test)})`]);
    if (!node.alternate) edits.push([node.start, node.end, "deleted", ";"]);
  },
  ConditionalExpression(node) {
    edits.push([node.test.start, node.test.end, "negated", `!(${textOf(node.test)})`]);
  },
  BinaryExpression(node) {
    swapOperator(node, "flipped", kFlipped[node.operator], node.left.end, node.right.start);
    if (isText(node.left) || isText(node.right)) return;
    swapOperator(node, "swapped", kSwapped[node.operator], node.left.end, node.right.start);
    if (/^[*/%+-]$/.test(node.operator)) edits.push([node.start, node.end, "dropped", textOf(node.left)]);
  },
  LogicalExpression(node) {
    swapOperator(node, "swapped", kSwapped[node.operator], node.left.end, node.right.start);
    edits.push([node.start, node.end, "dropped", textOf(node.left)], [node.start, node.end, "dropped", textOf(node.right)]);
  },
  AssignmentExpression(node) {
    swapOperator(node, "swapped", kSwapped[node.operator], node.left.end, node.right.start);
  },
  UpdateExpression(node) {
    const start = node.prefix ? node.start : node.argument.end;
    edits.push([start, start + 2, "swapped", kSwapped[node.operator]]);
  },
  UnaryExpression(node) {
    if (node.operator === "!") edits.push([node.start, node.end, "dropped", textOf(node.argument)]);
  },
  AwaitExpression(node) {
    edits.push([node.start, node.end, "dropped", textOf(node.argument)]);
  },
  Literal(node) {
    if (typeof node.value === "boolean") edits.push([node.start, node.end, "swapped", String(!node.value)]);
    if (typeof node.value === "number") edits.push([node.start, node.end, "changed", String(Number.isInteger(node.value) ? node.value + 1 : node.value * 2)]);
  },
  CallExpression({ callee, ...node }) {
    const name = callee.type === "MemberExpression" ? callee.property : callee;
    if (kSwappedNames.has(name.name)) edits.push([name.start, name.end, "swapped", kSwappedNames.get(name.name)]);
    if (callee.type === "MemberExpression" && kDroppedCalls.has(name.name)) edits.push([node.start, node.end, "dropped", textOf(callee.object)]);
  },
  ObjectExpression({ properties }) {
    properties.forEach((property, i) => {
      const before = i > 0 ? properties[i - 1].end : property.start;
      edits.push([before, i === 0 && properties.length > 1 ? properties[1].start : property.end, "dropped", ""]);
    });
  },
};

function walk(node) {
  if (Array.isArray(node)) return node.forEach(walk);
  if (typeof node?.type !== "string") return;
  kVisitors[node.type]?.(node);
  for (const [name, child] of Object.entries(node)) if (child && typeof child === "object" && !(name === "key" && !node.computed)) walk(child);
}

walk(parse(text, { ecmaVersion: "latest", sourceType: "module", allowReserved: true }));
process.stdout.write(JSON.stringify(edits));

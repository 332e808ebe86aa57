// What the page asks of the service, in a part that opens: method, path, status, and the same as a curl command. Whoever
// asks need not know of it: the browser's own fetch and sendBeacon are watched.
const kMost = 20;  // kinds of calls that are shown

const kinds = new Map();  // "GET /api/hot?model=views" → {row, status, command, count}
const box = document.createElement("details");
const list = document.createElement("ol");

const quoted = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;

function curl(method, url, type, body) {
  const parts = ["curl"];
  if (method !== (body ? "POST" : "GET")) parts.push("-X", method);
  parts.push(quoted(url));
  if (body) parts.push(...(type === "application/json" ? ["--json"] : ["-H", quoted(`Content-Type: ${type}`), "--data-binary"]), quoted(body));
  return parts.join(" ");
}

// The command is shown and marked, and copied where the browser lets a page do that.
async function copy(kind) {
  const command = kind.row.querySelector("pre");
  command.textContent = kind.command;
  command.hidden = false;
  getSelection().selectAllChildren(command);
  const done = await navigator.clipboard?.writeText(kind.command).then(() => true, () => false);
  kind.row.querySelector("button").textContent = done ? "Copied" : "Marked: copy it";
}

function makeRow(name, kind) {
  const row = document.createElement("li");
  const code = document.createElement("code");
  code.textContent = name;
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy as curl" });
  button.setAttribute("aria-label", `Copy as curl: ${name}`);
  button.addEventListener("click", () => copy(kind));
  const command = Object.assign(document.createElement("pre"), { hidden: true, tabIndex: 0 });
  row.append(code, " ", document.createElement("span"), " ", button, command);
  return row;
}

function show() {
  box.querySelector("summary").textContent = `Calls of this page (${[...kinds.values()].reduce((sum, { count }) => sum + count, 0)})`;
  if (!box.open) return;
  for (const [name, kind] of kinds) {
    kind.row ||= makeRow(name, kind);
    kind.row.querySelector("span").textContent = kind.status + (kind.count > 1 ? ` · ${kind.count} times` : "");
    if (!kind.row.isConnected) list.prepend(kind.row);
  }
  for (const row of [...list.children]) if (![...kinds.values()].some((kind) => kind.row === row)) row.remove();
}

// Notes a call, and returns what takes its outcome.
function note(method, address, type, body) {
  const url = new URL(address, location.href);
  const name = `${method} ${url.pathname}${url.search}`;
  const kind = kinds.get(name) || { count: 0 };
  kinds.set(name, Object.assign(kind, { count: kind.count + 1, command: curl(method, url, type, body) }));
  if (kinds.size > kMost) kinds.delete(kinds.keys().next().value);
  return (status) => {
    kind.status = status;
    show();
  };
}

const { fetch } = globalThis;
globalThis.fetch = async (address, request = {}) => {
  const { method = "GET", body, headers = {} } = request;
  const ended = note(method, address, headers["Content-Type"] || "text/plain", body);
  try {
    const reply = await fetch(address, request);
    ended(String(reply.status));
    return reply;
  } catch (error) {
    ended(error.name === "AbortError" || error.name === "TimeoutError" ? "given up" : "no reply");
    throw error;
  }
};

const sendBeacon = navigator.sendBeacon?.bind(navigator);
if (sendBeacon) {
  navigator.sendBeacon = (address, body) => {
    const sent = sendBeacon(address, body);
    note("POST", address, "text/plain", body)(sent ? "sent" : "not sent");
    return sent;
  };
}

box.className = "calls";
box.append(document.createElement("summary"), list);
box.addEventListener("toggle", show);
document.body.append(box);
show();

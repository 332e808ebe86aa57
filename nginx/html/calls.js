// A collapsed panel that lists the page's API calls, each with its status and as a curl command. It wraps the browser's
// fetch and sendBeacon, so callers need not know about it.
const kMaxCalls = 20;  // distinct calls shown

const calls = new Map();  // "GET /api/hot?model=views" → {row, status, command, count}
const panel = document.createElement("details");
const list = document.createElement("ol");

const shellQuote = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;

function curl(method, url, type, body) {
  const parts = ["curl"];
  if (method !== (body ? "POST" : "GET")) parts.push("-X", method);
  parts.push(shellQuote(url));
  if (body) parts.push(...(type === "application/json" ? ["--json"] : ["-H", shellQuote(`Content-Type: ${type}`), "--data-binary"]), shellQuote(body));
  return parts.join(" ");
}

// Shows and selects the command, and copies it if the browser allows that.
async function copy(entry) {
  const command = entry.row.querySelector("pre");
  command.textContent = entry.command;
  command.hidden = false;
  getSelection().selectAllChildren(command);
  const copied = await navigator.clipboard?.writeText(entry.command).then(() => true, () => false);
  entry.row.querySelector("button").textContent = copied ? "Copied" : "Selected: press Ctrl+C";
}

function makeRow(name, entry) {
  const row = document.createElement("li");
  const code = document.createElement("code");
  code.textContent = name;
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Copy as curl" });
  button.setAttribute("aria-label", `Copy as curl: ${name}`);
  button.addEventListener("click", () => copy(entry));
  const command = Object.assign(document.createElement("pre"), { hidden: true, tabIndex: 0 });
  row.append(code, " ", document.createElement("span"), " ", button, command);
  return row;
}

function show() {
  panel.querySelector("summary").textContent = `API calls on this page (${[...calls.values()].reduce((sum, { count }) => sum + count, 0)})`;
  if (!panel.open) return;
  for (const [name, entry] of calls) {
    entry.row ||= makeRow(name, entry);
    entry.row.querySelector("span").textContent = entry.status + (entry.count > 1 ? ` · ${entry.count} times` : "");
    if (!entry.row.isConnected) list.prepend(entry.row);
  }
  for (const row of [...list.children]) if (![...calls.values()].some((entry) => entry.row === row)) row.remove();
}

// Records a call. Returns a function that sets its status.
function record(method, address, type, body) {
  const url = new URL(address, location.href);
  const name = `${method} ${url.pathname}${url.search}`;
  const entry = calls.get(name) || { count: 0 };
  calls.set(name, Object.assign(entry, { count: entry.count + 1, command: curl(method, url, type, body) }));
  if (calls.size > kMaxCalls) calls.delete(calls.keys().next().value);
  return (status) => {
    entry.status = status;
    show();
  };
}

const { fetch } = globalThis;
globalThis.fetch = async (address, request = {}) => {
  const { method = "GET", body, headers = {} } = request;
  const setStatus = record(method, address, headers["Content-Type"] || "text/plain", body);
  try {
    const reply = await fetch(address, request);
    setStatus(String(reply.status));
    return reply;
  } catch (error) {
    setStatus(error.name === "AbortError" || error.name === "TimeoutError" ? "canceled" : "no response");
    throw error;
  }
};

const sendBeacon = navigator.sendBeacon?.bind(navigator);
if (sendBeacon) {
  navigator.sendBeacon = (address, body) => {
    const sent = sendBeacon(address, body);
    record("POST", address, "text/plain", body)(sent ? "sent" : "not sent");
    return sent;
  };
}

panel.className = "calls";
panel.append(document.createElement("summary"), list);
panel.addEventListener("toggle", show);
document.body.append(panel);
show();

// Shared by all pages: the current reader, calls to the service, and lists whose rows keep the focus.
import "/calls.js";
import { demo, zone } from "/zone.js";

export { demo, zone };
export const params = new URLSearchParams(location.search);

const newReaderId = () => "reader-" + Math.random().toString(36).slice(2, 10);

// The reader named in the address, else the one stored in this browser.
export const reader = params.get("user") || params.get("agent") || localStorage.freshetAgent || newReaderId();

// Continues as a reader without history, on every page.
function switchToNewReader() {
  localStorage.freshetAgent = newReaderId();
  localStorage.freshetChosen = "1";
  for (const name of ["user", "agent"]) params.delete(name);
  location.assign(location.pathname + (String(params) && `?${params}`));
}

// The current reader, on pages that show one. Until they switch, links marked user=me lead to the sample's reader.
const you = document.getElementById("you");
if (you) {
  localStorage.freshetAgent = reader;
  you.append("Reader: ", element("strong", reader), " ", button("Switch to a new reader", null, switchToNewReader));
}
if (localStorage.freshetChosen) {
  for (const link of document.querySelectorAll('nav a[href*="user=me"]')) link.setAttribute("href", link.getAttribute("href").replace(/[?&]user=me/, ""));
}

// Pages that need internal routes.
for (const [path, text] of zone === "internal" ? [["/whatif.html", "What if"], ["/dashboard", "Dashboard"], ["/docs", "API"]] : [["/docs.html", "API"]]) {
  const link = document.createElement("a");
  link.href = path;
  link.textContent = text;
  if (location.pathname.startsWith(path)) link.setAttribute("aria-current", "page");
  document.querySelector("nav").append(link);
}

export function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

export function element(tag, text, className) {
  const node = document.createElement(tag);
  if (text !== undefined) node.textContent = text;
  if (className) node.className = className;
  return node;
}

export function button(text, label, onClick) {
  const node = element("button", text);
  node.type = "button";
  if (label) node.setAttribute("aria-label", label);
  node.addEventListener("click", onClick);
  return node;
}

// The error of a call that must be signed (identity.internal_keys).
export const kKeysAreSet = "Keys are set: these pages cannot sign in";

// Shows a message and announces it to screen readers, unless it is shown already.
export function showStatus(message) {
  const state = document.getElementById("state");
  const text = message.includes(kKeysAreSet) ? `${kKeysAreSet}.` : message;
  if (state.textContent !== text) state.textContent = text;
}

// The JSON of a response. Throws an Error with a readable message; `final` means that a retry would not help. A response
// without JSON, such as a proxy's error page, is described by its status.
export async function readJson(reply) {
  const isJson = /\bjson\b/.test(reply.headers.get("Content-Type") || "");
  const answer = isJson ? await reply.json().catch(() => null) : null;
  if (reply.ok && answer !== null) return answer;
  const message = answer?.code === "bad_signature" ? kKeysAreSet : answer?.msg || `the service returned HTTP ${reply.status}`;
  throw Object.assign(new Error(message), { status: reply.status, final: reply.status >= 400 && reply.status < 500 && reply.status !== 429 });
}

export async function call(method, path, body) {
  const request = { method, keepalive: true };
  if (body) Object.assign(request, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  return readJson(await fetch(path, request).catch(throwUnreachable));
}

export function throwUnreachable() {
  throw new Error("the service is unreachable");
}

// call() with retries while they may help. Only for requests that can be repeated.
export async function callWithRetry(method, path, body, attempts = 5, intervalMs = 1000) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call(method, path, body);
    } catch (error) {
      if (error.final || attempt === attempts) throw error;
    }
    await pause(intervalMs);
  }
}

// Replaces the rows of a list. The focus stays in its row, or moves to the row that took its position.
export function replaceRows(list, rows) {
  const index = [...list.children].findIndex((row) => row.contains(document.activeElement));
  const focused = index < 0 ? null : document.activeElement;
  const id = index < 0 ? null : list.children[index].dataset.id;
  list.replaceChildren(...rows);
  if (!focused || rows.length === 0) return;
  if (focused.isConnected) return focused.focus({ preventScroll: true });
  const row = rows.find((each) => each.dataset.id === id) || rows[Math.min(index, rows.length - 1)];
  (row.querySelector(focused.tagName) || row.querySelector("a, button"))?.focus({ preventScroll: true });
}

// "1 article", "3 articles".
export function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

const kUnits = [[86400 * 365, "year"], [86400 * 30, "month"], [86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

// A duration in whole units, using the largest unit that fits: "3 days".
export function formatDuration(seconds) {
  const [size, unit] = kUnits.find(([each]) => seconds >= each) || kUnits.at(-1);
  return plural(Math.floor(Math.max(0, seconds) / size), unit);
}

export function articleUrl(id, user = reader) {
  return "/article.html?" + new URLSearchParams({ id, user });
}

// "by ann · 3 days ago · news, rust · source", where source links to the original if it is an absolute URL.
export function describeItem(item, target = element("span", "", "about")) {
  const published = item.published_at || item.update_time;
  const text = [item.author && `by ${item.author}`, published && `${formatDuration(Date.now() / 1000 - published)} ago`, (item.tags || []).join(", ")]
    .filter(Boolean).join(" · ");
  target.replaceChildren(text);
  if (/^https?:\/\//.test(item.url || "")) {
    const link = element("a", "source");
    link.href = item.url;
    link.rel = "noreferrer";
    link.title = new URL(item.url).hostname.replace(/^www\./, "");
    target.append(text ? " · " : "", link);
  }
  return target;
}

// Credits the sample's source and license, as the license requires, once an item of the sample is shown.
export function showAttribution(items) {
  const { host } = items.map((item) => URL.canParse(item.url || "") && new URL(item.url)).find((url) => url && /^[a-z.]+\.stackexchange\.com$/.test(url.host)) || {};
  if (!host || document.getElementById("attribution")) return;
  const link = (href, text) => Object.assign(element("a", text), { href });
  const footer = element("footer");
  footer.id = "attribution";
  footer.append("Sample content from ", link(`https://${host}`, host), ", a site of the Stack Exchange network, by the authors credited with each question. Licensed under ",
    link("https://creativecommons.org/licenses/by-sa/4.0/", "CC BY-SA 4.0"), " (", link("https://creativecommons.org/licenses/by-sa/3.0/", "3.0"), " before May 2018).");
  document.querySelector("main").after(footer);
}

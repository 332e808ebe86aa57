// What the pages share: who reads, asking the service, and rows that keep the focus.
import "/calls.js";
import { demo, zone } from "/zone.js";

export { demo, zone };
export const asked = new URLSearchParams(location.search);

const newReader = () => "reader-" + Math.random().toString(36).slice(2, 10);

// The reader of this browser, or the one that the address names.
export const reader = asked.get("user") || asked.get("agent") || localStorage.freshetAgent || newReader();

// Goes on as nobody whom the service knows, on every page.
function beNewReader() {
  localStorage.freshetAgent = newReader();
  localStorage.freshetChosen = "1";
  for (const name of ["user", "agent"]) asked.delete(name);
  location.assign(location.pathname + (String(asked) && `?${asked}`));
}

// Who reads, on pages that have a place for it. Nobody by choice, they are the sample's reader behind the links that say so.
const you = document.getElementById("you");
if (you) {
  localStorage.freshetAgent = reader;
  you.append("Reader: ", element("strong", reader), " ", button("Be a new reader", null, beNewReader));
}
if (localStorage.freshetChosen) {
  for (const link of document.querySelectorAll('nav a[href*="user=me"]')) link.setAttribute("href", link.getAttribute("href").replace(/[?&]user=me/, ""));
}

// These ask what only the internal server tells.
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
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

export function button(text, name, act) {
  const made = element("button", text);
  made.type = "button";
  if (name) made.setAttribute("aria-label", name);
  made.addEventListener("click", act);
  return made;
}

// Says something to everybody, screen readers included; the same thing once.
export function say(text) {
  const state = document.getElementById("state");
  if (state.textContent !== text) state.textContent = text;
}

// What a reply holds. Whatever is no JSON (a proxy's error page) is named by its status.
// Throws an Error for people; `final`: asking again would not help.
export async function read(reply) {
  const isJson = /\bjson\b/.test(reply.headers.get("Content-Type") || "");
  const answer = isJson ? await reply.json().catch(() => null) : null;
  if (reply.ok && answer !== null) return answer;
  const what = answer?.msg || `the service answered ${reply.status}`;
  throw Object.assign(new Error(what), { status: reply.status, final: reply.status >= 400 && reply.status < 500 && reply.status !== 429 });
}

export async function call(method, path, body) {
  const request = { method, keepalive: true };
  if (body) Object.assign(request, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  return read(await fetch(path, request).catch(unreachable));
}

export function unreachable() {
  throw new Error("the service cannot be reached");
}

// Like call(), and again after a pause for as long as that may help: for what may be repeated.
export async function callAgain(method, path, body, attempts = 5, everyMs = 1000) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call(method, path, body);
    } catch (error) {
      if (error.final || attempt === attempts) throw error;
    }
    await pause(everyMs);
  }
}

// Replaces the rows of a list. The focus stays in the same row, or goes to the one that took its place.
export function replaceRows(list, rows) {
  const at = [...list.children].findIndex((row) => row.contains(document.activeElement));
  const focused = at < 0 ? null : document.activeElement;
  const id = at < 0 ? null : list.children[at].dataset.id;
  list.replaceChildren(...rows);
  if (!focused || rows.length === 0) return;
  if (focused.isConnected) return focused.focus({ preventScroll: true });
  const row = rows.find((each) => each.dataset.id === id) || rows[Math.min(at, rows.length - 1)];
  (row.querySelector(focused.tagName) || row.querySelector("a, button"))?.focus({ preventScroll: true });
}

const kUnits = [[86400 * 365, "year"], [86400 * 30, "month"], [86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]];

// "3 days": of a time span in seconds, in its greatest unit.
export function inWords(seconds) {
  const [size, unit] = kUnits.find(([each]) => seconds >= each) || kUnits.at(-1);
  const count = Math.floor(Math.max(0, seconds) / size);
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

export function articleUrl(id, user = reader) {
  return "/article.html?" + new URLSearchParams({ id, user });
}

// "by ann · 3 days ago · news, rust · source": the last is a link to where the item was published, if that is on the web.
export function aboutItem(item, place = element("span", "", "about")) {
  const at = item.published_at || item.update_time;
  const said = [item.author && `by ${item.author}`, at && `${inWords(Date.now() / 1000 - at)} ago`, (item.tags || []).join(", ")]
    .filter(Boolean).join(" · ");
  place.replaceChildren(said);
  if (/^https?:\/\//.test(item.url || "")) {
    const link = element("a", "source");
    link.href = item.url;
    link.rel = "noreferrer";
    link.title = new URL(item.url).hostname.replace(/^www\./, "");
    place.append(said ? " · " : "", link);
  }
  return place;
}

// Names the origin and the licence of the sample's texts, as its licence asks for, once one of them is shown.
export function attribute(items) {
  const { host } = items.map((item) => URL.canParse(item.url || "") && new URL(item.url)).find((url) => url && /^[a-z.]+\.stackexchange\.com$/.test(url.host)) || {};
  if (!host || document.getElementById("attribution")) return;
  const link = (href, text) => Object.assign(element("a", text), { href });
  const footer = element("footer");
  footer.id = "attribution";
  footer.append("The sample is from ", link(`https://${host}`, host), ", a site of the Stack Exchange network, written by the authors named with each question, and licensed ",
    link("https://creativecommons.org/licenses/by-sa/4.0/", "CC BY-SA 4.0"), " (", link("https://creativecommons.org/licenses/by-sa/3.0/", "3.0"), " before May 2018).");
  document.querySelector("main").after(footer);
}

// The two hot lists, asked for every two seconds while the page is visible. A row that changed its place slides there
// and shows by how much.
import { articleUrl, attribute, element, pause, read, replaceRows, say, unreachable } from "/page.js";

const kEveryMs = 2000;
const kLimit = 20;
const kStaleMs = 6000;  // a list as old as this is not the service's
const still = matchMedia("(prefers-reduced-motion: reduce)");
const lists = [...document.querySelectorAll("ol.hot")];
const updated = document.getElementById("updated");

let leastLagMs = Infinity;  // how far this clock is ahead of the service's, at most

function makeRow(id) {
  const row = document.createElement("li");
  row.dataset.id = id;
  const link = element("a");
  link.href = articleUrl(id);
  row.append(element("span", "", "rank"), link, element("span", "", "score"), element("span", "", "move"));
  return row;
}

// before and after: places from 0; before is undefined for a row that was not there.
function showMove(row, before, after, first) {
  const move = row.querySelector(".move");
  const up = before - after;
  move.className = "move " + (first || up === 0 ? "" : before === undefined ? "new" : up > 0 ? "up" : "down");
  move.textContent = first || up === 0 ? "" : before === undefined ? "new" : (up > 0 ? "▲" : "▼") + Math.abs(up);
}

function render(list, items) {
  const rows = new Map([...list.children].map((row) => [row.dataset.id, row]));
  const placeBefore = new Map([...list.children].map((row, place) => [row.dataset.id, place]));
  const topBefore = new Map([...rows].map(([id, row]) => [id, row.getBoundingClientRect().top]));
  const first = rows.size === 0;
  const best = Math.max(...items.map((item) => item.score), 0);
  const next = items.map((item, place) => {
    const row = rows.get(item.id) || makeRow(item.id);
    row.querySelector(".rank").textContent = place + 1;
    row.querySelector("a").textContent = item.title || item.id;
    row.querySelector(".score").textContent = item.score.toPrecision(4);
    row.style.setProperty("--share", best > 0 ? item.score / best : 0);
    showMove(row, placeBefore.get(item.id), place, first);
    return row;
  });
  replaceRows(list, next);
  for (const row of next) {
    const way = topBefore.get(row.dataset.id) - row.getBoundingClientRect().top;
    if (way && !still.matches) row.animate([{ transform: `translateY(${way}px)` }, { transform: "none" }], { duration: 500, easing: "ease-out" });
  }
  attribute(items);
}

// When the list was sent, in ms: the browser may have kept it (stale-while-revalidate).
async function refresh(list) {
  const reply = await fetch(`/api/hot?model=${list.dataset.model}&limit=${kLimit}`).catch(unreachable);
  const items = await read(reply);
  render(list, items);
  const sentMs = Date.parse(reply.headers.get("Date")) - 1000 * (reply.headers.get("Age") || 0);
  return { count: items.length, sentMs, degraded: reply.headers.has("Freshet-Degraded") };
}

async function refreshAll() {
  try {
    const replies = await Promise.all(lists.map(refresh));
    const sentMs = Math.min(...replies.map((reply) => reply.sentMs));
    const lagMs = Date.now() - sentMs;
    leastLagMs = Math.min(leastLagMs, lagMs);
    updated.textContent = `Updated at ${new Date(sentMs).toLocaleTimeString()}.`;
    say(lagMs - leastLagMs > kStaleMs || replies.some((reply) => reply.degraded) ? "Not up to date: these are the last known lists."
      : replies.some((reply) => reply.count > 0) ? "" : "Nothing has been read yet: open an article or replay some traffic.");
  } catch (error) {
    say(`Not up to date: ${error.message}.`);
  }
}

async function run() {
  for (;;) {
    if (document.visibilityState === "visible") await refreshAll();
    await pause(kEveryMs);
  }
}

run();

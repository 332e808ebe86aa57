// The two hot lists, asked for every two seconds while the page is visible. A row that changed its place slides there
// and shows by how much.
"use strict";

const kEveryMs = 2000;
const kLimit = 20;
const still = matchMedia("(prefers-reduced-motion: reduce)");
const lists = [...document.querySelectorAll("ol.hot")];
const state = document.getElementById("state");

function makeRow(id) {
  const row = document.createElement("li");
  row.dataset.id = id;
  row.innerHTML = '<span class="rank"></span><a></a><span class="score"></span><span class="move"></span>';
  row.querySelector("a").href = "/article.html?id=" + encodeURIComponent(id);
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
  list.replaceChildren(...next);
  for (const row of next) {
    const way = topBefore.get(row.dataset.id) - row.getBoundingClientRect().top;
    if (way && !still.matches) row.animate([{ transform: `translateY(${way}px)` }, { transform: "none" }], { duration: 500, easing: "ease-out" });
  }
}

async function refresh(list) {
  const reply = await fetch(`/api/hot?model=${list.dataset.model}&limit=${kLimit}`);
  if (!reply.ok) throw new Error(`the service answered ${reply.status}`);
  const items = await reply.json();
  render(list, items);
  return items.length;
}

async function refreshAll() {
  try {
    const counts = await Promise.all(lists.map(refresh));
    state.textContent = counts.some((count) => count > 0)
      ? `Updated at ${new Date().toLocaleTimeString()}.` : "Nothing has been read yet: open an article or replay some traffic.";
  } catch (error) {
    state.textContent = `Not up to date: ${error.message}.`;
  }
}

async function run() {
  for (;;) {
    if (document.visibilityState === "visible") await refreshAll();
    await new Promise((done) => setTimeout(done, kEveryMs));
  }
}

run();

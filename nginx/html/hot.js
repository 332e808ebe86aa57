// The two hot lists, asked for every two seconds while the page is visible. A row that changed its place slides there; an
// arrow says how far it moved within a minute, a line how it moved within three. From the internal server a row also says why
// it stands where it stands.
import { aboutItem, articleUrl, attribute, button, call, element, inWords, pause, read, replaceRows, say, unreachable, zone } from "/page.js";

const kEveryMs = 2000;
const kLimit = 20;
const kStaleMs = 6000;  // a list as old as this is not the service's
const kArrowMs = 60000;
const kTrailMs = 180000;
const kTrail = { width: 64, height: 18 };
const still = matchMedia("(prefers-reduced-motion: reduce)");
const lists = [...document.querySelectorAll("ol.hot")];
const updated = document.getElementById("updated");

let leastLagMs = Infinity;  // how far this clock is ahead of the service's, at most

const trails = new Map(lists.map((list) => [list, []]));  // list → [{at, places: id → place}], oldest first

function svg(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function makeRow(id, model) {
  const row = element("li");
  row.dataset.id = id;
  const what = element("div", "", "what");
  const link = element("a");
  link.href = articleUrl(id);
  what.append(link, element("span", "", "about"));
  const where = element("div", "", "where");
  const line = svg("svg", { class: "trail", viewBox: `0 -1 ${kTrail.width} ${kTrail.height + 2}`, "aria-hidden": "true" });
  line.append(svg("polyline", {}));
  where.append(element("span", "", "score"), line, element("span", "", "move"));
  row.append(element("span", "", "rank"), what, where);
  if (zone === "internal") addWhy(row, where, id, model);
  return row;
}

// --- Why ---------------------------------------------------------------------------------------------------------------

function addWhy(row, where, id, model) {
  const panel = element("div", "", "why");
  panel.hidden = true;
  panel.id = `why-${model}-${id}`;
  const toggle = button("Why?", null, () => {
    panel.hidden = !panel.hidden;
    toggle.setAttribute("aria-expanded", String(!panel.hidden));
    if (!panel.hidden) showWhy(row, model);
  });
  toggle.className = "toggle";
  toggle.setAttribute("aria-expanded", "false");
  toggle.setAttribute("aria-controls", panel.id);
  where.prepend(toggle);
  row.append(panel);
  row.addEventListener("click", (event) => {
    if (!event.target.closest("a, button, .why")) toggle.click();
  });
}

const points = (value) => Number(value.toPrecision(4)).toLocaleString();

// [class, share of the bar, text], which add up to the whole bar.
function engagementTerms(stats) {
  const { terms, base, decay } = stats;
  return {
    parts: [
      ["pv", terms.pv * decay, `${points(terms.pv)} from ${stats.pv} page views`],
      ["uv", terms.uv * decay, `${points(terms.uv)} from ${stats.uv} visitors`],
      ["dwell", terms.dwell * decay, `${points(terms.dwell)} from ${(stats.avg_dwell_ms / 1000).toFixed(0)} s of mean reading time`],
      ["gone", base - stats.score, `${points(base - stats.score)} of them gone with age: ${inWords(stats.age_seconds)}`],
    ],
    sum: `${points(base)} × ${decay.toPrecision(3)} = ${points(stats.score)} points`,
  };
}

function viewsTerms({ views }) {
  return {
    parts: [
      ["uv", views.current, `${points(views.total)} from ${views.pv} views, a visitor's first of the day weighing more`],
      ["gone", views.total - views.current, `divided by ${views.divisor.toPrecision(3)} for an age of ${inWords(views.hours * 3600)}`],
    ],
    sum: `${points(views.total)} ÷ ${views.divisor.toPrecision(3)} = ${points(views.current)} points`,
  };
}

async function showWhy(row, model) {
  const panel = row.querySelector(".why");
  const turn = (panel.turn = (panel.turn || 0) + 1);
  try {
    const stats = await call("GET", `/api/articles/${encodeURIComponent(row.dataset.id)}/stats`);
    if (turn !== panel.turn) return;
    const { parts, sum } = model === "views" ? viewsTerms(stats) : engagementTerms(stats);
    const bar = element("div", "", "bar");
    const legend = element("ul", "", "legend");
    for (const [kind, share, text] of parts) {
      const part = element("span", "", kind);
      part.style.flexGrow = Math.max(0, share);
      bar.append(part);
      const line = element("li");
      line.append(element("span", "", "swatch " + kind), " " + text);
      legend.append(line);
    }
    bar.setAttribute("aria-hidden", "true");
    panel.replaceChildren(bar, legend, element("p", sum));
  } catch (error) {
    if (turn === panel.turn) panel.replaceChildren(element("p", `Not known: ${error.message}.`));
  }
}

// --- The lists -----------------------------------------------------------------------------------------------------------

// Notes the places, and returns those of the last minute, oldest first, without these.
function follow(list, items) {
  const now = performance.now();
  const trail = trails.get(list);
  const before = trail.filter((each) => each.at >= now - kArrowMs).map(({ places }) => places);
  if (items.length === 0) return before;
  trail.push({ at: now, places: new Map(items.map((item, place) => [item.id, place])) });
  while (trail[0].at < now - kTrailMs) trail.shift();
  return before;
}

// How far the row moved within the minute, or since it came; places from 0.
function showMove(row, before, place) {
  const move = row.querySelector(".move");
  const was = before.find((places) => places.has(row.dataset.id))?.get(row.dataset.id) ?? place;
  const came = before.length > 0 && !before[0].has(row.dataset.id);
  const up = was - place;
  move.className = "move " + (up > 0 ? "up" : up < 0 ? "down" : came ? "new" : "");
  move.textContent = up ? (up > 0 ? "▲" : "▼") + Math.abs(up) : came ? "new" : "";
}

function drawTrail(row, trail) {
  const now = trail.at(-1).at;
  const dots = trail.filter(({ places }) => places.has(row.dataset.id)).map(({ at, places }) =>
    `${(kTrail.width * (1 - (now - at) / kTrailMs)).toFixed(1)},${(kTrail.height * places.get(row.dataset.id) / (kLimit - 1)).toFixed(1)}`);
  row.querySelector("polyline").setAttribute("points", dots.length > 3 ? dots.join(" ") : "");
}

function render(list, items) {
  const model = list.dataset.model;
  const rows = new Map([...list.children].map((row) => [row.dataset.id, row]));
  const topBefore = new Map([...rows].map(([id, row]) => [id, row.getBoundingClientRect().top]));
  const before = follow(list, items);
  const best = Math.max(...items.map((item) => item.score), 0);
  const next = items.map((item, place) => {
    const row = rows.get(item.id) || makeRow(item.id, model);
    row.querySelector(".rank").textContent = place + 1;
    row.querySelector("a").textContent = item.title || item.id;
    row.querySelector(".score").textContent = `${item.score.toPrecision(4)} points`;
    row.style.setProperty("--share", best > 0 ? item.score / best : 0);
    if (!row.contains(document.activeElement)) aboutItem({ ...item, tags: [] }, row.querySelector(".about"));
    showMove(row, before, place);
    drawTrail(row, trails.get(list));
    if (row.querySelector(".why:not([hidden])")) showWhy(row, model);
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
  const query = new URLSearchParams({ model: list.dataset.model, limit: kLimit });
  if (list.dataset.mode) query.set("mode", list.dataset.mode);
  const reply = await fetch(`/api/hot?${query}`).catch(unreachable);
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

// The two hot lists, refreshed every two seconds while the page is visible. A row that moves slides to its new position; an
// arrow shows how far it moved within a minute, a line its positions within three. On the internal server, a row also
// explains its position.
import { articleUrl, button, call, describeItem, element, formatDuration, pause, plural, readJson, replaceRows, showAttribution, showStatus, throwUnreachable,
  zone } from "/page.js";

const kRefreshMs = 2000;
const kLimit = 20;
const kStaleMs = 6000;  // an older list comes from a cache because the service did not answer
const kArrowMs = 60000;
const kTrailMs = 180000;
const kTrail = { width: 64, height: 18 };
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
const lists = [...document.querySelectorAll("ol.hot")];
const updated = document.getElementById("updated");

let minLagMs = Infinity;  // upper bound of how far this clock is ahead of the service's

const trails = new Map(lists.map((list) => [list, []]));  // list → [{at, positions: id → position}], oldest first

function svg(tag, attributes) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  return node;
}

function makeRow(id, model) {
  const row = element("li");
  row.dataset.id = id;
  const what = element("div", "", "what");
  const link = element("a");
  link.href = articleUrl(id);
  what.append(link, element("span", "", "about"));
  const where = element("div", "", "where");
  const trail = svg("svg", { class: "trail", viewBox: `0 -1 ${kTrail.width} ${kTrail.height + 2}`, "aria-hidden": "true" });
  trail.append(svg("polyline", {}));
  where.append(element("span", "", "score"), trail, element("span", "", "move"));
  row.append(element("span", "", "rank"), what, where);
  if (zone === "internal") addExplanation(row, where, id, model);
  return row;
}

// --- Explanation of a position -------------------------------------------------------------------------------------------

function addExplanation(row, where, id, model) {
  const panel = element("div", "", "why");
  panel.hidden = true;
  panel.id = `why-${model}-${id}`;
  const toggle = button("Why?", null, () => {
    panel.hidden = !panel.hidden;
    toggle.setAttribute("aria-expanded", String(!panel.hidden));
    if (!panel.hidden) explain(row, model);
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

const formatPoints = (value) => Number(value.toPrecision(4)).toLocaleString();

// terms: [class, points, text]. The points add up to the whole bar.
function explainEngagement(stats) {
  const { terms, base, decay } = stats;
  return {
    terms: [
      ["pv", terms.pv * decay, `${formatPoints(terms.pv)} from ${plural(stats.pv, "page view")}`],
      ["uv", terms.uv * decay, `${formatPoints(terms.uv)} from ${plural(stats.uv, "visitor")}`],
      ["dwell", terms.dwell * decay, `${formatPoints(terms.dwell)} from a mean reading time of ${(stats.avg_dwell_ms / 1000).toFixed(0)} s`],
      ["gone", base - stats.score, `−${formatPoints(base - stats.score)} for age (${formatDuration(stats.age_seconds)})`],
    ],
    sum: `${formatPoints(base)} × ${decay.toPrecision(3)} = ${formatPoints(stats.score)} points`,
  };
}

function explainViews({ views }) {
  return {
    terms: [
      ["uv", views.current, `${formatPoints(views.total)} from ${plural(views.pv, "view")}; a visitor’s first view of the day counts more`],
      ["gone", views.total - views.current, `÷ ${views.divisor.toPrecision(3)} for age (${formatDuration(views.hours * 3600)})`],
    ],
    sum: `${formatPoints(views.total)} ÷ ${views.divisor.toPrecision(3)} = ${formatPoints(views.current)} points`,
  };
}

function explainTrending({ trending }) {
  const { views, score, median_age: age, half_life: halfLife } = trending;
  return {
    terms: [
      ["pv", score, `${views.toLocaleString()} ${views === 1 ? "view" : "views"}, about half of them ${age < 86400 ? `in the last ${formatDuration(age)}` : "more than a day ago"}`],
      ["gone", Math.max(0, views - score), `−${formatPoints(Math.max(0, views - score))} for the age of the views`],
    ],
    sum: `${formatPoints(score)} points: a view is worth half after ${formatDuration(halfLife)}`,
  };
}

const kExplanations = { engagement: explainEngagement, views: explainViews, trending: explainTrending };

async function explain(row, model) {
  const panel = row.querySelector(".why");
  const turn = (panel.turn = (panel.turn || 0) + 1);
  try {
    const stats = await call("GET", `/api/articles/${encodeURIComponent(row.dataset.id)}/stats`);
    if (turn !== panel.turn) return;
    const { terms, sum } = kExplanations[model](stats);
    const bar = element("div", "", "bar");
    const legend = element("ul", "", "legend");
    for (const [className, points, text] of terms) {
      const segment = element("span", "", className);
      segment.style.flexGrow = Math.max(0, points);
      bar.append(segment);
      const line = element("li");
      line.append(element("span", "", "swatch " + className), " " + text);
      legend.append(line);
    }
    bar.setAttribute("aria-hidden", "true");
    panel.replaceChildren(bar, legend, element("p", sum));
    if (stats.tuned_at) panel.append(element("p", `By default, the site’s list is ${stats.default_list}: freshetctl tune chose its settings ${formatDuration(Date.now() / 1000 - stats.tuned_at)} ago.`));
  } catch (error) {
    if (turn === panel.turn) panel.replaceChildren(element("p", `We couldn’t load the details: ${error.message}.`));
  }
}

// --- Lists -----------------------------------------------------------------------------------------------------------------

// Records the positions. Returns the earlier ones of the last minute, oldest first.
function recordPositions(list, items) {
  const now = performance.now();
  const trail = trails.get(list);
  const recent = trail.filter((each) => each.at >= now - kArrowMs).map(({ positions }) => positions);
  if (items.length === 0) return recent;
  trail.push({ at: now, positions: new Map(items.map((item, position) => [item.id, position])) });
  while (trail[0].at < now - kTrailMs) trail.shift();
  return recent;
}

// Shows how far the row moved within the minute, or since it appeared. Positions start at 0.
function showMove(row, recent, position) {
  const move = row.querySelector(".move");
  const earlier = recent.find((positions) => positions.has(row.dataset.id))?.get(row.dataset.id) ?? position;
  const isNew = recent.length > 0 && !recent[0].has(row.dataset.id);
  const up = earlier - position;
  move.className = "move " + (up > 0 ? "up" : up < 0 ? "down" : isNew ? "new" : "");
  move.textContent = up ? (up > 0 ? "▲" : "▼") + Math.abs(up) : isNew ? "new" : "";
}

function drawTrail(row, trail) {
  const now = trail.at(-1).at;
  const points = trail.filter(({ positions }) => positions.has(row.dataset.id)).map(({ at, positions }) =>
    `${(kTrail.width * (1 - (now - at) / kTrailMs)).toFixed(1)},${(kTrail.height * positions.get(row.dataset.id) / (kLimit - 1)).toFixed(1)}`);
  row.querySelector("polyline").setAttribute("points", points.length > 3 ? points.join(" ") : "");
}

function render(list, items) {
  const model = list.dataset.model;
  const oldRows = new Map([...list.children].map((row) => [row.dataset.id, row]));
  const oldTops = new Map([...oldRows].map(([id, row]) => [id, row.getBoundingClientRect().top]));
  const recent = recordPositions(list, items);
  const topScore = Math.max(...items.map((item) => item.score), 0);
  const rows = items.map((item, position) => {
    const row = oldRows.get(item.id) || makeRow(item.id, model);
    row.querySelector(".rank").textContent = position + 1;
    row.querySelector("a").textContent = item.title || item.id;
    row.querySelector(".score").textContent = `${item.score.toPrecision(4)} points`;
    row.style.setProperty("--share", topScore > 0 ? item.score / topScore : 0);
    if (!row.contains(document.activeElement)) describeItem({ ...item, tags: [] }, row.querySelector(".about"));
    showMove(row, recent, position);
    drawTrail(row, trails.get(list));
    if (row.querySelector(".why:not([hidden])")) explain(row, model);
    return row;
  });
  replaceRows(list, rows);
  for (const row of rows) {
    const offset = oldTops.get(row.dataset.id) - row.getBoundingClientRect().top;
    if (offset && !reducedMotion.matches) row.animate([{ transform: `translateY(${offset}px)` }, { transform: "none" }], { duration: 500, easing: "ease-out" });
  }
  showAttribution(items);
}

// sentMs: when the service sent the list. The browser may have cached it (stale-while-revalidate).
async function refresh(list) {
  const query = new URLSearchParams({ model: list.dataset.model, limit: kLimit });
  if (list.dataset.mode) query.set("mode", list.dataset.mode);
  const reply = await fetch(`/api/hot?${query}`).catch(throwUnreachable);
  const items = await readJson(reply);
  render(list, items);
  const sentMs = Date.parse(reply.headers.get("Date")) - 1000 * (reply.headers.get("Age") || 0);
  const { headers } = reply;
  return { count: items.length, sentMs, degraded: headers.has("Freshet-Degraded"), belowFloor: headers.has("Freshet-Below-Floor") };
}

function statusText(isOld, results) {
  const anyItems = results.some((result) => result.count > 0);
  if (isOld || results.some((result) => result.degraded)) {
    return "We can’t refresh the lists right now." + (anyItems ? " You’re seeing the last known lists." : "");
  }
  if (!anyItems) {
    return "Nothing is listed yet. An article is listed once it is imported (freshetctl import FILE, or PUT /api/items/ID) and read: open one, or replay some traffic. "
      + "Articles that only browsers have reported are counted, but not listed (items.unknown).";
  }
  return results.every((result) => result.count === 0 || result.belowFloor) ? "No article is hot right now. These are the newest." : "";
}

async function refreshAll() {
  try {
    const results = await Promise.all(lists.map(refresh));
    const sentMs = Math.min(...results.map((result) => result.sentMs));
    const lagMs = Date.now() - sentMs;
    minLagMs = Math.min(minLagMs, lagMs);
    updated.textContent = `Updated at ${new Date(sentMs).toLocaleTimeString()}.`;
    showStatus(statusText(lagMs - minLagMs > kStaleMs, results));
  } catch (error) {
    showStatus(`We can’t refresh the lists right now: ${error.message}.`);
  }
}

async function run() {
  for (;;) {
    if (document.visibilityState === "visible") await refreshAll();
    await pause(kRefreshMs);
  }
}

run();

// The hot page: hot.js, and outage.js, the demo's outage.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gate, kNow, lost, openPage, reply, settle } from "./page.mjs";

const item = (id, score, members = {}) => ({ id, title: `About ${id}`, score, ...members });
const [kEngagement, kViews] = ['ol[data-model="engagement"]', 'ol[data-model="views"]'];

// Opens the hot page. `lists`: {engagement, views, trending}, each items or a reply; `headers` are those of all lists.
async function openHot(context, lists, { headers = {}, answer = {}, ...options } = {}) {
  const respond = ({ query }, page) => {
    const found = lists[query.model] ?? [];
    return Array.isArray(found) ? reply(200, found, { Date: new Date(page.clock.now).toUTCString(), ...headers }) : found;
  };
  const page = await openPage(context, "/?user=ann", { ...options, answer: { "GET /api/hot": respond, ...answer } });
  page.moves = (list = kEngagement) => page.$$(`${list} .move`).map((move) => move.textContent && `${move.className}: ${move.textContent}`);
  return page;
}

test("all lists are requested and shown with ranks, points, shares and links", async (context) => {
  const page = await openHot(context, { engagement: [item("a b", 1234.56, { author: "ann", tags: ["news"] }), item("b", 617.28, { title: "" })], views: [item("c", 0)] });
  assert.deepEqual(page.taken(), ["GET /api/hot?model=engagement&limit=20", "GET /api/hot?model=views&limit=20&mode=current", "GET /api/hot?model=trending&limit=20"]);
  assert.deepEqual(page.texts(`${kEngagement} .rank`), ["1", "2"]);
  assert.deepEqual(page.texts(`${kEngagement} a`), ["About a b", "b"]);
  assert.equal(page.$(`${kEngagement} a`).getAttribute("href"), "/article.html?id=a+b&user=ann");
  assert.deepEqual(page.texts(`${kEngagement} .score`), ["1235 points", "617.3 points"]);
  assert.deepEqual(page.texts(`${kEngagement} .about`), ["by ann", ""], "without tags");
  assert.deepEqual(page.$$("ol.hot li").map((row) => row.style.getPropertyValue("--share")), ["1", "0.5", "0"]);
  assert.deepEqual(page.ids(kViews), ["c"]);
  assert.equal(page.status(), "");
  assert.equal(page.text("#updated"), `Updated at ${new Date(kNow).toLocaleTimeString()}.`);
  assert.deepEqual(page.moves(), ["", ""], "nothing is new on a page that has just opened");
  const trail = page.$(`${kEngagement} svg`);
  assert.deepEqual([trail.getAttribute("class"), trail.getAttribute("viewBox"), trail.getAttribute("aria-hidden")], ["trail", "0 -1 64 20", "true"]);
  assert.equal(page.$(".toggle"), null, "only the internal server explains");
});

test("lists are refreshed every two seconds while the page is visible", async (context) => {
  const lists = { engagement: [item("a", 2)] };
  const page = await openHot(context, lists);
  page.taken();
  await page.tick(1999);
  assert.deepEqual(page.taken(), []);
  lists.engagement = [item("b", 3), item("a", 2)];
  const [row] = page.$$(`${kEngagement} li`);
  await page.tick(1);
  assert.equal(page.taken().length, 3);
  assert.deepEqual(page.ids(kEngagement), ["b", "a"]);
  assert.equal(page.$$(`${kEngagement} li`)[1], row, "a row is kept");
  page.setVisible(false);
  await page.tick(20000);
  assert.deepEqual(page.taken(), []);
  page.setVisible(true);
  await page.tick(2000);
  assert.equal(page.taken().length, 3);
});

test("nothing is announced while lists are refreshed normally", async (context) => {
  const announced = [];
  const page = await openHot(context, { engagement: [item("a", 2)] }, { setUp: ({ window, document }) => {
    new window.MutationObserver(() => announced.push(document.getElementById("state").textContent))
      .observe(document.getElementById("state"), { childList: true, characterData: true, subtree: true });
  } });
  await page.tick(8000);
  assert.equal(page.requests.length, 15);
  assert.deepEqual(announced, [""]);
});

test("an empty service says how to fill the lists", async (context) => {
  const page = await openHot(context, {});
  assert.equal(page.status(), "Nothing is listed yet. An article is listed once it is imported (freshetctl import FILE, or PUT /api/items/ID) and read: "
    + "open one, or replay some traffic. Articles that only browsers have reported are counted, but not listed (items.unknown).");
  const half = await openHot(context, { views: [item("a", 1)] });
  assert.equal(half.status(), "");
});

test("an arrow shows how far a row moved within a minute", async (context) => {
  const lists = { engagement: [item("a", 3), item("b", 2), item("c", 1)] };
  const page = await openHot(context, lists);
  lists.engagement = [item("c", 4), item("a", 3), item("b", 2)];
  await page.tick(2000);
  assert.deepEqual(page.moves(), ["move up: ▲2", "move down: ▼1", "move down: ▼1"]);
  await page.tick(58000);
  assert.deepEqual(page.moves(), ["move up: ▲2", "move down: ▼1", "move down: ▼1"]);
  await page.tick(2000);
  assert.deepEqual(page.moves(), ["", "", ""]);
  assert.equal(page.$(`${kEngagement} .move`).className, "move ");
});

test("a row that appears is new for a minute, or moves from where it appeared", async (context) => {
  const lists = { engagement: [item("a", 3)] };
  const page = await openHot(context, lists);
  lists.engagement = [item("a", 3), item("n", 2)];
  await page.tick(2000);
  assert.deepEqual(page.moves(), ["", "move new: new"]);
  lists.engagement = [item("n", 4), item("a", 3)];
  await page.tick(2000);
  assert.deepEqual(page.moves(), ["move up: ▲1", "move down: ▼1"]);
  lists.engagement = [item("a", 5), item("n", 4)];
  await page.tick(2000);
  assert.deepEqual(page.moves(), ["", "move new: new"]);
  await page.tick(60000);
  assert.deepEqual(page.moves(), ["", ""]);
});

test("an empty list does not make every row new again", async (context) => {
  const lists = { engagement: [item("a", 3)] };
  const page = await openHot(context, lists);
  lists.engagement = [];
  await page.tick(2000);
  assert.deepEqual(page.ids(kEngagement), []);
  lists.engagement = [item("a", 3)];
  await page.tick(2000);
  assert.deepEqual(page.moves(), [""]);
});

test("a line shows a row's positions of three minutes once there are four", async (context) => {
  const lists = { engagement: [item("a", 3), item("b", 2)] };
  const page = await openHot(context, lists);
  const lines = () => page.$$(`${kEngagement} polyline`).map((line) => line.getAttribute("points"));
  await page.tick(2000);
  lists.engagement = [item("b", 4), item("a", 3)];
  await page.tick(2000);
  assert.deepEqual(lines(), ["", ""]);
  await page.tick(2000);
  assert.deepEqual(lines(), ["61.9,0.9 62.6,0.9 63.3,0.0 64.0,0.0", "61.9,0.0 62.6,0.0 63.3,0.9 64.0,0.9"]);
  lists.engagement.push(item("c", 1));
  await page.tick(2000);
  assert.equal(lines()[2], "");
  await page.tick(172000);
  assert.match(lines()[0], /^0\.0,0\.9 0\.7,/);
  await page.tick(2000);
  assert.match(lines()[0], /^0\.0,0\.9 0\.7,0\.0 /);
  await page.tick(4000);
  assert.match(lines()[0], /^0\.0,0\.0 /);
  assert.equal(lines()[0].split(" ").length, 91);
});

// Gives rows a height of 30 px; jsdom lays out nothing.
const layOutRows = ({ window }) => {
  window.Element.prototype.getBoundingClientRect = function () {
    return { top: 30 * [...(this.parentNode?.children ?? [])].indexOf(this) };
  };
};

test("a row slides from where it was", async (context) => {
  const lists = { engagement: [item("a", 3), item("b", 2)] };
  const page = await openHot(context, lists, { setUp: layOutRows });
  assert.deepEqual(page.animations, []);
  lists.engagement = [item("b", 4), item("a", 3), item("c", 1)];
  await page.tick(2000);
  const slide = { to: "none", duration: 500, easing: "ease-out" };
  assert.deepEqual(page.animations.splice(0), [{ id: "b", from: "translateY(30px)", ...slide }, { id: "a", from: "translateY(-30px)", ...slide }]);
  await page.tick(2000);
  assert.deepEqual(page.animations, [], "nothing moved");
});

test("nothing slides if motion is reduced", async (context) => {
  const lists = { engagement: [item("a", 3), item("b", 2)] };
  const page = await openHot(context, lists, { setUp: (page) => {
    page.window.matchMedia = (query) => ({ matches: query === "(prefers-reduced-motion: reduce)" });
    layOutRows(page);
  } });
  lists.engagement = [item("b", 4), item("a", 3)];
  await page.tick(2000);
  assert.deepEqual(page.animations, []);
});

test("the row that has the focus keeps its link", async (context) => {
  const lists = { engagement: [item("a", 3, { url: "https://example.org/1" }), item("b", 2, { url: "https://example.org/1" })] };
  const page = await openHot(context, lists);
  const source = page.$(`${kEngagement} .about a`);
  source.focus();
  await page.tick(2000);
  assert.equal(page.document.activeElement, source);
  assert.ok(source.isConnected);
  page.document.activeElement.blur();
  await page.tick(2000);
  assert.notEqual(page.$(`${kEngagement} .about a`), source, "others are renewed");
});

test("an error is shown with its reason, and the lists stay", async (context) => {
  const lists = { engagement: [item("a", 3)] };
  const page = await openHot(context, lists);
  for (const [failure, reason] of [[reply(503, { msg: "busy" }), "busy"], [reply(502, "<html>"), "the service returned HTTP 502"], [lost(), "the service is unreachable"]]) {
    lists.views = failure;
    await page.tick(2000);
    assert.equal(page.status(), `We can’t refresh the lists right now: ${reason}.`);
    assert.deepEqual(page.ids(kEngagement), ["a"]);
  }
  delete lists.views;
  await page.tick(2000);
  assert.equal(page.status(), "");
});

const kStale = "We can’t refresh the lists right now. You’re seeing the last known lists.";

test("a degraded or old list is said to be the last known one", async (context) => {
  const headers = {};
  const page = await openHot(context, { engagement: [item("a", 3)] }, { headers });
  headers["Freshet-Degraded"] = "redis";
  await page.tick(2000);
  assert.equal(page.status(), kStale);
  delete headers["Freshet-Degraded"];
  await page.tick(2000);
  assert.equal(page.status(), "");
  headers.Age = "6";
  await page.tick(2000);
  assert.equal(page.status(), "", "six seconds are not old yet");
  headers.Age = "7";
  await page.tick(2000);
  assert.equal(page.status(), kStale);
  assert.equal(page.text("#updated"), `Updated at ${new Date(page.clock.now - 7000).toLocaleTimeString()}.`);
});

test("an empty list is not said to be unread while the service is degraded", async (context) => {
  const headers = { "Freshet-Degraded": "true" };
  const page = await openHot(context, {}, { headers });
  assert.equal(page.status(), "We can’t refresh the lists right now.");
  delete headers["Freshet-Degraded"];
  await page.tick(2000);
  assert.match(page.status(), /^Nothing is listed yet\./);
});

test("newest items in place of hot ones are said to be the newest", async (context) => {
  const lists = { engagement: reply(200, [item("a", 0)], { Date: new Date(kNow).toUTCString(), "Freshet-Below-Floor": "true" }) };
  const page = await openHot(context, lists);
  assert.equal(page.status(), "No article is hot right now. These are the newest.");
  lists.views = [item("b", 2)];
  await page.tick(2000);
  assert.equal(page.status(), "", "one of the lists is hot");
});

test("a clock that is ahead of the service's does not make lists look old", async (context) => {
  const headers = { Date: new Date(kNow - 3600000).toUTCString() };
  const page = await openHot(context, { engagement: [item("a", 3)] }, { headers });
  assert.equal(page.status(), "");
  headers.Date = new Date(kNow - 3600000 + 2000).toUTCString();
  await page.tick(2000);
  assert.equal(page.status(), "");
  await page.tick(6000);
  assert.equal(page.status(), "");
  await page.tick(2000);
  assert.equal(page.status(), kStale);
});

test("the older of the two lists decides", async (context) => {
  let call = 0;
  const page = await openHot(context, {}, { answer: { "GET /api/hot": ({ query }, opened) =>
    reply(200, [item("a", 1)], { Date: new Date(opened.clock.now - (call++ > 1 && query.model === "views" ? 9000 : 0)).toUTCString() }) } });
  assert.equal(page.status(), "");
  await page.tick(2000);
  assert.equal(page.status(), kStale);
});

test("the hot page credits the sample's source", async (context) => {
  const page = await openHot(context, { views: [item("a", 1, { url: "https://quantumcomputing.stackexchange.com/q/12" })] });
  assert.ok(page.$("#attribution"));
});

// --- Explanations ----------------------------------------------------------------------------------------------------------

const kStats = {
  pv: 1200, uv: 1, avg_dwell_ms: 65400, terms: { pv: 1200, uv: 5, dwell: 30.256 }, base: 1235.256, decay: 0.5, score: 617.628, age_seconds: 7200,
  views: { total: 1500, current: 500, pv: 1, divisor: 3, hours: 2.5 },
  trending: { views: 1204, score: 602.5, half_life: 3600, median_age: 720 },
};
const openExplained = (context, stats, lists = { engagement: [item("a/b", 3), item("c", 2)], views: [item("a/b", 3)], trending: [item("a/b", 3)] }) =>
  openHot(context, lists, { zone: "internal", answer: { "GET /api/articles/a%2Fb/stats": stats, "GET /status": () => ({}) } });

test("Why? explains a row by terms that add up to its points", async (context) => {
  const page = await openExplained(context, () => kStats);
  const row = page.$(`${kEngagement} li`);
  const toggle = row.querySelector(".toggle");
  const panel = row.querySelector(".why");
  assert.deepEqual([toggle.textContent, toggle.getAttribute("aria-expanded"), toggle.getAttribute("aria-controls"), panel.id, panel.hidden],
    ["Why?", "false", "why-engagement-a/b", "why-engagement-a/b", true]);
  assert.equal(row.querySelector(".where").firstChild, toggle);
  page.taken();
  toggle.click();
  await settle();
  assert.deepEqual(page.taken(), ["GET /api/articles/a%2Fb/stats"]);
  assert.deepEqual([toggle.getAttribute("aria-expanded"), panel.hidden], ["true", false]);
  const legend = [...panel.querySelectorAll(".legend li")];
  assert.deepEqual(legend.map((line) => line.textContent), [" 1,200 from 1200 page views", " 5 from 1 visitor", " 30.26 from a mean reading time of 65 s",
    " −617.6 for age (2 hours)"]);
  assert.deepEqual(legend.map((line) => line.firstChild.className), ["swatch pv", "swatch uv", "swatch dwell", "swatch gone"]);
  const bar = [...panel.querySelectorAll(".bar span")];
  assert.deepEqual(bar.map(({ className, style }) => [className, Number(style.flexGrow)]), [["pv", 600], ["uv", 2.5], ["dwell", 15.128], ["gone", 617.628]]);
  assert.equal(panel.querySelector(".bar").getAttribute("aria-hidden"), "true");
  assert.equal(panel.querySelector("p").textContent, "1,235 × 0.500 = 617.6 points");
  toggle.click();
  await settle();
  assert.deepEqual([toggle.getAttribute("aria-expanded"), panel.hidden, page.taken()], ["false", true, []]);
});

test("Why? names the default list that freshetctl tune chose", async (context) => {
  const tuned = { ...kStats, default_list: "trending; half_life=15m", tuned_at: kNow / 1000 - 7200 };
  for (const [stats, text] of [[tuned, ["By default, the site’s list is trending; half_life=15m: freshetctl tune chose its settings 2 hours ago."]],
    [{ ...tuned, tuned_at: null }, []]]) {
    const page = await openExplained(context, () => stats);
    await page.click(`${kEngagement} .toggle`);
    await settle();
    assert.deepEqual([...page.$(`${kEngagement} .why`).querySelectorAll("p")].slice(1).map((each) => each.textContent), text);
  }
});

test("the list by views explains the exponent's part", async (context) => {
  const page = await openExplained(context, () => kStats);
  await page.click(`${kViews} .toggle`);
  const panel = page.$(`${kViews} .why`);
  assert.equal(panel.id, "why-views-a/b");
  assert.deepEqual([...panel.querySelectorAll(".legend li")].map((line) => line.textContent),
    [" 1,500 from 1 view; a visitor’s first view of the day counts more", " ÷ 3.00 for age (2 hours)"]);
  assert.deepEqual([...panel.querySelectorAll(".bar span")].map(({ className, style }) => [className, Number(style.flexGrow)]), [["uv", 500], ["gone", 1000]]);
  assert.equal(panel.querySelector("p").textContent, "1,500 ÷ 3.00 = 500 points");
});

test("the trending list explains how recent the views are", async (context) => {
  const old = { ...kStats.trending, median_age: 86400 };
  let trending = kStats.trending;
  const page = await openExplained(context, () => ({ ...kStats, trending }));
  const row = 'ol[data-model="trending"]';
  await page.click(`${row} .toggle`);
  assert.deepEqual(page.texts(`${row} .legend li`), [" 1,204 views, about half of them in the last 12 minutes", " −601.5 for the age of the views"]);
  assert.equal(page.text(`${row} .why p`), "602.5 points: a view is worth half after 1 hour");
  trending = old;
  await page.tick(2000);
  assert.equal(page.texts(`${row} .legend li`)[0], " 1,204 views, about half of them more than a day ago");
});

test("a term below zero has no width", async (context) => {
  const page = await openExplained(context, () => ({ ...kStats, score: 2000 }));
  await page.click(`${kEngagement} .toggle`);
  assert.equal(Number(page.$(`${kEngagement} .bar .gone`).style.flexGrow), 0);
});

test("a click on the row explains it, one on its link or explanation does not", async (context) => {
  const page = await openExplained(context, () => kStats);
  const panel = page.$(`${kEngagement} .why`);
  await page.click(`${kEngagement} .score`);
  assert.equal(panel.hidden, false);
  await page.click(`${kEngagement} .why p`);
  assert.equal(panel.hidden, false);
  page.$(`${kEngagement} a`).addEventListener("click", (event) => event.preventDefault());
  await page.click(`${kEngagement} a`);
  assert.equal(panel.hidden, false);
  await page.click(`${kEngagement} .rank`);
  assert.equal(panel.hidden, true);
});

test("an open explanation is renewed with the list, a closed one is not", async (context) => {
  const page = await openExplained(context, () => kStats);
  await page.click(`${kEngagement} .toggle`);
  page.taken();
  await page.tick(2000);
  assert.deepEqual(page.taken().filter((each) => each.includes("/stats")), ["GET /api/articles/a%2Fb/stats"]);
  await page.click(`${kEngagement} .toggle`);
  await page.tick(2000);
  assert.deepEqual(page.taken().filter((each) => each.includes("/stats")), []);
});

test("an explanation that fails says why; a late one does not replace a newer", async (context) => {
  const [late, lateError] = [gate(), gate()];
  let calls = 0;
  const page = await openExplained(context, async () => {
    if (++calls === 1) {
      await late.opened;
      return { ...kStats, decay: 0.25 };
    }
    if (calls === 2) {
      await lateError.opened;
      return reply(500, { msg: "late" });
    }
    return calls === 3 ? kStats : reply(404, { msg: "no such article" });
  });
  const toggle = async () => {
    await page.click(`${kEngagement} .toggle`);
  };
  for (let i = 0; i < 5; ++i) await toggle();
  const text = () => page.text(`${kEngagement} .why > p`);
  assert.equal(text(), "1,235 × 0.500 = 617.6 points");
  late.open();
  lateError.open();
  await settle();
  assert.equal(text(), "1,235 × 0.500 = 617.6 points");
  await toggle();
  await toggle();
  assert.equal(text(), "We couldn’t load the details: no such article.");
});

// --- The demo's outage -----------------------------------------------------------------------------------------------------

const kUp = { "redis ready": 2, "total processes": 2, "spooled bytes": 0, spooled: 0, replayed: 0 };

async function openOutage(context, stop = () => ({})) {
  const status = { ...kUp };
  const page = await openHot(context, {}, { zone: "internal", demo: true, answer: { "GET /status": () => (status.failure ?? { ...status }), "POST /demo/stop-redis": stop } });
  page.outage = () => [page.$("#outage").dataset.state, page.text("#outage")];
  return Object.assign(page, { current: status });
}
const kButton = "Stop Redis for a few seconds ";
const kDown = "Redis is stopped; it will be back in a moment ";

test("without a demo there is no outage", async (context) => {
  const page = await openHot(context, {}, { zone: "internal" });
  assert.deepEqual([page.$("#outage").hidden, page.text("#outage")], [true, ""]);
});

test("the demo shows Redis' state every two seconds while the page is visible", async (context) => {
  const page = await openOutage(context);
  assert.deepEqual([page.$("#outage").hidden, ...page.outage()], [false, "up", `${kButton}Redis: up `]);
  assert.equal(page.$("#outage .badge").getAttribute("role"), "status");
  const polls = () => page.taken().filter((each) => each === "GET /status?json").length;
  assert.equal(polls(), 1);
  await page.tick(1999);
  assert.equal(polls(), 0);
  await page.tick(1);
  assert.equal(polls(), 1);
  page.setVisible(false);
  await page.tick(10000);
  assert.equal(polls(), 0);
});

test("an outage shows queued writes until all are counted", async (context) => {
  const page = await openOutage(context);
  Object.assign(page.current, { "redis ready": 1, "spooled bytes": 10, spooled: 7, replayed: 2 });
  await page.tick(2000);
  assert.deepEqual(page.outage(), ["down", `${kDown}Redis: down 5 writes queued; lists are still served`]);
  const [badge] = page.$("#outage .badge").childNodes;
  page.taken();
  page.current.spooled = 10;
  await page.tick(399);
  assert.equal(page.taken().filter((each) => each.startsWith("GET /status")).length, 0);
  await page.tick(1);
  assert.deepEqual(page.outage(), ["down", `${kDown}Redis: down 8 writes queued; lists are still served`]);
  assert.equal(page.$("#outage .badge").childNodes[0], badge, "the badge is not announced again");
  Object.assign(page.current, { "redis ready": 2, replayed: 9 });
  await page.tick(400);
  assert.deepEqual(page.outage(), ["recovering", `${kButton}Redis: recovering 1 write still queued`]);
  page.current["spooled bytes"] = 0;
  await page.tick(400);
  assert.deepEqual(page.outage(), ["up", `${kButton}Redis: up all 8 queued writes were counted`]);
  page.taken();
  await page.tick(1999);
  assert.equal(page.taken().filter((each) => each.startsWith("GET /status")).length, 0, "rarely again");

  Object.assign(page.current, { "redis ready": 0, "spooled bytes": 5, spooled: 11, replayed: 10 });
  await page.tick(2000);
  Object.assign(page.current, { "redis ready": 2, "spooled bytes": 0 });
  await page.tick(400);
  assert.deepEqual(page.outage(), ["up", `${kButton}Redis: up the queued write was counted`]);
});

test("a single write that is queued while Redis looks ready is no outage", async (context) => {
  const page = await openOutage(context);
  Object.assign(page.current, { "spooled bytes": 5, spooled: 2, replayed: 1 });
  await page.tick(2000);
  assert.deepEqual(page.outage(), ["up", `${kButton}Redis: up the queued write was counted`]);
});

test("the button stops Redis, and queued writes count as an outage before it is noticed", async (context) => {
  const page = await openOutage(context);
  await page.tick(2000);
  page.taken();
  await page.click("#outage button");
  assert.deepEqual(page.taken(), ["POST /demo/stop-redis"]);
  await page.tick(2000);
  assert.equal(page.outage()[0], "up", "no write is queued yet");
  Object.assign(page.current, { "spooled bytes": 5, spooled: 3 });
  await page.tick(400);
  assert.deepEqual(page.outage(), ["down", `${kDown}Redis: down 3 writes queued; lists are still served`]);
  await page.tick(2000);
  assert.equal(page.outage()[0], "recovering", "four seconds after the click its state is believed");
});

test("a Redis that cannot be stopped says why", async (context) => {
  const page = await openOutage(context, () => reply(403, { msg: "forbidden" }));
  await page.click("#outage button");
  assert.equal(page.text("#outage"), `${kButton}Redis: up We couldn’t stop Redis: forbidden.`);
});

test("without a status the state is unknown", async (context) => {
  const page = await openOutage(context);
  Object.assign(page.current, { "spooled bytes": 5, spooled: 2, replayed: 1 });
  await page.tick(2000);
  page.current.failure = reply(502, "<html>");
  await page.tick(2000);
  assert.deepEqual(page.outage(), ["unknown", `${kButton}Redis: unknown `]);
  delete page.current.failure;
  page.current["spooled bytes"] = 0;
  await page.tick(2000);
  assert.equal(page.outage()[0], "up");
});

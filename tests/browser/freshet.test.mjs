// freshet.js and the pages of hot lists, feed, timelines and recommendations in a real browser.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { eventually, openWindow, startFreshet, test } from "./instance.mjs";

let freshet;
let browser;

before(async () => {
  freshet = await startFreshet();
  browser = await openWindow();
});

after(async () => {
  await browser?.close();
  await freshet?.stop();
});

const articleUrl = (id, more = "") => `${freshet.base}/article.html?id=${id}${more}`;

test("a page that stays open sends heartbeats and counts as one view", async () => {
  const page = await browser.tab();
  await page.goto(articleUrl("heartbeat", "&first=1&every=1"));
  const stats = await eventually("three heartbeats", () => freshet.stats("heartbeat"), ({ dwell }) => dwell?.sum_ms >= 3000);
  assert.deepEqual([stats.pv, stats.dwell.count], [1, 1]);
  await page.close();
});

test("closing a tab reports its dwell time", async () => {
  const page = await browser.tab();
  await page.goto(articleUrl("closed"));
  await page.waitForFunction(() => sessionStorage.freshet);  // freshet.js has set it, so it is measuring
  const since = await page.evaluate(() => performance.now());
  await page.waitForFunction((from) => performance.now() >= from + 1000, since);
  await page.close({ runBeforeUnload: true });
  const stats = await eventually("the report of the closed tab", () => freshet.stats("closed"), ({ dwell }) => dwell?.sum_ms > 0);
  assert.ok(stats.dwell.sum_ms >= 1000 && stats.pv === 1, JSON.stringify(stats));
});

test("the pages of a tab share one session id, and another tab has its own", async () => {
  const sessions = [];
  for (const articles of [["one", "two"], ["three"]]) {
    const page = await browser.tab();
    const ids = new Set();
    page.on("request", (request) => request.url().endsWith("/api/track") && ids.add(JSON.parse(request.postData()).sessionId));
    for (const article of articles) {
      const reported = page.waitForRequest((request) =>
        request.url().endsWith("/api/track") && JSON.parse(request.postData()).articleId === article);
      await page.goto(articleUrl(article, "&first=0.2&every=1"));
      await reported;
    }
    sessions.push(ids);
    await page.close();
  }
  assert.deepEqual(sessions.map((ids) => ids.size), [1, 1]);
  assert.notDeepEqual([...sessions[0]], [...sessions[1]]);
});

test("a tab requests the visitor cookie once, before its first report, and the visitor counts once", async () => {
  const first = await browser.tab();
  const requests = [];
  first.on("request", (request) => request.method() === "POST" && requests.push(new URL(request.url()).pathname));
  await first.goto(articleUrl("named", "&first=2&every=1"));  // later than the second that it waits for the cookie
  await eventually("its report", () => freshet.stats("named"), ({ pv }) => pv === 1);
  // The browser may report a request after its response has arrived.
  assert.deepEqual((await eventually("both requests", () => requests, ({ length }) => length >= 2)).slice(0, 2), ["/api/visitor", "/api/track"]);
  const cookie = (await first.context().cookies()).find(({ name }) => name === "freshet_visitor");
  assert.ok(cookie.httpOnly && cookie.sameSite === "Lax", JSON.stringify(cookie));

  await first.goto(articleUrl("named-too", "&first=0.2&every=1"));
  await eventually("the next page's report", () => freshet.stats("named-too"), ({ pv }) => pv === 1);
  await eventually("the next page's request", () => requests, (all) => all.lastIndexOf("/api/track") > 1);
  assert.equal(requests.filter((path) => path === "/api/visitor").length, 1);
  const second = await browser.tab();
  await second.goto(articleUrl("named", "&first=0.2&every=1"));
  const stats = await eventually("another tab's report", () => freshet.stats("named"), ({ pv }) => pv === 2);
  assert.equal(stats.uv, 1);
  assert.deepEqual([...first.problems, ...second.problems], []);
  await first.close();
  await second.close();
});

test("the hot page lists the articles that are read, and a rising row moves up", async () => {
  for (const [article, readers] of [["high", 4], ["low", 2]])
    for (let reader = 0; reader < readers; ++reader)
      await freshet.track({ articleId: article, userId: `reader-${reader}`, dwellMs: 60000, sessionId: `s-${article}-${reader}` });
  const page = await browser.tab();
  await page.goto(freshet.base + "/");
  const listed = () => page.$$eval('ol[data-model="engagement"] li', (rows) => rows.map((row) => row.dataset.id));
  const inOrder = (upper, lower) => (ids) => ids.includes(upper) && ids.includes(lower) && ids.indexOf(upper) < ids.indexOf(lower);
  await eventually("both rows", listed, inOrder("high", "low"));

  for (let reader = 0; reader < 20; ++reader)
    await freshet.track({ articleId: "low", userId: `late-${reader}`, dwellMs: 170000, sessionId: `s-late-${reader}` });
  const upArrow = page.waitForFunction(() => document.querySelector('ol[data-model="engagement"] li[data-id="low"] .move.up'), null,
    { polling: 50 });
  await eventually("the new order", listed, inOrder("low", "high"));
  assert.match(await (await upArrow).evaluate((arrow) => arrow.textContent), /^▲\d+$/);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("the feed scrolls to its end without repeating an item, and a refresh puts new items on top", async () => {
  const now = Math.floor(Date.now() / 1000);
  const ids = Array.from({ length: 35 }, (_, i) => `feed-${i}`);
  for (const [i, id] of ids.entries()) await freshet.put(id, { title: `About ${id}`, published_at: now - 60 * i });
  // Each worker sees new items within 0.2 s. Ten consecutive answers, over half a second, come from both workers.
  let inARow = 0;
  await eventually("the items in the index", () => freshet.feed({ action: "peek", limit: 50, agent_id: "probe" }),
    (data) => (inARow = data.new === 35 ? inARow + 1 : 0) >= 10);

  const page = await browser.tab();
  await page.goto(freshet.base + "/feed.html?agent=scroller");
  const shown = () => page.$$eval("#feed li", (rows) => rows.map((row) => row.dataset.id));
  await eventually("the first page", shown, (rows) => rows.length >= 10);
  const everything = await eventually("the end", async () => {
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    return shown();
  }, (rows) => rows.length === 35);
  assert.deepEqual(everything, ids);
  await page.waitForSelector("#end:not([hidden])");

  await freshet.put("feed-new", { title: "Brand new", published_at: now });
  await eventually("the new item in the index", () => freshet.feed({ action: "peek", agent_id: "scroller" }), (data) => data.new === 1);
  // The other worker may see the new item up to a second later.
  const after = await eventually("the new item on top", async () => {
    await page.click("#refresh");
    return shown();
  }, (rows) => rows[0] === "feed-new");
  assert.equal(new Set(after).size, 36);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("pushed items are counted, shown on top in order when pulled, and not repeated", async () => {
  const ids = Array.from({ length: 47 }, (_, i) => `drop-${i}`);
  await freshet.push("discover", ids.slice(0, 35), "waterfall-reader");
  const page = await browser.tab();
  await page.goto(freshet.base + "/waterfall.html?user=waterfall-reader");
  const shown = () => page.$$eval("#timeline li", (rows) => rows.map((row) => row.dataset.id));
  const pullButtonSays = (text) => page.waitForFunction((expected) => document.getElementById("pull").textContent === expected, text, { polling: 50 });
  await eventually("the first page", shown, (rows) => rows.length >= 10);
  assert.deepEqual((await shown()).slice(0, 10), ids.slice(25, 35).reverse());

  let loads = 0;
  page.on("load", () => ++loads);
  await freshet.push("discover", ids.slice(35, 36), "waterfall-reader");
  await pullButtonSays("Show 1 new");
  assert.equal((await shown())[0], "drop-34", "new items are only added on request");
  await freshet.push("discover", ids.slice(36), "waterfall-reader");
  await pullButtonSays("Show 12 new");
  await page.click("#pull");
  // The ten next newer ones are added first, so that no gap opens; two remain.
  await pullButtonSays("Show 2 new");
  assert.deepEqual((await shown()).slice(0, 11), ids.slice(34, 45).reverse());
  await page.click("#pull");
  await pullButtonSays("No new articles");

  const everything = await eventually("the end", async () => {
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
    return shown();
  }, (rows) => rows.length === 47);
  await page.waitForSelector("#end:not([hidden])");
  assert.deepEqual(everything, [...ids].reverse());
  assert.equal(loads, 0);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a downward swipe loads new items, but only at the top of the page", async () => {
  const ids = Array.from({ length: 30 }, (_, i) => `touch-${i}`);
  await freshet.push("discover", ids, "toucher");
  const page = await browser.tab();
  await page.goto(freshet.base + "/waterfall.html?user=toucher");
  const shown = () => page.$$eval("#timeline li", (rows) => rows.map((row) => row.dataset.id));
  await eventually("the first page", shown, (rows) => rows.length >= 10);
  await freshet.push("discover", ["touch-new"], "toucher");
  await page.waitForFunction(() => document.getElementById("pull").textContent === "Show 1 new", null, { polling: 50 });
  const drag = (from, to) => page.evaluate(([start, stop]) => {
    const finger = (y) => new Touch({ identifier: 1, target: document.body, clientX: 100, clientY: y });
    const fire = (type, y, touches) => document.body.dispatchEvent(
      new TouchEvent(type, { bubbles: true, touches, changedTouches: [finger(y)] }));
    fire("touchstart", start, [finger(start)]);
    fire("touchmove", stop, [finger(stop)]);
    fire("touchend", stop, []);
  }, [from, to]);
  const requests = [];
  page.on("request", (request) => request.url().includes("limit=10") && requests.push(request.url()));
  await page.evaluate(() => scrollTo(0, 200));
  await page.waitForFunction(() => scrollY > 0);
  await drag(100, 300);
  await page.evaluate(() => scrollTo(0, 0));
  await page.waitForFunction(() => scrollY === 0);
  await drag(100, 120);  // too short
  assert.deepEqual(requests.filter((url) => url.includes("direction=down")), []);
  await drag(100, 300);
  await eventually("the new item on top", shown, (rows) => rows[0] === "touch-new");
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("opening an item changes the recommendations, and a dismissal can be undone", async () => {
  const now = Math.floor(Date.now() / 1000);
  const ids = Array.from({ length: 14 }, (_, i) => `pick-${i}`);
  // Dated a day ahead, so that no other test's items are newer.
  for (const [i, id] of ids.entries()) await freshet.put(id, { title: `About ${id}`, published_at: now + 86400 - i });
  const page = await browser.tab();
  await page.goto(freshet.base + "/recommend.html?user=picker");
  const shown = (list) => page.$$eval(`#${list} li[data-id]`, (rows) => rows.map((row) => row.dataset.id));
  const first = await eventually("ten recommendations", async () => {
    await page.reload();
    await page.waitForSelector("#items li");
    return shown("items");
  }, (rows) => rows.length === 10);
  assert.match(await page.textContent("#items li .reason"), /\w/);

  const [article] = await Promise.all([page.waitForEvent("popup"), page.click("#items li:first-child a")]);
  await article.close();
  const second = await eventually("recommendations without the opened item", () => shown("items"), (rows) => !rows.includes(first[0]));
  assert.equal(second.length, 10);
  await eventually("the opened item in the history", () => shown("history"), (rows) => rows[0] === first[0]);

  await page.click(`#items li[data-id="${second[1]}"] button`);
  await page.waitForSelector(`#items li[data-id="${second[1]}"] button:text("Undo")`);
  const without = await (await fetch(`${freshet.base}/api/recommendations?userId=picker&limit=100`)).json();
  assert.ok(!without.items.some((item) => item.id === second[1]));
  await page.click(`#items li[data-id="${second[1]}"] button:text("Undo")`);
  await eventually("the dismissed item again", () => shown("items"), (rows) => rows.includes(second[1]));

  await page.click("#clear");
  await eventually("an empty history", () => shown("history"), (rows) => rows.length === 0);
  assert.deepEqual(page.problems, []);
  await page.close();
});

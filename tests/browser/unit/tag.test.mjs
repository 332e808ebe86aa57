// freshet.js, the tag that reports reading time.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gate, runTag, settle, source } from "./page.mjs";

const kConfig = { article: "a b", user: "ann", published: 1700000000 };

test("a report says what was read, by whom, and for how long", async (context) => {
  const page = runTag(context, kConfig, { session: "s1" });
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.beacons, [{ address: "/api/track",
    body: '{"articleId":"a b","dwellMs":5000,"sessionId":"s1","userId":"ann","publishedAt":1700000000}' }]);
  assert.deepEqual(page.posts, [], "a tab that has a session asks for no visitor cookie");
});

test("the first report follows after 5 s and others every 15 s, until 180 s are reported", async (context) => {
  const page = runTag(context, kConfig, { session: "s1" });
  await page.clock.tickAsync(4999);
  assert.deepEqual(page.reports(), []);
  await page.clock.tickAsync(600000);
  assert.deepEqual(page.reports(), [5, 20, 35, 50, 65, 80, 95, 110, 125, 140, 155, 170, 185].map((s) => 1000 * s));
  assert.equal(page.clock.countTimers(), 0);
});

test("first, every, max and endpoint are options", async (context) => {
  const page = runTag(context, { ...kConfig, first: 1, every: 2, max: 4, endpoint: "https://f.example/x/track" }, { session: "s1" });
  await page.clock.tickAsync(60000);
  assert.deepEqual(page.reports(), [1000, 3000, 5000]);
  assert.equal(page.beacons[0].address, "https://f.example/x/track");
});

test("a hidden page reports at once, and then neither measures nor reports", async (context) => {
  const page = runTag(context, kConfig, { session: "s1" });
  await page.clock.tickAsync(3000);
  page.setVisible(false);
  assert.deepEqual(page.reports(), [3000]);
  assert.equal(page.clock.countTimers(), 0, "no timer wakes a hidden page");
  await page.clock.tickAsync(100000);
  page.setVisible(false);
  assert.deepEqual(page.reports(), [3000]);
  page.setVisible(true);
  await page.clock.tickAsync(14999);
  assert.deepEqual(page.reports(), [3000]);
  await page.clock.tickAsync(1);
  assert.deepEqual(page.reports(), [3000, 18000]);
});

test("being shown twice does not start a second timer", async (context) => {
  const page = runTag(context, kConfig, { session: "s1" });
  await page.clock.tickAsync(1000);
  page.setVisible(true);
  page.window.dispatchEvent(new page.window.Event("pageshow"));
  assert.equal(page.clock.countTimers(), 1);
  await page.clock.tickAsync(4000);
  assert.deepEqual(page.reports(), [5000]);
});

test("leaving the page reports, and coming back from the cache of pages resumes", async (context) => {
  const page = runTag(context, kConfig, { session: "s1" });
  await page.clock.tickAsync(2000);
  page.window.dispatchEvent(new page.window.Event("pagehide"));
  page.setVisible(false);
  assert.deepEqual(page.reports(), [2000], "one report although two events tell");
  await page.clock.tickAsync(50000);
  page.visible = true;
  page.window.dispatchEvent(new page.window.Event("pageshow"));
  await page.clock.tickAsync(1000);
  page.window.dispatchEvent(new page.window.Event("pagehide"));
  assert.deepEqual(page.reports(), [2000, 3000]);
});

test("a page that opens in the background measures from when it is shown", async (context) => {
  const page = runTag(context, kConfig, { session: "s1", visible: false });
  await page.clock.tickAsync(60000);
  page.window.dispatchEvent(new page.window.Event("pageshow"));
  assert.equal(page.clock.countTimers(), 0);
  page.setVisible(true);
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reports(), [5000]);
});

test("fractions of a millisecond are rounded, and less than a millisecond is not reported", async (context) => {
  const page = runTag(context, kConfig, { session: "s1" });
  page.setVisible(false);
  assert.deepEqual(page.reports(), []);
  page.setVisible(true);
  page.clock.tick(0.4);
  page.setVisible(false);
  assert.deepEqual(page.reports(), []);
  page.setVisible(true);
  page.clock.tick(1000.3);
  page.setVisible(false);
  assert.deepEqual(page.reports(), [1001]);
});

test("a new tab asks for the visitor cookie and keeps its id; it reports only once that is answered", async (context) => {
  const { open, opened } = gate();
  const page = runTag(context, kConfig, { fetchResult: () => opened });
  assert.deepEqual(page.posts, [{ address: "/api/visitor", body: undefined,
    options: { method: "POST", keepalive: true, credentials: "include" } }]);
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reports(), []);
  assert.equal(page.window.sessionStorage.freshet, undefined);
  open();
  await settle();
  await page.clock.tickAsync(15000);
  assert.deepEqual(page.reports(), [20000]);
  assert.equal(page.window.sessionStorage.freshet, JSON.parse(page.beacons[0].body).sessionId);
  assert.match(page.window.sessionStorage.freshet, /^[0-9a-z]{12,24}$/);
});

test("two tabs have different ids although they open at the same time", async (context) => {
  const ids = [1, 2].map(() => runTag(context, kConfig)).map(async (page) => {
    await settle();
    return page.window.sessionStorage.freshet;
  });
  const [one, two] = await Promise.all(ids);
  assert.notEqual(one, two);
});

test("the visitor cookie is asked for at the endpoint's server", async (context) => {
  const page = runTag(context, { ...kConfig, endpoint: "https://f.example/track/track" });
  assert.equal(page.posts[0].address, "https://f.example/track/visitor");
});

test("without the visitor cookie and without storage, reports are sent all the same", async (context) => {
  const page = runTag(context, kConfig, { fetchResult: () => Promise.reject(new Error("offline")), storageFails: true });
  await settle();
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reports(), [5000]);
});

for (const takesBeacons of [false, null]) {
  test(`a browser ${takesBeacons === null ? "without beacons" : "that refuses a beacon"} posts the report`, async (context) => {
    const page = runTag(context, kConfig, { session: "s1", takesBeacons });
    await page.clock.tickAsync(5000);
    assert.equal(page.posts.length, 1);
    assert.equal(page.posts[0].address, "/api/track");
    assert.equal(JSON.parse(page.posts[0].body).dwellMs, 5000);
    assert.deepEqual(page.posts[0].options, { method: "POST", keepalive: true, credentials: "include" }, "text/plain, so no preflight");
  });
}

test("freshet.js has at most 2 KiB", () => {
  assert.ok(source("freshet.js").length <= 2048);
});

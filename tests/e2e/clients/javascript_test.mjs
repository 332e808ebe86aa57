// node --test javascript_test.mjs: what only the JavaScript client does: its queue, its cursors, and how it calls fetch.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Freshet, newEventId, sign, token } from "../../../scripts/clients/javascript/freshet.mjs";

const kHourMs = 3600e3;

// A clock that only the tests move.
let now = 1.7e12;
Date.now = () => now;

// A server: `reply` may be replaced. Records the requests.
function server(reply = () => ({ body: { pv: 1 } })) {
  const self = { reply, requests: [], bodies: [] };
  self.fetch = async (url, request) => {
    self.requests.push({ url, ...request });
    self.bodies.push(request.body && JSON.parse(request.body));
    const { status = 200, body = {} } = await self.reply(self.bodies.at(-1), url);
    if (!status) throw new TypeError("fetch failed");
    return new Response(JSON.stringify(body), { status });
  };
  return self;
}

const down = () => ({ status: 0 });
const kQueued = { ok: true, queued: true };

function storage() {
  const values = new Map();
  return { values, getItem: (key) => values.get(key) ?? null, setItem: (key, text) => values.set(key, text) };
}

function client(fetch, options) {
  return new Freshet({ base: "http://stub", attempts: 1, fetch, ...options });
}

const articles = (site) => site.bodies.map(({ articleId }) => articleId);
// The client works in the background after a track and when the browser is online again.
async function until(condition) {
  for (let turn = 0; turn < 1000 && !condition(); turn++) await new Promise((done) => setImmediate(done));
  assert.ok(condition());
}

test("tracks that cannot be delivered are queued, and delivered once, in order, as they were", async () => {
  const shared = storage();
  const offline = server(down);
  const page = client(offline.fetch, { storage: shared });
  assert.deepEqual([await page.track({ articleId: "a" }), await page.track({ articleId: "b", dwellMs: 5 })], [kQueued, kQueued]);
  const site = server();
  const next = client(site.fetch, { storage: shared });  // another page, the same storage
  assert.equal(await next.flush(), 0);
  assert.deepEqual(site.bodies, offline.bodies);
  assert.match(site.bodies[0].eventId, /^[0-9a-f]{32}$/);
  assert.equal(site.requests[0].url, "http://stub/api/track");
  assert.equal(await next.flush(), 0);
  assert.equal(site.bodies.length, 2);
});

test("a track that is delivered takes the queue with it", async () => {
  const site = server(down);
  const page = client(site.fetch);
  await page.track({ articleId: "a" });
  site.reply = () => ({ body: { pv: 7 } });
  assert.deepEqual(await page.track({ articleId: "b" }), { pv: 7 });
  await until(() => site.bodies.length === 3);
  assert.deepEqual(articles(site), ["a", "b", "a"]);
});

test("a track that the service rejects is an error, and is not queued", async () => {
  const site = server(() => ({ status: 400, body: { code: "bad_id" } }));
  const page = client(site.fetch);
  await assert.rejects(page.track({ articleId: "a" }), { name: "FreshetError", status: 400, code: "bad_id" });
  assert.equal(await page.flush(), 0);
  assert.equal(site.requests.length, 1);
});

test("an error of the caller is passed on, and nothing is queued", async () => {
  const site = server();
  const page = client(site.fetch);
  await assert.rejects(page.track({ articleId: 1n }), TypeError);
  await page.flush();
  assert.equal(site.requests.length, 0);
});

test("reports are queued for 20 hours", async () => {
  const site = server(down);
  const page = client(site.fetch);
  const began = now;
  await page.track({ articleId: "old" });
  now = began + 1;
  await page.track({ articleId: "new" });
  now = began + 20 * kHourMs;
  site.reply = () => ({});
  assert.equal(await page.flush(), 0);
  assert.deepEqual(articles(site), ["old", "new", "new"]);
});

test("the queue holds the newest 100 reports", async () => {
  const site = server(down);
  const page = client(site.fetch);
  for (let i = 0; i < 102; i++) await page.track({ articleId: i });
  site.bodies.length = 0;
  site.reply = () => ({});
  await page.flush();
  assert.deepEqual(articles(site), Array.from({ length: 100 }, (_, i) => i + 2));
});

test("a flush ends at the first temporary error and keeps what is queued", async () => {
  const site = server(down);
  const page = client(site.fetch);
  for (const articleId of ["a", "b", "c"]) await page.track({ articleId });
  site.bodies.length = 0;
  site.reply = ({ articleId }) => (articleId === "b" ? { status: 503 } : {});
  await assert.rejects(page.flush(), { status: 503 });
  assert.deepEqual(articles(site), ["a", "b"]);
  site.reply = () => ({});
  assert.equal(await page.flush(), 0);
  assert.deepEqual(articles(site), ["a", "b", "b", "c"]);
});

test("a queued report that the service rejects is dropped", async () => {
  const site = server(down);
  const page = client(site.fetch);
  for (const articleId of ["a", "bad", "c"]) await page.track({ articleId });
  site.bodies.length = 0;
  site.reply = ({ articleId }) => (articleId === "bad" ? { status: 400 } : {});
  assert.equal(await page.flush(), 0);
  assert.equal(await page.flush(), 0);
  assert.deepEqual(articles(site), ["a", "bad", "c"]);
});

test("queued reports are repeated like others", async () => {
  const site = server(down);
  const page = client(site.fetch, { attempts: 3, firstPauseMs: 1 });
  assert.deepEqual(await page.track({ articleId: "a" }), kQueued);
  assert.equal(site.requests.length, 3);
  site.reply = () => ({ status: site.requests.length === 6 ? 200 : 503 });
  assert.equal(await page.flush(), 0);
  assert.equal(site.requests.length, 6);
  assert.equal(new Set(site.bodies.map(({ eventId }) => eventId)).size, 1);
});

test("one flush at a time, and what arrives meanwhile is delivered by it", async () => {
  const site = server(down);
  const page = client(site.fetch);
  await page.track({ articleId: "a" });
  await page.track({ articleId: "b" });
  site.bodies.length = 0;
  let release;
  const held = new Promise((done) => (release = done));
  site.reply = ({ articleId }) => (articleId === "late" ? { status: 0 } : held.then(() => ({})));
  const flush = page.flush();
  assert.equal(await page.flush(), 2);
  assert.deepEqual(await page.track({ articleId: "late" }), kQueued);
  assert.equal(await page.flush(), 3);
  site.reply = () => ({});
  release();
  assert.equal(await flush, 0);
  assert.deepEqual(articles(site), ["a", "late", "b", "late"]);
});

test("pages that flush a shared queue at once lose nothing", async () => {
  const shared = storage();
  const site = server(down);
  const pages = [client(site.fetch, { storage: shared }), client(site.fetch, { storage: shared })];
  for (const articleId of ["a", "b", "c"]) await pages[0].track({ articleId });
  site.bodies.length = 0;
  site.reply = () => ({});
  assert.deepEqual(await Promise.all(pages.map((page) => page.flush())), [0, 0]);
  assert.deepEqual(new Set(articles(site)), new Set(["a", "b", "c"]));
});

test("a report that expires while it is sent takes no other with it", async () => {
  const site = server(down);
  const page = client(site.fetch);
  await page.track({ articleId: "old" });
  now += 10 * kHourMs;
  await page.track({ articleId: "new" });
  site.bodies.length = 0;
  site.reply = ({ articleId }) => {
    if (articleId === "old") now += 11 * kHourMs;
    return {};
  };
  assert.equal(await page.flush(), 0);
  assert.deepEqual(articles(site), ["old", "new"]);
});

test("the queue is flushed when the browser is online again", async () => {
  const listeners = [];
  globalThis.addEventListener = (...listener) => listeners.push(listener);
  const site = server(down);
  const page = client(site.fetch);
  delete globalThis.addEventListener;
  await page.track({ articleId: "a" });
  const [[event, online]] = listeners;
  assert.equal(event, "online");
  online();  // still down: no unhandled rejection
  await until(() => site.bodies.length === 2);
  await until(() => !page.flushing);
  site.reply = () => ({});
  online();
  await until(() => site.bodies.length === 3);
  assert.deepEqual(articles(site), ["a", "a", "a"]);
});

test("a storage that is full, forbidden or damaged loses the queue, not the page", async () => {
  const site = server(down);
  const forbidden = () => {
    throw new Error("forbidden");
  };
  const page = client(site.fetch, { storage: { getItem: forbidden, setItem: forbidden } });
  assert.deepEqual(await page.track({ articleId: "a" }), kQueued);
  assert.equal(await page.flush(), 0);
  for (const text of ["{", "5", "[null]", '{"at":1}']) {
    const damaged = storage();
    damaged.values.set("freshet.queue", text);
    const other = client(site.fetch, { storage: damaged });
    assert.equal(await other.flush(), 0);
    assert.deepEqual(await other.track({ articleId: "a" }), kQueued);
    assert.equal(JSON.parse(damaged.values.get("freshet.queue")).length, 1);
  }
});

test("a request carries cookies and outlives the page if its body is small enough for that", async () => {
  const site = server();
  const page = client(site.fetch);
  await page.track({ articleId: "a", userId: "x".repeat(59000) });
  await page.track({ articleId: "a", userId: "x".repeat(60000) });
  await page.request("GET", "/api/hot");
  assert.deepEqual(site.requests.map(({ keepalive }) => keepalive), [true, false, true]);
  assert.deepEqual(site.requests.map(({ credentials }) => credentials), ["include", "include", "include"]);
  assert.equal(site.requests[2].body, undefined);
});

test("without a base, requests go to the page's own site", async () => {
  const site = server();
  await new Freshet({ fetch: site.fetch }).request("GET", "/api/hot");
  assert.equal(site.requests[0].url, "/api/hot");
});

test("a feed keeps its page", async () => {
  const site = server(() => ({ body: { data: site.bodies.at(-1).action === "peek" ? { new: 4 } : { items: [{ id: "a" }], page: `p${site.bodies.length}` } } }));
  const feed = client(site.fetch).feed("ann", { limit: 2, query: "q" });
  assert.deepEqual((await feed.refresh()).items, [{ id: "a" }]);
  assert.equal(feed.page, "p1");
  await feed.more();
  assert.equal(await feed.peek(), 4);
  site.reply = () => ({ body: { data: { items: [] } } });  // a page that cannot be continued
  await feed.more();
  assert.equal(feed.page, "p2");
  const common = { userId: "ann", limit: 2, query: "q" };
  const { eventId } = site.bodies[0];
  assert.match(eventId, /^[0-9a-f]{32}$/);
  assert.deepEqual(site.bodies, [
    { ...common, action: "refresh", eventId }, { ...common, action: "load_more", page: "p1" },
    { ...common, action: "peek", page: "p2" }, { ...common, action: "load_more", page: "p2" },
  ]);
});

test("a feed continues from a page", async () => {
  const site = server(() => ({ body: { data: { items: [] } } }));
  await client(site.fetch).feed("ann", { page: "p" }).more();
  assert.deepEqual(site.bodies, [{ action: "load_more", userId: "ann", page: "p" }]);
});

test("a timeline keeps its cursors, except from degraded pages", async () => {
  const site = server();
  const timeline = client(site.fetch).timeline("c", "ann", { limit: 2 });
  const asked = [];
  const step = async (name, members) => {
    const body = { items: [], ...members };
    site.reply = () => ({ body });
    assert.deepEqual(await timeline[name](), body);
    const query = new URL(site.requests.at(-1).url).searchParams;
    assert.equal(query.get("limit"), "2");
    asked.push([query.get("direction"), query.get("score")]);
  };
  await step("first", { degraded: true, drop: 1, up: 1 });
  assert.equal(timeline.cursors, null);
  await step("older", { drop: 20, up: 10 });  // without cursors: the first page
  await step("newer", { drop: 30, up: 25 });
  await step("older", { drop: 9, up: 5 });
  await step("newer", { degraded: true, drop: 99, up: 99 });
  await step("older", { degraded: true, drop: 99, up: 99 });
  await step("newer", { drop: 31, up: 31 });
  await step("older", { drop: 4, up: 3 });
  assert.deepEqual(timeline.cursors, { drop: 31, up: 3 });
  await step("first", { drop: 40, up: 35 });
  assert.deepEqual(timeline.cursors, { drop: 40, up: 35 });
  assert.deepEqual(asked, [["first", "0"], ["first", "0"], ["down", "20"], ["up", "10"], ["down", "30"], ["up", "5"], ["down", "30"], ["up", "5"], ["first", "0"]]);
  const fresh = client(site.fetch).timeline("c", "ann", { limit: 2 });
  site.reply = () => ({ body: { items: [], drop: 1, up: 1 } });
  await fresh.newer();
  assert.match(site.requests.at(-1).url, /direction=first/);
});

test("a feed and a timeline make one request at a time, each from the page before", async () => {
  const site = server(() => ({ body: { data: { items: [], page: `p${site.requests.length}` } } }));
  const feed = client(site.fetch).feed("ann");
  await Promise.all([feed.refresh(), feed.more(), feed.more()]);
  assert.deepEqual(site.bodies.map(({ page }) => page), [undefined, "p1", "p2"]);
  const scores = server(() => ({ body: { items: [], drop: 10 * scores.requests.length, up: 5 } }));
  const timeline = client(scores.fetch).timeline("c", "ann");
  await Promise.all([timeline.first(), timeline.newer(), timeline.newer()]);
  assert.deepEqual(scores.requests.map(({ url }) => new URL(url).searchParams.get("score")), ["0", "10", "20"]);
});

test("an error does not end a feed", async () => {
  const site = server(down);
  const feed = client(site.fetch).feed("ann");
  await assert.rejects(feed.refresh(), { name: "FreshetError" });
  site.reply = () => ({ body: { data: { items: [{ id: "a" }], page: "p" } } });
  assert.deepEqual((await feed.refresh()).items, [{ id: "a" }]);
});

test("a page that gets no response keeps its place in feed and timeline, and its tracks", async () => {
  const site = server(() => ({ body: { data: { items: [], page: "p1" }, items: [], drop: 20, up: 10, pv: 1 } }));
  const page = client(site.fetch, { preset: "page", cooldownMs: 0 });
  const [feed, timeline] = [page.feed("ann"), page.timeline("c", "ann")];
  await feed.refresh();
  await timeline.first();
  site.reply = down;
  for (const lost of [await feed.more(), await timeline.newer(), await timeline.older()]) {
    assert.deepEqual([lost.items, lost.unavailable, lost.error.status], [[], true, 0]);
  }
  assert.equal(await feed.peek(), 0);
  assert.equal(feed.page, "p1");
  assert.deepEqual(timeline.cursors, { drop: 20, up: 10 });
  assert.deepEqual(await page.track({ articleId: "a" }), kQueued);
  assert.equal(await page.flush(), 1);
  site.reply = () => ({ body: { pv: 1 } });
  assert.equal(await page.flush(), 0);
  assert.equal(site.bodies.at(-1).articleId, "a");
});

test("browsers send no If-None-Match, because they have a cache", async () => {
  const site = server();
  const page = client(async (...request) => new Response(await (await site.fetch(...request)).text(), { headers: { ETag: "1" } }));
  const { process } = globalThis;
  delete globalThis.process;
  try {
    await page.request("GET", "/api/hot");
    await page.request("GET", "/api/hot");
  } finally {
    globalThis.process = process;
  }
  assert.deepEqual(site.requests.map(({ headers }) => headers), [{}, {}]);
});

test("unknown options and presets are refused", () => {
  assert.throws(() => new Freshet({ timeoutMS: 1 }), /unknown argument timeoutMS/);
  assert.throws(() => new Freshet({ preset: "fast" }), /preset must be/);
  assert.throws(() => new Freshet().feed("ann", { limits: 1 }), /unknown argument limits/);
});

test("works without the global crypto, as in Node 18", async () => {
  const key = { kid: "k1", secret: "0123456789abcdef0123456789abcdef" };
  const global = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  delete globalThis.crypto;
  try {
    assert.equal(await sign(key, "GET", "/api/hot", "", 1),
      "Freshet-HMAC-SHA256 kid=k1, ts=1, sig=c5c050ae5eb0c528cb71a1ba0163bb821115f674147b7878ad825d14c2bac658");
    assert.equal(await token(key, "42", 2), "v1.k1.42.2.7adb39771a9d1e2b8c051f6c3aba34853c378c2ba40b9badac92ee17f6dc26da");
    assert.match(newEventId(), /^[0-9a-f]{32}$/);
    assert.notEqual(newEventId(), newEventId());
  } finally {
    if (global) Object.defineProperty(globalThis, "crypto", global);
  }
});

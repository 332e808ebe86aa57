// The code that all pages share: page.js, scroll.js and calls.js.
import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { gate, kNow, lost, openPage, reply, settle, source } from "./page.mjs";

const open = (context, options = {}, address = "/feed.html") => openPage(context, address, { scripts: ["/page.js"], ...options });
const exported = async (context, options, address) => {
  const page = await open(context, options, address);
  return Object.assign(page, page.exports["/page.js"]);
};

// --- Readers and navigation ----------------------------------------------------------------------------------------------

test("the reader is named by the address, else remembered, else new", async (context) => {
  assert.equal((await exported(context, { storage: { freshetAgent: "kept" } }, "/feed.html?user=ann&agent=bob")).reader, "ann");
  assert.equal((await exported(context, { storage: { freshetAgent: "kept" } }, "/feed.html?agent=bob")).reader, "bob");
  const kept = await exported(context, { storage: { freshetAgent: "kept" } });
  assert.equal(kept.reader, "kept");
  assert.equal(kept.text("#you"), "Reader: kept Switch to a new reader");
  const fresh = await exported(context);
  assert.match(fresh.reader, /^reader-[0-9a-z]{6,8}$/);
  assert.equal(fresh.window.localStorage.freshetAgent, fresh.reader);
  assert.notEqual((await exported(context)).reader, fresh.reader);
});

test("a page without a reader neither shows nor remembers one", async (context) => {
  const page = await exported(context, {}, "/docs.html?user=ann");
  assert.equal(page.$("#you"), null);
  assert.equal(page.window.localStorage.freshetAgent, undefined);
});

test("the button for a new reader forgets the current one on every page", async (context) => {
  const page = await open(context, {}, "/feed.html?user=ann&q=1");
  const { exports } = page;
  assert.deepEqual([...exports["/page.js"].params.keys()], ["user", "q"]);
  await page.click("#you button");
  assert.match(page.window.localStorage.freshetAgent, /^reader-/);
  assert.equal(page.window.localStorage.freshetChosen, "1");
  assert.deepEqual([...exports["/page.js"].params.keys()], ["q"]);
});

test("links lead to the sample's reader until the visitor has chosen one", async (context) => {
  const links = (page) => page.$$("nav a").map((link) => link.getAttribute("href"));
  assert.deepEqual(links(await open(context, {}, "/")),
    ["/", "/recommend.html", "/feed.html", "/waterfall.html?user=me", "/waterfall.html?channel=follow&user=me", "/docs.html"]);
  assert.deepEqual(links(await open(context, { storage: { freshetChosen: "1" } }, "/")),
    ["/", "/recommend.html", "/feed.html", "/waterfall.html", "/waterfall.html?channel=follow", "/docs.html"]);
});

test("only the internal server's pages link what needs internal routes, and mark where one is", async (context) => {
  const added = (page) => page.$$("nav a").slice(5).map((link) => [link.textContent, link.getAttribute("href"), link.getAttribute("aria-current")]);
  assert.deepEqual(added(await open(context, {}, "/docs.html")), [["API", "/docs.html", "page"]]);
  assert.deepEqual(added(await open(context, {}, "/")), [["API", "/docs.html", null]]);
  assert.deepEqual(added(await open(context, { zone: "internal" }, "/dashboard")),
    [["What if", "/whatif.html", null], ["Dashboard", "/dashboard", "page"], ["API", "/docs", null]]);
});

test("every page loads without an error, has the panel of API calls, and shows the reader where there is one", async (context) => {
  const withReader = ["/", "/article.html", "/feed.html", "/recommend.html", "/waterfall.html"];
  for (const zone of ["public", "internal"]) {
    for (const address of [...withReader, "/dashboard.html", "/docs.html", "/whatif.html"]) {
      const page = await openPage(context, address, { zone, storage: { freshetAgent: "ann" } });
      assert.equal(page.$("#you strong")?.textContent, withReader.includes(address) ? "ann" : undefined, address);
      assert.equal(page.$("body > details.calls").open, false, address);
      assert.deepEqual(page.problems, [], address);
    }
  }
});

test("every page says once that keys are set, in place of each call's error", async (context) => {
  const unsigned = () => reply(401, { code: "bad_signature", msg: "not signed with a key of the internal server" });
  const calls = ["GET /api/hot", "GET /api/hot/preview", "POST /api/feed", "GET /api/recommendations", "GET /api/history", "GET /api/waterfall/discover", "GET /api/follows",
    "GET /api/items/a", "GET /api/items/a/similar"];
  for (const address of ["/", "/article.html?id=a", "/feed.html", "/recommend.html", "/waterfall.html", "/whatif.html", "/dashboard.html"]) {
    const page = await openPage(context, address, { zone: "internal", answer: { ...Object.fromEntries(calls.map((each) => [each, unsigned])), "GET /status": () => ({ processes: [], history: [] }) } });
    await page.tick(100);
    page.$("details.calls").remove();
    const text = page.document.body.textContent;
    assert.equal(text.split("Keys are set: these pages cannot sign in.").length, 2, address);
    assert.doesNotMatch(text, /not signed|couldn’t|can’t refresh/, address);
  }
});

test("without JavaScript, every page says that it needs it", () => {
  for (const name of ["article", "dashboard", "docs", "feed", "index", "recommend", "waterfall", "whatif"])
    assert.equal(new JSDOM(source(`${name}.html`)).window.document.querySelector("noscript p").textContent, "This page needs JavaScript, which is off or blocked here.", name);
});

// --- Elements --------------------------------------------------------------------------------------------------------------

test("elements and buttons have the text, class and label that they are given", async (context) => {
  const { button, element } = await exported(context);
  assert.equal(element("p").outerHTML, "<p></p>");
  assert.equal(element("p", "<b>", "hint").outerHTML, '<p class="hint">&lt;b&gt;</p>');
  let pressed = 0;
  const plain = button("Go", null, () => ++pressed);
  assert.equal(plain.outerHTML, '<button type="button">Go</button>');
  plain.click();
  assert.equal(pressed, 1);
  assert.equal(button("Go", "Go on", () => {}).outerHTML, '<button type="button" aria-label="Go on">Go</button>');
});

test("a status is not announced again while it stays the same", async (context) => {
  const { $, showStatus, status } = await exported(context);
  showStatus("Busy.");
  const [node] = $("#state").childNodes;
  showStatus("Busy.");
  assert.equal($("#state").childNodes[0], node);
  showStatus("Done.");
  assert.equal(status(), "Done.");
});

test("counts and durations are in words", async (context) => {
  const { formatDuration, plural } = await exported(context);
  assert.deepEqual([0, 1, 2].map((count) => plural(count, "article")), ["0 articles", "1 article", "2 articles"]);
  const day = 86400;
  assert.deepEqual([-5, 0, 0.9, 1, 59.9, 60, 119, 3599, 3600, 7200, day - 1, day, 30 * day - 1, 30 * day, 365 * day - 1, 365 * day, 800 * day].map(formatDuration),
    ["0 seconds", "0 seconds", "0 seconds", "1 second", "59 seconds", "1 minute", "1 minute", "59 minutes", "1 hour", "2 hours", "23 hours", "1 day", "29 days",
      "1 month", "12 months", "1 year", "2 years"]);
});

test("an article's address encodes its id and names the reader", async (context) => {
  const { articleUrl } = await exported(context, {}, "/feed.html?user=ann");
  assert.equal(articleUrl("a/b?c&d=é"), "/article.html?id=a%2Fb%3Fc%26d%3D%C3%A9&user=ann");
  assert.equal(articleUrl("a", "b&c"), "/article.html?id=a&user=b%26c");
});

test("an item is described by author, age, tags and source", async (context) => {
  const { describeItem, element } = await exported(context);
  const now = kNow / 1000;
  const item = { author: "ann", published_at: now - 7200, update_time: now - 60, tags: ["news", "rust"], url: "https://www.example.org/x" };
  assert.equal(describeItem(item).outerHTML,
    '<span class="about">by ann · 2 hours ago · news, rust · <a href="https://www.example.org/x" rel="noreferrer" title="example.org">source</a></span>');
  assert.equal(describeItem({ update_time: now - 60 }).textContent, "1 minute ago");
  assert.equal(describeItem({}).outerHTML, '<span class="about"></span>');
  assert.equal(describeItem({ url: "http://a.example" }).textContent, "source");
  const target = element("p", "before");
  assert.equal(describeItem({ author: "bob" }, target), target);
  assert.equal(target.textContent, "by bob");
});

test("only an absolute address of the web becomes a link", async (context) => {
  const { describeItem } = await exported(context);
  for (const url of ["javascript:alert(1)", "JavaScript:alert(1)//https://x", "data:text/html,x", "/local", "x https://example.org", "ftp://example.org", "", undefined])
    assert.equal(describeItem({ url }).querySelector("a"), null, url);
});

test("the sample's source is credited once, for its own items only", async (context) => {
  const { $, $$, showAttribution } = await exported(context);
  showAttribution([]);
  showAttribution([{ url: "https://example.org" }, { url: "https://evil.example/quantumcomputing.stackexchange.com" },
    { url: "https://stackexchange.com.evil.example" }, { url: "https://a.stackexchange.com.evil.example" }, { url: "nothing" }, {}]);
  assert.equal($("#attribution"), null);
  const item = { url: "https://quantumcomputing.stackexchange.com/q/12" };
  showAttribution([{ url: "https://example.org" }, item]);
  showAttribution([item]);
  assert.equal($$("footer").length, 1);
  assert.equal($("main").nextSibling, $("#attribution"));
  assert.equal($("#attribution").textContent, "Sample content from quantumcomputing.stackexchange.com, a site of the Stack Exchange network, by the authors credited with " +
    "each question. Licensed under CC BY-SA 4.0 (3.0 before May 2018).");
  assert.deepEqual($$("#attribution a").map(({ href }) => href),
    ["https://quantumcomputing.stackexchange.com/", "https://creativecommons.org/licenses/by-sa/4.0/", "https://creativecommons.org/licenses/by-sa/3.0/"]);
});

// --- Lists that keep the focus -----------------------------------------------------------------------------------------------

test("replacing rows keeps the focus on its row, or on the row that took its position", async (context) => {
  const { $, document, element, replaceRows } = await exported(context);
  const list = $("#feed");
  const focused = () => [document.activeElement.closest("li")?.dataset.id, document.activeElement.tagName];
  const makeRow = (id, ...tags) => {
    const row = element("li");
    row.dataset.id = id;
    row.append(...tags.map((tag) => Object.assign(element(tag, id), tag === "a" ? { href: "/" + id } : {})));
    return row;
  };
  const rows = ["a", "b", "c"].map((id) => makeRow(id, "a", "button"));
  replaceRows(list, rows);
  assert.deepEqual(focused(), [undefined, "BODY"]);
  rows[1].querySelector("button").focus();
  replaceRows(list, [rows[2], rows[1], rows[0]]);
  assert.deepEqual(focused(), ["b", "BUTTON"], "the same row moved");
  replaceRows(list, ["c", "a", "b"].map((id) => makeRow(id, "a", "button")));
  assert.deepEqual(focused(), ["b", "BUTTON"], "a new row of the same item");
  replaceRows(list, ["x", "y", "z"].map((id) => makeRow(id, "a", "button")));
  assert.deepEqual(focused(), ["z", "BUTTON"], "the row that took its position");
  replaceRows(list, ["v", "w"].map((id) => makeRow(id, "a")));
  assert.deepEqual(focused(), ["w", "A"], "the last row, and what it has");
  replaceRows(list, []);
  replaceRows(list, [makeRow("u", "a")]);
  assert.deepEqual(focused(), [undefined, "BODY"], "nothing had the focus");
});

// --- Calls to the service ----------------------------------------------------------------------------------------------------

test("a call sends JSON and survives the page that sends it", async (context) => {
  const page = await exported(context, { answer: { "PUT /api/x": () => ({ ok: true }), "GET /api/x": () => [1] } });
  assert.deepEqual({ ...await page.call("PUT", "/api/x?y=1", { a: 1 }) }, { ok: true });
  assert.deepEqual([...await page.call("GET", "/api/x")], [1]);
  const [put, get] = page.requests;
  assert.deepEqual([put.method, put.target, put.body, put.keepalive, put.headers["Content-Type"]], ["PUT", "/api/x?y=1", { a: 1 }, true, "application/json"]);
  assert.deepEqual([get.method, get.body, get.keepalive, get.headers["Content-Type"]], ["GET", undefined, true, undefined]);
});

test("an error says what the service said, its status, and whether a retry can help", async (context) => {
  const page = await exported(context);
  const answers = [
    [reply(400, { msg: "articleId: bad" }), "articleId: bad", 400, true],
    [reply(404, {}), "the service returned HTTP 404", 404, true],
    [reply(429, { msg: "too many requests" }), "too many requests", 429, false],
    [reply(499, {}), "the service returned HTTP 499", 499, true],
    [reply(500, { msg: "broken" }), "broken", 500, false],
    [reply(502, "<html>"), "the service returned HTTP 502", 502, false],
    [reply(200, "<html>"), "the service returned HTTP 200", 200, false],
    [reply(200, "{", { "Content-Type": "application/json" }), "the service returned HTTP 200", 200, false],
    [reply(399, {}), "the service returned HTTP 399", 399, false],
    [reply(503, '{"msg":"busy"}', { "Content-Type": "application/problem+json; charset=utf-8" }), "busy", 503, false],
    [reply(503, '{"msg":"busy"}', { "Content-Type": "text/jsonish" }), "the service returned HTTP 503", 503, false],
    [lost(), "the service is unreachable", undefined, undefined],
  ];
  for (const [answer, message, status, final] of answers) {
    page.answer["GET /api/x"] = () => answer;
    const error = await page.call("GET", "/api/x").then(() => assert.fail("no error"), (thrown) => thrown);
    assert.deepEqual([error.message, error.status, error.final], [message, status, final]);
  }
});

for (const [what, failure] of [["a lost response", lost()], ["429", reply(429, {})], ["503", reply(503, {})]]) {
  test(`${what} is retried after a second, four times`, async (context) => {
    const page = await exported(context);
    let calls = 0;
    page.answer["POST /api/x"] = () => (++calls < 5 ? failure : { ok: true });
    const done = page.callWithRetry("POST", "/api/x", { id: 1 });
    for (let expected = 1; expected < 5; ++expected) {
      await settle();
      assert.equal(calls, expected);
      await page.tick(999);
      assert.equal(calls, expected);
      await page.tick(1);
    }
    assert.deepEqual({ ...await done }, { ok: true });
    assert.deepEqual(page.requests.map(({ body }) => body), Array(5).fill({ id: 1 }), "each time the same request");

    page.answer["POST /api/x"] = () => (++calls, failure);
    calls = 0;
    const failed = page.callWithRetry("POST", "/api/x").then(() => "answered", () => "failed");
    await page.tick(60000);
    assert.equal(await failed, "failed");
    assert.equal(calls, 5);
  });
}

test("an error that a retry cannot help is not retried", async (context) => {
  const page = await exported(context, { answer: { "GET /api/x": () => reply(404, { msg: "none" }) } });
  await assert.rejects(page.callWithRetry("GET", "/api/x"), { message: "none" });
  assert.deepEqual(page.taken(), ["GET /api/x"]);
  assert.equal(page.clock.countTimers(), 0);
});

// --- Infinite scroll ---------------------------------------------------------------------------------------------------------

async function scrolling(context) {
  const page = await openPage(context, "/feed.html", { scripts: ["/scroll.js"] });
  const more = page.$("#more");
  more.hidden = false;
  page.loads = 0;
  return Object.assign(page, page.exports["/scroll.js"], { more, scroller: page.exports["/scroll.js"].infiniteScroll(more, () => ++page.loads) });
}

test("a row shows title, reason and details, and links the article", async (context) => {
  const page = await openPage(context, "/feed.html?user=ann", { scripts: ["/scroll.js"] });
  const { itemRow } = page.exports["/scroll.js"];
  assert.equal(itemRow({ id: "a b", title: "T", author: "bob" }, "new").outerHTML,
    '<li data-id="a b"><a href="/article.html?id=a+b&amp;user=ann">T</a><span class="reason">new</span><span class="about">by bob</span></li>');
  assert.equal(itemRow({ id: "a" }, "new").querySelector("a").textContent, "a");
});

test("the end of the list coming into view loads more, and so does the button", async (context) => {
  const page = await scrolling(context);
  const { more, scroller } = page;
  assert.deepEqual(page.observers.map(({ rootMargin }) => rootMargin), ["300px"]);
  scroller.checkBottom();
  assert.equal(page.loads, 0);
  await page.showBottom(true);
  assert.equal(page.loads, 1);
  scroller.checkBottom();
  assert.equal(page.loads, 2, "it is still in view");
  await page.showBottom(false);
  scroller.checkBottom();
  assert.equal(page.loads, 2);
  more.click();
  assert.equal(page.loads, 3);
  more.hidden = true;
  page.observers[0].callback([{ isIntersecting: true }]);
  assert.equal(page.loads, 3, "nothing is left to load");
  more.hidden = false;
  page.observers[0].callback([{ isIntersecting: false }, { isIntersecting: true }]);
  assert.equal(page.loads, 4);
});

test("only one task runs at a time, and the end is checked again when it says", async (context) => {
  const page = await scrolling(context);
  const { scroller } = page;
  page.bottomVisible = true;
  const first = gate();
  const running = scroller.runExclusive(5000, async (isCurrent) => {
    await first.opened;
    assert.equal(isCurrent(), true);
    return 700;
  });
  let others = 0;
  await scroller.runExclusive(5000, async () => ++others);
  assert.equal(others, 0);
  assert.ok(scroller.busy);
  first.open();
  await running;
  assert.equal(scroller.busy, null);
  await page.tick(699);
  assert.equal(page.loads, 0);
  await page.tick(1);
  assert.equal(page.loads, 1);
  await scroller.runExclusive(5000, async () => (++others, 0));
  assert.equal(others, 1);
});

test("a task that fails is reported, and the end is checked again later", async (context) => {
  const page = await scrolling(context);
  page.bottomVisible = true;
  const errors = [];
  await page.scroller.runExclusive(5000, async () => {
    throw new Error("too slow");
  }, (error) => errors.push(error.message));
  assert.equal(page.status(), "We couldn’t load this list: too slow.");
  assert.deepEqual(errors, ["too slow"]);
  assert.equal(page.scroller.busy, null);
  await page.tick(4999);
  assert.equal(page.loads, 0);
  await page.tick(1);
  assert.equal(page.loads, 1);
});

test("a canceled task neither reports an error nor ends the one that followed", async (context) => {
  const page = await scrolling(context);
  const { scroller } = page;
  page.bottomVisible = true;
  const [first, second] = [gate(), gate()];
  const errors = [];
  const canceled = scroller.runExclusive(10, async (isCurrent) => {
    await first.opened;
    assert.equal(isCurrent(), false);
    throw new Error("late");
  }, (error) => errors.push(error));
  scroller.cancel();
  const running = scroller.runExclusive(10, () => second.opened);
  first.open();
  await canceled;
  assert.ok(scroller.busy, "the second task still runs");
  assert.deepEqual([page.status(), errors], ["Loading…", []]);
  await page.tick(1000);
  assert.equal(page.loads, 0);
  second.open();
  await running;
  assert.equal(scroller.busy, null);
});

test("polling waits while the page is hidden or busy", async (context) => {
  const page = await scrolling(context);
  const { scroller } = page;
  let polls = 0;
  const slow = gate();
  scroller.poll(1000, () => (++polls, polls === 2 ? slow.opened : undefined));
  await page.tick(999);
  assert.equal(polls, 0);
  await page.tick(1);
  assert.equal(polls, 1);
  page.visible = false;
  await page.tick(5000);
  assert.equal(polls, 1);
  page.visible = true;
  scroller.busy = Symbol("task");
  await page.tick(5000);
  assert.equal(polls, 1);
  scroller.busy = null;
  await page.tick(1000);
  assert.equal(polls, 2);
  await page.tick(9000);
  assert.equal(polls, 2, "one poll at a time");
  slow.open();
  await settle();
  await page.tick(1000);
  assert.equal(polls, 3);
});

// --- The panel of API calls ----------------------------------------------------------------------------------------------------

async function panel(context, answer = {}) {
  const page = await openPage(context, "/docs.html", { scripts: ["/calls.js"], answer });
  const details = page.$("details.calls");
  page.openPanel = async () => {
    details.open = true;
    page.fire(details, "toggle");
    await settle();
  };
  page.commands = async () => {
    for (const button of page.$$(".calls li button")) button.click();
    await settle();
    return page.texts(".calls pre");
  };
  return page;
}

test("the panel counts calls while it is closed and lists them when opened, the latest first", async (context) => {
  const page = await panel(context, { "GET /a": () => 1, "POST /b": () => reply(503, {}) });
  assert.equal(page.text(".calls summary"), "API calls on this page (0)");
  assert.equal(page.$("details.calls").parentNode, page.document.body);
  for (let i = 0; i < 3; ++i) await page.window.fetch("/a?x=1");
  await page.window.fetch("/b", { method: "POST", body: "{}" });
  assert.equal(page.text(".calls summary"), "API calls on this page (4)");
  assert.deepEqual(page.texts(".calls li"), []);
  await page.openPanel();
  assert.deepEqual(page.texts(".calls li"), ["POST /b 503 Copy as curl", "GET /a?x=1 200 · 3 times Copy as curl"]);
  assert.equal(page.$(".calls button").getAttribute("aria-label"), "Copy as curl: POST /b");
  assert.equal(page.$(".calls button").type, "button");
  assert.equal(page.$(".calls pre").hidden, true);
  assert.equal(page.$(".calls pre").tabIndex, 0);
  const [, row] = page.$$(".calls li");
  await page.window.fetch("/a?x=1");
  assert.deepEqual(page.texts(".calls li"), ["POST /b 503 Copy as curl", "GET /a?x=1 200 · 4 times Copy as curl"]);
  assert.equal(page.$$(".calls li")[1], row, "rows stay, so the focus does");
});

test("each call's curl command does the same, whatever is in it", async (context) => {
  const page = await panel(context);
  const json = { "Content-Type": "application/json" };
  await page.window.fetch("/a?x='y'&z=1").catch(() => {});
  await page.window.fetch("/b", { method: "POST", headers: json, body: '{"t":"it\'s"}' });
  await page.window.fetch("/c", { method: "PUT", headers: json, body: "{}" });
  await page.window.fetch("/d", { method: "DELETE" });
  await page.window.fetch("/e", { method: "POST" });
  await page.window.fetch("/f", { method: "POST", body: "{}" });
  await page.window.fetch("/g", { method: "POST", headers: { "Content-Type": "application/x-ndjson" }, body: "{}" });
  await page.openPanel();
  assert.deepEqual((await page.commands()).reverse(), [
    "curl 'http://site.example/a?x=%27y%27&z=1'",
    "curl 'http://site.example/b' --json '{\"t\":\"it'\\''s\"}'",
    "curl -X PUT 'http://site.example/c' --json '{}'",
    "curl -X DELETE 'http://site.example/d'",
    "curl -X POST 'http://site.example/e'",
    "curl 'http://site.example/f' -H 'Content-Type: text/plain' --data-binary '{}'",
    "curl 'http://site.example/g' -H 'Content-Type: application/x-ndjson' --data-binary '{}'",
  ]);
});

test("a command is shown, selected, and copied if the browser allows it", async (context) => {
  const page = await panel(context, { "GET /a": () => 1 });
  await page.window.fetch("/a");
  await page.openPanel();
  await page.commands();
  assert.equal(page.$(".calls pre").hidden, false);
  assert.equal(String(page.window.getSelection()), "curl 'http://site.example/a'");
  assert.equal(page.text(".calls button"), "Selected: press Ctrl+C", "no clipboard");
  const copied = [];
  page.window.navigator.clipboard = { writeText: async (text) => void copied.push(text) };
  await page.commands();
  assert.equal(page.text(".calls button"), "Copied");
  assert.deepEqual(copied, ["curl 'http://site.example/a'"]);
  page.window.navigator.clipboard.writeText = async () => {
    throw new Error("denied");
  };
  await page.commands();
  assert.equal(page.text(".calls button"), "Selected: press Ctrl+C");
});

test("a call without a response says why, and its error reaches the caller", async (context) => {
  const failure = { error: lost() };
  const page = await panel(context, { "GET /a": () => failure.error });
  await page.openPanel();
  await assert.rejects(page.window.fetch("/a"), failure.error);
  assert.deepEqual(page.texts(".calls li"), ["GET /a no response Copy as curl"]);
  for (const name of ["AbortError", "TimeoutError"]) {
    failure.error = Object.assign(new Error("stopped"), { name });
    await assert.rejects(page.window.fetch("/a"), failure.error);
    assert.match(page.text(".calls li"), /^GET \/a canceled · \d times /);
  }
});

test("only the last twenty addresses are listed", async (context) => {
  const page = await panel(context);
  for (let i = 0; i < 20; ++i) await page.window.fetch(`/${i}`);
  await page.openPanel();
  assert.equal(page.$$(".calls li").length, 20);
  await page.window.fetch("/20");
  assert.deepEqual(page.texts(".calls code"), Array.from({ length: 20 }, (_, i) => `GET /${20 - i}`));
});

test("beacons are listed, too, and say whether they were sent", async (context) => {
  const page = await panel(context);
  await page.openPanel();
  const { navigator } = page.window;
  assert.equal(navigator.sendBeacon("/api/track", "{}"), true);
  assert.deepEqual(page.beacons, [{ address: "/api/track", body: "{}" }]);
  assert.deepEqual(page.texts(".calls li"), ["POST /api/track sent Copy as curl"]);
  page.takesBeacons = false;
  assert.equal(navigator.sendBeacon("/api/track", "{}"), false);
  assert.deepEqual(page.texts(".calls li"), ["POST /api/track not sent · 2 times Copy as curl"]);
  assert.deepEqual(await page.commands(), ["curl 'http://site.example/api/track' -H 'Content-Type: text/plain' --data-binary '{}'"]);
});

test("a browser without beacons still lists calls", async (context) => {
  const page = await openPage(context, "/docs.html", { scripts: ["/calls.js"], setUp: ({ window }) => delete window.navigator.sendBeacon });
  assert.equal(page.window.navigator.sendBeacon, undefined);
  assert.equal(page.text(".calls summary"), "API calls on this page (0)");
});

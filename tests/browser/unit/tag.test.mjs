// freshet.js, the tag that reports reading time.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { gate, kItemPaths, lost, runTag, settle, source } from "./page.mjs";

const kConfig = { article: "a b", user: "ann", published: 1700000000 };
const kSession = { session: "s1" };

test("a report says what was read, by whom, and for how long", async (context) => {
  const page = runTag(context, kConfig, kSession);
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.sent, [{
    by: "fetch", address: "/api/track", options: { method: "POST", keepalive: true, credentials: "include" },
    body: { articleId: "a b", dwellMs: 5000, sessionId: "s1", userId: "ann", publishedAt: 1700000000 },
  }], "without a content type: text/plain needs no preflight");
  assert.deepEqual(page.posts, [], "a tab that has a session asks for no visitor cookie");
});

test("the first report follows after 5 s and others every 15 s, until 180 s are reported", async (context) => {
  const page = runTag(context, kConfig, kSession);
  await page.clock.tickAsync(4999);
  assert.deepEqual(page.reports(), []);
  await page.clock.tickAsync(600000);
  assert.deepEqual(page.reports(), [5, 20, 35, 50, 65, 80, 95, 110, 125, 140, 155, 170, 185].map((s) => 1000 * s));
  assert.equal(page.clock.countTimers(), 0);
});

test("once `max` is reported, neither leaving nor coming back reports the whole time again", async (context) => {
  const page = runTag(context, { ...kConfig, max: 10 }, kSession);
  await page.clock.tickAsync(20000);
  assert.deepEqual(page.reports(), [5000, 20000]);
  await page.clock.tickAsync(3600000);
  page.setVisible(false);
  page.setVisible(true);
  await page.clock.tickAsync(60000);
  page.window.dispatchEvent(new page.window.Event("pagehide"));
  assert.deepEqual(page.reports(), [5000, 20000]);
});

test("reports are at least a second apart, whatever `every` is", async (context) => {
  for (const [every, reports] of [[0, [5, 6, 7]], [-1, [5, 6, 7]], [0.1, [5, 6, 7]], [null, [5, 6, 7]], ["", [5, 6, 7]], ["often", [5]]]) {
    const page = runTag(context, { ...kConfig, every }, kSession);
    await page.clock.tickAsync(7900);
    assert.deepEqual(page.reports(), reports.map((s) => 1000 * s), String(every));
  }
});

test("first, every, max and endpoint are options", async (context) => {
  const page = runTag(context, { ...kConfig, first: 1, every: 2, max: 4, endpoint: "https://f.example/x/track" }, kSession);
  await page.clock.tickAsync(60000);
  assert.deepEqual(page.reports(), [1000, 3000, 5000]);
  assert.equal(page.sent[0].address, "https://f.example/x/track");
});

test("a hidden page reports at once with a beacon, and then neither measures nor reports", async (context) => {
  const page = runTag(context, kConfig, kSession);
  await page.clock.tickAsync(3000);
  page.setVisible(false);
  assert.deepEqual(page.sent.map(({ by, body }) => [by, body.dwellMs]), [["beacon", 3000]]);
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
  const page = runTag(context, kConfig, kSession);
  await page.clock.tickAsync(1000);
  page.setVisible(true);
  page.window.dispatchEvent(new page.window.Event("pageshow"));
  assert.equal(page.clock.countTimers(), 1);
  await page.clock.tickAsync(4000);
  assert.deepEqual(page.reports(), [5000]);
});

test("leaving the page reports, and coming back from the cache of pages resumes", async (context) => {
  const page = runTag(context, kConfig, kSession);
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

test("a page that was hidden until its next report is a page view of its own does not repeat its time", async (context) => {
  const kShort = { session: 10, every: 2 };
  for (const [options, hiddenS, visibleS, reports] of [
    [{}, 1784, 16, [5, 7, 22, 23]], [{}, 1786, 16, [5, 7, 5, 16]], [kShort, 7, 3, [5, 7, 9, 10]], [kShort, 9, 3, [5, 7, 3]],
    [{ max: 6 }, 1784, 16, [5, 7]], [{ max: 6 }, 1786, 16, [5, 7, 5, 16]]]) {
    const page = runTag(context, { ...kConfig, ...options }, kSession);
    await page.clock.tickAsync(7000);
    page.setVisible(false);
    await page.clock.tickAsync(1000 * hiddenS);
    page.setVisible(true);
    await page.clock.tickAsync(1000 * visibleS);
    page.setVisible(false);
    assert.deepEqual(page.reports(), reports.map((s) => 1000 * s), JSON.stringify([options, hiddenS]));
  }
});

test("a page that opens in the background sends nothing, and measures from when it is shown", async (context) => {
  const page = runTag(context, kConfig, { visible: false });
  await page.clock.tickAsync(60000);
  page.window.dispatchEvent(new page.window.Event("pageshow"));
  assert.equal(page.clock.countTimers(), 0);
  assert.deepEqual(page.posts, []);
  page.setVisible(true);
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reports(), [5000]);
});

test("fractions of a millisecond are rounded, and less than a millisecond is not reported", async (context) => {
  const page = runTag(context, kConfig, kSession);
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

// --- Session and visitor cookie ----------------------------------------------------------------------------------------------

test("a new tab keeps its session id and asks for the visitor cookie, and a page after it has both", async (context) => {
  const page = runTag(context, kConfig);
  assert.deepEqual(page.posts, [{ address: "/api/visitor", body: undefined,
    options: { method: "POST", keepalive: true, credentials: "include" } }]);
  assert.match(page.window.sessionStorage.freshet, /^[0-9a-z]{12,24}$/);
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.sent.map(({ body }) => body.sessionId), [page.window.sessionStorage.freshet]);
  const { freshet, freshetCookie } = page.window.sessionStorage;
  assert.equal(freshetCookie, "1");
  const next = runTag(context, kConfig, { session: freshet });
  await next.clock.tickAsync(5000);
  assert.deepEqual([next.posts, next.sent[0].body.sessionId], [[], freshet]);
});

test("a report waits for the visitor cookie, but no longer than a second", async (context) => {
  const { open, opened } = gate();
  const page = runTag(context, { ...kConfig, first: 0.2 }, { answer: { "/api/visitor": () => opened } });
  await page.clock.tickAsync(999);
  assert.deepEqual(page.reports(), []);
  await page.clock.tickAsync(1);
  assert.deepEqual(page.reports(), [1000]);
  open(204);
  await settle();
  await page.clock.tickAsync(15000);
  assert.deepEqual(page.reports(), [1000, 16000]);

  const quick = gate();
  const other = runTag(context, { ...kConfig, first: 0.2 }, { answer: { "/api/visitor": () => quick.opened } });
  await other.clock.tickAsync(300);
  quick.open(204);
  await settle();
  assert.deepEqual(other.reports(), [300], "with the cookie, not before and not a second later");
});

test("a reader who leaves before the visitor cookie arrives is reported", async (context) => {
  const page = runTag(context, kConfig, { answer: { "/api/visitor": () => gate().opened } });
  await page.clock.tickAsync(400);
  page.setVisible(false);
  assert.deepEqual(page.sent.map(({ by, body }) => [by, body.dwellMs, body.sessionId]), [["beacon", 400, page.window.sessionStorage.freshet]]);
});

test("a page that was hidden before the visitor cookie arrives does not report when it arrives", async (context) => {
  const { open, opened } = gate();
  const page = runTag(context, { ...kConfig, first: 0.2 }, { answer: { "/api/visitor": () => opened } });
  await page.clock.tickAsync(300);
  page.setVisible(false);
  open(204);
  await page.clock.tickAsync(2000);
  assert.deepEqual([page.reports(), page.clock.countTimers()], [[300], 0]);
});

test("after a failed request for the visitor cookie, the tab's next page asks again in the same session", async (context) => {
  for (const answer of [429, 503, lost()]) {
    const page = runTag(context, kConfig, { answer: { "/api/visitor": () => answer } });
    await page.clock.tickAsync(5000);
    assert.deepEqual(page.reports(), [5000]);
    assert.equal(page.window.sessionStorage.freshetCookie, undefined);
  }
  const refused = runTag(context, kConfig, { answer: { "/api/visitor": () => 403 } });
  await settle();
  assert.equal(refused.window.sessionStorage.freshetCookie, "1", "a refusal would be repeated");
});

test("two tabs have different ids although they open at the same time", async (context) => {
  const [one, two] = [1, 2].map(() => runTag(context, kConfig).window.sessionStorage.freshet);
  assert.notEqual(one, two);
});

test("the visitor cookie is asked for at the endpoint's server", async (context) => {
  const page = runTag(context, { ...kConfig, endpoint: "https://f.example/track/track" });
  assert.equal(page.posts[0].address, "https://f.example/track/visitor");
});

test("without the visitor cookie and without storage, reports are sent all the same", async (context) => {
  const page = runTag(context, kConfig, { answer: { "/api/visitor": lost }, storageFails: true });
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reports(), [5000]);
});

// --- Lost reports ------------------------------------------------------------------------------------------------------------

for (const [browser, takesBeacons] of [["without beacons", null], ["that refuses a beacon", false], ["whose beacons throw", new TypeError("blocked")]]) {
  test(`a browser ${browser} posts the last report`, async (context) => {
    const page = runTag(context, kConfig, { ...kSession, takesBeacons });
    await page.clock.tickAsync(3000);
    page.setVisible(false);
    assert.deepEqual(page.sent.map(({ by, address, body }) => [by, address, body.dwellMs]), [["fetch", "/api/track", 3000]]);
    page.setVisible(true);
    await page.clock.tickAsync(15000);
    assert.deepEqual(page.reports(), [3000, 18000], "and reporting goes on");
  });
}

for (const [what, answer] of [["refused with 503", 503], ["refused with 429", 429], ["lost", lost()]]) {
  test(`a report that was ${what} is sent again`, async (context) => {
    const page = runTag(context, { ...kConfig, max: 5 }, { ...kSession, answer: { "/api/track": () => answer } });
    await page.clock.tickAsync(5000);
    assert.deepEqual(page.reports(), [5000]);
    await page.clock.tickAsync(14999);
    assert.deepEqual(page.reports(), [5000]);
    page.answer["/api/track"] = () => 200;
    await page.clock.tickAsync(1);
    assert.deepEqual(page.reports(), [5000, 5000]);
    await page.clock.tickAsync(600000);
    assert.deepEqual(page.reports(), [5000, 5000]);
  });
}

test("a report is sent four times at most, and a refusal that repeating cannot help is not repeated", async (context) => {
  const page = runTag(context, { ...kConfig, max: 5 }, { ...kSession, answer: { "/api/track": () => 503 } });
  await page.clock.tickAsync(600000);
  assert.deepEqual(page.reports(), [5000, 5000, 5000, 5000]);
  const refused = runTag(context, { ...kConfig, max: 5 }, { ...kSession, answer: { "/api/track": () => 400 } });
  await refused.clock.tickAsync(600000);
  assert.deepEqual(refused.reports(), [5000]);
});

test("a newer report replaces one that was lost, and the reports of different articles do not", async (context) => {
  const page = runTag(context, { article: "a", every: 4 }, { ...kSession, answer: { "/api/track": () => 503 } });
  await page.clock.tickAsync(5000);
  page.answer["/api/track"] = () => 200;
  await page.clock.tickAsync(4000);
  assert.deepEqual(page.reports(), [5000, 9000]);
  page.answer["/api/track"] = () => 503;
  await page.clock.tickAsync(1000);
  page.window.freshet.open("b");
  await settle();
  page.answer["/api/track"] = () => 200;
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle().slice(2), [["a", 10000], ["a", 10000], ["b", 5000]]);
});

test("the last report of an article that ends while the page stays open is sent again", async (context) => {
  const page = runTag(context, { article: "a" }, { ...kSession, answer: { "/api/track": () => 503 } });
  await page.clock.tickAsync(3000);
  page.window.freshet.open(null);
  await settle();
  page.answer = {};
  await page.clock.tickAsync(60000);
  assert.deepEqual(page.sent.map(({ by, body }) => [by, body.articleId, body.dwellMs]), [["fetch", "a", 3000], ["fetch", "a", 3000]]);
});

test("a beacon, which may be lost too, does not replace a lost report", async (context) => {
  const page = runTag(context, { article: "a" }, { ...kSession, answer: { "/api/track": () => 503 } });
  await page.clock.tickAsync(7000);
  page.setVisible(false);
  page.answer = {};
  await page.clock.tickAsync(60000);
  assert.deepEqual(page.sent.map(({ by, body }) => [by, body.dwellMs]), [["fetch", 5000], ["beacon", 7000], ["fetch", 5000]]);
});

// --- One current article -----------------------------------------------------------------------------------------------------

test("a new tag ends the previous article, which keeps the time until then", async (context) => {
  const page = runTag(context, { article: "a" }, kSession);
  await page.clock.tickAsync(3000);
  page.addTag({ article: "b", user: "bob" });
  await page.clock.tickAsync(6000);
  page.setVisible(false);
  assert.deepEqual(page.sent.map(({ body }) => [body.articleId, body.dwellMs, body.userId]),
    [["a", 3000, undefined], ["b", 5000, "bob"], ["b", 6000, "bob"]]);
  assert.deepEqual(page.sent.map(({ body }) => body.sessionId), ["s1", "s1", "s1"]);
});

test("with three tags on a page, the last article has the time and the others count nothing", async (context) => {
  const page = runTag(context, { article: "a" }, kSession);
  page.clock.tick(3);
  page.addTag({ article: "b" });
  page.clock.tick(3);
  page.addTag({ article: "c" });
  await page.clock.tickAsync(10000);
  page.setVisible(false);
  assert.deepEqual(page.reportsByArticle(), [["c", 5000], ["c", 10000]]);
});

test("the tag twice on a page counts once", async (context) => {
  const page = runTag(context, { article: 42 }, kSession);
  await page.clock.tickAsync(2000);
  page.addTag({ article: "42" });
  assert.equal(page.clock.countTimers(), 1);
  await page.clock.tickAsync(3000);
  page.setVisible(false);
  assert.deepEqual(page.reportsByArticle(), [["42", 5000]]);
});

test("freshet.open() begins another article with the same options but its own date, and nothing ends the current one", async (context) => {
  const page = runTag(context, { ...kConfig, every: 1 }, kSession);
  const { open } = page.window.freshet;
  await page.clock.tickAsync(2000);
  open(7);
  await page.clock.tickAsync(5000);
  open(7);
  await page.clock.tickAsync(1000);
  open(null);
  await page.clock.tickAsync(60000);
  page.setVisible(false);
  page.setVisible(true);
  open(undefined);
  open("");
  open({ article: "c", published: 5 });
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.sent.map(({ body }) => Object.values(body)), [["a b", 2000, "s1", "ann", 1700000000], ["7", 5000, "s1", "ann"],
    ["7", 6000, "s1", "ann"], ["c", 5000, "s1", 5]]);
});

test("a login on an article is part of its next report, which continues the time", async (context) => {
  const page = runTag(context, { article: 7, user: "", every: 2 }, kSession);
  await page.clock.tickAsync(6000);
  page.window.freshet.open({ article: "7", user: "ann" });
  await page.clock.tickAsync(3000);
  page.window.freshet.open("7");
  await page.clock.tickAsync(2000);
  page.window.freshet.open({ article: 7 });
  page.setVisible(false);
  assert.deepEqual(page.sent.map(({ body }) => [body.dwellMs, body.userId]),
    [[5000, ""], [7000, "ann"], [9000, "ann"], [11000, "ann"]]);
  page.setVisible(true);
  await page.clock.tickAsync(2000);
  assert.equal(page.sent.at(-1).body.userId, undefined, "options without a reader are those of one who is not logged in");
});

test("an article that is opened again starts at zero", async (context) => {
  const page = runTag(context, { article: "a" }, kSession);
  await page.clock.tickAsync(4000);
  page.window.freshet.open("b");
  await page.clock.tickAsync(2000);
  page.window.freshet.open("a");
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle(), [["a", 4000], ["b", 2000], ["a", 5000]]);
});

test("an article that is opened on a hidden page is measured from when it is shown", async (context) => {
  const page = runTag(context, { article: "a" }, kSession);
  await page.clock.tickAsync(2000);
  page.setVisible(false);
  page.window.freshet.open("b");
  await page.clock.tickAsync(10000);
  page.setVisible(true);
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle(), [["a", 2000], ["b", 5000]]);
});

test("without document.currentScript, the options are those of the last element that has some", async (context) => {
  const html = `<main data-freshet='{"article":"old"}'></main><article data-freshet='{"article":"new"}'></article>`;
  const page = runTag(context, null, { ...kSession, html });
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle(), [["new", 5000]]);
  page.addTag({ article: "newer" }, true);
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle().slice(1), [["newer", 5000]]);
});

test("a bundle, whose script has no options, uses those of the page", async (context) => {
  const page = runTag(context, null, { ...kSession, html: `<body data-freshet='{"article":"a"}'><script src="/bundle.js"></script>` });
  page.run(page.window.document.querySelector("script"));
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle(), [["a", 5000]]);
});

test("a page without options reports nothing until an article is opened", async (context) => {
  const page = runTag(context, null, kSession);
  await page.clock.tickAsync(60000);
  assert.deepEqual([page.sent, page.posts, page.clock.countTimers()], [[], [], 0]);
  page.window.freshet.open("a");
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle(), [["a", 5000]]);
});

test("a tag without an article reports the path of the page, or of its canonical link", async (context) => {
  for (const { url, path } of kItemPaths) {
    for (const options of [{ address: url }, { html: `<link rel="canonical" href="${url}">` }]) {
      const page = runTag(context, { user: "ann" }, { ...kSession, ...options });
      await page.clock.tickAsync(5000);
      assert.deepEqual(page.sent.map(({ body }) => [body.articleId, body.userId]), [[path, "ann"]], url);
    }
  }
});

test("a canonical link that is no address does not count", async (context) => {
  for (const link of [`<link rel="canonical">`, `<link rel="canonical" href="http://[">`, `<link rel="alternate" href="/feed">`]) {
    const page = runTag(context, {}, { ...kSession, html: link });
    await page.clock.tickAsync(5000);
    assert.deepEqual(page.reportsByArticle(), [["/article", 5000]], link);
  }
});

test("an empty attribute is enough for the path, and an article of null or \"\" is none", async (context) => {
  for (const [attribute, reports] of [["", [["/article", 5000]]], [`'{"article":""}'`, []], [`'{"article":null}'`, []]]) {
    const page = runTag(context, null, { ...kSession, html: `<script data-freshet=${attribute || '""'}></script>` });
    page.run(page.window.document.querySelector("script"));
    await page.clock.tickAsync(5000);
    assert.deepEqual(page.reportsByArticle(), reports, attribute);
  }
});

test("an attribute may be just the article's id", async (context) => {
  for (const [attribute, article] of [["42", "42"], ['"a b"', "a b"]]) {
    const page = runTag(context, null, { ...kSession, html: `<script data-freshet='${attribute}'></script>` });
    await page.clock.tickAsync(5000);
    assert.deepEqual([page.reportsByArticle(), page.errors], [[[article, 5000]], []]);
  }
});

test("options given to freshet.open() without an article are for the page's path, as those of a tag", async (context) => {
  const page = runTag(context, null, kSession);
  page.window.freshet.open({ first: 2 });
  await page.clock.tickAsync(2000);
  assert.deepEqual(page.reportsByArticle(), [["/article", 2000]]);
});

test("after a visit with Turbo, a tag in the head that names no article reports the new path", async (context) => {
  const page = runTag(context, null, { ...kSession, html: `<script data-freshet></script>` });
  await page.clock.tickAsync(3000);
  page.window.history.pushState({}, "", "/next/");
  page.window.document.dispatchEvent(new page.window.Event("turbo:load"));
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle(), [["/article", 3000], ["/next", 5000]]);
});

test("an element whose id is freshet is not taken for the tag", async (context) => {
  const page = runTag(context, { article: "a" }, { ...kSession, html: `<div id="freshet"></div>` });
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle(), [["a", 5000]]);
});

test("after a visit with Turbo, the page's options apply, or no article if there are none", async (context) => {
  const page = runTag(context, null, { ...kSession, html: `<article data-freshet='{"article":"a"}'></article>` });
  const { document, Event } = page.window;
  const visit = (html) => {
    document.body.innerHTML = html;
    document.dispatchEvent(new Event("turbo:load"));
  };
  visit(`<article data-freshet='{"article":"a"}'></article>`);  // the first page load has the event, too
  await page.clock.tickAsync(3000);
  visit(`<article data-freshet='{"article":"b"}'></article>`);
  await page.clock.tickAsync(4000);
  visit("<h1>Front page</h1>");
  await page.clock.tickAsync(60000);
  visit(`<article data-freshet='{"article":"a"}'></article>`);
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle(), [["a", 3000], ["b", 4000], ["a", 5000]]);
});

test("a tag's own options apply although another element that has some follows it", async (context) => {
  const page = runTag(context, { article: "a" }, kSession);
  const { document } = page.window;
  document.body.insertAdjacentHTML("beforeend", `<aside data-freshet='{"article":"other"}'></aside>`);
  const script = document.querySelector("script");
  script.dataset.freshet = '{"article":"b"}';
  page.run(script);
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle(), [["b", 5000]]);
});

test("values that are no exact id are an error in the console, and are not reported", async (context) => {
  for (const options of ['{"article":9007199254740993}', '{"article":"a","user":12345678901234567890}', '{"article":1.5}', "9007199254740993", "true",
    '{"article":{"id":1}}', '{"article":["a"]}', '{"article":"a","user":false}']) {
    const page = runTag(context, null, { ...kSession, html: `<article data-freshet='${options}'></article>` });
    await page.clock.tickAsync(60000);
    assert.match(page.errors.join(), /freshet.*string/, options);
    assert.deepEqual(page.sent, [], options);
    page.window.freshet.open("9007199254740993");
    await page.clock.tickAsync(5000);
    assert.deepEqual(page.reportsByArticle(), [["9007199254740993", 5000]]);
  }
  const other = runTag(context, { article: "a" }, kSession);
  other.window.freshet.open(2 ** 53);
  other.setVisible(false);
  other.setVisible(true);
  await other.clock.tickAsync(60000);
  assert.deepEqual(other.sent, [], "nor is the article before it");
  const page = runTag(context, { article: Number.MAX_SAFE_INTEGER, user: 0 }, kSession);
  await page.clock.tickAsync(5000);
  assert.deepEqual([page.errors, page.sent[0].body.articleId, page.sent[0].body.userId], [[], "9007199254740991", 0]);
});

// --- Consent -----------------------------------------------------------------------------------------------------------------

test("a tag that waits for consent sends and stores nothing, and measures from the consent on", async (context) => {
  const page = runTag(context, { article: "a", consent: "wait" });
  const { freshet, sessionStorage } = page.window;
  await page.clock.tickAsync(60000);
  page.setVisible(false);
  page.setVisible(true);
  freshet.open("b");
  await page.clock.tickAsync(60000);
  assert.deepEqual([page.sent, page.posts, sessionStorage.length, page.clock.countTimers()], [[], [], 0, 0]);
  freshet.consent(true);
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle(), [["b", 5000]]);
  assert.equal(page.posts.length, 1);
  freshet.open("c");
  await page.clock.tickAsync(5000);
  assert.deepEqual(page.reportsByArticle()[1], ["c", 5000], "consent is for the page's other articles, too");
});

test("every value of `consent` waits but false and empty ones", async (context) => {
  for (const [consent, reports] of [[true, []], ["waits", []], ["false", []], [1, []], [false, [5000]], ["", [5000]], [0, [5000]], [null, [5000]]]) {
    const page = runTag(context, { article: "a", consent });
    await page.clock.tickAsync(5000);
    assert.deepEqual([page.reports(), page.posts.length], [reports, reports.length], String(consent));
  }
});

test("options given to freshet.open() leave the consent, the cookie setting and the endpoint as they were", async (context) => {
  const page = runTag(context, { article: "a", consent: "wait", cookie: false, endpoint: "/x/track" });
  const { freshet } = page.window;
  freshet.open({ article: "b", first: 1 });
  await page.clock.tickAsync(60000);
  assert.deepEqual([page.sent, page.posts], [[], []]);
  freshet.consent(true);
  await page.clock.tickAsync(1000);
  assert.deepEqual(page.reportsByArticle(), [["b", 1000]]);
  assert.equal(page.sent[0].address, "/x/track");
  assert.deepEqual(page.posts, [], "no cookie is asked for");
});

test("consent that is refused or withdrawn ends the reports and forgets the session", async (context) => {
  const page = runTag(context, { article: "a" }, { ...kSession, answer: { "/api/track": () => 503 } });
  const { freshet, sessionStorage } = page.window;
  await page.clock.tickAsync(8000);
  freshet.consent(false);
  await page.clock.tickAsync(60000);
  page.setVisible(false);
  page.setVisible(true);
  assert.deepEqual([page.reports(), sessionStorage.length], [[5000], 0], "not even the lost report is repeated");
  freshet.consent(true);
  page.answer = {};
  await page.clock.tickAsync(5000);
  const last = page.sent.at(-1).body;
  assert.deepEqual([last.articleId, last.dwellMs, page.posts.length], ["a", 5000, 1]);
  assert.notEqual(last.sessionId, "s1");
  assert.equal(sessionStorage.freshet, last.sessionId);
});

test("refusing while a tag waits changes nothing, and does not fail without storage", async (context) => {
  const page = runTag(context, { article: "a", consent: "wait" }, { storageFails: true });
  page.window.freshet.consent(false);
  await page.clock.tickAsync(60000);
  assert.deepEqual([page.sent, page.posts], [[], []]);
});

test("without cookies, nothing is stored, no cookie is asked for or sent, and reports have a session per page", async (context) => {
  const page = runTag(context, { article: "a", cookie: false });
  await page.clock.tickAsync(5000);
  page.setVisible(false);
  await page.clock.tickAsync(1000);
  page.setVisible(true);
  await page.clock.tickAsync(2000);
  page.setVisible(false);
  assert.deepEqual([page.posts, page.window.sessionStorage.length], [[], 0]);
  assert.deepEqual(page.sent.map(({ by, body, options }) => [by, body.dwellMs, options.credentials]), [["fetch", 5000, "omit"], ["fetch", 7000, "omit"]],
    "a beacon always has cookies");
  assert.match(page.sent[0].body.sessionId, /^[0-9a-z]{12,24}$/);
  assert.equal(page.sent[1].body.sessionId, page.sent[0].body.sessionId);
});

test("Global Privacy Control counts as a missing consent if the site says so", async (context) => {
  const asked = runTag(context, { article: "a", gpc: true }, { gpc: true });
  await asked.clock.tickAsync(60000);
  assert.deepEqual([asked.sent, asked.posts], [[], []]);
  asked.window.freshet.consent(true);
  await asked.clock.tickAsync(5000);
  assert.deepEqual(asked.reports(), [5000]);
  for (const [options, gpc] of [[{}, true], [{ gpc: true }, false], [{ gpc: true }, undefined]]) {
    const page = runTag(context, { article: "a", ...options }, { ...kSession, gpc });
    await page.clock.tickAsync(5000);
    assert.deepEqual(page.reports(), [5000], JSON.stringify([options, gpc]));
  }
});

test("freshet.js has at most 2 KiB gzipped", () => {
  assert.ok(gzipSync(source("freshet.js"), { level: 9 }).length <= 2048);
});

// Recommendations and the article page: recommend.js and article.js.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gate, kNow, lost, openPage, reply, settle } from "./page.mjs";

// --- Recommendations -----------------------------------------------------------------------------------------------------------

const item = (id, members = {}) => ({ id, title: `About ${id}`, author: "bob", reason: { kind: "trend", text: "rising now" }, ...members });
const recommended = (ids, members = {}) => ({ items: ids.map((id) => item(id)), model: `ease@${kNow / 1000 - 7200}`, degraded: false,
  excluded: { viewed: 1, interacted: 2, not_interested: 3 }, ...members });

// Opens the page of recommendations. `state`: pages by reader and the history, which tests change.
async function openRecommended(context, state = {}, options = {}, address = "/recommend.html?user=ann") {
  const page = await openPage(context, address, { ...options, answer: {
    "GET /api/recommendations": ({ query }) => {
      const found = state[query.userId] ?? recommended(["a", "b"]);
      return typeof found === "function" ? found() : found;
    },
    "GET /api/history": () => state.history ?? { items: [] },
    "POST /api/history": () => ({}), "DELETE /api/history": () => ({}), "POST /api/feedback": () => ({}), "DELETE /api/feedback": () => ({}),
    ...options.answer,
  } });
  return Object.assign(page, { current: state });
}

test("recommendations are shown with reasons, what they exclude, and the model's age", async (context) => {
  const page = await openRecommended(context, { ann: recommended(["a b", "c"], { items: [item("a b"), item("c", { title: "" })] }) });
  assert.deepEqual(page.taken(), ["GET /api/recommendations?limit=10&userId=ann", "GET /api/history?userId=ann"]);
  const [row, untitled] = page.$$("#items li");
  assert.equal(row.outerHTML, '<li data-id="a b" data-reason="trend"><a href="/article.html?id=a+b&amp;user=ann" target="_blank">About a b</a>' +
    '<span class="reason">rising now</span><span class="about">by bob</span><button type="button" aria-label="Not interested in About a b">Not interested</button></li>');
  assert.deepEqual([untitled.firstChild.textContent, untitled.lastChild.getAttribute("aria-label")], ["c", "Not interested in c"]);
  assert.equal(page.text("#excluded"), "Excluded: 1 viewed, 2 interacted with, 3 dismissed. Model: ease, trained 2 hours ago.");
  assert.equal(page.status(), "");
  assert.deepEqual([page.$("#beside").hidden, page.$("#unread").hidden, page.text("#known"), page.$("#name").value], [true, false, "", ""]);
});

test("a model without a time has none", async (context) => {
  const page = await openRecommended(context, { ann: recommended([], { model: "trend" }) });
  assert.equal(page.text("#excluded"), "Excluded: 1 viewed, 2 interacted with, 3 dismissed. Model: trend.");
  assert.equal(page.status(), "There is nothing to recommend yet.");
});

test("the history lists articles by the titles that the page knows", async (context) => {
  const page = await openRecommended(context, { history: { items: ["b", "unknown id"] } });
  assert.deepEqual(page.ids("#history"), ["b", "unknown id"]);
  assert.deepEqual(page.texts("#history a"), ["About b", "unknown id"]);
  assert.equal(page.$("#history li:last-child a").getAttribute("href"), "/article.html?id=unknown+id&user=ann");
  assert.equal(page.$("#unread").hidden, true);
});

test("opening an article records the view and renews the page", async (context) => {
  const page = await openRecommended(context);
  page.taken();
  page.current.ann = recommended(["b", "c"]);
  page.$("#items a").focus();
  await page.click("#items a");
  assert.deepEqual([page.requests[0].method, page.requests[0].target, page.requests[0].body], ["POST", "/api/history", { userId: "ann", topicId: "a" }]);
  assert.deepEqual(page.taken(), ["POST /api/history", "GET /api/recommendations?limit=10&userId=ann", "GET /api/history?userId=ann"]);
  assert.deepEqual(page.ids("#items"), ["b", "c"]);
  assert.equal(page.document.activeElement.textContent, "About b", "the focus is on the row that took its position");
  page.current.history = { items: ["h"] };
  await page.click("#clear");
  await page.click("#history a");
  assert.deepEqual(page.requests.filter(({ method }) => method === "POST").map(({ body }) => body), [{ userId: "ann", topicId: "h" }]);
});

test("a view that cannot be recorded is reported, and the page is renewed", async (context) => {
  const failing = recommended(["a"]);
  const page = await openRecommended(context, { ann: failing }, { answer: { "POST /api/history": () => lost() } });
  const late = gate();
  page.current.ann = async () => (await late.opened, recommended(["b"]));
  await page.click("#items a");
  assert.equal(page.status(), "We couldn’t save that: the service is unreachable.");
  late.open();
  await settle();
  assert.deepEqual(page.ids("#items"), ["b"]);
});

test("a dismissed article can be undone for eight seconds", async (context) => {
  const page = await openRecommended(context);
  page.taken();
  page.$("#items li button").focus();
  await page.click("#items li button");
  const [request] = page.requests;
  assert.deepEqual([request.method, request.target, request.body], ["POST", "/api/feedback", { userId: "ann", topicId: "a", kind: "not_interested" }]);
  assert.deepEqual(page.taken(), ["POST /api/feedback"], "the list stays");
  const row = page.$("#items li");
  assert.equal(row.textContent, "We won’t recommend “About a” for a while. Undo");
  assert.equal(row.firstChild.className, "about");
  assert.equal(page.document.activeElement, row.querySelector("button"));
  assert.equal(row.querySelector("button").getAttribute("aria-label"), "Undo: not interested in About a");
  await page.tick(7999);
  assert.deepEqual(page.taken(), []);
  page.current.ann = recommended(["b", "c"]);
  await page.tick(1);
  assert.deepEqual(page.taken(), ["GET /api/recommendations?limit=10&userId=ann", "GET /api/history?userId=ann"]);
  assert.deepEqual(page.ids("#items"), ["b", "c"]);
});

test("Undo takes the dismissal back and renews the page", async (context) => {
  const page = await openRecommended(context);
  await page.click("#items li button");
  assert.notEqual(page.document.activeElement.textContent, "Undo", "the focus was elsewhere");
  page.taken();
  await page.click("#items li button");
  assert.deepEqual(page.taken(), ["DELETE /api/feedback?userId=ann&topicId=a", "GET /api/recommendations?limit=10&userId=ann", "GET /api/history?userId=ann"]);
  assert.equal(page.text("#items li button"), "Not interested");
  await page.tick(20000);
  assert.deepEqual(page.taken(), [], "the row has gone, so its timer renews nothing");
});

test("a dismissal that fails, or an Undo, is reported", async (context) => {
  const page = await openRecommended(context, {}, { answer: { "POST /api/feedback": () => reply(503, { msg: "busy" }) } });
  page.taken();
  await page.click("#items li button");
  assert.equal(page.status(), "We couldn’t save that: busy.");
  assert.deepEqual(page.taken(), ["POST /api/feedback"]);
  assert.equal(page.text("#items li button"), "Not interested");
  page.answer["POST /api/feedback"] = () => ({});
  page.answer["DELETE /api/feedback"] = () => reply(503, { msg: "busy" });
  await page.click("#items li button");
  const late = gate();
  page.current.ann = async () => (await late.opened, recommended(["a"]));
  page.taken();
  await page.click("#items li button");
  assert.equal(page.status(), "We couldn’t save that: busy.");
  late.open();
});

test("clearing the history renews the page", async (context) => {
  const page = await openRecommended(context, { history: { items: ["a"] } });
  page.taken();
  page.current.history = { items: [] };
  await page.click("#clear");
  assert.deepEqual(page.taken(), ["DELETE /api/history?userId=ann", "GET /api/recommendations?limit=10&userId=ann", "GET /api/history?userId=ann"]);
  assert.deepEqual([page.ids("#history"), page.$("#unread").hidden], [[], false]);
  page.answer["DELETE /api/history"] = () => lost();
  const late = gate();
  page.current.ann = () => late.opened;
  await page.click("#clear");
  assert.equal(page.status(), "We couldn’t save that: the service is unreachable.");
});

test("two readers are compared, and articles of only one are marked", async (context) => {
  const page = await openRecommended(context, { ann: recommended(["a", "b"]), "c&d": recommended([], { items: [item("b"), item("x", { title: "" })] }) });
  page.taken();
  page.$("#name").value = " c&d ";
  await page.submit("#compare");
  assert.deepEqual(page.taken(), ["GET /api/recommendations?limit=10&userId=ann", "GET /api/history?userId=ann", "GET /api/recommendations?limit=10&userId=c%26d"]);
  assert.deepEqual([page.$("#beside").hidden, page.text("#beside-title")], [false, "For c&d"]);
  assert.deepEqual(page.texts("#items li .only"), ["only for you"]);
  assert.equal(page.$('#items li[data-id="a"]').children[1].className, "only");
  assert.deepEqual(page.ids("#beside-items"), ["b", "x"]);
  assert.deepEqual(page.texts("#beside-items .only"), ["only for c&d"]);
  assert.equal(page.$("#beside-items li").outerHTML, '<li data-id="b"><a href="/article.html?id=b&amp;user=c%26d">About b</a>' +
    '<span class="reason">rising now</span><span class="about">by bob</span></li>');
  assert.deepEqual(page.texts("#beside-items a"), ["About b", "x"]);
  assert.equal(page.window.location.search, "?user=ann&beside=c%26d");
  page.$("#name").value = "  ";
  await page.submit("#compare");
  assert.deepEqual([page.$("#beside").hidden, page.window.location.search, page.$$(".only").length - page.$$("#beside .only").length], [true, "?user=ann", 0]);
  assert.equal(page.fire(page.$("#compare"), "submit"), false, "the form does not leave the page");
});

test("a comparison is in the address, so a reload shows it again", async (context) => {
  const page = await openRecommended(context, {}, {}, "/recommend.html?user=ann&beside=bob");
  assert.deepEqual([page.text("#beside-title"), page.$("#name").value], ["For bob", "bob"]);
});

test("the sample's readers are offered for a comparison", async (context) => {
  const page = await openRecommended(context, {}, { demo: { readers: ["u1", "u2"] } });
  assert.equal(page.text("#known"), "Sample readers: u1 u2 ");
  assert.equal(page.$("#known button").getAttribute("aria-label"), "Compare with u1");
  await page.click("#known button");
  assert.deepEqual([page.text("#beside-title"), page.$("#name").value], ["For u1", "u1"]);
  const none = await openRecommended(context, {}, { demo: { readers: [] } });
  assert.equal(none.text("#known"), "");
});

test("a late response for an earlier reader does not replace the current one", async (context) => {
  const late = gate();
  const page = await openRecommended(context, { slow: async () => (await late.opened, recommended(["ghost"])), quick: recommended(["q"]) });
  for (const name of ["slow", "quick"]) {
    page.$("#name").value = name;
    await page.submit("#compare");
  }
  late.open();
  await settle();
  assert.deepEqual([page.text("#beside-title"), page.ids("#beside-items")], ["For quick", ["q"]]);
});

test("a late failure for an earlier reader is not shown", async (context) => {
  const late = gate();
  const page = await openRecommended(context, { slow: async () => (await late.opened, lost()) });
  for (const name of ["slow", "quick"]) {
    page.$("#name").value = name;
    await page.submit("#compare");
  }
  late.open();
  await settle();
  assert.equal(page.status(), "");
});

test("a degraded page says so and is requested again after three seconds", async (context) => {
  const page = await openRecommended(context, { ann: recommended(["a"], { degraded: true }) });
  assert.equal(page.status(), "We can’t personalize your recommendations right now. Here is what was trending.");
  page.taken();
  page.current.ann = recommended([], { degraded: true });
  await page.tick(2999);
  assert.deepEqual(page.taken(), []);
  await page.tick(1);
  assert.equal(page.status(), "We can’t personalize your recommendations right now.");
  page.current.ann = recommended(["b"]);
  await page.tick(3000);
  assert.equal(page.status(), "");
  page.taken();
  await page.tick(30000);
  assert.deepEqual(page.taken(), []);
});

test("a failure is shown with its reason, and the sample is credited", async (context) => {
  const page = await openRecommended(context, { ann: reply(502, "<html>") });
  assert.equal(page.status(), "We couldn’t load your recommendations: the service returned HTTP 502.");
  assert.equal(page.$("#attribution"), null);
  page.current.ann = recommended([], { items: [item("a", { url: "https://quantumcomputing.stackexchange.com/q/12" })] });
  await page.click("#clear");
  assert.ok(page.$("#attribution"));
});

// --- The article page --------------------------------------------------------------------------------------------------------

const kArticle = { id: "a/b", title: "An essay", author: "ann", text: "Once upon a time", url: "https://example.org/essay", published_at: kNow / 1000 - 3600 };

const openArticle = (context, { zone = "public", hot = {}, address = "/article.html?id=a%2Fb&user=ann", answer = {}, ...options } = {}) => openPage(context, address, {
  zone, ...options, answer: {
    "GET /api/hot": ({ query }) => hot[query.model] ?? [], "GET /api/items/a%2Fb/similar": () => ({ items: [{ id: "c d", title: "Like it", author: "bob" }, { id: "e" }] }),
    "POST /api/track": () => ({}), ...(zone === "internal" ? { "GET /api/items/a%2Fb": () => kArticle } : {}), ...answer } });
const about = (page) => page.text("#about");

test("an article page has the tag for its article and shows it", async (context) => {
  const page = await openArticle(context, { address: "/article.html?id=a%2Fb&user=ann&first=0.5&every=2&more=1" });
  const config = '{"article":"a/b","user":"ann","first":0.5,"every":2}';
  const script = page.$("head script[data-freshet]");
  assert.deepEqual([script.getAttribute("src"), script.dataset.freshet], ["/freshet.js", config]);
  assert.equal(page.text("#tag"), `<script defer src="/freshet.js" data-freshet='${config}'></script>`);
});

test("an address without an article names none, and nothing is reported", async (context) => {
  for (const zone of ["public", "internal"]) {
    const page = await openArticle(context, { zone, address: "/article.html?user=ann" });
    await page.tick(5000);
    assert.equal(page.$("script[data-freshet]"), null);
    assert.deepEqual(page.taken(), []);
    assert.deepEqual([page.text("#title"), page.document.title, page.$("main").hidden], ["No article", "No article", true]);
    assert.equal(page.status(), "The address names no article. Open one from a list.");
  }
});

test("an article page says that keys are set", async (context) => {
  const unsigned = () => reply(401, { code: "bad_signature", msg: "not signed with a key of the internal server" });
  const page = await openArticle(context, { zone: "internal", answer: { "GET /api/hot": unsigned, "GET /api/items/a%2Fb": unsigned } });
  assert.equal(page.status(), "Keys are set: these pages cannot sign in.");
});

test("the seconds that the page was visible are shown", async (context) => {
  const page = await openArticle(context);
  await page.tick(999);
  assert.equal(page.text("#seconds"), "0");
  await page.tick(201);
  assert.equal(page.text("#seconds"), "1");
  page.setVisible(false);
  await page.tick(5000);
  assert.equal(page.text("#seconds"), "1");
  page.setVisible(true);
  await page.tick(800);
  assert.equal(page.text("#seconds"), "2");
  await page.tick(200);
  assert.equal(page.text("#seconds"), "2");
});

test("the internal server's page shows the whole article and similar ones", async (context) => {
  const page = await openArticle(context, { zone: "internal" });
  assert.ok(page.taken().includes("GET /api/items/a%2Fb/similar?limit=5"));
  assert.deepEqual([page.document.title, page.text("#title"), about(page)], ["An essay", "An essay", "by ann · 1 hour ago · source"]);
  assert.deepEqual([page.text("#text"), page.$("#text").hidden, page.$("#similar").hidden], ["Once upon a time", false, false]);
  assert.deepEqual(page.texts("#similar-items li"), ["Like itby bob", "e"]);
  assert.equal(page.$("#similar-items a").getAttribute("href"), "/article.html?id=c+d&user=ann");
});

test("the public page shows the article of a hot list, without its text", async (context) => {
  const listed = { ...kArticle, text: undefined };
  const page = await openArticle(context, { hot: { engagement: [{ id: "x", title: "X" }, listed], views: [listed] } });
  assert.deepEqual(page.taken().slice(0, 4), ["GET /api/hot?model=engagement&limit=100", "GET /api/hot?model=views&limit=100", "GET /api/hot?model=trending&limit=100", "GET /api/items/a%2Fb/similar?limit=5"]);
  assert.deepEqual([page.text("#title"), page.$("#text").hidden, page.text("#places")], ["An essay", true, "#2 by engagement, #1 by views"]);
});

test("the article's positions are renewed every two seconds; others' do not count", async (context) => {
  const hot = { engagement: [{ id: "x", title: "X" }], views: [] };
  const page = await openArticle(context, { hot });
  assert.equal(page.text("#places"), "not listed yet");
  assert.equal(page.text("#title"), "a/b");
  hot.views = [{ ...kArticle, title: "" }];
  page.taken();
  await page.tick(1999);
  assert.deepEqual(page.taken(), []);
  await page.tick(1);
  assert.equal(page.text("#places"), "#1 by views");
  assert.equal(page.text("#title"), "a/b", "an article without a title stays named by its id");
  hot.engagement = reply(500, {});
  hot.views = [{ id: "x" }, kArticle];
  await page.tick(2000);
  assert.equal(page.text("#places"), "#2 by views", "one list may fail");
  assert.equal(page.text("#title"), "An essay");
  hot.views = [];
  await page.tick(2000);
  assert.equal(page.text("#places"), "#2 by views", "the last known position stays");
});

test("an article is shown once, whatever lists say later", async (context) => {
  const hot = { engagement: [kArticle] };
  const page = await openArticle(context, { hot });
  hot.engagement = [{ ...kArticle, title: "Changed" }];
  page.taken();
  await page.tick(2000);
  assert.equal(page.text("#title"), "An essay");
  assert.deepEqual(page.taken().filter((each) => each.includes("similar")), []);
});

test("similar articles wait for the article's text, however late it is", async (context) => {
  const late = gate();
  const page = await openArticle(context, { zone: "internal", hot: { engagement: [{ ...kArticle, text: "" }] },
    answer: { "GET /api/items/a%2Fb": async () => (await late.opened, kArticle) } });
  assert.deepEqual([page.text("#places"), page.text("#title"), page.$("#similar").hidden], ["#1 by engagement", "a/b", true]);
  late.open();
  await settle();
  assert.deepEqual([page.text("#text"), page.$("#similar").hidden], ["Once upon a time", false]);
});

test("if the internal server does not have the article, a hot list's is shown", async (context) => {
  const page = await openArticle(context, { zone: "internal", hot: { engagement: [{ ...kArticle, text: undefined }] }, answer: { "GET /api/items/a%2Fb": () => reply(404, {}) } });
  await page.tick(2000);
  assert.equal(page.text("#title"), "An essay");
  let calls = 0;
  const flaky = await openArticle(context, { zone: "internal", answer: { "GET /api/items/a%2Fb": () => (++calls === 1 ? lost() : kArticle) } });
  await flaky.tick(1000);
  assert.equal(flaky.text("#text"), "Once upon a time", "a lost response is requested again");
});

test("without similar articles, or if they fail, there is no heading for them", async (context) => {
  for (const answer of [{ items: [] }, reply(503, {})]) {
    const page = await openArticle(context, { zone: "internal", answer: { "GET /api/items/a%2Fb/similar": () => answer } });
    assert.equal(page.$("#similar").hidden, true);
  }
});

test("an article of the sample is credited", async (context) => {
  const page = await openArticle(context, { zone: "internal", answer: { "GET /api/items/a%2Fb": () => ({ ...kArticle, url: "https://quantumcomputing.stackexchange.com/q/12" }) } });
  assert.ok(page.$("#attribution"));
});

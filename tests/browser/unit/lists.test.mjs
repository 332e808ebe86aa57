// The feed and the timelines: feed.js and waterfall.js.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gate, kNow, lost, openPage, reply, settle } from "./page.mjs";

const range = (first, count) => Array.from({ length: count }, (_, i) => first + i);

// --- Feed --------------------------------------------------------------------------------------------------------------------

const feedItem = (id) => ({ id, title: `About ${id}`, author: "ann", reason: { text: "rising now" } });
const feedPage = (ids, members = {}) => ({ data: { items: ids.map(feedItem), page: "p1", exhausted: false, has_more: true, degraded: false, new: 0, ...members } });

// Opens the feed. Each action is answered by `answers[action]`: a value, an Error or a function.
async function openFeed(context, answers = {}, options = {}, address = "/feed.html?user=ann") {
  const page = await openPage(context, address, {
    ...options,
    answer: { "POST /api/feed": (request) => {
      const found = answers[request.body.action] ?? feedPage([]);
      return typeof found === "function" ? found(request) : found;
    } },
  });
  page.answers = answers;
  page.bodies = () => page.requests.splice(0).map(({ body }) => body);
  return page;
}

test("the feed loads its first page with an event id, and says how many articles it shows", async (context) => {
  const page = await openFeed(context, { refresh: feedPage(["a", "b"]) });
  const [{ eventId, ...body }, ...others] = page.bodies();
  assert.deepEqual([body, others], [{ action: "refresh", limit: 10, userId: "ann" }, []]);
  assert.match(eventId, /^[0-9a-z]{8,}$/);
  assert.deepEqual(page.ids("#feed"), ["a", "b"]);
  assert.equal(page.text("#feed li"), "About arising nowby ann");
  assert.equal(page.status(), "2 articles shown.");
  assert.deepEqual([page.$("#end").hidden, page.$("#more").hidden, page.text("#refresh")], [true, false, "Refresh"]);
});

test("scrolling appends pages by the token of the latest, until there is no more", async (context) => {
  const page = await openFeed(context, { refresh: feedPage(["a"]), load_more: feedPage(["b"], { page: "p2" }) });
  page.bodies();
  await page.tick(0);
  await page.showBottom(true);
  assert.deepEqual(page.bodies(), [{ action: "load_more", limit: 10, userId: "ann", page: "p1" }]);
  page.answers.load_more = feedPage(["c"], { page: "p3", exhausted: true, has_more: false });
  await page.tick(0);
  assert.deepEqual(page.bodies(), [{ action: "load_more", limit: 10, userId: "ann", page: "p2" }]);
  assert.deepEqual(page.ids("#feed"), ["a", "b", "c"]);
  assert.deepEqual([page.text("#end"), page.$("#end").hidden, page.$("#more").hidden],
    ["You’re all caught up. Refresh to check for new articles.", false, true]);
  await page.tick(6000);
  await page.click("#more");
  assert.equal(page.bodies()[0].page, "p3");
});

test("a refresh puts new articles on top and keeps the token", async (context) => {
  const page = await openFeed(context, { refresh: feedPage(["a"], { exhausted: true, has_more: false }) });
  assert.equal(page.$("#end").hidden, false);
  page.answers.refresh = feedPage(["c", "b"], { page: "p2" });
  page.bodies();
  page.$("#refresh").textContent = "Refresh (2 new)";
  await page.submit("#search");
  assert.deepEqual(page.bodies(), [{ action: "refresh", limit: 10, userId: "ann", page: "p1" }]);
  assert.deepEqual(page.ids("#feed"), ["c", "b", "a"]);
  assert.deepEqual([page.$("#end").hidden, page.text("#end"), page.$("#more").hidden, page.text("#refresh")], [true, "", false, "Refresh"]);
});

test("a lost response is requested again with the same event, and shown once", async (context) => {
  let calls = 0;
  const page = await openFeed(context, { refresh: () => (++calls === 1 ? lost() : feedPage(["a"])) });
  assert.deepEqual(page.ids("#feed"), []);
  await page.tick(1000);
  const [first, second] = page.bodies();
  assert.deepEqual(second, first);
  assert.deepEqual(page.ids("#feed"), ["a"]);
});

test("a page without items is followed by the next after five seconds; one with items at once", async (context) => {
  const page = await openFeed(context, { refresh: feedPage([], { degraded: true }), load_more: feedPage(["b"], { has_more: false }) });
  assert.equal(page.status(), "We can’t load new articles right now. Try again.");
  page.bodies();
  page.bottomVisible = true;
  await page.tick(4999);
  assert.deepEqual(page.bodies(), []);
  await page.tick(1);
  assert.deepEqual(page.bodies().map(({ action }) => action), ["load_more"]);
  assert.equal(page.status(), "1 article shown.");
});

test("an empty feed that works has no status", async (context) => {
  const page = await openFeed(context, { refresh: feedPage([], { exhausted: true, has_more: false }) });
  assert.equal(page.status(), "");
});

test("an error is shown, and the feed tries again after five seconds", async (context) => {
  const page = await openFeed(context, { refresh: feedPage(["a"]), load_more: reply(400, { msg: "bad page" }) });
  await page.tick(0);
  page.bodies();
  await page.showBottom(true);
  assert.equal(page.status(), "We couldn’t load this list: bad page.");
  assert.equal(page.bodies().length, 1);
  await page.tick(4999);
  assert.deepEqual(page.bodies(), []);
  await page.tick(1);
  assert.equal(page.bodies()[0].action, "load_more");
});

test("a proxy's error page is described by its status, once retries have not helped", async (context) => {
  const badGateway = reply(502, "<html>Bad Gateway</html>");
  const pages = [await openFeed(context, { refresh: badGateway }), await openTimeline(context, { first: badGateway })];
  for (const page of pages) {
    assert.equal(page.status(), "Loading…");
    await page.tick(4000);
    assert.equal(page.status(), "We couldn’t load this list: the service returned HTTP 502.");
  }
});

test("a peek every ten seconds counts new articles", async (context) => {
  const page = await openFeed(context, { refresh: feedPage(["a"]), peek: feedPage([], { new: 3 }) });
  page.bodies();
  await page.tick(9999);
  assert.deepEqual(page.bodies(), []);
  await page.tick(1);
  assert.deepEqual(page.bodies(), [{ action: "peek", limit: 10, userId: "ann", page: "p1" }]);
  assert.equal(page.text("#refresh"), "Refresh (3 new)");
  page.answers.peek = feedPage([], { new: 1 });
  await page.tick(10000);
  assert.equal(page.text("#refresh"), "Refresh (1 new)");
  page.answers.peek = reply(400, {});
  await page.tick(10000);
  assert.equal(page.text("#refresh"), "Refresh");
});

test("a peek that a refresh overtook does not change the button", async (context) => {
  const late = gate();
  const page = await openFeed(context, { refresh: feedPage(["a"]), peek: async () => (await late.opened, feedPage([], { new: 3 })) });
  await page.tick(10000);
  page.answers.refresh = feedPage(["b"], { page: "p2" });
  await page.submit("#search");
  late.open();
  await settle();
  assert.equal(page.text("#refresh"), "Refresh");
});

test("a search starts over, and its late predecessor changes nothing", async (context) => {
  const late = gate();
  const page = await openFeed(context, { refresh: async ({ body }) => {
    if (body.query) return feedPage([], { page: "q1", exhausted: true, has_more: false });
    await late.opened;
    return feedPage(["old"]);
  } });
  page.$("#query").value = "  xylophone ";
  await page.submit("#search");
  assert.equal(page.text("#end"), "Nothing new matches “xylophone”.");
  late.open();
  await settle();
  assert.deepEqual(page.ids("#feed"), []);
  assert.equal(page.window.history.state.page, "q1");
  const bodies = page.bodies();
  assert.deepEqual([bodies[1].query, bodies[1].page, bodies.length], ["xylophone", undefined, 2]);
  assert.notEqual(bodies[1].eventId, bodies[0].eventId);
});

test("a search replaces the list, and the same search again refreshes it", async (context) => {
  const page = await openFeed(context, { refresh: feedPage(["a", "b"]) });
  page.answers.refresh = feedPage(["c"], { page: "q1", exhausted: true, has_more: false });
  page.$("#query").value = "rust";
  await page.submit("#search");
  assert.deepEqual(page.ids("#feed"), ["c"]);
  assert.equal(page.text("#end"), "You’re all caught up. Refresh to check for new articles.");
  page.bodies();
  page.answers.refresh = feedPage(["d"], { page: "q2" });
  await page.submit("#search");
  assert.deepEqual(page.bodies(), [{ action: "refresh", limit: 10, userId: "ann", query: "rust", page: "q1" }]);
  assert.deepEqual(page.ids("#feed"), ["d", "c"]);
});

test("submitting the search does not leave the page", async (context) => {
  const page = await openFeed(context);
  assert.equal(page.fire(page.$("#search"), "submit"), false);
});

test("the list is kept in the history entry and restored from it without a request", async (context) => {
  const first = await openFeed(context, { refresh: feedPage(["a"]), load_more: feedPage(["b"], { page: "p2", exhausted: true, has_more: false }) });
  first.$("#query").value = "rust";
  await first.submit("#search");
  await first.click("#more");
  assert.equal(first.window.history.state.query, "rust");
  const { state } = first.window.history;
  const copy = JSON.parse(JSON.stringify(state));
  assert.deepEqual(copy, { reader: "ann", page: "p2", query: "rust", shown: ["a", "b"].map(feedItem), exhausted: true, hasMore: false });

  const page = await openFeed(context, {}, { state: copy });
  assert.deepEqual(page.bodies(), []);
  assert.deepEqual(page.ids("#feed"), ["a", "b"]);
  assert.deepEqual([page.$("#query").value, page.$("#end").hidden, page.$("#more").hidden, page.status()], ["rust", false, true, "2 articles shown."]);
  await page.submit("#search");
  assert.deepEqual(page.bodies(), [{ action: "refresh", limit: 10, userId: "ann", query: "rust", page: "p2" }]);

  const middle = await openFeed(context, { load_more: feedPage([]) }, { state: { ...copy, exhausted: false, hasMore: true },
    setUp: (opened) => (opened.bottomVisible = true) });
  assert.deepEqual(middle.bodies().map(({ action }) => action), ["load_more"], "its end is in view");
});

test("another reader's list, or an empty one, is not restored", async (context) => {
  for (const state of [{ reader: "bob", page: "p2", query: "", shown: [feedItem("a")] }, { reader: "ann", page: "p2", query: "", shown: [] }]) {
    const page = await openFeed(context, {}, { state });
    assert.deepEqual(page.bodies().map(({ action }) => action), ["refresh"]);
  }
});

// --- Timelines ---------------------------------------------------------------------------------------------------------------

const scoreOf = (id) => (kNow - 3600000) * 1000 + id;
const timelineItem = (id) => ({ id: `t${id}`, title: `About ${id}`, score: scoreOf(id), reason: { text: "pushed" } });
const timelinePage = (ids, members = {}) => ({ items: ids.map(timelineItem), drop: scoreOf(ids[0] ?? 0), up: scoreOf(ids.at(-1) ?? 0), has_more: true, newer: 0,
  degraded: false, trimmed: false, ...members });
const kPoll = "1";  // the limit of a poll

// Opens a timeline. `answers`: first, down, up, poll, and other routes.
async function openTimeline(context, answers = {}, options = {}, address = "/waterfall.html?user=ann") {
  const respond = (request) => {
    const found = answers[request.query.limit === kPoll ? "poll" : request.query.direction] ?? timelinePage([]);
    return typeof found === "function" ? found(request) : found;
  };
  const page = await openPage(context, address, { ...options,
    answer: { "GET /api/waterfall/discover": respond, "GET /api/waterfall/follow": respond, "GET /api/waterfall/a%2Fb": respond, ...options.answer } });
  page.answers = answers;
  page.polls = () => page.requests.splice(0).map(({ query }) => [query.direction, Number(query.score), Number(query.limit)]);
  return page;
}

test("a timeline shows its first page with reasons and ages", async (context) => {
  const page = await openTimeline(context, { first: timelinePage([3, 2, 1], { newer: 2 }) });
  assert.deepEqual(page.taken(), ["GET /api/waterfall/discover?userId=ann&direction=first&score=0&limit=10"]);
  assert.deepEqual(page.ids("#timeline"), ["t3", "t2", "t1"]);
  assert.equal(page.text("#timeline .reason"), "pushed · added 59 minutes ago");
  assert.equal(page.status(), "3 articles shown.");
  assert.deepEqual([page.document.title, page.text("#title"), page.text("#reader")], ["Discover", "Discover", "ann"]);
  assert.deepEqual([page.text("#pull"), page.$("#pull").hidden, page.$("#pull").classList.contains("waiting")], ["Show 2 new", false, true]);
  assert.deepEqual([page.$("#end").hidden, page.text("#end"), page.$("#more").hidden], [true, "", false]);
  assert.deepEqual(page.$$("nav [aria-current]").map((link) => link.textContent), ["Discover"]);
});

test("the channel is encoded, and named in the title", async (context) => {
  const page = await openTimeline(context, {}, { setUp: ({ $ }) => $('nav a[href*="follow"]').setAttribute("href", "/waterfall.html?channel=follow") },
    "/waterfall.html?user=a%26b&channel=a%2Fb");
  assert.deepEqual(page.taken(), ["GET /api/waterfall/a%2Fb?userId=a%26b&direction=first&score=0&limit=10"]);
  assert.equal(page.document.title, "A/b");
});

test("scrolling asks below the oldest and pulling above the newest, each with its own score", async (context) => {
  const page = await openTimeline(context, { first: timelinePage([6, 5]), up: timelinePage([4, 3], { drop: 1, newer: 99 }), down: timelinePage([8, 7], { up: 1, newer: 1, has_more: false }) });
  page.polls();
  await page.click("#more");
  assert.deepEqual(page.polls(), [["up", scoreOf(5), 10]]);
  assert.deepEqual(page.ids("#timeline"), ["t6", "t5", "t4", "t3"]);
  assert.equal(page.text("#pull"), "No new articles", "older pages know nothing of new ones");
  assert.deepEqual(page.scrolls, []);
  await page.click("#pull");
  assert.deepEqual(page.polls(), [["down", scoreOf(6), 10]]);
  assert.deepEqual(page.ids("#timeline"), ["t8", "t7", "t6", "t5", "t4", "t3"]);
  assert.deepEqual([page.text("#pull"), page.$("#more").hidden], ["Show 1 new", false]);
  assert.deepEqual(page.scrolls.map(({ top, behavior }) => [top, behavior]), [[0, "smooth"]]);
  assert.equal(page.status(), "6 articles shown.");
  await page.click("#more");
  await page.click("#pull");
  assert.deepEqual(page.polls(), [["up", scoreOf(3), 10], ["down", scoreOf(8), 10]]);
});

test("an item that was removed and pushed again moves to its new place", async (context) => {
  const page = await openTimeline(context, { first: timelinePage([3, 2, 1]), down: timelinePage([5, 2]), up: timelinePage([1, 0]) });
  await page.click("#pull");
  assert.deepEqual(page.ids("#timeline"), ["t5", "t2", "t3", "t1"]);
  await page.click("#more");
  assert.deepEqual(page.ids("#timeline"), ["t5", "t2", "t3", "t1", "t0"]);
  assert.deepEqual([...page.window.history.state.shown].map(({ id }) => id), ["t5", "t2", "t3", "t1", "t0"]);
  assert.equal(page.status(), "5 articles shown.");
});

test("the end is said, in words for what the channel is", async (context) => {
  const end = (page) => [page.$("#more").hidden, page.$("#end").hidden, page.text("#end"), page.$("#end a")?.getAttribute("href")];
  const empty = timelinePage([], { has_more: false });
  const discover = await openTimeline(context, { first: empty });
  assert.deepEqual(end(discover), [true, false, "There are no articles for ann yet. New ones will appear here. View the sample reader’s timeline", "?channel=discover&user=me"]);
  assert.deepEqual([discover.$("#pull").hidden, discover.text("#pull"), discover.status()], [true, "No new articles", ""]);
  const sample = await openTimeline(context, { first: empty }, {}, "/waterfall.html?user=me");
  assert.deepEqual(end(sample), [true, false, "There are no articles for me yet. New ones will appear here.", undefined]);
  const follow = await openTimeline(context, { first: empty }, {}, "/waterfall.html?user=ann&channel=follow");
  assert.deepEqual(end(follow), [true, false, "Articles by authors you follow will appear here. View the sample reader’s timeline", "?channel=follow&user=me"]);
  const full = await openTimeline(context, { first: timelinePage([1], { has_more: false }) });
  assert.deepEqual(end(full), [true, false, "You’ve reached the end.", undefined]);
  full.answers.down = timelinePage([2]);
  await full.click("#pull");
  assert.deepEqual(end(full), [true, false, "You’ve reached the end.", undefined]);
});

test("the text at the end changes once something was pulled into an empty timeline", async (context) => {
  const page = await openTimeline(context, { first: timelinePage([], { has_more: false, newer: 1 }), down: timelinePage([1]) });
  assert.deepEqual([page.text("#pull"), page.$("#pull").hidden], ["Show 1 new", false]);
  await page.click("#pull");
  assert.equal(page.text("#end"), "You’ve reached the end.");
});

test("a poll every three seconds counts what is above the newest", async (context) => {
  const page = await openTimeline(context, { first: timelinePage([1]), poll: timelinePage([2], { newer: 4 }) });
  page.polls();
  await page.tick(2999);
  assert.deepEqual(page.polls(), []);
  await page.tick(1);
  assert.deepEqual(page.polls(), [["down", scoreOf(1), 1]]);
  assert.deepEqual([page.text("#pull"), page.$("#pull").classList.contains("waiting")], ["Show 5 new", true]);
  assert.deepEqual(page.ids("#timeline"), ["t1"], "but shows nothing");
  page.answers.poll = timelinePage([], { newer: 0 });
  await page.tick(3000);
  assert.deepEqual([page.text("#pull"), page.$("#pull").hidden, page.$("#pull").classList.contains("waiting")], ["No new articles", false, false]);
});

test("a poll that fails or is degraded does not change the count", async (context) => {
  const page = await openTimeline(context, { first: timelinePage([1], { newer: 2 }), poll: timelinePage([], { degraded: true }) });
  await page.tick(3000);
  assert.equal(page.text("#pull"), "Show 2 new");
  page.answers.poll = reply(400, {});
  await page.tick(3000);
  assert.equal(page.text("#pull"), "Show 2 new");
  assert.equal(page.status(), "1 article shown.");
});

test("a poll that a pull overtook does not change the count", async (context) => {
  const late = gate();
  const page = await openTimeline(context, { first: timelinePage([1]), poll: async () => (await late.opened, timelinePage([2], { newer: 4 })), down: timelinePage([6, 5]) });
  await page.tick(3000);
  await page.click("#pull");
  assert.equal(page.text("#pull"), "No new articles");
  late.open();
  await settle();
  assert.equal(page.text("#pull"), "No new articles");
});

test("a poll that is answered during a pull does not change the count", async (context) => {
  const [latePoll, latePull] = [gate(), gate()];
  const page = await openTimeline(context, { first: timelinePage([1]), poll: async () => (await latePoll.opened, timelinePage([2], { newer: 4 })),
    down: async () => (await latePull.opened, timelinePage([2])) });
  await page.tick(3000);
  await page.click("#pull");
  latePoll.open();
  await settle();
  assert.equal(page.text("#pull"), "No new articles");
  latePull.open();
  await settle();
  assert.deepEqual(page.ids("#timeline"), ["t2", "t1"]);
});

test("while a page is being loaded, another is not requested", async (context) => {
  const late = gate();
  const page = await openTimeline(context, { first: timelinePage([2]), up: async () => (await late.opened, timelinePage([1])) });
  page.polls();
  await page.click("#more");
  await page.click("#more");
  await page.click("#pull");
  await page.showBottom(true);
  await page.tick(10000);
  assert.deepEqual(page.polls(), [["up", scoreOf(2), 10]]);
  late.open();
  await settle();
  assert.deepEqual(page.ids("#timeline"), ["t2", "t1"]);
});

test("the end of the list is watched again after a page: at once, or after three seconds if it was degraded", async (context) => {
  const page = await openTimeline(context, { first: timelinePage([2]), up: timelinePage([], { degraded: true, up: scoreOf(2) }) });
  page.polls();
  page.bottomVisible = true;
  await page.tick(0);
  assert.deepEqual(page.polls(), [["up", scoreOf(2), 10]]);
  assert.equal(page.status(), "We can’t load new articles right now. Try again.");
  await page.tick(2998);
  assert.deepEqual(page.polls(), []);
  await page.tick(2);
  assert.deepEqual(page.polls().filter(([direction]) => direction === "up"), [["up", scoreOf(2), 10]]);
});

test("a trimmed timeline says so", async (context) => {
  const page = await openTimeline(context, { first: timelinePage([2], { trimmed: true }) });
  assert.equal(page.status(), "1 article shown. Some older articles are no longer available.");
});

test("a degraded first page is requested again, because its scores are not valid", async (context) => {
  const page = await openTimeline(context, { first: timelinePage([1], { degraded: true }) });
  assert.equal(page.status(), "We couldn’t load this list: new articles are not available right now.");
  assert.deepEqual(page.ids("#timeline"), []);
  assert.deepEqual(page.polls(), [["first", 0, 10]]);
  page.answers.first = timelinePage([1]);
  await page.tick(2999);
  assert.deepEqual(page.polls(), [], "and nothing is polled");
  await page.tick(1);
  assert.deepEqual(page.polls().filter(([, , limit]) => limit === 10), [["first", 0, 10]]);
  assert.deepEqual(page.ids("#timeline"), ["t1"]);
});

test("a first page that fails for good is not requested again, and pulling requests it", async (context) => {
  const page = await openTimeline(context, { first: reply(400, { msg: "bad channel" }) });
  page.polls();
  await page.tick(30000);
  assert.deepEqual(page.polls(), []);
  page.$("#pull").click();
  await settle();
  assert.deepEqual(page.polls(), [["first", 0, 10]]);
});

test("a failed page further down is not the first page's business", async (context) => {
  const page = await openTimeline(context, { first: timelinePage([2]), up: lost() });
  await page.click("#more");
  await page.tick(4000);
  assert.equal(page.status(), "We couldn’t load this list: the service is unreachable.");
  page.polls();
  page.answers.poll = timelinePage([]);
  await page.tick(6000);
  assert.deepEqual(page.polls().filter(([direction]) => direction === "first"), []);
});

test("a lost response is requested again with the same score", async (context) => {
  let calls = 0;
  const page = await openTimeline(context, { first: timelinePage([2]), up: () => (++calls === 1 ? lost() : timelinePage([1])) });
  page.polls();
  await page.click("#more");
  await page.tick(1000);
  assert.deepEqual(page.polls(), [["up", scoreOf(2), 10], ["up", scoreOf(2), 10]]);
  assert.deepEqual(page.ids("#timeline"), ["t2", "t1"]);
});

test("a swipe down from the top of the page pulls; a short one, or with two fingers, or further down, does not", async (context) => {
  const page = await openTimeline(context, { first: timelinePage([1]), down: timelinePage([2]) });
  const { window } = page;
  page.polls();
  const swipe = (from, to, fingers = 1, cancel = false) => {
    const finger = (clientY) => ({ clientY });
    page.fire(window, "touchstart", { touches: Array.from({ length: fingers }, () => finger(from)), changedTouches: [finger(from)] });
    page.fire(window, "touchmove", { touches: [finger(to)], changedTouches: [finger(to)] });
    const pulled = page.$("#pull").classList.contains("pulled");
    if (!cancel) page.fire(window, "touchend", { touches: [], changedTouches: [finger(to)] });
    return pulled;
  };
  assert.equal(swipe(100, 170), false);
  assert.equal(swipe(100, 300, 2), false);
  window.scrollY = 10;
  assert.equal(swipe(100, 300), false);
  page.fire(window, "touchmove", { touches: [{ clientY: 500 }] });
  assert.deepEqual(page.polls(), []);
  window.scrollY = 0;
  assert.equal(swipe(100, 171), true);
  assert.equal(page.$("#pull").classList.contains("pulled"), false);
  page.fire(window, "touchend", { touches: [], changedTouches: [{ clientY: 900 }] });
  await settle();
  assert.deepEqual(page.polls(), [["down", scoreOf(1), 10]]);
});

test("a timeline is kept in the history entry and restored from it without a request", async (context) => {
  const first = await openTimeline(context, { first: timelinePage([2], { newer: 7 }), up: timelinePage([1], { has_more: false }) });
  await first.click("#more");
  const state = JSON.parse(JSON.stringify(first.window.history.state));
  assert.deepEqual(state, { reader: "ann", channel: "discover", drop: scoreOf(2), up: scoreOf(1), shown: [2, 1].map(timelineItem), hasMore: false });
  const page = await openTimeline(context, { poll: timelinePage([], { newer: 1 }) }, { state });
  assert.deepEqual(page.polls(), []);
  assert.deepEqual(page.ids("#timeline"), ["t2", "t1"]);
  assert.deepEqual([page.text("#end"), page.status(), page.text("#pull"), page.$("#pull").hidden],
    ["You’ve reached the end.", "2 articles shown.", "No new articles", false]);
  await page.tick(3000);
  assert.deepEqual(page.polls(), [["down", scoreOf(2), 1]]);
  await page.click("#pull");
  assert.deepEqual(page.polls(), [["down", scoreOf(2), 10]]);
  const middle = await openTimeline(context, {}, { state: { ...state, hasMore: true }, setUp: (opened) => (opened.bottomVisible = true) });
  assert.deepEqual(middle.polls(), [["up", scoreOf(1), 10]], "its end is in view");
});

test("another reader's or channel's timeline, or an empty one, is not restored", async (context) => {
  const state = { reader: "ann", channel: "discover", drop: 1, up: 1, shown: [timelineItem(1)], hasMore: true };
  for (const other of [{ reader: "bob" }, { channel: "follow" }, { shown: [] }]) {
    const page = await openTimeline(context, {}, { state: { ...state, ...other } });
    assert.deepEqual(page.polls(), [["first", 0, 10]]);
  }
});

test("the sample's source is credited by a timeline and a feed, restored or not", async (context) => {
  const url = "https://quantumcomputing.stackexchange.com/q/12";
  const timelineShown = [{ ...timelineItem(1), url }];
  const feedShown = [{ ...feedItem("a"), url }];
  const pages = [await openTimeline(context, { first: { ...timelinePage([]), items: timelineShown } }),
    await openTimeline(context, {}, { state: { reader: "ann", channel: "discover", drop: 1, up: 1, shown: timelineShown, hasMore: true } }),
    await openFeed(context, { refresh: { data: { ...feedPage([]).data, items: feedShown } } }),
    await openFeed(context, {}, { state: { reader: "ann", page: "p", query: "", shown: feedShown } })];
  for (const page of pages) assert.ok(page.$("#attribution"));
});

// --- Follows -----------------------------------------------------------------------------------------------------------------

const openFollows = (context, zone, authors, answer = {}) => openTimeline(context, {}, { zone,
  answer: { "GET /api/follows": () => ({ items: authors }), "GET /api/hot": () => [], ...answer } }, "/waterfall.html?user=ann&channel=follow");

test("the public page shows follows and says who changes them", async (context) => {
  const page = await openFollows(context, "public", ["bob", "cat"]);
  assert.ok(page.taken().includes("GET /api/follows?userId=ann"));
  assert.equal(page.text("#follows"), "You follow bob, cat. Follows are changed by your site’s back end, or on this page of the internal server.");
  assert.deepEqual([page.$("#follow").hidden, page.$("#follows").hidden, page.document.title], [true, false, "Follow"]);
  assert.deepEqual(page.$$("nav [aria-current]").map((link) => link.textContent), ["Follow"]);
  const none = await openFollows(context, "public", []);
  assert.equal(none.text("#follows"), "You don’t follow anyone yet. Follows are changed by your site’s back end, or on this page of the internal server.");
  const failed = await openFollows(context, "public", [], { "GET /api/follows": () => reply(400, {}) });
  assert.match(failed.text("#follows"), /^You don’t follow anyone yet/);
});

test("other channels neither ask for follows nor show their form", async (context) => {
  const page = await openTimeline(context, {}, { zone: "internal" });
  assert.deepEqual(page.taken().filter((each) => /follows|hot/.test(each)), []);
  assert.deepEqual([page.$("#follow").hidden, page.$("#follows").hidden], [true, true]);
});

test("the internal page follows and unfollows", async (context) => {
  const authors = ["bob"];
  const page = await openFollows(context, "internal", authors, {
    "PUT /api/follows": ({ body }) => (authors.push(body.author), {}), "DELETE /api/follows": ({ query }) => (authors.splice(authors.indexOf(query.author), 1), {}),
  });
  assert.deepEqual([page.$("#follow").hidden, page.text("#follows")], [false, "You follow bob × "]);
  page.taken();
  page.$("#author").value = " Ann :{x}  Lee ";
  await page.submit("#follow");
  assert.deepEqual(page.requests[0].body, { userId: "ann", author: "Ann_x_Lee" });
  assert.deepEqual(page.taken(), ["PUT /api/follows", "GET /api/follows?userId=ann"]);
  assert.deepEqual([page.text("#follows"), page.$("#author").value, page.status()], ["You follow bob × Ann_x_Lee × ", "", "You now follow Ann_x_Lee."]);
  assert.equal(page.$("#follows button").getAttribute("aria-label"), "Unfollow bob");
  await page.click("#follows button");
  assert.deepEqual(page.taken(), ["DELETE /api/follows?userId=ann&author=bob", "GET /api/follows?userId=ann"]);
  assert.deepEqual([page.text("#follows"), page.status()], ["You follow Ann_x_Lee × ", "You no longer follow bob."]);
  page.answer["DELETE /api/follows"] = () => reply(503, { msg: "busy" });
  await page.click("#follows button");
  assert.equal(page.status(), "We couldn’t save that: busy.");
  page.taken();
  page.$("#author").value = "   ";
  page.fire(page.$("#follow"), "submit");
  await settle();
  assert.deepEqual(page.taken(), []);
  assert.equal(page.fire(page.$("#follow"), "submit"), false, "the form does not leave the page");
});

test("a late list of follows does not replace a newer one", async (context) => {
  const late = gate();
  let calls = 0;
  const page = await openFollows(context, "internal", [], {
    "PUT /api/follows": () => ({}), "GET /api/follows": async () => (++calls === 1 ? (await late.opened, { items: ["old"] }) : { items: ["new"] }) });
  page.$("#author").value = "new";
  await page.submit("#follow");
  late.open();
  await settle();
  assert.equal(page.text("#follows"), "You follow new × ");
});

test("authors of hot articles are suggested, the first five as buttons", async (context) => {
  const hot = [...range(1, 6), 1].map((i) => ({ author: `A ${i}` }));
  const page = await openFollows(context, "internal", [], { "GET /api/hot": () => [...hot, { author: "" }, {}], "PUT /api/follows": () => ({}) });
  assert.ok(page.taken().includes("GET /api/hot?model=engagement&limit=50"));
  assert.deepEqual(page.$$("#authors option").map(({ value }) => value), range(1, 6).map((i) => `A ${i}`));
  assert.equal(page.text("#hot-authors"), "Popular now: A 1 A 2 A 3 A 4 A 5 ");
  assert.equal(page.$("#hot-authors button").getAttribute("aria-label"), "Follow A 1");
  await page.click("#hot-authors button");
  assert.equal(page.requests[0].body.author, "A_1");
  const none = await openFollows(context, "internal", []);
  assert.equal(none.text("#hot-authors"), "");
  const publicPage = await openFollows(context, "public", []);
  assert.ok(!publicPage.taken().some((each) => each.includes("/api/hot")));
});

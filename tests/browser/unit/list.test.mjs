// freshet-list.js, which fills the lists of a site's pages.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { gate, kItemPaths, lost, reply, runList, settle, source } from "./page.mjs";

const item = (id, members) => ({ id, title: `About ${id}`, url: `/${id}`, ...members });
const kItems = ["a", "b", "c"].map((id) => item(id));
const list = (options, inside = "", attributes = "") => `<ol id="list" ${attributes} data-freshet-list='${JSON.stringify(options)}'>${inside}</ol>`;
const hot = (items) => ({ "/api/hot": () => items });

test("a hot list becomes links with titles, and is busy until then", async (context) => {
  const { open, opened } = gate();
  const page = await runList(context, list({ list: "hot", limit: 2, model: "trending", tag: "a b" }), { answer: { "/api/hot": () => opened } });
  assert.equal(page.$("#list").getAttribute("aria-busy"), "true");
  open(kItems);
  await settle();
  assert.deepEqual(page.requests, [{ method: "GET", path: "/api/hot?limit=3&model=trending&tag=a+b", body: undefined, headers: undefined, credentials: "include" }]);
  assert.equal(page.$("#list").innerHTML, ["a", "b"].map((id) => `<li><a data-freshet-slot="link title" href="http://site.example/${id}">About ${id}</a>  </li>`).join(""));
  assert.deepEqual([page.$("#list").hasAttribute("aria-busy"), page.$("#list").hidden, page.errors], [false, false, []]);
});

test("without options, a list is hot and has five items", async (context) => {
  for (const html of ["<ol data-freshet-list></ol>", "<ol data-freshet-list='{}'></ol>"]) {
    const page = await runList(context, html, { answer: hot([..."abcdef"].map((id) => item(id))) });
    assert.deepEqual([page.paths(), page.texts("li").length], [["/api/hot?limit=6"], 5]);
  }
});

test("recommendations, similar items and a feed have reasons", async (context) => {
  const recommended = [item("a", { reason: { kind: "rising", text: "rising now" } })];
  const answer = {
    "/api/recommendations": () => ({ items: recommended }), "/api/items/x%2Fy/similar": () => ({ items: recommended }),
    "/api/feed": () => ({ code: 0, data: { items: recommended } }),
  };
  for (const [options, path, body] of [
    [{ list: "recommended", user: "ann", exclude: "soft" }, "/api/recommendations?limit=6&userId=ann&exclude=soft"],
    [{ list: "similar", article: "x/y", limit: 100 }, "/api/items/x%2Fy/similar?limit=100"],
    [{ list: "feed", limit: "3" }, "/api/feed", { action: "refresh", limit: 3 }]]) {
    const page = await runList(context, list(options), { answer });
    assert.deepEqual(page.requests.map((each) => [each.path, each.body, each.headers?.["Content-Type"]]), [[path, body, body && "application/json"]]);
    assert.deepEqual(page.texts("a"), ["About a"]);
    assert.deepEqual(page.texts("small"), ["rising now"]);
  }
});

test("reasons are shown in the site's own words, or not at all", async (context) => {
  const reasons = [{ kind: "like", text: "like “X”, which you read", title: "X" }, { kind: "author", text: "by Ann", author: "Ann" }, { kind: "new", text: "new" }];
  const items = reasons.map((reason, index) => item(String(index), { reason }));
  const shown = async (option) => (await runList(context, list({ list: "recommended", reasons: option }),
    { answer: { "/api/recommendations": () => ({ items }) } })).texts("small");
  assert.deepEqual(await shown({ like: "ähnlich wie „{title}“{tag}", author: "von {author}" }), ["ähnlich wie „X“", "von Ann", "new"]);
  assert.deepEqual(await shown(false), []);
});

test("a template's slots are filled, and those without a text are removed", async (context) => {
  const template = `<template><li class="card"><a data-freshet-slot="link"><b data-freshet-slot="title">T</b></a>
    <i data-freshet-slot="author"></i><time data-freshet-slot="date"></time></li></template>`;
  const page = await runList(context, `<html lang="de">${list({}, template)}`, {
    answer: hot([item("a", { author: "Ann <b>", published_at: 1767182400, update_time: 1 }), item("b"), item("c", { update_time: 1767182400 })]),
  });
  assert.deepEqual(page.texts("li.card b"), ["About a", "About b", "About c"]);
  assert.deepEqual(page.texts("li.card i"), ["Ann <b>"], "as text");
  assert.deepEqual([page.texts("time"), page.$("time").dateTime, page.$("li.card b").dateTime], [["31.12.2025", "31.12.2025"], "2025-12-31T12:00:00.000Z", undefined]);
  assert.equal(page.$("li.card a").href, "http://site.example/a");
  assert.equal(page.$("#list").firstElementChild.localName, "template", "it stays, for the next scan");
});

test("links are http, https or relative, and nothing is markup", async (context) => {
  const urls = ["javascript:alert(1)", "data:text/html,x", "https://other.example/x", "deep/er", "//cdn.example/x", "http://[", ""];
  const page = await runList(context, list({ limit: 9 }), { answer: hot(urls.map((url, index) => ({ id: `n${index}`, title: "<img src=x>", url }))) });
  assert.deepEqual([...page.document.querySelectorAll("a")].map((each) => each.getAttribute("href")),
    [null, null, "https://other.example/x", "http://site.example/deep/er", "http://cdn.example/x", null, null]);
  assert.equal(page.$("img"), null);
});

test("an item without an address is linked by the pattern, or by its id if that is a path", async (context) => {
  const links = async (options) => {
    const page = await runList(context, list(options), { answer: hot(["a b", "/100%/é?", "//evil.example/x"].map((id) => item(id, { url: undefined }))) });
    return [...page.document.querySelectorAll("a")].map((each) => each.getAttribute("href"));
  };
  assert.deepEqual(await links({ url: "/read?id={id}" }),
    ["/read?id=a%20b", "/read?id=%2F100%25%2F%C3%A9%3F", "/read?id=%2F%2Fevil.example%2Fx"].map((path) => "http://site.example" + path));
  assert.deepEqual(await links({}), [null, "http://site.example/100%25/%C3%A9%3F", "http://site.example//evil.example/x"]);
});

test("an item without a title is not shown", async (context) => {
  const page = await runList(context, list({}), { answer: hot([{ id: "/reported-by-anyone" }, item("b")]) });
  assert.deepEqual(page.texts("a"), ["About b"]);
});

// --- The current article -----------------------------------------------------------------------------------------------------

test("the current article is left out: the option's, the tag's, or the page's path", async (context) => {
  const articles = ["42", "b", "/article", "/canonical", "é"].map((id) => item(id));
  const shown = async (html, options = {}) => (await runList(context, html + list({ limit: 9, ...options }), { answer: hot(articles) })).texts("a");
  const without = (id) => articles.filter((each) => each.id !== id).map(({ title }) => title);
  const canonical = `<link rel="canonical" href="https://www.example/canonical/?utm=1">`;
  assert.deepEqual(await shown(""), without("/article"));
  assert.deepEqual(await shown(canonical), without("/canonical"));
  assert.deepEqual(await shown(`${canonical}<script data-freshet='{"article":"b"}'></script><i data-freshet='{"article":42}'></i>`), without("42"));
  assert.deepEqual(await shown(`<script data-freshet='{"user":"7"}'></script>`), without("/article"));
  for (const id of ["42", '"42"']) assert.deepEqual(await shown(`<script data-freshet='${id}'></script>`), without("42"));
  for (const none of ['""', "null"]) assert.deepEqual(await shown(`<script data-freshet='{"article":${none}}'></script>`), without());
  assert.deepEqual(await shown(`<script data-freshet='{"article":"42"}'></script>`, { article: "e\u0301" }), without("é"));
});

test("the current article has the id that the tag and the import make of its address", async (context) => {
  const items = [...new Set(kItemPaths.map(({ path }) => path))].map((id) => item(id));
  for (const { url, path } of kItemPaths) {
    const page = await runList(context, `<script data-freshet></script>${list({ limit: 99 })}`, { answer: hot(items), address: url });
    assert.deepEqual(page.texts("a"), items.filter(({ id }) => id !== path).map(({ title }) => title.replace(/\s+/g, " ")), url);
  }
});

test("a full list stays full without the current article", async (context) => {
  const page = await runList(context, list({ limit: 2, article: "b" }), { answer: hot(kItems) });
  assert.deepEqual([page.paths(), page.texts("a")], [["/api/hot?limit=3"], ["About a", "About c"]]);
});

test("similar items need an article", async (context) => {
  const page = await runList(context, list({ list: "similar", article: "" }));
  assert.deepEqual([page.requests, page.$("#list").hidden, page.errors], [[], true, []]);
});

// --- Nothing to show ---------------------------------------------------------------------------------------------------------

const kHeading = `<h2 id="heading">Popular</h2>`;
const kLabelled = `aria-labelledby="other heading"`;

for (const [what, answer] of [["an empty list", () => []], ["only the current article", () => [item("/article")]], ["an error", () => reply(503, {})],
  ["no connection", lost], ["what is not JSON", () => reply(200, "<html>")], ["JSON of another kind", () => ({ items: "x" })]]) {
  test(`with ${what}, the list and its heading are hidden, and what is in it stays`, async (context) => {
    const page = await runList(context, kHeading + list({}, "<template><li></li></template>", kLabelled), { answer: { "/api/hot": answer } });
    assert.deepEqual([page.$("#list").hidden, page.$("#heading").hidden, page.$("#list").hasAttribute("aria-busy"), page.errors], [true, true, false, []]);
    const filled = await runList(context, kHeading + list({}, "<li>From the server</li>", kLabelled), { answer: { "/api/hot": answer } });
    assert.deepEqual([filled.$("#list").hidden, filled.$("#heading").hidden, filled.texts("li")], [false, false, ["From the server"]]);
  });
}

test("a list and heading that are hidden at first appear with the items, in place of what was in the list", async (context) => {
  const page = await runList(context, `<h2 id="heading" hidden>Popular</h2>${list({}, "<li>Old</li>", kLabelled + " hidden")}`, { answer: hot(kItems) });
  assert.deepEqual([page.$("#list").hidden, page.$("#heading").hidden, page.texts("li").length], [false, false, 3]);
});

test("the height is reserved before the items arrive", async (context) => {
  const page = await runList(context, list({ height: "12em" }), { answer: { "/api/hot": () => gate().opened } });
  assert.equal(page.$("#list").style.minHeight, "12em");
});

test("invalid options are an error in the console, and other lists are shown", async (context) => {
  for (const [options, message] of [["{", /freshet-list: .*JSON/], ['{"list":"cold"}', /no list is named "cold"/], ['{"article":9007199254740993}', /rounds this article/],
    ['{"user":1.5}', /rounds this user/]]) {
    const page = await runList(context, `<ol data-freshet-list='${options}'></ol>${list({})}`, { answer: hot(kItems) });
    assert.match(page.errors.join(), message);
    assert.deepEqual([page.errors.length, page.texts("li").length], [1, 3]);
  }
});

// --- Where the API is --------------------------------------------------------------------------------------------------------

test("the API is next to the script, at the tag's endpoint, or at the list's", async (context) => {
  const path = async (options, html = "", src = "/freshet-list.js") => (await runList(context, html + list(options), { src })).paths()[0];
  const tag = `<script data-freshet='{"endpoint":"/tag/api/track"}'></script>`;
  assert.equal(await path({}, "", "/freshet/freshet-list.js"), "/freshet/api/hot?limit=6");
  assert.equal(await path({}, "", "https://f.example/freshet-list.js?v=2"), "https://f.example/api/hot?limit=6");
  assert.equal(await path({}, "", null), "/api/hot?limit=6");
  assert.equal(await path({}, tag), "/tag/api/hot?limit=6");
  assert.equal(await path({ endpoint: "/own/api/track" }, tag), "/own/api/hot?limit=6");
});

// --- Scans -------------------------------------------------------------------------------------------------------------------

test("a scan loads lists that were added or whose options changed, and no other", async (context) => {
  const page = await runList(context, list({ limit: 1 }), { answer: hot(kItems) });
  await page.scan();
  assert.deepEqual(page.paths(), ["/api/hot?limit=2"]);
  page.document.body.insertAdjacentHTML("beforeend", "<ul data-freshet-list='{\"tag\":\"x\"}'></ul>");
  await page.scan();
  assert.deepEqual([page.paths(), page.texts("ul li").length], [["/api/hot?limit=6&tag=x"], 3]);
  page.$("#list").dataset.freshetList = '{"limit":2}';
  await page.scan();
  assert.deepEqual([page.paths(), page.texts("#list li").length], [["/api/hot?limit=3"], 2]);
  page.window.history.pushState({}, "", "/other");
  await page.scan();
  assert.equal(page.paths().length, 2, "another current article");
  await page.run();
  assert.deepEqual(page.paths(), [], "the script twice");
  page.document.body.innerHTML = list({});
  page.document.dispatchEvent(new page.window.Event("turbo:load"));
  await settle();
  assert.deepEqual(page.paths(), ["/api/hot?limit=6"], "a visit with Turbo");
});

test("the response to an earlier request does not replace that to a later one", async (context) => {
  const first = gate();
  const page = await runList(context, list({ tag: "first" }), { answer: { "/api/hot": () => first.opened } });
  page.answer["/api/hot"] = () => [item("second")];
  page.$("#list").dataset.freshetList = '{"tag":"second"}';
  await page.scan();
  first.open([item("first")]);
  await settle();
  assert.deepEqual(page.texts("a"), ["About second"]);
});

test("a script in the head waits for the document, and an element whose id is freshetList is not taken for it", async (context) => {
  const page = await runList(context, `<div id="freshetList"></div>${list({})}`, { answer: hot(kItems), loading: true });
  assert.deepEqual(page.requests, []);
  page.document.dispatchEvent(new page.window.Event("DOMContentLoaded"));
  await settle();
  assert.equal(page.texts("li").length, 3);
});

// --- Readers and consent -----------------------------------------------------------------------------------------------------

const kFeed = { "/api/feed": ({ credentials }) => ({ data: { items: kItems }, credentials }) };
const refusing = (times) => () => times-- > 0 ? reply(400, { code: "bad_id" }) : { data: { items: kItems } };

test("a feed gets its visitor a cookie, and asks once more", async (context) => {
  const page = await runList(context, list({ list: "feed" }), { answer: { "/api/feed": refusing(1), "/api/visitor": () => reply(204, null) } });
  assert.deepEqual(page.requests.map(({ method, path, credentials }) => [method, path, credentials]),
    [["POST", "/api/feed", "include"], ["POST", "/api/visitor", "include"], ["POST", "/api/feed", "include"]]);
  assert.equal(page.texts("li").length, 3);
  for (const [times, visitor, count] of [[9, 204, 3], [9, 403, 2]]) {
    const refused = await runList(context, list({ list: "feed" }), { answer: { "/api/feed": refusing(times), "/api/visitor": () => reply(visitor, null) } });
    assert.deepEqual([refused.requests.length, refused.$("#list").hidden], [count, true]);
  }
});

test("no other list sets a cookie, and without cookies none does or sends one", async (context) => {
  const answer = { "/api/recommendations": () => reply(400, {}), "/api/feed": refusing(9), "/api/visitor": () => reply(204, null) };
  const page = await runList(context, list({ list: "recommended" }), { answer });
  assert.deepEqual(page.paths(), ["/api/recommendations?limit=6"]);
  for (const html of [list({ list: "feed", cookie: false }), `<script data-freshet='{"cookie":false}'></script>${list({ list: "feed" })}`]) {
    const without = await runList(context, html, { answer });
    assert.deepEqual(without.requests.map(({ path, credentials }) => [path, credentials]), [["/api/feed", "omit"]]);
  }
});

test("where the tag waits for consent, lists of the reader wait, too, and the others send no cookie", async (context) => {
  const answer = { ...kFeed, ...hot(kItems), "/api/recommendations": () => ({ items: kItems }), "/api/items/%2Farticle/similar": () => ({ items: kItems }) };
  const lists = ["hot", "recommended", "similar", "feed"].map((name) => `<ol id="${name}" data-freshet-list='{"list":"${name}"}'></ol>`).join("");
  const waiting = { consent: [`{"consent":"wait"}`, undefined], other: [`{"consent":true}`, undefined], gpc: [`{"gpc":true}`, true] };
  for (const [options, gpc] of Object.values(waiting)) {
    const page = await runList(context, `<script data-freshet='${options}'></script>${lists}`, { answer, gpc });
    assert.deepEqual(page.requests.splice(0).map(({ path, credentials }) => [path, credentials]),
      [["/api/hot?limit=6", "omit"], ["/api/items/%2Farticle/similar?limit=6", "omit"]]);
    assert.deepEqual([page.$("#feed").hidden, page.$("#recommended").hidden, page.$("#hot").hidden], [true, true, false]);
    page.window.freshetList.consent(true);
    await settle();
    assert.deepEqual(page.requests.splice(0).filter(({ credentials }) => credentials === "include").length, 4);
    assert.deepEqual([page.$("#feed").hidden, page.$("#recommended").hidden], [false, false]);
  }
  const free = await runList(context, `<script data-freshet='{"gpc":true}'></script>${lists}`, { answer });
  assert.equal(free.paths().length, 4);
  free.window.freshetList.consent(false);
  await settle();
  assert.deepEqual(free.requests.map(({ path, credentials }) => [path, credentials]),
    [["/api/hot?limit=6", "omit"], ["/api/items/%2Farticle/similar?limit=6", "omit"]]);
});

test("when consent is withdrawn, lists of the reader are emptied, and what the server wrote stays", async (context) => {
  const inside = "<template><li><a data-freshet-slot='link title'></a></li></template><li>From the server</li>";
  for (const name of ["recommended", "feed"]) {
    const page = await runList(context, kHeading + list({ list: name, consent: "wait" }, inside, kLabelled), { answer: { ...kFeed, "/api/recommendations": () => kItems } });
    page.window.freshetList.consent(false);
    await settle();
    assert.deepEqual([page.texts("li"), page.$("#list").hidden], [["From the server"], false]);
    page.window.freshetList.consent(true);
    await settle();
    assert.deepEqual(page.texts("li"), kItems.map(({ title }) => title));
    page.window.freshetList.consent(false);
    await settle();
    assert.deepEqual([page.texts("li"), page.$("#list").hidden, page.$("#heading").hidden, page.$("template") !== null], [[], true, true, true]);
    page.window.freshetList.consent(true);
    await settle();
    assert.equal(page.texts("li").length, 3);
  }
});

test("a user of 0 or \"\" is not signed in, and the tag's user is the list's", async (context) => {
  for (const user of [0, "", null]) {
    const page = await runList(context, list({ list: "recommended", user }));
    assert.deepEqual(page.paths(), ["/api/recommendations?limit=6"]);
  }
  const page = await runList(context, `<script data-freshet='{"user":7}'></script>${list({ list: "recommended" })}`);
  assert.deepEqual(page.paths(), ["/api/recommendations?limit=6&userId=7"]);
});

test("freshet-list.js has at most 3 KiB gzipped", () => {
  assert.ok(gzipSync(source("freshet-list.js"), { level: 9 }).length <= 3072);
});

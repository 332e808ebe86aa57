// freshet-list.js on the pages of a site, in a real browser under a strict Content-Security-Policy.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before } from "node:test";
import { countLayoutShifts, eventually, openWindow, startFreshet, test } from "./instance.mjs";

const kAxe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const kDocument = readFileSync(new URL("../../INTEGRATION.md", import.meta.url), "utf8");
const [kPolicy] = kDocument.match(/^script-src [^\n]*$/m);
const [, kStatic] = kDocument.match(/^```html\n((?:(?!```).)*data-freshet>.*?)^```/ms);
const [, kTemplate] = kDocument.match(/^```html\n((?:(?!```).)*<template>.*?)^```/ms);
const [, kHeight] = kDocument.match(/^```css\n([^`]*)^```/m);
const kPosts = [1, 2, 3, 4, 5, 6, 7, 8].map((number) => `/blog/post-${number}`);

let freshet;
let browser;

before(async () => {
  freshet = await startFreshet('identity.mode = "header"\nredis.timeout = "1s"\ngateway.request_budget = "3s"\n');
  const now = Math.floor(Date.now() / 1000);
  await freshet.importItems(kPosts.map((id, index) => ({ id, title: `<b>Post</b> ${index + 1} & more`, author: "Ann", tags: ["blog"], published_at: now - 3600 * (index + 1) })));
  for (const id of kPosts.slice(0, 5)) await freshet.track({ articleId: id, sessionId: "s1", dwellMs: 20000 });
  await eventually("the hot list", async () => (await fetch(`${freshet.base}/api/hot?model=engagement`)).json(), ({ length }) => length >= 5);
  const similar = `${freshet.base}/api/items/${encodeURIComponent(kPosts[0])}/similar`;
  await eventually("the search index", async () => (await (await fetch(similar)).json()).items, (items) => items?.length === kPosts.length - 1);
  browser = await openWindow();
});

after(async () => {
  await browser?.close();
  await freshet?.stop();
});

const kScripts = `<script defer src="/freshet.js" data-freshet='{"first":0.2,"every":0.2}'></script><script defer src="/freshet-list.js"></script>`;
const list = (id, options, inside = "") => `<h2 id="${id}-heading">${id}</h2>
  <ol id="${id}" aria-labelledby="${id}-heading" data-freshet-list='${JSON.stringify(options)}'>${inside}</ol>`;
const kFour = list("Popular", { list: "hot", model: "engagement", limit: 3 }) + list("Recommended", { list: "recommended", limit: 3 })
  + list("Similar", { list: "similar", limit: 3 }) + list("Next", { list: "feed", limit: 2 });

// Opens `path` of a site whose pages are all `body`.
async function open(path, body, scripts = kScripts) {
  const page = await browser.tab();
  await page.context().clearCookies();
  await page.route("**/favicon.ico", (route) => route.fulfill({ status: 204 }));
  await page.route("**/blog/**", (route) => route.fulfill({
    contentType: "text/html; charset=utf-8", headers: { "Content-Security-Policy": `default-src 'none'; require-trusted-types-for 'script'; ${kPolicy}` },
    body: `<!doctype html><html lang="en"><head><title>A blog</title>${scripts}</head>
      <body><main><h1>A post</h1>${body}</main></body></html>`,
  }));
  await page.goto(freshet.base + path);
  return page;
}

const filled = (page, ids) => page.waitForFunction((all) => all.every((id) => {
  const element = document.getElementById(id);
  return element && !element.hasAttribute("aria-busy") && element.querySelector("li");
}), ids);
const links = (page, id) => page.$$eval(`#${id} a`, (all) => all.map((each) => each.getAttribute("href")));

test("the pages of a static site, as INTEGRATION.md has them, show what is read and recommendations", async () => {
  const page = await open(kPosts[6] + "/?from=mail", kStatic, "");
  await page.waitForFunction(() => document.querySelectorAll("ol > li > a[href]").length === 10);
  assert.deepEqual(await page.$$eval("h2", (all) => all.map(({ textContent, hidden }) => [textContent, hidden])), [["Popular", false], ["For you", false]]);
  assert.ok(!(await page.content()).includes(`href="${freshet.base}${kPosts[6]}"`));
  await eventually("the page view", () => freshet.stats(kPosts[6]), ({ pv }) => pv === 1);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a site with nothing but two scripts shows all four lists, without the article that is read", async () => {
  const page = await open(kPosts[0] + "/", kFour);
  await filled(page, ["Popular", "Recommended", "Similar", "Next"]);
  const titles = await page.$$eval("#Popular a", (all) => all.map(({ textContent }) => textContent));
  assert.match(titles[0], /^<b>Post<\/b> \d & more$/, "as text");
  for (const [id, count] of [["Popular", 3], ["Recommended", 3], ["Similar", 3]]) {
    const found = await links(page, id);
    assert.equal(found.length, count, id);
    assert.ok(!found.includes(freshet.base + kPosts[0]), id);
  }
  assert.ok((await links(page, "Next")).length >= 1);
  const reasons = await page.$$eval("small", (all) => all.map(({ textContent }) => textContent));
  assert.ok(reasons.length >= 6 && reasons.every(Boolean), JSON.stringify(reasons));
  await eventually("the page view of the path", () => freshet.stats(kPosts[0]), ({ pv }) => pv === 2);
  assert.deepEqual(page.problems.filter((text) => !/400/.test(text)), [], "a feed's first request is refused, because the visitor has no cookie");

  const [next] = await links(page, "Recommended");
  await page.click("#Recommended a");
  await page.waitForURL(next);
  await filled(page, ["Recommended"]);
  assert.ok(!(await links(page, "Recommended")).includes(next));
  await page.close();
});

test("the lists have no accessibility violations", async () => {
  const page = await open(kPosts[1], kFour);
  await filled(page, ["Popular", "Recommended", "Similar", "Next"]);
  await page.evaluate(kAxe);
  const violations = await page.evaluate(async () => (await globalThis.axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes[0].html}`));
  assert.deepEqual(violations, []);
  await page.close();
});

for (const [styles, moves] of [[kHeight, false], ["", true]]) {
  test(`the lists of INTEGRATION.md ${moves ? "move what follows them without its style sheet" : "move nothing with its style sheet"}`, async () => {
    const page = await browser.tab();
    await page.route("**/blog/**", (route) => route.fulfill({
      contentType: "text/html",
      body: `<!doctype html><title>A blog</title><style>body { line-height: 1.5 } ${styles}</style>${kStatic}<p>After</p>`,
    }));
    const shifts = await countLayoutShifts(page, freshet.base + kPosts[7], () => document.querySelectorAll("ol > li > a[href]").length === 10);
    assert.equal(shifts > 0, moves);
    await page.close();
  });
}

test("a template is filled, also in a list that is added later, and under a prefix without options", async () => {
  const page = await open(kPosts[3], "", `<script defer src="/mounted/freshet-list.js"></script>`);
  const requests = [];
  await page.route("**/mounted/**", async (route) => {
    requests.push(new URL(route.request().url()).pathname);
    await route.fulfill({ response: await route.fetch({ url: route.request().url().replace("/mounted", "") }) });
  });
  await page.reload();
  await page.waitForFunction(() => window.freshetList);
  await page.evaluate((markup) => {
    const policy = window.trustedTypes.createPolicy("test", { createHTML: (text) => text });
    document.querySelector("main").insertAdjacentHTML("beforeend", policy.createHTML(markup));
    window.freshetList.scan();
  }, kTemplate);
  await page.waitForSelector("ul > li.card");
  assert.deepEqual(requests, ["/mounted/freshet-list.js", `/mounted/api/items/${encodeURIComponent(kPosts[3])}/similar`]);
  const cards = await page.$$eval("li.card", (all) => all.map((each) => [each.querySelector("a").textContent, each.querySelector("time").dateTime]));
  assert.equal(cards.length, 3);
  for (const [title, date] of cards) assert.ok(/Post/.test(title) && Date.parse(date) < Date.now(), `${title} ${date}`);
  await page.close();
});

test("without the service, the heading and the list are hidden, and nothing is an error of the page", async () => {
  const page = await open(kPosts[4], list("Popular", {}));
  await page.route("**/api/**", (route) => route.abort());
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.reload();
  await page.waitForFunction(() => document.getElementById("Popular").hidden);
  assert.equal(await page.isVisible("#Popular-heading"), false);
  assert.deepEqual(errors, []);
  await page.close();
});

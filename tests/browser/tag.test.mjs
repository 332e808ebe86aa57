// freshet.js on the pages of a site, in a real browser: every way to move between articles, a Content-Security-Policy, consent,
// and reports that are lost.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer, request } from "node:http";
import { after, before } from "node:test";
import { eventually, openWindow, startFreshet, test } from "./instance.mjs";

const kLibraries = {
  "/turbo.js": "@hotwired/turbo/dist/turbo.es2017-umd.js", "/jquery.js": "jquery/dist/jquery.min.js", "/pjax.js": "jquery-pjax/jquery.pjax.js",
};
const library = (path) => readFileSync(new URL(`node_modules/${kLibraries[path]}`, import.meta.url));
const kDocument = readFileSync(new URL("../../INTEGRATION.md", import.meta.url), "utf8");

let freshet;
let browser;
let site;

// A site whose server passes everything that it does not have to Freshet. `pages`: {path: HTML or (headers) => HTML}. `policy`: the
// pages' Content-Security-Policy. `refusals`: {path: how many requests get 503}. `held`: paths that are never answered.
// `reports`: the bodies that were sent to /api/track, and their statuses.
async function startSite() {
  const { hostname, port } = new URL(freshet.base);
  const started = { pages: {}, policy: null, refusals: {}, held: new Set(), reports: [], requests: [] };
  const pass = (incoming, outgoing, body) => {
    const { method, url: path, headers } = incoming;
    const passed = request({ host: hostname, port, method, path, headers }, (reply) => {
      outgoing.writeHead(reply.statusCode, reply.headers);
      reply.pipe(outgoing);
    });
    passed.on("error", () => outgoing.destroy());
    passed.end(body);
  };
  const server = createServer(async (incoming, outgoing) => {
    const { pathname } = new URL(incoming.url, freshet.base);
    started.requests.push(pathname);
    if (pathname in started.pages) {
      const page = started.pages[pathname];
      const headers = { "Content-Type": "text/html; charset=utf-8", ...(started.policy && { "Content-Security-Policy": started.policy }) };
      return outgoing.writeHead(200, headers).end(typeof page === "string" ? page : page(incoming.headers));
    }
    if (pathname in kLibraries) return outgoing.writeHead(200, { "Content-Type": "application/javascript" }).end(library(pathname));
    if (pathname === "/favicon.ico") return outgoing.writeHead(204).end();
    if (started.held.has(pathname)) return;
    const body = Buffer.concat(await incoming.toArray());
    const refused = started.refusals[pathname] > 0;
    if (pathname === "/api/track") started.reports.push({ ...JSON.parse(body), refused });
    if (!refused) return pass(incoming, outgoing, body);
    --started.refusals[pathname];
    outgoing.writeHead(503).end();
  });
  await new Promise((listening) => server.listen(0, hostname, listening));
  started.base = `http://${hostname}:${server.address().port}`;
  started.stop = () => new Promise((closed) => {
    server.close(closed);
    server.closeAllConnections();
  });
  return started;
}

before(async () => {
  // Long timeouts, so that no report gets 503 because the machine is busy.
  freshet = await startFreshet('redis.timeout = "1s"\ngateway.request_budget = "3s"\n');
  site = await startSite();
  browser = await openWindow();
});

after(async () => {
  await browser?.close();
  await site?.stop();
  await freshet?.stop();
});

const tag = (options, attributes = "defer") => `<script ${attributes} src="/freshet.js" data-freshet='${JSON.stringify(options)}'></script>`;
const html = (body, head = "") => `<!doctype html><title>A blog</title>${head}<body>${body}</body>`;
const kQuick = { first: 0.2, every: 0.2 };
const reportsOf = (article) => site.reports.filter(({ articleId }) => articleId === article);
const eventuallyReported = (article, count = 1) => eventually(`${count} reports of ${article}`, () => reportsOf(article), ({ length }) => length >= count);

async function openPages(pages, first, { policy = null } = {}) {
  Object.assign(site, { pages, policy, refusals: {}, reports: [], requests: [] });
  site.held.clear();
  const page = await browser.tab();
  await page.context().clearCookies();
  await page.goto(site.base + first);
  return page;
}

// Checks that each article has one page view, and was not credited with more time than it was current. `read`: [[article, the
// page's time before it was opened, and after the next one was]…]; null: no article.
async function checkTimes(read) {
  for (const [article, since, until] of read) {
    if (article === null) continue;
    const { pv, dwell } = await eventually(`the count of ${article}`, () => freshet.stats(article), (stats) => stats.dwell?.sum_ms > 0);
    assert.equal(pv, 1, article);
    assert.ok(dwell.sum_ms <= until - since + 20, `${article}: ${dwell.sum_ms} ms of ${until - since}`);
  }
}
const now = (page) => page.evaluate(() => performance.now());

// Reads `articles` one after the other. `visit` opens the next one; null is a page without an article.
async function readAll(page, articles, visit) {
  const read = [];
  const passed = (time) => page.waitForFunction((until) => performance.now() >= until, time);
  for (const [index, article] of articles.entries()) {
    const since = index ? await now(page) : 0;
    if (index) await visit(article);
    if (article !== null) await eventuallyReported(article);
    else await passed(since + 1000);
    const opened = await now(page);
    if (index) read.at(-1).push(opened);
    read.push([article, since]);
    if (article !== null) await eventuallyReported(article, 3);
    const before = site.reports.length;
    if (article === null) {  // nothing is reported
      await passed(opened + 1000);
      assert.deepEqual(site.reports.slice(before), []);
    }
    const last = articles[index - 1];
    if (article !== null && last) {  // two more reports, none of them of the last article
      await eventually("more reports", () => site.reports, ({ length }) => length >= before + 2);
      assert.ok(site.reports.slice(before).every(({ articleId }) => articleId === article), JSON.stringify(site.reports.slice(before)));
    }
  }
  read.at(-1).push(await now(page));
  await checkTimes(read);
  assert.deepEqual(page.problems, []);
}

// --- Moving between articles -------------------------------------------------------------------------------------------------

const link = (path) => `<a href="${path}" id="to${path.replace(/\W/g, "-")}">${path}</a>`;
const kLinks = ["/t/1", "/t/2", "/t/"].map(link).join(" ");

for (const [where, script, body] of [
  ["the tag in the body", "", (article) => tag({ article, ...kQuick })],
  ["the options on an element", `<script defer src="/freshet.js"></script>`,
    (article) => `<article data-freshet='${JSON.stringify({ article, ...kQuick })}'>Text</article>`]]) {
  test(`Turbo with ${where}: each article has its own time, and the front page none`, async () => {
    const prefix = where.replace(/\W+/g, "-");
    const head = `<script src="/turbo.js"></script>${script}`;
    const pages = { "/t/": html(`<h1>Front page</h1>${kLinks}`, head) };
    for (const number of [1, 2]) pages[`/t/${number}`] = html(`${kLinks}${body(`${prefix}-${number}`)}`, head);
    const page = await openPages(pages, "/t/1");
    await page.evaluate(() => (window.isSamePage = true));
    const articles = [`${prefix}-1`, `${prefix}-2`, null];
    await readAll(page, articles, async (article) => {
      const path = article === null ? "/t/" : `/t/${article.at(-1)}`;
      await page.click(`#to${path.replace(/\W/g, "-")}`);
      await page.waitForFunction((expected) => location.pathname === expected && !document.documentElement.hasAttribute("data-turbo-preview"), path);
    });
    const before = reportsOf(articles[0]).length;
    await page.goBack();  // Turbo restores the page from its cache
    await page.goBack();
    await eventuallyReported(articles[0], before + 2);
    assert.equal(await page.evaluate(() => window.isSamePage), true, "Turbo has not loaded a page");
    await page.close();
  });
}

test("pjax: each article has its own time, and the front page none", async () => {
  const container = (article) => `<a href="/p/1" id="to-1">1</a> <a href="/p/2" id="to-2">2</a> <a href="/p/" id="to-">Front page</a>
    ${article ? `<article data-freshet='${JSON.stringify({ article, ...kQuick })}'>Text</article>` : ""}`;
  const [snippet] = kDocument.match(/^\$\(document\)\.on\("pjax:end".*$/m);
  const page_ = (article) => (headers) => headers["x-pjax"] ? container(article) : html(`<main id="main">${container(article)}</main>`,
    `<script src="/jquery.js"></script><script src="/pjax.js"></script><script defer src="/freshet.js"></script>
     <script>$(document).pjax("a", "#main"); ${snippet}</script>`);
  const page = await openPages({ "/p/": page_(""), "/p/1": page_("pjax-1"), "/p/2": page_("pjax-2") }, "/p/1");
  await page.evaluate(() => (window.isSamePage = true));
  await readAll(page, ["pjax-1", "pjax-2", null], async (article) => {
    const number = article?.at(-1) ?? "";
    await page.click(`#to-${number}`);
    await page.waitForFunction((path) => location.pathname === path && !!document.querySelector("article") === (path !== "/p/"), `/p/${number}`);
  });
  assert.equal(await page.evaluate(() => window.isSamePage), true, "pjax has not loaded a page");
  await page.close();
});

test("history.pushState with freshet.open(): each article has its own time, and the front page none", async () => {
  const page = await openPages({ "/s/1": html(tag({ article: "push-1", ...kQuick })) }, "/s/1");
  await readAll(page, ["push-1", "push-2", null, "push-3"], (article) => page.evaluate((next) => {
    history.pushState({}, "", `/s/${next ?? ""}`);
    freshet.open(next);
  }, article));
  await page.close();
});

test("with three tags on a page the last article has the time, and the same tag twice counts once", async () => {
  const three = ["three-1", "three-2", "three-3"].map((article) => tag({ article, ...kQuick })).join("");
  const page = await openPages({ "/three": html(three), "/twice": html(tag({ article: "twice", ...kQuick }).repeat(2)) }, "/three");
  await eventuallyReported("three-3", 3);
  await page.goto(site.base + "/twice");
  const reports = await eventuallyReported("twice", 3);
  assert.deepEqual(reports.map(({ dwellMs }) => dwellMs), [...new Set(reports.map(({ dwellMs }) => dwellMs))], "each report once");
  const articles = new Set(site.reports.map(({ articleId }) => articleId));
  assert.deepEqual([...articles].filter((article) => /^(three|twice)/.test(article)), ["three-3", "twice"]);  // the page before may report late
  assert.equal((await eventually("the count", () => freshet.stats("twice"), ({ pv }) => pv >= 1)).pv, 1);
  await page.close();
});

test("as a module or in a bundle, where document.currentScript is null or another script, the tag finds its options", async () => {
  const bundle = `<script>document.addEventListener("DOMContentLoaded", () => { const script = document.createElement("script");
    script.src = "/freshet.js"; document.head.append(script); });</script>`;
  const page = await openPages({ "/module": html(tag({ article: "module", ...kQuick }, 'type="module"')),
    "/bundle": html(`<article data-freshet='{"article":"bundle","first":0.2}'></article>`, bundle) }, "/module");
  await eventuallyReported("module");
  await page.goto(site.base + "/bundle");
  await eventuallyReported("bundle");
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("an id above 2^53 is an error in the console, and no other article is counted", async () => {
  const page = await openPages({ "/large": html(`<script src="/freshet.js" data-freshet='{"article":9007199254740993,"first":0.2}'></script>`) }, "/large");
  await eventually("the error", () => page.problems, ({ length }) => length > 0);
  assert.match(page.problems[0], /freshet.*string/);
  await page.evaluate(() => freshet.open("9007199254740993"));
  await eventuallyReported("9007199254740993");
  assert.equal(reportsOf("9007199254740992").length + reportsOf(9007199254740992).length, 0);
  await page.close();
});

// --- Reports that are late or lost -------------------------------------------------------------------------------------------

test("a reader who leaves before the visitor cookie arrives is counted", async () => {
  const page = await openPages({ "/early": html(`<a href="/next">next</a>${tag({ article: "early" })}`), "/next": html("") }, "/next");
  site.held.add("/api/visitor");
  await page.goto(site.base + "/early");
  await page.waitForFunction(() => sessionStorage.freshet && performance.now() > 300);
  await page.click("a");
  await eventually("the page view", () => freshet.stats("early"), ({ pv }) => pv === 1);
  await page.close();
});

test("without an answer to the request for a cookie, reports begin after a second", async () => {
  const page = await openPages({ "/slow": html(tag({ article: "slow", ...kQuick })), "/next": html("") }, "/next");
  await page.addInitScript(() => {
    window.calledAt = {};
    for (const [object, name] of [[window, "fetch"], [navigator, "sendBeacon"]]) {
      const original = object[name].bind(object);
      object[name] = (url, ...more) => {
        window.calledAt[new URL(url, location.href).pathname] ??= performance.now();
        return original(url, ...more);
      };
    }
  });
  site.held.add("/api/visitor");
  await page.goto(site.base + "/slow");
  await eventuallyReported("slow");
  const calledAt = await page.evaluate(() => window.calledAt);
  assert.ok(calledAt["/api/track"] - calledAt["/api/visitor"] >= 990, JSON.stringify(calledAt));
  await page.close();
});

test("a report that got 503 is sent again", async () => {
  const page = await openPages({ "/busy": html(tag({ article: "busy", first: 0.2, every: 0.5, max: 0.1 })), "/next": html("") }, "/next");
  site.refusals["/api/track"] = 1;
  await page.goto(site.base + "/busy");
  const stats = await eventually("the page view", () => freshet.stats("busy"), ({ pv }) => pv === 1);
  assert.deepEqual(reportsOf("busy").map(({ dwellMs, refused }) => [dwellMs, refused]), [[stats.dwell.sum_ms, true], [stats.dwell.sum_ms, false]]);
  await page.close();
});

test("a page whose beacons throw reports when it is left, and goes on reporting", async () => {
  const page = await openPages({ "/throws": html(tag({ article: "throws", first: 60, every: 0.2 })), "/other": html("") }, "/other");
  await page.addInitScript(() => (navigator.sendBeacon = () => {
    throw new TypeError("blocked");
  }));
  await page.goto(site.base + "/throws");
  await page.waitForFunction(() => sessionStorage.freshet && performance.now() > 300);
  const other = await browser.tab();
  await other.bringToFront();
  await eventuallyReported("throws");
  await page.bringToFront();
  await eventuallyReported("throws", 3);
  assert.deepEqual(page.problems, []);
  await other.close();
  await page.close();
});

test("once `max` is reported, leaving the page reports nothing more", async () => {
  const page = await openPages({ "/max": html(tag({ article: "max", first: 0.2, max: 0.1 })), "/last": html(tag({ article: "last", first: 0.2 })) }, "/max");
  const [{ dwellMs }] = await eventuallyReported("max");
  await page.waitForFunction((until) => performance.now() >= until, dwellMs + 1500);
  await page.goto(site.base + "/last");
  await eventuallyReported("last");
  assert.equal(reportsOf("max").length, 1);
  await page.close();
});

// --- Policies and consent ----------------------------------------------------------------------------------------------------

test("the tag works under the Content-Security-Policy that INTEGRATION.md names", async () => {
  const [policy] = kDocument.match(/^script-src [^\n]*$/m);
  const page = await openPages({ "/csp": html(tag({ article: "csp", ...kQuick })), "/next": html("") }, "/csp", { policy: `default-src 'none'; ${policy}` });
  await eventually("the page view", () => freshet.stats("csp"), ({ pv }) => pv === 1);
  await page.goto(site.base + "/next");
  assert.deepEqual(page.problems, []);
  await page.close();
  for (const directive of policy.split("; ")) {
    const without = policy.replace(directive, "").replace(/^; |; $/g, "");
    const blocked = await openPages({ "/csp": html(tag({ article: "csp-less", ...kQuick })) }, "/csp", { policy: `default-src 'none'; ${without}` });
    await eventually(`an error without ${directive}`, () => blocked.problems, (all) => all.some((text) => /Content Security Policy/.test(text)));
    assert.deepEqual(reportsOf("csp-less"), []);
    await blocked.close();
  }
});

test("until consent, nothing is sent or stored", async () => {
  const page = await openPages({ "/consent": html(tag({ article: "consent", consent: "wait", ...kQuick })) }, "/consent");
  await page.waitForFunction(() => window.freshet && performance.now() > 1500);
  assert.deepEqual(site.requests.filter((path) => path.startsWith("/api/")), []);
  assert.deepEqual([await page.context().cookies(), await page.evaluate(() => sessionStorage.length)], [[], 0]);
  const since = await now(page);
  await page.evaluate(() => freshet.consent(true));
  const [{ dwellMs }] = await eventuallyReported("consent");
  assert.ok(dwellMs <= await now(page) - since, "the time before does not count");
  assert.ok((await page.context().cookies()).some(({ name }) => name === "freshet_visitor"));
  await page.evaluate(() => freshet.consent(false));
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await page.close();
});

test("without cookies, an earlier visitor cookie is not sent and none is set", async () => {
  const page = await openPages({ "/with": html(tag({ article: "with", ...kQuick })), "/without": html(tag({ article: "without", cookie: false, ...kQuick })) }, "/with");
  await eventually("the page view", () => freshet.stats("with"), ({ pv }) => pv === 1);
  const [cookie] = await page.context().cookies();
  const cookies = [];
  // Not the report that is sent, with a cookie, while the first page is left.
  page.on("request", (each) => each.url().endsWith("/api/track") && each.headers().referer?.endsWith("/without")
    && cookies.push(each.allHeaders().then((headers) => headers.cookie)));
  await page.evaluate(() => sessionStorage.clear());
  await page.goto(site.base + "/without");
  await eventuallyReported("without", 2);
  await page.goto(site.base + "/with");
  await eventuallyReported("without", 3);  // the last one, sent while leaving
  assert.equal(cookie.name, "freshet_visitor");
  assert.deepEqual(await Promise.all(cookies.slice(0, 2)), [undefined, undefined]);
  await page.close();
});

// A reader who is not signed in, on pages of a blog with nothing but the tag, and who then signs in.
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { eventually, openWindow, startFreshet, test } from "./instance.mjs";

const kKey = "0123456789abcdef-1";
const kPosts = [1, 2, 3, 4, 5, 6, 7, 8].map((number) => `post${number}`);

let folder;
let freshet;
let browser;

before(async () => {
  folder = await mkdtemp(join(tmpdir(), "freshet-key-"));
  await chmod(folder, 0o755);
  await writeFile(join(folder, "k1"), `${kKey}\n`);
  freshet = await startFreshet(`identity.mode = "token"\nidentity.token_keys = { k1 = "${join(folder, "k1")}" }\n` +
    'redis.timeout = "1s"\ngateway.request_budget = "3s"\n');
  const now = Math.floor(Date.now() / 1000);
  await freshet.importItems(kPosts.map((id, index) => ({ id, title: `About ${id}`, tags: ["blog"], published_at: now - 3600 * (index + 1) })));
  browser = await openWindow();
});

after(async () => {
  await browser?.close();
  await freshet?.stop();
  if (folder) await rm(folder, { recursive: true });
});

function token(reader) {
  const payload = `v1.k1.${reader}.${Math.floor(Date.now() / 1000) + 600}`;
  return `${payload}.${createHmac("sha256", kKey).update(payload).digest("hex")}`;
}

// Opens a post of the blog: a page whose only script is the tag.
async function openPost(page, post) {
  const html = `<!doctype html><title>${post}</title><h1>${post}</h1>
    <script defer src="/freshet.js" data-freshet='{"article":"${post}","first":0.2,"every":0.2}'></script>`;
  await page.route(`**/blog/${post}`, (route) => route.fulfill({ contentType: "text/html", body: html }));
  await page.goto(`${freshet.base}/blog/${post}`);
}

// Requests of the page itself, with its cookies.
const ask = (page, path, body) => page.evaluate(async ([url, json]) => {
  const reply = await fetch(url, json && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(json) });
  return { status: reply.status, ...(await reply.json()) };
}, [path, body]);
const feed = async (page, action, limit) => {
  const { status, data } = await ask(page, "/api/feed", { action, limit });
  assert.equal(status, 200);
  return data.items.map(({ id }) => id);
};
const history = async (page) => (await ask(page, "/api/history")).items;
// The list's articles that have a score.
const hot = async (model) => (await (await fetch(`${freshet.base}/api/hot?model=${model}`)).json()).filter(({ score }) => score > 0).map(({ id }) => id).toSorted();
const recommended = async (page) => (await ask(page, "/api/recommendations?limit=100")).items.map(({ id }) => id);
const visitorCookie = async (page) => (await page.context().cookies()).find(({ name }) => name === "freshet_visitor")?.value;

test("a reader without a login moves both hot lists, gets a feed without what they read, and takes it to the account", async () => {
  const page = await browser.tab();
  for (const model of ["engagement", "views"]) assert.deepEqual(await hot(model), []);
  await openPost(page, "post1");
  await eventually("the visitor cookie", () => visitorCookie(page), Boolean);
  await eventually("the article in the history", () => history(page), (items) => items?.[0] === "post1");
  assert.equal((await recommended(page)).includes("post1"), false);
  assert.equal((await recommended(page)).length, kPosts.length - 1);
  await openPost(page, "post2");
  await eventually("the second article in the history", () => history(page), (items) => items[0] === "post2");
  assert.equal((await recommended(page)).includes("post2"), false);
  for (const model of ["engagement", "views"])
    await eventually(`both articles on the list of ${model}`, () => hot(model), (list) => list.join() === "post1,post2");
  await eventually("the index", () => ask(page, "/api/feed", { action: "peek", limit: 100 }), ({ data }) => data.new === kPosts.length - 2);
  const shown = await feed(page, "refresh", 3);
  assert.equal(shown.length, 3);
  assert.deepEqual(shown.filter((id) => ["post1", "post2"].includes(id)), []);

  const visitor = await visitorCookie(page);
  await page.context().addCookies([{ name: "freshet_token", value: token("ann"), url: freshet.base }]);
  await eventually("a new visitor cookie", async () => [await history(page), await visitorCookie(page)][1], (cookie) => cookie !== visitor);
  assert.deepEqual(await history(page), ["post2", "post1"]);
  const rest = [...await feed(page, "refresh", 2), ...await feed(page, "load_more", 100)];
  assert.deepEqual(rest.toSorted(), kPosts.filter((post) => !["post1", "post2", ...shown].includes(post)).toSorted());
  assert.deepEqual((await recommended(page)).filter((id) => ["post1", "post2"].includes(id)), []);
  assert.deepEqual(page.problems, []);
});

test("a tag that waits for consent, or works without a cookie, begins no history", async () => {
  const page = await browser.tab();
  await page.context().clearCookies();
  for (const [post, options] of [["waiting", { consent: "wait" }], ["cookieless", { cookie: false }]]) {
    const html = `<!doctype html><title>${post}</title><script defer src="/freshet.js"
      data-freshet='${JSON.stringify({ article: post, first: 0.2, every: 0.2, ...options })}'></script>`;
    await page.route(`**/blog/${post}`, (route) => route.fulfill({ contentType: "text/html", body: html }));
    await page.goto(`${freshet.base}/blog/${post}`);
    if (options.consent) await page.waitForFunction(() => window.freshet && performance.now() > 1500);
    else await eventually("the page view", () => freshet.stats(post), ({ pv }) => pv === 1);
    assert.equal(await visitorCookie(page), undefined);
    assert.equal((await ask(page, "/api/history")).status, 400);
  }
  await page.goto(`${freshet.base}/blog/waiting`);
  await page.waitForFunction(() => window.freshet);
  await page.evaluate(() => window.freshet.consent(true));
  await eventually("the history after the consent", () => ask(page, "/api/history"), ({ items }) => items?.[0] === "waiting");
});

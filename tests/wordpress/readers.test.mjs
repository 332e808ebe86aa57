// Two readers in Chromium, one of them logged in: what they read moves the lists on the page and leaves their recommendations.
// Run by test_readers.py, with a site: WORDPRESS is its address, WORDPRESS_PASSWORD the password of the administrator and of
// the subscriber "vera". The administrator writes all posts, and authors are not recommended their own.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { countLayoutShifts, eventually, openWindow, test } from "../browser/instance.mjs";

const kBase = process.env.WORDPRESS;
const kPosts = ["Alpha", "Beta", "Gamma", "Delta"];
const ids = {};
const windows = [];

async function openReader() {
  windows.push(await openWindow());
  await windows.at(-1).context.route((url) => url.origin !== kBase, (route) => route.abort());  // no avatars of other hosts
  return windows.at(-1).tab();
}

async function logIn(page, user) {
  await page.goto(`${kBase}/wp-login.php`);
  await page.fill("#user_login", user);
  await page.fill("#user_pass", process.env.WORDPRESS_PASSWORD);
  await page.click("#wp-submit");
  await page.waitForSelector("#wpadminbar");
}

// A call of WordPress' REST interface, as the editor makes it.
const create = (page, route, members) => page.evaluate(async ([url, json]) => {
  const headers = { "Content-Type": "application/json", "X-WP-Nonce": await (await fetch("/wp-admin/admin-ajax.php?action=rest-nonce")).text() };
  const reply = await fetch(url, { method: "POST", headers, body: JSON.stringify(json) });
  if (!reply.ok) throw new Error(await reply.text());
  return reply.json();
}, [`${kBase}/index.php?rest_route=/wp/v2/${route}`, members]);

const titles = (page, list) => page.locator(`ol.freshet-${list} li a`).allTextContents();

// Opens a post, stays until the tag has reported it, and returns.
async function read(page, title) {
  const report = page.waitForResponse((reply) => reply.url().endsWith("/api/track") && reply.request().postData()?.includes(`"${ids[title]}"`));
  await page.goto(`${kBase}/?p=${ids[title]}`);
  assert.equal((await report).status(), 200);
}

let admin, user;

before(async () => {
  admin = await openReader();
  await logIn(admin, "admin");
  user = await openReader();
  await logIn(user, "vera");
  for (const title of kPosts) ids[title] = String((await create(admin, "posts", { title, status: "publish", content: `<p>About ${title}</p>` })).id);
  const content = '<!-- wp:freshet/hot {"title":"Most read","limit":10,"model":"engagement"} /--><!-- wp:freshet/recommended {"title":"For you","limit":10} /-->';
  ids.front = (await create(admin, "pages", { title: "Lists", status: "publish", content })).id;
});

after(async () => {
  for (const each of windows) await each.close();
});

test("reading by two readers moves the hot list and leaves their own recommendations", async () => {
  const visitor = await openReader();
  await read(visitor, "Alpha");
  await read(user, "Beta");
  const front = async (page) => {
    await page.goto(`${kBase}/?page_id=${ids.front}`);
    return { hot: await titles(page, "hot"), recommended: await titles(page, "recommended") };
  };
  await eventually("both posts on the hot list", () => front(visitor), ({ hot }) => hot.includes("Alpha") && hot.includes("Beta"));
  // A script fills the recommendations.
  await eventually("recommendations of the visitor", () => titles(visitor, "recommended"), (list) => list.includes("Beta") && !list.includes("Alpha"));
  await front(user);
  await eventually("recommendations of the user", () => titles(user, "recommended"), (list) => list.includes("Alpha") && !list.includes("Beta"));
  assert.ok(await visitor.locator("ol.freshet-recommended li small").count() > 0, "reasons are shown");
  assert.deepEqual(visitor.problems, []);
});

test("recommendations move nothing that follows them", async () => {
  const content = '<!-- wp:freshet/recommended {"title":"For you","limit":3} /--><p>After</p>';
  const { id } = await create(admin, "pages", { title: "No shift", status: "publish", content });
  const visitor = await openReader();
  const shifts = (address) => countLayoutShifts(visitor, address, () => document.querySelectorAll("ol.freshet-recommended li").length === 3);
  assert.equal(await shifts(`${kBase}/?page_id=${id}`), 0);
  assert.ok(await visitor.isVisible(".freshet-title"));
});

test("the settings page tests the connection in the browser", async () => {
  await admin.goto(`${kBase}/wp-admin/options-general.php?page=freshet`);
  await admin.click("#freshet-test");
  await admin.waitForFunction(() => /Your visitors reach Freshet/.test(document.querySelector("#freshet-test-result").textContent));
  assert.equal(await admin.locator("#freshet-test-result .notice-error").count(), 0);
  await admin.fill("#freshet-prefix", "/elsewhere");
  await admin.click("#freshet-test");
  await admin.waitForFunction(() => /do not reach Freshet: \/elsewhere\/freshet\.js returned 404/.test(document.querySelector("#freshet-test-result").textContent));
  await admin.click("#freshet-send-all");
  await admin.waitForFunction(() => /^(\d+) of \1 posts sent\.$/.test(document.querySelector("#freshet-progress").textContent));
});

test("the blocks are in the editor", async () => {
  await admin.goto(`${kBase}/wp-admin/post.php?post=${ids.front}&action=edit`);
  const names = await admin.waitForFunction(() => window.wp?.blocks?.getBlockTypes().map(({ name }) => name).filter((name) => name.startsWith("freshet/")).sort().join());
  assert.equal(await names.jsonValue(), "freshet/hot,freshet/recommended");
  const valid = await admin.waitForFunction(() => {
    const blocks = window.wp.data.select("core/block-editor").getBlocks();
    return blocks.length === 2 && blocks.every(({ isValid }) => isValid);
  });
  assert.ok(await valid.jsonValue());
});

// The pages in a real browser with a running service: accessibility, keyboard use, layout, navigation, and outages. What a page
// does with each answer of the service is tested without a browser, in unit/.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { after, before } from "node:test";
import { promisify } from "node:util";
import { eventually, openWindow, startFreshet, test } from "./instance.mjs";

const kAxe = readFileSync(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
const kPages = readdirSync(new URL("../../nginx/html", import.meta.url)).filter((name) => name.endsWith(".html"));
const kCount = 14;
const run = promisify(execFile);

let freshet;
let browser;

before(async () => {
  freshet = await startFreshet();
  browser = await openWindow();
  const now = Math.floor(Date.now() / 1000);
  for (let i = 0; i < kCount; ++i) {
    await freshet.put(`item-${i}`, { title: `About ${i}`, author: `author-${i}`, tags: ["news"], url: `https://example.org/${i}`,
      published_at: now - 60 - 60 * i });
  }
  await freshet.track({ articleId: "item-0", userId: "reader-0", dwellMs: 60000, sessionId: "s" });
  let inARow = 0;  // each of the two workers sees new items at its own time
  await eventually("the items in the index", () => freshet.feed({ action: "peek", limit: 50, agent_id: "probe" }),
    (data) => (inARow = data.new === kCount ? inARow + 1 : 0) >= 10);
});

after(async () => {
  await browser?.close();
  await freshet?.stop();
});

const ids = (page, list) => page.$$eval(`${list} > li[data-id]`, (rows) => rows.map((row) => row.dataset.id));
const waitForText = (page, selector, pattern) => page.waitForFunction(([target, source]) =>
  new RegExp(source).test(document.querySelector(target).textContent), [selector, pattern.source], { polling: 50 });

test("axe finds no serious issue on any page, in light and dark colors", async () => {
  const page = await browser.tab();
  const violations = (options) => page.evaluate(async (chosen) => (await globalThis.axe.run(document, { resultTypes: ["violations"], ...chosen })).violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ target }) => target.join(" ")).join(", ")}`), options);
  for (const base of [freshet.base, freshet.internal]) {
    // The description of the API is long, and the same on both servers.
    for (const name of base === freshet.internal ? [...kPages, "status?html&full"] : kPages.filter((each) => each !== "docs.html")) {
      await page.emulateMedia({ colorScheme: "light" });
      await page.goto(`${base}/${name}${name.includes("?") ? "&" : "?"}user=axe&id=item-0`);
      await page.waitForFunction(() => !/Loading/.test(document.getElementById("state")?.textContent || ""));
      await page.$$eval("details", (all) => all.forEach((each, index) => (each.open = index < 3)));
      await page.evaluate(kAxe);
      // Both servers have the same colors, and the internal one shows more.
      const withColors = base === freshet.internal;
      assert.deepEqual(await violations({ rules: { "color-contrast": { enabled: withColors } } }), [], `${base}/${name}`);
      if (!withColors) continue;
      await page.emulateMedia({ colorScheme: "dark" });
      assert.deepEqual(await violations({ runOnly: ["color-contrast"] }), [], `${base}/${name} in dark colors`);
    }
  }
  await page.close();
});

test("an unknown address gets a page in a browser and a problem document in a program", async () => {
  const page = await browser.tab();
  for (const address of [freshet.base + "/nothing", freshet.internal + "/nothing.html"]) {
    const reply = await page.goto(address);
    assert.equal(reply.status(), 404);
    assert.equal(await page.title(), "Page not found");
    assert.match(reply.headers()["content-security-policy"], /default-src 'none'/);
    const plain = await fetch(address);
    assert.deepEqual([plain.status, (await plain.json()).code], [404, "not_found"]);
  }
  await page.close();
});

test("without a network, the hot page says that it cannot refresh, and shows when its lists were sent", async () => {
  const page = await browser.tab();
  await page.goto(freshet.base + "/");
  await waitForText(page, "#updated", /Updated at \d/);
  const offlineAt = await page.evaluate(() => Date.now());
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  await session.send("Network.emulateNetworkConditions", { offline: true, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  await waitForText(page, "#state", /can’t refresh the lists/);
  const [shownTime, offlineTime] = await page.evaluate((at) => {
    const seconds = (text) => text.match(/\d+/g).slice(0, 3).reduce((sum, part) => sum * 60 + Number(part), 0);
    return [seconds(document.getElementById("updated").textContent), seconds(new Date(at).toLocaleTimeString())];
  }, offlineAt);
  assert.ok(shownTime <= offlineTime + 1, `${shownTime} > ${offlineTime}`);
  await session.send("Network.emulateNetworkConditions", { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: -1 });
  await waitForText(page, "#state", /^$/);
  await page.close();
});

test("each item of a feed has a reason, and a search without matches says so", async () => {
  const page = await browser.tab();
  await page.goto(freshet.base + "/feed.html?agent=searcher");
  await eventually("the first page", () => ids(page, "#feed"), (rows) => rows.length >= 10);
  const reasons = await page.$$eval("#feed li", (rows) => rows.map((row) => row.querySelector(".reason").textContent));
  for (const reason of reasons) assert.match(reason, /^(new|rising now|more to read)$/);
  await page.fill("#query", "xylophone");
  await page.press("#query", "Enter");
  await waitForText(page, "#end", /Nothing new matches “xylophone”/);
  assert.doesNotMatch(await page.textContent("main"), /caught up/);
  await page.close();
});

test("recommendations keep the focus, and every button has a unique name", async () => {
  const page = await browser.tab();
  const focused = () => page.evaluate(() => {
    const active = document.activeElement;
    return [active.closest("li")?.dataset.id, active.textContent];
  });
  await page.goto(freshet.base + "/recommend.html?user=keyboard");
  const shown = await eventually("recommendations", () => ids(page, "#items"), (rows) => rows.length === 10);
  const names = await page.$$eval("button", (all) => all.map((each) => each.getAttribute("aria-label") || each.textContent));
  assert.equal(new Set(names).size, names.length, names.join(", "));

  await page.focus(`#items li[data-id="${shown[2]}"] button`);
  await page.keyboard.press("Enter");
  await eventually("the focus on Undo", focused, ([id, text]) => id === shown[2] && text === "Undo");
  await page.keyboard.press("Enter");
  await eventually("the focus on the restored item", focused, ([id, text]) => id === shown[2] && text === "Not interested");

  await page.focus(`#items li[data-id="${shown[1]}"] a`);
  const [article] = await Promise.all([page.waitForEvent("popup"), page.keyboard.press("Enter")]);
  await article.close();
  await eventually("recommendations without the opened item", () => ids(page, "#items"), (rows) => rows.length === 10 && !rows.includes(shown[1]));
  const [id] = await focused();
  assert.equal((await ids(page, "#items")).indexOf(id), 1, "the focus is on the row that took its position");
  await page.close();
});

test("on the internal server, a row of the hot page explains its position with terms that add up to its points", async () => {
  const page = await browser.tab();
  await page.goto(freshet.internal + "/");
  const row = 'ol[data-model="engagement"] li[data-id="item-0"]';
  await page.waitForSelector(row);
  assert.match(await page.textContent(row + " .about"), /by author-0 · \d+ minutes? ago · source/);
  await page.focus(row + " .toggle");
  await page.keyboard.press("Enter");
  await waitForText(page, row + " .why", /points$/);
  assert.equal(await page.getAttribute(row + " .toggle", "aria-expanded"), "true");
  const stats = await freshet.stats("item-0");
  const points = await page.$$eval(row + " .legend li", (lines) => lines.map((line) => parseFloat(line.textContent)));
  for (const [i, term] of ["pv", "uv", "dwell"].entries())
    assert.ok(Math.abs(points[i] - stats.terms[term]) <= 5e-4 * stats.terms[term], `${points} of ${JSON.stringify(stats.terms)}`);
  // Found and measured in one step, because elements that are replaced in between have no width.
  const widths = await page.evaluate((bar) => [...document.querySelectorAll(bar)].map((part) => part.getBoundingClientRect().width), row + " .bar span");
  const sum = widths.reduce((total, width) => total + width);
  assert.ok(Math.abs((sum - widths[3]) / sum - stats.decay) < 0.01, `${widths} of ${stats.decay}`);
  // A refresh of the list keeps it open and keeps the focus.
  const before = await page.textContent("#updated");
  await page.waitForFunction((text) => document.getElementById("updated").textContent !== text, before, { polling: 50 });
  assert.equal(await page.evaluate(() => document.activeElement.className), "toggle");
  assert.equal(await page.isVisible(row + " .why"), true);
  await page.keyboard.press("Enter");
  assert.equal(await page.isVisible(row + " .why"), false);

  await page.goto(freshet.base + "/");
  await page.waitForSelector(row);
  assert.equal(await page.$$eval(".toggle", (all) => all.length), 0);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("the internal server's page follows and unfollows an author, whose items then have that reason", async () => {
  const page = await browser.tab();
  await page.goto(freshet.internal + "/waterfall.html?channel=follow&user=fan");
  await waitForText(page, "#end", /appear here/);  // otherwise the first page may arrive late and include the item
  await waitForText(page, "#follows", /You don’t follow anyone yet/);
  await page.fill("#author", "author-5");
  await page.press("#author", "Enter");
  await waitForText(page, "#follows", /You follow author-5/);
  await freshet.publish("author-5", ["item-5"]);
  await waitForText(page, "#pull", /Show 1 new/);
  await page.click("#pull");
  await waitForText(page, "#timeline", /by author-5, whom you follow · added/);
  await page.click("#follows button");
  await waitForText(page, "#follows", /You don’t follow anyone yet/);

  await page.goto(freshet.base + "/waterfall.html?channel=follow&user=fan");
  await waitForText(page, "#follows", /internal server/);
  assert.equal(await page.isVisible("#follow"), false);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("a reload restores the list of a feed and of a timeline without requesting it again", async () => {
  await freshet.push("discover", Array.from({ length: kCount }, (_, i) => `item-${i}`), "reloader");
  const page = await browser.tab();
  const firstPages = [];
  page.on("request", (request) => /"refresh"|direction=first/.test(request.url() + request.postData()) && firstPages.push(request.url()));
  for (const [address, list] of [["/feed.html?agent=reloader", "#feed"], ["/waterfall.html?user=reloader", "#timeline"]]) {
    await page.goto(freshet.base + address);
    const shown = await eventually("all items", async () => {
      await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
      return ids(page, list);
    }, (rows) => rows.length === kCount);
    await page.waitForSelector("#end:not([hidden])");
    assert.equal(firstPages.length, 1);
    await page.reload();
    assert.deepEqual(await eventually("the restored rows", () => ids(page, list), (rows) => rows.length > 0), shown);
    await waitForText(page, "#end", /reached the end|caught up/);
    assert.equal(firstPages.length, 1, firstPages.join(" "));
    firstPages.length = 0;
  }
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("the dashboard works while all workers are stuck, and shows samples from before it was opened", async () => {
  const page = await browser.tab();
  await page.goto(freshet.internal + "/dashboard");
  await page.waitForSelector("#charts li");
  const figure = () => page.$eval("#charts li:first-child .figures strong", (shown) => parseFloat(shown.textContent) || 0);
  await eventually("a request rate", async () => {
    await freshet.track({ articleId: "counted", userId: "u", dwellMs: 1, sessionId: "s" });
    return figure();
  }, (perSecond) => perSecond > 0);
  const { processes } = await (await fetch(freshet.internal + "/status?json&full")).json();
  assert.equal(await page.$$eval("#workers tr", (rows) => rows.length), 1 + processes.length);
  assert.match(await page.textContent("#verdict"), /^0 errors, [1-9]\d* warnings?\./);
  assert.match(await page.textContent("#findings .warning"), /there is no model.*Fix: run freshetctl train/);
  const points = (tab) => tab.$$eval("#charts canvas", (all) => all.map((each) => globalThis.Chart.getChart(each).data.datasets[0].data.length));
  const seen = await eventually("some samples", () => points(page), (counts) => counts[0] >= 3);
  assert.equal(seen.length, 10);
  const nextUpdate = async () => {
    const before = await page.textContent("#updated");
    await page.waitForFunction((text) => document.getElementById("updated").textContent !== text, before, { polling: 50 });
  };
  for (const { pid } of processes) process.kill(pid, "SIGSTOP");
  try {
    for (let i = 0; i < 2; ++i) await nextUpdate();
    assert.doesNotMatch(await page.textContent("#state"), /can’t be refreshed/);
    const opened = await browser.tab();
    await opened.emulateMedia({ reducedMotion: "reduce" });
    await opened.setViewportSize({ width: 390, height: 844 });
    await opened.goto(freshet.internal + "/dashboard");
    await opened.waitForSelector("#charts strong");
    assert.ok((await points(opened)).every((count) => count >= seen[0]));
    const drawing = await opened.evaluate(() => {
      const [latency] = [...document.querySelectorAll("#charts canvas")].filter((each) => each.getAttribute("aria-label").startsWith("Latency, "));
      const { data, options } = globalThis.Chart.getChart(latency);
      const lines = data.datasets.map(({ borderColor, borderDash }) => borderColor + " " + borderDash);
      return { lines, moves: options.animation, wide: document.documentElement.scrollWidth, empty: latency.height < 80 };
    });
    assert.equal(new Set(drawing.lines).size, 2);
    assert.deepEqual({ ...drawing, lines: [] }, { lines: [], moves: false, wide: 390, empty: false });
    await opened.close();
  } finally {
    for (const { pid } of processes) {
      try {
        process.kill(pid, "SIGCONT");
      } catch {
        // the master has replaced the worker
      }
    }
  }
  await page.route("**/chart.min.js", (route) => route.abort());
  await page.reload();
  await page.waitForSelector("#charts strong");
  assert.equal(await page.$("#charts canvas"), null);

  await page.goto(freshet.base + "/dashboard.html");
  await waitForText(page, "#state", /only available on the internal server/);
  await page.close();
});

test("on the internal server, an article page shows the text and links the source", async () => {
  const page = await browser.tab();
  await freshet.put("essay", { title: "An essay", author: "ann", text: "Once upon a time", url: "https://example.org/essay", tags: ["news"],
    published_at: Math.floor(Date.now() / 1000) - 3600 });
  await page.goto(freshet.internal + "/article.html?id=essay&first=0.2&every=1");
  await eventually("the report", () => freshet.stats("essay"), ({ pv }) => pv === 1);
  await waitForText(page, "#text", /^Once upon a time$/);
  assert.equal(await page.getAttribute("#about a", "href"), "https://example.org/essay");
  assert.equal(await page.title(), "An essay");
  await page.close();
});

test("while the demo stops Redis, lists are served and writes are queued; they are counted when it is back", async () => {
  await freshet.put("during-outage", { title: "Read while Redis is down", published_at: Math.floor(Date.now() / 1000) });
  const page = await browser.tab();
  await page.goto(freshet.internal + "/");
  await waitForText(page, "#outage .badge", /^Redis: up$/);
  await page.waitForSelector('ol[data-model="engagement"] li');
  const color = () => page.$eval("#outage .badge", (badge) => getComputedStyle(badge).backgroundColor);
  const before = await color();
  await page.click("#outage button");
  let queued = 0;
  await eventually("queued writes", async () => {
    const reply = await fetch(`${freshet.base}/api/track`, { method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ articleId: "during-outage", userId: `u${queued}`, dwellMs: 1000, sessionId: `s${queued}` }) });
    queued += reply.status === 202;
    return queued;
  }, (count) => count >= 20);
  await waitForText(page, "#outage", /Redis is stopped.*Redis: down.*[1-9]\d* writes queued; lists are still served/);
  assert.notEqual(await color(), before);
  await waitForText(page, "#state", /the last known lists/);
  assert.ok((await ids(page, 'ol[data-model="engagement"]')).length > 0);
  await waitForText(page, "#outage", /Redis: up.*all \d+ queued writes were counted/);
  const { pv } = await eventually("the count", () => freshet.stats("during-outage"), (stats) => stats.pv >= queued);
  assert.ok(pv <= queued + 2, `${pv} of ${queued}: only a few early writes may count although they got no answer`);
  await waitForText(page, "#state", /^$/);

  await page.goto(freshet.base + "/");
  await waitForText(page, "#updated", /Updated/);
  assert.equal(await page.isVisible("#outage"), false);
  assert.equal((await fetch(freshet.base + "/demo/stop-redis", { method: "POST" })).status, 404);
  const foreign = await fetch(freshet.internal + "/demo/stop-redis", { method: "POST", headers: { "Sec-Fetch-Site": "cross-site" } });
  assert.equal(foreign.status, 403);
  await page.close();
});

test("sliders show the list with other settings next to the current one, with arrows and the configuration", async () => {
  const now = Math.floor(Date.now() / 1000);
  await freshet.put("old", { title: "Read by many", published_at: now - 3 * 86400 });
  for (let i = 0; i < 40; ++i) await freshet.track({ articleId: "old", userId: `many-${i}`, dwellMs: 0, sessionId: `many-${i}` });
  const page = await browser.tab();
  const [currentIds, previewIds] = ["#today", "#tried"].map((list) => () => ids(page, list));
  await eventually("equal lists, once each worker has all items", async () => {
    await page.goto(freshet.internal + "/whatif.html");
    await page.waitForSelector("#tried li");
    return [await currentIds(), await previewIds()];
  }, ([current, preview]) => current.includes("old") && String(current) === String(preview));
  assert.notEqual((await currentIds())[0], "old");
  assert.equal(await page.textContent("#configuration"), "No changes.");
  for (const name of ["Half-life", "Points per page view", "Points per visitor", "Points per millisecond read"])
    assert.equal(await page.getByRole("slider", { name, exact: true }).count(), 1, name);
  await page.focus('[id="hot.half_life"]');
  await page.keyboard.press("End");
  await eventually("the old article on top", previewIds, (rows) => rows[0] === "old");
  assert.match(await page.textContent("#tried li:first-child .move"), /▲\d/);
  assert.notEqual((await currentIds())[0], "old");
  assert.equal(await page.textContent("#configuration"), 'hot.half_life = "30d"');
  await page.click("#copy");
  await waitForText(page, "#state", /Copied|Selected/);
  assert.equal(await page.evaluate(() => String(getSelection())), 'hot.half_life = "30d"');
  await page.click('button[type="reset"]');
  await eventually("the list as configured", previewIds, (rows) => rows[0] !== "old");

  await page.check('input[value="views"]');
  await page.waitForSelector('[id="views.gamma"]');
  await page.goto(freshet.base + "/whatif.html");
  await waitForText(page, "#state", /only available on the internal server/);
  assert.equal(await page.isVisible("#settings"), false);
  assert.deepEqual(page.problems, []);
  await page.close();
});

test("the panel of API calls selects a command, which a shell can run with the same effect", async () => {
  const page = await browser.tab();
  const expectedCalls = {
    "": "GET /api/hot?model=views&limit=20&mode=current", "feed.html": "POST /api/feed", "whatif.html": "GET /api/hot/preview?model=engagement&limit=100&compare=true",
  };
  for (const [address, name] of Object.entries(expectedCalls)) {
    await page.goto(`${freshet.internal}/${address}${address.includes("?") ? "&" : "?"}user=caller`);
    assert.equal(await page.$eval(".calls", (box) => box.open), false, address);
    await page.click(".calls summary");
    const row = page.locator(".calls li", { has: page.locator("code", { hasText: new RegExp(`^${RegExp.escape?.(name) ?? name.replace(/[.?]/g, "\\$&")}$`) }) });
    await row.waitFor();
    await eventually("the status of " + name, () => row.textContent(), (text) => /200/.test(text));
    await row.getByRole("button").click();
    const command = await row.locator("pre").textContent();
    assert.equal(await page.evaluate(() => String(getSelection())), command);
    const { stdout } = await run("bash", ["-c", `${command} -sS -o /dev/null -w '%{http_code}'`]);
    assert.equal(stdout, "200", command);
  }
  await page.close();
});

test("one click switches to a new reader, and the other pages follow", async () => {
  const page = await browser.tab();
  for (const address of ["", "waterfall.html?channel=follow"]) {
    await page.goto(`${freshet.base}/${address}${address.includes("?") ? "&" : "?"}user=old`);
    assert.equal(await page.textContent("#you strong"), "old");
    await Promise.all([page.waitForEvent("domcontentloaded"), page.getByRole("button", { name: "Switch to a new reader" }).click()]);
    await waitForText(page, "#you strong", /^reader-\w+$/);
    assert.equal(page.url(), `${freshet.base}/${address}`);
    const reader = await page.textContent("#you strong");
    await page.goto(freshet.base + "/");
    assert.equal(await page.textContent("#you strong"), reader);
    assert.equal(await page.$$eval('nav a[href*="user="]', (links) => links.length), 0);
  }
  await page.evaluate(() => localStorage.clear());
  await page.close();
});


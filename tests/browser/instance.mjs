// Starts and stops an instance of Freshet with scripts/run, and opens a Chromium window.
import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as nodeTest } from "node:test";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const kRun = new URL("../../scripts/run", import.meta.url).pathname;
const kBuild = process.env.FRESHET_BUILD_DIR || new URL("../../build/release", import.meta.url).pathname;
const kChromium = process.env.CHROMIUM || "/usr/bin/chromium";
const kFlags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

const run = promisify(execFile);

// Times out before ctest does, so that the report names the hanging test.
const kTestMs = 240000;
export const test = (name, body) => nodeTest(name, { timeout: kTestMs }, body);

// As in tests/support/loopback.py: a loopback address belongs to the process that listens on its kClaimPort.
const [kPort, kInternalPort, kClaimPort] = [18080, 18081, 18079];

function listen(host, port) {
  const server = createServer();
  return new Promise((resolve) => server.on("error", () => resolve(null)).listen(port, host, () => resolve(server)));
}

async function claimAddress() {
  for (;;) {
    const host = `127.${randomInt(1, 255)}.${randomInt(256)}.${randomInt(1, 255)}`;
    const claim = await listen(host, kClaimPort);
    const probes = claim ? [await listen(host, kPort), await listen(host, kInternalPort)] : [null];
    for (const probe of probes) probe?.close();
    if (probes.every(Boolean)) return { host, release: () => claim.close() };
    claim?.close();
  }
}

// Calls `read` until its result satisfies the condition, and returns that result. `what` names it in the error.
export async function eventually(what, read, isSatisfied, limitMs = 60000) {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const result = await read();
    if (isSatisfied(result)) return result;
    if (Date.now() > deadline) throw new Error(`timed out after ${limitMs} ms waiting for ${what}; last result: ${JSON.stringify(result)}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

const painted = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

// Opens an address whose lists wait for `isFilled`, a predicate in the page. Returns how often anything that was painted before
// the responses has moved.
export async function countLayoutShifts(page, address, isFilled) {
  let answer;
  const held = new Promise((resolve) => (answer = resolve));
  await page.route(/\/api\/(hot|recommend)/, async (route) => {
    await held;
    await route.continue();
  });
  await page.goto(address);
  await page.evaluate(() => {
    window.shifts = 0;
    new PerformanceObserver((entries) => (window.shifts += entries.getEntries().length)).observe({ type: "layout-shift" });
  });
  await painted(page);
  answer();
  await page.waitForFunction(isFilled);
  await painted(page);
  return page.evaluate(() => window.shifts);
}

// `directives`: further lines of the configuration.
export async function startFreshet(directives = "") {
  const state = await mkdtemp(join(tmpdir(), "freshet-browser-"));
  const { host, release } = await claimAddress();
  await run("chmod", ["755", state]);
  // Most tests report articles without putting them first, and check the effect of the first report.
  await mkdir(join(state, "etc/conf.d"), { recursive: true });
  await writeFile(join(state, "etc/conf.d/test.toml"), 'items.unknown = "list"\n' + directives);
  await run(kRun, ["--detach", "--no-sample", "--state", state, "--address", host, "--port", kPort, "--internal-port",
    kInternalPort].map(String));
  const base = `http://${host}:${kPort}`;
  const internal = `http://${host}:${kInternalPort}`;
  return {
    base,
    internal,
    async stats(article) {
      return (await fetch(`${internal}/api/articles/${encodeURIComponent(article)}/stats`)).json();
    },
    async put(item, members) {
      // On a busy machine Redis may exceed its 50 ms timeout. A PUT can be repeated.
      const reply = await eventually(`the item ${item}`, () =>
        fetch(`${internal}/api/items/${encodeURIComponent(item)}`, {
          method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify(members),
        }), (answer) => answer.status !== 503);
      if (!reply.ok) throw new Error(`PUT of ${item} returned ${reply.status}: ${await reply.text()}`);
    },
    async importItems(items) {
      const path = join(state, "items.ndjson");
      await writeFile(path, items.map((item) => `${JSON.stringify(item)}\n`).join(""));
      await run(join(kBuild, "scripts/freshetctl"), ["import", path, "--state", state]);
    },
    async publish(author, items) {
      const reply = await eventually("the publication", () =>
        fetch(`${internal}/api/waterfall/follow`, {
          method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ items, followersOf: author }),
        }), (answer) => answer.status !== 503);
      if (!reply.ok) throw new Error(`publishing returned ${reply.status}: ${await reply.text()}`);
    },
    async push(channel, items, reader) {
      // A repeated push changes nothing.
      const reply = await eventually("the push", () =>
        fetch(`${internal}/api/waterfall/${channel}`, {
          method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ items, customers: [reader] }),
        }), (answer) => answer.status !== 503);
      if (!reply.ok) throw new Error(`the push returned ${reply.status}: ${await reply.text()}`);
    },
    async feed(body) {
      const reply = await fetch(`${base}/api/feed`, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
      });
      return (await reply.json()).data;
    },
    async track(body) {
      const reply = await fetch(`${base}/api/track`, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
      });
      if (!reply.ok) throw new Error(`track returned ${reply.status}: ${await reply.text()}`);
      return reply.json();
    },
    async stop() {
      await run(kRun, ["--stop", "--state", state]);
      await rm(state, { recursive: true });
      release();
    },
  };
}

// A window in which only the front tab is visible, as for a user. Playwright's focus emulation keeps every page visible and
// cannot be switched off by an option, so it is disabled through Playwright's internal protocol session; the lock file pins
// the version. `page.problems` collects the page's errors.
export async function openWindow(options = {}) {
  const profile = await mkdtemp(join(tmpdir(), "freshet-chromium-"));
  const context = await chromium.launchPersistentContext(profile, { executablePath: kChromium, headless: true, args: kFlags, ...options });
  return {
    context,
    async tab() {
      const page = await context.newPage();
      const { waitForFunction } = page;  // by default it draws a frame for each check
      page.waitForFunction = (condition, argument, options) => waitForFunction.call(page, condition, argument, { polling: 50, ...options });
      const session = page._connection.toImpl(page).delegate._mainFrameSession._client;
      await session.send("Emulation.setFocusEmulationEnabled", { enabled: false });
      page.problems = [];
      page.on("pageerror", (error) => page.problems.push(String(error)));
      page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
      return page;
    },
    async close() {
      await context.close();
      await rm(profile, { recursive: true, maxRetries: 5 });
    },
  };
}

// A running Freshet of its own, started and stopped as a person would, and a Chromium in front of it.
import { execFile } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test as withoutBound } from "node:test";
import { promisify } from "node:util";
import { chromium } from "playwright-core";

const kRun = new URL("../../scripts/run", import.meta.url).pathname;
const kChromium = process.env.CHROMIUM || "/usr/bin/chromium";
const kFlags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];

const run = promisify(execFile);

// A test that hangs is named here, before ctest ends the whole file without a word.
const kTestMs = 240000;
export const test = (name, body) => withoutBound(name, { timeout: kTestMs }, body);

// As in tests/support/loopback.py: an address of our own, as long as somebody listens on its port kClaim.
const [kPort, kInternalPort, kClaim] = [18080, 18081, 18079];

function listen(host, port) {
  const server = createServer();
  return new Promise((resolve) => server.on("error", () => resolve(null)).listen(port, host, () => resolve(server)));
}

async function claimAddress() {
  for (;;) {
    const host = `127.${randomInt(1, 255)}.${randomInt(256)}.${randomInt(1, 255)}`;
    const claim = await listen(host, kClaim);
    const probes = claim ? [await listen(host, kPort), await listen(host, kInternalPort)] : [null];
    for (const probe of probes) probe?.close();
    if (probes.every(Boolean)) return { host, release: () => claim.close() };
    claim?.close();
  }
}

// Asks again until the answer satisfies the condition, and returns that answer.
export async function eventually(what, ask, satisfied, limitMs = 60000) {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const answer = await ask();
    if (satisfied(answer)) return answer;
    if (Date.now() > deadline) throw new Error(`waited ${limitMs} ms in vain for ${what}; last: ${JSON.stringify(answer)}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

export async function startFreshet() {
  const state = await mkdtemp(join(tmpdir(), "freshet-browser-"));
  const { host, release } = await claimAddress();
  await run("chmod", ["755", state]);
  // Most tests name articles that they never put, and look at what a first report did.
  await mkdir(join(state, "etc/conf.d"), { recursive: true });
  await writeFile(join(state, "etc/conf.d/test.toml"), 'items.unknown = "list"\n');
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
      // A busy machine's Redis may take longer than its 50 ms; a PUT can be repeated.
      const reply = await eventually(`the item ${item}`, () =>
        fetch(`${internal}/api/items/${encodeURIComponent(item)}`, {
          method: "PUT", headers: { "Content-Type": "application/json" }, body: JSON.stringify(members),
        }), (answer) => answer.status !== 503);
      if (!reply.ok) throw new Error(`the item was answered ${reply.status}: ${await reply.text()}`);
    },
    async publish(author, items) {
      const reply = await eventually("the publication", () =>
        fetch(`${internal}/api/waterfall/follow`, {
          method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ items, followersOf: author }),
        }), (answer) => answer.status !== 503);
      if (!reply.ok) throw new Error(`the publication was answered ${reply.status}: ${await reply.text()}`);
    },
    async push(channel, items, reader) {
      // Pushing again changes nothing.
      const reply = await eventually("the push", () =>
        fetch(`${internal}/api/waterfall/${channel}`, {
          method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ items, customers: [reader] }),
        }), (answer) => answer.status !== 503);
      if (!reply.ok) throw new Error(`the push was answered ${reply.status}: ${await reply.text()}`);
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
      if (!reply.ok) throw new Error(`track answered ${reply.status}: ${await reply.text()}`);
      return reply.json();
    },
    async stop() {
      await run(kRun, ["--stop", "--state", state]);
      await rm(state, { recursive: true });
      release();
    },
  };
}

// A window whose tabs hide each other, as a person's do. Playwright keeps every page "visible" by focus emulation and has
// no switch for it, so it is taken back by its own protocol session; the version is fixed by the lock file.
export async function openWindow(options = {}) {
  const profile = await mkdtemp(join(tmpdir(), "freshet-chromium-"));
  const context = await chromium.launchPersistentContext(profile, { executablePath: kChromium, headless: true, args: kFlags, ...options });
  return {
    context,
    async tab() {
      const page = await context.newPage();
      const session = page._connection.toImpl(page).delegate._mainFrameSession._client;
      await session.send("Emulation.setFocusEmulationEnabled", { enabled: false });
      page.troubles = [];
      page.on("pageerror", (error) => page.troubles.push(String(error)));
      page.on("console", (message) => message.type() === "error" && page.troubles.push(message.text()));
      return page;
    },
    async close() {
      await context.close();
      await rm(profile, { recursive: true, maxRetries: 5 });
    },
  };
}

// Compares the visible time by the page's own clock with the counters. Nothing else may run at the same time.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { eventually, openWindow, startFreshet, test } from "./instance.mjs";

const kToleranceMs = 500;  // from the start of the document to that of freshet.js

let freshet;
let browser;

before(async () => {
  freshet = await startFreshet();
  browser = await openWindow();
});

after(async () => {
  await browser?.close();
  await freshet?.stop();
});

const articleUrl = (id, more = "") => `${freshet.base}/article.html?id=${id}${more}`;
const waitUntilVisibleFor = (page, seconds) =>
  page.waitForFunction((minimum) => Number(document.getElementById("seconds").textContent) >= minimum, seconds);
// Records the times [load, hidden, shown, …] by the page's clock, because this process sees a tab switch late on a busy machine.
const recordSwitches = (page) => page.addInitScript(() => {
  const record = () => sessionStorage.setItem("switches", JSON.stringify([...JSON.parse(sessionStorage.getItem("switches") ?? "[]"), Date.now()]));
  record();
  document.addEventListener("visibilitychange", record);
});
const switches = (page) => page.evaluate(() => JSON.parse(sessionStorage.getItem("switches")));
const waitForVisibility = (page, state) => page.waitForFunction((expected) => document.visibilityState === expected, state, { polling: 20 });

test("dwell counts exactly the time during which the page is visible", async () => {
  const page = await browser.tab();
  const other = await browser.tab();
  await page.bringToFront();
  await recordSwitches(page);
  await page.goto(articleUrl("visible"));
  await waitUntilVisibleFor(page, 2);

  await other.bringToFront();
  await waitForVisibility(page, "hidden");
  const [entered, hidden] = await switches(page);
  const first = await eventually("the report of the hidden page", () => freshet.stats("visible"), (stats) => stats.dwell?.sum_ms > 0);
  assert.ok(Math.abs(first.dwell.sum_ms - (hidden - entered)) <= kToleranceMs, `${first.dwell.sum_ms} of ${hidden - entered} ms`);
  await other.waitForFunction((until) => Date.now() >= until, hidden + 2000);

  await page.bringToFront();
  await waitForVisibility(page, "visible");
  await waitUntilVisibleFor(page, 4);
  await page.goto(freshet.base + "/");
  const [, , returned, left] = await switches(page);
  const visibleMs = hidden - entered + left - returned;
  const stats = await eventually("the report on leaving the page", () => freshet.stats("visible"),
    ({ dwell }) => dwell.sum_ms > first.dwell.sum_ms);
  assert.ok(Math.abs(stats.dwell.sum_ms - visibleMs) <= kToleranceMs, `${stats.dwell.sum_ms} of ${visibleMs} ms`);
  assert.ok(stats.dwell.sum_ms < left - entered - 1500, "hidden time must not count");
  assert.deepEqual([stats.pv, stats.uv, stats.dwell.count], [1, 1, 1]);
  assert.deepEqual(page.problems, []);
  await page.close();
  await other.close();
});

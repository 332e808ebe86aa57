// How long a page was shown, by the page's own clock and by the counters: nothing else may run meanwhile.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { eventually, openWindow, startFreshet, test } from "./instance.mjs";

const kToleranceMs = 500;  // between the document's begin and freshet.js's

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
const secondsShown = (page, seconds) =>
  page.waitForFunction((least) => Number(document.getElementById("seconds").textContent) >= least, seconds);
// [when it began, was hidden, was shown, …]: the page's own clock, since ours sees a tab switch late on a busy machine.
const noteSwitches = (page) => page.addInitScript(() => {
  const note = () => sessionStorage.setItem("switches", JSON.stringify([...JSON.parse(sessionStorage.getItem("switches") ?? "[]"), Date.now()]));
  note();
  document.addEventListener("visibilitychange", note);
});
const switches = (page) => page.evaluate(() => JSON.parse(sessionStorage.getItem("switches")));
const becomes = (page, state) => page.waitForFunction((wanted) => document.visibilityState === wanted, state, { polling: 20 });

test("the counters hold the time that the page was visible: enter, stay, hide, return, leave", async () => {
  const page = await browser.tab();
  const other = await browser.tab();
  await page.bringToFront();
  await noteSwitches(page);
  await page.goto(articleUrl("visible"));
  await secondsShown(page, 2);

  await other.bringToFront();
  await becomes(page, "hidden");
  const [entered, hidden] = await switches(page);
  const first = await eventually("the report of the hidden page", () => freshet.stats("visible"), (stats) => stats.dwell?.sum_ms > 0);
  assert.ok(Math.abs(first.dwell.sum_ms - (hidden - entered)) <= kToleranceMs, `${first.dwell.sum_ms} of ${hidden - entered} ms`);
  await other.waitForFunction((until) => Date.now() >= until, hidden + 2000);

  await page.bringToFront();
  await becomes(page, "visible");
  await secondsShown(page, 4);
  await page.goto(freshet.base + "/");
  const [, , returned, left] = await switches(page);
  const visibleMs = hidden - entered + left - returned;
  const stats = await eventually("the report of the page that was left", () => freshet.stats("visible"),
    ({ dwell }) => dwell.sum_ms > first.dwell.sum_ms);
  assert.ok(Math.abs(stats.dwell.sum_ms - visibleMs) <= kToleranceMs, `${stats.dwell.sum_ms} of ${visibleMs} ms`);
  assert.ok(stats.dwell.sum_ms < left - entered - 1500, "the hidden time is not in it");
  assert.deepEqual([stats.pv, stats.uv, stats.dwell.count], [1, 1, 1]);
  assert.deepEqual(page.troubles, []);
  await page.close();
  await other.close();
});

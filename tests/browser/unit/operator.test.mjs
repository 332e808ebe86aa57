// The operator's pages: dashboard.js, whatif.js and docs.js.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gate, kNow, lost, openPage, reply, settle, source } from "./page.mjs";

const kSeconds = kNow / 1000;
const kOnlyInternal = "This page is only available on the internal server.";

// --- Dashboard ---------------------------------------------------------------------------------------------------------------

const kHistory = {
  "ms ago": [120000, 60000, 0], requests: [10, 12345.6, 5.25], "p50 ms": [1, null, 0.5], "p99 ms": [2, 3, 11.6], "4xx": [0, 0, 0], "5xx": [0, 1, 0],
  "idle processes": [1, 2, 3], "active processes": [3, 2, 1], "redis p50 ms": [1, 1, 1], "redis p99 ms": [2, 2, 2], "redis errors": [0, 0, 0],
  "redis used bytes": [1048576, 2097152, 1572864], "hot list hits percent": [null, null, null], "card hits percent": [100, 100, 99.96],
  "degraded percent": [0, 0, 0], "waiting writes": [1, 2, 3], "recorder lag entries": [4, 5, 6],
};
const kHealthy = {
  history: kHistory, "start time": kSeconds - 7200, "last reload": 0, reloads: 4, "failed reloads": 0, respawns: 0, "redis ready": 2, "total processes": 2,
  "redis breakers open": 0, "redis lost since": 0, "redis max bytes": 4194304, "redis used bytes": 1572864, "redis full": 0, "redis full in hours": 24,
  "spooled bytes": 0, recorder: "running", "recorder reason": "", "recorder holder": "host-2", "recorder lag age ms": 60000, "recorder lag entries": 12,
  "recorder items": 12345, "hot list": "trending; half_life=15m", feed: "scale=7d; interests=0.02; trend=0.05", "hot list tuned at": kSeconds - 7200, "hot rank": 6789, "model trained at": kSeconds - 2 * 86400, "slow requests": 7, "over budget": 8, missing: "",
  refused: { limits: 5, bots: 1200, body: 0 }, "max listen queue": 64, "listen queue len": 128,
  processes: [{ pid: 11, state: "Idle", stage: "", requests: 5, "in flight": 0, "request duration": 1234, "last request memory": 1572864, "redis ready": 1 },
    { pid: 12, state: "Running", stage: "redis", requests: 6, "in flight": 1, "request duration": 50, "last request memory": 0, "redis ready": 0 }],
};
const kTop = [{ id: "a b", title: "About a", score: 1234.56 }, { id: "c", score: 1 }];

async function openDashboard(context, changes = {}, { chart, answer = {}, ...options } = {}) {
  const status = { ...kHealthy, ...changes };
  const page = await openPage(context, "/dashboard", { zone: "internal", chart, ...options,
    answer: { "GET /status": () => ({ ...status }), "GET /api/hot": () => kTop, ...answer } });
  page.facts = () => Object.fromEntries(page.$$("#facts dt").map((term) => [term.textContent, [term.nextSibling.textContent, term.nextSibling.className].filter(Boolean).join(" ")]));
  page.findings = () => page.$$("#findings li").map((row) => `${row.className}: ${row.textContent}`);
  return Object.assign(page, { current: status });
}

test("the dashboard shows the figures of the last sample, and the maximum", async (context) => {
  const page = await openDashboard(context);
  assert.deepEqual(page.taken(), ["GET /status?json&full&history", "GET /api/hot?model=engagement&limit=5"]);
  assert.deepEqual(page.$$("#charts li").map((box) => [box.querySelector("h3").textContent, box.querySelector(".figures").textContent.trim(), box.querySelector(".hint").textContent]), [
    ["Requests", "5.3 /s", "max 12,346 /s"], ["Latency", "0.50 ms p50 12 ms p99", "max 12 ms"], ["Errors", "0 /s 4xx 0 /s 5xx", "max 1 /s"],
    ["Workers", "3  idle 1  busy", "max 3"], ["Redis latency", "1 ms p50 2 ms p99", "max 2 ms"], ["Redis errors", "0 /s", "max 0 /s"],
    ["Redis memory", "1.5 MiB", "max 2 MiB"], ["Cache hits", "– % hot lists 100 % items", "max 100 %"], ["Degraded feed pages", "0 %", "max 0 %"],
    ["Queued writes", "3  spooled 6  recorder lag", "max 6"]]);
  assert.deepEqual(page.$$("#charts li:nth-child(2) .figures > span").map(({ className }) => className), ["line-0", "line-1"]);
  assert.equal(page.$("#charts canvas"), null, "Chart.js is missing");
  assert.equal(page.text("#updated"), `Updated at ${new Date(kNow).toLocaleTimeString()}.`);
  const empty = await openDashboard(context, { history: { ...Object.fromEntries(Object.keys(kHistory).map((name) => [name, []])) } });
  assert.deepEqual([empty.text("#charts .figures").trim(), empty.text("#charts .hint")], ["– /s", ""]);
});

test("the dashboard shows facts, workers, refused requests and the top articles", async (context) => {
  const page = await openDashboard(context);
  assert.deepEqual(page.facts(), { Started: "2 hours ago", "Last reload": "never", Reloads: "4 (0 failed)", "Worker crashes": "0", Redis: "2 of 2 workers connected",
    "Open circuit breakers": "0", "Redis data": "present", "Redis memory": "1.5 MiB of 4.0 MiB", Spool: "0.0 MiB", Recorder: "running", "Recorder lag": "12 entries, 60 s",
    "Items in the database": "12,345", "Hot list": "trending; half_life=15m, chosen by freshetctl tune 2 hours ago", Feed: "scale=7d; interests=0.02; trend=0.05", "Articles in hot:rank": "6,789", Model: "trained 2 days ago", "Slow requests": "7", "Requests over budget": "8" });
  assert.deepEqual(page.$$("#workers tr").map((row) => [...row.children].map((cell) => cell.textContent)), [
    ["pid", "state", "stage", "requests", "in flight", "busy for", "memory", "Redis"],
    ["11", "Idle", "", "5", "0", "1.2 ms", "1.5 MiB", "ready"], ["12", "Running", "redis", "6", "1", "0.1 ms", "0.0 MiB", "unavailable"]]);
  assert.deepEqual(page.$$("#workers th").map(({ scope }) => scope), Array(8).fill("col"));
  assert.deepEqual(page.texts("#refused dt, #refused dd"), ["bots", "1,200", "limits", "5"]);
  assert.deepEqual(page.texts("#top li"), ["About a1235 points", "c1.000 points"]);
  assert.equal(page.$("#top a").getAttribute("href").replace(/&user=.*/, ""), "/article.html?id=a+b");
  assert.equal(page.$("#top span").className, "about");
});

test("facts that need attention are marked", async (context) => {
  const page = await openDashboard(context, { "last reload": kSeconds - 60, "failed reloads": 1, respawns: 1, "redis ready": 1, "redis breakers open": 1, "redis lost since": kSeconds - 60,
    "redis max bytes": 0, "redis full": 1, "spooled bytes": 1048576, recorder: "paused", "recorder reason": "redis", "recorder lag age ms": 61000, "model trained at": 0,
    refused: { limits: 0 }, processes: undefined });
  const facts = page.facts();
  assert.deepEqual(Object.entries(facts).filter(([, value]) => value.endsWith(" bad")), Object.entries({
    Reloads: "4 (1 failed) bad", "Worker crashes": "1 bad", Redis: "1 of 2 workers connected bad", "Open circuit breakers": "1 bad",
    "Redis data": "lost 1 minute ago; run freshetctl rebuild-redis bad", "Redis memory": "1.5 MiB, no maxmemory bad", Spool: "1.0 MiB bad",
    Recorder: "paused: redis bad", "Recorder lag": "12 entries, 61 s bad" }));
  assert.deepEqual([facts["Last reload"], facts.Model], ["1 minute ago", "none"]);
  assert.deepEqual(page.texts("#refused dt, #refused dd"), ["none", "0"]);
  assert.equal(page.$$("#workers tr").length, 1);
});

test("a healthy service has no findings", async (context) => {
  const page = await openDashboard(context);
  assert.deepEqual(page.findings(), []);
  assert.equal(page.text("#verdict"), "0 errors, 0 warnings. Run freshetctl doctor to check files, nginx and Redis' settings as well.");
  assert.equal(page.status(), "");
});

const kFindings = [
  [{ "redis lost since": kSeconds - 3600 }, "error", "redis.items: Redis lost its data 1 hour ago", "run freshetctl rebuild-redis"],
  [{ "redis ready": 0, "redis breakers open": 2 }, "error", "redis: no worker can reach Redis", "start the service of Redis or Valkey, or correct redis.url"],
  [{ "redis breakers open": 1 }, "warning", "redis: 1 worker stopped calling Redis for now (circuit breaker open)", "check Redis' log: it is slow or refuses connections"],
  [{ "redis full": 1 }, "error", "redis.memory: Redis is nearly full: public writes are queued in the spool", "raise maxmemory, or lower list.max_members and the TTLs"],
  [{ "redis max bytes": 0 }, "warning", "redis.memory: maxmemory is not set: Redis can use up the host's memory", "set maxmemory in redis.conf, and at once with redis-cli CONFIG SET"],
  [{ "redis full in hours": 23.96 }, "warning", "redis.forecast: Redis will be full in 24.0 hours at the current rate", "raise maxmemory; freshetctl top-contributors shows who writes most"],
  [{ recorder: "stopped" }, "error", "recorder.alive: the recorder is stopped", "see journalctl -u freshet; check the disk of recorder.database"],
  [{ recorder: "paused", "recorder reason": "redis" }, "error", "recorder.alive: the recorder is paused: redis", "see journalctl -u freshet; check the disk of recorder.database"],
  [{ recorder: "paused", "recorder reason": "lease_held" }, "error", "recorder.alive: the recorder is paused: lease_held (host-2)", "see journalctl -u freshet; check the disk of recorder.database"],
  [{ recorder: "paused", "recorder reason": "database_mismatch" }, "error", "recorder.alive: the recorder is paused: database_mismatch (host-2)", "see journalctl -u freshet; check the disk of recorder.database"],
  [{ "recorder lag age ms": 60001 }, "warning", "recorder.stream: 12 stream entries are not recorded yet, the oldest for 1 minute", "find out why the recorder lags: check the disk of recorder.database"],
  [{ missing: "model,index" }, "warning", "ready: no worker can search: feeds only have hot and new items", "run freshetctl doctor; on a host without a recorder, check search.shards"],
  [{ "model trained at": 0 }, "warning", "files.model: there is no model: recommendations are based on trends only", "run freshetctl train, and systemctl enable --now freshet-train.timer"],
  [{ "model trained at": kSeconds - 2 * 86400 - 1 }, "warning", "files.model: the model was trained 2 days ago", "check systemctl status freshet-train.timer freshet-train.service"],
  [{ "failed reloads": 2 }, "warning", "config: 2 reloads failed", "check the file with freshetd -t; see journalctl -u freshet"],
  [{ respawns: 1 }, "warning", "pool: 1 worker crashed", "see journalctl -u freshet and coredumpctl"],
  [{ "max listen queue": 65 }, "warning", "config.backlog: 65 connections waited at the same time", "raise pm.max_children, or listen.backlog and net.core.somaxconn"],
];

test("each finding says what is wrong and how to fix it", async (context) => {
  const page = await openDashboard(context);
  for (const [changes, severity, text, fix] of kFindings) {
    Object.keys(page.current).forEach((name) => delete page.current[name]);
    Object.assign(page.current, kHealthy, { "model trained at": (page.clock.now + 2000) / 1000 - 2 * 86400 }, changes);
    await page.tick(2000);
    assert.deepEqual(page.findings(), [`${severity}: ${severity} ${text}Fix: ${fix}`]);
    assert.equal(page.status(), severity === "error" ? `Needs attention: ${text.slice(text.indexOf(": ") + 2)}.` : "");
    assert.match(page.text("#verdict"), severity === "error" ? /^1 error, 0 warnings\. / : /^0 errors, 1 warning\. /);
  }
  assert.equal(page.$("#findings strong").textContent, "warning");
  assert.equal(page.$("#findings span").className, "about");
});

test("all errors are in the status", async (context) => {
  const page = await openDashboard(context, { "redis full": 1, recorder: "stopped", respawns: 1 });
  assert.equal(page.status(), "Needs attention: Redis is nearly full: public writes are queued in the spool; the recorder is stopped.");
});

// A fake Chart.js that records what it is given.
class FakeChart {
  static all = [];
  updates = [];
  constructor(canvas, config) {
    Object.assign(this, config, { canvas });
    for (const scale of Object.values(config.options.scales)) scale.grid ??= {};
    FakeChart.all.push(this);
  }
  update(mode) {
    this.updates.push(mode);
  }
}
const plain = (value) => JSON.parse(JSON.stringify(value));

test("charts are drawn once and updated with each sample", async (context) => {
  FakeChart.all = [];
  const page = await openDashboard(context, {}, { chart: FakeChart, setUp: ({ document }) => {
    for (const [name, color] of [["--first", "blue"], ["--second", "red"], ["--line", "gray"], ["--soft", "silver"]]) document.documentElement.style.setProperty(name, ` ${color} `);
  } });
  assert.equal(FakeChart.all.length, 10);
  const [, latency] = FakeChart.all;
  const dataset = { borderWidth: 2, pointRadius: 0, pointHitRadius: 8 };
  assert.equal(latency.type, "line");
  assert.deepEqual(plain(latency.data), { datasets: [
    { data: [{ x: -2, y: 1 }, { x: -1, y: null }, { x: 0, y: 0.5 }], borderDash: [], ...dataset, borderColor: "blue" },
    { data: [{ x: -2, y: 2 }, { x: -1, y: 3 }, { x: 0, y: 11.6 }], borderDash: [5, 3], ...dataset, borderColor: "red" }] });
  const colors = { color: "silver" };
  const grid = { color: "gray", borderColor: "gray" };
  assert.deepEqual(plain(latency.options), {
    animation: false, maintainAspectRatio: false, normalized: true, parsing: false, plugins: { legend: { display: false }, tooltip: { enabled: false } },
    scales: { x: { type: "linear", min: -5, max: 0, grid: { display: false, ...grid }, ticks: { stepSize: 1, autoSkip: false, maxRotation: 0, ...colors } },
      y: { beginAtZero: true, grace: "5%", ticks: { maxTicksLimit: 3, ...colors }, grid } } });
  const { x, y } = latency.options.scales;
  assert.deepEqual([-5, -4, -1, 0].map((minute) => x.ticks.callback(minute)), ["5 min ago", "", "", "now"]);
  assert.deepEqual([null, 0, 0.123, 9.99, 10, 1234.5].map((value) => y.ticks.callback(value)), ["–", "0", "0.12", "10", "10", "1,235"]);
  assert.equal(latency.canvas.getAttribute("role"), "img");
  assert.equal(latency.canvas.parentNode.className, "plot");
  assert.equal(latency.canvas.getAttribute("aria-label"), "Latency, last 5 minutes: 0.50 ms p50 12 ms p99, max 12 ms");
  assert.deepEqual(latency.updates, ["none"]);
  const memory = FakeChart.all[6];
  assert.deepEqual(plain(memory.data.datasets[0].data), [{ x: -2, y: 1 }, { x: -1, y: 2 }, { x: 0, y: 1.5 }]);
  page.current.history = { ...kHistory, "hot list hits percent": [null], "card hits percent": [null], "ms ago": [0] };
  await page.tick(2000);
  assert.deepEqual([FakeChart.all.length, latency.updates], [10, ["none", "none"]]);
  assert.equal(FakeChart.all[7].canvas.getAttribute("aria-label"), "Cache hits, last 5 minutes: – % hot lists – % items");
});

test("the dashboard is refreshed every two seconds while it is visible", async (context) => {
  const page = await openDashboard(context);
  page.taken();
  await page.tick(1999);
  assert.deepEqual(page.taken(), []);
  await page.tick(1);
  assert.equal(page.taken().length, 2);
  page.setVisible(false);
  await page.tick(10000);
  assert.deepEqual(page.taken(), []);
});

test("a dashboard that cannot be refreshed says why, and keeps its figures", async (context) => {
  const page = await openDashboard(context);
  for (const [answer, reason] of [[reply(503, {}), "the service returned HTTP 503"], [lost(), "the service is unreachable"]]) {
    page.answer["GET /status"] = () => answer;
    await page.tick(2000);
    assert.equal(page.status(), `The dashboard can’t be refreshed: ${reason}.`);
    assert.equal(page.text("#charts h3"), "Requests");
  }
});

test("the dashboard works while the workers are stuck", async (context) => {
  const page = await openDashboard(context, {}, { answer: { "GET /api/hot": ({ signal }) => {
    assert.ok(signal, "the request has a time limit");
    return new Promise(() => {});
  } } });
  assert.equal(page.status(), "");
  page.taken();
  await page.tick(2000);
  assert.deepEqual(page.taken(), ["GET /status?json&full&history", "GET /api/hot?model=engagement&limit=5"]);
  const credited = await openDashboard(context, {}, { answer: { "GET /api/hot": () => [{ ...kTop[0], url: "https://quantumcomputing.stackexchange.com/q/12" }] } });
  assert.ok(credited.$("#attribution"));
});

test("the public server's dashboard requests nothing", async (context) => {
  const page = await openDashboard(context, {}, { zone: "public" });
  assert.deepEqual([page.status(), page.taken()], [kOnlyInternal, []]);
});

// --- What if -------------------------------------------------------------------------------------------------------------------

const kSettings = { "hot.half_life": 21600, "hot.pv_weight": 1, "hot.uv_weight": 5, "hot.dwell_weight": 0.001, "views.gamma": 1.5, "views.base_hours": 2 };
const listed = (...ids) => ids.map((id, i) => ({ id, title: `About ${id}`, score: 100 / 2 ** i }));

const previewReply = (lists, settings = kSettings) => reply(200, lists, { "Freshet-Settings": JSON.stringify(settings) });

// `preview` gives the list under a request's settings. In one response, `count` is the same.
async function openWhatIf(context, preview = () => listed("a", "b", "c"), options = {}) {
  let count = 0;
  const page = await openPage(context, "/whatif.html", { zone: "internal", ...options, answer: { "GET /api/hot/preview": (request) => {
    const found = preview(request, ++count);
    const { model, limit, compare, mode } = request.query;
    return Array.isArray(found) ? previewReply({ preview: found, configured: preview({ query: { model, limit, compare, mode } }, count) }) : found;
  } } });
  page.slider = (name) => page.document.getElementById(name);
  page.move = (name, position) => {
    page.slider(name).value = position;
    page.fire(page.slider(name), "input");
  };
  page.outputs = () => page.$$("#sliders label").map((label) => label.textContent);
  page.form = page.$("#settings");
  return page;
}

test("the sliders have the configured values, and both lists are equal", async (context) => {
  const page = await openWhatIf(context);
  assert.deepEqual(page.taken(), ["GET /api/hot/preview?model=engagement&limit=100&compare=true"]);
  assert.deepEqual(page.outputs(), ["Half-life6h", "Points per page view1", "Points per visitor5", "Points per millisecond read0.001"]);
  assert.deepEqual(page.$$("#sliders input").map(({ id, type, min, max, step, value }) => [id, type, min, max, step, value]), [
    ["hot.half_life", "range", "0", "13", "1", "6"], ["hot.pv_weight", "range", "0", "100", "1", "10"], ["hot.uv_weight", "range", "0", "100", "1", "50"],
    ["hot.dwell_weight", "range", "0", "100", "1", "10"]]);
  assert.equal(page.$("#sliders input").getAttribute("aria-valuetext"), "6h");
  assert.deepEqual([page.ids("#today"), page.ids("#tried"), page.text("#configuration")], [["a", "b", "c"], ["a", "b", "c"], "No changes."]);
  assert.deepEqual([page.texts("#tried .move"), page.status()], [["", "", ""], ""]);
  await page.tick(10000);
  assert.deepEqual(page.taken(), []);
  assert.equal(page.text("#about"), "Re-scores the current top 10,000.");
  const [row] = page.$$("#today li");
  assert.equal(row.style.getPropertyValue("--share"), "1");
  assert.equal(page.$$("#today li")[1].style.getPropertyValue("--share"), "0.5");
  assert.equal(row.textContent, "1About a100.0 points");
  assert.equal(row.querySelector("a").getAttribute("href").replace(/&user=.*/, ""), "/article.html?id=a");
  assert.deepEqual([...row.children].map(({ className }) => className), ["rank", "what", "where"]);
});

test("a slider is named by its label, without its value", async (context) => {
  const page = await openWhatIf(context);
  const name = ({ labels }) => [...labels].flatMap((label) => [...label.childNodes].filter((node) => node.getAttribute?.("aria-hidden") !== "true"))
    .filter((node) => node.nodeName !== "INPUT").map((node) => node.textContent).join("");
  assert.deepEqual(page.$$("#sliders input").map(name), ["Half-life", "Points per page view", "Points per visitor", "Points per millisecond read"]);
  assert.deepEqual(page.$$("#sliders output").map(({ labels }) => labels.length), [0, 0, 0, 0]);
});

test("both lists are of one moment, while articles are read", async (context) => {
  const page = await openWhatIf(context, ({ query }, count) => [...listed("a", "b"), { id: query["hot.pv_weight"] ? `tried-${count}` : `read-${count}`, score: 1 }]);
  await page.tick(1000);
  assert.deepEqual([page.text("#configuration"), page.ids("#today"), page.ids("#tried")], ["No changes.", ["a", "b", "read-1"], ["a", "b", "read-1"]]);
  page.move("hot.pv_weight", 20);
  await page.tick(150);
  assert.deepEqual([page.ids("#today"), page.ids("#tried")], [["a", "b", "read-2"], ["a", "b", "tried-2"]]);
});

test("a moved slider changes the preview once it rests, and the configuration at once", async (context) => {
  const page = await openWhatIf(context, ({ query }) => (query["hot.half_life"] ? listed("c", "n", "a", "b") : listed("a", "b", "c")));
  await page.tick(150);
  page.taken();
  page.move("hot.half_life", 12);
  await page.tick(100);
  page.move("hot.half_life", 13);
  assert.equal(page.text("#configuration"), 'hot.half_life = "30d"');
  assert.equal(page.outputs()[0], "Half-life30d");
  assert.equal(page.slider("hot.half_life").getAttribute("aria-valuetext"), "30d");
  await page.tick(149);
  assert.deepEqual(page.taken(), []);
  await page.tick(1);
  assert.deepEqual(page.taken(), ["GET /api/hot/preview?model=engagement&limit=100&compare=true&hot.half_life=30d"]);
  assert.deepEqual(page.$$("#tried li").map((row) => [row.dataset.id, row.querySelector(".move").className, row.querySelector(".move").textContent]),
    [["c", "move up", "▲2"], ["n", "move new", "new"], ["a", "move down", "▼2"], ["b", "move down", "▼2"]]);
  assert.equal(page.ids("#today")[0], "a");
  page.move("hot.pv_weight", 20);
  page.move("hot.uv_weight", 57);
  page.move("hot.dwell_weight", 23);
  assert.equal(page.text("#configuration"), 'hot.half_life = "30d"\nhot.pv_weight = 2.0\nhot.uv_weight = 5.7\nhot.dwell_weight = 0.0023');
  assert.deepEqual(page.outputs(), ["Half-life30d", "Points per page view2", "Points per visitor5.7", "Points per millisecond read0.0023"]);
});

test("the half-life's positions are durations from ten minutes to thirty days", async (context) => {
  const page = await openWhatIf(context);
  const shown = [];
  for (let position = 0; position <= 13; ++position) {
    page.move("hot.half_life", position);
    shown.push(page.outputs()[0].slice("Half-life".length));
  }
  assert.deepEqual(shown, ["10m", "20m", "30m", "1h", "2h", "3h", "6h", "12h", "1d", "2d", "3d", "7d", "14d", "30d"]);
});

test("a half-life between two positions shows as configured, at the nearest by ratio", async (context) => {
  for (const [seconds, position, text] of [[599, "0", "10m"], [848, "0", "14m"], [849, "1", "14m"], [5000000, "13", "83333m"], [4800, "3", "80m"], [5200, "4", "87m"]]) {
    const page = await openPage(context, "/whatif.html", { zone: "internal",
      answer: { "GET /api/hot/preview": () => previewReply({ preview: [], configured: [] }, { ...kSettings, "hot.half_life": seconds }) } });
    assert.deepEqual([page.$("#sliders input").value, page.$("#sliders output").textContent], [position, text]);
  }
});

test("the other model has other sliders, without the first one's changes", async (context) => {
  const page = await openWhatIf(context);
  page.move("hot.pv_weight", 20);
  await page.tick(150);
  page.taken();
  await page.click('input[value="views"]');
  assert.deepEqual(page.taken(), ["GET /api/hot/preview?model=views&limit=100&compare=true&mode=current"]);
  assert.deepEqual(page.outputs(), ["Age exponent (gamma)1.5", "Hours added to the age2"]);
  assert.deepEqual(page.$$("#sliders input").map(({ max, value }) => [max, value]), [["60", "30"], ["96", "8"]]);
  assert.equal(page.text("#about"), "Shows mode=current. In mode=accumulate, each view was discounted when it arrived, so settings cannot change the list afterwards.");
  await page.tick(150);
  page.taken();
  page.move("views.gamma", 7);
  page.move("views.base_hours", 9);
  assert.equal(page.text("#configuration"), "views.gamma = 0.35\nviews.base_hours = 2.25");
  await page.tick(150);
  assert.deepEqual(page.taken(), ["GET /api/hot/preview?model=views&limit=100&compare=true&views.gamma=0.35&views.base_hours=2.25&mode=current"]);
});

test("reset returns to the configured settings", async (context) => {
  const page = await openWhatIf(context);
  await page.tick(150);
  page.move("hot.pv_weight", 20);
  assert.equal(page.fire(page.form, "reset"), false);
  await settle();
  await page.tick(150);
  assert.deepEqual([page.text("#configuration"), page.outputs()[1]], ["No changes.", "Points per page view1"]);
  assert.equal(page.fire(page.form, "submit"), false, "the form does not leave the page");
});

test("only twenty rows are shown, scores compared with the first", async (context) => {
  const page = await openWhatIf(context, () => Array.from({ length: 30 }, (_, i) => ({ id: `i${i}`, score: 30 - i })));
  assert.equal(page.$$("#today li").length, 20);
  assert.deepEqual(page.texts("#today .rank").slice(-1), ["20"]);
  assert.equal(page.text("#today a"), "i0");
  const zero = await openWhatIf(context, () => [{ id: "z", score: 0 }]);
  assert.equal(zero.$("#today li").style.getPropertyValue("--share"), "0");
});

test("a late preview does not replace a newer one", async (context) => {
  const late = gate();
  const page = await openWhatIf(context, ({ query }) => {
    if (query["hot.pv_weight"] !== "2") return listed("a");
    return late.opened.then((failure) => failure ?? previewReply({ preview: listed("ghost"), configured: [] }));
  });
  await page.tick(150);
  page.move("hot.pv_weight", 20);
  await page.tick(150);
  page.move("hot.pv_weight", 30);
  await page.tick(150);
  late.open();
  await settle();
  assert.deepEqual(page.ids("#tried"), ["a"]);
});

test("a late failure is not shown, nor retried", async (context) => {
  const late = gate();
  const page = await openWhatIf(context, ({ query }) => (query["hot.pv_weight"] === "2" ? late.opened : listed("a")));
  await page.tick(150);
  page.move("hot.pv_weight", 20);
  await page.tick(150);
  page.move("hot.pv_weight", 30);
  await page.tick(150);
  page.taken();
  late.open(lost());
  await settle();
  assert.equal(page.status(), "");
  await page.tick(10000);
  assert.deepEqual(page.taken(), []);
});

test("a late start of the other model changes nothing, whether it succeeds or fails", async (context) => {
  for (const outcome of [previewReply({ preview: listed("ghost"), configured: listed("ghost") }), lost()]) {
    const late = gate();
    const page = await openWhatIf(context, ({ query }) => (query.model === "views" ? late.opened : listed("a")));
    await page.tick(150);
    await page.click('input[value="views"]');
    await page.click('input[value="engagement"]');
    await page.tick(150);
    late.open(outcome);
    await settle();
    assert.deepEqual([page.ids("#today"), page.status(), page.outputs().length], [["a"], "", 4]);
    page.taken();
    await page.tick(10000);
    assert.deepEqual(page.taken(), []);
  }
});

test("a preview that fails is tried again after two seconds, unless that cannot help", async (context) => {
  let failure = reply(503, { msg: "busy" });
  const page = await openWhatIf(context, ({ query }) => (query["hot.pv_weight"] && failure) || listed("a"));
  await page.tick(150);
  page.move("hot.pv_weight", 20);
  await page.tick(150);
  assert.equal(page.status(), "We couldn’t compute the preview: busy.");
  page.taken();
  await page.tick(2149);
  assert.deepEqual(page.taken(), []);
  failure = null;
  await page.tick(1);
  assert.equal(page.taken().length, 1);
  assert.equal(page.status(), "");
  failure = reply(400, { msg: "bad weight" });
  page.move("hot.pv_weight", 30);
  await page.tick(150);
  page.taken();
  await page.tick(20000);
  assert.deepEqual([page.status(), page.taken()], ["We couldn’t compute the preview: bad weight.", []]);
});

test("a start that fails is tried again after two seconds, unless that cannot help", async (context) => {
  let failure = lost();
  const page = await openWhatIf(context, () => failure || listed("a"));
  assert.equal(page.status(), "We couldn’t load the current list: the service is unreachable.");
  page.taken();
  await page.tick(1999);
  assert.deepEqual(page.taken(), []);
  failure = null;
  await page.tick(1);
  assert.deepEqual([page.taken().length, page.ids("#today")], [1, ["a"]]);
  const refused = await openWhatIf(context, () => reply(403, { msg: "forbidden" }));
  refused.taken();
  await refused.tick(20000);
  assert.deepEqual(refused.taken(), []);
});

test("a model that is chosen while another start waits for its retry replaces it", async (context) => {
  const page = await openWhatIf(context, ({ query }) => (query.model === "engagement" ? reply(503, {}) : listed("v")));
  await page.click('input[value="views"]');
  await page.tick(150);
  page.taken();
  await page.tick(10000);
  assert.deepEqual([page.taken(), page.ids("#today")], [[], ["v"]]);
});

test("the configuration is copied, or selected", async (context) => {
  const page = await openWhatIf(context);
  page.move("hot.pv_weight", 20);
  await page.click("#copy");
  assert.equal(String(page.window.getSelection()), "hot.pv_weight = 2.0");
  const copied = [];
  page.window.navigator.clipboard = { writeText: async (text) => void copied.push(text) };
  await page.click("#copy");
  assert.deepEqual([page.status(), copied], ["Copied.", ["hot.pv_weight = 2.0"]]);
  page.window.navigator.clipboard.writeText = () => Promise.reject(new Error("denied"));
  await page.click("#copy");
  assert.equal(page.status(), "Selected: press Ctrl+C to copy.");
});

test("the public server's page has no sliders and requests nothing", async (context) => {
  const page = await openWhatIf(context, undefined, { zone: "public" });
  assert.deepEqual([page.status(), page.$("main").hidden, page.taken()], [kOnlyInternal, true, []]);
  const internal = await openWhatIf(context);
  assert.equal(internal.$("main").hidden, false);
});

test("the page of other settings credits the sample", async (context) => {
  const page = await openWhatIf(context, () => [{ id: "a", score: 1, url: "https://quantumcomputing.stackexchange.com/q/12" }]);
  assert.ok(page.$("#attribution"));
});

// --- The description of the API ------------------------------------------------------------------------------------------------

// Every kind of schema, parameter and body that the page can show.
const kApi = {
  info: { description: "A test." },
  tags: [{ name: "first" }, { name: "second" }],
  components: {
    schemas: {
      Item: { type: "object", required: ["id"], properties: {
        id: { type: "string", description: "Its id." }, score: { type: "integer", minimum: 1, maximum: 100, default: 5 },
        big: { type: "integer", minimum: 0, maximum: 1e30 }, open: { type: "integer", minimum: 3 }, kind: { enum: ["topic", null, "reply"] }, one: { const: "x" }, name: { type: ["string", "null"] },
        either: { oneOf: [{ type: "string" }, { $ref: "#/components/schemas/Name" }] }, any: { anyOf: [{ type: "null" }, { type: "boolean" }] },
        list: { type: "array", items: { $ref: "#/components/schemas/Item" } }, name2: { $ref: "#/components/schemas/Name" }, free: {}, whatever: { $ref: "#/components/schemas/Free" } } },
      Name: { type: "string", description: "A name." }, Free: {},
    },
    parameters: { Id: { name: "id", in: "path", required: true, description: "Which.", example: "a/b", schema: { type: "string" } } },
    responses: { Bad: { description: "It is bad." } },
  },
  paths: {
    "/x/{id}": {
      get: { operationId: "getX", summary: "Gets it", tags: ["first"], "x-freshet-zone": "public", description: "At length.",
        parameters: [{ $ref: "#/components/parameters/Id" }, { name: "n", in: "query", schema: { type: "integer", minimum: 1, maximum: 9, default: 2, description: "How many." }, example: "1&2" },
          { name: "flag", in: "query", schema: { type: "string" }, example: "" }, { name: "none", in: "query", schema: { type: "string" } }],
        responses: { 200: { description: "Found", content: { "application/json": { schema: { $ref: "#/components/schemas/Item" }, example: { id: "a" } } } }, 400: { $ref: "#/components/responses/Bad" } } },
      put: { operationId: "putX", summary: "Puts it", tags: ["second"], "x-freshet-zone": "internal",
        requestBody: { content: { "application/json": { schema: { type: "array", items: { $ref: "#/components/schemas/Item" } }, example: { a: "b" } } } }, responses: { 204: { description: "Done" } } },
    },
    "/y": {
      post: { operationId: "postY", summary: "Posts it", tags: ["first"], "x-freshet-zone": "public",
        requestBody: { content: { "text/plain": { schema: { type: "string" }, example: "lines" }, "text/csv": { schema: {} } } },
        responses: { 500: { description: "Broken" }, 200: { description: "Text", content: { "text/plain": { schema: { type: "string" }, example: "pong" } } } } },
      delete: { operationId: "deleteY", summary: "Deletes it", tags: ["second"], "x-freshet-zone": "public", responses: { 200: { description: "Gone", content: { "application/json": { schema: { type: "object" } } } } } },
    },
  },
};
const openDocs = (context, address = "/docs.html", api = kApi) => openPage(context, address, { answer: { "GET /openapi.json": () => api } });

test("the API's operations are listed by tag, each with its method, path and zone", async (context) => {
  const page = await openDocs(context);
  assert.deepEqual([page.text("#about"), page.status(), page.taken()], ["A test.", "", ["GET /openapi.json"]]);
  assert.deepEqual(page.$$("main section").map((group) => [group.firstChild.textContent, ...[...group.querySelectorAll("summary")].map((each) => each.textContent)]), [
    ["first", "GET /x/{id} Gets it public", "POST /y Posts it public"], ["second", "PUT /x/{id} Puts it internal", "DELETE /y Deletes it public"]]);
  assert.deepEqual(page.$$("main details").map(({ id, open }) => [id, open]), [["getX", false], ["postY", false], ["putX", false], ["deleteY", false]]);
  assert.equal(page.$("summary .zone").textContent, "public");
  assert.equal(page.text("#getX > p"), "At length.");
  assert.equal(page.$("#putX > p"), null);
});

const rowsOf = (box) => [...box.querySelectorAll("tr")].map((row) => [...row.children].map((cell) => cell.textContent).join(" | "));

test("parameters and members have names, types and descriptions", async (context) => {
  const page = await openDocs(context);
  const [parameters, body, others] = page.$$("#getX .scroll");
  assert.deepEqual(rowsOf(parameters), ["id | string | Which.", "n? | integer, 1 to 9 | How many; default 2", "flag? | string | ", "none? | string | "]);
  assert.deepEqual(rowsOf(body), ["id | string | Its id", "score? | integer, 1 to 100 | default 5", "big? | integer | ", "open? | integer | ", "kind? | topic | reply | ", 'one? | "x" | ', "name? | string | ",
    "either? | string or string | ", "any? |  or boolean | ", "list? | [Item] | ", "name2? | string | A name", "free? |  | ", "whatever? | Free | "]);
  assert.deepEqual(rowsOf(others), ["400 |  | It is bad."]);
  assert.deepEqual([parameters, body, others].map((box) => [box.tabIndex, box.getAttribute("role"), box.getAttribute("aria-label"), box.querySelector("caption").textContent]), [
    [0, "group", "Parameters", "Parameters"], [0, "group", "200 Found: application/json", "200 Found: application/json"], [0, "group", "Other responses", "Other responses"]]);
  assert.deepEqual([parameters.querySelector("th").scope, parameters.querySelector("th code").textContent, parameters.querySelector("td:last-child").className], ["row", "id", "wrap"]);
  assert.equal(page.$("#putX caption").textContent, "Request body: application/json, each element");
  assert.equal(page.$$("#putX .scroll tr").length, 14);
  assert.deepEqual(page.texts("#postY .hint"), ["Request body: text/plain string", "200 Text: text/plain string"]);
  assert.deepEqual(page.texts("#deleteY .hint"), ["200 Gone: application/json object"]);
  assert.equal(page.$("#deleteY .scroll"), null);
});

test("each operation has a curl command and what it returns", async (context) => {
  const page = await openDocs(context);
  assert.equal(page.text("#getX pre"), "curl 'http://site.example/x/a%2Fb?n=1%262&flag'\n\n{\n  \"id\": \"a\"\n}");
  assert.equal(page.text("#putX pre"), "curl -X PUT 'http://site.example/x/{id}' --json '{\"a\":\"b\"}'\n\n204 Done");
  assert.equal(page.text("#postY pre"), "curl -X POST 'http://site.example/y' -H 'Content-Type: text/plain' --data-binary 'lines'\n\npong");
  assert.equal(page.text("#deleteY pre"), "curl -X DELETE 'http://site.example/y'\n\n200 Gone");
  assert.equal(page.$("#getX pre").tabIndex, 0);
});

test("the address opens an operation", async (context) => {
  const page = await openDocs(context, "/docs.html#putX");
  assert.deepEqual([page.$("#putX").open, page.$("#getX").open, page.scrolls], [true, false, ["putX"]]);
  assert.deepEqual((await openDocs(context, "/docs.html#none")).scrolls, []);
});

test("a text filters operations, and groups without any", async (context) => {
  const page = await openDocs(context);
  const filter = async (text) => {
    page.$("#filter").value = text;
    page.fire(page.$("#filter"), "input");
    return [page.$$("main details:not([hidden])").map(({ id }) => id), page.$$("main section:not([hidden]) h2").map((head) => head.textContent), page.status()];
  };
  assert.deepEqual(await filter("  GETS "), [["getX"], ["first"], "1 route found."]);
  assert.deepEqual(await filter("/y"), [["postY", "deleteY"], ["first", "second"], "2 routes found."]);
  assert.deepEqual(await filter("none at all"), [[], [], "0 routes found."]);
  assert.deepEqual(await filter(""), [["getX", "postY", "putX", "deleteY"], ["first", "second"], ""]);
  assert.equal(page.fire(page.$("#filter").form, "submit"), false);
});

test("a description that cannot be loaded says why", async (context) => {
  assert.equal((await openDocs(context, "/docs.html", reply(502, "<html>"))).status(), "We couldn’t load the API description: the service returned HTTP 502.");
  assert.equal((await openDocs(context, "/docs.html", lost())).status(), "We couldn’t load the API description: the service is unreachable.");
});

test("the page has every operation of Freshet's own description", async (context) => {
  const api = JSON.parse(source("openapi.json"));
  const page = await openDocs(context, "/docs.html", api);
  const operations = Object.values(api.paths).flatMap((path) => Object.values(path)).map(({ operationId }) => operationId).filter(Boolean);
  assert.deepEqual(page.$$("main details").map(({ id }) => id).sort(), operations.sort());
  assert.doesNotMatch(page.text("main"), /undefined|\[object Object/);
  assert.match(page.text("#track"), /articleId.*dwellMs/s);
});

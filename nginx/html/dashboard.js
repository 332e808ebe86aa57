// The operator's page: asks the status process every two seconds, which answers while all workers are stuck, and draws five
// minutes of it. What it has seen is kept over a reload of the page.
import { articleUrl, element, inWords, pause, say, unreachable, zone } from "/page.js";

const kEveryMs = 2000;
const kKeptMs = 300000;
const kRateMs = 10000;  // a rate and a percentile are of so long
const kStoreKey = "freshetDashboard";
const kSize = { width: 220, height: 48 };

// --- What the metrics say ------------------------------------------------------------------------------------------------

// Prometheus' text → [{name, labels, value}].
export function parseMetrics(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!match) continue;
    const labels = Object.fromEntries([...(match[2] || "").matchAll(/([a-z_]+)="((?:[^"\\]|\\.)*)"/g)].map(([, name, value]) => [name, value]));
    found.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return found;
}

function sum(metrics, name, keep = () => true) {
  return metrics.filter((each) => each.name === name && keep(each.labels)).reduce((all, each) => all + each.value, 0);
}

// Upper bound in s → requests up to it, of all routes.
function buckets(metrics, name) {
  const all = {};
  for (const each of metrics) if (each.name === name + "_bucket") all[each.labels.le] = (all[each.labels.le] || 0) + each.value;
  return all;
}

// In ms, from the difference of two histograms, as Prometheus' histogram_quantile; null when nothing came.
export function quantile(share, before, after) {
  const bounds = Object.keys(after).map((le) => [le === "+Inf" ? Infinity : Number(le), after[le] - (before[le] || 0)]).sort((a, b) => a[0] - b[0]);
  const total = bounds.at(-1)?.[1];
  if (!(total > 0)) return null;
  let [low, below] = [0, 0];
  for (const [bound, count] of bounds) {
    if (count >= share * total) {
      if (bound === Infinity) return 1000 * low;
      return 1000 * (low + (bound - low) * (share * total - below) / Math.max(1e-9, count - below));
    }
    [low, below] = [bound, count];
  }
  return null;
}

function sampleOf(status, metrics) {
  const requests = (from) => sum(metrics, "freshet_requests_total", ({ status: code }) => code === from);
  return {
    at: Date.now(), start: status["start time"],
    requests: sum(metrics, "freshet_requests_total"), bad: requests("4xx"), failed: requests("5xx"),
    latency: buckets(metrics, "freshet_request_duration_seconds"), redis: buckets(metrics, "freshet_redis_round_trip_duration_seconds"),
    errors: sum(metrics, "freshet_redis_errors_total"), hits: status["hot list hits"], misses: status["hot list misses"],
    memory: status["redis used bytes"], busy: status["active processes"], idle: status["idle processes"],
    waiting: status["queued writes"] - status.replayed, lag: status["recorder lag entries"],
  };
}

// --- The charts ------------------------------------------------------------------------------------------------------------

// of(now, before, seconds) → a value a series; null: none.
const rate = (name) => (now, before, seconds) => (now[name] - before[name]) / seconds;
const kCharts = [
  { title: "Requests", unit: "/s", series: [["all", rate("requests")]] },
  { title: "Latency", unit: "ms", series: [["p50", (now, before) => quantile(0.5, before.latency, now.latency)],
    ["p99", (now, before) => quantile(0.99, before.latency, now.latency)]] },
  { title: "Errors", unit: "/s", series: [["4xx", rate("bad")], ["5xx", rate("failed")]] },
  { title: "Workers", unit: "", series: [["idle", (now) => now.idle], ["busy", (now) => now.busy]] },
  { title: "Redis", unit: "ms", series: [["p50", (now, before) => quantile(0.5, before.redis, now.redis)],
    ["p99", (now, before) => quantile(0.99, before.redis, now.redis)]] },
  { title: "Redis errors", unit: "/s", series: [["all", rate("errors")]] },
  { title: "Redis' memory", unit: "MiB", series: [["all", (now) => now.memory / 1048576]] },
  { title: "Hot lists from copies", unit: "%", series: [["hits", (now, before) => {
    const [hits, misses] = [now.hits - before.hits, now.misses - before.misses];
    return hits + misses > 0 ? 100 * hits / (hits + misses) : null;
  }]] },
  { title: "Writes that wait", unit: "", series: [["spooled", (now) => Math.max(0, now.waiting)], ["recorder's lag", (now) => now.lag]] },
];

function inShort(value) {
  return value === null ? "–" : value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString() : value.toPrecision(2);
}

// The values of a series at every sample that has one of kRateMs before it.
function valuesOf(of, samples) {
  let from = 0;
  return samples.map((now, index) => {
    while (from < index && samples[from].at < now.at - kRateMs) ++from;
    const before = samples[Math.max(0, from - 1)];
    const seconds = (now.at - before.at) / 1000;
    const value = seconds > 0 && before.start === now.start ? of(now, before, seconds) : null;
    return { at: now.at, value: Number.isFinite(value) ? value : null };
  });
}

function draw(chart, samples) {
  const box = element("li");
  box.append(element("h3", chart.title));
  const figure = element("p", "", "figures");
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 -1 ${kSize.width} ${kSize.height + 2}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const all = chart.series.map(([name, of]) => [name, valuesOf(of, samples)]);
  const most = Math.max(1e-9, ...all.flatMap(([, values]) => values.map(({ value }) => value || 0)));
  const now = samples.at(-1).at;
  all.forEach(([name, values], index) => {
    const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
    line.setAttribute("class", `line-${index}`);
    line.setAttribute("points", values.filter(({ value }) => value !== null).map(({ at, value }) =>
      `${(kSize.width * (1 - (now - at) / kKeptMs)).toFixed(1)},${(kSize.height * (1 - value / most)).toFixed(1)}`).join(" "));
    svg.append(line);
    const part = element("span", "", `line-${index}`);
    part.append(element("strong", inShort(values.at(-1).value)), ` ${chart.unit}${chart.series.length > 1 ? " " + name : ""}`);
    figure.append(part, " ");
  });
  box.append(figure, svg, element("p", `at most ${inShort(most < 1e-6 ? 0 : most)} ${chart.unit}`, "hint"));
  return box;
}

// --- What stands beside them -----------------------------------------------------------------------------------------------

function fill(list, facts) {
  list.replaceChildren(...facts.flatMap(([name, value, bad]) => [element("dt", name), element("dd", String(value), bad ? "bad" : "")]));
}

const mebibytes = (bytes) => `${(bytes / 1048576).toFixed(1)} MiB`;
const ago = (seconds) => (seconds > 0 ? `${inWords(Date.now() / 1000 - seconds)} ago` : "never");

function showFacts(status) {
  const seconds = status["recorder lag age ms"] / 1000;
  fill(document.getElementById("facts"), [
    ["Started", ago(status["start time"])],
    ["Reloads", `${status.reloads}, failed ${status["failed reloads"]}`, status["failed reloads"] > 0],
    ["Workers that died", status.respawns, status.respawns > 0],
    ["Redis", `${status["redis ready"]} of ${status["total processes"]} workers connected`, status["redis ready"] < status["total processes"]],
    ["Breakers open", status["redis breakers open"], status["redis breakers open"] > 0],
    ["Data of Redis", status["redis lost since"] ? `lost ${ago(status["redis lost since"] / 1000)}; run freshetctl rebuild-redis` : "there", status["redis lost since"] > 0],
    ["Redis' memory", status["redis max bytes"] ? `${mebibytes(status["redis used bytes"])} of ${mebibytes(status["redis max bytes"])}`
      : `${mebibytes(status["redis used bytes"])}, no maxmemory`, status["redis full"] > 0],
    ["Spool", mebibytes(status["spooled bytes"]), status["spooled bytes"] > 0],
    ["Recorder", `${status.recorder}${status["recorder reason"] ? `: ${status["recorder reason"]}` : ""}`, status.recorder !== "running"],
    ["Recorder's lag", `${status["recorder lag entries"]} entries, ${seconds.toFixed(0)} s`, seconds > 60],
    ["Items in the index", status["recorder items"].toLocaleString()],
    ["Members of hot:rank", status["hot rank"].toLocaleString()],
    ["Model", status["model trained at"] ? `trained ${ago(status["model trained at"])}` : "none"],
    ["Slow requests", status["slow requests"]],
    ["Over their budget", status["over budget"]],
  ]);
  const refused = Object.entries(status.refused).filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]);
  fill(document.getElementById("refused"), refused.length ? refused.map(([name, count]) => [name, count.toLocaleString()]) : [["nothing", 0]]);
}

const kColumns = [["pid", "pid"], ["state", "state"], ["stage", "stage"], ["requests", "requests"], ["in flight", "in flight"],
  ["busy for", "request duration"], ["memory", "last request memory"], ["Redis", "redis ready"]];

function showWorkers(workers) {
  const head = element("tr");
  for (const [title] of kColumns) {
    const cell = element("th", title);
    cell.scope = "col";
    head.append(cell);
  }
  const rows = workers.map((worker) => {
    const row = element("tr");
    for (const [title, key] of kColumns) {
      const value = worker[key];
      row.append(element("td", title === "memory" ? mebibytes(value) : title === "busy for" ? `${(value / 1000).toFixed(1)} ms`
        : title === "Redis" ? (value ? "ready" : "away") : String(value)));
    }
    return row;
  });
  document.getElementById("workers").replaceChildren(head, ...rows);
}

// By the workers, so last, and none of it when they do not answer.
async function showTop() {
  const reply = await fetch("/api/hot?model=engagement&limit=5", { signal: AbortSignal.timeout(kEveryMs) });
  const items = await reply.json();
  document.getElementById("top").replaceChildren(...items.map((item) => {
    const row = element("li");
    const link = element("a", item.title || item.id);
    link.href = articleUrl(item.id);
    row.append(link, element("span", `${item.score.toPrecision(4)} points`, "about"));
    return row;
  }));
}

// --- The loop --------------------------------------------------------------------------------------------------------------

let samples = [];
try {
  samples = JSON.parse(sessionStorage[kStoreKey] || "[]");
} catch {
  // begin anew
}

async function look() {
  const [status, text] = await Promise.all(["/status?json&full", "/metrics"].map(async (path, index) => {
    const reply = await fetch(path).catch(unreachable);
    if (!reply.ok) throw new Error(`the service answered ${reply.status}`);
    return index === 0 ? reply.json() : reply.text();
  }));
  samples.push(sampleOf(status, parseMetrics(text)));
  samples = samples.filter(({ at }) => at > Date.now() - kKeptMs - kRateMs);
  sessionStorage[kStoreKey] = JSON.stringify(samples);
  document.getElementById("charts").replaceChildren(...kCharts.map((chart) => draw(chart, samples)));
  showFacts(status);
  showWorkers(status.processes || []);
  document.getElementById("updated").textContent = `Updated at ${new Date().toLocaleTimeString()}.`;
  const trouble = [status["redis full"] > 0 && "Redis' memory is nearly used up, the public's writes wait",
    status["redis breakers open"] > 0 && "workers leave Redis alone", status["redis lost since"] > 0 && "Redis has lost its data",
    status.recorder !== "running" && `the recorder is ${status.recorder}`].filter(Boolean);
  say(trouble.length ? `Look at this: ${trouble.join("; ")}.` : "");
}

async function run() {
  for (;;) {
    if (document.visibilityState === "visible") {
      await look().catch((error) => say(`Not up to date: ${error.message}.`));
      showTop().catch(() => {});
    }
    await pause(kEveryMs);
  }
}

if (zone === "internal") run();
else say("The internal server has this page.");

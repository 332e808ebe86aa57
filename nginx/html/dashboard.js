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
    cardHits: status["card hits"], cardMisses: status["card misses"], pages: status["feed pages"], degraded: status["feed pages degraded"],
    memory: status["redis used bytes"], busy: status["active processes"], idle: status["idle processes"],
    waiting: status["queued writes"] - status.replayed, lag: status["recorder lag entries"],
  };
}

// --- The charts ------------------------------------------------------------------------------------------------------------

// of(now, before, seconds) → a value a series; null: none. What holds of one moment does not take the other two.
const rate = (name) => (now, before, seconds) => (now[name] - before[name]) / seconds;
const share = (part, rest) => (part + rest > 0 ? 100 * part / (part + rest) : null);
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
  { title: "Read from memory", unit: "%", series: [["hot lists", (now, before) => share(now.hits - before.hits, now.misses - before.misses)],
    ["titles", (now, before) => share(now.cardHits - before.cardHits, now.cardMisses - before.cardMisses)]] },
  { title: "Feed pages degraded", unit: "%", series: [["all", (now, before) => share(now.degraded - before.degraded,
    now.pages - now.degraded - before.pages + before.degraded)]] },
  { title: "Writes that wait", unit: "", series: [["spooled", (now) => Math.max(0, now.waiting)], ["recorder's lag", (now) => now.lag]] },
];

function inShort(value) {
  return value === null ? "–" : value >= 10 || Number.isInteger(value) ? Math.round(value).toLocaleString() : value.toPrecision(2);
}

// The values of a series at every sample that has one of kRateMs before it.
function valuesOf(of, samples) {
  let from = 0;
  return samples.map((now, index) => {
    while (from < index && samples[from].at < now.at - kRateMs) ++from;
    const before = samples[Math.max(0, from - 1)];
    const seconds = (now.at - before.at) / 1000;
    const known = of.length === 1 || (seconds > 0 && before.start === now.start);
    const value = known ? of(now, before, seconds) : null;
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
  const none = all.every(([, values]) => values.every(({ value }) => value === null));
  box.append(figure, svg, element("p", none ? "" : `at most ${inShort(most < 1e-6 ? 0 : most)} ${chart.unit}`, "hint"));
  return box;
}

// --- What stands beside them -----------------------------------------------------------------------------------------------

function fill(list, facts) {
  list.replaceChildren(...facts.flatMap(([name, value, bad]) => [element("dt", name), element("dd", String(value), bad ? "bad" : "")]));
}

const mebibytes = (bytes) => `${(bytes / 1048576).toFixed(1)} MiB`;
const ago = (seconds) => (seconds > 0 ? `${inWords(Date.now() / 1000 - seconds)} ago` : "never");

// What freshetctl doctor says of the same, as far as the status process knows it: grade, check, what (false: nothing), cure.
const kDay = 86400;
const kFindings = [
  ["error", "redis.items", (s) => s["redis lost since"] > 0 && `Redis lost its data ${ago(s["redis lost since"])}`, "freshetctl rebuild-redis"],
  ["error", "redis", (s) => s["redis ready"] === 0 && "no worker reaches Redis",
    "systemctl start redis-server, or correct redis.url"],
  ["warning", "redis", (s) => s["redis ready"] > 0 && s["redis breakers open"] > 0 && `${s["redis breakers open"]} workers leave Redis alone`,
    "look at Redis' log: it is slow, or refuses connections"],
  ["error", "redis.memory", (s) => s["redis full"] > 0 && "Redis' memory is nearly used up: what the public writes waits in the spool",
    "raise maxmemory, or lower list.max_members and the TTLs"],
  ["warning", "redis.memory", (s) => s["redis max bytes"] === 0 && "maxmemory is not set: writes go on until the host has no memory left",
    "maxmemory in redis.conf, and redis-cli CONFIG SET the same"],
  ["warning", "redis.forecast", (s) => s["redis full in hours"] < 24 && `Redis will be full in ${s["redis full in hours"].toFixed(1)} hours, if it goes on`,
    "raise maxmemory; freshetctl visitors shows who writes most"],
  ["error", "recorder.alive", (s) => s.recorder !== "running" && `the recorder is ${s.recorder}${s["recorder reason"] ? ": " + s["recorder reason"] : ""}${s["recorder reason"].startsWith("other_") ? ` (${s["recorder holder"]})` : ""}`,
    "journalctl -u freshet; the disk of recorder.database"],
  ["warning", "recorder.stream", (s) => s["recorder lag age ms"] > 60000 && `${s["recorder lag entries"]} entries wait, one since ${inWords(s["recorder lag age ms"] / 1000)}`,
    "find out why the recorder does not keep up: the disk of recorder.database"],
  ["warning", "ready", (s) => s.missing.split(",").includes("index") && "no worker can search: feeds have what is hot and new only",
    "freshetctl doctor says why; on a host that does not record search.shards names who has the index"],
  ["warning", "files.model", (s) => s["model trained at"] === 0 && "there is no model: recommendations come from what is trending alone",
    "freshetctl train, and systemctl enable --now freshet-train.timer"],
  ["warning", "files.model", (s) => s["model trained at"] > 0 && Date.now() / 1000 - s["model trained at"] > 2 * kDay && `the model was trained ${ago(s["model trained at"])}`,
    "systemctl status freshet-train.timer freshet-train.service"],
  ["warning", "config", (s) => s["failed reloads"] > 0 && `${s["failed reloads"]} reloads were given up`, "freshetd -t checks the file; journalctl -u freshet"],
  ["warning", "pool", (s) => s.respawns > 0 && `${s.respawns} workers died`, "journalctl -u freshet; coredumpctl"],
  ["warning", "config.backlog", (s) => s["max listen queue"] > s["listen queue len"] / 2 && `${s["max listen queue"]} connections waited at once`,
    "raise pm.max_children, or listen.backlog and net.core.somaxconn"],
];

function findingsOf(status) {
  return kFindings.map(([grade, check, of, cure]) => ({ grade, check, what: of(status), cure })).filter(({ what }) => what);
}

function showFindings(found) {
  const count = (grade, word) => {
    const times = found.filter((each) => each.grade === grade).length;
    return `${times} ${word}${times === 1 ? "" : "s"}`;
  };
  document.getElementById("verdict").textContent = `${count("error", "error")}, ${count("warning", "warning")}. ` +
    "freshetctl doctor looks at files, nginx and Redis' settings, too.";
  document.getElementById("findings").replaceChildren(...found.map(({ grade, check, what, cure }) => {
    const row = element("li", "", grade);
    row.append(element("strong", grade), ` ${check}: ${what}`, element("span", `Cure: ${cure}`, "about"));
    return row;
  }));
}

function showFacts(status) {
  const seconds = status["recorder lag age ms"] / 1000;
  fill(document.getElementById("facts"), [
    ["Started", ago(status["start time"])],
    ["Last reload", ago(status["last reload"])],
    ["Reloads", `${status.reloads}, failed ${status["failed reloads"]}`, status["failed reloads"] > 0],
    ["Workers that died", status.respawns, status.respawns > 0],
    ["Redis", `${status["redis ready"]} of ${status["total processes"]} workers connected`, status["redis ready"] < status["total processes"]],
    ["Breakers open", status["redis breakers open"], status["redis breakers open"] > 0],
    ["Data of Redis", status["redis lost since"] ? `lost ${ago(status["redis lost since"])}; run freshetctl rebuild-redis` : "there", status["redis lost since"] > 0],
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
  const found = findingsOf(status);
  showFindings(found);
  const errors = found.filter(({ grade }) => grade === "error").map(({ what }) => what);
  say(errors.length ? `Look at this: ${errors.join("; ")}.` : "");
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

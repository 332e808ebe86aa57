// The operator's dashboard. Polls the status process every two seconds; it answers even while all workers are stuck, and has
// the last five minutes. Charts are drawn by Chart.js from Debian's libjs-chart.js.
import { articleUrl, element, formatDuration, kKeysAreSet, pause, plural, readJson, showAttribution, showStatus, throwUnreachable, zone } from "/page.js";

const kRefreshMs = 2000;
const kMinutes = 5;

// --- Charts ----------------------------------------------------------------------------------------------------------------

// series: [label, column of the history, divisor].
const kCharts = [
  { title: "Requests", unit: "/s", series: [["all", "requests"]] },
  { title: "Latency", unit: "ms", series: [["p50", "p50 ms"], ["p99", "p99 ms"]] },
  { title: "Errors", unit: "/s", series: [["4xx", "4xx"], ["5xx", "5xx"]] },
  { title: "Workers", unit: "", series: [["idle", "idle processes"], ["busy", "active processes"]] },
  { title: "Redis latency", unit: "ms", series: [["p50", "redis p50 ms"], ["p99", "redis p99 ms"]] },
  { title: "Redis errors", unit: "/s", series: [["all", "redis errors"]] },
  { title: "Redis memory", unit: "MiB", series: [["all", "redis used bytes", 1048576]] },
  { title: "Cache hits", unit: "%", series: [["hot lists", "hot list hits percent"], ["items", "card hits percent"]] },
  { title: "Degraded feed pages", unit: "%", series: [["all", "degraded percent"]] },
  { title: "Queued writes", unit: "", series: [["spooled", "waiting writes"], ["recorder lag", "recorder lag entries"]] },
];

function formatShort(value) {
  return value === null ? "–" : value >= 10 || Number.isInteger(value) ? Math.round(value).toLocaleString() : value.toPrecision(2);
}

// Chart.js. If its file is missing, only figures are shown.
let Chart = null;

function makeChart(title) {
  const box = element("li");
  const figure = element("p", "", "figures");
  const note = element("p", "", "hint");
  const canvas = element("canvas");
  canvas.setAttribute("role", "img");
  const plot = element("div", "", "plot");
  plot.append(canvas);
  box.append(element("h3", title), figure, ...(Chart ? [plot] : []), note);
  return { box, figure, note, canvas, plot: null };
}

// The second line is dashed, because color alone does not distinguish the lines for everyone.
function makePlot(canvas) {
  return new Chart(canvas, {
    type: "line",
    data: { datasets: [0, 1].map((index) => ({ data: [], borderDash: index ? [5, 3] : [], borderWidth: 2, pointRadius: 0, pointHitRadius: 8 })) },
    options: {
      animation: false, maintainAspectRatio: false, normalized: true, parsing: false,
      plugins: { legend: { display: false }, tooltip: { enabled: false } },
      scales: {
        x: { type: "linear", min: -kMinutes, max: 0, grid: { display: false },
          ticks: { stepSize: 1, autoSkip: false, maxRotation: 0, callback: (minute) => (minute === 0 ? "now" : minute === -kMinutes ? `${kMinutes} min ago` : "") } },
        y: { beginAtZero: true, grace: "5%", ticks: { maxTicksLimit: 3, callback: formatShort } },
      },
    },
  });
}

function draw(chart, history) {
  const minutes = history["ms ago"].map((ms) => -ms / 60000);
  const lines = chart.series.map(([name, column, divisor = 1]) => [name, history[column].map((value) => value === null ? null : value / divisor)]);
  chart.view.figure.replaceChildren(...lines.flatMap(([name, values], index) => {
    const label = element("span", "", `line-${index}`);
    label.append(element("strong", formatShort(values.at(-1) ?? null)), ` ${chart.unit}${lines.length > 1 ? " " + name : ""}`);
    return [label, " "];
  }));
  const known = lines.flatMap(([, values]) => values.filter((value) => value !== null));
  const maximum = known.length ? `max ${formatShort(Math.max(...known))} ${chart.unit}`.trim() : "";
  chart.view.note.textContent = maximum;
  if (!Chart) return;
  const plot = (chart.view.plot ||= makePlot(chart.view.canvas));
  const style = getComputedStyle(document.documentElement);
  const [gridColor, textColor] = ["--line", "--soft"].map((name) => style.getPropertyValue(name).trim());
  lines.forEach(([, values], index) => {
    plot.data.datasets[index].borderColor = style.getPropertyValue(index ? "--second" : "--first").trim();
    plot.data.datasets[index].data = values.map((y, i) => ({ x: minutes[i], y }));
  });
  for (const scale of Object.values(plot.options.scales)) {
    scale.ticks.color = textColor;
    scale.grid.color = scale.grid.borderColor = gridColor;
  }
  plot.update("none");
  chart.view.canvas.setAttribute("aria-label", `${chart.title}, last ${kMinutes} minutes: ${chart.view.figure.textContent.trim()}${maximum && ", " + maximum}`);
}

async function setUp() {
  // Chart.js is not a module: it defines a global.
  await import("/chart.js/chart.min.js").then(() => Chart = globalThis.Chart).catch(() => {});
  for (const chart of kCharts) chart.view = makeChart(chart.title);
  document.getElementById("charts").replaceChildren(...kCharts.map(({ view }) => view.box));
}

// --- Findings, workers and facts -------------------------------------------------------------------------------------------

function fillFacts(list, facts) {
  list.replaceChildren(...facts.flatMap(([name, value, bad]) => [element("dt", name), element("dd", String(value), bad ? "bad" : "")]));
}

const mebibytes = (bytes) => `${(bytes / 1048576).toFixed(1)} MiB`;
const formatAgo = (unixSeconds) => (unixSeconds > 0 ? `${formatDuration(Date.now() / 1000 - unixSeconds)} ago` : "never");

// The findings of `freshetctl doctor` that the status process can report: [severity, check, message or false, fix].
const kDay = 86400;
const kHolderReasons = ["lease_held", "database_mismatch"];  // the recorder is paused because of another one
const kFindings = [
  ["error", "redis.items", (s) => s["redis lost since"] > 0 && `Redis lost its data ${formatAgo(s["redis lost since"])}`, "run freshetctl rebuild-redis"],
  ["error", "redis", (s) => s["redis ready"] === 0 && "no worker can reach Redis",
    "start the service of Redis or Valkey, or correct redis.url"],
  ["warning", "redis", (s) => s["redis ready"] > 0 && s["redis breakers open"] > 0 && `${plural(s["redis breakers open"], "worker")} stopped calling Redis for now (circuit breaker open)`,
    "check Redis' log: it is slow or refuses connections"],
  ["error", "redis.memory", (s) => s["redis full"] > 0 && "Redis is nearly full: public writes are queued in the spool",
    "raise maxmemory, or lower list.max_members and the TTLs"],
  ["warning", "redis.memory", (s) => s["redis max bytes"] === 0 && "maxmemory is not set: Redis can use up the host's memory",
    "set maxmemory in redis.conf, and at once with redis-cli CONFIG SET"],
  ["warning", "redis.forecast", (s) => s["redis full in hours"] < 24 && `Redis will be full in ${s["redis full in hours"].toFixed(1)} hours at the current rate`,
    "raise maxmemory; freshetctl top-contributors shows who writes most"],
  ["error", "recorder.alive", (s) => s.recorder !== "running" && `the recorder is ${s.recorder}${s["recorder reason"] ? ": " + s["recorder reason"] : ""}${kHolderReasons.includes(s["recorder reason"]) ? ` (${s["recorder holder"]})` : ""}`,
    "see journalctl -u freshet; check the disk of recorder.database"],
  ["warning", "recorder.stream", (s) => s["recorder lag age ms"] > 60000 && `${s["recorder lag entries"]} stream entries are not recorded yet, the oldest for ${formatDuration(s["recorder lag age ms"] / 1000)}`,
    "find out why the recorder lags: check the disk of recorder.database"],
  ["warning", "ready", (s) => s.missing.split(",").includes("index") && "no worker can search: feeds only have hot and new items",
    "run freshetctl doctor; on a host without a recorder, check search.shards"],
  ["warning", "files.model", (s) => s["model trained at"] === 0 && "there is no model: recommendations are based on trends only",
    "run freshetctl train, and systemctl enable --now freshet-train.timer"],
  ["warning", "files.model", (s) => s["model trained at"] > 0 && Date.now() / 1000 - s["model trained at"] > 2 * kDay && `the model was trained ${formatAgo(s["model trained at"])}`,
    "check systemctl status freshet-train.timer freshet-train.service"],
  ["warning", "config", (s) => s["failed reloads"] > 0 && `${plural(s["failed reloads"], "reload")} failed`, "check the file with freshetd -t; see journalctl -u freshet"],
  ["warning", "pool", (s) => s.respawns > 0 && `${plural(s.respawns, "worker")} crashed`, "see journalctl -u freshet and coredumpctl"],
  ["warning", "config.backlog", (s) => s["max listen queue"] > s["listen queue len"] / 2 && `${plural(s["max listen queue"], "connection")} waited at the same time`,
    "raise pm.max_children, or listen.backlog and net.core.somaxconn"],
];

function findProblems(status) {
  return kFindings.map(([severity, check, evaluate, fix]) => ({ severity, check, message: evaluate(status), fix })).filter(({ message }) => message);
}

function showFindings(findings) {
  const count = (severity) => plural(findings.filter((each) => each.severity === severity).length, severity);
  document.getElementById("verdict").textContent = `${count("error")}, ${count("warning")}. ` +
    "Run freshetctl doctor to check files, nginx and Redis' settings as well.";
  document.getElementById("findings").replaceChildren(...findings.map(({ severity, check, message, fix }) => {
    const row = element("li", "", severity);
    row.append(element("strong", severity), ` ${check}: ${message}`, element("span", `Fix: ${fix}`, "about"));
    return row;
  }));
}

function showFacts(status) {
  const lagSeconds = status["recorder lag age ms"] / 1000;
  fillFacts(document.getElementById("facts"), [
    ["Started", formatAgo(status["start time"])],
    ["Last reload", formatAgo(status["last reload"])],
    ["Reloads", `${status.reloads} (${status["failed reloads"]} failed)`, status["failed reloads"] > 0],
    ["Worker crashes", status.respawns, status.respawns > 0],
    ["Redis", `${status["redis ready"]} of ${status["total processes"]} workers connected`, status["redis ready"] < status["total processes"]],
    ["Open circuit breakers", status["redis breakers open"], status["redis breakers open"] > 0],
    ["Redis data", status["redis lost since"] ? `lost ${formatAgo(status["redis lost since"])}; run freshetctl rebuild-redis` : "present", status["redis lost since"] > 0],
    ["Redis memory", status["redis max bytes"] ? `${mebibytes(status["redis used bytes"])} of ${mebibytes(status["redis max bytes"])}`
      : `${mebibytes(status["redis used bytes"])}, no maxmemory`, status["redis full"] > 0],
    ["Spool", mebibytes(status["spooled bytes"]), status["spooled bytes"] > 0],
    ["Recorder", `${status.recorder}${status["recorder reason"] ? `: ${status["recorder reason"]}` : ""}`, status.recorder !== "running"],
    ["Recorder lag", `${status["recorder lag entries"]} entries, ${lagSeconds.toFixed(0)} s`, lagSeconds > 60],
    ["Items in the database", status["recorder items"].toLocaleString()],
    ["Hot list", status["hot list"] + (status["hot list tuned at"] ? `, chosen by freshetctl tune ${formatAgo(status["hot list tuned at"])}` : "")],
    ["Feed", status.feed],
    ["Articles in hot:rank", status["hot rank"].toLocaleString()],
    ["Model", status["model trained at"] ? `trained ${formatAgo(status["model trained at"])}` : "none"],
    ["Slow requests", status["slow requests"]],
    ["Requests over budget", status["over budget"]],
  ]);
  const refused = Object.entries(status.refused).filter(([, count]) => count > 0).sort((a, b) => b[1] - a[1]);
  fillFacts(document.getElementById("refused"), refused.length ? refused.map(([name, count]) => [name, count.toLocaleString()]) : [["none", 0]]);
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
        : title === "Redis" ? (value ? "ready" : "unavailable") : String(value)));
    }
    return row;
  });
  document.getElementById("workers").replaceChildren(head, ...rows);
}

// Answered by the workers, so it may fail while they are stuck.
async function showTop() {
  const reply = await fetch("/api/hot?model=engagement&limit=5", { signal: AbortSignal.timeout(kRefreshMs) });
  const items = await readJson(reply);
  showAttribution(items);
  document.getElementById("top").replaceChildren(...items.map((item) => {
    const row = element("li");
    const link = element("a", item.title || item.id);
    link.href = articleUrl(item.id);
    row.append(link, element("span", `${item.score.toPrecision(4)} points`, "about"));
    return row;
  }));
}

// --- Refresh ---------------------------------------------------------------------------------------------------------------

async function refresh() {
  const reply = await fetch("/status?json&full&history").catch(throwUnreachable);
  if (!reply.ok) throw new Error(`the service returned HTTP ${reply.status}`);
  const status = await reply.json();
  for (const chart of kCharts) draw(chart, status.history);
  showFacts(status);
  showWorkers(status.processes || []);
  document.getElementById("updated").textContent = `Updated at ${new Date().toLocaleTimeString()}.`;
  const findings = findProblems(status);
  showFindings(findings);
  const errors = findings.filter(({ severity }) => severity === "error").map(({ message }) => message);
  showStatus(errors.length ? `Needs attention: ${errors.join("; ")}.` : "");
}

async function run() {
  await setUp();
  for (;;) {
    if (document.visibilityState === "visible") {
      await refresh().catch((error) => showStatus(`The dashboard can’t be refreshed: ${error.message}.`));
      showTop().catch(({ message }) => {
        if (message === kKeysAreSet) document.getElementById("top").replaceChildren(element("li", `${kKeysAreSet}.`));
      });
    }
    await pause(kRefreshMs);
  }
}

if (zone === "internal") run();
else showStatus("This page is only available on the internal server.");

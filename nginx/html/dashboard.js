// The operator's page: asks the status process every two seconds, which answers while all workers are stuck and has kept the
// last five minutes. Drawn by Chart.js, of Debian.
import { articleUrl, attribute, element, inWords, pause, say, unreachable, zone } from "/page.js";

const kEveryMs = 2000;
const kMinutes = 5;

// --- The charts ------------------------------------------------------------------------------------------------------------

// Series: what it is called here, its column of the history, what that is divided by.
const kCharts = [
  { title: "Requests", unit: "/s", series: [["all", "requests"]] },
  { title: "Latency", unit: "ms", series: [["p50", "p50 ms"], ["p99", "p99 ms"]] },
  { title: "Errors", unit: "/s", series: [["4xx", "4xx"], ["5xx", "5xx"]] },
  { title: "Workers", unit: "", series: [["idle", "idle processes"], ["busy", "active processes"]] },
  { title: "Redis", unit: "ms", series: [["p50", "redis p50 ms"], ["p99", "redis p99 ms"]] },
  { title: "Redis errors", unit: "/s", series: [["all", "redis errors"]] },
  { title: "Redis' memory", unit: "MiB", series: [["all", "redis used bytes", 1048576]] },
  { title: "Read from memory", unit: "%", series: [["hot lists", "hot list hits percent"], ["titles", "card hits percent"]] },
  { title: "Feed pages degraded", unit: "%", series: [["all", "degraded percent"]] },
  { title: "Writes that wait", unit: "", series: [["spooled", "waiting writes"], ["recorder's lag", "recorder lag entries"]] },
];

function inShort(value) {
  return value === null ? "–" : value >= 10 || Number.isInteger(value) ? Math.round(value).toLocaleString() : value.toPrecision(2);
}

// Null where its file is missing: then there are figures, and no lines.
let library = null;

function made(title) {
  const box = element("li");
  const figure = element("p", "", "figures");
  const note = element("p", "", "hint");
  const canvas = element("canvas");
  canvas.setAttribute("role", "img");
  const plot = element("div", "", "plot");
  plot.append(canvas);
  box.append(element("h3", title), figure, ...(library ? [plot] : []), note);
  return { box, figure, note, canvas, plot: null };
}

// The second line is dashed, so that nobody needs to tell colours apart.
function plotted(canvas) {
  return new library(canvas, {
    type: "line",
    data: { datasets: [0, 1].map((index) => ({ data: [], borderDash: index ? [5, 3] : [], borderWidth: 2, pointRadius: 0, pointHitRadius: 8 })) },
    options: {
      animation: false, maintainAspectRatio: false, normalized: true, parsing: false,
      plugins: { legend: { display: false }, tooltip: { enabled: false } },
      scales: {
        x: { type: "linear", min: -kMinutes, max: 0, grid: { display: false },
          ticks: { stepSize: 1, autoSkip: false, maxRotation: 0, callback: (minute) => (minute === 0 ? "now" : minute === -kMinutes ? `${kMinutes} min ago` : "") } },
        y: { beginAtZero: true, grace: "5%", ticks: { maxTicksLimit: 3, callback: inShort } },
      },
    },
  });
}

function draw(chart, history) {
  const at = history["ms ago"].map((ms) => -ms / 60000);
  const all = chart.series.map(([name, column, divisor = 1]) => [name, history[column].map((value) => value === null ? null : value / divisor)]);
  chart.shown.figure.replaceChildren(...all.flatMap(([name, values], index) => {
    const part = element("span", "", `line-${index}`);
    part.append(element("strong", inShort(values.at(-1) ?? null)), ` ${chart.unit}${all.length > 1 ? " " + name : ""}`);
    return [part, " "];
  }));
  const known = all.flatMap(([, values]) => values.filter((value) => value !== null));
  const most = known.length ? `at most ${inShort(Math.max(...known))} ${chart.unit}`.trim() : "";
  chart.shown.note.textContent = most;
  if (!library) return;
  const plot = (chart.shown.plot ||= plotted(chart.shown.canvas));
  const style = getComputedStyle(document.documentElement);
  const [line, text] = ["--line", "--soft"].map((name) => style.getPropertyValue(name).trim());
  all.forEach(([, values], index) => {
    plot.data.datasets[index].borderColor = style.getPropertyValue(index ? "--second" : "--first").trim();
    plot.data.datasets[index].data = values.map((y, i) => ({ x: at[i], y }));
  });
  for (const scale of Object.values(plot.options.scales)) {
    scale.ticks.color = text;
    scale.grid.color = scale.grid.borderColor = line;
  }
  plot.update("none");
  chart.shown.canvas.setAttribute("aria-label", `${chart.title}, the last ${kMinutes} minutes: ${chart.shown.figure.textContent.trim()}${most && ", " + most}`);
}

async function begin() {
  // It leaves a global behind, as it is no module.
  await import("/chart.js/chart.min.js").then(() => library = globalThis.Chart).catch(() => {});
  for (const chart of kCharts) chart.shown = made(chart.title);
  document.getElementById("charts").replaceChildren(...kCharts.map(({ shown }) => shown.box));
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
    "raise maxmemory; freshetctl top-contributors shows who writes most"],
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
  attribute(items);
  document.getElementById("top").replaceChildren(...items.map((item) => {
    const row = element("li");
    const link = element("a", item.title || item.id);
    link.href = articleUrl(item.id);
    row.append(link, element("span", `${item.score.toPrecision(4)} points`, "about"));
    return row;
  }));
}

// --- The loop --------------------------------------------------------------------------------------------------------------

async function look() {
  const reply = await fetch("/status?json&full&history").catch(unreachable);
  if (!reply.ok) throw new Error(`the service answered ${reply.status}`);
  const status = await reply.json();
  for (const chart of kCharts) draw(chart, status.history);
  showFacts(status);
  showWorkers(status.processes || []);
  document.getElementById("updated").textContent = `Updated at ${new Date().toLocaleTimeString()}.`;
  const found = findingsOf(status);
  showFindings(found);
  const errors = found.filter(({ grade }) => grade === "error").map(({ what }) => what);
  say(errors.length ? `Look at this: ${errors.join("; ")}.` : "");
}

async function run() {
  await begin();
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

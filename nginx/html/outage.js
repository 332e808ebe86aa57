// The demo's simulated outage: stops Redis for ten seconds and shows that lists are still served and writes are queued.
import { button, call, demo, element, pause, plural } from "/page.js";

const kIdleMs = 2000;
const kBusyMs = 400;
const kDetectionMs = 4000;  // Redis may still look ready for this long after it was stopped

const container = document.getElementById("outage");
const badge = element("span", "", "badge");
const detail = element("span", "", "about");
const stopButton = button("", null, stopRedis);
const kBadges = { up: "Redis: up", down: "Redis: down", recovering: "Redis: recovering" };
let stoppedAt = -Infinity;
let maxQueued = 0;  // most writes queued at once during the last outage

async function stopRedis() {
  await call("POST", "/demo/stop-redis")
    .then(() => (stoppedAt = performance.now()), (error) => (detail.textContent = `We couldn’t stop Redis: ${error.message}.`));
}

// state: up, down, or recovering while queued writes are applied.
function show(state, queued) {
  maxQueued = state === "up" && queued === 0 ? maxQueued : Math.max(maxQueued, queued);
  container.dataset.state = state;
  if (badge.textContent !== kBadges[state]) badge.textContent = kBadges[state];
  stopButton.textContent = state === "down" ? "Redis is stopped; it will be back in a moment" : "Stop Redis for a few seconds";
  detail.textContent = state === "down" ? `${plural(queued, "write")} queued; lists are still served`
    : state === "recovering" ? `${plural(queued, "write")} still queued`
    : maxQueued > 1 ? `all ${maxQueued} queued writes were counted` : maxQueued ? "the queued write was counted" : "";
}

async function refresh() {
  const status = await call("GET", "/status?json");
  const queued = status["spooled bytes"] > 0 ? status.spooled - status.replayed : 0;
  const isDown = status["redis ready"] < status["total processes"];
  if (isDown && container.dataset.state === "up") maxQueued = 0;
  const justStopped = performance.now() - stoppedAt < kDetectionMs;
  show(isDown || (justStopped && queued > 0) ? "down" : queued > 0 && container.dataset.state !== "up" ? "recovering" : "up", queued);
}

function showUnknown() {
  container.dataset.state = "unknown";
  badge.textContent = "Redis: unknown";
  detail.textContent = "";
}

async function run() {
  badge.setAttribute("role", "status");
  stopButton.textContent = "Stop Redis for a few seconds";
  container.append(stopButton, " ", badge, " ", detail);
  container.dataset.state = "up";
  container.hidden = false;
  for (;;) {
    if (document.visibilityState === "visible") await refresh().catch(showUnknown);
    const busy = ["down", "recovering"].includes(container.dataset.state) || performance.now() - stoppedAt < kDetectionMs;
    await pause(busy ? kBusyMs : kIdleMs);
  }
}

if (demo) run();

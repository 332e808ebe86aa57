// The demonstration's plug: Redis stops for ten seconds, and what becomes of lists and writes meanwhile.
import { button, call, demo, element, pause } from "/page.js";

const kIdleMs = 2000;
const kBusyMs = 400;
const kShortOfReady = 4000;  // so long after the click Redis may still look ready

const place = document.getElementById("plug");
const badge = element("span", "", "badge");
const count = element("span", "", "about");
let pulledAt = -Infinity;
let most = 0;  // the writes that waited, at most

async function pull() {
  await call("POST", "/demo/unplug").then(() => (pulledAt = performance.now()), (error) => (count.textContent = `Not done: ${error.message}.`));
}

// state: there, away or back (writes still wait).
function show(state, waiting) {
  most = state === "there" && waiting === 0 ? most : Math.max(most, waiting);
  place.dataset.state = state;
  const said = { there: "Redis is there", away: "Redis is away", back: "Redis is back" }[state];
  if (badge.textContent !== said) badge.textContent = said;
  count.textContent = state === "away" ? `${waiting} writes wait, the lists stay`
    : state === "back" ? `${waiting} writes still wait` : most > 1 ? `all ${most} writes that waited are counted` : most ? "the write that waited is counted" : "";
}

async function look() {
  const status = await call("GET", "/status?json");
  const waiting = status["spooled bytes"] > 0 ? status.spooled - status.replayed : 0;
  const away = status["redis ready"] < status["total processes"];
  if (away && place.dataset.state === "there") most = 0;
  const pulled = performance.now() - pulledAt < kShortOfReady;
  show(away || (pulled && waiting > 0) ? "away" : waiting > 0 && place.dataset.state !== "there" ? "back" : "there", waiting);
}

function notKnown() {
  place.dataset.state = "unknown";
  badge.textContent = "Redis: not known";
  count.textContent = "";
}

async function run() {
  badge.setAttribute("role", "status");
  place.append(button("Pull the plug", "Pull the plug: stop Redis for ten seconds", pull), " ", badge, " ", count);
  place.dataset.state = "there";
  place.hidden = false;
  for (;;) {
    if (document.visibilityState === "visible") await look().catch(notKnown);
    const busy = ["away", "back"].includes(place.dataset.state) || performance.now() - pulledAt < kShortOfReady;
    await pause(busy ? kBusyMs : kIdleMs);
  }
}

if (demo) run();

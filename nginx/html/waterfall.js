// A channel as a site's page would show it. The page keeps two scores, `drop` of the newest item and `up` of the oldest,
// and changes only the one it asked about: pulling down asks for what is newer than `drop`, scrolling for what is older
// than `up`. So nothing comes twice and no gap opens, whatever is pushed meanwhile. Every few seconds it asks how many
// wait, without taking them.
"use strict";

const kLimit = 10;
const kPollMs = 3000;
const kRetryMs = 1000;
const kAttempts = 5;
const kPullPixels = 70;

const list = document.getElementById("timeline");
const state = document.getElementById("state");
const end = document.getElementById("end");
const more = document.getElementById("more");
const pullButton = document.getElementById("pull");

const asked = new URLSearchParams(location.search);
const channel = asked.get("channel") || "discover";
const reader = asked.get("user") || localStorage.freshetAgent || "reader-" + Math.random().toString(36).slice(2, 10);

const rows = new Map();  // id → row
let drop = 0;
let up = 0;
let begun = false;  // the first page has come
let busy = false;

function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

// A page of the timeline. Asking again with the same score gives the same answer, so what was lost is asked again.
async function ask(direction, score, limit) {
  const query = new URLSearchParams({ customerId: reader, direction, score, limit });
  const url = `/api/waterfall/${encodeURIComponent(channel)}?${query}`;
  for (let attempt = 1; ; attempt++) {
    try {
      const reply = await fetch(url);
      const answer = await reply.json();
      if (reply.ok) return answer;
      throw Object.assign(new Error(answer.msg), { final: reply.status < 500 });
    } catch (error) {
      if (error.final || attempt === kAttempts) throw error;
    }
    await pause(kRetryMs);
  }
}

function row(item) {
  const element = document.createElement("li");
  element.dataset.id = item.id;
  const link = document.createElement("a");
  link.href = "/article.html?" + new URLSearchParams({ id: item.id, user: reader });
  link.textContent = item.title || item.id;
  const about = document.createElement("span");
  about.className = "about";
  const when = new Date(item.score).toLocaleString();
  about.textContent = [item.author, `came ${when}`, (item.tags || []).join(", ")].filter(Boolean).join(" · ");
  element.append(link, about);
  rows.get(item.id)?.remove();  // it was taken out and pushed anew
  rows.set(item.id, element);
  return element;
}

function showWaiting(count) {
  pullButton.textContent = count > 0 ? `${count} new` : "Nothing new";
  pullButton.classList.toggle("waiting", count > 0);
}

const bottom = new IntersectionObserver((entries) => {
  if (entries.some((entry) => entry.isIntersecting) && !more.hidden) take("up");
}, { rootMargin: "300px" });

// The observer tells of changes only: asked anew, it also tells that the bottom is still in sight.
function lookAgain() {
  bottom.unobserve(more);
  bottom.observe(more);
}

function place(direction, page) {
  const shown = page.items.map(row);
  if (direction === "down") list.prepend(...shown);
  else list.append(...shown);
  if (direction !== "up") {
    drop = page.drop;
    begun = true;
    showWaiting(page.newer);
  }
  if (direction !== "down") {
    up = page.up;
    more.hidden = !page.has_more;
    end.hidden = page.has_more;
  }
}

async function take(direction) {
  if (busy) return;
  busy = true;
  let nextMs = 0;
  try {
    const page = await ask(direction, direction === "up" ? up : drop, kLimit);
    // A first page that could not be read is asked for again: its scores are nobody's.
    if (direction === "first" && page.degraded) throw new Error("the service is not up to date");
    place(direction, page);
    if (direction === "down") scrollTo({ top: 0, behavior: "smooth" });
    state.textContent = page.degraded ? "The service is not up to date; try again."
      : page.trimmed ? `${rows.size} items shown; others were so many that the oldest are gone.` : `${rows.size} items shown.`;
    if (page.degraded) nextMs = kPollMs;
  } catch (error) {
    state.textContent = `Not loaded: ${error.message}.`;
    nextMs = kPollMs;
    if (direction === "first" && !error.final) setTimeout(() => take("first"), kPollMs);
  } finally {
    busy = false;
    setTimeout(lookAgain, nextMs);
  }
}

function pull() {
  return take(begun ? "down" : "first");
}

async function poll() {
  for (;;) {
    await pause(kPollMs);
    if (document.visibilityState !== "visible" || busy || !begun) continue;
    const score = drop;
    const page = await ask("down", score, 1).catch(() => null);
    if (page && !page.degraded && score === drop && !busy) showWaiting(page.items.length + page.newer);
  }
}

pullButton.addEventListener("click", pull);
more.addEventListener("click", () => take("up"));

// The pull by touch: from the top of the page, downwards.
let touched = null;  // where the finger came down
addEventListener("touchstart", (event) => {
  touched = scrollY === 0 && event.touches.length === 1 ? event.touches[0].clientY : null;
}, { passive: true });
addEventListener("touchmove", (event) => {
  if (touched === null) return;
  pullButton.classList.toggle("pulled", event.touches[0].clientY - touched > kPullPixels);
}, { passive: true });
addEventListener("touchend", (event) => {
  pullButton.classList.remove("pulled");
  if (touched !== null && event.changedTouches[0].clientY - touched > kPullPixels) pull();
  touched = null;
});

localStorage.freshetAgent = reader;
document.getElementById("title").textContent = `Channel ${channel}`;
document.getElementById("reader").textContent = reader;
take("first");
poll();

// A feed as a site's page would show it: the first page by refresh, the next ones while scrolling, and every ten
// seconds a peek at what is new. A request whose reply was lost is sent again with the same page token, and gives the
// same items.
"use strict";

const kLimit = 10;
const kPeekMs = 10000;
const kRetryMs = 1000;
const kPauseMs = 5000;  // after a page without items: the service is not up to date
const kAttempts = 5;

const list = document.getElementById("feed");
const state = document.getElementById("state");
const end = document.getElementById("end");
const more = document.getElementById("more");
const refreshButton = document.getElementById("refresh");
const queryInput = document.getElementById("query");

let agent = new URLSearchParams(location.search).get("agent") || localStorage.freshetAgent || newAgent();
let page = null;  // the token last received
let query = "";
let busy = false;

function newAgent() {
  return "reader-" + Math.random().toString(36).slice(2, 10);
}

function pause(ms) {
  return new Promise((done) => setTimeout(done, ms));
}

async function ask(action) {
  const body = { action, limit: kLimit, agent_id: agent };
  if (query) body.query = query;
  if (page) body.page = page;
  else body.eventId = Math.random().toString(36).slice(2);
  const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  for (let attempt = 1; ; attempt++) {
    try {
      const reply = await fetch("/api/feed", request);
      if (reply.ok) return (await reply.json()).data;
      const problem = await reply.json();
      if (reply.status < 500 || attempt === kAttempts) throw Object.assign(new Error(problem.msg), { final: true });
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
  link.href = "/article.html?" + new URLSearchParams({ id: item.id, user: agent });
  link.textContent = item.title || item.id;
  const about = document.createElement("span");
  about.className = "about";
  const when = item.update_time ? new Date(item.update_time * 1000).toLocaleString() : "";
  about.textContent = [item.author, when, (item.tags || []).join(", ")].filter(Boolean).join(" · ");
  element.append(link, about);
  return element;
}

const bottom = new IntersectionObserver((entries) => {
  if (entries.some((entry) => entry.isIntersecting) && !more.hidden) show("load_more");
}, { rootMargin: "300px" });

// The observer tells of changes only: asked anew, it also tells that the bottom is still in sight.
function lookAgain() {
  bottom.unobserve(more);
  bottom.observe(more);
}

// Adds a page; a refresh goes on top of what is there, as new items do.
async function show(action) {
  if (busy) return;
  busy = true;
  let nextMs = kPauseMs;
  try {
    const data = await ask(action);
    page = data.page;
    const rows = data.items.map(row);
    if (action === "refresh") list.prepend(...rows);
    else list.append(...rows);
    end.hidden = !data.exhausted;
    more.hidden = !data.has_more;
    if (rows.length > 0) nextMs = 0;
    refreshButton.textContent = "Refresh";
    state.textContent = data.degraded ? "The service is not up to date; try again." : `${list.children.length} items shown.`;
  } catch (error) {
    state.textContent = `Not loaded: ${error.message}.`;
  } finally {
    busy = false;
    setTimeout(lookAgain, nextMs);
  }
}

function startOver() {
  list.replaceChildren();
  page = null;
  return show("refresh");
}

document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = queryInput.value.trim();
  if (wanted === query) return show("refresh");
  query = wanted;
  return startOver();
});
document.getElementById("other").addEventListener("click", () => {
  agent = localStorage.freshetAgent = newAgent();
  return startOver();
});
more.addEventListener("click", () => show("load_more"));

async function peek() {
  for (;;) {
    await pause(kPeekMs);
    if (document.visibilityState !== "visible" || busy) continue;
    const data = await ask("peek").catch(() => ({ new: 0 }));
    refreshButton.textContent = data.new > 0 ? `Refresh (${data.new} new)` : "Refresh";
  }
}

localStorage.freshetAgent = agent;
startOver();
peek();

// A feed as a site's page would show it: the first page by refresh, the next ones while scrolling, and every ten
// seconds a peek at what is new. A request whose reply was lost is sent again with the same page token, and gives the
// same items. What is shown and the token stay in the history's entry, so a reload or a way back shows the same place.
import { aboutItem, articleUrl, attribute, callAgain, element, newReader, pause, readerName, say } from "/page.js";

const kLimit = 10;
const kPeekMs = 10000;
const kPauseMs = 5000;  // after a page without items: the service is not up to date

const list = document.getElementById("feed");
const end = document.getElementById("end");
const more = document.getElementById("more");
const refreshButton = document.getElementById("refresh");
const queryInput = document.getElementById("query");

let agent = readerName();
let page = null;  // the token last received
let query = "";
let shown = [];  // the items, as they stand
let busy = false;

async function ask(action) {
  const body = { action, limit: kLimit, userId: agent };
  if (query) body.query = query;
  if (page) body.page = page;
  else body.eventId = Math.random().toString(36).slice(2);
  return (await callAgain("POST", "/api/feed", body)).data;
}

function row(item) {
  const made = document.createElement("li");
  made.dataset.id = item.id;
  const link = element("a", item.title || item.id);
  link.href = articleUrl(item.id, agent);
  made.append(link, element("span", aboutItem(item), "about"));
  return made;
}

const bottom = new IntersectionObserver((entries) => {
  if (entries.some((entry) => entry.isIntersecting) && !more.hidden) show("load_more");
}, { rootMargin: "300px" });

// The observer tells of changes only: asked anew, it also tells that the bottom is still in sight.
function lookAgain() {
  bottom.unobserve(more);
  bottom.observe(more);
}

function endText() {
  if (shown.length > 0) return "You have seen all there is. New items come here when you refresh.";
  return query ? `Nothing you have not seen matches “${query}”.` : "You have seen everything. New items appear when you refresh.";
}

function place(items, exhausted, hasMore) {
  end.textContent = exhausted ? endText() : "";
  end.hidden = !exhausted;
  more.hidden = !hasMore;
  attribute(items);
}

function keepPlace() {
  history.replaceState({ agent, page, query, shown, exhausted: !end.hidden, hasMore: !more.hidden }, "");
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
    shown = action === "refresh" ? [...data.items, ...shown] : [...shown, ...data.items];
    if (action === "refresh") list.prepend(...rows);
    else list.append(...rows);
    place(data.items, data.exhausted, data.has_more);
    keepPlace();
    if (rows.length > 0) nextMs = 0;
    refreshButton.textContent = "Refresh";
    say(data.degraded ? "The service is not up to date; try again." : shown.length ? `${shown.length} items shown.` : "");
  } catch (error) {
    say(`Not loaded: ${error.message}.`);
  } finally {
    busy = false;
    setTimeout(lookAgain, nextMs);
  }
}

function startOver() {
  list.replaceChildren();
  shown = [];
  page = null;
  return show("refresh");
}

// The browser scrolls back by itself, as the rows are there before the page's load event.
function goOn(kept) {
  ({ page, query, shown } = kept);
  queryInput.value = query;
  list.replaceChildren(...shown.map(row));
  place(shown, kept.exhausted, kept.hasMore);
  say(`${shown.length} items shown.`);
  lookAgain();
}

document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = queryInput.value.trim();
  if (wanted === query) return show("refresh");
  query = wanted;
  return startOver();
});
document.getElementById("other").addEventListener("click", () => {
  agent = localStorage.freshetAgent = newReader();
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
if (history.state?.agent === agent && history.state.shown.length) goOn(history.state);
else startOver();
peek();

// A reader's feed: refresh loads the first page, scrolling loads more, and a peek every ten seconds counts new items. A
// request whose response was lost is repeated with the same page token and returns the same items. The items and the token
// are kept in the history entry, so that a reload or going back restores the list.
import { callWithRetry, plural, reader, showAttribution, showStatus } from "/page.js";
import { infiniteScroll, itemRow } from "/scroll.js";

const kLimit = 10;
const kPeekMs = 10000;
const kRetryMs = 5000;  // after a page without items: the service is degraded

const list = document.getElementById("feed");
const end = document.getElementById("end");
const more = document.getElementById("more");
const refreshButton = document.getElementById("refresh");
const queryInput = document.getElementById("query");

let page = null;  // the latest page token
let query = "";
let shown = [];  // the listed items, in order
const scroller = infiniteScroll(more, () => load("load_more"));

async function request(action) {
  const body = { action, limit: kLimit, userId: reader };
  if (query) body.query = query;
  if (page) body.page = page;
  else body.eventId = Math.random().toString(36).slice(2);
  return (await callWithRetry("POST", "/api/feed", body)).data;
}

const row = (item) => itemRow(item, item.reason.text);

function endText() {
  if (shown.length === 0 && query) return `Nothing new matches “${query}”.`;
  return "You’re all caught up. Refresh to check for new articles.";
}

function showEnd(items, exhausted, hasMore) {
  end.textContent = exhausted ? endText() : "";
  end.hidden = !exhausted;
  more.hidden = !hasMore;
  showAttribution(items);
}

function saveList() {
  history.replaceState({ reader, page, query, shown, exhausted: !end.hidden, hasMore: !more.hidden }, "");
}

// Adds a page: on top after a refresh, else at the end.
function load(action) {
  return scroller.runExclusive(kRetryMs, async (isCurrent) => {
    const data = await request(action);
    if (!isCurrent()) return;
    page = data.page;
    const rows = data.items.map(row);
    shown = action === "refresh" ? [...data.items, ...shown] : [...shown, ...data.items];
    if (action === "refresh") list.prepend(...rows);
    else list.append(...rows);
    showEnd(data.items, data.exhausted, data.has_more);
    saveList();
    refreshButton.textContent = "Refresh";
    showStatus(data.degraded ? "We can’t load new articles right now. Try again." : shown.length ? `${plural(shown.length, "article")} shown.` : "");
    return rows.length > 0 ? 0 : kRetryMs;
  });
}

function startOver() {
  scroller.cancel();
  list.replaceChildren();
  shown = [];
  page = null;
  return load("refresh");
}

// The browser restores the scroll position because the rows exist before the page's load event.
function restore(saved) {
  ({ page, query, shown } = saved);
  queryInput.value = query;
  list.replaceChildren(...shown.map(row));
  showEnd(shown, saved.exhausted, saved.hasMore);
  showStatus(`${plural(shown.length, "article")} shown.`);
  scroller.checkBottom();
}

document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = queryInput.value.trim();
  if (text === query) return load("refresh");
  query = text;
  return startOver();
});

if (history.state?.reader === reader && history.state.shown.length) restore(history.state);
else startOver();
scroller.poll(kPeekMs, async () => {
  const before = page;
  const data = await request("peek").catch(() => ({ new: 0 }));
  if (page === before) refreshButton.textContent = data.new > 0 ? `Refresh (${data.new} new)` : "Refresh";
});

// A feed as a site's page would show it: the first page by refresh, the next ones while scrolling, and every ten
// seconds a peek at what is new. A request whose reply was lost is sent again with the same page token, and gives the
// same items. What is shown and the token stay in the history's entry, so a reload or a way back shows the same place.
import { attribute, callAgain, reader, say } from "/page.js";
import { growing, itemRow } from "/scroll.js";

const kLimit = 10;
const kPeekMs = 10000;
const kPauseMs = 5000;  // after a page without items: the service is not up to date

const list = document.getElementById("feed");
const end = document.getElementById("end");
const more = document.getElementById("more");
const refreshButton = document.getElementById("refresh");
const queryInput = document.getElementById("query");

let page = null;  // the token last received
let query = "";
let shown = [];  // the items, as they stand
const grown = growing(more, () => show("load_more"));

async function ask(action) {
  const body = { action, limit: kLimit, userId: reader };
  if (query) body.query = query;
  if (page) body.page = page;
  else body.eventId = Math.random().toString(36).slice(2);
  return (await callAgain("POST", "/api/feed", body)).data;
}

const row = (item) => itemRow(item, item.reason.text);

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
  history.replaceState({ reader, page, query, shown, exhausted: !end.hidden, hasMore: !more.hidden }, "");
}

// Adds a page; a refresh goes on top of what is there, as new items do.
function show(action) {
  return grown.alone(kPauseMs, async (wanted) => {
    const data = await ask(action);
    if (!wanted()) return;
    page = data.page;
    const rows = data.items.map(row);
    shown = action === "refresh" ? [...data.items, ...shown] : [...shown, ...data.items];
    if (action === "refresh") list.prepend(...rows);
    else list.append(...rows);
    place(data.items, data.exhausted, data.has_more);
    keepPlace();
    refreshButton.textContent = "Refresh";
    say(data.degraded ? "The service is not up to date; try again." : shown.length ? `${shown.length} items shown.` : "");
    return rows.length > 0 ? 0 : kPauseMs;
  });
}

function startOver() {
  grown.giveUp();
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
  grown.lookAgain();
}

document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = queryInput.value.trim();
  if (wanted === query) return show("refresh");
  query = wanted;
  return startOver();
});

if (history.state?.reader === reader && history.state.shown.length) goOn(history.state);
else startOver();
grown.every(kPeekMs, async () => {
  const before = page;
  const data = await ask("peek").catch(() => ({ new: 0 }));
  if (page === before) refreshButton.textContent = data.new > 0 ? `Refresh (${data.new} new)` : "Refresh";
});

// A reader's timeline in a channel. The page keeps two scores: `drop`, of the newest item, and `up`, of the oldest. Pulling
// down requests items newer than `drop` and updates only `drop`; scrolling requests items older than `up` and updates only
// `up`. So no item repeats and no gap opens, whatever is pushed in the meantime. Every few seconds the page counts the
// new items without adding them. The items and scores are kept in the history entry, so that a reload restores the
// list.
import { button, call, callWithRetry, element, formatDuration, params, plural, reader, showAttribution, showStatus, zone } from "/page.js";
import { infiniteScroll, itemRow } from "/scroll.js";

const kLimit = 10;
const kPollMs = 3000;
const kPullPixels = 70;

const list = document.getElementById("timeline");
const end = document.getElementById("end");
const more = document.getElementById("more");
const pullButton = document.getElementById("pull");

const channel = params.get("channel") || "discover";

const rows = new Map();  // id → row
let drop = 0;
let up = 0;
let started = false;  // the first page has arrived
let shown = [];       // the listed items, in order
const scroller = infiniteScroll(more, () => load("up"));

// Requests a page. The same score gives the same answer, so a lost response can be requested again.
function request(direction, score, limit) {
  const query = new URLSearchParams({ userId: reader, direction, score, limit });
  return callWithRetry("GET", `/api/waterfall/${encodeURIComponent(channel)}?${query}`);
}

function makeRow(item) {
  const row = itemRow(item, `${item.reason.text} · added ${formatDuration((Date.now() - item.score / 1000) / 1000)} ago`);
  rows.get(item.id)?.remove();  // the item was removed and pushed again
  rows.set(item.id, row);
  return row;
}

function showNewCount(count) {
  pullButton.textContent = count > 0 ? `Show ${count} new` : "No new articles";
  pullButton.hidden = count === 0 && shown.length === 0;
  pullButton.classList.toggle("waiting", count > 0);
}

function endText() {
  if (shown.length > 0) return "You’ve reached the end.";
  if (channel !== "follow") return `There are no articles for ${reader} yet. New ones will appear here.`;
  return "Articles by authors you follow will appear here.";
}

function showEnd(hasMore) {
  more.hidden = !hasMore;
  end.hidden = hasMore;
  end.textContent = hasMore ? "" : endText();
  if (!hasMore && shown.length === 0 && reader !== "me") {
    const sample = element("a", "View the sample reader’s timeline");
    sample.href = "?" + new URLSearchParams({ channel, user: "me" });
    end.append(" ", sample);
  }
}

function addPage(direction, page) {
  const ids = new Set(page.items.map((item) => item.id));
  const others = shown.filter((item) => !ids.has(item.id));
  shown = direction === "down" ? [...page.items, ...others] : [...others, ...page.items];
  const newRows = page.items.map(makeRow);
  if (direction === "down") list.prepend(...newRows);
  else list.append(...newRows);
  if (direction !== "up") {
    drop = page.drop;
    started = true;
    showNewCount(page.newer);
  }
  if (direction !== "down") {
    up = page.up;
    showEnd(page.has_more);
  } else if (!end.hidden) {
    showEnd(false);
  }
  showAttribution(page.items);
  history.replaceState({ reader, channel, drop, up, shown, hasMore: !more.hidden }, "");
}

function load(direction) {
  return scroller.runExclusive(kPollMs, async () => {
    const page = await request(direction, direction === "up" ? up : drop, kLimit);
    // A degraded first page has no valid scores, so request it again.
    if (direction === "first" && page.degraded) throw new Error("new articles are not available right now");
    addPage(direction, page);
    if (direction === "down") scrollTo({ top: 0, behavior: "smooth" });
    const count = `${plural(rows.size, "article")} shown.`;
    showStatus(page.degraded ? "We can’t load new articles right now. Try again."
      : page.trimmed ? `${count} Some older articles are no longer available.`
      : rows.size ? count : "");
    return page.degraded ? kPollMs : 0;
  }, (error) => {
    if (direction === "first" && !error.final) setTimeout(() => load("first"), kPollMs);
  });
}

function pull() {
  return load(started ? "down" : "first");
}

pullButton.addEventListener("click", pull);

// Pull to refresh: a downward swipe from the top of the page.
let touchStartY = null;
addEventListener("touchstart", (event) => {
  touchStartY = scrollY === 0 && event.touches.length === 1 ? event.touches[0].clientY : null;
}, { passive: true });
addEventListener("touchmove", (event) => {
  if (touchStartY === null) return;
  pullButton.classList.toggle("pulled", event.touches[0].clientY - touchStartY > kPullPixels);
}, { passive: true });
addEventListener("touchend", (event) => {
  pullButton.classList.remove("pulled");
  if (touchStartY !== null && event.changedTouches[0].clientY - touchStartY > kPullPixels) pull();
  touchStartY = null;
});

// --- Follows: public to read, but only the internal server changes them ------------------------------------------------

const follows = document.getElementById("follows");
const followForm = document.getElementById("follow");
const authorInput = document.getElementById("author");

async function changeFollow(method, author) {
  try {
    if (method === "PUT") await call("PUT", "/api/follows", { userId: reader, author });
    else await call("DELETE", "/api/follows?" + new URLSearchParams({ userId: reader, author }));
    showStatus(method === "PUT" ? `You now follow ${author}.` : `You no longer follow ${author}.`);
  } catch (error) {
    showStatus(`We couldn’t save that: ${error.message}.`);
  }
  await showFollows();
}

let latestFollowsTurn = 0;

async function showFollows() {
  const turn = ++latestFollowsTurn;
  const { items } = await call("GET", "/api/follows?" + new URLSearchParams({ userId: reader })).catch(() => ({ items: [] }));
  if (turn !== latestFollowsTurn) return;
  follows.replaceChildren(items.length ? "You follow " : "You don’t follow anyone yet. ");
  if (zone === "internal") for (const author of items) follows.append(button(`${author} ×`, `Unfollow ${author}`, () => changeFollow("DELETE", author)), " ");
  else if (items.length) follows.append(element("strong", items.join(", ")), ". ");
  if (zone !== "internal") follows.append("Follows are changed by your site’s back end, or on this page of the internal server.");
  follows.hidden = false;
}

// Suggests the authors of hot articles.
async function suggestAuthors() {
  const items = await call("GET", "/api/hot?model=engagement&limit=50");
  const names = new Set(items.map((item) => item.author).filter(Boolean));
  document.getElementById("authors").replaceChildren(...[...names].map((author) => Object.assign(element("option"), { value: author })));
  const buttons = [...names].slice(0, 5).map((author) => button(author, `Follow ${author}`, () => changeFollow("PUT", authorId(author))));
  if (names.size) document.getElementById("hot-authors").replaceChildren("Popular now: ", ...buttons.flatMap((each) => [each, " "]));
}

const authorId = (author) => author.trim().replace(/[\s:{}]+/g, "_");  // not allowed in ids

followForm.addEventListener("submit", (event) => {
  event.preventDefault();
  const author = authorId(authorInput.value);
  authorInput.value = "";
  if (author) changeFollow("PUT", author);
});

// --- Start -------------------------------------------------------------------------------------------------------------

function restore(saved) {
  ({ drop, up, shown } = saved);
  list.replaceChildren(...shown.map(makeRow));
  started = true;
  showNewCount(0);
  showEnd(saved.hasMore);
  showAttribution(shown);
  showStatus(`${plural(shown.length, "article")} shown.`);
  scroller.checkBottom();
}

const name = channel[0].toUpperCase() + channel.slice(1);
document.title = name;
document.getElementById("title").textContent = name;
document.getElementById("reader").textContent = reader;
document.querySelector(`nav a[href="/waterfall.html${channel === "discover" ? "" : "?channel=follow"}"]`).setAttribute("aria-current", "page");
if (channel === "follow") {
  followForm.hidden = zone !== "internal";
  showFollows();
  if (zone === "internal") suggestAuthors().catch(() => {});
}
const saved = history.state;
if (saved?.reader === reader && saved.channel === channel && saved.shown.length) restore(saved);
else load("first");
scroller.poll(kPollMs, async () => {
  if (!started) return;
  const score = drop;
  const page = await request("down", score, 1).catch(() => null);
  if (page && !page.degraded && score === drop && !scroller.busy) showNewCount(page.items.length + page.newer);
});

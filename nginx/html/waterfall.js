// A channel as a site's page would show it. The page keeps two scores, `drop` of the newest item and `up` of the oldest,
// and changes only the one it asked about: pulling down asks for what is newer than `drop`, scrolling for what is older
// than `up`. So nothing comes twice and no gap opens, whatever is pushed meanwhile. Every few seconds it asks how many
// wait, without taking them. What is shown and the scores stay in the history's entry, so a reload shows the same place.
import { asked, attribute, button, call, callAgain, element, inWords, reader, say, zone } from "/page.js";
import { growing, itemRow } from "/scroll.js";

const kLimit = 10;
const kPollMs = 3000;
const kPullPixels = 70;

const list = document.getElementById("timeline");
const end = document.getElementById("end");
const more = document.getElementById("more");
const pullButton = document.getElementById("pull");

const channel = asked.get("channel") || "discover";

const rows = new Map();  // id → row
let drop = 0;
let up = 0;
let begun = false;  // the first page has come
let shown = [];     // the items, as they stand
const grown = growing(more, () => take("up"));

// A page of the timeline. Asking again with the same score gives the same answer, so what was lost is asked again.
function ask(direction, score, limit) {
  const query = new URLSearchParams({ userId: reader, direction, score, limit });
  return callAgain("GET", `/api/waterfall/${encodeURIComponent(channel)}?${query}`);
}

function row(item) {
  const made = itemRow(item, `${item.reason.text} · came ${inWords((Date.now() - item.score / 1000) / 1000)} ago`);
  rows.get(item.id)?.remove();  // it was taken out and pushed anew
  rows.set(item.id, made);
  return made;
}

function showWaiting(count) {
  pullButton.textContent = count > 0 ? `${count} new` : "Nothing new";
  pullButton.hidden = count === 0 && shown.length === 0;
  pullButton.classList.toggle("waiting", count > 0);
}

function endText() {
  if (shown.length > 0) return "There is nothing older.";
  if (channel !== "follow") return `Nothing has been pushed to ${reader} yet. New items appear here by themselves.`;
  return "Items of the authors you follow appear here.";
}

function showEnd(hasMore) {
  more.hidden = !hasMore;
  end.hidden = hasMore;
  end.textContent = hasMore ? "" : endText();
  if (!hasMore && shown.length === 0 && reader !== "me") {
    const sample = element("a", "See the sample's reader");
    sample.href = "?" + new URLSearchParams({ channel, user: "me" });
    end.append(" ", sample);
  }
}

function place(direction, page) {
  const there = new Set(page.items.map((item) => item.id));
  const others = shown.filter((item) => !there.has(item.id));
  shown = direction === "down" ? [...page.items, ...others] : [...others, ...page.items];
  const made = page.items.map(row);
  if (direction === "down") list.prepend(...made);
  else list.append(...made);
  if (direction !== "up") {
    drop = page.drop;
    begun = true;
    showWaiting(page.newer);
  }
  if (direction !== "down") {
    up = page.up;
    showEnd(page.has_more);
  } else if (!end.hidden) {
    showEnd(false);
  }
  attribute(page.items);
  history.replaceState({ reader, channel, drop, up, shown, hasMore: !more.hidden }, "");
}

function take(direction) {
  return grown.alone(kPollMs, async () => {
    const page = await ask(direction, direction === "up" ? up : drop, kLimit);
    // A first page that could not be read is asked for again: its scores are nobody's.
    if (direction === "first" && page.degraded) throw new Error("the service is not up to date");
    place(direction, page);
    if (direction === "down") scrollTo({ top: 0, behavior: "smooth" });
    say(page.degraded ? "The service is not up to date; try again."
      : page.trimmed ? `${rows.size} items shown. Older ones were dropped to make room.`
      : rows.size ? `${rows.size} items shown.` : "");
    return page.degraded ? kPollMs : 0;
  }, (error) => {
    if (direction === "first" && !error.final) setTimeout(() => take("first"), kPollMs);
  });
}

function pull() {
  return take(begun ? "down" : "first");
}

pullButton.addEventListener("click", pull);

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

// --- Follows: read by the reader, written by the site's back end, so from a page of the internal server ------------------

const follows = document.getElementById("follows");
const followForm = document.getElementById("follow");
const authorInput = document.getElementById("author");

async function changeFollow(method, author) {
  try {
    if (method === "PUT") await call("PUT", "/api/follows", { userId: reader, author });
    else await call("DELETE", "/api/follows?" + new URLSearchParams({ userId: reader, author }));
    say(method === "PUT" ? `You follow ${author}.` : `You no longer follow ${author}.`);
  } catch (error) {
    say(`Not done: ${error.message}.`);
  }
  await showFollows();
}

let followsAsked = 0;

async function showFollows() {
  const turn = ++followsAsked;
  const { items } = await call("GET", "/api/follows?" + new URLSearchParams({ userId: reader })).catch(() => ({ items: [] }));
  if (turn !== followsAsked) return;
  follows.replaceChildren(items.length ? "You follow " : "You follow nobody yet. ");
  if (zone === "internal") for (const author of items) follows.append(button(`${author} ×`, `Unfollow ${author}`, () => changeFollow("DELETE", author)), " ");
  else if (items.length) follows.append(element("strong", items.join(", ")), ". ");
  if (zone !== "internal") follows.append("A site's back end records follows; this page does it when the internal server serves it.");
  follows.hidden = false;
}

// Authors of what is hot, to choose from.
async function suggestAuthors() {
  const items = await call("GET", "/api/hot?model=engagement&limit=50");
  const names = new Set(items.map((item) => item.author).filter(Boolean));
  document.getElementById("authors").replaceChildren(...[...names].map((author) => Object.assign(element("option"), { value: author })));
  const buttons = [...names].slice(0, 5).map((author) => button(author, `Follow ${author}`, () => changeFollow("PUT", idOf(author))));
  if (names.size) document.getElementById("hot-authors").replaceChildren("Read now: ", ...buttons.flatMap((each) => [each, " "]));
}

const idOf = (author) => author.trim().replace(/[\s:{}]+/g, "_");  // an id has none of these

followForm.addEventListener("submit", (event) => {
  event.preventDefault();
  const author = idOf(authorInput.value);
  authorInput.value = "";
  if (author) changeFollow("PUT", author);
});

// --- Start -------------------------------------------------------------------------------------------------------------

function goOn(kept) {
  ({ drop, up, shown } = kept);
  list.replaceChildren(...shown.map(row));
  begun = true;
  showWaiting(0);
  showEnd(kept.hasMore);
  attribute(shown);
  say(`${shown.length} items shown.`);
  grown.lookAgain();
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
const kept = history.state;
if (kept?.reader === reader && kept.channel === channel && kept.shown.length) goOn(kept);
else take("first");
grown.every(kPollMs, async () => {
  if (!begun) return;
  const score = drop;
  const page = await ask("down", score, 1).catch(() => null);
  if (page && !page.degraded && score === drop && !grown.busy) showWaiting(page.items.length + page.newer);
});

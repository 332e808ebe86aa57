// Recommendations as a site's page would show them, each with its reason. Opening an item records the view; the very
// next request leaves it out.
import { aboutItem, articleUrl, asked, attribute, button, call, demo, element, inWords, reader, replaceRows, say } from "/page.js";

const kLimit = 10;
const kUndoMs = 8000;
const kAgainMs = 3000;  // after a page that was not up to date

const list = document.getElementById("items");
const history_ = document.getElementById("history");
const excluded = document.getElementById("excluded");

let beside = asked.get("beside") || "";  // another reader, whose recommendations stand beside
const titles = new Map();  // of what has been on this page

function link(id) {
  const made = element("a", titles.get(id) || id);
  made.href = articleUrl(id);
  made.target = "_blank";
  made.addEventListener("click", () => looked(id));
  return made;
}

function row(item) {
  titles.set(item.id, item.title || item.id);
  const made = document.createElement("li");
  made.dataset.id = item.id;
  made.dataset.reason = item.reason.kind;
  const no = button("Not interested", `Not interested in ${titles.get(item.id)}`, () => dismiss(item.id, made));
  made.append(link(item.id), element("span", item.reason.text, "reason"), aboutItem(item), no);
  return made;
}

async function looked(id) {
  await call("POST", "/api/history", { userId: reader, topicId: id }).catch(report);
  return show();
}

async function dismiss(id, made) {
  try {
    await call("POST", "/api/feedback", { userId: reader, topicId: id, kind: "not_interested" });
  } catch (error) {
    return report(error);
  }
  const title = titles.get(id);
  const undo = button("Undo", `Undo: not interested in ${title}`, async () => {
    await call("DELETE", "/api/feedback?" + new URLSearchParams({ userId: reader, topicId: id })).catch(report);
    return show();
  });
  const focused = made.contains(document.activeElement);
  made.replaceChildren(element("span", `“${title}” is not recommended for a while. `, "about"), undo);
  if (focused) undo.focus();
  setTimeout(() => made.isConnected && show(), kUndoMs);
}

function report(error) {
  say(`Not done: ${error.message}.`);
}

function recommended(reader) {
  return call("GET", `/api/recommendations?limit=${kLimit}&${new URLSearchParams({ userId: reader })}`);
}

// Marks the rows that `others` do not have.
function markOnly(rows, others, reader) {
  const there = new Set(others.map((item) => item.id));
  for (const made of rows) if (!there.has(made.dataset.id)) made.children[0].after(element("span", `only for ${reader}`, "only"));
  return rows;
}

function otherRow(item) {
  const made = document.createElement("li");
  made.dataset.id = item.id;
  const link = element("a", item.title || item.id);
  link.href = articleUrl(item.id, beside);
  made.append(link, element("span", item.reason.text, "reason"), aboutItem(item));
  return made;
}

// "ease@1795401784" was trained then.
function modelInWords(model) {
  const [name, at] = model.split("@");
  return at ? `Model: ${name}, trained ${inWords(Date.now() / 1000 - at)} ago.` : `Model: ${name}.`;
}

let shows = 0;

// Of several under way the last alone is shown, whatever the order of their replies.
async function show() {
  const turn = ++shows;
  try {
    const [page, seen, other] = await Promise.all([
      recommended(reader), call("GET", "/api/history?" + new URLSearchParams({ userId: reader })), beside ? recommended(beside) : null]);
    if (turn !== shows) return;
    const mine = page.items.map(row);
    replaceRows(list, other ? markOnly(mine, other.items, "you") : mine);
    document.getElementById("beside").hidden = !other;
    if (other) {
      document.getElementById("beside-title").textContent = `For ${beside}`;
      replaceRows(document.getElementById("beside-items"), markOnly(other.items.map(otherRow), page.items, beside));
    }
    replaceRows(history_, seen.items.map((id) => {
      const made = document.createElement("li");
      made.dataset.id = id;
      made.append(link(id));
      return made;
    }));
    document.getElementById("unread").hidden = seen.items.length > 0;
    attribute(page.items);
    const out = page.excluded;
    excluded.textContent = `Left out: ${out.viewed} viewed, ${out.interacted} interacted with, ${out.not_interested} dismissed. ` +
      modelInWords(page.model);
    if (page.degraded) setTimeout(show, kAgainMs);
    say(page.degraded ? `The service is not up to date${page.items.length ? "; this is what was trending" : ""}.`
      : page.items.length ? "" : "There is nothing to recommend yet.");
  } catch (error) {
    if (turn === shows) say(`Not loaded: ${error.message}.`);
  }
}

// Readers of the sample, whose past is known.
const nameInput = document.getElementById("name");
if (demo.readers?.length) document.getElementById("known").append("Readers of the sample: ");
for (const reader of demo.readers || []) {
  document.getElementById("known").append(button(reader, `Compare with ${reader}`, () => {
    nameInput.value = reader;
    document.getElementById("compare").requestSubmit();
  }), " ");
}

document.getElementById("compare").addEventListener("submit", (event) => {
  event.preventDefault();
  beside = nameInput.value.trim();
  if (beside) asked.set("beside", beside);
  else asked.delete("beside");
  history.replaceState(null, "", "?" + asked);
  return show();
});
document.getElementById("clear").addEventListener("click", async () => {
  await call("DELETE", "/api/history?" + new URLSearchParams({ userId: reader })).catch(report);
  return show();
});

nameInput.value = beside;
show();

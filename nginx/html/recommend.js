// Recommendations with their reasons, optionally compared with another reader's. Opening an article records the view, and
// the next request excludes it.
import { articleUrl, button, call, demo, describeItem, element, formatDuration, params, reader, replaceRows, showAttribution, showStatus } from "/page.js";

const kLimit = 10;
const kUndoMs = 8000;
const kRetryMs = 3000;  // after a degraded page

const list = document.getElementById("items");
const historyList = document.getElementById("history");
const excluded = document.getElementById("excluded");

let otherReader = params.get("beside") || "";  // the reader to compare with
const titles = new Map();  // id → title of every item this page has listed

function makeLink(id) {
  const link = element("a", titles.get(id) || id);
  link.href = articleUrl(id);
  link.target = "_blank";
  link.addEventListener("click", () => recordView(id));
  return link;
}

function makeRow(item) {
  titles.set(item.id, item.title || item.id);
  const row = document.createElement("li");
  row.dataset.id = item.id;
  row.dataset.reason = item.reason.kind;
  const dismissButton = button("Not interested", `Not interested in ${titles.get(item.id)}`, () => dismiss(item.id, row));
  row.append(makeLink(item.id), element("span", item.reason.text, "reason"), describeItem(item), dismissButton);
  return row;
}

async function recordView(id) {
  await call("POST", "/api/history", { userId: reader, topicId: id }).catch(report);
  return show();
}

async function dismiss(id, row) {
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
  const focused = row.contains(document.activeElement);
  row.replaceChildren(element("span", `We won’t recommend “${title}” for a while. `, "about"), undo);
  if (focused) undo.focus();
  setTimeout(() => row.isConnected && show(), kUndoMs);
}

function report(error) {
  showStatus(`We couldn’t save that: ${error.message}.`);
}

function fetchRecommendations(reader) {
  return call("GET", `/api/recommendations?limit=${kLimit}&${new URLSearchParams({ userId: reader })}`);
}

// Marks the rows whose items are not among `otherItems`.
function markUnique(rows, otherItems, name) {
  const otherIds = new Set(otherItems.map((item) => item.id));
  for (const row of rows) if (!otherIds.has(row.dataset.id)) row.children[0].after(element("span", `only for ${name}`, "only"));
  return rows;
}

function makeOtherRow(item) {
  const row = document.createElement("li");
  row.dataset.id = item.id;
  const link = element("a", item.title || item.id);
  link.href = articleUrl(item.id, otherReader);
  row.append(link, element("span", item.reason.text, "reason"), describeItem(item));
  return row;
}

// The model is named "ease@1795401784": NAME@TIME, with the unix time of its training.
function describeModel(model) {
  const [name, trainedAt] = model.split("@");
  return trainedAt ? `Model: ${name}, trained ${formatDuration(Date.now() / 1000 - trainedAt)} ago.` : `Model: ${name}.`;
}

let latestTurn = 0;

// Shows only the latest of concurrent calls, in whatever order the responses arrive.
async function show() {
  const turn = ++latestTurn;
  try {
    const [page, seen, other] = await Promise.all([
      fetchRecommendations(reader), call("GET", "/api/history?" + new URLSearchParams({ userId: reader })), otherReader ? fetchRecommendations(otherReader) : null]);
    if (turn !== latestTurn) return;
    const rows = page.items.map(makeRow);
    replaceRows(list, other ? markUnique(rows, other.items, "you") : rows);
    document.getElementById("beside").hidden = !other;
    if (other) {
      document.getElementById("beside-title").textContent = `For ${otherReader}`;
      replaceRows(document.getElementById("beside-items"), markUnique(other.items.map(makeOtherRow), page.items, otherReader));
    }
    replaceRows(historyList, seen.items.map((id) => {
      const row = document.createElement("li");
      row.dataset.id = id;
      row.append(makeLink(id));
      return row;
    }));
    document.getElementById("unread").hidden = seen.items.length > 0;
    showAttribution(page.items);
    const { viewed, interacted, not_interested: dismissed } = page.excluded;
    excluded.textContent = `Excluded: ${viewed} viewed, ${interacted} interacted with, ${dismissed} dismissed. ${describeModel(page.model)}`;
    if (page.degraded) setTimeout(show, kRetryMs);
    showStatus(page.degraded ? `We can’t personalize your recommendations right now.${page.items.length ? " Here is what was trending." : ""}`
      : page.items.length ? "" : "There is nothing to recommend yet.");
  } catch (error) {
    if (turn === latestTurn) showStatus(`We couldn’t load your recommendations: ${error.message}.`);
  }
}

// The sample's most active readers.
const nameInput = document.getElementById("name");
if (demo.readers?.length) document.getElementById("known").append("Sample readers: ");
for (const reader of demo.readers || []) {
  document.getElementById("known").append(button(reader, `Compare with ${reader}`, () => {
    nameInput.value = reader;
    document.getElementById("compare").requestSubmit();
  }), " ");
}

document.getElementById("compare").addEventListener("submit", (event) => {
  event.preventDefault();
  otherReader = nameInput.value.trim();
  if (otherReader) params.set("beside", otherReader);
  else params.delete("beside");
  history.replaceState(null, "", "?" + params);
  return show();
});
document.getElementById("clear").addEventListener("click", async () => {
  await call("DELETE", "/api/history?" + new URLSearchParams({ userId: reader })).catch(report);
  return show();
});

nameInput.value = otherReader;
show();

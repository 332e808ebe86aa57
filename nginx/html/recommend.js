// Recommendations as a site's page would show them, each with its reason. Opening an item records the view; the very
// next request leaves it out.
import { aboutItem, articleUrl, attribute, button, call, element, newReader, readerName, replaceRows, say } from "/page.js";

const kLimit = 10;
const kUndoMs = 8000;

const list = document.getElementById("items");
const history_ = document.getElementById("history");
const excluded = document.getElementById("excluded");

let user = readerName();
const titles = new Map();  // of what has been on this page

function link(id) {
  const made = element("a", titles.get(id) || id);
  made.href = articleUrl(id, user);
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
  made.append(link(item.id), element("span", item.reason.text, "reason"), element("span", aboutItem(item), "about"), no);
  return made;
}

async function looked(id) {
  await call("POST", "/api/history", { userId: user, topicId: id }).catch(report);
  return show();
}

async function dismiss(id, made) {
  try {
    await call("POST", "/api/feedback", { userId: user, topicId: id, kind: "not_interested" });
  } catch (error) {
    return report(error);
  }
  const title = titles.get(id);
  const undo = button("Undo", `Undo: not interested in ${title}`, async () => {
    await call("DELETE", "/api/feedback?" + new URLSearchParams({ userId: user, topicId: id })).catch(report);
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

async function show() {
  try {
    const who = new URLSearchParams({ userId: user });
    const [page, seen] = await Promise.all([
      call("GET", `/api/recommendations?limit=${kLimit}&${who}`), call("GET", "/api/history?" + who)]);
    replaceRows(list, page.items.map(row));
    replaceRows(history_, seen.items.map((id) => {
      const made = document.createElement("li");
      made.dataset.id = id;
      made.append(link(id));
      return made;
    }));
    attribute(page.items);
    const out = page.excluded;
    excluded.textContent = `Left out: ${out.viewed} viewed, ${out.interacted} interacted with, ${out.not_interested} dismissed. ` +
      `Model: ${page.model}.`;
    say(page.degraded ? "The service is not up to date; this is what was trending."
      : page.items.length ? "" : "There is nothing to recommend yet.");
  } catch (error) {
    say(`Not loaded: ${error.message}.`);
  }
}

document.getElementById("clear").addEventListener("click", async () => {
  await call("DELETE", "/api/history?" + new URLSearchParams({ userId: user })).catch(report);
  return show();
});
document.getElementById("other").addEventListener("click", () => {
  user = localStorage.freshetAgent = newReader();
  return show();
});

localStorage.freshetAgent = user;
show();

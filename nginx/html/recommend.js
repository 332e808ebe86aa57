// Recommendations as a site's page would show them, each with its reason. Opening an item records the view; the very
// next request leaves it out.
"use strict";

const kLimit = 10;
const kUndoMs = 8000;

const list = document.getElementById("items");
const history = document.getElementById("history");
const state = document.getElementById("state");
const excluded = document.getElementById("excluded");

let user = new URLSearchParams(location.search).get("user") || localStorage.freshetAgent || newUser();
const titles = new Map();  // of what has been on this page

function newUser() {
  return "reader-" + Math.random().toString(36).slice(2, 10);
}

async function call(method, path, body) {
  const request = { method, keepalive: true };
  if (body) Object.assign(request, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const reply = await fetch(path, request);
  const answer = await reply.json();
  if (!reply.ok) throw new Error(answer.msg);
  return answer;
}

function element(tag, text, className) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function link(id) {
  const made = element("a", titles.get(id) || id);
  made.href = "/article.html?" + new URLSearchParams({ id, user });
  made.target = "_blank";
  made.addEventListener("click", () => looked(id));
  return made;
}

function row(item) {
  titles.set(item.id, item.title || item.id);
  const made = document.createElement("li");
  made.dataset.id = item.id;
  made.dataset.reason = item.reason.kind;
  const no = element("button", "Not interested");
  no.type = "button";
  no.addEventListener("click", () => dismiss(item.id, made));
  const tags = (item.tags || []).join(", ");
  made.append(link(item.id), element("span", item.reason.text, "reason"), element("span", tags, "about"), no);
  return made;
}

async function looked(id) {
  await call("POST", "/api/history", { userId: user, topicId: id }).catch(report);
  return show();
}

async function dismiss(id, element_) {
  const what = { userId: user, topicId: id, kind: "not_interested" };
  try {
    await call("POST", "/api/feedback", what);
  } catch (error) {
    return report(error);
  }
  const undo = element("button", "Undo");
  undo.type = "button";
  undo.addEventListener("click", async () => {
    await call("DELETE", "/api/feedback?" + new URLSearchParams({ userId: user, topicId: id })).catch(report);
    return show();
  });
  element_.replaceChildren(element("span", "You will not see it for a while. ", "about"), undo);
  setTimeout(() => element_.isConnected && show(), kUndoMs);
}

function report(error) {
  state.textContent = `Not done: ${error.message}.`;
}

async function show() {
  try {
    const who = new URLSearchParams({ userId: user });
    const [page, seen] = await Promise.all([
      call("GET", `/api/recommendations?limit=${kLimit}&${who}`), call("GET", "/api/history?" + who)]);
    list.replaceChildren(...page.items.map(row));
    history.replaceChildren(...seen.items.map((id) => {
      const made = document.createElement("li");
      made.dataset.id = id;
      made.append(link(id));
      return made;
    }));
    const out = page.excluded;
    excluded.textContent = `Left out: ${out.viewed} viewed, ${out.interacted} interacted with, ${out.not_interested} dismissed. ` +
      `Model: ${page.model}.`;
    state.textContent = page.degraded ? "The service is not up to date; this is what was trending." : "";
  } catch (error) {
    state.textContent = `Not loaded: ${error.message}.`;
  }
}

document.getElementById("clear").addEventListener("click", async () => {
  await call("DELETE", "/api/history?" + new URLSearchParams({ userId: user })).catch(report);
  return show();
});
document.getElementById("other").addEventListener("click", () => {
  user = localStorage.freshetAgent = newUser();
  return show();
});

localStorage.freshetAgent = user;
show();

// A stand-in for an article of a site: carries freshet.js for the article named in ?id= and shows what it counts.
import { aboutItem, articleUrl, asked, attribute, call, callAgain, element, reader, zone } from "/page.js";

const article = asked.get("id") || "demo";
const conf = { article, user: reader };
for (const name of ["first", "every"]) if (asked.has(name)) conf[name] = Number(asked.get(name));

const title = document.getElementById("title");
title.textContent = article;

// The internal server takes JSON alone, which a beacon does not say it is.
if (zone === "internal") {
  navigator.sendBeacon = (url, body) => {
    fetch(url, { method: "POST", keepalive: true, headers: { "Content-Type": "application/json" }, body }).catch(() => {});
    return true;
  };
}

const script = document.createElement("script");
script.src = "/freshet.js";
script.dataset.freshet = JSON.stringify(conf);
document.head.append(script);
document.getElementById("tag").textContent = `<script defer src="/freshet.js" data-freshet='${JSON.stringify(conf)}'></script>`;

let visibleMs = 0;
let last = performance.now();
setInterval(() => {
  const now = performance.now();
  if (document.visibilityState === "visible") visibleMs += now - last;
  last = now;
  document.getElementById("seconds").textContent = Math.floor(visibleMs / 1000);
}, 200);

function describe(item) {
  document.title = title.textContent = item.title;
  aboutItem(item, document.getElementById("about"));
  const text = document.getElementById("text");
  text.textContent = item.text || "";
  text.hidden = !item.text;
}

async function showSimilar() {
  const { items } = await call("GET", `/api/items/${encodeURIComponent(article)}/similar?limit=5`);
  document.getElementById("similar-items").replaceChildren(...items.map((item) => {
    const row = element("li");
    const link = element("a", item.title || item.id);
    link.href = articleUrl(item.id);
    row.append(link, aboutItem(item));
    return row;
  }));
  document.getElementById("similar").hidden = items.length === 0;
}

let known = false;
function meet(item) {
  if (known || !item.title) return;
  known = true;
  describe(item);
  attribute([item]);
  showSimilar().catch(() => {});
}

// The internal server tells all of an item. What the hot lists tell of it has no text, so it counts only after that failed,
// and on the public server.
const told = zone !== "internal" ? Promise.resolve(false)
  : callAgain("GET", "/api/items/" + encodeURIComponent(article)).then((item) => (meet(item), true), () => false);

async function place(model) {
  const items = await call("GET", `/api/hot?model=${model}&limit=100`);
  const index = items.findIndex((item) => item.id === article);
  if (index >= 0) told.then((whole) => whole || meet(items[index]));
  return index < 0 ? null : `${index + 1} by ${model}`;
}

async function showPlaces() {
  const found = (await Promise.all(["engagement", "views"].map((model) => place(model).catch(() => null)))).filter(Boolean);
  if (found.length) document.getElementById("places").textContent = found.join(", ");
  setTimeout(showPlaces, 2000);
}
showPlaces();

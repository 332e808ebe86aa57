// A stand-in for an article of a site: carries freshet.js for the article named in ?id= and shows what it counts.
import { aboutItem, asked } from "/page.js";

const article = asked.get("id") || "demo";
const conf = { article };
if (asked.has("user")) conf.user = asked.get("user");
for (const name of ["first", "every"]) if (asked.has(name)) conf[name] = Number(asked.get(name));

const title = document.getElementById("title");
title.textContent = article;

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

async function place(model) {
  const items = await (await fetch(`/api/hot?model=${model}&limit=100`)).json();
  const index = items.findIndex((item) => item.id === article);
  if (index >= 0 && items[index].title) document.title = title.textContent = items[index].title;
  return index < 0 ? null : `${index + 1} by ${model}`;
}

async function showPlaces() {
  const found = (await Promise.all(["engagement", "views"].map((model) => place(model).catch(() => null)))).filter(Boolean);
  if (found.length) document.getElementById("places").textContent = found.join(", ");
  setTimeout(showPlaces, 2000);
}
showPlaces();

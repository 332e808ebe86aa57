// A sample article page: loads freshet.js for the article ?id= and shows what it measures.
import { articleUrl, call, callWithRetry, describeItem, element, kKeysAreSet, params, reader, showAttribution, showStatus, zone } from "/page.js";

const article = params.get("id");
const title = document.getElementById("title");

// Loads the tag, shows it, and counts the seconds.
function measure() {
  const config = { article, user: reader };
  for (const name of ["first", "every"]) if (params.has(name)) config[name] = Number(params.get(name));

  const script = document.createElement("script");
  script.src = "/freshet.js";
  script.dataset.freshet = JSON.stringify(config);
  document.head.append(script);
  document.getElementById("tag").textContent = `<script defer src="/freshet.js" data-freshet='${JSON.stringify(config)}'></script>`;

  let visibleMs = 0;
  let lastTick = performance.now();
  setInterval(() => {
    const now = performance.now();
    if (document.visibilityState === "visible") visibleMs += now - lastTick;
    lastTick = now;
    document.getElementById("seconds").textContent = Math.floor(visibleMs / 1000);
  }, 200);
}

function renderItem(item) {
  document.title = title.textContent = item.title;
  describeItem(item, document.getElementById("about"));
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
    row.append(link, describeItem(item));
    return row;
  }));
  document.getElementById("similar").hidden = items.length === 0;
}

let rendered = false;
function renderOnce(item) {
  if (rendered || !item.title) return;
  rendered = true;
  renderItem(item);
  showAttribution([item]);
  showSimilar().catch(() => {});
}

// Only the internal server returns the whole item. The hot lists return it without its text, so they are the fallback if
// that request fails, and the only source on the public server.
const loadWholeItem = () => zone !== "internal" ? Promise.resolve(false)
  : callWithRetry("GET", "/api/items/" + encodeURIComponent(article)).then((item) => (renderOnce(item), true), () => false);

async function findPosition(model, hasWholeItem) {
  const items = await call("GET", `/api/hot?model=${model}&limit=100`);
  const index = items.findIndex((item) => item.id === article);
  if (index >= 0) hasWholeItem.then((whole) => whole || renderOnce(items[index]));
  return index < 0 ? null : `#${index + 1} by ${model}`;
}

// A list that fails is left out.
function ignore({ message }) {
  if (message === kKeysAreSet) showStatus(message);
  return null;
}

async function showPositions(hasWholeItem) {
  const found = (await Promise.all(["engagement", "views", "trending"].map((model) => findPosition(model, hasWholeItem).catch(ignore)))).filter(Boolean);
  if (found.length) document.getElementById("places").textContent = found.join(", ");
  setTimeout(showPositions, 2000, hasWholeItem);
}

if (article) {
  title.textContent = article;
  measure();
  showPositions(loadWholeItem());
} else {
  document.title = title.textContent = "No article";
  showStatus("The address names no article. Open one from a list.");
  document.querySelector("main").hidden = true;
}

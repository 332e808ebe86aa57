// Sliders for half-life, weights and exponent, with the resulting hot list next to the current one. The service computes
// both from the same counters, so that only the settings make them differ.
import { articleUrl, element, pause, readJson, showAttribution, showStatus, throwUnreachable, zone } from "/page.js";

const kShown = 20;
const kSettleMs = 150;  // a dragged slider sends a request once it rests
const kRetryMs = 2000;
const kSettingsHeader = "Freshet-Settings";

// A slider has the positions 0 … steps; toValue and toPosition convert between position and value.
const linear = (maximum, step) =>
  ({ steps: Math.round(maximum / step), toValue: (position) => Number((position * step).toPrecision(6)), toPosition: (value) => value / step });
const kHalfLives = [600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 259200, 604800, 1209600, 2592000];
const kTrendingHalfLives = [300, 900, 3600, 21600, 86400];
const nearest = (values, value) =>
  values.reduce((best, each, position) => (Math.abs(Math.log(each / value)) < Math.abs(Math.log(values[best] / value)) ? position : best), 0);
const formatSeconds = (s) => (s % 86400 === 0 ? `${s / 86400}d` : s % 3600 === 0 ? `${s / 3600}h` : `${Math.round(s / 60)}m`);
const kSliders = {
  engagement: [
    { name: "hot.half_life", title: "Half-life", format: formatSeconds, steps: kHalfLives.length - 1, toValue: (position) => kHalfLives[position],
      toPosition: (value) => nearest(kHalfLives, value) },
    { name: "hot.pv_weight", title: "Points per page view", ...linear(10, 0.1) },
    { name: "hot.uv_weight", title: "Points per visitor", ...linear(10, 0.1) },
    { name: "hot.dwell_weight", title: "Points per millisecond read", ...linear(0.01, 0.0001) },
  ],
  views: [
    { name: "views.gamma", title: "Age exponent (gamma)", ...linear(3, 0.05) },
    { name: "views.base_hours", title: "Hours added to the age", ...linear(24, 0.25) },
  ],
  trending: [
    { name: "trending.half_life", title: "Half-life", format: formatSeconds, steps: kTrendingHalfLives.length - 1,
      toValue: (position) => kTrendingHalfLives[position], toPosition: (value) => nearest(kTrendingHalfLives, value) },
  ],
};
const kNotes = {
  engagement: "Re-scores the current top 10,000.",
  trending: "Re-scores the current top 10,000.",
  views: "Shows mode=current. In mode=accumulate, each view was discounted when it arrived, so settings cannot change the list afterwards.",
};

const form = document.getElementById("settings");
const sliders = document.getElementById("sliders");
const configuration = document.getElementById("configuration");
let latestTurn = 0;  // responses of earlier turns are ignored

const model = () => form.elements.model.value;
const formatValue = (slider, value) => (slider.format ? slider.format(value) : String(value));

// The moved sliders: directive → value as written in freshet.toml.
function changedSettings() {
  const changed = new Map();
  for (const slider of kSliders[model()]) {
    const input = document.getElementById(slider.name);
    if (input && input.dataset.moved) changed.set(slider.name, formatValue(slider, slider.toValue(Number(input.value))));
  }
  return changed;
}

async function fetchPreview(settings) {
  const query = new URLSearchParams({ model: model(), limit: 100, compare: true, ...Object.fromEntries(settings) });
  if (model() === "views") query.set("mode", "current");
  const reply = await fetch(`/api/hot/preview?${query}`).catch(throwUnreachable);
  return { ...await readJson(reply), settings: JSON.parse(reply.headers.get(kSettingsHeader) || "{}") };
}

function makeSliders(settings) {
  sliders.replaceChildren(...kSliders[model()].map((slider) => {
    const label = element("label", slider.title);
    const output = element("output");
    const input = element("input");
    Object.assign(input, { type: "range", id: slider.name, min: 0, max: slider.steps, step: 1 });
    label.htmlFor = slider.name;  // else the label would be that of its first control, the output
    output.setAttribute("aria-hidden", "true");  // it would be part of the slider's name; aria-valuetext has it
    const configured = settings[slider.name];
    input.value = slider.toPosition(configured);
    const showValue = () => {
      output.textContent = formatValue(slider, input.dataset.moved ? slider.toValue(Number(input.value)) : configured);
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.addEventListener("input", () => {
      input.dataset.moved = "1";
      showValue();
      refreshPreview();
    });
    showValue();
    label.append(output, input);
    return label;
  }));
}

function show(list, items, before) {
  const topScore = Math.max(...items.map((item) => item.score), 0);
  const oldPositions = new Map(before.map((item, position) => [item.id, position]));
  list.replaceChildren(...items.slice(0, kShown).map((item, position) => {
    const row = element("li");
    row.dataset.id = item.id;
    row.style.setProperty("--share", topScore > 0 ? item.score / topScore : 0);
    const link = element("a", item.title || item.id);
    link.href = articleUrl(item.id);
    const what = element("div", "", "what");
    what.append(link);
    const up = oldPositions.has(item.id) ? oldPositions.get(item.id) - position : null;
    const move = element("span", up === null ? "new" : up ? (up > 0 ? "▲" : "▼") + Math.abs(up) : "", "move " + (up === null ? "new" : up > 0 ? "up" : up < 0 ? "down" : ""));
    const where = element("div", "", "where");
    where.append(element("span", `${item.score.toPrecision(4)} points`, "score"), move);
    row.append(element("span", position + 1, "rank"), what, where);
    return row;
  }));
}

function showLists({ configured, preview }) {
  show(document.getElementById("today"), configured, configured);
  show(document.getElementById("tried"), preview, configured);
  showAttribution(configured);
  showStatus("");
}

async function refreshPreview() {
  const turn = ++latestTurn;
  const settings = changedSettings();
  configuration.textContent = [...settings].map(([name, value]) =>
    `${name} = ${/^[0-9.]+$/.test(value) ? (value.includes(".") ? value : value + ".0") : `"${value}"`}`).join("\n");
  await pause(kSettleMs);
  if (turn !== latestTurn) return;
  try {
    const lists = await fetchPreview(settings);
    if (turn === latestTurn) showLists(lists);
  } catch (error) {
    if (turn !== latestTurn) return;
    showStatus(`We couldn’t compute the preview: ${error.message}.`);
    await pause(kRetryMs);
    if (turn === latestTurn && !error.final) await refreshPreview();
  }
}

async function start() {
  const turn = ++latestTurn;
  document.getElementById("about").textContent = kNotes[model()];
  try {
    const lists = await fetchPreview([]);
    if (turn !== latestTurn) return;
    makeSliders(lists.settings);
    configuration.textContent = "No changes.";
    showLists(lists);
  } catch (error) {
    if (turn !== latestTurn) return;
    showStatus(`We couldn’t load the current list: ${error.message}.`);
    await pause(kRetryMs);
    if (turn === latestTurn && !error.final) await start();
  }
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", (event) => {
  event.preventDefault();
  start();
});
for (const choice of form.elements.model) choice.addEventListener("change", start);
document.getElementById("copy").addEventListener("click", async () => {
  getSelection().selectAllChildren(configuration);
  await navigator.clipboard?.writeText(configuration.textContent).then(() => showStatus("Copied."), () => showStatus("Selected: press Ctrl+C to copy."));
});

if (zone === "internal") start();
else {
  document.querySelector("main").hidden = true;
  showStatus("This page is only available on the internal server.");
}

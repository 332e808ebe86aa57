// Half-life, weights and exponent as sliders: the list that the service would give with them beside the one it gives. The
// service computes both, from the same counters.
import { articleUrl, attribute, element, pause, read, say, unreachable, zone } from "/page.js";

const kShown = 20;
const kSettleMs = 150;  // a slider that is dragged asks when it rests
const kAgainMs = 2000;
const kSettings = "Freshet-Settings";

// The slider goes over what `from` makes of its steps.
const linear = (most, step) => ({ steps: Math.round(most / step), from: (at) => Number((at * step).toPrecision(6)), to: (value) => value / step });
const kTimes = [600, 1200, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 259200, 604800, 1209600, 2592000];
const duration = (s) => (s % 86400 === 0 ? `${s / 86400}d` : s % 3600 === 0 ? `${s / 3600}h` : `${Math.round(s / 60)}m`);
const kSliders = {
  engagement: [
    { name: "hot.half_life", title: "Half-life", text: duration, steps: kTimes.length - 1, from: (at) => kTimes[at],
      to: (value) => kTimes.reduce((best, each, at) => (Math.abs(Math.log(each / value)) < Math.abs(Math.log(kTimes[best] / value)) ? at : best), 0) },
    { name: "hot.pv_weight", title: "Points of a page view", ...linear(10, 0.1) },
    { name: "hot.uv_weight", title: "Points of a visitor", ...linear(10, 0.1) },
    { name: "hot.dwell_weight", title: "Points of a ms read", ...linear(0.01, 0.0001) },
  ],
  views: [
    { name: "views.gamma", title: "Exponent of the age (gamma)", ...linear(3, 0.05) },
    { name: "views.base_hours", title: "Hours added to the age", ...linear(24, 0.25) },
  ],
};
const kAbout = {
  engagement: "Scored anew are the 10,000 highest of today's list.",
  views: "Of mode = current; what accumulate added was decayed when it came, so no setting changes it.",
};

const form = document.getElementById("settings");
const sliders = document.getElementById("sliders");
const configuration = document.getElementById("configuration");
let today = null;  // {items, settings} as configured
let asked = 0;

const model = () => form.elements.model.value;
const written = (slider, value) => (slider.text ? slider.text(value) : String(value));

// name → value as one writes it, of what differs from the configuration.
function changed() {
  const found = new Map();
  for (const slider of kSliders[model()]) {
    const input = document.getElementById(slider.name);
    if (input && input.dataset.moved) found.set(slider.name, written(slider, slider.from(Number(input.value))));
  }
  return found;
}

async function preview(settings) {
  const query = new URLSearchParams({ model: model(), limit: 100, ...Object.fromEntries(settings) });
  if (model() === "views") query.set("mode", "current");
  const reply = await fetch(`/api/hot/preview?${query}`).catch(unreachable);
  return { items: await read(reply), settings: JSON.parse(reply.headers.get(kSettings) || "{}") };
}

function makeSliders() {
  sliders.replaceChildren(...kSliders[model()].map((slider) => {
    const label = element("label", slider.title);
    const output = element("output");
    const input = element("input");
    Object.assign(input, { type: "range", id: slider.name, min: 0, max: slider.steps, step: 1 });
    const configured = today.settings[slider.name];
    input.value = slider.to(configured);
    const tell = () => {
      output.textContent = written(slider, input.dataset.moved ? slider.from(Number(input.value)) : configured);
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.addEventListener("input", () => {
      input.dataset.moved = "1";
      tell();
      ask();
    });
    tell();
    label.append(output, input);
    return label;
  }));
}

function show(list, items, before) {
  const best = Math.max(...items.map((item) => item.score), 0);
  const places = new Map(before.map((item, place) => [item.id, place]));
  list.replaceChildren(...items.slice(0, kShown).map((item, place) => {
    const row = element("li");
    row.dataset.id = item.id;
    row.style.setProperty("--share", best > 0 ? item.score / best : 0);
    const link = element("a", item.title || item.id);
    link.href = articleUrl(item.id);
    const what = element("div", "", "what");
    what.append(link);
    const up = places.has(item.id) ? places.get(item.id) - place : null;
    const move = element("span", up === null ? "new" : up ? (up > 0 ? "▲" : "▼") + Math.abs(up) : "", "move " + (up === null ? "new" : up > 0 ? "up" : up < 0 ? "down" : ""));
    const where = element("div", "", "where");
    where.append(element("span", `${item.score.toPrecision(4)} points`, "score"), move);
    row.append(element("span", place + 1, "rank"), what, where);
    return row;
  }));
}

async function ask() {
  const turn = ++asked;
  const settings = changed();
  configuration.textContent = settings.size ? [...settings].map(([name, value]) =>
    `${name} = ${/^[0-9.]+$/.test(value) ? (value.includes(".") ? value : value + ".0") : `"${value}"`}`).join("\n") : "Nothing differs.";
  await pause(kSettleMs);
  if (turn !== asked) return;
  try {
    const tried = await preview(settings);
    if (turn !== asked) return;
    show(document.getElementById("tried"), tried.items, today.items);
    say("");
  } catch (error) {
    if (turn !== asked) return;
    say(`Not computed: ${error.message}.`);
    await pause(kAgainMs);
    if (turn === asked && !error.final) await ask();
  }
}

async function begin() {
  const turn = ++asked;
  document.getElementById("about").textContent = kAbout[model()];
  try {
    const found = await preview([]);
    if (turn !== asked) return;
    today = found;
    makeSliders();
    show(document.getElementById("today"), today.items, today.items);
    attribute(today.items);
    await ask();
  } catch (error) {
    if (turn !== asked) return;
    say(`Not computed: ${error.message}.`);
    await pause(kAgainMs);
    if (turn === asked && !error.final) await begin();
  }
}

form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", (event) => {
  event.preventDefault();
  begin();
});
for (const choice of form.elements.model) choice.addEventListener("change", begin);
document.getElementById("copy").addEventListener("click", async () => {
  getSelection().selectAllChildren(configuration);
  await navigator.clipboard?.writeText(configuration.textContent).then(() => say("Copied."), () => say("Marked; copy it from there."));
});

if (zone === "internal") begin();
else {
  document.querySelector("main").hidden = true;
  say("The internal server has this page.");
}

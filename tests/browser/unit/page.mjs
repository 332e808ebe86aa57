// Opens a page of nginx/html in Node: a DOM by jsdom, a fake clock, and a fake service. Nothing is painted or laid out; what
// depends on that is tested in the browser.
import { readFileSync } from "node:fs";
import { SourceTextModule, SyntheticModule } from "node:vm";
import { withGlobal } from "@sinonjs/fake-timers";
import { JSDOM, VirtualConsole } from "jsdom";

const kFolder = new URL("../../../nginx/html/", import.meta.url);
export const kNow = Date.UTC(2026, 0, 31, 12);  // when every page opens

export const source = (name) => readFileSync(new URL(name, kFolder), "utf8");

// An answer of the fake service: a JSON value, a reply(…), or an Error if the connection fails.
export const reply = (status, body, headers = {}) => ({ status, body, headers });

const kLost = new TypeError("Failed to fetch");
export const lost = () => kLost;

function response({ status = 200, body, headers = {} }) {
  const type = typeof body === "string" ? "text/html" : "application/json";
  return {
    status, ok: status >= 200 && status < 300, headers: new Headers({ "Content-Type": type, ...headers }),
    json: async () => JSON.parse(typeof body === "string" ? body : JSON.stringify(body)),
  };
}

// Addresses and the ids that the tag, the lists and freshetctl's import make of them.
export const kItemPaths = JSON.parse(readFileSync(new URL("../../ctl/import/item_paths.json", import.meta.url), "utf8"));

// Waits until all work that does not depend on the clock is done.
export async function settle() {
  for (let i = 0; i < 5; ++i) await new Promise(setImmediate);
}

// A promise with its resolve function, to delay an answer.
export function gate() {
  let open;
  const opened = new Promise((resolve) => (open = resolve));
  return { open, opened };
}

function makeWindow(context, html, address) {
  const virtualConsole = new VirtualConsole();
  const problems = [];
  virtualConsole.on("jsdomError", (error) => problems.push(error.message));
  const dom = new JSDOM(html, { url: new URL(address, "http://site.example").href, runScripts: "outside-only", pretendToBeVisual: true, virtualConsole });
  const { window } = dom;
  const clock = withGlobal(window).install({ now: kNow, toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "Date", "performance"] });
  context.after(async () => {
    await settle();
    clock.uninstall();
    window.close();
  });
  return { dom, window, clock, problems };
}

// Adds to `window` what jsdom lacks. `page.bottomVisible` is what an IntersectionObserver reports.
function addBrowserParts(page, window) {
  window.matchMedia = () => ({ matches: false });
  window.scrollTo = (target) => page.scrolls.push(target);
  window.Element.prototype.scrollIntoView = function () {
    page.scrolls.push(this.id);
  };
  window.Element.prototype.animate = function (frames, options) {
    page.animations.push({ id: this.dataset.id, from: frames[0].transform, to: frames[1].transform, ...options });
  };
  window.navigator.sendBeacon = (address, body) => {
    page.beacons.push({ address, body });
    return page.takesBeacons;
  };
  Object.defineProperty(window.document, "visibilityState", { get: () => (page.visible ? "visible" : "hidden") });
  Object.defineProperty(window.document, "hidden", { get: () => !page.visible });
  window.IntersectionObserver = class {
    targets = new Set();
    constructor(callback, { rootMargin }) {
      Object.assign(this, { callback, rootMargin });
      page.observers.push(this);
    }
    observe(target) {
      if (this.targets.has(target)) return;
      this.targets.add(target);
      this.callback([{ target, isIntersecting: page.bottomVisible && !target.hidden }]);
    }
    unobserve(target) {
      this.targets.delete(target);
    }
  };
}

// Options: zone, demo; answer: {"GET /api/hot": (request, page) => value}, by method and path; storage: localStorage; state: of the
// history entry; chart: stands for Chart.js, which is missing without it; scripts: run instead of the page's; setUp: called
// before they run.
export async function openPage(context, address, options = {}) {
  const { zone = "public", demo = false, answer = {}, storage = {}, state = null, chart, scripts, setUp = () => {} } = options;
  const path = new URL(address, "http://site.example").pathname;
  const html = source(path === "/" ? "index.html" : path.slice(1).replace(/(\.html)?$/, ".html"));
  const { dom, window, clock, problems } = makeWindow(context, html, address);
  const { document } = window;
  const page = {
    window, document, clock, answer, problems, requests: [], beacons: [], scrolls: [], animations: [], observers: [],
    visible: true, bottomVisible: false, takesBeacons: true,
    $: (selector) => document.querySelector(selector),
    $$: (selector) => [...document.querySelectorAll(selector)],
    text: (selector) => document.querySelector(selector).textContent,
    texts: (selector) => [...document.querySelectorAll(selector)].map((each) => each.textContent),
    ids: (list) => [...document.querySelectorAll(`${list} > li`)].map((row) => row.dataset.id),
    status: () => document.getElementById("state").textContent,
    // Requests since the last call, as "GET /path?query".
    taken: () => page.requests.splice(0).map(({ method, target }) => `${method} ${target}`),
    async click(selector) {
      document.querySelector(selector).click();
      await settle();
    },
    async submit(selector) {
      document.querySelector(selector).requestSubmit();
      await settle();
    },
    async tick(ms) {
      await clock.tickAsync(ms);
      await settle();
    },
    async showBottom(isVisible) {
      page.bottomVisible = isVisible;
      for (const observer of page.observers)
        for (const target of observer.targets) observer.callback([{ target, isIntersecting: isVisible && !target.hidden }]);
      await settle();
    },
    setVisible(isVisible) {
      page.visible = isVisible;
      document.dispatchEvent(new window.Event("visibilitychange"));
    },
    fire: (target, type, members = {}) => target.dispatchEvent(Object.assign(new window.Event(type, { bubbles: true, cancelable: true }), members)),
  };
  addBrowserParts(page, window);
  Object.assign(window.localStorage, storage);
  window.history.replaceState(state, "");
  window.fetch = async (target, { method = "GET", body, headers = {}, keepalive, signal } = {}) => {
    const request = { method, target, body: body && JSON.parse(body), headers, keepalive, signal };
    page.requests.push(request);
    request.query = Object.fromEntries(new URL(target, window.location).searchParams);
    const handler = page.answer[`${method} ${new URL(target, window.location).pathname}`];
    const found = handler ? await handler(request, page) : reply(404, { msg: `nothing answers ${method} ${target}` });
    if (found instanceof Error) throw found;
    return response(found?.status && "body" in found ? found : { body: found });
  };
  setUp(page);
  const names = scripts ?? [...document.querySelectorAll("script[type=module]")].map((script) => script.getAttribute("src"));
  page.exports = await loadScripts(dom, names, { zone, demo, chart });
  await settle();
  return page;
}

// Runs modules as the browser does, each once per page. Returns their exports: {name: exports}.
async function loadScripts(dom, names, { zone, demo, chart }) {
  const { window } = dom;
  const context = dom.getInternalVMContext();
  const modules = new Map();
  const importModuleDynamically = async () => {
    if (!chart) throw new TypeError("Failed to fetch dynamically imported module");
    const module = new SyntheticModule([], () => (window.Chart = chart), { context });
    await module.link(() => {});
    await module.evaluate();
    return module;
  };
  const load = (name) => {
    if (!modules.has(name)) {
      modules.set(name, name === "/zone.js"
        ? new SyntheticModule(["zone", "demo"], function () {
          this.setExport("zone", zone);
          this.setExport("demo", demo);
        }, { context })
        : new SourceTextModule(source(name.slice(1)), { context, identifier: name, importModuleDynamically }));
    }
    return modules.get(name);
  };
  for (const name of names) {
    const module = load(name);
    if (module.status === "unlinked") await module.link(load);
    await module.evaluate();
  }
  return Object.fromEntries([...modules].map(([name, module]) => [name, module.namespace]));
}

// Runs freshet.js in a page. `config`: the options of its tag; null: the browser does not say which script runs, as for a
// module. `session`: this tab's session id, if it has one; it then has a visitor cookie, too. `takesBeacons`: true, false,
// null (no beacons), or an Error that sendBeacon throws. `answer`: {"/api/track": () => status, a promise of it or an Error}.
export function runTag(context, config, { session, visible = true, takesBeacons = true, answer = {}, storageFails = false, html = "", gpc, address = "/article" } = {}) {
  const { window, clock } = makeWindow(context, "<!doctype html>" + html, address);
  const page = { window, clock, visible, takesBeacons, answer, posts: [], sent: [], errors: [] };
  addBrowserParts(page, window);
  const { navigator } = window;
  if (takesBeacons === null) delete navigator.sendBeacon;
  else navigator.sendBeacon = (address, body) => {
    if (page.takesBeacons instanceof Error) throw page.takesBeacons;
    if (page.takesBeacons) page.sent.push({ by: "beacon", address, body: JSON.parse(body) });
    return page.takesBeacons;
  };
  if (gpc !== undefined) navigator.globalPrivacyControl = gpc;
  if (session) Object.assign(window.sessionStorage, { freshet: session, freshetCookie: "1" });
  if (storageFails) {
    Object.defineProperty(window, "sessionStorage", { get: () => {
      throw new Error("SecurityError");
    } });
  }
  window.console.error = (...words) => page.errors.push(words.join(" "));
  window.fetch = async (address, { body, ...options }) => {
    if (body === undefined) page.posts.push({ address, body, options });
    else page.sent.push({ by: "fetch", address, body: JSON.parse(body), options });
    const status = await (page.answer[new URL(address, window.location).pathname] ?? (() => 204))();
    if (status instanceof Error) throw status;
    return { status };
  };
  page.run = (currentScript) => {
    Object.defineProperty(window.document, "currentScript", { configurable: true, value: currentScript });
    window.eval(source("freshet.js"));
  };
  // Adds another tag, which the browser runs. As a module, without telling which script it is.
  page.addTag = (options, isModule = false) => {
    const script = window.document.createElement("script");
    script.dataset.freshet = JSON.stringify(options);
    window.document.body.append(script);
    page.run(isModule ? null : script);
    return script;
  };
  page.setVisible = (isVisible) => {
    page.visible = isVisible;
    window.document.dispatchEvent(new window.Event("visibilitychange"));
  };
  page.reports = () => page.sent.map(({ body }) => body.dwellMs);
  page.reportsByArticle = () => page.sent.map(({ body }) => [body.articleId, body.dwellMs]);
  if (config) page.addTag(config);
  else page.run(null);
  return page;
}

// Runs freshet-list.js in a page. `answer`: {"/api/hot": (request) => value or reply(…), or an Error}, by path. `src`: the script's
// address; null: the browser does not say which script runs. `loading`: the document is still being parsed.
export async function runList(context, html, { answer = {}, src = "/freshet-list.js", address = "/article", gpc, loading = false } = {}) {
  const { window, clock } = makeWindow(context, "<!doctype html>" + html, address);
  const { document } = window;
  const page = {
    window, document, clock, answer, requests: [], errors: [],
    $: (selector) => document.querySelector(selector),
    texts: (selector) => [...document.querySelectorAll(selector)].map((each) => each.textContent.trim()),
  };
  if (gpc !== undefined) window.navigator.globalPrivacyControl = gpc;
  window.console.error = (...words) => page.errors.push(words.join(" "));
  window.fetch = async (target, { method = "GET", body, headers, credentials } = {}) => {
    const url = new URL(target, window.location);
    const request = { method, path: url.href.replace(window.location.origin, ""), body: body && JSON.parse(body), headers, credentials };
    page.requests.push(request);
    const found = await (page.answer[url.pathname] ?? (() => reply(404, {})))(request);
    if (found instanceof Error) throw found;
    return response(found?.status && "body" in found ? found : { body: found });
  };
  page.run = async () => {
    const script = src === null ? null : Object.assign(document.createElement("script"), { src });
    Object.defineProperty(document, "currentScript", { configurable: true, value: script });
    window.eval(source("freshet-list.js"));
    await settle();
  };
  page.scan = async () => {
    window.freshetList.scan();
    await settle();
  };
  page.paths = () => page.requests.splice(0).map(({ path }) => path);
  await settle();  // jsdom completes the document
  if (loading) Object.defineProperty(document, "readyState", { configurable: true, value: "loading" });
  await page.run();
  return page;
}

// Fills lists of links. Options: INTEGRATION.md.
//   <script defer src="/freshet-list.js"></script>
//   <ol data-freshet-list='{"list":"hot","limit":5}'></ol>
((win, doc) => {
  if (win.freshetList && win.freshetList.scan) return win.freshetList.scan();

  // The API is in the folder of this script, also under a prefix or on another origin.
  const script = doc.currentScript;
  const endpoint = new URL("api/track", script && script.src || location.origin).href;
  const loaded = new WeakMap();  // by list: the options of its last request, because a scan repeats none
  let agreed;

  function attempt(use) {
    try { return use(); } catch (e) {}
  }

  // The id of a page whose tag names none: the path of its canonical link, or its own.
  function path() {
    const { pathname } = attempt(() => new URL(doc.querySelector("link[rel=canonical]").href)) || location;
    return (attempt(() => decodeURIComponent(pathname)) || pathname).replace(/\/+$/, "") || "/";
  }

  // The options of a list. Some default to those of the page's tag.
  function read(list) {
    const tags = doc.querySelectorAll("[data-freshet]");
    const given = tags.length ? JSON.parse(tags[tags.length - 1].dataset.freshet || "{}") : {};
    const tag = Object(given) === given ? given : { article: given };
    const { article = path(), user, consent, cookie, gpc } = tag;
    const conf = Object.assign({ list: "hot", limit: 5, endpoint: tag.endpoint || endpoint, article, user, consent, cookie, gpc },
      JSON.parse(list.dataset.freshetList || "{}"));
    for (const name of ["article", "user"]) {
      const id = conf[name];
      if (typeof id === "number" && !Number.isSafeInteger(id)) throw Error(`JavaScript rounds this ${name}; write it as a string`);
      conf[name] = id ? String(id).normalize() : undefined;
    }
    conf.limit = +conf.limit;
    conf.allowed = agreed || agreed !== false && !conf.consent && !(conf.gpc && navigator.globalPrivacyControl);
    return conf;
  }

  // The route and query of a list, with one item more because the current article is left out. A feed returns an item only once.
  function target({ list, limit, model, tag, article, user, exclude }) {
    const more = Math.min(limit + 1, 100);
    if (list === "hot") return ["hot", { limit: more, model, tag }];
    if (list === "recommended") return ["recommendations", { limit: more, userId: user, exclude }];
    if (list === "similar") return [article && `items/${encodeURIComponent(article)}/similar`, { limit: more, userId: user }];
    if (list === "feed") return ["feed", { action: "refresh", limit, userId: user }];
    throw Error(`no list is named "${list}"`);
  }

  // Returns items, or undefined without a usable response.
  async function request(conf, [route, query]) {
    const send = (to, options) => fetch(conf.endpoint.replace(/track$/, to), Object.assign({
      credentials: conf.cookie === false || !conf.allowed ? "omit" : "include"
    }, options));
    const post = (to, body) => send(to, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const ask = () => route === "feed" ? post(route, JSON.stringify(query))
      : send(`${route}?${new URLSearchParams(Object.entries(query).filter(([, value]) => value))}`);
    let answer = await ask();
    // A visitor without a cookie has no feed yet.
    if (route === "feed" && answer.status === 400 && conf.cookie !== false && (await post("visitor")).ok) answer = await ask();
    const json = await answer.json();
    return json.data ? json.data.items : json.items || json;
  }

  // The address of the item, or one made of its id: by the option `url`, or the id itself if that is a path.
  function address({ id, url }, conf) {
    if (!url && conf.url) url = conf.url.replace("{id}", encodeURIComponent(id));
    if (!url && id[0] === "/") url = location.origin + id.split("/").map(encodeURIComponent).join("/");
    const { protocol, href } = attempt(() => new URL(url, doc.baseURI)) || {};
    return url && /^https?:$/.test(protocol) && href;
  }

  // The reason in the site's words, if it has some for this kind.
  function reason(why, words = {}) {
    const text = why && words && (words[why.kind] || why.text);
    return text && text.replace(/\{(\w+)\}/g, (all, name) => why[name] || "");
  }

  // Fills the elements that have a slot, and removes those for which the item has no text.
  function fill(row, item, conf) {
    const time = item.published_at || item.update_time;
    const date = time && new Date(time * 1e3);
    const texts = {
      title: item.title, author: item.author, reason: reason(item.reason, conf.reasons),
      date: date && date.toLocaleDateString(doc.documentElement.lang || undefined, { dateStyle: "medium" })
    };
    for (const each of row.querySelectorAll("[data-freshet-slot]"))
      for (const slot of each.dataset.freshetSlot.split(" ")) {
        const href = slot === "link" && address(item, conf);
        if (href) each.href = href;
        if (texts[slot]) each.textContent = texts[slot];
        else if (slot !== "link") each.remove();
        if (slot === "date" && date) each.dateTime = date.toISOString();
      }
    return row;
  }

  function defaultRow() {
    const row = doc.createElement("li");
    for (const [name, slots] of [["a", "link title"], ["small", "reason"]]) {
      const each = doc.createElement(name);
      each.dataset.freshetSlot = slots;
      row.append(each, " ");
    }
    return row;
  }

  // Shows the items. Without any, the list keeps what it has, or is hidden with its heading if it has nothing.
  function show(list, items, conf) {
    const template = list.querySelector("template");
    const rows = Array.from(items).filter(({ id, title }) => title && id !== conf.article).slice(0, conf.limit)
      .map((item) => fill(template ? doc.importNode(template.content, true) : defaultRow(), item, conf));
    if (rows.length) list.replaceChildren(template || "", ...rows);
    list.removeAttribute("aria-busy");
    const headings = (list.getAttribute("aria-labelledby") || "").split(" ").map((id) => doc.getElementById(id));
    for (const each of [list, ...headings]) if (each) each.hidden = list.children.length === (template ? 1 : 0);
  }

  async function load(list) {
    try {
      const conf = read(list), key = JSON.stringify(conf), [route, query] = target(conf);
      const before = loaded.get(list), waits = !conf.allowed && /^(rec|feed)/.test(route);  // the lists of a reader wait for consent
      if (before === key) return;
      loaded.set(list, key);
      if (before && waits) list.replaceChildren(list.querySelector("template") || "");  // it was withdrawn
      if (conf.height) list.style.minHeight = conf.height;
      list.setAttribute("aria-busy", "true");
      const items = route && !waits && await request(conf, [route, query]).catch(() => {});
      if (loaded.get(list) === key) show(list, items || [], conf);
    } catch (error) {
      console.error("freshet-list: " + error.message, list);
    }
  }

  // Loads the lists that are new, or whose options or current article have changed.
  const scan = () => doc.querySelectorAll("[data-freshet-list]").forEach(load);

  // As in freshet.js.
  function consent(given) {
    agreed = !!given;
    scan();
  }

  win.freshetList = { scan, consent };
  doc.addEventListener("turbo:load", scan);
  if (doc.readyState === "loading") doc.addEventListener("DOMContentLoaded", scan);
  else scan();
})(window, document);

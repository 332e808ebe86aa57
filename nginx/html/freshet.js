// Reports how long the page's article is visible. Options: INTEGRATION.md.
((win, doc) => {
  if (win.freshet && win.freshet.scan) return win.freshet.scan(doc.currentScript);

  let conf = {}, article = "", agreed, id, ready, due, total, sent, since = -1, left, timer;

  const post = (to, body) =>
    fetch(to, { method: "POST", body, keepalive: true, credentials: conf.cookie === false ? "omit" : "include" }).catch(() => ({}));

  // Storage may be forbidden or full.
  function attempt(use) {
    try { return use(); } catch (e) {}
  }

  // Reports of a new tab wait a second at most for its visitor cookie.
  function begin() {
    if (id) return;
    id = Date.now().toString(36) + Math.random().toString(36).slice(2);
    ready = conf.cookie === false || attempt(() => {
      id = sessionStorage.freshet = sessionStorage.freshet || id;
      return sessionStorage.freshetCookie;
    });
    if (ready) return;
    setTimeout(go, 1e3);
    post(conf.endpoint.replace(/track$/, "visitor")).then((answer) => {
      if (answer.status < 429 && agreed !== false) attempt(() => (sessionStorage.freshetCookie = 1));
      go();
    });
  }

  function go() {
    ready = 1;
    if (due) tick();
  }

  // Repeats a lost report until a newer one is sent.
  function send(body, of, tries, beacon) {
    if (beacon && of.cookie !== false && attempt(() => navigator.sendBeacon(of.endpoint, body))) return;
    of.newest = body;
    post(of.endpoint, body).then((answer) => {
      if (tries && !(answer.status < 429))
        setTimeout(() => of.newest === body && agreed !== false && send(body, of, tries - 1), of.every * 1e3);
    });
  }

  // From `minimum` ms on; 0: by a beacon, since the page may close.
  function report(minimum) {
    const now = performance.now(), ms = Math.round(total += now - since);
    since = now;
    if (ms <= sent || ms < minimum || sent >= conf.max * 1e3) return;
    sent = ms;
    // No preflight for text/plain.
    send(JSON.stringify({ articleId: article, dwellMs: ms, sessionId: id, userId: conf.user, publishedAt: conf.published }), conf, 3, !minimum);
  }

  function wait(seconds) {
    if (sent < conf.max * 1e3) timer = setTimeout(tick, seconds * 1e3);
  }

  function tick() {
    due = !ready;
    if (due) return;
    report(1);
    wait(conf.every);
  }

  function show() {
    const allowed = agreed || agreed !== false && !conf.consent && !(conf.gpc && navigator.globalPrivacyControl);
    if (since >= 0 || !article || !allowed || doc.hidden) return;
    begin();
    // Its next report would be another page view.
    if (Date.now() - left > (conf.session - conf.every) * 1e3) total = sent = 0;
    since = performance.now();
    wait(sent ? conf.every : conf.first);
  }

  function hide(minimum) {
    if (since < 0) return;
    report(minimum);
    since = -1;
    left = Date.now();
    due = 0;
    clearTimeout(timer);
  }

  // Ends the article and begins the next: an id or a tag's options.
  function open(next) {
    next = Object(next) === next ? { article: path(), ...next } : { ...conf, article: next, published: undefined };
    if ([next.article, next.user].some((each) => each != null && each !== "" + each && !Number.isSafeInteger(each)))
      return open(void console.error("freshet: write the id as a string", next));
    const name = next.article == null ? "" : String(next.article);
    if (name === article) return conf.user = next.user;
    hide(1e3);
    const { endpoint = "/api/track", consent, cookie, gpc } = conf;  // they stay
    conf = { endpoint, consent, cookie, gpc, first: 5, every: 15, max: 180, session: 1800, ...next };
    conf.every = Math.max(1, conf.every) || 15;
    article = name;
    total = sent = 0;
    show();
  }

  // The article of a tag that names none.
  function path() {
    const { pathname } = attempt(() => new URL(doc.querySelector("link[rel=canonical]").href)) || location;
    return (attempt(() => decodeURIComponent(pathname)) || pathname).normalize().replace(/\/+$/, "") || "/";
  }

  // Opens the article of this script or of the last element with options.
  function scan(script) {
    const tags = doc.querySelectorAll("[data-freshet]");
    const { dataset } = [].includes.call(tags, script) ? script : tags[tags.length - 1] || {};
    open(dataset && JSON.parse(dataset.freshet || "{}"));
  }

  // false: ends the reports and forgets the session.
  function consent(given) {
    agreed = !!given;
    if (given) return show();
    hide(Infinity);
    total = sent = id = 0;
    attempt(() => {
      delete sessionStorage.freshet;
      delete sessionStorage.freshetCookie;
    });
  }

  win.freshet = { open, scan, consent };
  doc.addEventListener("visibilitychange", () => (doc.hidden ? hide : show)(0));
  win.addEventListener("pagehide", () => hide(0));
  win.addEventListener("pageshow", show);
  doc.addEventListener("turbo:load", scan);
  scan(doc.currentScript);
})(window, document);

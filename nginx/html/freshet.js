// Reports how long a page is visible. At most 2 KiB.
//   <script defer src="/freshet.js" data-freshet='{"article":"42"}'></script>
// Options: endpoint, user, published (unix s), first, every (s to reports), max (s).
(function (doc) {
  var conf = JSON.parse(doc.currentScript.dataset.freshet);
  var url = conf.endpoint || "/api/track", total = 0, since = -1, sent = 0, named = 1, timer, id;

  function post(to, body) {
    return fetch(to, { method: "POST", body: body, keepalive: true, credentials: "include" }).catch(function () {});
  }

  // A new tab gets a session id and a visitor cookie.
  try { id = sessionStorage.freshet; } catch (e) {}
  if (!id) {
    id = Date.now().toString(36) + Math.random().toString(36).slice(2);
    named = 0;
    post(url.replace(/track$/, "visitor")).then(function () {
      named = 1;
      try { sessionStorage.freshet = id; } catch (e) {}
    });
  }

  function report() {
    var ms = Math.round(total + (since < 0 ? 0 : performance.now() - since));
    if (ms <= sent || !named) return;
    sent = ms;
    var body = JSON.stringify({
      articleId: conf.article, dwellMs: ms, sessionId: id, userId: conf.user, publishedAt: conf.published
    });
    // text/plain avoids a preflight.
    if (!(navigator.sendBeacon && navigator.sendBeacon(url, body))) post(url, body);
  }

  function wait(seconds) {
    if (sent < (conf.max || 180) * 1e3)
      timer = setTimeout(function () { report(); wait(conf.every || 15); }, seconds * 1e3);
  }

  function show() {
    if (since >= 0 || doc.visibilityState !== "visible") return;
    since = performance.now();
    wait(sent ? conf.every || 15 : conf.first || 5);
  }

  function hide() {
    if (since < 0) return;
    total += performance.now() - since;
    since = -1;
    clearTimeout(timer);
    report();
  }

  doc.addEventListener("visibilitychange", function () { (doc.visibilityState === "visible" ? show : hide)(); });
  addEventListener("pagehide", hide);
  addEventListener("pageshow", show);
  show();
})(document);

// How long was this page visible? At most 2 KiB as it stands.
//   <script defer src="/freshet.js" data-freshet='{"article":"42"}'></script>
// More members: endpoint, user, published (unix s), first and every (s between reports), max (s, then no more).
(function (doc) {
  var conf = JSON.parse(doc.currentScript.dataset.freshet);
  var total = 0, since = -1, sent = 0, timer, id;

  // One id per tab visit: it outlives the page, not the tab.
  function session() {
    try { id = id || sessionStorage.freshet; } catch (e) { /* blocked */ }
    if (!id) {
      id = window.crypto && crypto.randomUUID ? crypto.randomUUID()
        : Date.now().toString(36) + Math.random().toString(36).slice(2);
      try { sessionStorage.freshet = id; } catch (e) { /* blocked */ }
    }
    return id;
  }

  function report() {
    var ms = Math.round(total + (since < 0 ? 0 : performance.now() - since));
    if (ms <= sent) return;
    sent = ms;
    var url = conf.endpoint || "/api/track", body = JSON.stringify({
      articleId: conf.article, dwellMs: ms, sessionId: session(), userId: conf.user, publishedAt: conf.published
    });
    // A string goes as text/plain: no preflight.
    if (!(navigator.sendBeacon && navigator.sendBeacon(url, body)))
      fetch(url, { method: "POST", body: body, keepalive: true }).catch(function () {});
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

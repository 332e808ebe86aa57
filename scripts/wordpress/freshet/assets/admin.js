// The buttons of Settings → Freshet.
(() => {
  const { url, nonce, texts } = window.freshetAdmin;
  const find = (id) => document.getElementById(id);
  const kPollMs = 2000;

  async function call(action, form = new FormData()) {
    form.set("action", `freshet_${action}`);  // replaces the fields of options.php
    form.set("_ajax_nonce", nonce);
    const answer = await fetch(url, { method: "POST", body: form, credentials: "same-origin" });
    return (await answer.json()).data;
  }

  function add(ok, text) {
    const row = document.createElement("li");
    row.className = `notice inline ${ok ? "notice-success" : "notice-error"}`;
    row.textContent = text;
    find("freshet-test-result").append(row);
  }

  // Only a browser can tell whether it reaches the public routes.
  async function testPublic(prefix) {
    for (const path of ["/freshet.js", "/api/hot?limit=1"]) {
      const address = prefix.replace(/\/+$/, "") + path;
      const status = await fetch(address).then((answer) => {
        const type = answer.headers.get("Content-Type") || "";
        return answer.ok && !/javascript|json/.test(type) ? type || "?" : answer.status;
      }, (error) => error.message);
      if (status !== 200) return add(false, texts.public_wrong.replace("%1$s", address).replace("%2$s", status));
    }
    add(true, texts.public_ok);
  }

  find("freshet-test").addEventListener("click", async (event) => {
    const [button, list] = [event.currentTarget, find("freshet-test-result")];
    button.disabled = true;
    list.replaceChildren(texts.testing);
    try {
      const results = await call("test", new FormData(find("freshet-settings")));
      list.replaceChildren();
      for (const { ok, text } of results) add(ok, text);
      await testPublic(find("freshet-prefix").value.trim());
    } catch (error) {
      list.replaceChildren();
      add(false, texts.failed);
    }
    button.disabled = false;
  });

  const progress = find("freshet-progress");

  async function poll(action) {
    try {
      const { left, text } = await call(action);
      progress.textContent = text;
      if (left > 0) setTimeout(poll, kPollMs, "progress");
    } catch (error) {
      progress.textContent = texts.failed;
    }
  }

  find("freshet-send-all").addEventListener("click", () => poll("send_all"));
  if (Number(progress.dataset.left) > 0) poll("progress");
})();

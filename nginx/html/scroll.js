// What a page has that grows while its reader scrolls: rows of items, an end that asks for more, one request at a time,
// and a look now and then at what is new.
import { aboutItem, articleUrl, element, pause, say } from "/page.js";

// A row of the list: the title, why it is there, and what is known of the item.
export function itemRow(item, reason) {
  const made = document.createElement("li");
  made.dataset.id = item.id;
  const link = element("a", item.title || item.id);
  link.href = articleUrl(item.id);
  made.append(link, element("span", reason, "reason"), aboutItem(item));
  return made;
}

// `more`: the button at the list's end, hidden while there is no more; `load` is called when it is pressed or comes in sight.
export function growing(more, load) {
  const bottom = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && !more.hidden) load();
  }, { rootMargin: "300px" });
  const grown = {
    busy: null,  // the name of what is being done

    // The observer tells of changes only: asked anew, it also tells that the bottom is still in sight.
    lookAgain() {
      bottom.unobserve(more);
      bottom.observe(more);
    },

    // Does `work` unless something else is being done. It returns after how long (ms) the bottom is looked at again; when it
    // throws, the reader is told, and that happens after `pauseMs`. It can ask whether its outcome is still wanted.
    async alone(pauseMs, work, failed = () => {}) {
      if (grown.busy) return;
      const name = (grown.busy = Symbol("work"));
      const wanted = () => grown.busy === name;
      let nextMs = pauseMs;
      try {
        nextMs = await work(wanted);
      } catch (error) {
        if (!wanted()) return;
        say(`Not loaded: ${error.message}.`);
        failed(error);
      } finally {
        if (wanted()) {
          grown.busy = null;
          setTimeout(grown.lookAgain, nextMs);
        }
      }
    },

    // What is being done is not wanted any more, so something else can be done at once.
    giveUp() {
      grown.busy = null;
    },

    // Does `look` every `ms` while the page is in sight and nothing else is being done. Never returns.
    async every(ms, look) {
      for (;;) {
        await pause(ms);
        if (document.visibilityState === "visible" && !grown.busy) await look();
      }
    },
  };
  more.addEventListener("click", load);
  return grown;
}

// Infinite scroll: item rows, loading at the end of the list, one request at a time, and polling while idle.
import { articleUrl, describeItem, element, pause, showStatus } from "/page.js";

// A row with the title, the reason why it is listed, and the item's details.
export function itemRow(item, reason) {
  const row = document.createElement("li");
  row.dataset.id = item.id;
  const link = element("a", item.title || item.id);
  link.href = articleUrl(item.id);
  row.append(link, element("span", reason, "reason"), describeItem(item));
  return row;
}

// `more`: the button at the end of the list, hidden when there is nothing left. `load` is called when the button is pressed
// or comes into view.
export function infiniteScroll(more, load) {
  const bottom = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && !more.hidden) load();
  }, { rootMargin: "300px" });
  const scroller = {
    busy: null,  // identifies the running task

    // An observer only reports changes. Observing again reports a bottom that is still in view.
    checkBottom() {
      bottom.unobserve(more);
      bottom.observe(more);
    },

    // Runs `task` unless another is running, and checks the bottom again after as many ms as it returns. If it throws, the
    // error is shown and the check follows after `retryMs`. `task` is passed a function that says whether it is still current.
    async runExclusive(retryMs, task, onError = () => {}) {
      if (scroller.busy) return;
      const id = (scroller.busy = Symbol("task"));
      const isCurrent = () => scroller.busy === id;
      let nextMs = retryMs;
      try {
        nextMs = await task(isCurrent);
      } catch (error) {
        if (!isCurrent()) return;
        showStatus(`We couldn’t load this list: ${error.message}.`);
        onError(error);
      } finally {
        if (isCurrent()) {
          scroller.busy = null;
          setTimeout(scroller.checkBottom, nextMs);
        }
      }
    },

    // Abandons the running task, so that another can start at once.
    cancel() {
      scroller.busy = null;
    },

    // Runs `task` every `ms` while the page is visible and no other task is running. Never returns.
    async poll(ms, task) {
      for (;;) {
        await pause(ms);
        if (document.visibilityState === "visible" && !scroller.busy) await task();
      }
    },
  };
  more.addEventListener("click", load);
  return scroller;
}

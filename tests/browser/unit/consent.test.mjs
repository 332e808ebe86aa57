// The WordPress plugin's consent.js, which tells Freshet's scripts what the WP Consent API knows.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { gate, runList, settle } from "./page.mjs";

const kSource = readFileSync(new URL("../../../scripts/wordpress/freshet/assets/consent.js", import.meta.url), "utf8");

// Returns `fire(name, detail)`, which dispatches an event and returns what the tag and the lists were told.
function open(context, members) {
  const { window } = new JSDOM("", { runScripts: "outside-only" });
  context.after(() => window.close());
  const told = [];
  Object.assign(window, { freshet: { consent: (given) => told.push(given) }, freshetList: { consent: (given) => told.push(given) } }, members);
  window.eval(kSource);
  return {
    window, fire: (name, detail) => {
      window.document.dispatchEvent(new window.CustomEvent(name, { detail }));
      return told.splice(0);
    },
  };
}

test("a reader's consent is passed on when the page is ready, and when it changes", (context) => {
  for (const given of [true, false]) {
    const { fire } = open(context, { wp_has_consent: (category) => category === "statistics" && given });
    assert.deepEqual(fire("DOMContentLoaded"), [given, given]);
    assert.deepEqual(fire("wp_listen_for_consent_change", { marketing: "allow" }), []);
    assert.deepEqual(fire("wp_listen_for_consent_change", { statistics: "allow" }), [true, true]);
    assert.deepEqual(fire("wp_listen_for_consent_change", { statistics: "deny" }), [false, false]);
  }
  assert.deepEqual(open(context, {}).fire("DOMContentLoaded"), [], "without the API");
});

test("while the type of consent is not known, none is reported", (context) => {
  // As the API: without a type, everything is allowed.
  const { window, fire } = open(context, { waitfor_consent_hook: "1", wp_has_consent: () => window.wp_consent_type !== "optin" });
  assert.deepEqual(fire("DOMContentLoaded"), []);
  window.wp_consent_type = "optin";
  assert.deepEqual(fire("wp_consent_type_defined"), [false, false]);
  const early = open(context, { waitfor_consent_hook: "1", wp_consent_type: "optout", wp_has_consent: () => true });
  assert.deepEqual(early.fire("DOMContentLoaded"), [true, true], "the type was known first");
});

test("hidden lists take up their space when the reader agrees, and are hidden again if there is nothing", async (context) => {
  const kLists = `<h2 id="heading" hidden>For you</h2><ol class="freshet-recommended" aria-labelledby="heading" hidden data-freshet-list='{"list":"recommended","consent":"wait"}'></ol>
    <ol class="freshet-recommended" aria-label="Recommended" hidden data-freshet-list='{"list":"recommended","consent":"wait"}'></ol>`;
  const { open: answer, opened } = gate();
  const { window } = await runList(context, kLists, { answer: { "/api/recommendations": () => opened } });
  const hidden = () => [...window.document.querySelectorAll("h2, ol")].map((each) => each.hidden);
  window.eval(kSource);
  const change = (statistics) => window.document.dispatchEvent(new window.CustomEvent("wp_listen_for_consent_change", { detail: { statistics } }));
  change("deny");
  assert.deepEqual(hidden(), [true, true, true]);
  change("allow");
  assert.deepEqual(hidden(), [false, false, false]);
  answer({ items: [] });
  await settle();
  assert.deepEqual(hidden(), [true, true, true]);
  change("allow");
  assert.deepEqual(hidden(), [true, true, true]);
});

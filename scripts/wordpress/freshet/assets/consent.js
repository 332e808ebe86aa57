// Tells Freshet's scripts what the reader agreed to, by the WP Consent API.
(() => {
  const tell = (given) => {
    [window.freshet, window.freshetList].forEach((each) => each && each.consent(given));
    // Lists that now load take up their reserved space immediately, so that nothing moves when the links arrive.
    for (const list of document.querySelectorAll(".freshet-recommended[aria-busy]"))
      for (const each of [list, document.getElementById(list.getAttribute("aria-labelledby"))]) if (each) each.hidden = false;
  };

  const test = () => typeof window.wp_has_consent === "function" && tell(window.wp_has_consent("statistics"));

  // Until a plugin that asks the reader's country has set the type of consent, the API reports a consent that was not given.
  document.addEventListener("DOMContentLoaded", () => {
    if (!window.waitfor_consent_hook || window.wp_consent_type !== undefined) test();
  });
  document.addEventListener("wp_consent_type_defined", test);
  document.addEventListener("wp_listen_for_consent_change", ({ detail }) => {
    if (detail && "statistics" in detail) tell(detail.statistics === "allow");
  });
})();

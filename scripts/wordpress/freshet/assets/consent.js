// Tells Freshet's scripts what the reader agreed to, by the WP Consent API.
(() => {
  const tell = (given) => [window.freshet, window.freshetList].forEach((each) => each && each.consent(given));

  document.addEventListener("DOMContentLoaded", () => {
    if (typeof window.wp_has_consent === "function" && window.wp_has_consent("statistics")) tell(true);
  });
  document.addEventListener("wp_listen_for_consent_change", ({ detail }) => {
    if (detail && "statistics" in detail) tell(detail.statistics === "allow");
  });
})();

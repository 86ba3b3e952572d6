/** Registers the service worker, with which the page can be installed and opens without a network. */

if (navigator.serviceWorker) {
  // Not supported, or refused by the browser's settings: the page works without it.
  navigator.serviceWorker.register("/worker.js", { scope: "/staff", updateViaCache: "none" }).catch(() => {});
}

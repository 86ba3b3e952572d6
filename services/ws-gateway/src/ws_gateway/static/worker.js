/**
 * The service worker of the staff page. It opens the page without a network.
 *
 * shell.js, which the gateway makes, has the files of the page and a version computed from their content. A new release
 * changes shell.js, so that browsers install the worker again: it fills a new cache and deletes the old one. Answers of
 * the API are never cached here.
 */
importScripts("/shell.js");

const { version, files } = self.shell;
const CACHE = `shell-${version}`;
const PAGE = "/staff";
const PATIENCE = 4_000; // then the cached file is used: a weak network is worse than none

self.addEventListener("install", (event) => event.waitUntil(install()));
self.addEventListener("activate", (event) => event.waitUntil(activate()));

async function install() {
  const cache = await caches.open(CACHE);
  await cache.addAll(files.map((path) => new Request(path, { cache: "reload" })));
  await self.skipWaiting();
}

async function activate() {
  for (const name of await caches.keys()) if (name.startsWith("shell-") && name !== CACHE) await caches.delete(name);
  await self.clients.claim();
}

self.addEventListener("fetch", (event) => {
  const { origin, pathname } = new URL(event.request.url);
  if (event.request.method !== "GET" || origin !== location.origin || !files.includes(pathname)) return;
  event.respondWith(networkFirst(event.request, pathname));
});

/** The network decides what is current; the cache answers when the network does not. */
async function networkFirst(request, pathname) {
  const kept = await (await caches.open(CACHE)).match(pathname);
  if (!kept) return fetch(request);
  const late = new Promise((resolve) => setTimeout(resolve, PATIENCE, kept));
  const fresh = fetch(request).then((response) => (response.status < 500 ? response : kept));
  return Promise.race([fresh, late]).catch(() => kept);
}

/** The staff page: a restaurant's requests with live updates, and the staff's answers. The inbox holds all state. */
import { Inbox } from "/tablebell.js";

const ACTIONS = {
  CONFIRMED: { label: "Accept", done: "Accepted", style: "primary" },
  REJECTED: { label: "Reject", done: "Rejected", style: "danger" },
  POSTPONED: { label: "Another time", done: "Another time proposed", style: "" },
  DISMISSED: { label: "Dismiss", done: "Dismissed", style: "quiet" },
  CUSTOM: { label: "Done", done: "Dealt with", style: "quiet" },
};
const STATES = {
  connecting: "Connecting…",
  live: "Live",
  delayed: "Delayed",
  offline: "Offline, reconnecting…",
  "signed-out": "Signed out",
};
const TOKEN = "tablebell.token";

const $ = (id) => document.getElementById(id);
const cards = new Map(); // notification id → its element and item
const busy = new Set();
let inbox = null;
let filter = "open";
let greeted = false;

// Sign-in

function tokenFromAddress() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    sessionStorage.setItem(TOKEN, token);
    history.replaceState(null, "", location.pathname + location.search); // keep the token out of the history and of screenshots
  }
}

async function signIn() {
  const config = await (await fetch("/config.json", { cache: "no-store" })).json();
  inbox = new Inbox({
    socketUrl: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`,
    apiUrl: config.apiUrl || `${location.protocol}//${location.hostname}:8080`,
    token: async () => sessionStorage.getItem(TOKEN),
  });
  inbox.addEventListener("change", render);
  inbox.addEventListener("state", showState);
  show("inbox");
  showState();
  render();
  inbox.start();
}

function signOut(problem = "") {
  sessionStorage.removeItem(TOKEN);
  inbox?.stop();
  inbox = null;
  cards.clear();
  $("list").replaceChildren();
  greeted = false;
  document.title = "Tablebell";
  show("sign-in");
  $("sign-in-problem").textContent = problem;
  $("sign-in-problem").hidden = !problem;
  $("token").value = "";
  $("token").focus();
}

function show(section) {
  for (const id of ["sign-in", "inbox"]) $(id).hidden = id !== section;
  $("session").hidden = section !== "inbox";
}

function showState() {
  if (!inbox) return;
  if (inbox.state === "signed-out") return signOut("This token is not valid any more. Please sign in again.");
  $("state").dataset.state = inbox.state;
  $("state-text").textContent = STATES[inbox.state];
  $("who").textContent = inbox.user ? `${nice(inbox.user.userType)} ${inbox.user.userId}` : "";
}

// The list

const isOpen = (item) => item.actions.length > 0;

function render() {
  if (!inbox) return;
  const open = inbox.items.filter(isOpen);
  const shown = filter === "open" ? inbox.items.filter((item) => isOpen(item) || cards.get(item.id)?.wasOpen) : inbox.items;
  const wanted = new Set(shown.map((item) => item.id));
  for (const [id, card] of cards) {
    if (!wanted.has(id)) {
      card.element.remove();
      cards.delete(id);
    }
  }
  let previous = null;
  for (const item of shown) {
    const element = cardOf(item);
    const place = previous ? previous.nextSibling : $("list").firstChild;
    if (place !== element) $("list").insertBefore(element, place);
    previous = element;
  }
  $("open-count").textContent = open.length;
  $("empty").hidden = shown.length > 0;
  $("more").hidden = !inbox.hasMore;
  $("unread").hidden = $("read-all").hidden = inbox.unread === 0;
  $("unread").textContent = inbox.unread;
  $("unread").setAttribute("aria-label", `${inbox.unread} unread`);
  document.title = inbox.unread ? `(${inbox.unread}) Tablebell` : "Tablebell";
  if (inbox.items.length) greeted = true;
}

function cardOf(item) {
  const known = cards.get(item.id);
  if (known && known.item === item) return known.element;
  const element = known?.element ?? $("card").content.firstElementChild.cloneNode(true);
  // A card that was open stays visible after a colleague acts, until the filter changes.
  cards.set(item.id, { element, item, wasOpen: isOpen(item) || known?.wasOpen });
  if (!known) prepare(element, item);
  if (known && isOpen(known.item) && !isOpen(item) && item.resolution) announce(handled(item));
  element.classList.toggle("unread", !item.isRead);
  element.classList.toggle("done", !isOpen(item) && !!item.resolution);
  const resolution = element.querySelector(".resolution");
  resolution.hidden = !item.resolution;
  resolution.textContent = item.resolution ? handled(item) : "";
  resolution.dataset.outcome = item.resolution?.action ?? "";
  fillActions(element, item);
  return element;
}

function prepare(element, item) {
  const heading = element.querySelector(".card-title");
  heading.textContent = item.title;
  heading.id = `title-${item.id}`;
  element.firstElementChild.setAttribute("aria-labelledby", heading.id);
  element.dataset.id = item.id;
  element.querySelector(".card-body").textContent = item.body;
  const time = element.querySelector(".card-time");
  time.dateTime = item.createdAt;
  time.textContent = clock(item.createdAt);
  const facts = element.querySelector(".facts");
  for (const [name, value] of factsOf(item)) {
    const pair = document.createElement("div");
    pair.append(text("dt", name), text("dd", value));
    facts.append(pair);
  }
  element.addEventListener("click", () => markRead(item.id));
  element.addEventListener("focusin", () => markRead(item.id));
  const form = element.querySelector(".propose");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    act(item.id, { actionType: "POSTPONED", proposedTime: `${form.querySelector("input").value}:00`.slice(0, 19) });
  });
  form.querySelector("[data-cancel]").addEventListener("click", () => {
    propose(element, false);
    element.querySelector("[data-action=POSTPONED]")?.focus();
  });
  if (greeted) {
    element.classList.add("new");
    announce(item.title);
  }
}

function fillActions(element, item) {
  const actions = element.querySelector(".actions");
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  actions.hidden = !isOpen(item);
  if (actions.hidden) propose(element, false);
  actions.replaceChildren(
    ...item.actions.filter((name) => name in ACTIONS).map((name) => {
      const button = text("button", ACTIONS[name].label);
      button.type = "button";
      button.className = ACTIONS[name].style;
      button.dataset.action = name;
      button.setAttribute("aria-disabled", busy.has(item.id)); // not disabled: that would lose the focus
      button.setAttribute("aria-describedby", `title-${item.id}`);
      button.addEventListener("click", () => (name === "POSTPONED" ? propose(element, true) : act(item.id, { actionType: name })));
      return button;
    }),
  );
  // When the focused button disappears, keep the focus in the card.
  if (focused && actions.hidden) {
    element.tabIndex = -1;
    element.focus({ preventScroll: true });
  } else if (focused?.dataset.action) {
    actions.querySelector(`[data-action=${focused.dataset.action}]`)?.focus({ preventScroll: true });
  }
}

function propose(element, open) {
  const form = element.querySelector(".propose");
  if (form.hidden !== open) return;
  form.hidden = !open;
  if (!open) return;
  const { slotTime, timezone } = cards.get(Number(element.dataset.id)).item.properties;
  form.querySelector("input").value = slotTime ? localTime(new Date(Date.parse(slotTime) + 1_800_000), timezone) : "";
  form.querySelector("input").focus();
}

async function act(id, action) {
  if (busy.has(id)) return;
  busy.add(id);
  refresh(id);
  try {
    await inbox.act(id, action);
  } catch (error) {
    const by = error.problem?.handledBy;
    toast(by ? `${by.actorName || "A colleague"} was faster.` : `That did not work: ${error.message}`);
  } finally {
    busy.delete(id);
    refresh(id);
  }
}

function refresh(id) {
  const card = cards.get(id);
  if (card) fillActions(card.element, card.item);
}

function markRead(id) {
  const card = cards.get(id);
  if (card && !card.item.isRead) inbox.read(id).catch(() => {}); // it stays unread; the next click tries again
}

// Texts

function handled({ resolution: { action, actorName, actorId, at } }) {
  const who = actorName || `colleague ${actorId}`;
  return `${ACTIONS[action]?.done ?? "Handled"} · handled by ${who}, ${clock(at)}`;
}

function factsOf({ properties: { customerName, partySize, slotTime, timezone, note } = {} }) {
  const when = slotTime && new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", timeZone: timezone }).format(new Date(slotTime));
  return [["When", when], ["Guests", partySize], ["Name", customerName], ["Note", note]].filter(([, value]) => value);
}

function clock(moment) {
  const date = new Date(moment);
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString(undefined, today ? { hour: "2-digit", minute: "2-digit" } : { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
}

/** The value of a datetime-local input, in the restaurant's time zone. */
function localTime(date, timeZone) {
  const parts = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "short", timeZone }).format(date);
  return parts.replace(" ", "T");
}

const nice = (name) => ({ RESTAURANT_USER: "Staff", ADMIN_USER: "Admin", AGENCY_USER: "Agency", CUSTOMER: "Customer" })[name] ?? name;

function text(tag, content) {
  const element = document.createElement(tag);
  element.textContent = content;
  return element;
}

function announce(message) {
  $("announcer").textContent = message;
}

let toastTimer;
function toast(message) {
  $("toast").textContent = message;
  $("toast").hidden = false;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => ($("toast").hidden = true), 6_000);
}

// Event handlers

$("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, $("token").value.trim());
  signIn();
});
$("sign-out").addEventListener("click", () => signOut());
$("read-all").addEventListener("click", () => inbox.readAll().catch((error) => toast(error.message)));
$("more").addEventListener("click", () => inbox.more().catch((error) => toast(error.message)));
for (const button of document.querySelectorAll("[data-filter]")) {
  button.addEventListener("click", () => {
    filter = button.dataset.filter;
    for (const other of document.querySelectorAll("[data-filter]")) other.setAttribute("aria-pressed", other === button);
    for (const card of cards.values()) card.wasOpen = isOpen(card.item);
    render();
  });
}

tokenFromAddress();
if (sessionStorage.getItem(TOKEN)) signIn();
else signOut();

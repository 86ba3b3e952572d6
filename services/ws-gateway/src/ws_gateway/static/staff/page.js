/** The staff page: signing in, who and where, the views. The inbox holds all state; this module wires the parts. */
import { $, setText } from "/shared/dom.js";
import { loadLanguage } from "/shared/language.js";
import { session } from "/shared/session.js";
import { sound } from "/shared/sound.js";
import { toast, withdraw } from "/shared/toast.js";
import { Attention } from "/staff/attention.js";
import { errorSentence } from "/staff/errors.js";
import { DayList } from "/staff/day.js";
import "/staff/install.js";
import { forget, Keeper, recall } from "/staff/kept.js";
import { RequestList } from "/staff/requests.js";
import { Inbox } from "/tablebell.js";

const TEXTS = "/staff/language";
const RETRY_AFTER = 3_000;

let inbox = null;
let requests = null;
let day = null;
let keeper = null;
let kept = null;
let view = "open";
let attention = null;
let language = null;
let currentSince = null;

async function signIn() {
  kept = recall(session.token);
  const config = await (await fetch("/config.json", { cache: "no-store" })).json();
  inbox = new Inbox({
    socketUrl: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`,
    apiUrl: config.apiUrl || `${location.protocol}//${location.hostname}:8080`,
    token: async () => session.token,
  });
  const own = inbox;
  show("inbox");
  $("loading").hidden = false;
  setText($("state-text"), language.text("connecting"));
  inbox.addEventListener("state", () => own === inbox && showState());
  const profile = await findProfile(own);
  if (!profile || own !== inbox) return;
  if (await open(own, profile)) inbox.start();
}

/** Show the lists of this person. Called again with the profile of the API after the kept one. */
async function open(own, profile) {
  const chosen = await loadLanguage(TEXTS, profile.locale);
  if (own !== inbox) return false;
  language = chosen;
  language.apply();
  showSound();
  showProfile(profile);
  if (profile.userType !== "RESTAURANT_USER") return showStranger(profile), false;
  if (requests) return true;
  keeper = new Keeper(inbox, profile, kept);
  requests = new RequestList(inbox, language, announce, showWaiting);
  day = new DayList(inbox, language, profile.restaurant?.timezone, keeper, showWaiting);
  choose("open");
  attention = new Attention(profile.restaurant?.name ?? "Tablebell");
  inbox.addEventListener("change", () => own === inbox && render());
  showState();
  render();
  return true;
}

/** Without a connection: what was last known. */
function restore() {
  if (!kept || inbox.loaded || inbox.asOf !== null) return;
  currentSince = kept.at;
  inbox.restore(kept);
}

/** Retried until the API answers: without the profile the page has no language. */
async function findProfile(own) {
  while (own === inbox) {
    try {
      return await own.request("GET", "/me");
    } catch (error) {
      if (error.status === 401 || error.status === 403) return signOut(language.text("signedOut")), null;
      $("loading").hidden = true;
      if (kept && own === inbox && !requests) {
        restore();
        await open(own, kept.profile);
      } else $("failed").hidden = requests !== null;
      await Promise.race([wait(RETRY_AFTER), new Promise((resolve) => $("retry").addEventListener("click", resolve, { once: true }))]);
    }
  }
  return null;
}

const wait = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

function signOut(problem = "") {
  if (session.token) forget();
  session.end();
  keeper?.stop();
  inbox?.stop();
  requests?.stop();
  day?.stop();
  attention?.stop();
  inbox = requests = day = attention = keeper = kept = currentSince = null;
  setText($("place"), "Tablebell");
  setText($("who"), "");
  show("sign-in");
  setText($("sign-in-problem"), problem);
  $("sign-in-problem").hidden = !problem;
  $("token").value = "";
  $("token").focus();
}

function show(section) {
  for (const id of ["sign-in", "inbox", "stranger"]) $(id).hidden = id !== section;
  $("session").hidden = section === "sign-in";
  for (const id of ["loading", "failed", "empty", "list", "more", "bring-in", "tables", "day-tools"]) $(id).hidden = true;
}

function showProfile({ name, role, restaurant }) {
  setText($("place"), restaurant?.name ?? "Tablebell");
  setText($("who"), role && restaurant ? `${name} · ${language.text(role)}` : name);
}

function showStranger({ name }) {
  show("stranger");
  $("state").hidden = true;
  setText($("stranger-text"), language.text("strangerText", { name }));
}

function showState() {
  if (inbox.state === "signed-out") return signOut(language.text("signedOut"));
  $("state").hidden = false;
  $("state").dataset.state = inbox.state;
  setText($("state-text"), language.text(inbox.state));
  if (inbox.state === "live") withdraw("connection");
  if (inbox.state === "offline" && requests) restore();
  requests?.showState();
  day?.showState();
  showCurrent();
}

function render() {
  requests.render();
  day.refresh();
  if (inbox.loaded) attention.update(inbox.open, inbox.openCount);
  setText($("open-count"), inbox.loaded || inbox.asOf !== null ? inbox.openCount : "");
  $("read-all").hidden = !inbox.unread || view !== "all";
  showCurrent();
}

function choose(chosen) {
  view = chosen;
  for (const button of document.querySelectorAll("[data-view]")) button.ariaPressed = String(button.dataset.view === view);
  requests.choose(view === "day" ? null : view);
  day.show(view === "day");
  showWaiting();
}

/** New elements that wait until the list may move. */
function showWaiting() {
  const count = (view === "day" ? day : requests)?.waiting ?? 0;
  $("bring-in").hidden = count === 0;
  if (count) setText($("bring-in"), language.text("newRequests", { count }));
}

/** Say so when the list may be out of date, and since when. */
function showCurrent() {
  const isCurrent = inbox.loaded && !inbox.problem && inbox.state === "live";
  if (isCurrent) currentSince = Date.now();
  $("not-current").hidden = isCurrent || !(inbox.loaded || inbox.asOf !== null);
  if ($("not-current").hidden) return;
  const isConnected = inbox.state === "live" || inbox.state === "delayed";
  const since = currentSince ?? Date.now();
  const isToday = new Date(since).toDateString() === new Date().toDateString();
  const time = isToday ? language.time(since) : `${language.day(since)} ${language.time(since)}`;
  setText($("not-current"), language.text(isConnected ? "notCurrent" : "offlineAsOf", { time }));
}

function showSound() {
  $("sound").ariaPressed = String(sound.isOn);
  language.label($("sound"), sound.isOn ? "soundOn" : "soundOff");
}

function announce(message) {
  setText($("announcer"), message);
}

$("sign-in-form").addEventListener("submit", (event) => {
  event.preventDefault();
  session.start($("token").value.trim());
  signIn();
});
$("sign-out").addEventListener("click", () => signOut());
$("retry").addEventListener("click", () => {
  inbox?.retry();
  day?.retry();
});
$("bring-in").addEventListener("click", () => (view === "day" ? day : requests).bringIn());
$("sound").addEventListener("click", () => {
  sound.isOn = !sound.isOn;
  showSound();
  sound.play();
});
$("read-all").addEventListener("click", () => inbox.readAll().catch((error) => toast(errorSentence(language, error), "connection")));
$("more").addEventListener("click", () => inbox.more().catch((error) => toast(errorSentence(language, error), "connection")));
for (const button of document.querySelectorAll("[data-view]")) {
  button.addEventListener("click", () => {
    if (!requests) return;
    choose(button.dataset.view);
    render();
  });
}

session.takeFromAddress();
language = await loadLanguage(TEXTS, navigator.language);
language.apply();
showSound();
if (session.token) signIn();
else signOut();

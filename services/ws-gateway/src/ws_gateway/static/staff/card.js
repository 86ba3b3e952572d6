/** A request or an event as a card: each fact once, and the possible answers. */
import { setText } from "/shared/dom.js";
import { localDateTime } from "/shared/language.js";
import { askedAt, hasPassed, hasWaitedTooLong, isOpen, tableTime } from "/staff/reservation.js";
import { eventSentence, outcomeSentence, undoneSentence } from "/staff/sentences.js";

const BUTTONS = {
  CONFIRMED: { text: "accept", style: "primary" },
  POSTPONED: { text: "propose", style: "" },
  REJECTED: { text: "reject", style: "danger" },
};
const HALF_AN_HOUR = 1_800_000;

export class Card {
  #language; #handlers; #item;
  #undoUntil = 0; // by performance.now()
  #isUndone = false;

  /** `handlers`: act(item, action), undo(item), read(item) */
  constructor(template, language, handlers, item) {
    this.element = template.content.firstElementChild.cloneNode(true);
    this.element.dataset.id = item.id;
    this.#language = language;
    this.#handlers = handlers;
    language.apply(this.element);
    this.#find(".who").id = `who-${item.id}`;
    this.element.firstElementChild.setAttribute("aria-labelledby", `who-${item.id}`);
    this.#listen();
  }

  get item() {
    return this.#item;
  }

  update(item, { isBusy, now = Date.now() }) {
    const isShared = item.shared;
    this.#item = item;
    this.element.classList.toggle("unread", !item.isRead);
    this.element.classList.toggle("done", !isOpen(item));
    this.element.classList.toggle("event", !isShared);
    this.#fill(item);
    this.#fillNote(item.properties.note ?? "");
    this.#fillStory(item);
    this.#fillButtons(item, isBusy);
    this.tick(now);
  }

  /** Show the button for this long. */
  offerUndo(seconds) {
    this.#undoUntil = performance.now() + seconds * 1_000;
    setTimeout(() => this.#refresh(), seconds * 1_000 + 1);
    this.#refresh();
  }

  showUndone() {
    this.#undoUntil = 0;
    this.#isUndone = true;
    this.#refresh();
  }

  /** Update what depends on the clock. */
  tick(now) {
    const item = this.#item;
    const age = this.#find(".age");
    const isWaiting = isOpen(item) && item.shared;
    const isLate = isWaiting && hasWaitedTooLong(item, now);
    const isPast = isWaiting && hasPassed(item, now);
    this.element.classList.toggle("late", isLate || isPast);
    if (isPast) setText(age, this.#language.text("passed"));
    else if (isWaiting) setText(age, this.#language.text("waiting", { duration: this.#language.duration(now - askedAt(item)) }));
    else setText(age, this.#clock(item.resolution?.at ?? item.createdAt));
  }

  #refresh() {
    this.update(this.#item, { isBusy: false });
  }

  get #canBeUndone() {
    return performance.now() < this.#undoUntil;
  }

  #find(selector) {
    return this.element.querySelector(selector);
  }

  #fill(item) {
    const { customerName, partySize, timezone } = item.properties;
    const time = tableTime(item);
    setText(this.#find(".hour"), time ? this.#language.time(time, timezone) : "");
    setText(this.#find(".day"), time ? this.#language.day(time, timezone) : "");
    setText(this.#find(".who"), customerName ?? item.title);
    setText(this.#find(".party"), partySize ? this.#language.text("guests", { count: partySize }) : "");
    const before = this.#before(item.properties);
    this.#find(".before").hidden = !before || !isOpen(item);
    setText(this.#find(".before"), before);
  }

  #before({ previousPartySize, previousSlotTime, partySize, slotTime, timezone }) {
    if (!previousPartySize && !previousSlotTime) return "";
    const parts = [];
    if (previousPartySize && previousPartySize !== partySize) parts.push(this.#language.text("guests", { count: previousPartySize }));
    if (previousSlotTime && previousSlotTime !== slotTime) parts.push(this.#language.dayAndTime(previousSlotTime, timezone));
    return this.#language.text("before", { before: parts.join(", ") });
  }

  #fillNote(note) {
    setText(this.#find(".note"), note);
    this.#find(".note").hidden = !note;
    const isLong = note.length > 120 || note.split("\n").length > 2;
    this.#find(".all-of-note").hidden = !isLong || !this.#find(".note").classList.contains("short");
  }

  #fillStory(item) {
    const story = this.#find(".story");
    const isEvent = !item.shared;
    const isHidden = item.hidden && item.actions.length > 0;
    const isOpenAgain = item.eventType === "RESERVATION_DECISION_UNDONE";
    story.hidden = !(item.resolution || isEvent || isHidden || isOpenAgain);
    if (story.hidden) return;
    story.dataset.outcome = this.#isUndone ? "RESERVATION_DECISION_UNDONE" : item.resolution ? item.resolution.outcome?.eventType ?? "" : item.eventType;
    setText(story, isHidden ? this.#language.text("hidden") : item.resolution ? this.#outcome(item) : eventSentence(this.#language, item));
  }

  #outcome(item) {
    if (this.#isUndone) return undoneSentence(this.#language, item);
    const sentence = outcomeSentence(this.#language, item);
    return this.#canBeUndone ? `${sentence}. ${this.#language.text("notTold")}` : sentence;
  }

  #fillButtons(item, isBusy) {
    const actions = this.#find(".actions");
    const active = this.element.contains(document.activeElement) ? document.activeElement : null;
    const names = Object.keys(BUTTONS).filter((name) => item.actions.includes(name));
    actions.hidden = names.length === 0 && !this.#canBeUndone;
    this.#find(".hide").hidden = !item.actions.includes("DISMISSED");
    if (names.length === 0) this.#propose(false);
    for (const name of Object.keys(BUTTONS)) {
      let button = actions.querySelector(`[data-action=${name}]`);
      if (!names.includes(name)) {
        button?.remove();
        continue;
      }
      button ??= actions.appendChild(this.#button(name));
    }
    const undo = actions.querySelector("[data-undo]");
    if (!this.#canBeUndone) undo?.remove();
    else if (!undo) actions.appendChild(this.#undoButton());
    for (const button of this.element.querySelectorAll("[data-action], [data-undo]")) {
      button.setAttribute("aria-disabled", isBusy); // not disabled: that would lose the focus
      button.setAttribute("aria-describedby", `who-${item.id}`);
    }
    // When the focused button disappears, keep the focus in the card.
    if (active && !active.isConnected) {
      this.element.tabIndex = -1;
      this.element.focus({ preventScroll: true });
    }
  }

  #button(name) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = BUTTONS[name].style;
    button.dataset.action = name;
    button.textContent = this.#language.text(BUTTONS[name].text);
    return button;
  }

  #undoButton() {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.undo = "";
    button.textContent = this.#language.text("undo");
    return button;
  }

  #listen() {
    this.element.addEventListener("click", (event) => {
      this.#handlers.read(this.#item);
      const action = event.target.closest("[data-action]")?.dataset.action;
      if (event.target.closest("[data-undo]")) this.#handlers.undo(this.#item);
      else if (action === "POSTPONED") this.#propose(true);
      else if (action) this.#handlers.act(this.#item, { actionType: action });
    });
    this.element.addEventListener("focusin", () => this.#handlers.read(this.#item));
    this.#find(".all-of-note").addEventListener("click", (event) => {
      this.#find(".note").classList.remove("short");
      event.currentTarget.hidden = true;
    });
    const form = this.#find(".propose");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const proposedTime = `${form.querySelector("input").value}:00`.slice(0, 19);
      this.#handlers.act(this.#item, { actionType: "POSTPONED", proposedTime });
    });
    form.querySelector("[data-cancel]").addEventListener("click", () => {
      this.#propose(false);
      this.#find("[data-action=POSTPONED]")?.focus({ preventScroll: true });
    });
  }

  #propose(isShown) {
    const form = this.#find(".propose");
    if (form.hidden !== isShown) return;
    form.hidden = !isShown;
    if (!isShown) return;
    const { slotTime, timezone } = this.#item.properties;
    const later = new Date(Math.max(Date.parse(slotTime), Date.now()) + HALF_AN_HOUR);
    form.querySelector("input").value = slotTime ? localDateTime(later, timezone) : "";
    form.querySelector("input").focus();
  }

  #clock(moment) {
    const isToday = new Date(moment).toDateString() === new Date().toDateString();
    return isToday ? this.#language.time(moment) : `${this.#language.day(moment)} ${this.#language.time(moment)}`;
  }
}

/** The list of requests: what is to be answered, or everything that happened. */
import { $, setText } from "/shared/dom.js";
import { StillList } from "/shared/still_list.js";
import { toast, withdraw } from "/shared/toast.js";
import { Card } from "/staff/card.js";
import { errorSentence } from "/staff/errors.js";
import { byVisit, hasWaitedTooLong, isOpen } from "/staff/reservation.js";
import { outcomeSentence } from "/staff/sentences.js";

const READABLE_FOR = 20_000;
const CLOCK_EVERY = 15_000;

export class RequestList {
  #inbox; #language; #list; #clock;
  #cards = new Map();
  #busy = new Set();
  #view = "open";
  #announce;

  constructor(inbox, language, announce, onChange) {
    this.#inbox = inbox;
    this.#language = language;
    this.#announce = announce;
    this.#list = new StillList($("list"), onChange);
    this.#clock = setInterval(() => this.#tick(), CLOCK_EVERY);
    $("list").setAttribute("aria-label", language.text("requestList"));
  }

  stop() {
    clearInterval(this.#clock);
    this.#list.clear();
    this.#cards.clear();
  }

  get waiting() {
    return this.#list.waiting;
  }

  /** "open", "all", or null for neither */
  choose(view) {
    this.#view = view;
    this.#list.clear();
    this.#cards.clear();
    if (!view) return ($("list").hidden = $("more").hidden = true);
    $("list").setAttribute("aria-label", this.#language.text(view === "open" ? "requestList" : "eventList"));
    this.render();
  }

  bringIn() {
    this.#list.bringIn();
    $("list").focus({ preventScroll: true });
  }

  render() {
    const now = Date.now();
    this.#showLate(now);
    if (!this.#view) return;
    const items = this.#view === "open" ? this.#inbox.open.sort(byVisit(now)) : this.#inbox.items;
    this.#answered(items);
    this.#list.show(items.map((item) => ({ key: item.id, update: () => this.#update(item) })));
    const { problem, asOf } = this.#inbox;
    const loaded = this.#inbox.loaded || asOf !== null;
    $("list").hidden = items.length === 0 && this.#cards.size === 0;
    $("loading").hidden = loaded || !!problem;
    $("failed").hidden = loaded || !problem;
    $("empty").hidden = !loaded || !$("list").hidden;
    $("list").setAttribute("aria-busy", String(!loaded));
    setText($("empty-title"), this.#language.text(this.#view === "open" ? "emptyTitle" : "nothingYet"));
    $("more").hidden = this.#view === "open" || !this.#inbox.hasMore;
  }

  /** Cards that left the list of open requests show their outcome, in their place, until people could read it. */
  #answered(items) {
    if (this.#view !== "open") return;
    const open = new Set(items.map((item) => item.id));
    for (const [id, card] of this.#cards) {
      if (open.has(id)) continue;
      if (!this.#list.has(id)) {
        this.#cards.delete(id);
        continue;
      }
      const item = this.#inbox.find(id);
      if (!item || item === card.item) continue;
      this.#list.hold(id);
      this.#list.linger(id, READABLE_FOR);
      if (isOpen(card.item)) {
        withdraw(id);
        if (item.resolution) this.#announce(outcomeSentence(this.#language, item));
      }
      card.update(item, { isBusy: !this.#inbox.canAct });
    }
  }

  #update(item) {
    let card = this.#cards.get(item.id);
    if (!card) {
      const handlers = { act: (of, action) => this.#act(of, action), undo: (of) => this.#undo(of), read: (of) => this.#read(of) };
      card = new Card($("card"), this.#language, handlers, item);
      this.#cards.set(item.id, card);
    }
    if (card.item !== item) {
      if (card.item && isOpen(card.item) && !isOpen(item)) this.#list.hold(item.id);
      card.update(item, { isBusy: this.#isBusy(item.id) });
    }
    return card.element;
  }

  async #act(item, action) {
    if (this.#isBusy(item.id)) return;
    this.#setBusy(item.id, true);
    withdraw(item.id);
    try {
      const { undoSeconds } = await this.#inbox.act(item.id, action);
      withdraw("connection");
      if (undoSeconds) this.#cards.get(item.id)?.offerUndo(undoSeconds);
    } catch (error) {
      toast(errorSentence(this.#language, error), error.status === undefined || error.status >= 500 ? "connection" : item.id);
    } finally {
      this.#setBusy(item.id, false);
    }
  }

  /** The buttons work while there is a connection. */
  showState() {
    for (const [id, card] of this.#cards) card.update(card.item, { isBusy: this.#isBusy(id) });
  }

  #isBusy(id) {
    return this.#busy.has(id) || !this.#inbox.canAct;
  }

  /** The request comes back as a new card, by a frame. */
  async #undo(item) {
    if (this.#busy.has(item.id)) return;
    this.#setBusy(item.id, true);
    withdraw(item.id);
    try {
      await this.#inbox.request("POST", `/restaurant/reservation/${item.reservationId}/undo`);
      this.#cards.get(item.id)?.showUndone();
    } catch (error) {
      toast(errorSentence(this.#language, error), item.id);
    } finally {
      this.#setBusy(item.id, false);
    }
  }

  #setBusy(id, isBusy) {
    if (isBusy) this.#busy.add(id);
    else this.#busy.delete(id);
    const card = this.#cards.get(id);
    if (card) card.update(card.item, { isBusy: this.#isBusy(id) });
  }

  #read(item) {
    const known = this.#cards.get(item.id)?.item;
    if (known && !known.isRead) this.#inbox.read(item.id).catch(() => {}); // it stays unread; the next click tries again
  }

  #showLate(now) {
    const count = this.#inbox.open.filter((item) => hasWaitedTooLong(item, now)).length;
    setText($("late"), count ? this.#language.text("tooLong", { count }) : "");
  }

  #tick() {
    const now = Date.now();
    for (const card of this.#cards.values()) card.tick(now);
    this.#showLate(now);
  }
}

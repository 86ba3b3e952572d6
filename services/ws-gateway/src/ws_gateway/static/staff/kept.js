/**
 * What was last known, kept in this browser: the requests and the tables of today. It opens the page without a connection.
 *
 * It belongs to one person. It is removed at sign-out, when another person signs in, and when it is a day old.
 */
import { localDate } from "/shared/language.js";

const KEY = "tablebell.kept";
const LONGEST = 24 * 3_600_000;
const MOST = 200; // requests, tables
const RECENT = 50; // events
const TOGETHER = 300; // changes within this time are kept once
const EVERY = 30_000;

/** The person whom the token names. It is not verified: it only selects what this browser kept. */
function personOf(token) {
  try {
    const { user_type, sub } = JSON.parse(atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/")));
    return `${user_type}:${sub}`;
  } catch {
    return null;
  }
}

export function forget() {
  localStorage.removeItem(KEY);
}

/** What was kept for the person of this token, or null. What was kept for anybody else is removed. */
export function recall(token) {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY));
    if (kept?.person === personOf(token) && Date.now() - kept.at < LONGEST) return kept;
  } catch {
    // unreadable: removed below
  }
  forget();
  return null;
}

export class Keeper {
  #inbox; #profile; #kept; #timer; #clock;
  #isStopped = false;
  #stopping = new AbortController();

  /** `kept`: what an earlier visit kept, or null. */
  constructor(inbox, profile, kept) {
    this.#inbox = inbox;
    this.#profile = profile;
    this.#kept = kept;
    const { signal } = this.#stopping;
    for (const type of ["change", "reservation"]) inbox.addEventListener(type, () => this.#soon(), { signal });
    addEventListener("pagehide", () => this.#save(), { signal });
    this.#clock = setInterval(() => this.#save(), EVERY);
  }

  stop() {
    this.#isStopped = true;
    this.#stopping.abort();
    clearInterval(this.#clock);
    clearTimeout(this.#timer);
  }

  /** The kept tables of a day whose name or phone has this text, or null. */
  tables(day, text) {
    const { day: known, tables } = this.#kept ?? {};
    if (!tables || day !== known) return null;
    return tables.filter(({ customerName, customerPhone }) => `${customerName} ${customerPhone ?? ""}`.toLowerCase().includes(text.toLowerCase()));
  }

  #soon() {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.#read();
    }, TOGETHER);
  }

  async #read() {
    if (!this.#inbox.canAct) return;
    const day = localDate(new Date(), this.#profile.restaurant?.timezone);
    this.#save();
    try {
      const { items } = await this.#inbox.request("GET", `/restaurant/reservation?${new URLSearchParams({ date: day, limit: 100 })}`);
      this.#kept = { ...this.#kept, day, tables: items };
      this.#save();
    } catch {
      // the earlier tables stay
    }
  }

  #save() {
    const { canAct, problem, items, open, openCount } = this.#inbox;
    if (this.#isStopped || !canAct || problem) return;
    const person = `${this.#profile.userType}:${this.#profile.userId}`;
    const known = { person, at: Date.now(), profile: this.#profile, items: items.slice(0, RECENT), open: open.slice(0, MOST), openCount };
    this.#kept = { day: this.#kept?.day, tables: this.#kept?.tables, ...known };
    try {
      localStorage.setItem(KEY, JSON.stringify(this.#kept));
    } catch {
      forget(); // no space: nothing is better than something old
    }
  }
}

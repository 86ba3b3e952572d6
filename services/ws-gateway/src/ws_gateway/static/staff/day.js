/** The tables of a day, by time, with covers per time and in total. Live: it is read again after every change. */
import { $, element, setText } from "/shared/dom.js";
import { localDate } from "/shared/language.js";
import { StillList } from "/shared/still_list.js";
import { toast, withdraw } from "/shared/toast.js";
import { errorSentence } from "/staff/errors.js";
import { TableRow } from "/staff/table_row.js";

const PAGE = 100;
const TOGETHER = 250; // changes within this time are read once
const CLOCK_EVERY = 30_000;
const SHOWN = new Set(["NOT_ACCEPTED", "ACCEPTED", "POSTPONED", "ARRIVED", "NO_SHOW"]);
const SEATED = new Set(["ACCEPTED", "ARRIVED"]);

export class DayList {
  #inbox; #language; #timeZone; #keeper; #list; #clock; #timer;
  #rows = new Map();
  #headings = new Map();
  #busy = new Set();
  #tables = null; // null: not read yet
  #problem = null;
  #reading = 0;
  #isShown = false;

  constructor(inbox, language, timeZone, keeper, onChange) {
    this.#inbox = inbox;
    this.#language = language;
    this.#timeZone = timeZone;
    this.#keeper = keeper;
    this.#list = new StillList($("tables"), onChange);
    $("tables").setAttribute("aria-label", language.text("tableList"));
    $("search").placeholder = language.text("search");
    $("search").value = "";
    $("day").value = localDate(new Date(), timeZone);
    $("day").onchange = () => this.#start();
    $("search").oninput = () => this.#start();
    inbox.addEventListener("reservation", () => this.refresh());
    this.#clock = setInterval(() => this.#isShown && this.#render(), CLOCK_EVERY);
  }

  get waiting() {
    return this.#list.waiting;
  }

  stop() {
    clearInterval(this.#clock);
    clearTimeout(this.#timer);
    this.#list.clear();
  }

  show(isShown) {
    this.#isShown = isShown;
    $("day-tools").hidden = !isShown;
    if (isShown) this.#start();
    else $("tables").hidden = true;
  }

  bringIn() {
    this.#list.bringIn();
    $("tables").focus({ preventScroll: true });
  }

  /** Read the day again, soon. */
  refresh() {
    if (!this.#isShown) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#read(), TOGETHER);
  }

  /** The buttons work while there is a connection. */
  showState() {
    if (this.#isShown) this.#render();
  }

  #isBusy(id) {
    return this.#busy.has(id) || !this.#inbox.canAct;
  }

  retry() {
    if (this.#isShown) this.#start();
  }

  #start() {
    this.#tables = this.#problem = null;
    this.#rows.clear();
    this.#headings.clear();
    this.#list.clear();
    this.#render();
    this.refresh();
  }

  async #read() {
    const reading = (this.#reading += 1);
    const tables = [];
    try {
      let cursor = "";
      do {
        const text = $("search").value.trim();
        const query = new URLSearchParams({ date: $("day").value, limit: PAGE, ...(text && { q: text }), ...(cursor && { cursor }) });
        const page = await this.#inbox.request("GET", `/restaurant/reservation?${query}`);
        tables.push(...page.items);
        cursor = page.nextCursor;
      } while (cursor);
      if (reading !== this.#reading) return; // a later reading is on its way
      // A table that is cancelled while it is shown stays and says so.
      this.#tables = tables.filter(({ id, status }) => SHOWN.has(status) || this.#rows.has(id));
      this.#problem = null;
    } catch (error) {
      if (reading !== this.#reading) return;
      this.#problem = error;
      if (!this.#inbox.canAct) this.#tables ??= this.#keeper.tables($("day").value, $("search").value.trim())?.filter(({ status }) => SHOWN.has(status)) ?? null;
      this.#timer = setTimeout(() => this.#read(), 5_000);
    }
    if (this.#isShown) this.#render();
  }

  #render() {
    const tables = this.#tables ?? [];
    const wanted = [];
    for (const [time, group] of Map.groupBy(tables, ({ slotTime }) => this.#language.time(slotTime, this.#timeZone))) {
      wanted.push({ key: `at ${time}`, update: () => this.#heading(time, covers(group)) });
      for (const table of group) wanted.push({ key: table.id, update: () => this.#row(table) });
    }
    this.#list.show(wanted);
    const seated = tables.filter(({ status }) => SEATED.has(status));
    const count = (name, number) => this.#language.text(name, { count: number });
    setText($("covers"), this.#tables ? `${count("covers", covers(tables))} · ${count("tables", seated.length)}` : "");
    $("tables").hidden = tables.length === 0;
    $("loading").hidden = this.#tables !== null || this.#problem !== null;
    $("failed").hidden = this.#tables !== null || this.#problem === null;
    $("empty").hidden = this.#tables === null || tables.length > 0;
    setText($("empty-title"), this.#language.text("noTables"));
  }

  #heading(time, seats) {
    let heading = this.#headings.get(time);
    if (!heading) {
      heading = element("li", "time");
      heading.append(element("strong", "hour", time), " ", element("span"));
      this.#headings.set(time, heading);
    }
    setText(heading.lastChild, this.#language.text("covers", { count: seats }));
    return heading;
  }

  #row(table) {
    let row = this.#rows.get(table.id);
    if (!row) {
      row = new TableRow($("table"), this.#language, (...given) => this.#act(...given), table);
      this.#rows.set(table.id, row);
    }
    row.update(table, this.#isBusy(table.id));
    return row.element;
  }

  async #act(table, act, body) {
    if (this.#isBusy(table.id)) return;
    this.#busy.add(table.id);
    withdraw(`table ${table.id}`);
    this.#render();
    try {
      const changed = await this.#inbox.request("POST", `/restaurant/reservation/${table.id}/${act}`, body);
      withdraw("connection");
      this.#tables = this.#tables.map((each) => (each.id === table.id ? { ...each, ...changed } : each));
    } catch (error) {
      toast(errorSentence(this.#language, error), error.status === undefined || error.status >= 500 ? "connection" : `table ${table.id}`);
    } finally {
      this.#busy.delete(table.id);
      this.#render();
      this.refresh();
    }
  }
}

const covers = (tables) => tables.filter(({ status }) => SEATED.has(status)).reduce((sum, { partySize }) => sum + partySize, 0);

/** A table of the day: the guest, how to call them, and who came. */
import { setText } from "/shared/dom.js";

const TWO_HOURS = 7_200_000;

export class TableRow {
  #language; #act; #table;

  /** `act(table, name, body)` */
  constructor(template, language, act, table) {
    this.element = template.content.firstElementChild.cloneNode(true);
    this.element.dataset.table = table.id;
    this.#language = language;
    this.#act = act;
    language.apply(this.element);
    this.#find(".who").id = `table-${table.id}`;
    this.element.firstElementChild.setAttribute("aria-labelledby", `table-${table.id}`);
    this.#listen();
  }

  update(table, isBusy = false, now = Date.now()) {
    const text = (...given) => this.#language.text(...given);
    this.#table = table;
    setText(this.#find(".who"), table.customerName);
    setText(this.#find(".party"), text("guests", { count: table.partySize }));
    setText(this.#find(".age"), table.status === "ACCEPTED" ? "" : text(table.status));
    const history = [];
    if (table.visits) history.push(text("visits", { count: table.visits }));
    if (table.noShows) history.push(text("noShows", { count: table.noShows }));
    setText(this.#find(".history"), history.join(" · "));
    this.#find(".history").classList.toggle("warning", table.noShows > 0);
    setText(this.#find(".note"), table.note ?? "");
    this.#find(".note").hidden = !table.note;
    const call = this.#find(".call");
    call.hidden = !table.customerPhone;
    call.href = `tel:${table.customerPhone}`;
    setText(call, text("call", { phone: table.customerPhone }));
    this.element.classList.toggle("done", !["ACCEPTED", "NOT_ACCEPTED", "POSTPONED"].includes(table.status));
    const possible = this.#possible(now);
    for (const button of this.element.querySelectorAll("[data-act]")) {
      button.hidden = !possible.includes(button.dataset.act);
      button.setAttribute("aria-disabled", isBusy);
      button.setAttribute("aria-describedby", `table-${table.id}`);
    }
    if (!possible.includes("cancel")) this.#find(".cancel").hidden = true;
  }

  #possible(now) {
    const { status, slotTime } = this.#table;
    if (status === "ARRIVED" || status === "NO_SHOW") return ["undo"];
    if (status === "POSTPONED") return ["cancel"];
    if (status !== "ACCEPTED") return [];
    const left = Date.parse(slotTime) - now;
    return [...(left <= TWO_HOURS ? ["arrived"] : []), ...(left <= 0 ? ["no-show"] : []), "cancel"];
  }

  #find(selector) {
    return this.element.querySelector(selector);
  }

  #listen() {
    const form = this.#find(".cancel");
    this.element.addEventListener("click", (event) => {
      const act = event.target.closest("[data-act]")?.dataset.act;
      if (act === "cancel") {
        form.hidden = false;
        form.querySelector("input").focus();
      } else if (act) this.#act(this.#table, act);
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#act(this.#table, "cancel", { reason: form.querySelector("input").value.trim() });
    });
    form.querySelector("[data-cancel]").addEventListener("click", () => {
      form.hidden = true;
      this.#find("[data-act=cancel]").focus({ preventScroll: true });
    });
  }
}

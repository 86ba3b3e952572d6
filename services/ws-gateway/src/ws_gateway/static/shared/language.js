/**
 * The reader's language: texts, plurals, dates. A page has one file of texts per language; `loadLanguage` loads one.
 *
 * A text is a string with {fields}, or an object with plural forms of {count}: {one: "{count} guest", other: "…"}.
 * Italian is the default, as in the messages that people get.
 */

const CODES = ["it", "en", "es", "pt"];
const LOCALES = { en: "en-GB", pt: "pt-PT" }; // 24 hours, day before month

export function languageCode(locale) {
  const code = (locale ?? "").slice(0, 2).toLowerCase();
  return CODES.includes(code) ? code : "it";
}

export async function loadLanguage(folder, locale) {
  const code = languageCode(locale);
  const { default: texts } = await import(`${folder}/${code}.js`);
  return new Language(code, texts);
}

export class Language {
  constructor(code, texts) {
    this.code = code;
    this.texts = texts;
    this.locale = LOCALES[code] ?? code;
    this.plurals = new Intl.PluralRules(this.locale);
  }

  /** text("waiting", {count: 3}) */
  text(name, fields = {}) {
    let text = this.texts[name];
    if (text === undefined) throw new Error(`no text "${name}" in ${this.code}`);
    if (typeof text === "object") text = text[this.plurals.select(fields.count)] ?? text.other;
    return text.replace(/\{(\w+)\}/g, (_, field) => fields[field]);
  }

  /** Fill the elements with data-text, data-label (aria-label and tooltip), and set `lang`. */
  apply(root = document) {
    document.documentElement.lang = this.code;
    for (const each of root.querySelectorAll("[data-text]")) each.textContent = this.text(each.dataset.text);
    for (const each of root.querySelectorAll("[data-label]")) this.label(each, each.dataset.label);
  }

  label(target, name) {
    target.setAttribute("aria-label", this.text(name));
    if (target.tagName === "BUTTON") target.title = this.text(name);
  }

  time(moment, timeZone) {
    return this.#format(moment, { hour: "2-digit", minute: "2-digit", timeZone });
  }

  /** "Friday 20 November at 20:00", with the year if it is not this one. */
  dayAndTime(moment, timeZone) {
    const day = this.#format(moment, { weekday: "long", day: "numeric", month: "long", year: this.#year(moment, timeZone), timeZone });
    return this.text("dayAndTime", { day, time: this.time(moment, timeZone) });
  }

  /** "today", "tomorrow", or "Fri 20 Nov", with the year if it is not this one. */
  day(moment, timeZone) {
    const days = daysFromToday(moment, timeZone);
    if (days === 0 || days === 1) return this.text(days ? "tomorrow" : "today");
    return this.#format(moment, { weekday: "short", day: "numeric", month: "short", year: this.#year(moment, timeZone), timeZone });
  }

  /** "12 min", "3 h", "2 days" */
  duration(milliseconds) {
    const minutes = Math.max(0, Math.floor(milliseconds / 60_000));
    const [value, unit] = minutes < 60 ? [minutes, "minute"] : minutes < 48 * 60 ? [Math.floor(minutes / 60), "hour"] : [Math.floor(minutes / 1440), "day"];
    return new Intl.NumberFormat(this.locale, { style: "unit", unit, unitDisplay: unit === "day" ? "long" : "short" }).format(value);
  }

  #year(moment, timeZone) {
    const year = (date) => new Intl.DateTimeFormat("en", { year: "numeric", timeZone }).format(date);
    return year(new Date(moment)) === year(new Date()) ? undefined : "numeric";
  }

  #format(moment, options) {
    return new Intl.DateTimeFormat(this.locale, { hourCycle: options.hour && "h23", ...options }).format(new Date(moment));
  }
}

/** Whole days between today and the moment, in the time zone of the restaurant. */
export function daysFromToday(moment, timeZone) {
  const midnight = (date) => Date.parse(localDate(date, timeZone));
  return Math.round((midnight(new Date(moment)) - midnight(new Date())) / 86_400_000);
}

/** "2026-11-20" */
export const localDate = (date, timeZone) => new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeZone }).format(date);

/** The value of a datetime-local input: "2026-11-20T20:30" */
export function localDateTime(date, timeZone) {
  return new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "short", timeZone }).format(date).replace(" ", "T");
}

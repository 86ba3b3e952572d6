/**
 * A list in which nothing moves under a finger. A change that would move something waits until the list is at the top
 * and nobody touches it, or until `bringIn` is called. Meanwhile an element can change in place, without getting smaller.
 */

const TOUCHED_FOR = 10_000;
const LOOK_EVERY = 1_000;
const GUARD = 500; // taps that were aimed at what was here before

export class StillList {
  #list;
  #wanted = [];
  #elements = new Map();
  #leaving = new Map(); // key → the time from which it may leave
  #lastTouch = -Infinity;
  #lastMove = -Infinity;
  #hasMouse = false;
  #onChange;

  /** `onChange` is called when the number of waiting elements may have changed. */
  constructor(list, onChange) {
    this.#list = list;
    this.#onChange = onChange;
    const touched = () => (this.#lastTouch = performance.now());
    for (const type of ["pointerdown", "pointermove", "keydown"]) list.addEventListener(type, touched, { passive: true });
    addEventListener("scroll", touched, { passive: true });
    list.addEventListener("pointerenter", (event) => (this.#hasMouse = event.pointerType === "mouse"));
    list.addEventListener("pointerleave", () => (this.#hasMouse = false));
    // Registered for the capture phase of the list: before the buttons.
    list.addEventListener("click", (event) => this.#guard(event), true);
    setInterval(() => this.#isPending && this.#settle(), LOOK_EVERY);
  }

  /** How many wanted elements are not shown yet. */
  get waiting() {
    return this.#wanted.filter(({ key }) => !this.#elements.has(key)).length;
  }

  has(key) {
    return this.#elements.has(key);
  }

  /** `wanted`: [{key, update(element | null) → element}] in order. What is shown is updated in place at once. */
  show(wanted) {
    this.#wanted = wanted;
    const isFirst = this.#elements.size === 0;
    for (const { key, update } of wanted) {
      const element = this.#elements.get(key);
      if (!element) continue;
      this.#leaving.delete(key);
      update(element);
    }
    if (isFirst || this.isUntouched) this.#settle();
    else this.#onChange();
  }

  /** Keep an element that is no longer wanted for this long, so that people can read what became of it. */
  linger(key, milliseconds) {
    if (!this.#leaving.has(key)) this.#leaving.set(key, performance.now() + milliseconds);
  }

  /** Keep the element's height while its content gets smaller. */
  hold(key) {
    const element = this.#elements.get(key);
    if (element?.isConnected) element.style.minHeight = `${element.getBoundingClientRect().height}px`;
  }

  bringIn() {
    this.#leaving.clear();
    this.#settle({ isAsked: true });
    scrollTo({ top: 0 });
  }

  clear() {
    this.#wanted = [];
    this.#leaving.clear();
    this.#elements.clear();
    this.#list.replaceChildren();
  }

  get isUntouched() {
    const active = document.activeElement;
    const hasFocus = this.#list.contains(active) && (active.matches(":focus-visible") || active.matches("input, textarea"));
    return scrollY < 8 && !this.#hasMouse && !hasFocus && performance.now() - this.#lastTouch > TOUCHED_FOR;
  }

  get #isPending() {
    return this.waiting > 0 || this.#elements.size > this.#wanted.length;
  }

  #settle({ isAsked = false } = {}) {
    if (!isAsked && this.#elements.size > 0 && !this.isUntouched) return this.#onChange();
    const now = performance.now();
    const keys = new Set(this.#wanted.map(({ key }) => key));
    const hadElements = this.#elements.size > 0;
    let hasMoved = false;
    for (const [key, element] of this.#elements) {
      if (keys.has(key) || (this.#leaving.get(key) ?? 0) > now) continue;
      element.remove();
      this.#elements.delete(key);
      this.#leaving.delete(key);
      hasMoved = true;
    }
    // Elements that linger stay where they are, before the wanted element that followed them.
    let previous = null;
    for (const { key, update } of this.#wanted) {
      const element = this.#elements.get(key) ?? update(null);
      element.style.minHeight = "";
      this.#elements.set(key, element);
      let place = previous ? previous.nextElementSibling : this.#list.firstElementChild;
      while (place && this.#leaving.has(this.#keyOf(place))) place = place.nextElementSibling;
      if (place !== element) {
        this.#list.insertBefore(element, place);
        hasMoved = true;
      }
      previous = element;
    }
    if (hasMoved && hadElements && !isAsked) this.#lastMove = now;
    this.#onChange();
  }

  #keyOf(element) {
    for (const [key, each] of this.#elements) if (each === element) return key;
    return undefined;
  }

  #guard(event) {
    // The keyboard is not aimed at a place on the screen: its clicks have no detail.
    if (event.detail === 0 || performance.now() - this.#lastMove > GUARD) return;
    event.stopPropagation();
    event.preventDefault();
  }
}

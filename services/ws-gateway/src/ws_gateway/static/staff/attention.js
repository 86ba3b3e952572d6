/** Calls for attention: the tab's title, the badge of the app, and a sound for a new request. */
import { sound } from "/shared/sound.js";

export class Attention {
  #known = null;
  #place;

  constructor(place) {
    this.#place = place;
  }

  update(open, count) {
    document.title = count ? `(${count}) ${this.#place}` : this.#place;
    if (count) navigator.setAppBadge?.(count).catch(() => {});
    else navigator.clearAppBadge?.().catch(() => {});
    const ids = new Set(open.map((item) => item.id));
    if (this.#known && open.some((item) => !this.#known.has(item.id))) sound.play();
    this.#known = ids;
  }

  stop() {
    document.title = "Tablebell";
    navigator.clearAppBadge?.().catch(() => {});
  }
}

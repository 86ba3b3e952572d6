/** One message at the bottom of the page, over the content: it moves nothing. It is removed when it is no longer true. */
import { $, setText } from "/shared/dom.js";

const LONGEST = 12_000;
let timer;
let subject = null;

/** `about` identifies what the message is about, for `withdraw`. */
export function toast(message, about = null) {
  subject = about;
  setText($("toast"), message);
  $("toast").hidden = false;
  clearTimeout(timer);
  timer = setTimeout(clear, LONGEST);
}

/** Remove the message if it is about this. */
export function withdraw(about) {
  if (subject === about) clear();
}

function clear() {
  clearTimeout(timer);
  subject = null;
  $("toast").hidden = true;
  setText($("toast"), "");
}

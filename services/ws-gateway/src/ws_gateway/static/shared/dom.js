/** Small helpers to build and find elements. Text is always set as text, never as HTML. */

export const $ = (id) => document.getElementById(id);

/** element("p", "note", "No nuts") */
export function element(tag, className = "", content = "") {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (content !== "") made.textContent = content;
  return made;
}

/** A text that somebody typed: isolated, so that a right-to-left name does not reorder the words around it. */
export function typed(tag, className, content) {
  const made = element(tag, className, content);
  made.dir = "auto";
  return made;
}

/** Set a text only if it differs: a live region announces every change. */
export function setText(target, content) {
  if (target.textContent !== String(content)) target.textContent = content;
}

// The keyboard: what each key does everywhere, and in the present view.

import { help } from "./dialog.js";

const EVERYWHERE = [
  ["/", "filter, or search"],
  ["j  k", "next and previous row"],
  ["Enter", "open the row"],
  ["Esc", "close, or leave a field"],
  ["1 … 9", "tabs"],
  ["s", "send"],
  ["o", "overview"],
  ["?", "this list"],
];

let view = null;

// From now on keys are for this view: `{keys: {p: [what, action]}, filter, move(step), open(), close(), tabs: [href]}`.
export function use(next) {
  view = next;
}

export function showHelp() {
  const own = Object.entries(view?.keys ?? {}).map(([key, [what]]) => [key === " " ? "Space" : key, what]);
  help([...EVERYWHERE.slice(0, 5), ...own, ...EVERYWHERE.slice(5)]);
}

const isField = (element) => element?.matches?.("input, textarea, select, [contenteditable]");

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") {
    if (isField(document.activeElement)) {
      // The browser would empty a field for searching, and the list would show it with the next figures.
      event.preventDefault();
      document.activeElement.blur();
    } else view?.close?.();
    return;
  }
  if (isField(event.target)) return;
  const onButton = event.target.matches?.("button, a, summary");
  const step = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 }[event.key];
  let done = true;
  if (event.key === "/" && view?.filter) {
    view.filter.focus();
    view.filter.select();
  } else if (event.key === "?") showHelp();
  else if (step && view?.move) view.move(step);
  else if (event.key === "Enter" && !onButton && view?.open) view.open();
  else if (event.key === "o") location.hash = "#/";
  else if (event.key === "s" && view?.send) location.hash = view.send;
  else if (/^[1-9]$/.test(event.key) && view?.tabs?.[event.key - 1]) location.hash = view.tabs[event.key - 1];
  else if (view?.keys?.[event.key] && !(onButton && event.key === " ")) view.keys[event.key][1]();
  else done = false;
  if (done) event.preventDefault();
}

document.addEventListener("keydown", press);

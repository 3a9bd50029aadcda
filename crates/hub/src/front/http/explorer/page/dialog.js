// Questions, the list of keys, and short notices.

import { h } from "./dom.js";

function show(dialog) {
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
  return dialog;
}

// Whether a person agrees to something that cannot be taken back.
export function confirm({ title, text, action }) {
  return new Promise((resolve) => {
    let agreed = false;
    const dialog = h(
      "dialog",
      { "aria-label": title },
      h("h2", null, title),
      h("p", null, text),
      h(
        "div",
        { class: "actions" },
        h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
        h(
          "button",
          {
            type: "button",
            class: "primary danger",
            onclick: () => {
              agreed = true;
              dialog.close();
            },
          },
          action,
        ),
      ),
    );
    dialog.addEventListener("close", () => resolve(agreed));
    show(dialog);
  });
}

export function help(keys) {
  const row = ([key, what]) => {
    const parts = key.split("  ").map((one) => h("kbd", null, one));
    return h("tr", null, h("td", null, parts.flatMap((part, place) => (place ? [" ", part] : [part]))), h("td", null, what));
  };
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = h(
    "dialog",
    { "aria-label": "Keyboard" },
    h("h2", null, "Keyboard"),
    h("table", { class: "keys" }, h("tbody", null, keys.map(row))),
    h("div", { class: "actions" }, close),
  );
  show(dialog);
}

export function toast(text, wrong = false) {
  const element = h("div", { class: wrong ? "toast wrong" : "toast" }, text);
  document.getElementById("toasts").append(element);
  setTimeout(() => element.remove(), wrong ? 8000 : 4000);
}

// Does something, and says why if it fails.
export async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name !== "AbortError") toast(error.message, true);
    return null;
  }
}

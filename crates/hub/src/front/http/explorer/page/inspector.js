// Beside a list: everything about the event or message that was chosen.

import { h } from "./dom.js";
import { count, duration, instant, plural, serviceTime } from "./format.js";
import { get } from "./api.js";
import { show } from "./body.js";
import { toast } from "./dialog.js";

export class Inspector {
  element = h("aside", { class: "inspector", "aria-label": "Details", hidden: true, tabindex: "-1" });
  #asking = null;
  #closed;

  // `closed` is called when it goes.
  constructor(closed) {
    this.#closed = closed;
  }

  get isOpen() {
    return !this.element.hidden;
  }

  close() {
    this.#asking?.abort();
    this.element.hidden = true;
    this.element.replaceChildren();
    this.#closed();
  }

  // Asks for the details at a path. `actions(details)` gives the buttons for it.
  async open(title, path, parameters, actions = () => []) {
    this.#asking?.abort();
    this.#asking = new AbortController();
    this.element.hidden = false;
    try {
      const details = await get(path, parameters, this.#asking.signal);
      this.#show(title, details, actions(details));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.element.replaceChildren(this.#header(title, []), h("p", { class: "bad" }, error.message));
    }
  }

  #header(title, buttons) {
    const close = h("button", { type: "button", class: "quiet", "aria-label": "Close (Esc)", onclick: () => this.close() }, "✕");
    return h("header", null, h("h2", null, title), h("span", { class: "spring" }), buttons, close);
  }

  #show(title, details, buttons) {
    const { body } = details;
    const copy = h(
      "button",
      { type: "button", class: "quiet", onclick: () => navigator.clipboard.writeText(body.text ?? body.base64 ?? "").then(() => toast("Copied"), () => toast("The browser refuses to copy", true)) },
      "Copy",
    );
    const now = serviceTime();
    const lock = details.locked_until_ms && details.locked_until_ms > now ? `for ${duration(details.locked_until_ms - now)} more` : null;
    const system = [
      ["Sequence number", count(details.sequence_number)],
      ["Partition", details.partition],
      ["Enqueued", instant(details.enqueued_ms)],
      ["State", details.state && details.state !== "active" ? details.state : null],
      ["Locked", lock],
      ["Failed deliveries", details.delivery_count || null],
      ["Time to live", details.time_to_live_ms && duration(details.time_to_live_ms)],
      ["Sent to", details.dead_letter_source],
      ["Size", plural(details.bytes, "byte")],
    ];
    const parts = [
      this.#header(title, [buttons, copy]),
      fields(system.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => [name, null, value])),
      section("Body", show(body)),
      section("Application properties", fields(details.application_properties), details.application_properties.length),
      section("Properties", fields(details.properties), details.properties.length),
      section("Annotations", fields(details.annotations), details.annotations.length),
    ];
    this.element.replaceChildren(...parts.flat());
    this.element.scrollTop = 0;
  }
}

function section(heading, content, length = 1) {
  return length ? [h("h3", null, heading), content] : [];
}

// Names, types and values.
export function fields(entries) {
  return h(
    "dl",
    { class: "fields" },
    entries.map(([name, type, value]) => [
      h("dt", null, name),
      h("dd", null, shown(type, value), type && type !== "string" && type !== "symbol" ? h("span", { class: "type" }, type) : null),
    ]),
  );
}

function shown(type, value) {
  if (type === "timestamp") return instant(value);
  return value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);
}

// Sending an event or a message.

import { h } from "./dom.js";
import { plural } from "./format.js";
import { post } from "./api.js";
import { attempt, toast } from "./dialog.js";

const field = (label, input) => h("label", null, label, input);
const line = (name, placeholder) => h("input", { name, placeholder, autocomplete: "off", spellcheck: "false" });

// Properties as a person writes them: a line for each, `name = value`. Numbers, true and false are such; "7" is a text.
export function properties(text) {
  const found = {};
  for (const one of text.split("\n").filter((one) => one.trim())) {
    const at = one.indexOf("=");
    if (at < 1) throw new Error(`a property is written as name = value: ${one.trim()}`);
    found[one.slice(0, at).trim()] = value(one.slice(at + 1).trim());
  }
  return found;
}

function value(text) {
  if (/^(true|false|null|-?\d{1,15}|-?\d+\.\d+([eE][+-]?\d+)?|".*")$/.test(text)) {
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
  return text;
}

export class SendForm {
  keys = { keys: {} };

  constructor({ entity, kind }) {
    this.entity = entity;
    this.kind = kind;
    const isHub = kind === "hub";
    // As a value: a text within the element would be a part of its label.
    const body = h("textarea", { name: "body", value: '{"hello": "world"}', rows: 8, spellcheck: "false", onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.#send() });
    const encoding = h("select", { name: "encoding" }, h("option", { value: "text" }, "text"), h("option", { value: "base64" }, "base64"));
    this.form = h(
      "form",
      {
        class: "sheet",
        onsubmit: (event) => {
          event.preventDefault();
          this.#send();
        },
      },
      h("label", { class: "wide-field" }, "Body", body),
      field("The body is", encoding),
      field("Content type", line("content_type", "application/json")),
      field("Message id", line("message_id", "")),
      field("Subject", line("subject", "")),
      isHub ? field("Partition key", line("partition_key", "")) : field("Session", line("session_id", "")),
      isHub ? field("Partition", line("partition", "any")) : field("Correlation id", line("correlation_id", "")),
      isHub ? null : field("Available from", h("input", { name: "scheduled", type: "datetime-local", step: "1" })),
      isHub ? null : field("Time to live in seconds", h("input", { name: "time_to_live", type: "number", min: "0", step: "any", placeholder: "as configured" })),
      field("How often", h("input", { name: "count", type: "number", min: "1", max: "10000", value: "1" })),
      h("label", { class: "wide-field" }, "Application properties, one a line", h("textarea", { name: "properties", rows: 3, placeholder: "region = eu\npriority = 7", spellcheck: "false" })),
      h("div", { class: "actions" }, h("button", { class: "primary" }, isHub ? "Send event" : "Send message"), h("span", { class: "muted" }, "Ctrl + Enter in the body sends as well")),
    );
    this.element = h("div", { class: "pad-top" }, h("section", { class: "panel" }, this.form));
  }

  #content() {
    const fields = Object.fromEntries([...new FormData(this.form)].map(([name, text]) => [name, text]));
    const content = { entity: this.entity, body: fields.body, encoding: fields.encoding, count: Number(fields.count) || 1, properties: properties(fields.properties) };
    for (const name of ["content_type", "message_id", "subject", "partition_key", "partition", "session_id", "correlation_id"]) {
      if (fields[name]) content[name] = fields[name];
    }
    if (fields.scheduled) content.scheduled_ms = new Date(fields.scheduled).getTime();
    if (fields.time_to_live) content.time_to_live_ms = Math.round(Number(fields.time_to_live) * 1000);
    return content;
  }

  async #send() {
    const result = await attempt(() => post("send", this.#content()));
    const what = this.kind === "hub" ? "event" : "message";
    if (result) toast(`${plural(result.count, what)} sent to ${this.entity}`);
  }
}

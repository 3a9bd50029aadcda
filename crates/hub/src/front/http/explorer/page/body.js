// The body of a message as JSON, as text or as bytes. What is in it is data: it is put in as text.

import { bytes as size, plural } from "./format.js";
import { h } from "./dom.js";

// Beyond this JSON is shown without colours, and of bytes no more.
const COLOURED = 100_000;
const HEX = 16_384;

// An element that shows a body, with a choice of forms where there are several.
export function show(body) {
  if (body.kind === "none") return h("p", { class: "muted" }, "No body");
  const raw = body.base64 === undefined ? new TextEncoder().encode(body.text) : fromBase64(body.base64);
  const forms = {};
  const json = body.text !== undefined && tokens(body.text);
  if (json) forms.JSON = () => coloured(json);
  if (body.text !== undefined) forms.Text = () => h("pre", { class: "body", tabindex: "0" }, body.text);
  if (body.kind === "data" || body.kind === "unreadable") forms.Hex = () => hex(raw);
  const names = Object.keys(forms);
  const place = h("div");
  const buttons = names.map((name) => h("button", { type: "button", onclick: () => choose(name) }, name));
  const choose = (name) => {
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.textContent === name)));
    place.replaceChildren(forms[name]());
  };
  choose(names[0]);
  const what = { value: `AMQP value (${body.type})`, sequence: "AMQP sequence", unreadable: "No message that can be read: its bytes" };
  const length = body.bytes === undefined ? null : size(body.bytes);
  const note = [what[body.kind], length, body.truncated && "only the beginning is shown"].filter(Boolean).join(" · ");
  return h("div", null, h("div", { class: "forms" }, buttons, h("span", { class: "muted" }, note)), place);
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
}

// JSON with line breaks, as `[class, text]`; null if it is none. Numbers and texts stay as they are written.
export function tokens(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    JSON.parse(text);
  } catch {
    return null;
  }
  const out = [];
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}:,]|[^\s[\]{}:,"]+/g)) {
    const last = out.at(-1);
    if (token === "{" || token === "[") {
      depth += 1;
      out.push([null, token + line()]);
    } else if (token === "}" || token === "]") {
      depth -= 1;
      // Nothing stands between brackets that follow each other.
      if (/^[[{]\n/.test(last[1])) last[1] = last[1][0] + token;
      else out.push([null, line() + token]);
    } else if (token === ",") out.push([null, token + line()]);
    else if (token === ":") {
      last[0] = "t-key";
      out.push([null, ": "]);
    } else out.push([token[0] === '"' ? "t-string" : "t-number", token]);
  }
  return out;
}

function coloured(list) {
  const whole = list.map(([, text]) => text).join("");
  if (whole.length > COLOURED) return h("pre", { class: "body", tabindex: "0" }, whole);
  return h("pre", { class: "body", tabindex: "0" }, list.map(([name, text]) => (name ? h("span", { class: name }, text) : text)));
}

function hex(raw) {
  const lines = [];
  for (let at = 0; at < Math.min(raw.length, HEX); at += 16) {
    const part = [...raw.slice(at, Math.min(at + 16, HEX))];
    const digits = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const letters = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${digits.padEnd(47)}  ${letters}`);
  }
  if (raw.length > HEX) lines.push(`… ${plural(raw.length - HEX, "byte")} more`);
  return h("pre", { class: "body hex", tabindex: "0" }, lines.join("\n"));
}

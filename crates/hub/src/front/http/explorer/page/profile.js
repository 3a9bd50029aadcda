// The service profile: latency, limits and failures of a real service, switched while clients are at work.

import { h } from "./dom.js";
import { count } from "./format.js";
import { get, post } from "./api.js";
import { attempt, toast } from "./dialog.js";

const PRESETS = [
  ["Off", {}],
  ["Cloud", { name: "cloud" }],
  ["80 ms away", { round_trip: "80 ms" }],
  ["One throughput unit", { throughput_units: 1 }],
  ["Sends fail", { failures: { send_ratio: 0.05, acknowledgement_ratio: 0.02 } }],
  ["Connections break", { failures: { disconnect_per_s: "0.1/s", receiver_detach_per_s: "0.1/s" } }],
  ["Blobs unavailable", { failures: { blob_ratio: 1 } }],
];

// What differs from a profile that does nothing: a profile comes with all of its sections.
function written(profile) {
  const kept = Object.entries(profile).map(([name, value]) => [name, value && typeof value === "object" && !Array.isArray(value) ? written(value) : value]);
  const found = kept.filter(([, value]) => value !== 0 && !(value && typeof value === "object" && Object.keys(value).length === 0));
  return Object.fromEntries(found);
}

export class Profile {
  keys = { keys: { r: ["read again", () => this.load()] } };
  #text = h("textarea", { name: "profile", rows: 12, spellcheck: "false", "aria-label": "Profile" });
  #verdict = h("div", { class: "verdict", role: "status" }, "");
  #done = h("dl", { class: "facts" });

  constructor() {
    const preset = ([name, profile]) => h("button", { type: "button", onclick: () => this.#put(profile) }, name);
    this.form = h(
      "form",
      {
        class: "sheet",
        onsubmit: (event) => {
          event.preventDefault();
          this.#apply();
        },
      },
      h("div", { class: "actions" }, PRESETS.map(preset)),
      h("label", { class: "wide-field" }, "Keys of a profile, as JSON", this.#text),
      this.#verdict,
      h("div", { class: "actions" }, h("button", { class: "primary" }, "Apply"), h("span", { class: "muted" }, "Connections that are open end; clients connect again.")),
    );
    const head = h("div", { class: "head" }, h("h1", null, "Service profile"));
    this.element = h("div", null, head, this.#done, h("section", { class: "panel" }, this.form));
    this.load();
  }

  close() {}

  // With each overview, since that is when figures may be others.
  async show() {
    const found = await get("profile").catch(() => null);
    if (found) this.#count(found);
  }

  async load() {
    const found = await attempt(() => get("profile"));
    if (!found) return;
    this.#put(written(found.profile));
    this.#say(found);
    this.#count(found);
  }

  #put(profile) {
    this.#text.value = JSON.stringify(profile, null, 2);
  }

  #say({ is_on: isOn }) {
    this.#verdict.className = "verdict";
    this.#verdict.textContent = isOn ? "A profile shapes the service." : "No profile: the service answers as fast as it can and never fails.";
  }

  #count({ counters }) {
    const elements = (counters ?? []).map(([name, figure]) => h("div", null, h("dt", null, name), h("dd", null, count(figure))));
    this.#done.replaceChildren(...elements);
  }

  async #apply() {
    try {
      const found = await post("profile", { profile: JSON.parse(this.#text.value || "{}") });
      this.#say(found);
      this.#count(found);
      toast(found.is_on ? "The profile is on" : "The profile is off");
    } catch (error) {
      this.#verdict.className = "verdict wrong";
      this.#verdict.textContent = error.message;
    }
  }
}

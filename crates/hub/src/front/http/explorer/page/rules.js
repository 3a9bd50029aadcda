// The rules of a subscription, and trying a rule on a message before it is made.

import { h } from "./dom.js";
import { fields } from "./inspector.js";
import { get, post } from "./api.js";
import { attempt, confirm, toast } from "./dialog.js";
import { properties } from "./send.js";

export class Rules {
  #list = h("section", { class: "panel" });
  #verdict = h("div", { class: "verdict", role: "status" }, "A filter is tried on the sample while you type.");
  #timer = 0;
  #trial = 0;
  keys = { keys: {} };

  constructor(path) {
    this.path = path;
    const input = (name, placeholder) => h("input", { name, placeholder, class: "mono", autocomplete: "off", spellcheck: "false" });
    this.form = h(
      "form",
      {
        class: "sheet",
        oninput: () => this.#later(),
        onsubmit: (event) => {
          event.preventDefault();
          this.#add();
        },
      },
      h("label", { class: "wide-field" }, "Filter (SQL; empty: every message)", input("filter", "region = 'eu' AND priority > 5")),
      h("label", { class: "wide-field" }, "Action (empty: none)", input("action", "SET seen = TRUE; REMOVE priority")),
      h("label", null, "Sample: application properties, one a line", h("textarea", { name: "properties", rows: 4, spellcheck: "false", value: "region = eu\npriority = 7" })),
      h("label", null, "Sample: subject (sys.Label)", input("subject", "")),
      h("label", null, "Or try it on a waiting message, by its number", input("sequence_number", "")),
      this.#verdict,
      h("label", null, "Name of the rule", input("name", "urgent")),
      h("div", { class: "actions" }, h("button", { class: "primary" }, "Add rule")),
    );
    this.filter = this.form.elements.namedItem("filter");
    this.keys.filter = this.filter;
    this.element = h("div", { class: "pad-top" }, this.#list, h("section", { class: "panel" }, h("h2", null, "Try a rule, or add it"), this.form));
    this.load();
    this.#try();
  }

  async load() {
    const found = await attempt(() => get("queue", { entity: this.path }));
    if (!found) return;
    const row = (rule) =>
      h(
        "tr",
        null,
        h("td", { class: "name" }, rule.name),
        h("td", { class: "mono" }, text(rule)),
        h("td", { class: "mono wide" }, rule.action ?? "–"),
        h("td", { class: "number" }, rule.kind === "sql" ? h("button", { type: "button", class: "quiet", onclick: () => this.#take(rule) }, "Try") : null, h("button", { type: "button", class: "quiet danger", onclick: () => this.#remove(rule) }, "Remove")),
      );
    const head = h("tr", null, h("th", null, "Rule"), h("th", null, "Filter"), h("th", { class: "wide" }, "Action"), h("th", null, ""));
    const rules = found.rules ?? [];
    const list = h("div", { class: "scroll" }, h("table", null, h("thead", null, head), h("tbody", null, rules.map(row))));
    this.#list.replaceChildren(h("h2", null, "Rules", h("span", { class: "muted" }, "a message comes in if any of them matches")), rules.length ? list : h("p", { class: "empty" }, "No rule: no message comes in"));
  }

  #value(name) {
    return this.form.elements.namedItem(name).value;
  }

  #take(rule) {
    this.form.elements.namedItem("filter").value = rule.filter;
    this.form.elements.namedItem("action").value = rule.action ?? "";
    this.filter.focus();
    this.#try();
  }

  #later() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#try(), 150);
  }

  async #try() {
    const trial = (this.#trial += 1);
    const content = { filter: this.#value("filter"), action: this.#value("action") };
    const number = this.#value("sequence_number").trim();
    try {
      if (number) Object.assign(content, { entity: this.path, sequence_number: Number(number) });
      else content.message = { properties: properties(this.#value("properties")), subject: this.#value("subject") };
      const result = await post("rules/try", content);
      if (trial === this.#trial) this.#show(result);
    } catch (error) {
      if (trial === this.#trial) this.#say("wrong", error.message);
    }
  }

  #show({ mistake, matches, changed }) {
    if (mistake) this.#say("wrong", `The ${mistake.part}, character ${mistake.position}: ${mistake.message}`);
    else if (!matches) this.#say("no", "The sample does not match: the subscription does not get it by this rule.");
    else this.#say("yes", "The sample matches.", ...(changed ? [h("p", { class: "muted" }, "After the action:"), fields(changed)] : []));
  }

  #say(name, ...content) {
    this.#verdict.className = `verdict ${name}`;
    this.#verdict.replaceChildren(...content);
  }

  async #add() {
    const content = { entity: this.path, name: this.#value("name").trim(), filter: this.#value("filter"), action: this.#value("action") };
    if (await attempt(() => post("rules/add", content))) toast(`Rule ${content.name} added`);
    this.load();
  }

  async #remove(rule) {
    const question = { title: `Remove the rule ${rule.name}?`, text: "Messages that only it lets through do not come in any longer.", action: "Remove" };
    if (!(await confirm(question))) return;
    if (await attempt(() => post("rules/remove", { entity: this.path, name: rule.name }))) toast(`Rule ${rule.name} removed`);
    this.load();
  }
}

function text(rule) {
  if (rule.kind === "sql") return rule.filter;
  if (rule.kind === "correlation") return Object.entries(rule.filter).map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", ");
  return rule.kind === "all" ? "every message" : "no message";
}

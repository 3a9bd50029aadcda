// A queue, a subscription, or a topic: what waits, dead letters, sessions, rules.

import { facts, h, table, text, toggle } from "./dom.js";
import { bytes, clock, count, duration, plural, serviceTime, short } from "./format.js";
import { List, cells } from "./list.js";
import { Inspector } from "./inspector.js";
import { get, post } from "./api.js";
import { attempt, confirm, toast } from "./dialog.js";
import { queueLink, topicLink } from "./overview.js";
import { Rules } from "./rules.js";
import { SendForm } from "./send.js";

const PAGE = 200;
const DEAD = "/$DeadLetterQueue";
const TRANSFER = "/$Transfer/$DeadLetterQueue";

export class QueueView {
  #facts = h("dl", { class: "facts" });
  #tabs = h("div", { class: "tabs", role: "navigation", "aria-label": "Views of the queue" });
  #tab;

  constructor(path, tab, rates) {
    this.path = path;
    this.rates = rates;
    const cut = path.toLowerCase().lastIndexOf("/subscriptions/");
    this.topic = cut > 0 ? path.slice(0, cut) : null;
    const tabs = [["messages", "Messages"], ["dead-letters", "Dead letters"], ["transfer", "Transfer dead letters"], ["sessions", "Sessions"]];
    if (this.topic) tabs.push(["rules", "Rules"]);
    else tabs.push(["send", "Send"]);
    tabs.push(["options", "Options"]);
    const at = tabs.some(([id]) => id === tab) ? tab : "messages";
    const link = (id) => `${queueLink(path)}/${id}`;
    this.#tabs.append(...tabs.map(([id, title]) => h("a", { href: link(id), "aria-current": id === at ? "page" : null }, title)));
    this.#tab = this.#make(at);
    const name = this.topic ? path.slice(cut + "/subscriptions/".length) : path;
    this.element = h(
      "div",
      { class: "view" },
      h(
        "div",
        { class: "head" },
        this.topic ? [h("a", { href: topicLink(this.topic) }, this.topic), h("span", { class: "muted" }, "›")] : null,
        h("h1", null, name),
        h("span", { class: "kind" }, this.topic ? "subscription" : "queue"),
      ),
      this.#facts,
      this.#tabs,
      this.#tab.element,
    );
    this.keys = { ...this.#tab.keys, tabs: tabs.map(([id]) => link(id)), send: this.topic ? `${topicLink(this.topic)}/send` : link("send") };
  }

  #make(tab) {
    switch (tab) {
      case "dead-letters": return new Messages(this.path + DEAD, "dead letters");
      case "transfer": return new Messages(this.path + TRANSFER, "dead letters");
      case "sessions": return new Sessions(this.path);
      case "rules": return new Rules(this.path);
      case "send": return new SendForm({ entity: this.path, kind: "queue" });
      case "options": return new Options(this.path);
      default: return new Messages(this.path, "messages");
    }
  }

  close() {
    this.#tab.close?.();
  }

  show(overview) {
    const queues = [...overview.queues, ...overview.topics.flatMap((topic) => topic.subscriptions)];
    const queue = queues.find((one) => one.path.toLowerCase() === this.path.toLowerCase());
    if (!queue) return;
    const rates = this.rates.now("queue", queue.path);
    const entries = [
      ["Waiting", count(queue.active)],
      ["Locked", count(queue.locked)],
      ["Deferred", queue.deferred ? count(queue.deferred) : null],
      ["Scheduled", count(queue.scheduled)],
      ["Dead letters", h("span", { class: queue.dead_letters ? "bad" : null }, count(queue.dead_letters))],
      ["In", `${short(rates.in ?? 0)}/s`],
      ["Out", `${short(rates.out ?? 0)}/s`],
      ["Size", bytes(queue.bytes)],
      ["Expired locks", queue.lock_expirations ? short(queue.lock_expirations) : null],
      ["Forwards to", queue.forward_to ?? null],
      ["Status", queue.status === "active" ? null : queue.status],
    ];
    this.#facts.replaceChildren(...facts(entries));
    const transfer = this.#tabs.children[2];
    transfer.hidden = queue.transfer_dead_letters === 0 && !transfer.hasAttribute("aria-current");
    this.#tabs.children[3].hidden = !queue.requires_session && !this.#tabs.children[3].hasAttribute("aria-current");
    this.#tab.show?.(queue);
  }
}

// What is in a queue, page by page as it comes into sight.
class Messages {
  #pages = new Map();
  #list;
  #inspector;
  #chosen = new Set();
  #note = h("div", { class: "note", role: "status" });
  #closed = false;
  #read = 0;
  #isDead;
  #resubmit;
  #remove;

  constructor(path, label) {
    this.path = path;
    this.#isDead = path.includes("/$");
    this.#list = new List({
      label: `${label} of ${path}`,
      make: cells("c-mark", "c-seq", "c-time wide", "c-state wide", "c-key optional", "c-text"),
      fill: (row, index) => this.#fill(row, index),
      choose: (index) => this.#open(index),
      seen: (first, last) => this.#seen(first, last),
    });
    this.#list.element.setAttribute("aria-multiselectable", "true");
    this.#inspector = new Inspector(() => this.#list.element.focus({ preventScroll: true }));
    this.#resubmit = h("button", { type: "button", onclick: () => this.#send() }, "Resubmit");
    this.#remove = h("button", { type: "button", class: "danger", onclick: () => this.#delete() }, "Remove");
    this.filter = h("input", {
      type: "text", inputmode: "numeric", class: "grow", placeholder: "Go to a sequence number ( / )", "aria-label": "Go to a sequence number",
      onkeydown: (event) => event.key === "Enter" && this.#goTo(),
    });
    const purge = h("button", { type: "button", class: "danger", onclick: () => this.#purge() }, this.#isDead ? "Purge dead letters" : "Purge");
    const all = this.#isDead ? h("button", { type: "button", onclick: () => this.#sendAll() }, "Resubmit all") : null;
    const columns = [["c-mark", ""], ["c-seq", "Number"], ["c-time wide", "Enqueued"], ["c-state wide", this.#isDead ? "Reason" : "State"], ["c-key optional", "Message id"], ["c-text", "Body"]];
    this.element = h(
      "div",
      { class: this.#isDead ? "fill dead" : "fill" },
      h(
        "div",
        { class: "tools" },
        this.filter,
        h("button", { type: "button", onclick: () => this.reload() }, "Read again"),
        this.#isDead ? this.#resubmit : null,
        this.#remove,
        all,
        purge,
      ),
      this.#note,
      h("div", { class: "columns", "aria-hidden": "true" }, columns.map(([part, title]) => h("span", { class: part }, title))),
      h("div", { class: "split" }, this.#list.element, this.#inspector.element),
    );
    this.keys = {
      filter: this.filter,
      move: (step) => this.#list.move(step),
      open: () => this.#list.open(),
      close: () => (this.#inspector.isOpen ? this.#inspector.close() : this.#unchoose()),
      keys: {
        x: ["choose the row, or not", () => this.#mark(this.#list.selected)],
        r: ["read again", () => this.reload()],
        d: ["remove what is chosen", () => this.#delete()],
        ...(this.#isDead ? { m: ["resubmit what is chosen", () => this.#send()] } : {}),
      },
    };
    this.reload();
    this.#summarise();
  }

  close() {
    this.#closed = true;
  }

  async reload() {
    this.#pages.clear();
    this.#read += 1;
    await this.#load(0);
  }

  async #load(page) {
    if (this.#pages.has(page) || this.#closed) return;
    this.#pages.set(page, null);
    const read = this.#read;
    const found = await attempt(() => get("queue/messages", { entity: this.path, skip: page * PAGE, top: PAGE }));
    if (read !== this.#read || this.#closed) return;
    if (!found) {
      this.#pages.delete(page);
      return;
    }
    this.#pages.set(page, found.messages);
    if (this.#list.count !== found.total) this.#list.count = found.total;
    else this.#list.refresh();
    this.#summarise();
  }

  #seen(first, last) {
    if (this.#list.count === 0) return;
    for (let page = Math.floor(first / PAGE); page * PAGE < last; page += 1) this.#load(page);
    // Pages that are far away are read anew when they come into sight.
    if (this.#pages.size > 50) {
      for (const page of this.#pages.keys()) if (Math.abs(page - first / PAGE) > 20) this.#pages.delete(page);
    }
  }

  #at(index) {
    return this.#pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  #fill(row, index) {
    const message = this.#at(index);
    const [mark, number, time, state, key, content] = row.children;
    const chosen = message && this.#chosen.has(message.sequence_number);
    text(mark, chosen ? "☑" : "☐");
    text(number, message ? String(message.sequence_number) : "…");
    text(time, message ? clock(message.enqueued_ms) : "");
    text(state, message ? this.#stateOf(message) : "");
    toggle(state, "warn", Boolean(message?.locked_until_ms || message?.reason));
    text(key, message?.id ?? "");
    text(content, message ? `${message.subject ? `${message.subject} · ` : ""}${message.text}` : "");
    mark.onclick = (event) => {
      event.stopPropagation();
      this.#mark(index);
    };
  }

  #stateOf(message) {
    if (message.reason) return message.reason;
    if (message.locked_until_ms) return "locked";
    return message.state === "active" ? "" : message.state;
  }

  #mark(index) {
    const message = this.#at(index);
    if (!message) return;
    const number = message.sequence_number;
    if (!this.#chosen.delete(number)) this.#chosen.add(number);
    this.#list.refresh();
    this.#summarise();
  }

  #unchoose() {
    this.#chosen.clear();
    this.#list.refresh();
    this.#summarise();
  }

  #summarise() {
    const chosen = this.#chosen.size;
    this.#resubmit.disabled = chosen === 0;
    this.#remove.disabled = chosen === 0;
    const hint = this.#list.count ? "looking locks and removes nothing" : "nothing waits here";
    text(this.#note, `${plural(this.#list.count, "message")} · ${chosen ? `${count(chosen)} chosen` : hint}`);
  }

  #open(index) {
    const message = this.#at(index);
    if (!message) return;
    const { sequence_number } = message;
    const one = (title, name, work) => h("button", { type: "button", class: name, onclick: () => work([sequence_number]) }, title);
    const actions = () => [
      ...(this.#isDead ? [one("Resubmit", "", (numbers) => this.#send(numbers))] : []),
      one("Remove", "danger", (numbers) => this.#delete(numbers)),
    ];
    this.#inspector.open(`Message ${count(sequence_number)}`, "queue/message", { entity: this.path, sequence_number }, actions);
  }

  async #goTo() {
    const number = Number(this.filter.value.replaceAll(/[^0-9]/g, ""));
    // Numbers have gaps: the place is found by halving.
    let low = 0;
    let high = this.#list.count;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const found = await attempt(() => get("queue/messages", { entity: this.path, skip: middle, top: 1 }));
      if (!found) return;
      if (found.messages[0] && found.messages[0].sequence_number < number) low = middle + 1;
      else high = middle;
    }
    if (low < this.#list.count) this.#list.select(low);
    this.filter.blur();
  }

  async #change(path, content, done) {
    const result = await attempt(() => post(path, { entity: this.path, ...content }));
    if (result) {
      toast(done(result) + (result.refused ? `; ${plural(result.refused, "message")} locked or gone` : ""));
      this.#chosen.clear();
      if (this.#inspector.isOpen) this.#inspector.close();
    }
    await this.reload();
    this.#summarise();
  }

  async #send(numbers = [...this.#chosen]) {
    if (numbers.length === 0) return;
    await this.#change("queue/resubmit", { sequence_numbers: numbers }, (result) => `${plural(result.count, "message")} sent again`);
  }

  async #sendAll() {
    const rules = /\/subscriptions\//i.test(this.path) ? " They go to the topic, so that other subscriptions may get them once more." : "";
    const question = { title: "Resubmit all dead letters?", text: `${plural(this.#list.count, "message")} of ${this.path} will be sent again.${rules}`, action: "Resubmit all" };
    if (await confirm(question)) await this.#change("queue/resubmit", { sequence_numbers: "all" }, (result) => `${plural(result.count, "message")} sent again`);
  }

  async #delete(numbers = [...this.#chosen]) {
    if (numbers.length === 0) return;
    const question = { title: `Remove ${plural(numbers.length, "message")}?`, text: `From ${this.path}. This cannot be taken back.`, action: "Remove" };
    if (await confirm(question)) await this.#change("queue/remove", { sequence_numbers: numbers }, (result) => `${plural(result.count, "message")} removed`);
  }

  async #purge() {
    const question = { title: `Purge ${this.path}?`, text: `All ${plural(this.#list.count, "message")} that no receiver has locked will be removed. This cannot be taken back.`, action: "Purge" };
    if (await confirm(question)) await this.#change("queue/purge", {}, (result) => `${plural(result.count, "message")} removed`);
  }
}

// The sessions of a queue.
class Sessions {
  element = h("div", { class: "pad-top" });
  keys = { keys: { r: ["read again", () => this.load()] } };
  #skip = 0;

  constructor(path) {
    this.path = path;
    this.load();
  }

  async load() {
    const found = await attempt(() => get("queue/sessions", { entity: this.path, skip: this.#skip, top: 100 }));
    if (!found) return;
    const now = serviceTime();
    const rows = found.sessions.map((one) => [
      one.id, count(one.messages), count(one.available), one.locked_until_ms ? h("span", { class: "warn" }, `for ${duration(Math.max(0, one.locked_until_ms - now))} more`) : "–", one.state_bytes === null ? "–" : bytes(one.state_bytes),
    ]);
    const columns = [["Session", "name"], ["Messages", "number"], ["Available", "number wide"], ["Locked", ""], ["State", "number wide"]];
    const go = (step) => {
      this.#skip = Math.max(0, this.#skip + step);
      this.load();
    };
    const button = (title, step, on) => h("button", { type: "button", disabled: !on, onclick: () => go(step) }, title);
    const tools = h("div", { class: "tools" }, button("Previous", -100, this.#skip > 0), button("Next", 100, found.has_more), h("button", { type: "button", onclick: () => this.load() }, "Read again"));
    this.element.replaceChildren(tools, h("section", { class: "panel" }, h("h2", null, "Sessions"), table(columns, rows, "No session has messages or a state")));
  }
}

// What was configured.
class Options {
  element = h("div", { class: "pad-top" });
  keys = { keys: {} };

  constructor(path) {
    this.load(path);
  }

  async load(path) {
    const found = await attempt(() => get("queue", { entity: path }));
    if (!found) return;
    this.element.replaceChildren(optionsPanel(found.options));
  }
}

function optionsPanel(options) {
  const rows = Object.entries(options).map(([name, value]) => [name.replaceAll("_", " "), String(value)]);
  return h("section", { class: "panel" }, h("h2", null, "Options"), table([["Option", ""], ["Value", "mono"]], rows, ""));
}

// A topic: its subscriptions, and sending to it.
export class TopicView {
  #place = h("div", { class: "pad-top" });
  #name;
  #tab;

  constructor(name, tab) {
    this.#name = name;
    const at = ["send", "options"].includes(tab) ? tab : "subscriptions";
    const link = (id) => `${topicLink(name)}/${id}`;
    const tabs = [["subscriptions", "Subscriptions"], ["send", "Send"], ["options", "Options"]];
    this.#tab = at === "send" ? new SendForm({ entity: name, kind: "topic" }) : { element: this.#place };
    this.element = h(
      "div",
      { class: "view" },
      h("div", { class: "head" }, h("h1", null, name), h("span", { class: "kind" }, "topic")),
      h("div", { class: "tabs", role: "navigation", "aria-label": "Views of the topic" }, tabs.map(([id, title]) => h("a", { href: link(id), "aria-current": id === at ? "page" : null }, title))),
      this.#tab.element,
    );
    this.keys = { keys: {}, ...this.#tab.keys, tabs: tabs.map(([id]) => link(id)), send: link("send") };
    if (at === "options") attempt(() => get("topic", { name })).then((found) => found && this.#place.replaceChildren(optionsPanel(found.options)));
    this.at = at;
  }

  close() {}

  show(overview) {
    if (this.at !== "subscriptions") return;
    const topic = overview.topics.find((one) => one.name.toLowerCase() === this.#name.toLowerCase());
    if (!topic) return;
    const rows = topic.subscriptions.map((one) => [
      h("a", { href: queueLink(one.path) }, one.name), count(one.active), count(one.locked), count(one.scheduled), h("span", { class: one.dead_letters ? "bad" : null }, count(one.dead_letters)), bytes(one.bytes),
    ]);
    const columns = [["Subscription", "name"], ["Waiting", "number"], ["Locked", "number wide"], ["Scheduled", "number wide"], ["Dead letters", "number"], ["Size", "number optional"]];
    const note = topic.scheduled ? `${plural(topic.scheduled, "message")} scheduled in the topic` : "";
    this.#place.replaceChildren(h("section", { class: "panel" }, h("h2", null, "Subscriptions", h("span", { class: "muted" }, note)), table(columns, rows, "No subscription: what is sent to this topic goes nowhere")));
  }
}

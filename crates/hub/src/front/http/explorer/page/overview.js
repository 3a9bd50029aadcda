// Everything at a glance, and the list of entities at the side.

import { h, text, toggle } from "./dom.js";
import { bytes, count, duration, plural, short } from "./format.js";
import { spark } from "./rates.js";
import { get } from "./api.js";
import { attempt } from "./dialog.js";

// Rows of one kind that are shown; a filter finds the others.
const MOST = 300;

export const hubLink = (name) => `#/hub/${encodeURIComponent(name)}`;
export const queueLink = (path) => `#/queue/${encodeURIComponent(path)}`;
export const topicLink = (name) => `#/topic/${encodeURIComponent(name)}`;

const lagOf = (hub) => Math.max(0, ...hub.readers.map((reader) => reader.lag));
const dead = (queue) => queue.dead_letters + queue.transfer_dead_letters;

// A table whose rows stay and change their texts.
class Rows {
  #known = new Map();
  #shown = "";
  #body = h("tbody");
  #note = h("p", { class: "empty" });
  #count = h("span", { class: "muted" });

  // `make()` gives the cells of a row and `update(cells, item)` sets them.
  constructor(title, columns, make, update, empty) {
    this.make = make;
    this.update = update;
    this.empty = empty;
    const head = h("tr", null, columns.map(([heading, name]) => h("th", { class: name, scope: "col" }, heading)));
    const table = h("div", { class: "scroll" }, h("table", null, h("thead", null, head), this.#body));
    this.element = h("section", { class: "panel", "aria-label": title }, h("h2", null, title, this.#count), table, this.#note);
  }

  // Items have a `key` and a `link`.
  show(items) {
    const shown = items.slice(0, MOST);
    const keys = JSON.stringify(shown.map((item) => item.key));
    const rows = shown.map((item) => {
      let row = this.#known.get(item.key);
      if (!row) {
        const cells = this.make(item);
        const element = h("tr", { class: "link", onclick: (event) => event.target.closest("a") || (location.hash = item.link) }, cells.map((cell) => cell.element));
        element.dataset.link = item.link;
        this.#known.set(item.key, (row = { element, cells }));
      }
      this.update(row.cells, item);
      return row.element;
    });
    if (keys !== this.#shown) {
      this.#shown = keys;
      this.#body.replaceChildren(...rows);
    }
    const more = items.length - shown.length;
    text(this.#count, count(items.length));
    text(this.#note, items.length === 0 ? this.empty : more > 0 ? `${count(more)} more: filter by name to find them` : "");
    this.#note.hidden = items.length > 0 && more <= 0;
  }
}

const cell = (name, content) => ({ element: h("td", { class: name }, content) });
const named = (item, sub) => {
  const link = h("a", { href: item.link }, item.name);
  const tag = h("span", { class: "tag" });
  tag.hidden = true;
  return { element: h("td", { class: sub ? "name sub" : "name" }, link, tag), tag };
};

function mark(part, label) {
  part.tag.hidden = !label;
  text(part.tag, label ?? "");
}

function number(part, value, name) {
  text(part.element, value ? short(value) : "–");
  if (name) toggle(part.element, name, value > 0);
}

const HUB_COLUMNS = [
  ["Hub", "name"], ["Partitions", "number wide"], ["In/s", "number"], ["Last minute", "wide"], ["Bytes/s", "number wide"], ["Out/s", "number optional"],
  ["Lag", "number"], ["Readers", "number optional"], ["Kept", "number wide"],
];
const QUEUE_COLUMNS = [
  ["Queue", "name"], ["Waiting", "number"], ["Locked", "number wide"], ["Deferred", "number optional"], ["Scheduled", "number wide"],
  ["Dead letters", "number"], ["In/s", "number wide"], ["Out/s", "number optional"], ["Size", "number optional"],
];

export class Overview {
  #hubs = new Rows("Hubs", HUB_COLUMNS, makeHub, updateHub, "No hub");
  #queues = new Rows("Queues", QUEUE_COLUMNS, makeQueue, updateQueue, "No queue");
  #topics = new Rows("Topics and subscriptions", [["Topic", "name"], ...QUEUE_COLUMNS.slice(1)], makeQueue, updateQueue, "No topic");
  #facts = h("dl", { class: "facts" });
  filter = h("input", { type: "search", placeholder: "Filter by name ( / )", "aria-label": "Filter by name", oninput: () => this.#last && this.show(this.#last) });
  #last = null;
  #chosen = -1;

  constructor(rates) {
    this.rates = rates;
    this.element = h(
      "div",
      null,
      h("div", { class: "head" }, h("h1", null, "Overview"), h("span", { class: "spring" }), h("div", { class: "grow" }, this.filter)),
      this.#facts,
      this.#hubs.element,
      this.#queues.element,
      this.#topics.element,
    );
    this.keys = { filter: this.filter, move: (step) => this.#move(step), open: () => this.#open(), keys: {} };
  }

  close() {}

  show(overview) {
    this.#last = overview;
    const wanted = this.filter.value.trim().toLowerCase();
    const has = (name) => name.toLowerCase().includes(wanted);
    const rated = (kind, key) => ({ rates: this.rates.now(kind, key), past: (name) => this.rates.past(kind, key, name) });
    const hubs = overview.hubs.filter((hub) => has(hub.name));
    const hub = (hub) => ({ ...hub, ...rated("hub", hub.name), key: hub.name, link: hubLink(hub.name) });
    const queue = (queue, name) => ({ ...queue, ...rated("queue", queue.path), key: queue.path, link: queueLink(queue.path), name });
    this.#hubs.show(hubs.map(hub));
    this.#queues.show(overview.queues.filter((one) => has(one.name)).map((one) => queue(one, one.name)));
    const topics = overview.topics.flatMap((topic) => {
      const subscriptions = topic.subscriptions.filter((one) => has(one.path)).map((one) => ({ ...queue(one, one.name), sub: true }));
      const own = { key: topic.name, name: topic.name, link: topicLink(topic.name), topic, status: topic.status };
      return subscriptions.length || has(topic.name) ? [own, ...subscriptions] : [];
    });
    this.#topics.show(topics);
    for (const [rows, all] of [[this.#queues, overview.queues], [this.#topics, overview.topics], [this.#hubs, overview.hubs]]) {
      rows.element.hidden = all.length === 0;
    }
    this.#showFacts(overview);
  }

  #showFacts(overview) {
    const sum = (list, of) => list.reduce((all, one) => all + of(one), 0);
    const queues = [...overview.queues, ...overview.topics.flatMap((topic) => topic.subscriptions)];
    const rate = (name) => sum(overview.hubs, (hub) => this.rates.now("hub", hub.name)[name] ?? 0);
    const letters = sum(queues, dead);
    const entries = [
      ["Events in", `${short(rate("in"))}/s`],
      ["Bytes in", `${bytes(rate("bytes"))}/s`],
      ["Events out", `${short(rate("out"))}/s`],
      ["Messages waiting", count(sum(queues, (queue) => queue.active))],
      ["Dead letters", count(letters), letters > 0],
      ["Connections", count(overview.connections)],
      ["Kept", overview.durable ? "on disk" : "in memory"],
    ];
    if (overview.shaped) entries.push(["Service profile", h("a", { href: "#/profile" }, "on")]);
    const elements = entries.map(([term, value, bad]) => h("div", null, h("dt", null, term), h("dd", { class: bad ? "bad" : null }, value)));
    this.#facts.replaceChildren(...elements);
  }

  #rows() {
    return [...this.element.querySelectorAll("section:not([hidden]) tbody tr")];
  }

  #move(step) {
    const rows = this.#rows();
    if (rows.length === 0) return;
    rows.forEach((row) => row.classList.remove("chosen"));
    this.#chosen = Math.min(rows.length - 1, Math.max(0, this.#chosen + step));
    rows[this.#chosen].classList.add("chosen");
    rows[this.#chosen].scrollIntoView({ block: "nearest" });
  }

  #open() {
    const row = this.element.querySelector("tr.chosen");
    if (row) location.hash = row.dataset.link;
  }
}

function makeHub(item) {
  const line = spark();
  return [
    named(item), cell("number wide"), cell("number"), { element: h("td", { class: "wide" }, line.element), line }, cell("number wide"), cell("number optional"),
    cell("number"), cell("number optional"), cell("number wide"),
  ];
}

function updateHub([, partitions, rate, line, size, out, lag, readers, kept], hub) {
  text(partitions.element, count(hub.partitions));
  number(rate, hub.rates.in ?? 0);
  line.line.show(hub.past("in"));
  text(size.element, hub.rates.bytes ? bytes(hub.rates.bytes) : "–");
  number(out, hub.rates.out ?? 0);
  number(lag, lagOf(hub));
  number(readers, hub.readers.reduce((all, reader) => all + reader.readers, 0));
  text(kept.element, `${short(hub.events)} · ${bytes(hub.bytes)}`);
}

function makeQueue(item) {
  return [named(item, item.sub), ...QUEUE_COLUMNS.slice(1).map(([, name]) => cell(name))];
}

function updateQueue([name, waiting, locked, deferred, scheduled, letters, rate, out, size], item) {
  mark(name, item.status === "active" ? (item.requires_session ? "sessions" : item.forward_to ? `→ ${item.forward_to}` : null) : item.status);
  if (item.topic) {
    const { topic } = item;
    text(waiting.element, plural(topic.subscriptions.length, "subscription"));
    text(scheduled.element, topic.scheduled ? short(topic.scheduled) : "–");
    text(size.element, bytes(topic.bytes));
    return;
  }
  number(waiting, item.active);
  number(locked, item.locked);
  number(deferred, item.deferred);
  number(scheduled, item.scheduled);
  number(letters, dead(item), "bad");
  number(rate, item.rates.in ?? 0);
  number(out, item.rates.out ?? 0);
  text(size.element, bytes(item.bytes));
}

// The list at the side: entities, with what waits or comes in.
export class Side {
  #element;
  #known = new Map();
  #shown = "";

  constructor(element) {
    this.#element = element;
  }

  show(overview, rates, current) {
    const items = [];
    const add = (heading, list) => list.length && items.push({ heading }, ...list.slice(0, MOST));
    const queue = (one, sub) => ({ link: queueLink(one.path), name: one.name, sub, value: dead(one) ? `${short(one.active)} + ${short(dead(one))}` : short(one.active), bad: dead(one) > 0 });
    add("Hubs", overview.hubs.map((hub) => ({ link: hubLink(hub.name), name: hub.name, value: `${short(rates.now("hub", hub.name).in ?? 0)}/s` })));
    add("Queues", overview.queues.map((one) => queue(one, false)));
    add("Topics", overview.topics.flatMap((topic) => [{ link: topicLink(topic.name), name: topic.name, value: "" }, ...topic.subscriptions.map((one) => queue(one, true))]));
    const elements = items.map((item) => {
      const key = item.heading ?? item.link;
      let known = this.#known.get(key);
      if (!known) {
        const value = h("span", { class: "number" });
        const element = item.heading ? h("h3", null, item.heading) : h("a", { href: item.link, class: item.sub ? "sub" : null, title: item.name }, h("span", null, item.name), value);
        this.#known.set(key, (known = { element, value }));
      }
      if (item.heading) return known.element;
      text(known.value, item.value);
      toggle(known.value, "bad", Boolean(item.bad));
      if (current.startsWith(item.link) && (current.length === item.link.length || current[item.link.length] === "/")) known.element.setAttribute("aria-current", "page");
      else known.element.removeAttribute("aria-current");
      return known.element;
    });
    const keys = items.map((item) => item.heading ?? item.link).join("\n");
    if (keys !== this.#shown) {
      this.#shown = keys;
      this.#element.replaceChildren(...elements);
    }
  }
}

// Who is connected.
export class Clients {
  element = h("div", null, h("div", { class: "head" }, h("h1", null, "Clients")));
  keys = { keys: { r: ["read again", () => this.load()] } };
  #place = h("section", { class: "panel" });

  constructor() {
    this.element.append(this.#place);
    this.load();
  }

  close() {}

  show() {}

  async load() {
    const found = await attempt(() => get("clients"));
    if (!found) return;
    const row = (client) => h("tr", null, h("td", { class: "mono" }, client.address), h("td", null, client.protocol), h("td", { class: "number" }, duration(Math.max(0, Date.now() - client.since_ms))));
    const head = h("tr", null, h("th", null, "Address"), h("th", null, "Address is for"), h("th", { class: "number" }, "Connected for"));
    const list = h("table", null, h("thead", null, head), h("tbody", null, found.clients.map(row)));
    const more = found.unlisted ? h("p", { class: "empty" }, `${count(found.unlisted)} more`) : null;
    const title = h("h2", null, plural(found.clients.length + found.unlisted, "connection"), h("button", { type: "button", class: "quiet", onclick: () => this.load() }, "Read again"));
    this.#place.replaceChildren(title, ...(found.clients.length ? [h("div", { class: "scroll" }, list)] : [h("p", { class: "empty" }, "No client is connected")]), ...(more ? [more] : []));
  }
}

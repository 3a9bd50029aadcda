// A hub: its events as they come, its partitions, and who reads it.

import { facts, h, table, text } from "./dom.js";
import { bytes, clock, count, duration, instant, short } from "./format.js";
import { List, cells } from "./list.js";
import { Inspector } from "./inspector.js";
import { get, live } from "./api.js";
import { attempt } from "./dialog.js";
import { hubLink } from "./overview.js";
import { SendForm } from "./send.js";

// Rows that are kept; when there are more, the oldest go.
const KEPT = 20_000;
const DROPPED = 2_000;

const TABS = [["events", "Events"], ["partitions", "Partitions"], ["readers", "Readers"], ["send", "Send"]];

export class HubView {
  #facts = h("dl", { class: "facts" });
  #tab;

  constructor(name, tab, rates) {
    this.name = name;
    this.rates = rates;
    const at = TABS.some(([id]) => id === tab) ? tab : "events";
    const link = (id) => `${hubLink(name)}/${id}`;
    const tabs = TABS.map(([id, title]) => h("a", { href: link(id), "aria-current": id === at ? "page" : null }, title));
    this.#tab = at === "events" ? new Events(name) : at === "send" ? new SendForm({ entity: name, kind: "hub" }) : new Details(name, at);
    this.element = h(
      "div",
      { class: "view" },
      h("div", { class: "head" }, h("h1", null, name), h("span", { class: "kind" }, "hub")),
      this.#facts,
      h("div", { class: "tabs", role: "navigation", "aria-label": "Views of the hub" }, tabs),
      this.#tab.element,
    );
    this.keys = { ...this.#tab.keys, tabs: TABS.map(([id]) => link(id)), send: link("send") };
  }

  close() {
    this.#tab.close?.();
  }

  show(overview) {
    const hub = overview.hubs.find((one) => one.name === this.name);
    if (!hub) return;
    const rates = this.rates.now("hub", hub.name);
    const lag = Math.max(0, ...hub.readers.map((reader) => reader.lag));
    const entries = [
      ["In", `${short(rates.in ?? 0)}/s`],
      ["Bytes", `${bytes(rates.bytes ?? 0)}/s`],
      ["Out", `${short(rates.out ?? 0)}/s`],
      ["Kept", `${short(hub.events)} · ${bytes(hub.bytes)}`],
      ["Partitions", count(hub.partitions)],
      ["Lag", hub.readers.length ? short(lag) : null],
      ["Refused batches", hub.refused ? h("span", { class: "bad" }, short(hub.refused)) : null],
    ];
    this.#facts.replaceChildren(...facts(entries));
    this.#tab.show?.(overview);
  }
}

// The events as they come.
class Events {
  #rows = [];
  #list;
  #inspector;
  #stream = null;
  #note = h("div", { class: "note", role: "status" });
  #counts = { examined: 0, shown: 0, sampled_out: 0, missed: 0 };
  #before = { examined: 0, shown: 0, sampled_out: 0, missed: 0 };
  #dropped = 0;
  #failure = null;
  #state = "";
  #pause = h("button", { type: "button", "aria-pressed": "false", title: "Space", onclick: () => this.#toggle() }, "Pause");
  #start = h(
    "select",
    { "aria-label": "Where to begin", onchange: () => this.#restart() },
    [["100", "Last 100"], ["0", "New ones only"], ["1000", "Last 1,000"], ["10000", "Last 10,000"]].map(([value, label]) => h("option", { value }, label)),
  );
  filter = h("input", {
    type: "search", class: "grow", placeholder: "Filter: text  key:k  partition:0  id:m  name=value  ( / )", "aria-label": "Filter events", spellcheck: "false",
    onkeydown: (event) => event.key === "Enter" && (this.#restart(), this.filter.blur()),
    onsearch: () => this.#restart(),
  });

  constructor(name) {
    this.name = name;
    this.#list = new List({
      label: `Events of ${name}`,
      make: cells("c-part", "c-seq", "c-time wide", "c-key optional", "c-text"),
      fill: (row, index) => this.#fill(row, this.#rows[index]),
      choose: (index) => this.#open(this.#rows[index]),
    });
    this.#inspector = new Inspector(() => this.#list.element.focus({ preventScroll: true }));
    const columns = [["c-part", "P"], ["c-seq", "Number"], ["c-time wide", "Time"], ["c-key optional", "Key"], ["c-text", "Body"]];
    this.element = h(
      "div",
      { class: "fill" },
      h("div", { class: "tools" }, this.filter, this.#start, this.#pause, h("button", { type: "button", onclick: () => this.#clear() }, "Clear")),
      this.#note,
      h("div", { class: "columns", "aria-hidden": "true" }, columns.map(([part, title]) => h("span", { class: part }, title))),
      h("div", { class: "split" }, this.#list.element, this.#inspector.element),
    );
    this.keys = {
      filter: this.filter,
      move: (step) => this.#list.move(step),
      open: () => this.#list.open(),
      close: () => this.#inspector.isOpen && this.#inspector.close(),
      keys: { " ": ["pause, or go on", () => this.#toggle()], e: ["to the end", () => this.#list.toEnd()], c: ["clear", () => this.#clear()] },
    };
    this.#restart();
  }

  close() {
    this.#stream?.close();
    this.#stream = null;
  }

  #clear() {
    this.#rows.length = 0;
    this.#list.count = 0;
  }

  #restart() {
    this.close();
    this.#clear();
    this.#inspector.isOpen && this.#inspector.close();
    this.#failure = null;
    this.#dropped = 0;
    this.#counts = { examined: 0, shown: 0, sampled_out: 0, missed: 0 };
    this.#list.follows = true;
    this.#follow(Number(this.#start.value));
    this.#pause.setAttribute("aria-pressed", "false");
    text(this.#pause, "Pause");
  }

  #follow(last) {
    const filter = this.filter.value.trim() || undefined;
    this.close();
    // What went on before a connection was lost counts as well.
    const parameters = (attempts) => {
      this.#before = { ...this.#counts };
      return { name: this.name, filter, last: attempts ? 0 : last };
    };
    const state = (now) => {
      if (now === "live" && (this.#state === "lost" || this.#state === "hidden")) this.#gap(this.#state === "lost" ? "the connection was lost" : "the page was hidden");
      if (now !== "live" || this.#state !== "paused") this.#state = now;
      this.#summarise();
    };
    this.#stream = live("hub/tail", parameters, { events: (found) => this.#take(found), ended: ({ error }) => this.#ended(error) }, state);
  }

  #take(found) {
    for (const [name, value] of Object.entries(this.#before)) this.#counts[name] = value + found[name];
    this.#failure = found.failure ?? null;
    if (found.events.length) {
      // Rows of several partitions come in the order of their times.
      found.events.sort((one, other) => one.enqueued_ms - other.enqueued_ms || one.sequence_number - other.sequence_number);
      this.#rows.push(...found.events);
      if (this.#rows.length > KEPT) {
        const gone = this.#rows.length - KEPT + DROPPED;
        this.#rows.splice(0, gone);
        this.#dropped += gone;
        const { selected } = this.#list;
        this.#list.selected = selected < gone ? -1 : selected - gone;
      }
      this.#list.count = this.#rows.length;
    }
    this.#summarise();
  }

  #gap(reason) {
    if (this.#rows.length === 0) return;
    this.#rows.push({ gap: `not followed for a while: ${reason}` });
    this.#list.count = this.#rows.length;
  }

  #ended(error) {
    this.close();
    this.#failure = error;
    this.#summarise();
  }

  #toggle() {
    if (this.#state === "paused") {
      this.#gap("paused");
      this.#list.follows = true;
      this.#state = "";
      this.#follow(0);
    } else {
      this.close();
      this.#state = "paused";
    }
    const paused = this.#state === "paused";
    this.#pause.setAttribute("aria-pressed", String(paused));
    text(this.#pause, paused ? "Go on" : "Pause");
    this.#summarise();
  }

  #summarise() {
    const { examined, shown, sampled_out: sampled, missed } = this.#counts;
    const states = { paused: "paused", lost: "connection lost, trying again", hidden: "hidden" };
    const parts = [
      `${count(shown)} shown`,
      examined > shown ? `${count(examined - shown)} filtered out` : null,
      sampled ? h("span", { class: "warn" }, `${count(sampled)} passed over: more comes in than is shown`) : null,
      missed ? h("span", { class: "warn" }, `${count(missed)} removed by retention before they were shown`) : null,
      this.#dropped ? `the ${count(this.#dropped)} oldest rows left the list` : null,
      states[this.#state] ?? null,
      this.#failure ? h("span", { class: "bad" }, this.#failure) : null,
    ].filter(Boolean);
    this.#note.replaceChildren(...parts.flatMap((part, place) => (place ? [" · ", part] : [part])));
  }

  #fill(row, event) {
    const [partition, number, time, key, content] = row.children;
    row.classList.toggle("gap", Boolean(event.gap));
    text(partition, event.gap ? "" : String(event.partition));
    text(number, event.gap ? "" : String(event.sequence_number));
    text(time, event.gap ? "" : clock(event.enqueued_ms));
    text(key, event.key ?? "");
    text(content, event.gap ?? event.text);
  }

  #open(event) {
    if (event.gap) return;
    const { partition, sequence_number } = event;
    this.#inspector.open(`Event ${partition} / ${count(sequence_number)}`, "hub/event", { name: this.name, partition, sequence_number });
  }
}

// Partitions, or readers, as they stand.
class Details {
  element = h("div", { class: "pad-top" });
  keys = { keys: {} };
  #asking = false;
  #closed = false;

  constructor(name, which) {
    this.name = name;
    this.which = which;
    this.load();
  }

  close() {
    this.#closed = true;
  }

  show() {
    this.load();
  }

  async load() {
    if (this.#asking || this.#closed) return;
    this.#asking = true;
    const hub = await attempt(() => get("hub", { name: this.name }));
    this.#asking = false;
    if (!hub || this.#closed) return;
    this.element.replaceChildren(...(this.which === "partitions" ? partitions(hub) : readers(hub)));
  }
}

const panel = (title, note, content) => h("section", { class: "panel" }, h("h2", null, title, h("span", { class: "muted" }, note)), content);

function partitions(hub) {
  const columns = [["Partition", "number"], ["First", "number optional"], ["Next", "number"], ["Events", "number"], ["Size", "number wide"], ["Last event", "wide"], ["In", "number optional"], ["Out", "number optional"]];
  const rows = hub.partitions.map((one) => [
    String(one.id), count(one.begin), count(one.end), count(one.end - one.begin), bytes(one.bytes),
    one.unavailable ? h("span", { class: "bad" }, one.unavailable) : one.last_append_ms === null ? "–" : instant(one.last_append_ms), short(one.events_in), short(one.events_out),
  ]);
  const retention = hub.retention_ms ? `, for ${duration(hub.retention_ms)}` : "";
  const size = hub.log_bytes ? `up to ${bytes(hub.log_bytes)} each` : "of any size";
  const note = `${size}${retention}${hub.unlisted ? ` · ${count(hub.unlisted)} more are not listed` : ""}`;
  return [panel("Partitions", note, table(columns, rows, "No partition"))];
}

function readers(hub) {
  const groups = hub.readers.map((one) => [one.group, one.protocol === "kafka" ? "Kafka" : "AMQP", one.state ?? "", count(one.readers), count(one.lag)]);
  const receivers = hub.receivers.map((one) => [
    String(one.partition), one.consumer_group, one.name ?? "–", one.epoch === null ? "–" : String(one.epoch), one.next === null ? "–" : count(one.next), one.lag === null ? "–" : count(one.lag),
  ]);
  return [
    panel("Groups", "lag: events that are kept and not delivered or committed yet", table([["Group", "name"], ["Protocol", ""], ["State", "wide"], ["Readers", "number"], ["Lag", "number"]], groups, "This hub has no reader")),
    panel("Receivers over AMQP", "", table([["Partition", "number"], ["Group", ""], ["Name", "wide"], ["Epoch", "number optional"], ["Next", "number"], ["Lag", "number"]], receivers, "No receiver is connected")),
    panel("Consumer groups", "", h("p", { class: "empty" }, hub.consumer_groups.join(", "))),
  ];
}

// The frame: which view is shown, and the figures that all of them live on.

import { text } from "./dom.js";
import { live } from "./api.js";
import { setServiceTime } from "./format.js";
import { Rates } from "./rates.js";
import { showHelp, use } from "./keys.js";
import { Clients, Overview, Side } from "./overview.js";
import { HubView } from "./hub.js";
import { Profile } from "./profile.js";
import { QueueView, TopicView } from "./queue.js";

const main = document.getElementById("main");
const side = new Side(document.getElementById("nav"));
const state = document.getElementById("state");
const rates = new Rates();
let overview = null;
let view = null;

function make([kind, name, tab]) {
  switch (kind) {
    case "hub": return new HubView(name, tab, rates);
    case "queue": return new QueueView(name, tab, rates);
    case "topic": return new TopicView(name, tab);
    case "clients": return new Clients();
    case "profile": return new Profile();
    default: return new Overview(rates);
  }
}

function go() {
  const path = location.hash.slice(2).split("/").map(decode);
  view?.close();
  view = make(path);
  use(view.keys);
  main.replaceChildren(view.element);
  document.title = path[1] ? `${path[1]} · Parshall explorer` : "Parshall explorer";
  if (overview) show();
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function show() {
  side.show(overview, rates, location.hash || "#/");
  view.show(overview);
}

function take(found) {
  const first = overview === null;
  overview = found;
  setServiceTime(found.clock_ms);
  for (const hub of found.hubs) {
    rates.take("hub", hub.name, found.at_ms, { in: hub.events_in, bytes: hub.bytes_in, out: hub.events_out });
  }
  for (const queue of [...found.queues, ...found.topics.flatMap((topic) => topic.subscriptions)]) {
    rates.take("queue", queue.path, found.at_ms, { in: queue.enqueued, out: queue.delivered });
  }
  text(document.getElementById("namespace"), found.host);
  if (first) document.getElementById("namespace").title = `Parshall ${found.version}`;
  show();
}

const STATES = { live: "live", lost: "connection lost", hidden: "hidden" };

live("overview/live", () => ({}), { overview: take }, (now) => {
  state.className = `state ${now}`;
  text(state, STATES[now]);
});
document.getElementById("help").addEventListener("click", showHelp);
window.addEventListener("hashchange", go);
go();

// Rates, computed from counters and their instants.

import { svg } from "./dom.js";

const KEPT = 60;

export class Rates {
  // For each key: the counters of the last time, and the rates since.
  #known = new Map();

  // Takes counters by name. What restarts from a lower number counts from 0.
  take(kind, name, atMs, counters) {
    const key = `${kind} ${name}`;
    let known = this.#known.get(key);
    if (!known) this.#known.set(key, (known = { atMs, counters, now: {}, past: [] }));
    const seconds = (atMs - known.atMs) / 1000;
    if (seconds > 0) {
      for (const [counter, value] of Object.entries(counters)) {
        const before = known.counters[counter] ?? value;
        known.now[counter] = (value >= before ? value - before : value) / seconds;
      }
      known.past.push({ ...known.now });
      if (known.past.length > KEPT) known.past.shift();
      known.atMs = atMs;
      known.counters = counters;
    }
  }

  // What goes on each second at present.
  now(kind, name) {
    return this.#known.get(`${kind} ${name}`)?.now ?? {};
  }

  // The same for each time of the last minute.
  past(kind, name, counter) {
    return (this.#known.get(`${kind} ${name}`)?.past ?? []).map((rates) => rates[counter] ?? 0);
  }
}

// A line of the last minute.
export function spark() {
  const line = svg("polyline", { points: "" });
  const element = svg("svg", { class: "spark", viewBox: "0 0 60 20", preserveAspectRatio: "none", "aria-hidden": "true" }, line);
  const show = (values) => {
    const most = Math.max(1, ...values);
    const start = KEPT - values.length;
    const points = values.map((value, place) => `${start + place},${(19 - (value / most) * 18).toFixed(1)}`);
    line.setAttribute("points", points.join(" "));
  };
  return { element, show };
}

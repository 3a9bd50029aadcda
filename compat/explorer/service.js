// `parshall serve --explorer` as a child process on free ports, and what its queues and hubs are filled with.

"use strict";

const { spawn } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const readline = require("node:readline");

const BATCH = "application/vnd.microsoft.servicebus.json";

const CONFIGURATION = `
signatures: accept-any
hubs:
  - {name: orders, partitions: 4, consumer_groups: [billing]}
  - {name: audit, partitions: 2}
  - {name: flood, partitions: 4, log: {bytes: 64 MiB}}
  - {name: hostile, partitions: 1}
queues:
  - {name: jobs}
  - {name: backlog, size_limit: 2 GiB}
  - {name: failing, maximum_delivery_count: 1}
  - {name: sessions, requires_session: true}
  - {name: forwarded, forward_to: jobs}
topics:
  - name: news
    subscriptions:
      - {name: all}
      - {name: urgent, rules: [{name: urgent, filter: {sql: "priority > 5"}, action: "SET seen = TRUE"}]}
`;

class Service {
  static async start() {
    const service = new Service();
    service.directory = fs.mkdtempSync(path.join(os.tmpdir(), "compat-explorer-"));
    const file = path.join(service.directory, "namespace.yaml");
    fs.writeFileSync(file, CONFIGURATION);
    const log = fs.openSync(path.join(service.directory, "service.log"), "a");
    const addresses = ["--amqp", "--http", "--explorer", "--kafka"].flatMap((option) => [option, "127.0.0.1:0"]);
    service.process = spawn(process.env.PARSHALL_BINARY, ["serve", "--config", file, "--format", "json", ...addresses], {
      stdio: ["ignore", "pipe", log],
    });
    const [line] = await Promise.race([
      once(readline.createInterface({ input: service.process.stdout }), "line"),
      once(service.process, "exit").then(() => [null]),
    ]);
    if (!line) throw new Error(`it did not start: ${fs.readFileSync(path.join(service.directory, "service.log"))}`);
    const announcement = JSON.parse(line);
    service.explorer = announcement.explorer;
    service.rest = `http://${announcement.listeners.find((one) => one.protocol === "amqp").address}`;
    return service;
  }

  // Asks it to end, which it must do in good order although pages are open.
  async stop() {
    const ended = once(this.process, "exit");
    this.process.kill("SIGTERM");
    const [status] = await ended;
    fs.rmSync(this.directory, { recursive: true });
    if (status !== 0) throw new Error(`it ended with ${status}`);
  }

  async api(name, content) {
    const options = content && { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(content) };
    const response = await fetch(`${this.explorer}api/${name}`, options);
    const answer = await response.json();
    if (!response.ok) throw new Error(`${name}: ${answer.error}`);
    return answer;
  }

  send(entity, body, more = {}) {
    return this.api("send", { entity, body: typeof body === "string" ? body : JSON.stringify(body), ...more });
  }

  // Sends many at once, by REST.
  async sendBatch(entity, bodies) {
    const content = JSON.stringify(bodies.map((body) => ({ Body: body })));
    const response = await fetch(`${this.rest}/${entity}/messages`, { method: "POST", headers: { "Content-Type": BATCH }, body: content });
    if (response.status !== 201) throw new Error(`${response.status}: ${await response.text()}`);
  }

  // Receives a message and gives it back; a queue that allows one delivery makes a dead letter of it.
  async abandon(queue) {
    const received = await fetch(`${this.rest}/${queue}/messages/head?timeout=5`, { method: "POST" });
    if (received.status !== 201) throw new Error(`${received.status}: ${await received.text()}`);
    const url = received.headers.get("location");
    await received.arrayBuffer();
    await fetch(url, { method: "PUT" });
  }
}

module.exports = { Service };

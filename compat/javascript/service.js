// `parshall serve` with a hub, queues and topics as a child process on free ports, and the ways to use it.

"use strict";

const { spawn } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const readline = require("node:readline");
const { ServiceBusClient } = require("@azure/service-bus");

const KINDS = {
  plain: "maximum_delivery_count: 3",
  brief: "lock_duration: 2 s",
  sessions: "requires_session: true",
  "brief-sessions": "requires_session: true, lock_duration: 2 s",
};
const EACH = 16;
const LABEL_WIDTH = 19;

// What must come comes within this.
const PATIENCE_MS = 20_000;
// And for this long it is looked whether what must not come does.
const SILENCE_MS = 500;

// A running service. Every test takes a queue of its own.
class Service {
  // Starts one; with a data directory it can be killed and started again. An option with a colon is a line of its file.
  static async start(...options) {
    const service = new Service();
    service.directory = fs.mkdtempSync(path.join(os.tmpdir(), "compat-javascript-"));
    const isLine = (option) => option.includes(": ");
    service.options = options.filter((option) => !isLine(option)).map((option) => option.replace("{directory}", service.directory));
    service.unused = Object.fromEntries(Object.keys(KINDS).map((kind) => [kind, 0]));
    service.configure(options.filter(isLine));
    await service.launch();
    return service;
  }

  configure(lines) {
    fs.writeFileSync(path.join(this.directory, "namespace.yaml"), [configuration(), ...lines].join("\n"));
  }

  // Starts it again without the lines that were added to its file.
  async quieten() {
    await this.kill();
    this.configure([]);
    await this.launch();
  }

  async launch() {
    const amqp = this.told?.AMQP ?? "127.0.0.1:0";
    this.process = spawn(
      process.env.PARSHALL_BINARY,
      ["serve", "--config", path.join(this.directory, "namespace.yaml"), "--http", "127.0.0.1:0", "--amqp", amqp,
        ...this.options],
      { stdio: ["ignore", "pipe", fs.openSync(path.join(this.directory, "service.log"), "a")] },
    );
    this.told = {};
    // With --dev-identity: what a command of `serve` has in its environment.
    this.identity = {};
    const strings = [];
    for await (const line of readline.createInterface({ input: this.process.stdout })) {
      if (line === "Ready.") {
        break;
      } else if (/^ {2}(IDENTITY|AZURE)_/.test(line)) {
        const [, name, value] = /^ {2}(\w+)=(.*)$/.exec(line);
        this.identity[name] = value;
      } else if (line.includes("Endpoint=")) {
        strings.push(line.trim().split(" ").at(-1));
      } else if (line.length > LABEL_WIDTH) {
        this.told[line.slice(0, LABEL_WIDTH).trim()] = line.slice(LABEL_WIDTH).trim();
      }
    }
    this.http = new URL(this.told.Health).origin;
    const isOfNamespace = (string) => string.endsWith("UseDevelopmentEmulator=true") && !string.includes("EntityPath");
    this.connectionString = strings.find(isOfNamespace);
    // With --blob among the options.
    this.storageConnectionString = strings.find((string) => string.includes("BlobEndpoint=http:"));
    if (!this.connectionString) {
      throw new Error(`it did not start: ${fs.readFileSync(path.join(this.directory, "service.log"))}`);
    }
  }

  // Asks it to end, which it must do in good order.
  async stop() {
    const ended = once(this.process, "exit");
    this.process.kill("SIGTERM");
    const [status] = await ended;
    fs.rmSync(this.directory, { recursive: true });
    if (status !== 0) {
      throw new Error(`it ended with ${status}`);
    }
  }

  // Ends it as a crash does.
  async kill() {
    const ended = once(this.process, "exit");
    this.process.kill("SIGKILL");
    await ended;
  }

  unusedQueue(kind = "plain") {
    const number = this.unused[kind]++;
    if (number >= EACH) {
      throw new Error("there are more tests than queues");
    }
    return `${kind}-${number}`;
  }

  // A client that does not try again, and what `work` makes of it.
  async with(work, options = { retryOptions: { maxRetries: 0 } }) {
    const client = new ServiceBusClient(this.connectionString, options);
    try {
      return await work(client);
    } finally {
      await client.close();
    }
  }
}

async function send(client, queue, ...messages) {
  const sender = client.createSender(queue);
  await sender.sendMessages(messages.map((message) => (typeof message === "string" ? { body: message } : message)));
  await sender.close();
}

// The result of `promise`, if it comes in time.
async function within(promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no result within ${PATIENCE_MS} ms`)), PATIENCE_MS);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

// So many messages, each of which must come.
async function receive(receiver, count = 1) {
  const messages = [];
  while (messages.length < count) {
    const more = await receiver.receiveMessages(count - messages.length, { maxWaitTimeInMs: PATIENCE_MS });
    if (more.length === 0) {
      throw new Error(`only ${messages.length} of ${count} messages came`);
    }
    messages.push(...more);
  }
  return messages;
}

const bodies = (messages) => messages.map((message) => message.body);

function configuration() {
  const lines = ["hubs: [{name: events, partitions: 1}]", "queues:"];
  for (const [kind, options] of Object.entries(KINDS)) {
    for (let number = 0; number < EACH; number++) {
      lines.push(`  - {name: ${kind}-${number}, ${options}}`);
    }
  }
  lines.push(
    "  - {name: full, size_limit: 100 KiB}",
    "topics:",
    "  - name: news",
    "    subscriptions: [{name: all}, {name: ruled, rules: []}]",
  );
  return lines.join("\n");
}

module.exports = { PATIENCE_MS, SILENCE_MS, Service, bodies, receive, send, within };

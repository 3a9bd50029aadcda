// Event Hubs, Service Bus, Kafka and blob storage for tests: `parshall serve` as a child process on free ports.
//
// Its standard input is a pipe that is never written to. The system closes it when this process ends, however it does, and the
// service stops when it is closed (`--stop-on-stdin-close`), so no process is left behind.

import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { closeSync, fstatSync, mkdtempSync, openSync, readSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { find } from "./program.js";

const ANY_PORT = "127.0.0.1:0";
const DEFAULT_HUBS = { events: 4 };
const DEFAULT_PARTITIONS = 4;
const START_MS = 30_000;
const STOP_MS = 10_000;
// Of a log, this much is shown: its end.
const LOG_BYTES = 64 * 1024;

/** Starts a service, and gives it back once clients can connect to it. */
export async function start(options = {}) {
  const { containers, kafka, tls, dataDirectory, timeoutMs = START_MS } = options;
  const program = find();
  const namespace = namespaceOf(options);
  const directory = namespace || tls ? mkdtempSync(join(tmpdir(), "parshall-")) : undefined;
  const given = [...(options.arguments ?? [])];
  const service = new Service(directory);
  try {
    if (namespace) {
      const config = join(directory, "namespace.json");
      writeFileSync(config, JSON.stringify(namespace));
      given.push("--config", config);
    }
    const usual = { "--amqp": ANY_PORT, "--http": ANY_PORT };
    if (containers) {
      usual["--blob"] = ANY_PORT;
    }
    if (kafka) {
      usual["--kafka"] = ANY_PORT;
    }
    if (tls) {
      for (const option of ["--blob", "--kafka"].filter((option) => option in usual)) {
        usual[`${option}-tls`] = ANY_PORT;
      }
      usual["--amqps"] = ANY_PORT;
      usual["--tls-directory"] = join(directory, "tls");
    }
    if (dataDirectory) {
      usual["--data-dir"] = dataDirectory;
    }
    const isGiven = (option) => given.some((argument) => argument.split("=")[0] === option);
    const rest = Object.entries(usual).filter(([option]) => !isGiven(option));
    const command = ["serve", "--stop-on-stdin-close", "--format", "json", ...given, ...rest.flat()];
    await service.launch(program, command, timeoutMs);
  } catch (error) {
    await service.stop();
    throw error;
  }
  return service;
}

/** A running service, made by `start`. */
export class Service {
  #directory;
  #process;
  #ended;
  #log;
  #stopped;

  /** @private */
  constructor(directory) {
    this.#directory = directory;
  }

  /** @private */
  async launch(program, command, timeoutMs) {
    this.#log = new Log();
    // In a session of its own: Ctrl-C is for the tests, which may need the service while they end.
    const child = spawn(program, command, { stdio: ["pipe", "pipe", this.#log.descriptor], detached: true });
    this.#process = child;
    // A child that could not be started has no exit.
    this.#ended = new Promise((resolve) => {
      child.once("close", (status, signal) => resolve(signal ?? `status ${status}`));
      child.once("error", (error) => resolve(error.message));
    });
    child.stdin.on("error", () => {});
    this.announcement = JSON.parse(await this.#firstLine(timeoutMs));
    process.on("exit", this.#printOnFailure);
    // A test that forgets the service must not wait for it.
    for (const handle of [child, child.stdin, child.stdout]) {
      handle.unref();
    }
    const { listeners, ...announced } = this.announcement;
    const address = (protocol, tls) =>
      listeners.find((listener) => listener.protocol === protocol && listener.tls === tls)?.address;
    this.connectionString = announced.connection_string;
    this.eventHubsConnectionString = this.connectionString;
    this.serviceBusConnectionString = this.connectionString;
    this.tlsConnectionString = announced.tls_connection_string;
    this.storageConnectionString = announced.storage_connection_string;
    this.storageTlsConnectionString = announced.storage_tls_connection_string;
    this.kafkaBootstrapServers = address("kafka", false);
    this.kafkaTlsBootstrapServers = address("kafka", true);
    this.certificateAuthority = announced.certificate_authority;
  }

  /** The number of the service's process. */
  get processId() {
    return this.#process.pid;
  }

  /** The end of what the service has logged until now. */
  log() {
    return this.#log.text();
  }

  /** Stops the service and waits for its end. A second call waits for the first. */
  stop() {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  [Symbol.asyncDispose]() {
    return this.stop();
  }

  async #stop() {
    const child = this.#process;
    if (child?.pid !== undefined) {
      child.ref();
      child.stdin.destroy();
      const late = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
      await this.#ended;
      clearTimeout(late);
    }
    this.#log?.close();
    if (this.#directory) {
      rmSync(this.#directory, { recursive: true, force: true });
    }
  }

  async #firstLine(timeoutMs) {
    const child = this.#process;
    let timer;
    const late = new Promise((_, reject) => {
      const error = () => new Error(`parshall serve was not ready within ${timeoutMs} ms. Its log:\n${this.log()}`);
      timer = setTimeout(() => {
        child.kill("SIGKILL");
        reject(error());
      }, timeoutMs);
    });
    const line = new Promise((resolve) => {
      let text = "";
      child.stdout.setEncoding("utf8").on("data", (part) => {
        text += part;
        if (text.endsWith("\n")) {
          resolve(text);
        }
      });
    });
    const failed = this.#ended.then((how) => {
      throw new Error(`parshall serve ended before it was ready (${how}):\n${this.log()}`);
    });
    // When it ends later, that is no error.
    failed.catch(() => {});
    try {
      return await Promise.race([line, failed, late]);
    } finally {
      clearTimeout(timer);
    }
  }

  #printOnFailure = (status) => {
    const log = status === 0 ? "" : this.log();
    if (log !== "") {
      process.stderr.write(`log of parshall serve (process ${this.#process.pid}):\n${log}`);
    }
  };
}

// A file without a name, of which nothing is left whatever happens. What a process has written to it is there at once.
class Log {
  #closed;

  constructor() {
    const path = join(tmpdir(), `parshall-${randomUUID()}.log`);
    this.descriptor = openSync(path, "wx+", 0o600);
    unlinkSync(path);
  }

  text() {
    if (this.#closed !== undefined) {
      return this.#closed;
    }
    const length = fstatSync(this.descriptor).size;
    const bytes = Buffer.alloc(Math.min(length, LOG_BYTES));
    const read = readSync(this.descriptor, bytes, 0, bytes.length, length - bytes.length);
    return bytes.toString("utf8", 0, read);
  }

  // Keeps the text.
  close() {
    if (this.#closed === undefined) {
      this.#closed = this.text();
      closeSync(this.descriptor);
    }
  }
}

// The content of the namespace file; nothing, if nothing is named.
function namespaceOf({ hubs, queues, topics, containers }) {
  if (!hubs && !queues && !topics) {
    if (!containers?.length) {
      return undefined;
    }
    hubs = DEFAULT_HUBS;
  }
  const entity = (given) => (typeof given === "string" ? { name: given } : given);
  const list = (given, value) =>
    Array.isArray(given)
      ? given.map(entity)
      : Object.entries(given ?? {}).map(([name, rest]) => ({ name, ...value(rest) }));
  const namespace = {
    hubs: list(hubs, (partitions) => ({ partitions })).map((hub) => ({ partitions: DEFAULT_PARTITIONS, ...hub })),
    queues: (queues ?? []).map(entity),
    topics: list(topics, (subscriptions) => ({ subscriptions: subscriptions.map(entity) })).map((topic) => ({
      subscriptions: [],
      ...topic,
    })),
  };
  return containers?.length ? { ...namespace, blob: { containers } } : namespace;
}

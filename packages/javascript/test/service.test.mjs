// The package as users have it: installed from its archive, with the program inside.

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { setTimeout as pause } from "node:timers/promises";

import { start } from "parshall";
import { find } from "./node_modules/parshall/program.js";

const require = createRequire(import.meta.url);
const { EventHubConsumerClient, EventHubProducerClient, earliestEventPosition } = require("@azure/event-hubs");
const { ServiceBusClient } = require("@azure/service-bus");

const PATIENCE_MS = 20_000;

const portOf = (connectionString) => Number(connectionString.match(/:(\d+)/)[1]);

const isListening = (port) =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });

async function waitUntilClosed(port) {
  const deadline = Date.now() + PATIENCE_MS;
  while (await isListening(port)) {
    assert.ok(Date.now() < deadline, `port ${port} is still listened on`);
    await pause(10);
  }
}

function temporaryDirectory(t) {
  const directory = mkdtempSync(join(tmpdir(), "parshall-test-"));
  t.after(() => rmSync(directory, { recursive: true }));
  return directory;
}

async function receive(client, ...entity) {
  const receiver = client.createReceiver(...entity);
  const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: PATIENCE_MS });
  await receiver.completeMessage(message);
  await receiver.close();
  return message.body;
}

test("an event and messages pass through the official clients", async (t) => {
  const service = await start({ hubs: { orders: 1 }, queues: ["jobs"], topics: { news: ["all"] } });
  t.after(() => service.stop());
  const producer = new EventHubProducerClient(service.eventHubsConnectionString, "orders");
  await producer.sendBatch([{ body: "an event" }]);
  await producer.close();
  const consumer = new EventHubConsumerClient("$Default", service.eventHubsConnectionString, "orders");
  const received = await new Promise((resolve, reject) => {
    const processEvents = async (events) => events.length > 0 && resolve(events.map((event) => event.body));
    consumer.subscribe({ processEvents, processError: async (error) => reject(error) }, { startPosition: earliestEventPosition });
  });
  await consumer.close();
  assert.deepEqual(received, ["an event"]);
  const client = new ServiceBusClient(service.serviceBusConnectionString);
  for (const entity of [["jobs"], ["news", "all"]]) {
    await client.createSender(entity[0]).sendMessages({ body: "a message" });
    assert.equal(await receive(client, ...entity), "a message");
  }
  await client.close();
});

test("Kafka, blobs and TLS are served where they are asked for", async (t) => {
  const service = await start({ hubs: ["orders"], containers: ["kept"], kafka: true, tls: true });
  t.after(() => service.stop());
  assert.ok(existsSync(service.certificateAuthority));
  assert.match(service.storageConnectionString, /BlobEndpoint=http:/);
  assert.match(service.storageTlsConnectionString, /BlobEndpoint=https:/);
  for (const port of [service.kafkaBootstrapServers, service.kafkaTlsBootstrapServers, service.tlsConnectionString]) {
    assert.ok(await isListening(portOf(port)), port);
  }
  await service.stop();
  assert.ok(!existsSync(service.certificateAuthority));
  const usual = await start();
  t.after(() => usual.stop());
  assert.deepEqual(usual.announcement.entities.map((entity) => entity.name), ["events"]);
  assert.equal(usual.kafkaBootstrapServers, undefined);
});

test("arguments come before what is usual, and data survives", async (t) => {
  const options = { dataDirectory: join(temporaryDirectory(t), "data"), arguments: ["--queue", "jobs", "--amqp=127.0.0.1:0"] };
  const first = await start(options);
  const sending = new ServiceBusClient(first.connectionString);
  await sending.createSender("jobs").sendMessages({ body: "kept" });
  await sending.close();
  await first.stop();
  const second = await start(options);
  t.after(() => second.stop());
  const receiving = new ServiceBusClient(second.connectionString);
  assert.equal(await receive(receiving, "jobs"), "kept");
  await receiving.close();
  await second.stop();
});

test("a service stops, once, and leaves nothing", async () => {
  const service = await start({ queues: ["jobs"] });
  const port = portOf(service.connectionString);
  assert.ok(await isListening(port));
  await Promise.all([service.stop(), service[Symbol.asyncDispose]()]);
  assert.ok(!(await isListening(port)));
});

const script = (text) =>
  spawnSync(process.execPath, ["--input-type=module", "--eval", `import { start } from "parshall"; ${text}`], {
    cwd: import.meta.dirname,
    encoding: "utf8",
    timeout: PATIENCE_MS,
  });

test("a process that is killed takes its service along", async () => {
  const killed = script("console.log((await start()).connectionString); process.kill(process.pid, 'SIGKILL');");
  assert.equal(killed.signal, "SIGKILL");
  await waitUntilClosed(portOf(killed.stdout));
});

test("a process that forgets its service ends, and takes it along", async () => {
  const forgetful = script("console.log((await start()).connectionString);");
  assert.deepEqual([forgetful.status, forgetful.stderr], [0, ""]);
  await waitUntilClosed(portOf(forgetful.stdout));
});

test("a process that fails shows the log", (t) => {
  // The service warns of an entity that does not exist, so its log is not empty.
  const namespace = join(temporaryDirectory(t), "namespace.yaml");
  writeFileSync(namespace, "{hubs: [], profile: {service_time: {entities: {nowhere: {send: 1 ms}}}}}");
  const failed = script(`await start({ arguments: ["--config", "${namespace}"] }); throw new Error("it fails");`);
  assert.equal(failed.status, 1);
  assert.match(failed.stderr, /log of parshall serve \(process \d+\):\n.*does not exist/);
});

test("what cannot be served is said with the reason", async () => {
  const wrong = { queues: [{ name: "jobs", lock_duratoin: "5 s" }] };
  await assert.rejects(start(wrong), /ended before it was ready \(status 2\)[^]*lock_duratoin/);
});

test("the program is the one that is named, then the carried one, then that on the path", (t) => {
  const directory = temporaryDirectory(t);
  const other = join(directory, "parshall");
  writeFileSync(other, "#!/bin/sh\n");
  chmodSync(other, 0o755);
  assert.match(find({}), /node_modules\/parshall\/bin\/parshall$/);
  assert.equal(find({ PARSHALL: other }), other);
  assert.throws(() => find({ PARSHALL: join(directory, "nothing") }), /is not a program that can be executed/);
  assert.equal(find({ PATH: directory }, join(directory, "nothing")), other);
  assert.throws(() => find({}, join(directory, "nothing")), /set PARSHALL/);
});

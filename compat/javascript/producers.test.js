// Idempotent producers of Event Hubs: the buffered client, and the client beneath it, whose options name the state.

"use strict";

const assert = require("node:assert/strict");
const { test } = require("node:test");
const {
  EventHubBufferedProducerClient,
  EventHubConsumerClient,
  EventHubProducerClient,
  earliestEventPosition,
} = require("@azure/event-hubs");
const { Service, within } = require("./service.js");

const HUB = "events";
const retryOptions = { maxRetries: 20, retryDelayInMs: 20, maxRetryDelayInMs: 200, timeoutInMs: 5_000 };

// What `work` makes of a service with these options.
async function serving(work, ...options) {
  const service = await Service.start(...options);
  try {
    return await work(service);
  } finally {
    await service.stop();
  }
}

// A client whose events are numbered. Its options for partitions are internal, as in the client's own tests.
function producer(service, partition = {}) {
  const client = new EventHubProducerClient(service.connectionString, HUB, { retryOptions });
  client._enableIdempotentRetries = true;
  client._partitionOptions = { 0: partition };
  return client;
}

const send = (client, ...bodies) => client.sendBatch(bodies.map((body) => ({ body })), { partitionId: "0" });
const state = (client) => client.getPartitionPublishingProperties("0");

// The bodies of all events of partition 0, of which there are `count`.
async function received(service, count) {
  const client = new EventHubConsumerClient("$Default", service.connectionString, HUB);
  const { lastEnqueuedSequenceNumber } = await client.getPartitionProperties("0");
  assert.equal(Number(lastEnqueuedSequenceNumber) + 1, count);
  const bodies = [];
  let subscription;
  await within(
    new Promise((resolve, reject) => {
      const processEvents = async (events) => {
        bodies.push(...events.map((event) => event.body));
        if (bodies.length >= count) {
          resolve();
        }
      };
      const handlers = { processEvents, processError: async (error) => reject(error) };
      subscription = client.subscribe("0", handlers, { startPosition: earliestEventPosition });
    }),
  );
  await subscription.close();
  await client.close();
  return bodies;
}

// What metric `name` says of partition 0.
async function metric(service, name) {
  const text = await (await fetch(`${service.http}/metrics`)).text();
  const line = text.split("\n").find((line) => line.startsWith(`${name}{`) && line.includes('partition="0"'));
  return Number(line.split(" ")[1]);
}

test("events that are sent again after a failure are stored once and in order", async () => {
  const failures = "failures: {send_ratio: 0.1, acknowledgement_ratio: 0.3, disconnect_ratio: 0.05}";
  await serving(async (service) => {
    const errors = [];
    const client = new EventHubBufferedProducerClient(service.connectionString, HUB, {
      enableIdempotentRetries: true,
      maxEventBufferLengthPerPartition: 7,
      maxWaitTimeInMs: 5,
      onSendEventsErrorHandler: async ({ error }) => errors.push(error),
      retryOptions,
    });
    const expected = Array.from({ length: 80 }, (_, number) => number);
    for (const body of expected) {
      await client.enqueueEvent({ body }, { partitionId: "0" });
    }
    await client.close();
    assert.deepEqual(errors, []);
    assert.ok((await metric(service, "parshall_hub_events_duplicate_total")) > 0);
    await service.quieten();
    assert.deepEqual(await received(service, expected.length), expected);
  }, "--data-dir", "{directory}/data", `profile: {${failures}}`);
});

test("a producer goes on where it was when the service was killed", async () => {
  await serving(async (service) => {
    const client = producer(service);
    await send(client, "one", "two");
    const before = await state(client);
    assert.equal(before.lastPublishedSequenceNumber, 1);
    await service.kill();
    await service.launch();
    await send(client, "three");
    const after = await state(client);
    assert.deepEqual({ ...before, lastPublishedSequenceNumber: 2 }, after);
    await client.close();
    assert.deepEqual(await received(service, 3), ["one", "two", "three"]);
  }, "--data-dir", "{directory}/data");
});

test("a producer of a higher owner level takes over, and the one before gets an error", async () => {
  await serving(async (service) => {
    const first = producer(service);
    await send(first, "one");
    const { producerGroupId, ownerLevel, lastPublishedSequenceNumber } = await state(first);
    const second = producer(service, {
      producerGroupId, ownerLevel: ownerLevel + 1, startingSequenceNumber: lastPublishedSequenceNumber,
    });
    await send(second, "two");
    await assert.rejects(send(first, "lost"), { code: "ProducerDisconnectedError" });
    assert.equal((await state(second)).lastPublishedSequenceNumber, 1);
    await Promise.all([first.close(), second.close()]);
    assert.deepEqual(await received(service, 2), ["one", "two"]);
  });
});

test("sequence numbers that are no continuation, and an owner level below 0, are refused", async () => {
  await serving(async (service) => {
    const first = producer(service);
    await send(first, "one", "two", "three");
    const { producerGroupId } = await state(first);
    for (const startingSequenceNumber of [0, 7]) {
      const other = producer(service, { producerGroupId, startingSequenceNumber });
      await assert.rejects(send(other, "misplaced"), { code: "SequenceOutOfOrderError" });
      await other.close();
    }
    const negative = producer(service, { ownerLevel: -1 });
    await assert.rejects(send(negative, "negative"), { code: "ArgumentOutOfRangeError" });
    // What is left open is answered from what is known.
    const successor = producer(service, { producerGroupId });
    assert.equal((await state(successor)).lastPublishedSequenceNumber, 2);
    await send(successor, "four");
    await Promise.all([first.close(), negative.close(), successor.close()]);
    assert.deepEqual(await received(service, 4), ["one", "two", "three", "four"]);
    assert.equal(await metric(service, "parshall_hub_batches_out_of_order_total"), 2);
  });
});

// Older versions of the official clients, over TLS, which all of them can do: send, receive, settle and checkpoint.

"use strict";

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const path = require("node:path");
const { after, before, test } = require("node:test");
const { BlobCheckpointStore } = require("@azure/eventhubs-checkpointstore-blob");
const { ContainerClient } = require("@azure/storage-blob");
const { Service, bodies, receive, within } = require("../../javascript/service.js");

const EVENTS = 200;

// The versions of a package, as `run` has them installed under names of their own.
function versions(name) {
  const listed = execFileSync(path.join(__dirname, "../versions-of"), ["javascript", name], { encoding: "utf8" });
  return listed.trim().split("\n").map((line) => line.split(" ")[1]);
}

let service;
let connectionString;
let options;
before(async () => {
  service = await Service.start(
    "--amqps", "127.0.0.1:0", "--tls-directory", process.env.COMPAT_TLS_DIRECTORY, "--blob", "127.0.0.1:0",
  );
  const port = service.told["AMQP over TLS"].split(":").at(-1);
  connectionString = `Endpoint=sb://localhost:${port}/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE`;
  // The port has to be said once more: with TLS the client takes 5671 whatever the connection string says.
  options = { customEndpointAddress: `sb://localhost:${port}`, retryOptions: { maxRetries: 1, timeoutInMs: 10_000 } };
});
after(() => service.stop());

let read = 0;
for (const version of versions("@azure/event-hubs")) {
  const { EventHubConsumerClient, EventHubProducerClient, earliestEventPosition } = require(`event-hubs-${version}`);

  test(`@azure/event-hubs ${version}: events are sent, received and checkpointed`, async () => {
    const producer = new EventHubProducerClient(connectionString, "events", options);
    assert.deepEqual(await producer.getPartitionIds(), ["0"]);
    const send = async (...texts) => {
      const batch = await producer.createBatch({ partitionKey: "key" });
      for (const text of texts) {
        assert.ok(batch.tryAdd({ body: text, properties: { version } }));
      }
      await producer.sendBatch(batch);
    };
    const container = new ContainerClient(service.storageConnectionString, `checkpoints-${version.replaceAll(".", "-")}`);
    await container.create();

    // The events until then belong to other versions; the checkpoint says that they are done.
    const numbers = Array.from({ length: EVENTS }, (_, number) => `${version} ${number}`);
    await send(...numbers);
    const all = await consumed(container, read + EVENTS);
    assert.deepEqual(all.slice(read), numbers);
    await send(`${version} later`);
    read += EVENTS + 1;
    assert.deepEqual(await consumed(container, 1), [`${version} later`]);
    await producer.close();
  });

  // The bodies of the events that a consumer gets until it has this many.
  async function consumed(container, count) {
    const store = new BlobCheckpointStore(container);
    const consumer = new EventHubConsumerClient("$Default", connectionString, "events", store, options);
    const found = [];
    let subscription;
    await within(
      new Promise((resolve, reject) => {
        const processEvents = async (events, context) => {
          if (events.length > 0) {
            await context.updateCheckpoint(events.at(-1));
          }
          found.push(...events.map((event) => event.body));
          if (found.length >= count) {
            resolve();
          }
        };
        subscription = consumer.subscribe(
          { processEvents, processError: async (error) => reject(error) },
          { startPosition: earliestEventPosition, maxWaitTimeInSeconds: 1 },
        );
      }),
    );
    await subscription.close();
    await consumer.close();
    return found;
  }
}

for (const version of versions("@azure/service-bus")) {
  const { ServiceBusClient } = require(`service-bus-${version}`);

  test(`@azure/service-bus ${version}: messages are settled in every way`, async () => {
    const client = new ServiceBusClient(connectionString, options);
    const queue = service.unusedQueue();
    await client.createSender(queue).sendMessages(["complete", "abandon", "defer", "bury"].map((body) => ({ body })));
    const receiver = client.createReceiver(queue);
    const messages = await receive(receiver, 4);
    assert.deepEqual(bodies(messages), ["complete", "abandon", "defer", "bury"]);
    await receiver.renewMessageLock(messages[0]);
    await receiver.completeMessage(messages[0]);
    await receiver.abandonMessage(messages[1]);
    await receiver.deferMessage(messages[2]);
    await receiver.deadLetterMessage(messages[3], { deadLetterReason: "reason", deadLetterErrorDescription: "description" });
    const [again] = await receive(receiver);
    assert.deepEqual([again.body, again.deliveryCount], ["abandon", 1]);
    await receiver.completeMessage(again);
    const [deferred] = await receiver.receiveDeferredMessages(messages[2].sequenceNumber);
    await receiver.completeMessage(deferred);
    const [dead] = await receive(client.createReceiver(queue, { subQueueType: "deadLetter" }));
    assert.deepEqual([dead.body, dead.deadLetterReason], ["bury", "reason"]);
    assert.deepEqual(await receiver.peekMessages(1), []);
    await client.close();
  });

  test(`@azure/service-bus ${version}: a session has its order and a state`, async () => {
    const client = new ServiceBusClient(connectionString, options);
    const queue = service.unusedQueue("sessions");
    await client.createSender(queue).sendMessages([1, 2, 3].map((body) => ({ body, sessionId: "one" })));
    const session = await client.acceptNextSession(queue);
    assert.equal(session.sessionId, "one");
    await session.setSessionState({ step: 1 });
    const messages = await receive(session, 3);
    assert.deepEqual(bodies(messages), [1, 2, 3]);
    for (const message of messages) {
      await session.completeMessage(message);
    }
    assert.deepEqual(await session.getSessionState(), { step: 1 });
    await client.close();
  });
}

// Sending to queues, receiving from them, and settling.

"use strict";

const assert = require("node:assert/strict");
const { after, before, test } = require("node:test");
const { PATIENCE_MS, SILENCE_MS, Service, bodies, receive, send } = require("./service.js");

let service;
before(async () => {
  service = await Service.start();
});
after(() => service.stop());

test("a message arrives with everything that was said about it, and with an identifier", async () => {
  const queue = service.unusedQueue();
  await service.with(async (client) => {
    const sent = {
      body: { nested: [1, 2, 3] }, subject: "label", correlationId: "correlation", contentType: "application/json",
      to: "there", replyTo: "here", timeToLive: 300_000, applicationProperties: { number: 7, text: "words", truth: true },
    };
    await send(client, queue, sent);
    const receiver = client.createReceiver(queue);
    const [message] = await receive(receiver);
    for (const [key, value] of Object.entries(sent)) {
      assert.deepEqual(message[key], value, key);
    }
    assert.ok(message.messageId);
    assert.equal(message.deliveryCount, 0);
    assert.equal(message.state, "active");
    assert.ok(message.lockedUntilUtc > message.enqueuedTimeUtc);
    await receiver.completeMessage(message);
  });
});

test("a batch arrives in its order, and no more is waited for than there is", async () => {
  const queue = service.unusedQueue();
  await service.with(async (client) => {
    const sender = client.createSender(queue);
    const batch = await sender.createMessageBatch();
    const expected = Array.from({ length: 300 }, (_, number) => String(number));
    expected.forEach((body) => assert.ok(batch.tryAddMessage({ body })));
    await sender.sendMessages(batch);
    const deleting = client.createReceiver(queue, { receiveMode: "receiveAndDelete" });
    assert.deepEqual(bodies(await receive(deleting, 300)), expected);
    assert.deepEqual(await deleting.receiveMessages(1, { maxWaitTimeInMs: SILENCE_MS }), []);
    await deleting.close();
    await send(client, queue, "1", "2", "3");
    const receiver = client.createReceiver(queue);
    // The client drains what credit is left a moment after the first of them, and closes the link if that has no answer:
    // it would then settle by request.
    const messages = await receiver.receiveMessages(10, { maxWaitTimeInMs: PATIENCE_MS });
    assert.deepEqual(bodies(messages), ["1", "2", "3"]);
    for (const message of messages) {
      await receiver.completeMessage(message);
    }
    assert.deepEqual(await receiver.peekMessages(1), []);
  });
});

test("each way of settling does what it means", async () => {
  const queue = service.unusedQueue();
  await service.with(async (client) => {
    await send(client, queue, "completed", "abandoned", "deferred", "dead");
    const receiver = client.createReceiver(queue);
    const [completed, abandoned, deferred, dead] = await receive(receiver, 4);
    await receiver.completeMessage(completed);
    await receiver.deferMessage(deferred);
    await receiver.deadLetterMessage(dead, { deadLetterReason: "reason", deadLetterErrorDescription: "description" });
    await receiver.abandonMessage(abandoned, { note: "again" });
    const [again] = await receive(receiver);
    assert.deepEqual([again.body, again.deliveryCount, again.applicationProperties.note], ["abandoned", 1, "again"]);
    await receiver.abandonMessage(again);
    await receiver.abandonMessage((await receive(receiver))[0]);
    const [later] = await receiver.receiveDeferredMessages(deferred.sequenceNumber);
    assert.equal(later.body, "deferred");
    await receiver.completeMessage(later);
    assert.deepEqual(await receiver.peekMessages(10), []);

    const deadLetters = client.createReceiver(queue, { subQueueType: "deadLetter" });
    const reasons = (await receive(deadLetters, 2)).map((message) => [message.body, message.deadLetterReason]);
    assert.deepEqual(Object.fromEntries(reasons), { dead: "reason", abandoned: "MaxDeliveryCountExceeded" });
  });
});

test("peeking shows messages one after the other and locks none", async () => {
  const queue = service.unusedQueue();
  await service.with(async (client) => {
    const receiver = client.createReceiver(queue);
    assert.deepEqual(await receiver.peekMessages(1), []);
    await send(client, queue, "1", "2", "3");
    assert.deepEqual(bodies(await receiver.peekMessages(2)), ["1", "2"]);
    assert.deepEqual(bodies(await receiver.peekMessages(2)), ["3"]);
    assert.deepEqual(bodies(await receive(receiver, 3)), ["1", "2", "3"]);
  });
});

test("a lock is renewed, and one that is over is lost", async () => {
  const queue = service.unusedQueue("brief");
  await service.with(async (client) => {
    await send(client, queue, "slow");
    const receiver = client.createReceiver(queue, { maxAutoLockRenewalDurationInMs: 0 });
    const [message] = await receive(receiver);
    const until = message.lockedUntilUtc;
    assert.ok((await receiver.renewMessageLock(message)) >= until);
    const [again] = await receive(receiver);
    assert.equal(again.deliveryCount, 1);
    await assert.rejects(receiver.completeMessage(message), { code: "MessageLockLost" });
    await receiver.completeMessage(again);
  });
});

test("scheduled messages come at their time unless they are cancelled", async () => {
  const queue = service.unusedQueue();
  await service.with(async (client) => {
    const sender = client.createSender(queue);
    const soon = new Date(Date.now() + 1_000);
    const [cancelled] = await sender.scheduleMessages({ body: "cancelled" }, new Date(Date.now() + 3_600_000));
    await sender.scheduleMessages([{ body: "1" }, { body: "2" }], soon);
    const receiver = client.createReceiver(queue);
    const [peeked] = await receiver.peekMessages(1, { fromSequenceNumber: cancelled });
    assert.deepEqual([peeked.body, peeked.state], ["cancelled", "scheduled"]);
    await sender.cancelScheduledMessages(cancelled);
    const messages = await receive(receiver, 2);
    assert.deepEqual(bodies(messages).sort(), ["1", "2"]);
    assert.ok(Date.now() >= soon.getTime());
    for (const message of messages) {
      await receiver.completeMessage(message);
    }
    assert.deepEqual(await receiver.peekMessages(1, { fromSequenceNumber: cancelled }), []);
  });
});

for (const calls of [1, 32]) {
  test(`every message is processed, at most ${calls} at once`, async () => {
    const queue = service.unusedQueue();
    const count = 200;
    await service.with(async (client) => {
      await send(client, queue, ...Array.from({ length: count }, (_, number) => String(number)));
      const receiver = client.createReceiver(queue);
      const seen = new Set();
      let running = 0;
      let most = 0;
      await new Promise((resolve, reject) => {
        receiver.subscribe(
          {
            async processMessage(message) {
              most = Math.max(most, ++running);
              await receiver.completeMessage(message);
              running -= 1;
              if (seen.add(message.body).size === count) {
                resolve();
              }
            },
            processError: async ({ error }) => reject(error),
          },
          { maxConcurrentCalls: calls, autoCompleteMessages: false },
        );
      });
      assert.ok(most <= calls, `${most} at once`);
      assert.deepEqual(await receiver.peekMessages(1), []);
    });
  });
}

test("the client renews locks while a message takes long", async () => {
  const queue = service.unusedQueue("brief");
  await service.with(async (client) => {
    await send(client, queue, "slow");
    const receiver = client.createReceiver(queue);
    const counts = [];
    await new Promise((resolve, reject) => {
      receiver.subscribe({
        async processMessage(message) {
          counts.push(message.deliveryCount);
          const end = message.lockedUntilUtc.getTime() + 1_000;
          while (Date.now() < end) {
            await new Promise((awake) => setTimeout(awake, 50));
          }
          await receiver.completeMessage(message);
          resolve();
        },
        processError: async ({ error }) => reject(error),
      }, { autoCompleteMessages: false });
    });
    assert.deepEqual(counts, [0]);
    assert.deepEqual(await receiver.peekMessages(1), []);
  });
});

test("what is not there, too large or too much is told", async () => {
  await service.with(async (client) => {
    await assert.rejects(send(client, "nowhere", "lost"), { code: "MessagingEntityNotFound" });
    const nowhere = client.createReceiver("nowhere");
    await assert.rejects(nowhere.receiveMessages(1, { maxWaitTimeInMs: PATIENCE_MS }), { code: "MessagingEntityNotFound" });
    await assert.rejects(nowhere.peekMessages(1), { code: "MessagingEntityNotFound" });
    const sender = client.createSender(service.unusedQueue());
    await assert.rejects(sender.sendMessages({ body: "x".repeat(300 * 1024) }), { code: "MessageSizeExceeded" });
    await sender.sendMessages({ body: "small" });
    const filling = async () => {
      for (let sent = 0; sent < 10; sent++) {
        await send(client, "full", "x".repeat(30 * 1024));
      }
    };
    await assert.rejects(filling, { code: "QuotaExceeded" });
  });
});

test("clients find a service again that was killed, and what it had accepted", async () => {
  const durable = await Service.start("--data-dir", "{directory}/data");
  try {
    await durable.with(
      async (client) => {
        const sender = client.createSender("plain-0");
        const receiver = client.createReceiver("plain-0");
        await sender.sendMessages([{ body: "done" }, { body: "kept" }]);
        await receiver.completeMessage((await receive(receiver))[0]);
        await durable.kill();
        await durable.launch();
        await sender.sendMessages({ body: "after" });
        const messages = await receive(receiver, 2);
        assert.deepEqual(bodies(messages), ["kept", "after"]);
        for (const message of messages) {
          await receiver.completeMessage(message);
        }
      },
      { retryOptions: { maxRetries: 10, retryDelayInMs: 200 } },
    );
  } finally {
    await durable.stop();
  }
});

// Sessions, and the rules of subscriptions.

"use strict";

const assert = require("node:assert/strict");
const { after, before, test } = require("node:test");
const { Service, bodies, receive, send } = require("./service.js");

let service;
before(async () => {
  service = await Service.start();
});
after(() => service.stop());

test("a session gives its messages in order, to one receiver", async () => {
  const queue = service.unusedQueue("sessions");
  await service.with(async (client) => {
    await send(client, queue, { body: "1", sessionId: "a" }, { body: "x", sessionId: "b" }, { body: "2", sessionId: "a" });
    const session = await client.acceptSession(queue, "a");
    assert.equal(session.sessionId, "a");
    const messages = await receive(session, 2);
    assert.deepEqual(bodies(messages), ["1", "2"]);
    await assert.rejects(client.acceptSession(queue, "a"), { code: "SessionCannotBeLocked" });
    const next = await client.acceptNextSession(queue);
    assert.equal(next.sessionId, "b");
    for (const message of messages) {
      await session.completeMessage(message);
    }
    assert.deepEqual(await session.peekMessages(1), []);
  });
});

test("a session has a state, deferred messages and a lock that is renewed", async () => {
  const queue = service.unusedQueue("sessions");
  await service.with(async (client) => {
    await send(client, queue, { body: "later", sessionId: "a" });
    const session = await client.acceptSession(queue, "a");
    assert.equal(await session.getSessionState(), null);
    await session.setSessionState("half way");
    assert.ok((await session.renewSessionLock()) > new Date());
    const [message] = await receive(session);
    await session.deferMessage(message);
    const [deferred] = await session.receiveDeferredMessages(message.sequenceNumber);
    await session.completeMessage(deferred);
    await session.close();
    const again = await client.acceptSession(queue, "a");
    assert.equal(await again.getSessionState(), "half way");
  });
});

test("a session whose lock is over goes to the next receiver", async () => {
  const queue = service.unusedQueue("brief-sessions");
  await service.with(async (client) => {
    await send(client, queue, { body: "slow", sessionId: "a" });
    const first = await client.acceptSession(queue, "a", { maxAutoLockRenewalDurationInMs: 0 });
    const [message] = await receive(first);
    const second = await client.acceptNextSession(queue);
    const [again] = await receive(second);
    assert.deepEqual([second.sessionId, again.deliveryCount], ["a", 1]);
    await assert.rejects(first.completeMessage(message), { code: "SessionLockLost" });
    await second.completeMessage(again);
  });
});

test("waiting for a session ends when its time is over", async () => {
  const queue = service.unusedQueue("sessions");
  const impatient = { retryOptions: { maxRetries: 0, timeoutInMs: 3_000 } };
  await service.with(
    (client) => assert.rejects(client.acceptNextSession(queue), { name: "ServiceBusError" }),
    impatient,
  );
});

test("rules are added, listed and removed while messages flow", async () => {
  await service.with(async (client) => {
    const rules = client.createRuleManager("news", "ruled");
    const listed = async () => {
      const found = [];
      for await (const rule of rules.listRules()) {
        // The client makes one that is undefined of none.
        if (rule) {
          found.push(rule);
        }
      }
      return found;
    };
    assert.deepEqual(await listed(), []);
    await rules.createRule("sql", { sqlExpression: "size > 3" }, { sqlExpression: "SET large = TRUE" });
    await rules.createRule("correlation", { subject: "urgent", applicationProperties: { color: "red" } });
    const found = Object.fromEntries((await listed()).map((rule) => [rule.name, rule]));
    assert.equal(found.sql.filter.sqlExpression, "size > 3");
    assert.equal(found.sql.action.sqlExpression, "SET large = TRUE");
    assert.equal(found.correlation.filter.subject, "urgent");
    assert.deepEqual(found.correlation.filter.applicationProperties, { color: "red" });

    await send(client, "news",
      { body: "large", applicationProperties: { size: 7 } },
      { body: "small", applicationProperties: { size: 1 } },
      { body: "urgent", subject: "urgent", applicationProperties: { color: "red" } });
    const receiver = client.createReceiver("news", "ruled", { receiveMode: "receiveAndDelete" });
    const messages = await receive(receiver, 2);
    assert.deepEqual(bodies(messages), ["large", "urgent"]);
    assert.equal(messages[0].applicationProperties.large, true);

    await rules.deleteRule("sql");
    await rules.deleteRule("correlation");
    assert.deepEqual(await listed(), []);
    const all = client.createReceiver("news", "all", { receiveMode: "receiveAndDelete" });
    assert.deepEqual(bodies(await receive(all, 3)), ["large", "small", "urgent"]);
  });
});

// Queues, topics, subscriptions and rules, administered by the official client.

"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const { after, before, test } = require("node:test");
const { ServiceBusAdministrationClient } = require("@azure/service-bus");
const { Service, bodies, receive, send, within } = require("./service.js");

// Entries of a page, which the client is told.
const PAGE = 100;

let service;
let client;
before(async () => {
  service = await Service.start("--amqps", "127.0.0.1:0", "--tls-directory", "{directory}/tls");
  const port = service.told["AMQP over TLS"].split(":").at(-1);
  const string = `Endpoint=sb://localhost:${port}/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE`;
  const ca = fs.readFileSync(service.told["Trusted authority"]);
  client = new ServiceBusAdministrationClient(string, { tlsOptions: { ca }, retryOptions: { maxRetries: 0 } });
});
after(() => service.stop());

async function all(pages) {
  const entries = [];
  for await (const entry of pages) {
    entries.push(entry);
  }
  return entries;
}

const failsWith = (code) => (error) => {
  assert.equal(error.code, code, error);
  return true;
};

test("a queue is made, told, changed and deleted", async () => {
  const made = await client.createQueue("made", { lockDuration: "PT2M", maxDeliveryCount: 4, userMetadata: "mine" });
  assert.equal(made.name, "made");
  assert.deepEqual([made.lockDuration, made.maxDeliveryCount, made.userMetadata], ["PT2M", 4, "mine"]);
  assert.deepEqual([made.requiresSession, made.status, made.maxSizeInMegabytes], [false, "Active", 1024]);
  const changed = await client.updateQueue({ ...made, lockDuration: "PT30S", defaultMessageTimeToLive: "PT3M" });
  assert.deepEqual([changed.lockDuration, changed.defaultMessageTimeToLive], ["PT30S", "PT3M"]);
  const told = await client.getQueue("MADE");
  assert.equal(told.lockDuration, "PT30S");
  assert.equal(await client.queueExists("made"), true);
  await client.deleteQueue("made");
  assert.equal(await client.queueExists("made"), false);
  await assert.rejects(client.getQueue("made"), failsWith("MessageEntityNotFoundError"));
});

test("figures follow what is sent", async () => {
  await client.createQueue("counted");
  const fresh = await client.getQueueRuntimeProperties("counted");
  assert.deepEqual([fresh.totalMessageCount, fresh.sizeInBytes], [0, 0]);
  await service.with(async (messages) => {
    await send(messages, "counted", "1", "2", "3");
    const receiver = messages.createReceiver("counted");
    const [message] = await receive(receiver);
    await receiver.deadLetterMessage(message);
  });
  const told = await client.getQueueRuntimeProperties("counted");
  assert.deepEqual([told.activeMessageCount, told.deadLetterMessageCount, told.totalMessageCount], [2, 1, 3]);
  assert.ok(told.createdAt <= told.accessedAt);
  const listed = await all(client.listQueuesRuntimeProperties());
  assert.equal(listed.find((each) => each.name === "counted").activeMessageCount, 2);
});

test("a list goes on over the end of a page", async () => {
  const names = Array.from({ length: PAGE + 1 }, (_, number) => `paged-${String(number).padStart(3, "0")}`);
  for (const name of names) {
    await client.createQueue(name);
  }
  const listed = (await all(client.listQueues())).map((queue) => queue.name);
  assert.deepEqual(listed.filter((name) => name.startsWith("paged-")), names);
  const pages = [];
  for await (const page of client.listQueues().byPage({ maxPageSize: 10 })) {
    pages.push(page);
  }
  assert.ok(pages.length > 10 && pages.slice(0, -1).every((page) => page.length === 10));
  assert.equal(pages.flat().length, listed.length);
});

test("topics, subscriptions and rules are administered while they are used", async () => {
  await client.createTopic("papers");
  const values = { text: "words", number: 7, fraction: 0.5, truth: true, time: new Date("2026-11-25T12:30:15Z") };
  await client.createSubscription("papers", "ruled", {
    defaultRuleOptions: { name: "first", filter: { subject: "red", applicationProperties: values } },
  });
  const [rule] = await all(client.listRules("papers", "ruled"));
  assert.equal(rule.name, "first");
  assert.deepEqual(rule.filter.applicationProperties, values);
  assert.equal(rule.filter.subject, "red");
  await client.createRule("papers", "ruled", "sql", { sqlExpression: "colour = @colour", sqlParameters: { "@colour": "blue" } }, {
    sqlExpression: "SET seen = 'yes'",
  });
  const sql = await client.getRule("papers", "ruled", "sql");
  assert.deepEqual(sql.filter.sqlParameters, { "@colour": "blue" });
  assert.equal(sql.action.sqlExpression, "SET seen = 'yes'");
  await service.with(async (messages) => {
    await send(messages, "papers", { body: "red", applicationProperties: { colour: "red" } },
      { body: "blue", applicationProperties: { colour: "blue" } });
    const [message] = await receive(messages.createReceiver("papers", "ruled"));
    assert.equal(message.body, "blue");
    assert.equal(message.applicationProperties.seen, "yes");
  });
  const figures = await client.getSubscriptionRuntimeProperties("papers", "ruled");
  assert.equal(figures.activeMessageCount, 1);
  await client.updateRule("papers", "ruled", { ...sql, filter: { sqlExpression: "1=0" } });
  assert.equal((await client.getRule("papers", "ruled", "sql")).filter.sqlExpression, "1=0");
  const subscription = await client.getSubscription("papers", "ruled");
  await client.updateSubscription({ ...subscription, maxDeliveryCount: 3 });
  assert.equal((await client.getSubscription("papers", "ruled")).maxDeliveryCount, 3);
  await client.deleteRule("papers", "ruled", "sql");
  assert.equal(await client.ruleExists("papers", "ruled", "sql"), false);
  await client.deleteSubscription("papers", "ruled");
  assert.deepEqual(await all(client.listSubscriptions("papers")), []);
  await client.deleteTopic("papers");
  await assert.rejects(client.getTopic("papers"), failsWith("MessageEntityNotFoundError"));
});

test("what can not be is refused with the client's own errors", async () => {
  await client.createQueue("taken");
  await assert.rejects(client.createQueue("taken"), failsWith("MessageEntityAlreadyExistsError"));
  await assert.rejects(client.createTopic("TAKEN"), failsWith("MessageEntityAlreadyExistsError"));
  await assert.rejects(client.deleteQueue("missing"), failsWith("MessageEntityNotFoundError"));
  const queue = await client.getQueue("taken");
  await assert.rejects(client.updateQueue({ ...queue, name: "missing" }), failsWith("MessageEntityNotFoundError"));
  await assert.rejects(client.updateQueue({ ...queue, requiresSession: true }), (error) => error.statusCode === 400);
  await assert.rejects(client.createQueue("wrong", { lockDuration: "PT6M" }), (error) => error.statusCode === 400);
});

test("messages go along a chain until it is unmade", async () => {
  await client.createQueue("end");
  await client.createQueue("begin", { forwardTo: "end" });
  await service.with(async (messages) => {
    await send(messages, "begin", "along");
    assert.deepEqual(bodies(await receive(messages.createReceiver("end"))), ["along"]);
    const begin = await client.getQueue("begin");
    assert.match(begin.forwardTo, /\/end$/);
    await client.updateQueue({ ...begin, forwardTo: undefined });
    await send(messages, "begin", "stays");
    assert.deepEqual(bodies(await receive(messages.createReceiver("begin"))), ["stays"]);
  });
});

test("a receiver hears of it when its queue is deleted", async () => {
  await client.createQueue("gone");
  await service.with(async (messages) => {
    const receiver = messages.createReceiver("gone");
    const failed = new Promise((resolve) => {
      receiver.subscribe({
        processMessage: async () => {},
        // A message that is being completed meanwhile fails with an error of its own first.
        processError: async ({ error }) => error.code === "MessagingEntityNotFound" && resolve(),
      });
    });
    await send(messages, "gone", "one");
    await client.deleteQueue("gone");
    await within(failed);
  });
});

test("the namespace tells what it is", async () => {
  const namespace = await client.getNamespaceProperties();
  assert.equal(namespace.messagingSku, "Standard");
  assert.ok(namespace.name && namespace.createdAt instanceof Date);
});

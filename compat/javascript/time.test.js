// Time under control: what the client sees once the service's clock was advanced, and its own was not.

"use strict";

const assert = require("node:assert/strict");
const { after, before, test } = require("node:test");
const { SILENCE_MS, Service, bodies, receive, send, within } = require("./service.js");

const LOCK_MS = 2_000;

let service;
before(async () => {
  service = await Service.start("--time-control");
});
after(() => service.stop());

async function advance(by) {
  const answer = await fetch(`${service.http}/time/advance`, { method: "POST", body: by });
  assert.equal(answer.status, 200);
  return (await answer.json()).happened;
}

async function schedule(client, queue, hours, message) {
  const { now_ms: now } = await (await fetch(`${service.http}/time`)).json();
  const sender = client.createSender(queue);
  await sender.scheduleMessages(message, new Date(now + hours * 3_600_000));
  await sender.close();
}

// Works on what comes for longer than its lock lasts by itself, and gives what it was.
function working(receiver) {
  return new Promise((resolve, reject) => {
    receiver.subscribe({
      async processMessage(message) {
        const left = message.lockedUntilUtc - Date.now();
        await new Promise((wake) => setTimeout(wake, left + SILENCE_MS));
        await receiver.completeMessage(message);
        resolve({ message, left });
      },
      async processError({ error }) {
        reject(error);
      },
    }, { autoCompleteMessages: false });
  });
}

test("an idle receiver is given what came once, keeps its lock, and its client goes on", async () => {
  const queue = service.unusedQueue("brief");
  await service.with(async (client) => {
    await schedule(client, queue, 7, { body: "later" });
    const receiver = client.createReceiver(queue);
    const worked = working(receiver);
    assert.equal((await advance("8 h")).message_locks_ended, 0);
    const { message, left } = await within(worked);
    assert.deepEqual([message.body, message.deliveryCount], ["later", 0]);
    assert.ok(left > 0 && left <= LOCK_MS, `${left} ms were left`);
    await receiver.close();
    await send(client, queue, "another");
    assert.deepEqual(bodies(await receive(client.createReceiver(queue))), ["another"]);
  });
});

test("who waits for a session has it for as long as its lock lasts", async () => {
  const queue = service.unusedQueue("brief-sessions");
  await service.with(async (client) => {
    await schedule(client, queue, 7, { body: "later", sessionId: "one" });
    const accepted = client.acceptNextSession(queue);
    assert.equal((await advance("8 h")).session_locks_ended, 0);
    const session = await within(accepted);
    const left = session.sessionLockedUntilUtc - Date.now();
    assert.ok(left > 0 && left <= LOCK_MS, `${left} ms were left`);
    const { message } = await within(working(session));
    assert.deepEqual([message.body, message.deliveryCount], ["later", 0]);
  });
});

// Microsoft Entra ID: DefaultAzureCredential with the issuer of the service's own.

"use strict";

const assert = require("node:assert/strict");
const { spawnSync } = require("node:child_process");
const { after, before, test } = require("node:test");
const { Service } = require("./service.js");

let service;
before(async () => {
  service = await Service.start(
    "--amqps", "127.0.0.1:0", "--tls-directory", "{directory}/tls", "--dev-identity", "--dev-identity-tls",
  );
});
after(() => service.stop());

// What a program does, in a process of its own: Node.js reads the authorities to trust when it starts.
const PROGRAM = `
  const { DefaultAzureCredential } = require("@azure/identity");
  const { EventHubProducerClient } = require("@azure/event-hubs");
  const { ServiceBusClient } = require("@azure/service-bus");

  async function main() {
    const credential = new DefaultAzureCredential();
    const options = { customEndpointAddress: "sb://" + process.env.ADDRESS };
    const producer = new EventHubProducerClient("localhost", "events", credential, options);
    await producer.sendBatch([{ body: "event" }]);
    const { lastEnqueuedSequenceNumber } = await producer.getPartitionProperties("0");
    await producer.close();
    const client = new ServiceBusClient("localhost", credential, options);
    const sender = client.createSender("plain-0");
    await sender.sendMessages({ body: "message" });
    const receiver = client.createReceiver("plain-0");
    const [message] = await receiver.receiveMessages(1, { maxWaitTimeInMs: 20000 });
    await receiver.completeMessage(message);
    await client.close();
    console.log(lastEnqueuedSequenceNumber, message.body);
  }

  main().catch((error) => {
    console.error(error);
    process.exitCode = 1;
  });
`;

const KINDS = { "a managed identity": "IDENTITY_", "an application with a secret": "AZURE_" };

for (const [number, [kind, prefix]] of Object.entries(KINDS).entries()) {
  test(`${kind} sends and receives`, () => {
    const found = Object.entries(service.identity).filter(([name]) => name.startsWith(prefix));
    const env = {
      ...process.env,
      ...Object.fromEntries(found),
      ADDRESS: service.told["AMQP over TLS"].replace("127.0.0.1", "localhost"),
      NODE_EXTRA_CA_CERTS: service.told["Trusted authority"],
    };
    const done = spawnSync(process.execPath, ["-e", PROGRAM], { env, encoding: "utf8", timeout: 60_000 });
    assert.equal(done.stderr, "");
    assert.equal(done.stdout, `${number} message\n`);
  });
}

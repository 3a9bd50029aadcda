// The explorer page in a real browser: what a person sees and does there, and what payloads and other pages can't do.

"use strict";

const assert = require("node:assert/strict");
const http = require("node:http");
const path = require("node:path");
const { after, before, test } = require("node:test");
const { chromium } = require("playwright-core");
const { Service } = require("./service");

const SIZES = { wide: { width: 1280, height: 800 }, narrow: { width: 390, height: 844 } };
const BACKLOG = 100_000;
const ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const HOSTILE = [
  "<img src=x onerror=window.hacked=1>",
  "</script><script>window.hacked=1</script>",
  "<svg onload=window.hacked=1>",
  "javascript:window.hacked=1",
  "{\"html\": \"<iframe srcdoc='<script>parent.hacked=1</script>'>\"}",
  "\u202e<b>bold</b>\u0000\ud83d\ude00",
];

let service;
let browser;

before(async () => {
  service = await Service.start();
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ARGUMENTS });
  await fillUp();
});

after(async () => {
  await browser?.close();
  await service?.stop();
});

async function fillUp() {
  const regions = ["eu-north", "us-east", "ap-south"];
  for (let number = 0; number < 60; number += 1) {
    const order = { order: 1000 + number, customer: `customer-${number % 7}`, total: Math.round(number * 977) / 100, currency: "EUR", items: [{ sku: `A-${number % 5}`, quantity: 1 + (number % 3) }] };
    const properties = { region: regions[number % 3], priority: number % 9 };
    await service.send("orders", order, { partition_key: order.customer, content_type: "application/json", message_id: `order-${order.order}`, properties });
    if (number % 5 === 0) await service.send("audit", `user ${number} signed in from 10.0.0.${number}`, { properties: { level: "info" } });
    if (number < 24) await service.send("jobs", { job: number, kind: "resize", source: `images/${number}.png` }, { message_id: `job-${number}`, subject: "resize" });
    if (number < 9) await service.send("news", { headline: `News ${number}` }, { properties: { priority: number } });
    if (number < 6) await service.send("sessions", `step ${number}`, { session_id: `basket-${number % 3}` });
  }
  await service.send("jobs", { job: "later" }, { scheduled_ms: Date.now() + 3_600_000 });
  for (let number = 0; number < 4; number += 1) {
    await service.send("failing", { job: number, reason: "always fails" }, { message_id: `poison-${number}` });
    await service.abandon("failing");
  }
}

// A page whose errors fail the test, at a place of the explorer.
async function open(place, { size = "wide", colors = "light" } = {}) {
  const context = await browser.newContext({ viewport: SIZES[size], colorScheme: colors, deviceScaleFactor: 1 });
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (error) => page.problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.problems.push(message.text()));
  page.on("dialog", (dialog) => page.problems.push(`a dialog: ${dialog.message()}`));
  await page.goto(`${service.explorer}${place}`);
  await page.locator("#state.live").waitFor();
  page.done = async () => {
    assert.deepEqual(page.problems, []);
    await context.close();
  };
  return page;
}

const picture = async (page, name) => {
  const folder = process.env.EXPLORER_SCREENSHOTS;
  if (folder) await page.screenshot({ path: path.join(folder, `${name}.png`) });
};

const encoded = encodeURIComponent;
const FAILING = `#/queue/${encoded("failing")}/dead-letters`;
const VIEWS = [
  ["overview", "#/", (page) => page.getByRole("link", { name: "orders" }).first()],
  ["events", "#/hub/orders/events", (page) => page.locator(".list .row:visible").first()],
  ["partitions", "#/hub/orders/partitions", (page) => page.getByRole("heading", { name: "Partitions" })],
  ["readers", "#/hub/orders/readers", (page) => page.getByText("billing")],
  ["send-event", "#/hub/orders/send", (page) => page.getByRole("button", { name: "Send event" })],
  ["messages", "#/queue/jobs/messages", (page) => page.locator(".list .row:visible").first()],
  ["dead-letters", FAILING, (page) => page.locator(".list .row:visible").first()],
  ["sessions", "#/queue/sessions/sessions", (page) => page.getByText("basket-1")],
  ["options", "#/queue/jobs/options", (page) => page.getByText("lock duration")],
  ["topic", "#/topic/news", (page) => page.getByRole("main").getByRole("link", { name: "urgent" })],
  ["rules", `#/queue/${encoded("news/Subscriptions/urgent")}/rules`, (page) => page.getByText("The sample matches.")],
  ["profile", "#/profile", (page) => page.getByRole("heading", { name: "Service profile" })],
  ["clients", "#/clients", (page) => page.getByRole("heading", { name: "Clients" })],
];

for (const size of Object.keys(SIZES)) {
  for (const colors of ["light", "dark"]) {
    test(`every view fits, ${size} and ${colors}`, async () => {
      const page = await open("#/", { size, colors });
      for (const [name, place, shown] of VIEWS) {
        await page.goto("about:blank");
        await page.goto(`${service.explorer}${place}`);
        await shown(page).waitFor();
        const found = await page.evaluate(() => ({
          over: document.documentElement.scrollWidth - document.documentElement.clientWidth,
          light: getComputedStyle(document.body).backgroundColor.match(/\d+/g).slice(0, 3).every((part) => part > 127),
          unlabelled: [...document.querySelectorAll("input, select, textarea, button, a")].filter((one) => one.checkVisibility() && !(one.textContent.trim() || one.getAttribute("aria-label") || one.labels?.length)).map((one) => one.outerHTML),
        }));
        assert.ok(found.over <= 0, `${name} is ${found.over} pixels too wide`);
        assert.equal(found.light, colors === "light", name);
        assert.deepEqual(found.unlabelled, [], name);
        if (name === "overview") await page.locator(".spark polyline[points*=' ']").first().waitFor({ state: "attached" });
        if (["events", "dead-letters"].includes(name)) {
          await page.locator(".list .row:visible").nth(2).click();
          await page.locator(".inspector dd").first().waitFor();
        }
        await picture(page, `${name}-${size}-${colors}`);
      }
      await page.done();
    });
  }
}

test("texts have enough contrast, light and dark", async () => {
  for (const colors of ["light", "dark"]) {
    const page = await open("#/", { colors });
    const ratios = await page.evaluate(() => {
      const style = getComputedStyle(document.documentElement);
      const canvas = document.createElement("canvas").getContext("2d");
      const luminance = (name) => {
        canvas.fillStyle = style.getPropertyValue(name);
        const parts = [1, 3, 5].map((at) => Number.parseInt(canvas.fillStyle.slice(at, at + 2), 16) / 255);
        const [red, green, blue] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
      };
      const ratio = (one, other) => {
        const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
        return (light + 0.05) / (dark + 0.05);
      };
      const texts = ["--text", "--muted", "--accent", "--good", "--warn", "--bad", "--key", "--string", "--number"];
      const pairs = texts.flatMap((text) => ["--panel", "--page"].map((ground) => [text, ground]));
      return [...pairs, ["--accent-text", "--accent"], ["--muted", "--soft"], ["--accent", "--accent-soft"]].map(([text, ground]) => [`${text} on ${ground}`, ratio(text, ground)]);
    });
    for (const [pair, ratio] of ratios) assert.ok(ratio >= 4.5, `${colors}: ${pair} is ${ratio.toFixed(2)}`);
    await page.done();
  }
});

test("the page is small, and comes from nowhere else", async (t) => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const requested = [];
  const bodies = [];
  page.on("response", (response) => {
    requested.push(response.url());
    if (!response.url().includes("/api/")) bodies.push(response.body());
  });
  await page.goto(service.explorer);
  await page.locator("#state.live").waitFor();
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  const bytes = (await Promise.all(bodies)).reduce((sum, body) => sum + body.length, 0);
  t.diagnostic(`${bytes} bytes, first paint after ${paint?.toFixed(0)} ms`);
  assert.ok(bytes > 50_000 && bytes <= 150 * 1024, `${bytes} bytes`);
  assert.ok(requested.every((url) => url.startsWith(service.explorer)), requested.join(" "));
  await context.close();
});

test("figures change while the page is open", async () => {
  const page = await open("#/");
  const row = page.locator("tr", { hasText: "audit" }).first();
  await row.waitFor();
  const kept = async () => Number((await row.locator("td").last().textContent()).split(" ")[0]);
  const before = await kept();
  await service.send("audit", "one more");
  await page.waitForFunction((wanted) => [...document.querySelectorAll("tr")].some((row) => row.textContent.includes("audit") && row.lastChild.textContent.startsWith(`${wanted} `)), before + 1);
  await page.done();
});

test("a hub is followed, filtered, paused and looked into", async () => {
  const page = await open("#/hub/orders/events");
  const rows = page.locator(".list .row:visible");
  await rows.first().waitFor();
  await page.getByLabel("Filter events").fill("region=eu-north key:customer-0");
  await page.keyboard.press("Enter");
  await page.getByText("filtered out").waitFor();
  // The count of events that are filtered out can come before the first that is shown.
  await rows.first().waitFor();
  const shown = await rows.locator(".c-key").allTextContents();
  assert.ok(shown.length > 0 && shown.every((key) => key === "customer-0"), shown.join());
  await service.send("orders", { late: true }, { partition_key: "customer-0", properties: { region: "eu-north" } });
  const late = rows.filter({ hasText: '"late":true' });
  await late.click();
  const inspector = page.getByRole("complementary", { name: "Details" });
  await inspector.getByText("eu-north").waitFor();
  assert.match(await inspector.locator("pre").textContent(), /^\{\n {2}"late": true\n\}$/);
  await inspector.getByRole("button", { name: "Hex" }).click();
  assert.match(await inspector.locator("pre").textContent(), /^000000 {2}7b 22 6c 61/);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("paused").waitFor();
  await page.getByLabel("Filter events").fill("partition:x");
  await page.keyboard.press("Enter");
  await page.getByText("partition: is not followed by a number").waitFor();
  await page.done();
});

test("all can be done by keyboard", async () => {
  const page = await open("#/");
  await page.getByRole("link", { name: "orders" }).first().waitFor();
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await page.keyboard.press("/");
  await page.keyboard.type("jobs");
  await page.keyboard.press("Escape");
  assert.equal(await page.getByLabel("Filter by name").inputValue(), "jobs", "leaving a field keeps what is in it");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForURL(/#\/queue\/jobs/);
  await page.locator(".list .row:visible").first().waitFor();
  for (const key of ["j", "j", "k"]) await page.keyboard.press(key);
  await page.locator('.list .row[aria-selected="true"][aria-posinset="1"]').waitFor();
  await page.keyboard.press("Enter");
  const inspector = page.getByRole("complementary", { name: "Details" });
  await inspector.getByText("images/0.png").waitFor();
  await page.keyboard.press("Escape");
  await inspector.waitFor({ state: "hidden" });
  await page.keyboard.press("x");
  await page.getByText("1 chosen").waitFor();
  await page.keyboard.press("s");
  await page.getByLabel("Body", { exact: true }).fill("by keyboard");
  await page.keyboard.press("Control+Enter");
  await page.getByText("1 message sent to jobs").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("o");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.done();
});

test("a message is sent with properties, and scheduled", async () => {
  const page = await open("#/queue/jobs/send");
  await page.getByLabel("Body", { exact: true }).fill('{"n": 1}');
  await page.getByLabel("Subject").fill("from the page");
  await page.getByLabel("Application properties").fill('count = 7\ntext = "7"\nflag = true\nplain = two words');
  await page.getByRole("button", { name: "Send message" }).click();
  await page.getByText("1 message sent to jobs").waitFor();
  const { messages } = await service.api("queue/messages?entity=jobs&skip=0&top=500");
  const sent = messages.findLast((message) => message.subject === "from the page");
  const details = await service.api(`queue/message?entity=jobs&sequence_number=${sent.sequence_number}`);
  assert.deepEqual(details.application_properties, [["count", "long", 7], ["flag", "boolean", true], ["plain", "string", "two words"], ["text", "string", "7"]]);
  const scheduled = async () => (await service.api("queue?entity=jobs")).queue.scheduled;
  const before = await scheduled();
  await page.getByLabel("Available from").fill("2100-01-01T00:00:30");
  await page.getByRole("button", { name: "Send message" }).click();
  await page.locator(".toast").nth(1).waitFor();
  assert.equal(await scheduled(), before + 1);
  await page.getByLabel("Application properties").fill("nonsense");
  await page.getByRole("button", { name: "Send message" }).click();
  await page.getByText("a property is written as name = value").waitFor();
  await page.done();
});

test("dead letters are looked into, sent again and purged, but not without a question", async () => {
  const page = await open(FAILING);
  const rows = page.locator(".list .row:visible");
  await rows.nth(3).waitFor();
  assert.equal(await rows.first().locator(".c-state").textContent(), "MaxDeliveryCountExceeded");
  await rows.first().click();
  await page.getByRole("complementary", { name: "Details" }).getByRole("button", { name: "Resubmit" }).click();
  await page.getByText("1 message sent again").waitFor();
  const counts = async () => (await service.api("queue?entity=failing")).queue;
  assert.deepEqual([(await counts()).active, (await counts()).dead_letters], [1, 3]);
  await page.getByRole("button", { name: "Purge dead letters" }).click();
  await page.getByRole("button", { name: "Cancel" }).click();
  assert.equal((await counts()).dead_letters, 3);
  await page.getByRole("button", { name: "Purge dead letters" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Purge" }).click();
  await page.getByText("3 messages removed").waitFor();
  assert.deepEqual([(await counts()).active, (await counts()).dead_letters], [1, 0]);
  await page.getByText("nothing waits here").waitFor();
  await page.done();
});

test("a rule is tried on a sample and on a waiting message, made and removed", async () => {
  const page = await open(`#/queue/${encoded("news/Subscriptions/all")}/rules`);
  await page.getByText("The sample matches.").waitFor();
  const filter = page.getByLabel("Filter (SQL");
  await filter.fill("priority > 8 AND region = 'eu'");
  await page.getByText("does not match").waitFor();
  await filter.fill("priority >");
  await page.getByText("The filter, character").waitFor();
  const { messages } = await service.api(`queue/messages?entity=${encoded("news/Subscriptions/all")}`);
  await filter.fill("priority = 3");
  await page.getByLabel("Or try it on a waiting message").fill(String(messages[3].sequence_number));
  await page.getByLabel("Action").fill("SET seen = TRUE");
  await page.getByText("After the action:").waitFor();
  await page.getByLabel("Name of the rule").fill("third");
  await page.getByRole("button", { name: "Add rule" }).click();
  const row = page.getByRole("row", { name: /third/ });
  await row.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await row.waitFor({ state: "detached" });
  await page.done();
});

test("a profile is switched while clients are at work", async () => {
  const page = await open("#/profile");
  const keys = page.getByRole("textbox", { name: "Profile" });
  const apply = page.getByRole("button", { name: "Apply" });
  await page.getByRole("button", { name: "Sends fail" }).click();
  assert.match(await keys.inputValue(), /"send_ratio": 0.05/);
  await keys.fill('{"failures": {"send_ratio": 1}}');
  await apply.click();
  await page.getByText("A profile shapes the service.").waitFor();
  await assert.rejects(service.sendBatch("audit", ["refused"]), /^Error: 5/);
  await page.locator("dl div", { hasText: "sends failed" }).locator("dd", { hasText: /^[1-9]/ }).waitFor();
  await picture(page, "profile-wide-light");
  await keys.fill('{"failures": {"send_ratio": 2}}');
  await apply.click();
  await page.locator(".verdict.wrong").waitFor();
  await page.getByRole("button", { name: "Off" }).click();
  await apply.click();
  await page.getByText("No profile").waitFor();
  await service.sendBatch("audit", ["taken"]);
  page.problems = page.problems.filter((problem) => !problem.includes("400"));
  await page.done();
});

test("nothing of a payload runs or loads", async () => {
  for (const [number, text] of HOSTILE.entries()) {
    await service.send("hostile", text, { subject: text.replace("\u0000", ""), properties: { [`<b>${number}`]: text } });
    await service.send("failing", text, { message_id: `hostile ${text}` });
  }
  const outside = [];
  for (const place of ["#/hub/hostile/events", "#/queue/failing/messages"]) {
    const page = await open(place);
    page.on("request", (request) => request.url().startsWith(service.explorer) || outside.push(request.url()));
    const rows = page.locator(".list .row:visible");
    await rows.nth(HOSTILE.length - 1).waitFor();
    for (let number = 0; number < HOSTILE.length; number += 1) {
      await rows.nth(number).click();
      await page.locator(".inspector pre").waitFor();
    }
    const found = await page.evaluate(() => ({ hacked: window.hacked, elements: document.querySelectorAll("main img, main script, main iframe, main svg[onload], main b").length }));
    assert.deepEqual(found, { hacked: undefined, elements: 0 });
    await page.done();
  }
  assert.deepEqual(outside, []);
});

test("another page neither reads nor changes anything", async () => {
  const foreign = http.createServer((_, response) => response.end("<!doctype html><title>foreign</title>"));
  await new Promise((done) => foreign.listen(0, "127.0.0.1", done));
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`http://localhost:${foreign.address().port}/`);
  const before = (await service.api("queue?entity=backlog")).queue.active;
  const seen = await page.evaluate(async (explorer) => {
    const body = JSON.stringify({ entity: "backlog", body: "forged" });
    const attempt = async (options, name = "send") => {
      try {
        const response = await fetch(`${explorer}api/${name}`, options);
        return `${response.type} ${response.status}`;
      } catch {
        return "refused";
      }
    };
    const stream = await new Promise((done) => {
      const source = new EventSource(`${explorer}api/overview/live`);
      source.onmessage = source.onopen = () => done("open");
      source.onerror = () => done("refused");
    });
    return [
      await attempt({ method: "POST", mode: "no-cors", body }),
      await attempt({ method: "POST", headers: { "Content-Type": "application/json" }, body }),
      await attempt({ method: "GET" }, "overview"),
      stream,
    ];
  }, service.explorer);
  // The Cross-Origin-Resource-Policy keeps even the answer from it that it could not look into.
  assert.deepEqual(seen, ["refused", "refused", "refused", "refused"]);
  assert.equal((await service.api("queue?entity=backlog")).queue.active, before);
  await context.close();
  foreign.close();

  const { hostname, port } = new URL(service.explorer);
  const asked = (headers, method = "GET") => new Promise((done, failed) => {
    const request = http.request({ hostname, port, path: method === "GET" ? "/api/overview" : "/api/send", method, headers, agent: false }, (response) => done(response.resume().statusCode));
    request.on("error", failed).end(method === "GET" ? undefined : JSON.stringify({ entity: "backlog", body: "forged" }));
  });
  const own = `${hostname}:${port}`;
  const json = { "Content-Type": "application/json" };
  assert.equal(await asked({ Host: own }), 200);
  assert.equal(await asked({ Host: "rebound.example" }), 403);
  assert.equal(await asked({ Host: own, ...json, Origin: "http://evil.example" }, "POST"), 403);
  assert.equal(await asked({ Host: own, ...json, Origin: "null" }, "POST"), 403);
  assert.equal(await asked({ Host: own, ...json, "Sec-Fetch-Site": "cross-site" }, "POST"), 403);
  assert.equal(await asked({ Host: own, "Content-Type": "text/plain" }, "POST"), 415);
  assert.equal((await service.api("queue?entity=backlog")).queue.active, before);
});

test("100,000 messages that wait are scrolled, and any of them is reached", async (t) => {
  for (let sent = 0; sent < BACKLOG; sent += 10_000) await service.send("backlog", { number: sent }, { count: 10_000 });
  const page = await open("#/queue/backlog/messages");
  await page.getByText("100,000 messages").waitFor();
  const list = page.locator(".list");
  const elements = await page.locator(".list .row").count();
  assert.ok(elements < 100, `${elements} rows are elements`);
  const last = (place) => page.locator(`.list .row[aria-posinset="${place}"]`).filter({ hasText: "number" });
  await list.focus();
  await page.keyboard.press("End");
  await last(BACKLOG).waitFor();
  await list.evaluate((element) => element.scrollTo(0, element.scrollHeight / 2));
  await page.locator(".list .row:visible").filter({ hasText: "number" }).nth(10).waitFor();
  await page.getByLabel("Go to a sequence number").fill("77777");
  await page.keyboard.press("Enter");
  await page.locator('.list .row[aria-selected="true"]').filter({ hasText: "77777" }).waitFor();
  const frames = await page.evaluate(scrollThrough);
  t.diagnostic(`scrolling 100,000 messages: ${summary(frames)}`);
  await last(BACKLOG).waitFor();
  await picture(page, "backlog-wide-light");
  await page.getByRole("button", { name: "Purge", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Purge" }).click();
  await page.getByText("100,000 messages removed").waitFor();
  await page.done();
});

test("10,000 events a second are followed: what is passed over is counted", async (t) => {
  const overview = await open("#/");
  const page = await open("#/hub/flood/events");
  await page.locator(".note", { hasText: "shown" }).waitFor();
  const watching = page.evaluate(watchFrames, 6_000);
  const rated = overview.waitForFunction(() => [...document.querySelectorAll("main tr")].some((row) => row.textContent.startsWith("flood") && /^[\d.]+/.test(row.children[2].textContent)));
  const started = Date.now();
  let sent = 0;
  while (Date.now() - started < 6_000) {
    const due = Math.floor((Date.now() - started) / 100) * 1_000;
    if (sent >= due) await new Promise((resume) => setTimeout(resume, 10));
    else {
      await service.sendBatch("flood", Array.from({ length: 1_000 }, (_, number) => `{"event": ${sent + number}, "source": "sensor-${number % 50}"}`));
      sent += 1_000;
    }
  }
  await rated;
  await picture(overview, "overview-busy-wide-light");
  const frames = await watching;
  const rate = Math.round(sent / ((Date.now() - started) / 1000));
  const accounted = (wanted) => {
    const numbers = [...document.querySelector(".note").textContent.matchAll(/([\d,]+) (shown|filtered|passed|removed)/g)];
    return numbers.reduce((sum, [, number]) => sum + Number(number.replaceAll(",", "")), 0) === wanted;
  };
  await page.waitForFunction(accounted, sent);
  t.diagnostic(`${rate} events/s: ${summary(frames)}; ${await page.locator(".note").textContent()}`);
  await picture(page, "flood-wide-light");
  await page.done();
  await overview.done();
});

const summary = ({ frames, slow, longest }) => `${frames} frames, ${slow} of them longer than 50 ms, the longest ${longest.toFixed(0)} ms`;

// How long frames take for a while.
function watchFrames(duration) {
  return new Promise((done) => {
    const started = performance.now();
    let [last, frames, slow, longest] = [started, 0, 0, 0];
    const frame = (now) => {
      const took = now - last;
      last = now;
      frames += 1;
      if (took > 50) slow += 1;
      longest = Math.max(longest, took);
      if (now - started < duration) requestAnimationFrame(frame);
      else done({ frames, slow, longest });
    };
    requestAnimationFrame(frame);
  });
}

function scrollThrough() {
  const list = document.querySelector(".list");
  return new Promise((done) => {
    let [last, frames, slow, longest, step] = [performance.now(), 0, 0, 0, 0];
    const frame = (now) => {
      longest = Math.max(longest, now - last);
      if (now - last > 50) slow += 1;
      last = now;
      frames += 1;
      step += 1;
      list.scrollTop = (list.scrollHeight * step) / 120;
      if (step < 120) requestAnimationFrame(frame);
      else done({ frames, slow, longest });
    };
    requestAnimationFrame(frame);
  });
}

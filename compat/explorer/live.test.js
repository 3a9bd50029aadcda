// The live page of a run in a real browser: the charts of the trial that goes on, and the report of the cases that have ended.

"use strict";

const assert = require("node:assert/strict");
const { spawn } = require("node:child_process");
const { once } = require("node:events");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const readline = require("node:readline");
const { after, before, test } = require("node:test");
const { chromium } = require("playwright-core");

const SCENARIO = `
scenario: watched
description: A run that somebody watches.
topology: {entities: {in: {hub: events, partitions: 2}, out: {hub: out, partitions: 2}}, load: in, pipeline: {from: in, to: out}, sink: out}
embedded: {log_per_hub: 64 MiB}
relay: {fan_out: 2}
load: {mode: open, rate: 2000/s, batch: 20}
phases: {warm_up: 200 ms, drain: 20 s}
sweeps: {measure: {phases.measure: [1 s, 1 min]}}
`;

let browser;
let folder;
let run;
let address;
let told = "";

before(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
  folder = fs.mkdtempSync(path.join(os.tmpdir(), "compat-live-"));
  fs.writeFileSync(path.join(folder, "watched.yaml"), SCENARIO);
  run = spawn(process.env.PARSHALL_BINARY, ["run", "./watched.yaml", "--live", "127.0.0.1:0"], { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  for await (const line of readline.createInterface({ input: run.stderr })) {
    told += `${line}\n`;
    address = line.match(/live page at (http:\S+)/)?.[1];
    if (address) break;
  }
  run.stderr.resume();
});

after(async () => {
  await browser?.close();
  if (run?.exitCode === null) run.kill("SIGKILL");
  fs.rmSync(folder, { recursive: true, force: true });
});

test("a run is watched from its first trial to its end", { timeout: 180_000 }, async () => {
  assert.ok(address, `the run says where its page is: ${told}`);
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: "dark" });
  const page = await context.newPage();
  const problems = [];
  const loaded = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("request", (request) => loaded.push(request.url()));
  await page.goto(address);
  await page.locator("#now h2", { hasText: "[2/2]" }).filter({ hasText: "measuring" }).waitFor({ timeout: 120_000 });
  for (const caption of ["Throughput", "Lag", "CPU", "Memory"]) {
    await page.locator("#now figcaption", { hasText: caption }).waitFor();
  }
  const elapsed = () => page.locator("#now .clock").innerText();
  const first = await elapsed();
  await page.waitForFunction((before) => document.querySelector("#now .clock").innerText !== before, first);

  // The report of the case that has ended, which runs nothing and is as high as what it shows.
  const report = page.frameLocator("#report");
  await report.locator("h2", { hasText: "1 s" }).first().waitFor();
  await page.waitForFunction(() => document.getElementById("report").clientHeight > 600);

  await page.keyboard.press("Space");
  assert.equal(await page.locator("#pause").getAttribute("aria-pressed"), "true");
  const paused = await elapsed();
  const asked = page.waitForResponse((response) => response.url().endsWith("/events"));
  await asked;
  await page.waitForResponse((response) => response.url().endsWith("/events"));
  assert.equal(await elapsed(), paused, "what is paused stands still");
  await page.keyboard.press("Space");
  await page.waitForFunction((before) => document.querySelector("#now .clock").innerText !== before, paused);

  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 844 });
    const excess = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(excess <= 0, `at ${width} px the page is ${excess} px too wide`);
    const folderOfPictures = process.env.EXPLORER_SCREENSHOTS;
    if (folderOfPictures) await page.screenshot({ path: path.join(folderOfPictures, `live-${width}.png`) });
  }
  assert.deepEqual(problems, []);
  assert.deepEqual(loaded.filter((url) => !url.startsWith(address) && !url.startsWith("data:")), [], "nothing comes from elsewhere");

  const ended = once(run, "exit");
  run.kill("SIGINT");
  await ended;
  await page.locator("#state", { hasText: "the run has ended" }).waitFor({ timeout: 30_000 });
});

// Drives ADK's web page like a user: messages are typed, buttons are clicked, and assertions are about the rendered page only.
//
// Usage: node page.mjs LINK CHROMIUM MODULES FOLDER. LINK is the link that the server prints at its start; MODULES contains
// playwright-core. FOLDER is for a screenshot of a failure, and for the sessions of the first run: a second run expects them after a
// restart of the server. Prints a line for each check; the first failure ends the program.

import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [link, executablePath, modules, folder] = process.argv.slice(2);
const [shot, stored] = [join(folder, "page.png"), join(folder, "sessions.json")];
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const { origin } = new URL(link);

const TIMEOUT = 20_000;
// The page links to this file, but the wheel does not contain it.
const MISSING_FILE = "/dev-ui/prism-dark.css";

const WEATHER = 'Tool get_weather said: {"city":"Paris","report":"sunny, 21C","status":"ok"}';
const WEATHER_ROWS = ["user: tool", 'bot: bolt get_weather("Paris")', "bot: check get_weather", `bot: ${WEATHER}`];
const FAILURE_ROW = 'bot: ERROR errorCode : "RuntimeError" errorMessage : "canned model failure"';
const DANGER_REQUESTED = ['bot: bolt danger("rm")', "bot: bolt adk_request_confirmation", "bot: check danger"];
const DANGER_DONE = ["user: check adk_request_confirmation", "bot: check danger", 'bot: Tool danger said: {"done":"rm"}'];

// Tag characters, a bidi override and a zero-width space: a model reads them, and a person would not see them.
const HIDDEN = "a\u{E0041}\u{E0042}\u202E\u200Bz";
const SHOWN = "a<U+E0041><U+E0042><U+202E><U+200B>z";

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-background-networking"] });
const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
context.setDefaultTimeout(TIMEOUT);
// The page works without external fonts, so that the test needs no network.
await context.route((url) => url.origin !== origin, (route) => route.abort());
const page = await context.newPage();
const errors = collectErrors();

let failed = false;
try {
  await logIn();
  if (existsSync(stored)) await afterRestart(JSON.parse(readFileSync(stored, "utf8")));
  else await firstRun();
} catch (error) {
  failed = true;
  await page.screenshot({ path: shot }).catch(() => {});
  const why = error.message.replace(/\x1b\[\d+m/g, "").trim();
  console.log(`page: ${why}\nrendered rows: ${JSON.stringify(await rows().catch(() => []), null, 2)}`);
  for (const error of errors) console.log(`page: ${error}`);
  console.log(`page: screenshot in ${shot}`);
} finally {
  await browser.close();
}
process.exitCode = failed ? 1 : 0;

async function firstRun() {
  const first = await conversation({ streaming: false });
  await clickButton("New Session");
  const second = await conversation({ streaming: true });
  await openFromList(first, second);
  assert.deepEqual(errors, [], "the page reported errors");
  report("no request of the page failed, and it threw no error");
  await evaluation();
  await brokenApp();
  const sessions = [first, second].map(({ url, rows }) => ({ search: new URL(url).search, rows }));
  writeFileSync(stored, JSON.stringify(sessions));
}

/** The sessions of the first run and their model calls are as they were. */
async function afterRestart(sessions) {
  for (const { search, rows } of sessions) {
    await page.goto(`${origin}/dev-ui/${search}`);
    await expectRows(rows);
    await requestAndResponse("after a restart");
  }
  assert.deepEqual(errors, [], "the page reported errors");
}

/** The page sends the request and shows no error of it; the answer says what to do. */
async function evaluation() {
  await page.getByRole("tab", { name: "Evals" }).click();
  await page.getByText("Create Evaluation Set").last().click();
  const answered = page.waitForResponse((response) => response.status() === 501);
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const { detail } = await (await answered).json();
  assert.equal(detail, "evaluation is not installed in this server; evaluate agents with google-adk");
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("tab", { name: "Info" }).click();
  report("no evaluation set: 501 with the reason");
}

/** The page shows why the agent does not load. */
async function brokenApp() {
  await page.goto(`${origin}/dev-ui/?app=broken`);
  await sendMessage("hello");
  await notification("agents/broken/root_agent.yaml");
  report("an app that cannot be loaded: its reason");
}

/** Waits for a notification and closes it. */
async function notification(text) {
  const bar = page.locator("mat-snack-bar-container").filter({ hasText: text });
  await bar.waitFor();
  await bar.getByRole("button").click();
  await bar.waitFor({ state: "detached" });
}

/** The link authenticates this browser, once, and no other one. */
async function logIn() {
  await page.goto(link);
  assert.equal(page.url(), `${origin}/dev-ui/`);
  const [cookie] = await context.cookies();
  assert.ok(cookie?.httpOnly && cookie.sameSite === "Strict", `the cookie: ${cookie?.httpOnly}, ${cookie?.sameSite}`);
  const other = await browser.newContext();
  for (const address of [link, `${origin}/list-apps`]) {
    const { status } = await other.request.get(address).then((answer) => ({ status: answer.status() }));
    assert.equal(status, 401, `another browser gets ${status} from ${new URL(address).pathname}`);
  }
  await other.close();
  await clickButton("Select an app");
  await page.getByRole("button", { name: "canned" }).first().click();
  report("the printed link opens the page, once; the agents are listed");
}

/** All features in one session. Returns its URL and its rows. */
async function conversation({ streaming }) {
  const how = streaming ? "streaming" : "not streaming";
  await setStreaming(streaming);

  // The two conversations have different first messages, so that their rows differ.
  const greeting = streaming ? "hello again" : "hello";
  const [request] = await Promise.all([nextRun(), sendMessage(greeting)]);
  assert.equal(request.postDataJSON().streaming, streaming, "the streaming flag of the request");
  await expectLastRows([`user: ${greeting}`, `bot: Hello from canned model. You said: ${greeting}`]);
  report(`${how}: a text`);

  await streamedText(streaming);
  report(streaming ? `${how}: a text that grows` : `${how}: a slow text, at once`);

  await sendMessage("tool");
  await expectLastRows(WEATHER_ROWS);
  report(`${how}: a tool call and its answer`);
  await requestAndResponse(how);

  await sendMessage("artifact");
  await expectLastRows(['bot: Tool make_artifact said: {"version":0}']);
  await page.getByRole("tab", { name: "Artifacts" }).click();
  await page.locator("app-artifact-tab").getByText("artifact body").waitFor();
  await page.getByRole("tab", { name: "Info" }).click();
  report(`${how}: a file that a tool made`);

  await confirmation(how);
  await longRunning(how);

  await sendMessage("raise");
  await expectLastRows(["user: raise", FAILURE_ROW]);
  await notification("RuntimeError: canned model failure");
  report(`${how}: an error, as an event and as a notification`);

  await sendMessage(HIDDEN);
  // The page shows the text that was typed into it, until it gets the event of the server.
  await expectLastRows([`bot: Hello from canned model. You said: ${SHOWN}`]);
  const typed = (await rows()).length - 2;

  const session = { url: page.url(), rows: (await rows()).with(typed, `user: ${SHOWN}`) };
  await page.reload();
  await page.waitForURL(session.url);
  await expectRows(session.rows);
  const document = await page.content();
  assert.ok(!/[\u{E0000}-\u{E0FFF}\u202E]/u.test(document), "the page contains hidden characters");
  report(`${how}: hidden characters are shown`);
  assert.ok(new URL(session.url).searchParams.get("session"), `no session in ${session.url}`);
  report(`${how}: after a reload the same session with its ${session.rows.length} events`);
  return session;
}

/** The panels of the last answer show the request that was sent, and the answer. */
async function requestAndResponse(how) {
  await page.getByText(WEATHER).last().click();
  const panel = page.locator("app-side-panel");
  await panel.getByText("input", { exact: true }).click();
  for (const text of ["system_instruction", "Be canned.", "tool_call_response", "sunny, 21C", "tool_definitions", "make_artifact"]) {
    await panel.getByText(text).first().waitFor();
  }
  await panel.getByText("output", { exact: true }).click();
  await panel.getByText("finish_reason").first().waitFor();
  await panel.getByText("Tool get_weather said:").first().waitFor();
  await panel.getByText("remove_selection").click();
  report(`${how}: the request and the response of a model call`);
}

/** A confirmed tool is executed, also after a reload; a rejected one is not. */
async function confirmation(how) {
  await sendMessage("confirm");
  await expectLastRows(["user: confirm", ...DANGER_REQUESTED]);
  await page.reload();
  await expectLastRows(["user: confirm", ...DANGER_REQUESTED]);
  await answer(true);
  await expectLastRows(DANGER_DONE);
  await page.locator(".confirmation-container").waitFor({ state: "detached" });
  report(`${how}: a confirmation given, after a reload, and its tool executed`);

  await sendMessage("confirm");
  await expectLastRows(["user: confirm", ...DANGER_REQUESTED]);
  await answer(false);
  await expectLastRows([...DANGER_DONE.slice(0, 2), 'bot: Tool danger said: {"error":"This tool call is rejected."}']);
  report(`${how}: a confirmation rejected, and its tool not executed`);
}

/** The late result of a long-running call, typed by the user. */
async function longRunning(how) {
  await sendMessage("long");
  await expectLastRows(["user: long", 'bot: bolt slow_job("j1")', "bot: check slow_job", 'bot: Tool slow_job said: {"job":"j1","status":"pending"}']);
  const result = page.locator("app-long-running-response input").last();
  // At the end of an answer the page moves the focus to the message box, which can get the text instead.
  do await result.fill("42");
  while ((await result.inputValue()) !== "42");
  await result.press("Enter");
  await expectLastRows(["user: check slow_job", 'bot: Tool slow_job said: {"result":"42"}']);
  await page.getByPlaceholder("Type a message...").fill("");
  report(`${how}: a long-running call and its late result`);
}

async function answer(yes) {
  const dialog = page.locator(".confirmation-container");
  await dialog.getByRole("checkbox").setChecked(yes);
  await dialog.getByRole("button", { name: "Submit" }).click();
}

/** Records every state of the last bubble until the answer is complete. */
async function streamedText(streaming) {
  await page.evaluate(() => {
    globalThis.states = [];
    const record = () => {
      const text = [...document.querySelectorAll("app-event-row.bot .content-bubble")].at(-1)?.innerText.trim();
      if (text?.startsWith("One") && text !== globalThis.states.at(-1)) globalThis.states.push(text);
    };
    globalThis.observer = new MutationObserver(record);
    globalThis.observer.observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  await sendMessage("slowly");
  await expectLastRows(["user: slowly", "bot: One, two, three, four."]);
  const states = await page.evaluate(() => (globalThis.observer.disconnect(), globalThis.states));
  assert.ok(streaming ? states.length > 1 : states.length === 1, `the text was shown as ${JSON.stringify(states)}`);
  for (const state of states) assert.ok(states.at(-1).startsWith(state), `${state} became ${states.at(-1)}`);
}

/** The list of sessions links to each session. */
async function openFromList(first, second) {
  await page.locator(".selector-button").nth(1).click();
  await page.getByText(new URL(first.url).searchParams.get("session")).click();
  await page.waitForURL(first.url);
  await expectRows(first.rows);
  assert.notEqual(first.url, second.url, "two sessions have the same URL");
  assert.notDeepEqual(first.rows, second.rows, "two sessions have the same rows");
  report("the list of sessions links to the first one");
}

async function setStreaming(wanted) {
  await clickButton("More options");
  const item = page.getByRole("menuitem", { name: "Streaming" });
  const isOn = (await item.innerText()).split("\n").includes("check_box");
  if (isOn !== wanted) await item.click();
  await page.keyboard.press("Escape");
  await page.locator(".cdk-overlay-backdrop").waitFor({ state: "detached" });
}

function nextRun() {
  return page.waitForRequest((request) => request.url() === `${origin}/run_sse`);
}

async function sendMessage(message) {
  const box = page.getByPlaceholder("Type a message...");
  await box.fill(message);
  await box.press("Enter");
}

function clickButton(name) {
  return page.getByRole("button", { name }).first().click();
}

/** The rendered events: author, icons and names of calls, text. */
function rows() {
  return page.locator("app-event-row").evaluateAll((found) =>
    found.map((row) => {
      const author = row.classList.contains("user") ? "user" : "bot";
      const pieces = [...row.querySelectorAll(".content-bubble, .hover-info-button")];
      return `${author}: ${pieces.map((piece) => piece.innerText.trim().split(/\s*\n\s*/).join(" ")).join(" | ")}`;
    }),
  );
}

/** Waits until the last rows are these. */
function expectLastRows(expected) {
  return until(expected, (now) => now.slice(-expected.length));
}

function expectRows(expected) {
  return until(expected, (now) => now);
}

async function until(expected, part) {
  const wanted = JSON.stringify(expected);
  const end = Date.now() + TIMEOUT;
  while (JSON.stringify(part(await rows())) !== wanted) {
    assert.ok(Date.now() < end, `the page does not show ${JSON.stringify(expected, null, 2)}`);
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
}

function collectErrors() {
  const found = [];
  page.on("pageerror", (error) => found.push(`threw ${error}`));
  page.on("response", (response) => {
    const { pathname } = new URL(response.url());
    if (response.status() >= 400 && pathname !== MISSING_FILE) {
      found.push(`${response.status()} to ${response.request().method()} ${pathname}`);
    }
  });
  page.on("console", (message) => {
    const ofLoading = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !ofLoading) found.push(`wrote ${message.text().slice(0, 500)}`);
  });
  return found;
}

function report(what) {
  console.log(`page: ${what}`);
}

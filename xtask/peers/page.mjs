// Holds conversations on ADK's own web page, as a person would: every word is typed, every button pressed, and only what the page
// shows counts as seen.
//
// Usage: node page.mjs LINK CHROMIUM MODULES SHOT. LINK is what the server prints at its start; MODULES has playwright-core; a
// picture of the page goes to SHOT if something is wrong. Prints a line for each thing seen; the first that is wrong ends it.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [link, executablePath, modules, shot] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const { origin } = new URL(link);

const PATIENCE = 20_000;
// The page links to it, and the wheel does not have it.
const NOT_IN_THE_WHEEL = "/dev-ui/prism-dark.css";

const WEATHER = 'Tool get_weather said: {"city":"Paris","report":"sunny, 21C","status":"ok"}';
const WEATHER_ASKED = ["user: tool", 'bot: bolt get_weather("Paris")', "bot: check get_weather", `bot: ${WEATHER}`];
const DANGER_ASKED = ['bot: bolt danger("rm")', "bot: bolt adk_request_confirmation", "bot: check danger"];
const DANGER_DONE = ["user: check adk_request_confirmation", "bot: check danger", 'bot: Tool danger said: {"done":"rm"}'];

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-background-networking"] });
const context = await browser.newContext({ viewport: { width: 1400, height: 900 } });
context.setDefaultTimeout(PATIENCE);
// Fonts and the like come from elsewhere; the page works without them, and so do tests without a network.
await context.route((url) => url.origin !== origin, (route) => route.abort());
const page = await context.newPage();
const complaints = listen();

let failed = false;
try {
  await logIn();
  const first = await conversation({ streaming: false });
  await press("New Session");
  const second = await conversation({ streaming: true });
  await backTo(first, second);
  assert.deepEqual(complaints, [], "the page got what it did not expect");
  seen("no request of the page failed, and it threw no error");
} catch (error) {
  failed = true;
  await page.screenshot({ path: shot }).catch(() => {});
  const why = error.message.replace(/\x1b\[\d+m/g, "").trim();
  console.log(`page: ${why}\nthe rows that it shows: ${JSON.stringify(await rows().catch(() => []), null, 2)}`);
  for (const complaint of complaints) console.log(`page: ${complaint}`);
  console.log(`page: a picture of it is in ${shot}`);
} finally {
  await browser.close();
}
process.exitCode = failed ? 1 : 0;

/** The link lets this browser in, once, and nobody else. */
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
  await press("Select an app");
  await page.getByRole("button", { name: "canned" }).first().click();
  seen("the printed link opens the page, once; the agents are listed");
}

/** Everything in one session; gives its address and what it shows. */
async function conversation({ streaming }) {
  const how = streaming ? "streaming" : "not streaming";
  await chooseStreaming(streaming);

  // The two conversations differ in their first words, so that what is shown tells which of them it is.
  const greeting = streaming ? "hello again" : "hello";
  const [request] = await Promise.all([nextRun(), say(greeting)]);
  assert.equal(request.postDataJSON().streaming, streaming, "what the page asks for");
  await shows([`user: ${greeting}`, `bot: Hello from canned model. You said: ${greeting}`]);
  seen(`${how}: a text`);

  await growing(streaming);
  seen(streaming ? `${how}: a text that grows` : `${how}: a slow text, at once`);

  await say("tool");
  await shows(WEATHER_ASKED);
  seen(`${how}: a tool call and its answer`);

  await say("artifact");
  await shows(['bot: Tool make_artifact said: {"version":0}']);
  await page.getByRole("tab", { name: "Artifacts" }).click();
  await page.locator("app-artifact-tab").getByText("artifact body").waitFor();
  await page.getByRole("tab", { name: "Info" }).click();
  seen(`${how}: a file that a tool made`);

  await confirmation(how);

  const session = { url: page.url(), rows: await rows() };
  await page.reload();
  await page.waitForURL(session.url);
  await showsExactly(session.rows);
  assert.ok(new URL(session.url).searchParams.get("session"), `no session in ${session.url}`);
  seen(`${how}: after a reload the same session with its ${session.rows.length} events`);
  return session;
}

/** Yes runs the tool, also after a reload; no does not. */
async function confirmation(how) {
  await say("confirm");
  await shows(["user: confirm", ...DANGER_ASKED]);
  await page.reload();
  await shows(["user: confirm", ...DANGER_ASKED]);
  await answer(true);
  await shows(DANGER_DONE);
  await page.locator(".confirmation-container").waitFor({ state: "detached" });
  seen(`${how}: a confirmation given, after a reload, and its tool run`);

  await say("confirm");
  await shows(["user: confirm", ...DANGER_ASKED]);
  await answer(false);
  await shows([...DANGER_DONE.slice(0, 2), 'bot: Tool danger said: {"error":"This tool call is rejected."}']);
  seen(`${how}: a confirmation refused, and its tool not run`);
}

async function answer(yes) {
  const dialog = page.locator(".confirmation-container");
  await dialog.getByRole("checkbox").setChecked(yes);
  await dialog.getByRole("button", { name: "Submit" }).click();
}

/** Looks at every state of the last bubble, from when the message leaves until the answer is whole. */
async function growing(streaming) {
  await page.evaluate(() => {
    globalThis.states = [];
    const look = () => {
      const text = [...document.querySelectorAll("app-event-row.bot .content-bubble")].at(-1)?.innerText.trim();
      if (text?.startsWith("One") && text !== globalThis.states.at(-1)) globalThis.states.push(text);
    };
    globalThis.observer = new MutationObserver(look);
    globalThis.observer.observe(document.body, { childList: true, subtree: true, characterData: true });
  });
  await say("slowly");
  await shows(["user: slowly", "bot: One, two, three, four."]);
  const states = await page.evaluate(() => (globalThis.observer.disconnect(), globalThis.states));
  assert.ok(streaming ? states.length > 1 : states.length === 1, `the text was shown as ${JSON.stringify(states)}`);
  for (const state of states) assert.ok(states.at(-1).startsWith(state), `${state} became ${states.at(-1)}`);
}

/** The list of sessions leads to each of them. */
async function backTo(first, second) {
  await page.locator(".selector-button").nth(1).click();
  await page.getByText(new URL(first.url).searchParams.get("session")).click();
  await page.waitForURL(first.url);
  await showsExactly(first.rows);
  assert.notEqual(first.url, second.url, "two sessions with one address");
  assert.notDeepEqual(first.rows, second.rows, "two sessions that cannot be told apart");
  seen("the list of sessions leads back to the first");
}

async function chooseStreaming(wanted) {
  await press("More options");
  const item = page.getByRole("menuitem", { name: "Streaming" });
  const isOn = (await item.innerText()).split("\n").includes("check_box");
  if (isOn !== wanted) await item.click();
  await page.keyboard.press("Escape");
  await page.locator(".cdk-overlay-backdrop").waitFor({ state: "detached" });
}

function nextRun() {
  return page.waitForRequest((request) => request.url() === `${origin}/run_sse`);
}

async function say(message) {
  const box = page.getByPlaceholder("Type a message...");
  await box.fill(message);
  await box.press("Enter");
}

function press(name) {
  return page.getByRole("button", { name }).first().click();
}

/** The events as the page shows them: who, the icons and names of calls, the text. */
function rows() {
  return page.locator("app-event-row").evaluateAll((found) =>
    found.map((row) => {
      const who = row.classList.contains("user") ? "user" : "bot";
      const pieces = [...row.querySelectorAll(".content-bubble, .hover-info-button")];
      return `${who}: ${pieces.map((piece) => piece.innerText.trim().split(/\s*\n\s*/).join(" ")).join(" | ")}`;
    }),
  );
}

/** Waits until the last events are these. */
function shows(expected) {
  return until(expected, (now) => now.slice(-expected.length));
}

function showsExactly(expected) {
  return until(expected, (now) => now);
}

async function until(expected, part) {
  const wanted = JSON.stringify(expected);
  const end = Date.now() + PATIENCE;
  while (JSON.stringify(part(await rows())) !== wanted) {
    assert.ok(Date.now() < end, `the page does not show ${JSON.stringify(expected, null, 2)}`);
    await page.evaluate(() => new Promise(requestAnimationFrame));
  }
}

function listen() {
  const found = [];
  page.on("pageerror", (error) => found.push(`threw ${error}`));
  page.on("response", (response) => {
    const { pathname } = new URL(response.url());
    if (response.status() >= 400 && pathname !== NOT_IN_THE_WHEEL) {
      found.push(`${response.status()} to ${response.request().method()} ${pathname}`);
    }
  });
  page.on("console", (message) => {
    const ofLoading = message.text().startsWith("Failed to load resource");
    if (message.type() === "error" && !ofLoading) found.push(`wrote ${message.text().slice(0, 500)}`);
  });
  return found;
}

function seen(what) {
  console.log(`page: ${what}`);
}

// Google's JavaScript client, `AdkApiClient` of `@google/adk-devtools`, against our server. Every event that a run stores must
// arrive, and a failed run must be an error.
// Usage: adk_client.mjs URL MODULES. Prints a line for each check; the first failure ends the program.

import assert from 'node:assert/strict';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [url, modules] = process.argv.slice(2);
const file = path.join(modules, 'node_modules/@google/adk-devtools/dist/esm/server/adk_api_client.js');
const { AdkApiClient } = await import(pathToFileURL(file).href);
const client = new AdkApiClient({ backendUrl: url });

const app = { appName: 'canned', userId: 'user' };
const REQUEST_CONFIRMATION = 'adk_request_confirmation';

function report(what) {
  console.log(`adk-devtools: ${what}`);
}

/// Runs a message and returns its events and its error.
async function run(session, newMessage, streaming) {
  const events = [];
  try {
    for await (const event of client.runAsync({ ...app, sessionId: session.id, newMessage, streaming })) {
      events.push(event);
    }
  } catch (error) {
    return { events, error: error.message };
  }
  return { events };
}

function respond(call, response) {
  return { role: 'user', parts: [{ functionResponse: { id: call.id, name: call.name, response } }] };
}

function callOf(events, name) {
  const parts = events.flatMap((event) => event.content?.parts ?? []);
  const call = parts.map((part) => part.functionCall).findLast((call) => call?.name === name);
  assert(call, `no call of ${name}`);
  return call;
}

/// The stored events among those that arrived. An event with content and artifacts arrives in two halves with one id.
function stored(events) {
  const whole = [];
  for (const event of events.filter((event) => !event.partial)) {
    const last = whole.at(-1);
    if (last?.id === event.id) {
      last.actions = event.actions;
    } else {
      whole.push(structuredClone(event));
    }
  }
  return whole;
}

/// Checks that the session holds exactly the events that arrived, besides the user's own.
async function compare(session, arrived, what) {
  const { events } = await client.getSession({ ...app, sessionId: session.id });
  const withoutFlag = ({ partial, ...event }) => event;
  const ours = events.filter((event) => event.author !== 'user').map(withoutFlag);
  assert.deepEqual(stored(arrived).map(withoutFlag), ours, `${what}: arrived and stored events differ`);
}

const FAILURES = { raise: /canned model failure/ };
const ANSWERS = {
  confirm: (events) => respond(callOf(events, REQUEST_CONFIRMATION), { confirmed: true }),
  long: (events) => respond(callOf(events, 'slow_job'), { status: 'done' }),
};

async function scenario(word, streaming) {
  const session = await client.createSession(app);
  const what = `${word}, ${streaming ? 'streamed' : 'whole'}`;
  const first = await run(session, `${word} please`, streaming);
  if (FAILURES[word]) {
    assert.match(first.error ?? 'no error', FAILURES[word], what);
  } else {
    assert.equal(first.error, undefined, what);
  }
  assert(first.events.length > 0, `${what}: no events`);
  const events = first.events;
  if (ANSWERS[word]) {
    const answered = await run(session, ANSWERS[word](events), streaming);
    assert.equal(answered.error, undefined, what);
    assert(answered.events.length > 0, `${what}: no events after the answer`);
    events.push(...answered.events);
  }
  const partial = events.filter((event) => event.partial).length;
  assert(streaming || partial === 0, `${what}: partial events`);
  await compare(session, events, what);
  await client.deleteSession({ ...app, sessionId: session.id });
  return partial;
}

const words = [
  'hello', 'tool', 'parallel', 'texttool', 'think', 'state', 'artifact', 'transfer', 'confirm', 'long', 'toolerror',
  'unknowntool', 'errcode', 'raise',
];
assert((await client.listApps()).includes('canned'));
let partial = 0;
for (const word of words) {
  partial += await scenario(word, false) + await scenario(word, true);
}
assert(partial > 10, `${partial} partial events`);
report(`${words.length} kinds of runs, whole and streamed: every stored event arrives, and ${partial} partial ones`);

const named = await client.createSession({ ...app, sessionId: 'by-name' });
assert.equal(named.id, 'by-name');
const listed = await client.listAllSessions({ userId: 'user' });
assert(listed.some((session) => session.id === 'by-name'));
const call = { role: 'user', parts: [{ functionCall: { name: 'get_weather', args: { city: 'Paris' } } }] };
const refused = await run(named, call, false);
assert.deepEqual(refused, { events: [], error: 'ValueError: User message cannot contain function calls.' });
await compare(named, [], 'a refused call');
await assert.rejects(client.createSession({ ...app, appName: 'nope' }), /404/);
report('sessions by name, a refused function call, an unknown app');

await run(named, 'artifact please', false);
const place = { ...app, sessionId: named.id };
const names = await client.listArtifacts(place);
assert.deepEqual(names, ['hello.txt']);
assert.deepEqual(await client.listArtifactVersions({ ...place, artifactName: 'hello.txt' }), [0]);
assert(await client.loadArtifact({ ...place, artifactName: 'hello.txt', version: 0 }));
await client.deleteArtifact({ ...place, artifactName: 'hello.txt' });
assert.deepEqual(await client.listArtifacts(place), []);
report('artifacts listed, read and deleted');

"""Asks our server as Python programs ask ADK's: with httpx and with requests, every answer read by google-adk's own types.

An answer is good if ADK's type takes it and prints it back as it came: then no field is missing, misspelt or of our own making.
Usage: clients.py URL TOKEN-FILE. Prints a line for each thing seen; the first that is wrong ends it.
"""

import asyncio
import json
import sys
import warnings
from pathlib import Path

import httpx
import requests

warnings.simplefilter("ignore")

from google.adk.artifacts.base_artifact_service import ArtifactVersion
from google.adk.cli.api_server import (
    AppInfo,
    CreateSessionRequest,
    ListAppsResponse,
    RunAgentRequest,
    SaveArtifactRequest,
    UpdateMemoryRequest,
    UpdateSessionRequest,
)
from google.adk.cli.dev_server import (
    GetEventGraphResult,
    ListEvalResultsResponse,
    ListEvalSetsResponse,
)
from google.adk.events.event import Event
from google.adk.flows.llm_flows.functions import REQUEST_CONFIRMATION_FUNCTION_CALL_NAME
from google.adk.sessions.session import Session
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from pydantic import TypeAdapter, ValidationError

PATIENCE = 30
SESSIONS = "/apps/canned/users/ann/sessions"


class Wrong(Exception):
    """Something that a client of ADK would stumble over."""


def must(holds, what):
    if not holds:
        raise Wrong(what)


def read(kind, text, where):
    """The text as ADK's type, which must print it back unchanged."""
    reader = TypeAdapter(kind)
    try:
        value = reader.validate_json(text)
    except ValidationError as error:
        raise Wrong(f"{where}: google-adk cannot read the answer: {error}\n{text[:2000]}") from error
    came = json.loads(text)
    printed = json.loads(reader.dump_json(value, by_alias=True, exclude_none=True))
    for place, ours, adks in differences(came, printed):
        raise Wrong(f"{where}: at {place or 'the top'} the answer has {ours}, google-adk prints {adks}")
    return value


def differences(ours, adks, place=""):
    if isinstance(ours, dict) and isinstance(adks, dict):
        for key in sorted(ours.keys() | adks.keys()):
            # What is null and what is left out mean the same here; the replay of recorded exchanges looks at that.
            if ours.get(key) is not None or adks.get(key) is not None:
                yield from differences(ours.get(key), adks.get(key), f"{place}.{key}")
    elif isinstance(ours, list) and isinstance(adks, list) and len(ours) == len(adks):
        for index, pair in enumerate(zip(ours, adks)):
            yield from differences(*pair, f"{place}[{index}]")
    elif ours != adks:
        yield place, json.dumps(ours), json.dumps(adks)


class Httpx:
    name = "httpx"

    def __init__(self, base, headers):
        self.client = httpx.Client(base_url=base, headers=headers, timeout=PATIENCE)

    def ask(self, method, path, body=None):
        answer = self.client.request(method, path, json=body)
        return answer.status_code, answer.text

    def lines(self, path, body):
        with self.client.stream("POST", path, json=body) as answer:
            must_stream(answer.status_code, answer.headers)
            yield from answer.iter_lines()


class Requests:
    name = "requests"

    def __init__(self, base, headers):
        self.base = base
        self.client = requests.Session()
        self.client.headers.update(headers)

    def ask(self, method, path, body=None):
        answer = self.client.request(method, self.base + path, json=body, timeout=PATIENCE)
        return answer.status_code, answer.text

    def lines(self, path, body):
        with self.client.post(self.base + path, json=body, stream=True, timeout=PATIENCE) as answer:
            must_stream(answer.status_code, answer.headers)
            yield from (line.decode() for line in answer.iter_lines())


def must_stream(status, headers):
    kind = headers.get("content-type", "")
    must(status == 200 and kind.startswith("text/event-stream"), f"/run_sse: {status} {kind}")


class Talk:
    """One library's way through the whole API."""

    def __init__(self, http):
        self.http = http

    def seen(self, what):
        print(f"{self.http.name}: {what}")

    def get(self, kind, method, path, body=None):
        status, text = self.http.ask(method, path, body)
        must(status == 200, f"{method} {path}: {status} {text[:500]}")
        return read(kind, text, f"{method} {path}")

    def fails(self, expected, method, path, body=None):
        status, text = self.http.ask(method, path, body)
        must(status == expected, f"{method} {path}: {status} instead of {expected}: {text[:500]}")
        detail = json.loads(text)["detail"]
        if status == 422:
            must(detail and all({"loc", "msg", "type"} <= set(one) for one in detail), f"{path}: {text}")
        else:
            must(isinstance(detail, str) and detail, f"{path}: {text}")

    def whole(self):
        self.server()
        session = self.sessions()
        self.run(session)
        self.streams(session)
        self.confirmation()
        self.artifacts(session)
        self.page_routes(session)
        self.errors(session)
        self.end(session)

    def server(self):
        must(self.get(dict[str, str], "GET", "/health") == {"status": "ok"}, "/health is not ok")
        must("version" in self.get(dict[str, str], "GET", "/version"), "/version has no version")
        must("canned" in self.get(list[str], "GET", "/list-apps"), "/list-apps has no canned")
        apps = self.get(ListAppsResponse, "GET", "/list-apps?detailed=true").apps
        info = self.get(AppInfo, "GET", "/apps/canned/app-info")
        must(info.name in [app.name for app in apps], "the app's own name is not in the list")
        must(info.agents and "helper" in info.agents, "app-info does not tell the sub-agent")
        self.seen(f"health, version and {len(apps)} apps")

    def sessions(self):
        wanted = sent(CreateSessionRequest(state={"color": "red"}))
        made = self.get(Session, "POST", SESSIONS, wanted)
        must(made.state.get("color") == "red", f"a session was made with {made.state}")
        named = self.get(Session, "POST", f"{SESSIONS}/{self.http.name}", {"size": 1})
        must(named.id == self.http.name and named.state.get("size") == 1, "the old way to make a session")
        old = Event(author="user", content=said("before"))
        full = sent(CreateSessionRequest(session_id=f"{self.http.name}-full", events=[old]))
        full = self.get(Session, "POST", SESSIONS, full)
        must([event.content for event in full.events] == [old.content], "a session made with events")
        patch = sent(UpdateSessionRequest(state_delta={"color": "blue"}))
        must(self.get(Session, "PATCH", place(made), patch).state["color"] == "blue", "a patched state")
        again = self.get(Session, "GET", place(made))
        must(again.state["color"] == "blue" and again.id == made.id, "a session is not as it was patched")
        listed = [session.id for session in self.get(list[Session], "GET", SESSIONS)]
        must(made.id in listed and named.id in listed, f"{made.id} is not among {listed}")
        self.seen("sessions made in all ways, patched, read and listed")
        return made

    def run(self, session):
        words = {
            "hello": "Hello from canned model. You said: hello",
            "tool": 'Tool get_weather said: {"city":"Paris","report":"sunny, 21C","status":"ok"}',
        }
        for word, answer in words.items():
            events = self.get(list[Event], "POST", "/run", asking(session, word))
            must(texts(events)[-1] == answer, f"to {word} the answer was {texts(events)}")
            must(events[-1].is_final_response(), f"the answer to {word} is not final to google-adk")
        calls = [call.name for event in events for call in event.get_function_calls()]
        answers = [answer.name for event in events for answer in event.get_function_responses()]
        must(calls == answers == ["get_weather"], f"calls {calls}, answers {answers}")
        for word in ["parallel", "texttool", "state", "artifact", "think", "long", "toolerror", "unknowntool"]:
            must(self.get(list[Event], "POST", "/run", asking(session, word)), f"no events for {word}")
        as_python_spells_it = asking(session, "hello", by_alias=False)
        must(self.get(list[Event], "POST", "/run", as_python_spells_it), "no events for snake_case")
        self.seen("/run: text, tools, thinking, state, a file, failures")

    def stream(self, body):
        """The events of a streamed answer, which ends with a whole line."""
        data = [line for line in self.http.lines("/run_sse", body) if line.startswith("data: ")]
        return [read(Event, line.removeprefix("data: "), "/run_sse") for line in data]

    def streams(self, session):
        whole = self.stream(asking(session, "hello again"))
        must(not any(event.partial for event in whole), "pieces that nobody asked for")
        events = self.stream(asking(session, "hello again", streaming=True))
        pieces = texts(event for event in events if event.partial)
        must(len(pieces) > 1 and "".join(pieces) == texts(events)[-1], f"pieces {pieces}")
        must(texts(events)[-1] == texts(whole)[-1], "streamed and whole answers differ")
        for word in ["tool", "texttool", "think", "transfer", "errcode"]:
            must(self.stream(asking(session, word, streaming=True)), f"no events for {word}")
        kept = self.get(Session, "GET", place(session)).events
        missing = {event.id for event in [*whole, *events] if not event.partial} - {event.id for event in kept}
        must(not missing, f"events that were streamed and not stored: {missing}")
        self.seen(f"/run_sse: {len(pieces)} pieces and the whole, tools, thinking, a transfer, an error")

    def confirmation(self):
        session = self.get(Session, "POST", SESSIONS)
        asked = self.stream(asking(session, "confirm"))
        calls = [call for event in asked for call in event.get_function_calls()]
        call = next((call for call in calls if call.name == REQUEST_CONFIRMATION_FUNCTION_CALL_NAME), None)
        must(call, f"nobody was asked; calls: {[call.name for call in calls]}")
        ToolConfirmation.model_validate(call.args["toolConfirmation"])
        must(call.id in set().union(*(event.long_running_tool_ids or () for event in asked)), "not long-running")
        yes = ToolConfirmation(confirmed=True).model_dump(by_alias=True, exclude_none=True)
        answer = types.FunctionResponse(id=call.id, name=call.name, response=yes)
        body = asking(session, types.Content(role="user", parts=[types.Part(function_response=answer)]))
        done = self.stream(body)
        must(texts(done)[-1:] == ['Tool danger said: {"done":"rm"}'], f"after the yes: {texts(done)}")
        self.seen("a confirmation asked, answered, and its tool run")

    def artifacts(self, session):
        files = f"{place(session)}/artifacts"
        note = types.Part.from_bytes(data=b"two", mime_type="text/plain")
        body = sent(SaveArtifactRequest(filename="note.txt", artifact=note, custom_metadata={"a": 1}))
        saved = [self.get(ArtifactVersion, "POST", files, body) for _ in range(2)]
        must([one.version for one in saved] == [0, 1], f"versions {[one.version for one in saved]}")
        must("note.txt" in self.get(list[str], "GET", files), "a file is not listed")
        must(self.get(types.Part, "GET", f"{files}/note.txt").inline_data.data == b"two", "another file")
        must(self.get(list[int], "GET", f"{files}/note.txt/versions") == [0, 1], "the versions")
        self.get(types.Part, "GET", f"{files}/note.txt/versions/0")
        self.get(ArtifactVersion, "GET", f"{files}/note.txt/versions/0/metadata")
        must(len(self.get(list[ArtifactVersion], "GET", f"{files}/note.txt/versions/metadata")) == 2, "metadata")
        must(self.get(types.Part, "GET", f"{files}/hello.txt"), "the tool's own file")
        self.get(None, "DELETE", f"{files}/note.txt")
        self.fails(404, "GET", f"{files}/note.txt")
        self.seen("files saved, listed, read in each version, deleted")

    def page_routes(self, session):
        self.get(ListEvalSetsResponse, "GET", "/dev/apps/canned/eval-sets")
        self.get(ListEvalResultsResponse, "GET", "/dev/apps/canned/eval-results")
        self.get(list[str], "GET", "/dev/apps/canned/eval_sets")
        self.get(list[str], "GET", "/dev/apps/canned/eval_results")
        self.get(dict, "GET", "/dev/apps/canned/build_graph")
        self.get(list, "GET", f"/dev/apps/canned/debug/trace/session/{session.id}")
        event = next(event for event in self.get(Session, "GET", place(session)).events if event.get_function_calls())
        graph = f"/dev{place(session)}/events/{event.id}/graph"
        must(self.get(GetEventGraphResult, "GET", graph).dot_src, "an event without a graph")
        self.seen("what the web page asks for")

    def errors(self, session):
        self.fails(404, "GET", f"{SESSIONS}/nobody-made-it")
        self.fails(404, "POST", "/run", {**asking(session, "hello"), "sessionId": "nobody-made-it"})
        self.fails(404, "GET", "/no-such-route")
        self.fails(409, "POST", SESSIONS, {"sessionId": session.id})
        self.fails(405, "PUT", "/run")
        self.fails(422, "POST", "/run", {"appName": "canned"})
        self.fails(500, "POST", "/run", asking(session, "raise"))
        data = [line for line in self.http.lines("/run_sse", asking(session, "raise")) if line.startswith("data: ")]
        must("error" in json.loads(data[-1].removeprefix("data: ")), f"a stream that fails ends with {data[-1]}")
        self.seen("errors in FastAPI's shapes")

    def end(self, session):
        self.get(None, "PATCH", "/apps/canned/users/ann/memory", sent(UpdateMemoryRequest(session_id=session.id)))
        self.get(None, "DELETE", place(session))
        self.fails(404, "GET", place(session))
        self.seen("a session remembered, and deleted")


def place(session):
    return f"/apps/{session.app_name}/users/{session.user_id}/sessions/{session.id}"


def sent(request):
    return request.model_dump(mode="json", by_alias=True, exclude_none=True)


def asking(session, message, streaming=False, by_alias=True):
    message = message if isinstance(message, types.Content) else said(message)
    request = RunAgentRequest(
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.id,
        new_message=message,
        streaming=streaming,
    )
    return request.model_dump(mode="json", by_alias=by_alias, exclude_none=True)


def said(text):
    return types.Content(role="user", parts=[types.Part(text=text)])


def texts(events):
    """What was said, without the thoughts."""
    parts = ((event, event.content.parts or []) for event in events if event.content)
    told = ("".join(part.text for part in parts if part.text and not part.thought) for _, parts in parts)
    return [text for text in told if text]


async def at_once(base, headers):
    """Several messages to one session, as an async program sends them."""
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=PATIENCE) as client:
        session = read(Session, (await client.post(SESSIONS)).text, "POST sessions")
        bodies = [asking(session, f"number {number}") for number in range(4)]
        answers = await asyncio.gather(*(client.post("/run", json=body) for body in bodies))
        for number, answer in enumerate(answers):
            must(answer.status_code == 200, f"message {number} of 4 at once: {answer.status_code} {answer.text}")
            said = texts(read(list[Event], answer.text, "/run"))
            must(said == [f"Hello from canned model. You said: number {number}"], f"{said} to number {number}")
    print("httpx: four messages at once, each with its own answer")


def main(base, token_file):
    status = httpx.get(f"{base}/list-apps").status_code
    must(status == 401, f"without a token /list-apps answers {status}")
    headers = {"Authorization": f"Bearer {Path(token_file).read_text().strip()}"}
    for http in [Httpx(base, headers), Requests(base, headers)]:
        Talk(http).whole()
    asyncio.run(at_once(base, headers))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Wrong as wrong:
        sys.exit(f"clients: {wrong}")

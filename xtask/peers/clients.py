"""Calls our server as Python programs call ADK's: with httpx and with requests. google-adk's types parse every response.

A response is valid if ADK's type accepts it and serializes to the same JSON: then no field is missing, misspelt or unknown.
Usage: clients.py URL TOKEN-FILE. Prints a line for each check; the first failure ends the program.
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

TIMEOUT = 30
SESSIONS = "/apps/canned/users/ann/sessions"


class Failure(Exception):
    """A response that a client of ADK would not accept."""


def expect(holds, what):
    if not holds:
        raise Failure(what)


def read(kind, text, where):
    """Parses the text as ADK's type, which must serialize to the same JSON."""
    reader = TypeAdapter(kind)
    try:
        value = reader.validate_json(text)
    except ValidationError as error:
        raise Failure(f"{where}: google-adk cannot parse the response: {error}\n{text[:2000]}") from error
    received = json.loads(text)
    serialized = json.loads(reader.dump_json(value, by_alias=True, exclude_none=True))
    for place, ours, adks in differences(received, serialized):
        raise Failure(f"{where}: at {place or 'the top'} the response has {ours}, google-adk serializes {adks}")
    return value


def differences(ours, adks, place=""):
    if isinstance(ours, dict) and isinstance(adks, dict):
        for key in sorted(ours.keys() | adks.keys()):
            # Null and missing are equal here; the replay of recorded exchanges distinguishes them.
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
        self.client = httpx.Client(base_url=base, headers=headers, timeout=TIMEOUT)

    def request(self, method, path, body=None):
        answer = self.client.request(method, path, json=body)
        return answer.status_code, answer.text

    def lines(self, path, body):
        with self.client.stream("POST", path, json=body) as answer:
            expect_stream(answer.status_code, answer.headers)
            yield from answer.iter_lines()


class Requests:
    name = "requests"

    def __init__(self, base, headers):
        self.base = base
        self.client = requests.Session()
        self.client.headers.update(headers)

    def request(self, method, path, body=None):
        answer = self.client.request(method, self.base + path, json=body, timeout=TIMEOUT)
        return answer.status_code, answer.text

    def lines(self, path, body):
        with self.client.post(self.base + path, json=body, stream=True, timeout=TIMEOUT) as answer:
            expect_stream(answer.status_code, answer.headers)
            yield from (line.decode() for line in answer.iter_lines())


def expect_stream(status, headers):
    kind = headers.get("content-type", "")
    expect(status == 200 and kind.startswith("text/event-stream"), f"/run_sse: {status} {kind}")


class ApiTest:
    """A test of the whole API with one library."""

    def __init__(self, http):
        self.http = http

    def report(self, what):
        print(f"{self.http.name}: {what}")

    def get(self, kind, method, path, body=None):
        status, text = self.http.request(method, path, body)
        expect(status == 200, f"{method} {path}: {status} {text[:500]}")
        return read(kind, text, f"{method} {path}")

    def fails(self, expected, method, path, body=None):
        status, text = self.http.request(method, path, body)
        expect(status == expected, f"{method} {path}: {status} instead of {expected}: {text[:500]}")
        detail = json.loads(text)["detail"]
        if status == 422:
            expect(detail and all({"loc", "msg", "type"} <= set(one) for one in detail), f"{path}: {text}")
        else:
            expect(isinstance(detail, str) and detail, f"{path}: {text}")

    def run_all(self):
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
        expect(self.get(dict[str, str], "GET", "/health") == {"status": "ok"}, "/health is not ok")
        expect("version" in self.get(dict[str, str], "GET", "/version"), "/version has no version")
        expect("canned" in self.get(list[str], "GET", "/list-apps"), "/list-apps has no canned")
        apps = self.get(ListAppsResponse, "GET", "/list-apps?detailed=true").apps
        info = self.get(AppInfo, "GET", "/apps/canned/app-info")
        expect(info.name in [app.name for app in apps], "the app's own name is not in the list")
        expect(info.agents and "helper" in info.agents, "app-info does not list the sub-agent")
        self.report(f"health, version and {len(apps)} apps")

    def sessions(self):
        wanted = to_body(CreateSessionRequest(state={"color": "red"}))
        made = self.get(Session, "POST", SESSIONS, wanted)
        expect(made.state.get("color") == "red", f"a session was created with {made.state}")
        named = self.get(Session, "POST", f"{SESSIONS}/{self.http.name}", {"size": 1})
        expect(named.id == self.http.name and named.state.get("size") == 1, "a session created by the deprecated route")
        old = Event(author="user", content=user_content("before"))
        full = to_body(CreateSessionRequest(session_id=f"{self.http.name}-full", events=[old]))
        full = self.get(Session, "POST", SESSIONS, full)
        expect([event.content for event in full.events] == [old.content], "a session created with events")
        patch = to_body(UpdateSessionRequest(state_delta={"color": "blue"}))
        expect(self.get(Session, "PATCH", session_path(made), patch).state["color"] == "blue", "a patched state")
        again = self.get(Session, "GET", session_path(made))
        expect(again.state["color"] == "blue" and again.id == made.id, "a session does not have the patched state")
        listed = [session.id for session in self.get(list[Session], "GET", SESSIONS)]
        expect(made.id in listed and named.id in listed, f"{made.id} is not among {listed}")
        self.report("sessions created in all ways, patched, read and listed")
        return made

    def run(self, session):
        words = {
            "hello": "Hello from canned model. You said: hello",
            "tool": 'Tool get_weather said: {"city":"Paris","report":"sunny, 21C","status":"ok"}',
        }
        for word, answer in words.items():
            events = self.get(list[Event], "POST", "/run", run_body(session, word))
            expect(texts(events)[-1] == answer, f"the answer to {word} is {texts(events)}")
            expect(events[-1].is_final_response(), f"the answer to {word} is not final to google-adk")
        calls = [call.name for event in events for call in event.get_function_calls()]
        answers = [answer.name for event in events for answer in event.get_function_responses()]
        expect(calls == answers == ["get_weather"], f"calls {calls}, answers {answers}")
        for word in ["parallel", "texttool", "state", "artifact", "think", "long", "toolerror", "unknowntool"]:
            expect(self.get(list[Event], "POST", "/run", run_body(session, word)), f"no events for {word}")
        in_snake_case = run_body(session, "hello", by_alias=False)
        expect(self.get(list[Event], "POST", "/run", in_snake_case), "no events for snake_case")
        self.report("/run: text, tools, thinking, state, a file, failures")

    def stream(self, body):
        """The events of a streamed response."""
        data = [line for line in self.http.lines("/run_sse", body) if line.startswith("data: ")]
        return [read(Event, line.removeprefix("data: "), "/run_sse") for line in data]

    def streams(self, session):
        whole = self.stream(run_body(session, "hello again"))
        expect(not any(event.partial for event in whole), "partial events without streaming")
        events = self.stream(run_body(session, "hello again", streaming=True))
        chunks = texts(event for event in events if event.partial)
        expect(len(chunks) > 1 and "".join(chunks) == texts(events)[-1], f"chunks {chunks}")
        expect(texts(events)[-1] == texts(whole)[-1], "streamed and whole answers differ")
        for word in ["tool", "texttool", "think", "transfer", "errcode"]:
            expect(self.stream(run_body(session, word, streaming=True)), f"no events for {word}")
        kept = self.get(Session, "GET", session_path(session)).events
        missing = {event.id for event in [*whole, *events] if not event.partial} - {event.id for event in kept}
        expect(not missing, f"events that were streamed and not stored: {missing}")
        self.report(f"/run_sse: {len(chunks)} partial events and the complete one, tools, thinking, a transfer, an error")

    def confirmation(self):
        session = self.get(Session, "POST", SESSIONS)
        requested = self.stream(run_body(session, "confirm"))
        calls = [call for event in requested for call in event.get_function_calls()]
        call = next((call for call in calls if call.name == REQUEST_CONFIRMATION_FUNCTION_CALL_NAME), None)
        expect(call, f"no confirmation was requested; calls: {[call.name for call in calls]}")
        ToolConfirmation.model_validate(call.args["toolConfirmation"])
        expect(call.id in set().union(*(event.long_running_tool_ids or () for event in requested)), "not long-running")
        yes = ToolConfirmation(confirmed=True).model_dump(by_alias=True, exclude_none=True)
        answer = types.FunctionResponse(id=call.id, name=call.name, response=yes)
        body = run_body(session, types.Content(role="user", parts=[types.Part(function_response=answer)]))
        done = self.stream(body)
        expect(texts(done)[-1:] == ['Tool danger said: {"done":"rm"}'], f"after the confirmation: {texts(done)}")
        self.report("a confirmation requested, given, and its tool executed")

    def artifacts(self, session):
        files = f"{session_path(session)}/artifacts"
        note = types.Part.from_bytes(data=b"two", mime_type="text/plain")
        body = to_body(SaveArtifactRequest(filename="note.txt", artifact=note, custom_metadata={"a": 1}))
        saved = [self.get(ArtifactVersion, "POST", files, body) for _ in range(2)]
        expect([one.version for one in saved] == [0, 1], f"versions {[one.version for one in saved]}")
        expect("note.txt" in self.get(list[str], "GET", files), "a file is not listed")
        expect(self.get(types.Part, "GET", f"{files}/note.txt").inline_data.data == b"two", "a file with other content")
        expect(self.get(list[int], "GET", f"{files}/note.txt/versions") == [0, 1], "the versions")
        self.get(types.Part, "GET", f"{files}/note.txt/versions/0")
        self.get(ArtifactVersion, "GET", f"{files}/note.txt/versions/0/metadata")
        expect(len(self.get(list[ArtifactVersion], "GET", f"{files}/note.txt/versions/metadata")) == 2, "metadata")
        expect(self.get(types.Part, "GET", f"{files}/hello.txt"), "the file of the tool")
        self.get(None, "DELETE", f"{files}/note.txt")
        self.fails(404, "GET", f"{files}/note.txt")
        self.report("files saved, listed, read in each version, deleted")

    def page_routes(self, session):
        self.get(ListEvalSetsResponse, "GET", "/dev/apps/canned/eval-sets")
        self.get(ListEvalResultsResponse, "GET", "/dev/apps/canned/eval-results")
        self.get(list[str], "GET", "/dev/apps/canned/eval_sets")
        self.get(list[str], "GET", "/dev/apps/canned/eval_results")
        self.get(dict, "GET", "/dev/apps/canned/build_graph")
        self.get(list, "GET", f"/dev/apps/canned/debug/trace/session/{session.id}")
        event = next(event for event in self.get(Session, "GET", session_path(session)).events if event.get_function_calls())
        graph = f"/dev{session_path(session)}/events/{event.id}/graph"
        expect(self.get(GetEventGraphResult, "GET", graph).dot_src, "an event without a graph")
        self.report("the routes of the web page")

    def errors(self, session):
        self.fails(404, "GET", f"{SESSIONS}/nobody-made-it")
        self.fails(404, "POST", "/run", {**run_body(session, "hello"), "sessionId": "nobody-made-it"})
        self.fails(404, "GET", "/no-such-route")
        self.fails(409, "POST", SESSIONS, {"sessionId": session.id})
        self.fails(405, "PUT", "/run")
        self.fails(422, "POST", "/run", {"appName": "canned"})
        self.fails(500, "POST", "/run", run_body(session, "raise"))
        data = [line for line in self.http.lines("/run_sse", run_body(session, "raise")) if line.startswith("data: ")]
        expect("error" in json.loads(data[-1].removeprefix("data: ")), f"a stream that fails ends with {data[-1]}")
        self.report("errors in FastAPI's shapes")

    def end(self, session):
        self.get(None, "PATCH", "/apps/canned/users/ann/memory", to_body(UpdateMemoryRequest(session_id=session.id)))
        self.get(None, "DELETE", session_path(session))
        self.fails(404, "GET", session_path(session))
        self.report("a session added to memory, and deleted")


def session_path(session):
    return f"/apps/{session.app_name}/users/{session.user_id}/sessions/{session.id}"


def to_body(request):
    return request.model_dump(mode="json", by_alias=True, exclude_none=True)


def run_body(session, message, streaming=False, by_alias=True):
    message = message if isinstance(message, types.Content) else user_content(message)
    request = RunAgentRequest(
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.id,
        new_message=message,
        streaming=streaming,
    )
    return request.model_dump(mode="json", by_alias=by_alias, exclude_none=True)


def user_content(text):
    return types.Content(role="user", parts=[types.Part(text=text)])


def texts(events):
    """The texts of the events, without thoughts."""
    parts = ((event, event.content.parts or []) for event in events if event.content)
    joined = ("".join(part.text for part in parts if part.text and not part.thought) for _, parts in parts)
    return [text for text in joined if text]


async def concurrent_messages(base, headers):
    """Sends several messages to one session concurrently."""
    async with httpx.AsyncClient(base_url=base, headers=headers, timeout=TIMEOUT) as client:
        session = read(Session, (await client.post(SESSIONS)).text, "POST sessions")
        bodies = [run_body(session, f"number {number}") for number in range(4)]
        answers = await asyncio.gather(*(client.post("/run", json=body) for body in bodies))
        for number, answer in enumerate(answers):
            expect(answer.status_code == 200, f"message {number} of 4 concurrent ones: {answer.status_code} {answer.text}")
            answered = texts(read(list[Event], answer.text, "/run"))
            expect(answered == [f"Hello from canned model. You said: number {number}"], f"{answered} to number {number}")
    print("httpx: four concurrent messages, each with its own answer")


def main(base, token_file):
    status = httpx.get(f"{base}/list-apps").status_code
    expect(status == 401, f"without a token /list-apps answers {status}")
    headers = {"Authorization": f"Bearer {Path(token_file).read_text().strip()}"}
    for http in [Httpx(base, headers), Requests(base, headers)]:
        ApiTest(http).run_all()
    asyncio.run(concurrent_messages(base, headers))


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Failure as failure:
        sys.exit(f"clients: {failure}")

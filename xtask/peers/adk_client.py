"""Google's Python client, google-adk's `AdkWebServerClient`, against our server.

Every event that a run stores must arrive, and a failed run must be an error. Usage: adk_client.py URL. The server needs no token:
the client sends none. Prints a line for each check; the first failure ends the program.
"""

import asyncio
import sys
import warnings

import httpx

warnings.simplefilter("ignore")

from google.adk.cli.api_server import RunAgentRequest
from google.adk.cli.conformance.adk_web_server_client import AdkWebServerClient
from google.adk.flows.llm_flows.functions import REQUEST_CONFIRMATION_FUNCTION_CALL_NAME
from google.genai import types

APP = {"app_name": "canned", "user_id": "user"}
WORDS = [
    "hello", "tool", "parallel", "texttool", "think", "state", "artifact", "transfer", "confirm", "long", "toolerror",
    "unknowntool", "errcode", "raise",
]
FAILURES = {"raise": "canned model failure"}
ANSWERS = {
    "confirm": (REQUEST_CONFIRMATION_FUNCTION_CALL_NAME, {"confirmed": True}),
    "long": ("slow_job", {"status": "done"}),
}


class Failure(Exception):
    """An answer that the client cannot use."""


def expect(holds, what):
    if not holds:
        raise Failure(what)


async def run(client, session, part, streaming, invocation_id=None):
    """The events of a run, and its error."""
    message = types.Content(role="user", parts=[part])
    request = RunAgentRequest(
        **APP, session_id=session.id, new_message=message, streaming=streaming, invocation_id=invocation_id
    )
    events = []
    try:
        async for event in client.run_agent(request):
            events.append(event)
    except RuntimeError as error:
        return events, str(error)
    return events, None


def stored(events):
    """The stored events among those that arrived. One with content and artifacts arrives in two halves with one id."""
    whole = []
    for event in events:
        if event.partial:
            continue
        if whole and whole[-1].id == event.id:
            whole[-1].actions = event.actions
        else:
            whole.append(event.model_copy(deep=True))
    return [event.model_dump(exclude={"partial"}) for event in whole]


async def compare(client, session, arrived, what):
    """The session holds exactly the events that arrived, besides the user's own."""
    kept = (await client.get_session(**APP, session_id=session.id)).events
    kept = [event for event in kept if event.author != "user"]
    expect(stored(arrived) == stored(kept), f"{what}: {len(stored(arrived))} events arrived, {len(kept)} are stored")


async def scenario(client, word, streaming):
    session = await client.create_session(**APP)
    what = f"{word}, {'streamed' if streaming else 'whole'}"
    events, error = await run(client, session, types.Part(text=f"{word} please"), streaming)
    expect(FAILURES.get(word, "") in (error or ""), f"{what}: {error}")
    expect(bool(error) == (word in FAILURES) and events, f"{what}: {len(events)} events, error {error}")
    if word in ANSWERS:
        name, response = ANSWERS[word]
        calls = [call for event in events for call in event.get_function_calls() if call.name == name]
        expect(calls, f"{what}: no call of {name}")
        answer = types.FunctionResponse(id=calls[-1].id, name=name, response=response)
        answered, error = await run(client, session, types.Part(function_response=answer), streaming)
        expect(answered and not error, f"{what}: after the answer {error}")
        same = {event.invocation_id for event in events + answered}
        expect(len(same) == 1, f"{what}: the answer belongs to another invocation")
        events += answered
    await compare(client, session, events, what)
    await client.delete_session(**APP, session_id=session.id)
    return sum(1 for event in events if event.partial)


async def main(base):
    async with AdkWebServerClient(base) as client:
        partial = 0
        for word in WORDS:
            for streaming in [False, True]:
                partial += await scenario(client, word, streaming)
        expect(partial > 10, f"{partial} partial events")
        print(f"google-adk: {len(WORDS)} kinds of runs, whole and streamed: every stored event, and {partial} partial ones")
        session = await client.create_session(**APP, state={"color": "red"})
        events, error = await run(client, session, types.Part(text="hello"), False, "chosen")
        expect(not error and {event.invocation_id for event in events} == {"chosen"}, f"a chosen invocation: {error}")
        call = types.Part(function_call=types.FunctionCall(name="get_weather", args={"city": "Paris"}))
        refused, error = await run(client, session, call, False)
        expect(not refused and error == "ValueError: User message cannot contain function calls.", f"a call: {error}")
        await compare(client, session, events, "a chosen invocation and a refused call")
        try:
            await client.create_session(app_name="nope", user_id="user")
            raise Failure("a session for an unknown app was created")
        except httpx.HTTPStatusError as error:
            expect(error.response.status_code == 404, f"an unknown app: {error}")
        print("google-adk: a chosen invocation id, a refused function call, an unknown app")


if __name__ == "__main__":
    try:
        asyncio.run(main(*sys.argv[1:]))
    except Failure as failure:
        sys.exit(f"clients: {failure}")

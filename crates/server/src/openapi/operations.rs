//! Every operation, in the order of the route table.

use super::operation::{ApiOperation, ResponseBody, delete, get, list_of, named, patch, post};
use serde_json::{Value, json};

/// What operations are about, in the order of the page.
pub(super) const TAGS: [(&str, &str); 7] = [
    ("server", "The server itself."),
    ("apps", "Agents that can be talked to."),
    ("sessions", "Conversations: their state and what was said."),
    ("artifacts", "Files of a session, in versions."),
    ("messages", "Messages, as ADK sends them."),
    ("runs", "Runs by their ids: they go on without a client and can be read again."),
    ("page", "ADK's web page, and what it asks for."),
];

const FILE: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{name}";
const VERSIONS: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{name}/versions";
const ALL_METADATA: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{name}/versions/metadata";
const VERSION: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{name}/versions/{version}";
const METADATA: &str =
    "/apps/{app}/users/{user}/sessions/{session}/artifacts/{name}/versions/{version}/metadata";

pub(super) fn all() -> Vec<ApiOperation> {
    let sections = [server(), apps(), sessions(), artifacts(), messages(), runs(), page()];
    let tagged = |((tag, _), operations): ((&'static str, _), Vec<ApiOperation>)| {
        operations.into_iter().map(move |operation| operation.tagged(tag))
    };
    TAGS.into_iter().zip(sections).flat_map(tagged).collect()
}

fn number() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn server() -> Vec<ApiOperation> {
    vec![
        get("/health", "Whether the process is there").open().gives(named("Status")),
        get("/readyz", "Whether sessions can be read and written")
            .open()
            .gives(named("Status"))
            .fails(503, "The store failed, or takes no write; the body says why."),
        get("/metrics", "What is counted, for Prometheus").answers(
            200,
            "Counts.",
            ResponseBody::Text("text/plain"),
        ),
        get("/version", "Which ADK's API this is").gives(named("Version")),
        get("/whoami", "Whose token it is").gives(named("Whoami")),
        get("/openapi.json", "This description").open().gives(json!({"type": "object"})),
        get("/docs", "This description for people").open().answers(
            200,
            "A page.",
            ResponseBody::Text("text/html"),
        ),
        get("/login", "Makes a link into a cookie, and leads to the page")
            .open()
            .asks("code", json!({"type": "string"}), "What the link holds; it is good once.")
            .answers(303, "Welcome.", ResponseBody::Empty)
            .answers(401, "The link was used, or is too old.", ResponseBody::Text("text/plain"))
            .fails(500, "The login cannot be stored."),
        post("/login", "A new link, for an administrator").gives(named("Link")).fails(
            403,
            "Whoever asks is no administrator; or the Host or Origin is not one of the server's.",
        ),
    ]
}

fn apps() -> Vec<ApiOperation> {
    let names = list_of(&json!({"type": "string"}));
    let detailed =
        json!({"type": "object", "required": ["apps"], "properties": {"apps": list_of(&named("AppInfo"))}});
    vec![
        get("/list-apps", "All apps, those that cannot be used too")
            .asks("detailed", json!({"type": "boolean"}), "Tells more of those that can be used.")
            .gives(json!({"anyOf": [names, detailed]})),
        get("/apps/{app}/app-info", "An app and its agents").gives(named("AppInfo")),
    ]
}

fn sessions() -> Vec<ApiOperation> {
    let administrators = "A state that only agents and administrators write; or a foreign Host or Origin.";
    vec![
        get(
            "/apps/{app}/users/{user}/sessions",
            "All sessions of a user without their events, the newest last",
        )
        .gives(list_of(&named("Session"))),
        post("/apps/{app}/users/{user}/sessions", "A new session")
            .may_take(json!({"anyOf": [named("CreateSessionRequest"), {"type": "null"}]}))
            .gives(named("Session"))
            .fails(400, "Events or options that a session cannot begin with, or a body that cannot be read.")
            .fails(403, administrators)
            .fails(409, "There is one of that id."),
        get("/apps/{app}/users/{user}/sessions/{session}", "A session with its events")
            .asks("after", number(), "Only events behind this place.")
            .asks("limit", number(), "So many events at most, and 1000 at the very most.")
            .tells("X-Next-After", "Where the next page begins, if there is one.")
            .gives(named("Session")),
        post(
            "/apps/{app}/users/{user}/sessions/{session}",
            "A new session of that id; the body is its state",
        )
        .may_take(json!({"type": ["object", "null"]}))
        .gives(named("Session"))
        .fails(403, administrators)
        .fails(409, "There is one of that id."),
        patch(
            "/apps/{app}/users/{user}/sessions/{session}",
            "Changes the state of a session that is in no run",
        )
        .takes(named("PatchSessionRequest"))
        .gives(named("Session"))
        .fails(403, administrators)
        .fails(409, "The session is in a run, or was changed meanwhile."),
        delete(
            "/apps/{app}/users/{user}/sessions/{session}",
            "Removes a session; what runs in it ends first",
        )
        .gives(json!({"type": "null"})),
        patch("/apps/{app}/users/{user}/memory", "Remembers a session; here every session is remembered")
            .takes(named("PatchMemoryRequest"))
            .gives(json!({"type": "null"})),
    ]
}

fn artifacts() -> Vec<ApiOperation> {
    let wrong = || ResponseBody::Json(json!({"anyOf": [named("ValidationError"), named("Error")]}));
    let no_number = "The version is neither a number nor `latest`.";
    vec![
        get("/apps/{app}/users/{user}/sessions/{session}/artifacts", "The names of all files")
            .gives(list_of(&json!({"type": "string"}))),
        post("/apps/{app}/users/{user}/sessions/{session}/artifacts", "Saves a version of a file")
            .takes(named("SaveArtifactRequest"))
            .gives(named("ArtifactVersion"))
            .fails(400, "A name that is none, a part without data, or a body that cannot be read."),
        get(FILE, "The newest version of a file, or another; a name may have slashes in it")
            .asks("version", number(), "Which one.")
            .gives(named("Part")),
        delete(FILE, "Removes a file with all its versions").gives(json!({"type": "null"})),
        get(VERSIONS, "The numbers of all versions").gives(list_of(&number())),
        get(ALL_METADATA, "All versions without their data").gives(list_of(&named("ArtifactVersion"))),
        get(VERSION, "A version of a file, by its number or `latest`").gives(named("Part")).answers(
            422,
            no_number,
            wrong(),
        ),
        get(METADATA, "A version without its data").gives(named("ArtifactVersion")).answers(
            422,
            no_number,
            wrong(),
        ),
    ]
}

const IDEMPOTENCY: (&str, &str) = ("Idempotency-Key", "A repeated request with this key is the same run.");
const RUN_ID: (&str, &str) = ("X-Run-Id", "Which run the request became.");
const CONFLICT: &str = "The run was cancelled; or the message answers a question that nobody asks.";

fn messages() -> Vec<ApiOperation> {
    let streams = "Events as they happen, and nothing after the last.";
    let message = |operation: ApiOperation| {
        operation
            .hears(IDEMPOTENCY.0, IDEMPOTENCY.1)
            .takes(named("RunRequest"))
            .tells(RUN_ID.0, RUN_ID.1)
            .fails(400, "No app is named, or the body cannot be read.")
            .fails(403, "A state that only agents and administrators write; or a foreign Host or Origin.")
            .fails(404, "No such app, or no such session of this user.")
    };
    vec![
        message(post("/run", "Sends a message and waits for all events"))
            .gives(list_of(&named("Event")))
            .fails(409, CONFLICT)
            .fails(500, "The agent or its model failed."),
        message(post("/run_sse", "Sends a message and tells events as they happen")).answers(
            200,
            streams,
            ResponseBody::Events,
        ),
        get("/run_live", "ADK's socket for audio, which is not part of this server").fails(501, "Always."),
    ]
}

fn runs() -> Vec<ApiOperation> {
    vec![
        get("/apps/{app}/users/{user}/sessions/{session}/runs", "The runs of a session, the newest first")
            .asks("limit", number(), "So many at most: 20 if it is left out, and 1000 at the very most.")
            .gives(list_of(&named("Run"))),
        post(
            "/apps/{app}/users/{user}/sessions/{session}/runs",
            "Sends a message without waiting for the answer",
        )
        .hears(IDEMPOTENCY.0, IDEMPOTENCY.1)
        .takes(named("RunHereRequest"))
        .tells(RUN_ID.0, RUN_ID.1)
        .answers(202, "The run has begun, or waits for those before it.", ResponseBody::Json(named("Run")))
        .fails(403, "A state that only agents and administrators write; or a foreign Host or Origin."),
        get("/apps/{app}/users/{user}/sessions/{session}/runs/{run}", "How a run is").gives(named("Run")),
        get(
            "/apps/{app}/users/{user}/sessions/{session}/runs/{run}/events",
            "The events of a run, then those that come",
        )
        .hears("Last-Event-ID", "The id of the last event that was seen: only what follows is told.")
        .asks("after", json!({"type": "string"}), "The same, for those who cannot send headers.")
        .tells(RUN_ID.0, RUN_ID.1)
        .answers(200, "Events as they happen.", ResponseBody::Events)
        .answers(204, "The run is over, and all of it was seen.", ResponseBody::Empty)
        .fails(400, "The id is none of an event."),
        post(
            "/apps/{app}/users/{user}/sessions/{session}/runs/{run}/cancel",
            "Ends a run with all that it does",
        )
        .gives(named("Run"))
        .fails(409, "The run is in another process."),
    ]
}

fn page() -> Vec<ApiOperation> {
    let to_the_page =
        |operation: ApiOperation| operation.open().answers(307, "To the page.", ResponseBody::Empty);
    let drawing = || json!({"type": "object", "properties": {"dotSrc": {"type": "string"}}});
    let nothing = || json!({"type": "array", "maxItems": 0});
    let off = || json!({"type": "object", "required": ["telemetry"], "properties": {"telemetry": {"const": false}}});
    let no_ids = |name: &str| json!({"type": "object", "required": [name], "properties": {name: nothing()}});
    let file = |operation: ApiOperation| {
        operation
            .open()
            .answers(200, "A file of the page.", ResponseBody::Text("*/*"))
            .fails(404, "It is not there.")
    };
    vec![
        to_the_page(get("/", "To ADK's page")),
        to_the_page(get("/dev-ui", "To ADK's page")),
        file(get("/dev-ui/", "ADK's page, where google-adk is installed")),
        get("/dev-ui/config", "What the page shows at its top").open().gives(json!({"type": "object"})),
        get("/dev-ui/assets/config/runtime-config.json", "Where the page finds the server")
            .open()
            .gives(json!({"type": "object"})),
        file(get("/dev-ui/{path}", "A file of ADK's page")),
        get("/config/telemetry", "Whether ADK may report to Google: never").gives(off()),
        post("/config/telemetry", "The same: nothing is changed").gives(off()),
        get("/dev/apps/{app}/build_graph", "The agents of an app, in snake_case").gives(named("BuildGraph")),
        get("/dev/apps/{app}/build_graph_image", "The same as a drawing")
            .gives(json!({"type": "object", "additionalProperties": drawing()})),
        get("/dev/apps/{app}/graph", "The agents of an app as a drawing for Graphviz").gives(drawing()),
        get(
            "/dev/apps/{app}/users/{user}/sessions/{session}/events/{event}/graph",
            "What an event did, drawn",
        )
        .gives(drawing()),
        get("/dev/apps/{app}/debug/trace/{event}", "The span in which an event was made, while it is kept")
            .gives(json!({"type": "object"})),
        get("/dev/apps/{app}/debug/trace/session/{session}", "The spans of a session that are still kept")
            .gives(list_of(&named("Span"))),
        get("/dev/apps/{app}/eval_sets", "Evaluation is not part of this server").gives(nothing()),
        get("/dev/apps/{app}/eval-sets", "Evaluation is not part of this server").gives(no_ids("evalSetIds")),
        get("/dev/apps/{app}/eval_results", "Evaluation is not part of this server").gives(nothing()),
        get("/dev/apps/{app}/eval-results", "Evaluation is not part of this server")
            .gives(no_ids("evalResultIds")),
        get("/dev/apps/{app}/metrics-info", "Evaluation is not part of this server").fails(400, "Always."),
        get("/dev/apps/{app}/tests", "Evaluation is not part of this server").gives(nothing()),
        get("/dev/apps/{app}/builder", "The builder is not part of this server").answers(
            200,
            "Nothing.",
            ResponseBody::Text("text/plain"),
        ),
    ]
}

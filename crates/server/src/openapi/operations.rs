//! Every operation, in the order of the route tables.

use super::operation::{
    ApiOperation, ResponseContent, delete, get, list_of, patch, post, schema_ref, unsupported_operation,
};
use crate::routes::UNSUPPORTED;
use serde_json::{Value, json};

/// Tags with their descriptions, in the order of the page.
pub(super) const TAGS: [(&str, &str); 8] = [
    ("server", "The server itself."),
    ("apps", "The agents that the server runs."),
    ("sessions", "Conversations: their state and events."),
    ("artifacts", "Versioned files of a session."),
    ("messages", "Messages, as ADK's clients send them."),
    ("runs", "Runs by id. They continue without a client, and their events can be read again."),
    ("page", "ADK's web page and its backend."),
    ("unsupported", "ADK's operations that this server does not have. They answer 501."),
];

const FILE: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{name}";
const VERSIONS: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{name}/versions";
const ALL_METADATA: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{name}/versions/metadata";
const VERSION: &str = "/apps/{app}/users/{user}/sessions/{session}/artifacts/{name}/versions/{version}";
const METADATA: &str =
    "/apps/{app}/users/{user}/sessions/{session}/artifacts/{name}/versions/{version}/metadata";

const READ_ONLY_STATE: &str =
    "A state key that only agents and administrators may write; or Host or Origin not allowed.";

pub(super) fn all() -> Vec<ApiOperation> {
    let sections = [
        server(),
        apps(),
        sessions().into_iter().chain(session_views()).collect(),
        artifacts(),
        messages(),
        runs(),
        page(),
        unsupported(),
    ];
    let tagged = |((tag, _), operations): ((&'static str, _), Vec<ApiOperation>)| {
        operations.into_iter().map(move |operation| operation.tag(tag))
    };
    TAGS.into_iter().zip(sections).flat_map(tagged).collect()
}

fn number() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn server() -> Vec<ApiOperation> {
    vec![
        get("/health", "Liveness of the process").public().ok(schema_ref("Status")),
        get(
            "/readyz",
            "Readiness: whether sessions can be read and written, and which apps cannot be loaded",
        )
        .public()
        .ok(schema_ref("Readiness"))
        .error(
            503,
            "The store failed or accepts no writes, or no app can be loaded; `kind` names the reason.",
        ),
        get("/metrics", "Metrics in Prometheus' text format, for administrators")
            .response(200, "Metrics.", ResponseContent::Text("text/plain"))
            .error(403, "The caller is not an administrator; or Host or Origin not allowed."),
        get("/version", "The version of ADK whose API this is").ok(schema_ref("Version")),
        get("/whoami", "The principal of the token").ok(schema_ref("Whoami")),
        get("/usage", "Tokens and cost of model calls; administrators see those of all users")
            .query("from", json!({"type": "string", "format": "date"}), "The first day, in UTC.")
            .query("to", json!({"type": "string", "format": "date"}), "The last day, in UTC.")
            .query("app", json!({"type": "string"}), "Only this app.")
            .query("user", json!({"type": "string"}), "Only this user.")
            .query("session", json!({"type": "string"}), "Only this session.")
            .query("agent", json!({"type": "string"}), "Only this agent.")
            .query("model", json!({"type": "string"}), "Only this model, as `provider/model`.")
            .query(
                "by",
                json!({"type": "string", "default": "day,model"}),
                "The dimensions of the sums: day, app, user, session, agent, model.",
            )
            .ok(json!({"type": "object", "required": ["usage", "total"]}))
            .error(400, "A day or a dimension that does not exist.")
            .error(403, "The usage of another user; or Host or Origin not allowed."),
        get("/openapi.json", "This description").public().ok(json!({"type": "object"})),
        get("/docs", "This description as a web page").public().response(
            200,
            "The page.",
            ResponseContent::Text("text/html"),
        ),
        get("/login", "Redeems a login link: sets a cookie and redirects to the web page")
            .public()
            .query("code", json!({"type": "string"}), "The code of the link; it is valid once.")
            .response(303, "Logged in.", ResponseContent::Empty)
            .response(401, "The link was used or has expired.", ResponseContent::Text("text/plain"))
            .error(500, "The login cannot be stored."),
        post("/login", "Creates a login link, for administrators")
            .ok(schema_ref("Link"))
            .error(403, "The caller is not an administrator; or Host or Origin not allowed."),
    ]
}

fn apps() -> Vec<ApiOperation> {
    let names = list_of(&json!({"type": "string"}));
    let detailed = json!({"type": "object", "required": ["apps"], "properties": {"apps": list_of(&schema_ref("AppInfo"))}});
    vec![
        get("/list-apps", "All apps, including broken ones")
            .query("detailed", json!({"type": "boolean"}), "Adds details and leaves out broken apps.")
            .ok(json!({"anyOf": [names, detailed]})),
        get("/apps/{app}/app-info", "An app and its agents").ok(schema_ref("AppInfo")),
    ]
}

fn sessions() -> Vec<ApiOperation> {
    vec![
        get(
            "/apps/{app}/users/{user}/sessions",
            "The sessions of a user without their events: all, last changed last, or a page, newest first",
        )
        .query(
            "limit",
            number(),
            "A page of this many sessions, at most 1000, in the order of their creation.",
        )
        .query("after", number(), "Only sessions after this position, that of `X-Next-After`.")
        .response_header("X-Next-After", "`after` of the next page, if there is one.")
        .ok(list_of(&schema_ref("Session"))),
        post("/apps/{app}/users/{user}/sessions", "Creates a session")
            .optional_body(json!({"anyOf": [schema_ref("CreateSessionRequest"), {"type": "null"}]}))
            .ok(schema_ref("Session"))
            .error(400, "Initial events or options that are not supported, or a body that cannot be read.")
            .error(403, READ_ONLY_STATE)
            .error(404, UNKNOWN_APP)
            .error(409, "A session with this id exists."),
        get("/apps/{app}/users/{user}/sessions/{session}", "A session with its events")
            .query("after", number(), "Only events after this position.")
            .query("limit", number(), "The maximum number of events, at most 1000.")
            .response_header("X-Next-After", "`after` of the next page, if there is one.")
            .ok(schema_ref("Session")),
        post(
            "/apps/{app}/users/{user}/sessions/{session}",
            "Creates a session with this id; the body is its state",
        )
        .optional_body(json!({"type": ["object", "null"]}))
        .ok(schema_ref("Session"))
        .error(403, READ_ONLY_STATE)
        .error(404, UNKNOWN_APP)
        .error(409, "A session with this id exists."),
        patch(
            "/apps/{app}/users/{user}/sessions/{session}",
            "Changes the state of a session without an active run",
        )
        .body(schema_ref("PatchSessionRequest"))
        .ok(schema_ref("Session"))
        .error(403, READ_ONLY_STATE)
        .error(409, "The session has an active run, or was changed meanwhile."),
        delete("/apps/{app}/users/{user}/sessions/{session}", "Cancels the runs of a session and deletes it")
            .ok(json!({"type": "null"})),
    ]
}

/// Operations on the log of a session beside reading and writing it.
fn session_views() -> Vec<ApiOperation> {
    vec![
        get("/apps/{app}/users/{user}/search", "Finds messages in the sessions of a user, best first")
            .query("query", json!({"type": "string"}), "The words to look for.")
            .query("session", json!({"type": "string"}), "Only the session with this id.")
            .query("limit", number(), "The maximum number of messages, at most 200; 20 by default.")
            .ok(schema_ref("SearchResults"))
            .error(400, "The words are missing."),
        get(
            "/apps/{app}/users/{user}/sessions/{session}/context",
            "What the next request of the session would show, in tokens; stores nothing",
        )
        .ok(json!({"type": "object"})),
        post(
            "/apps/{app}/users/{user}/sessions/{session}/compact",
            "Advances the window of the session now: requests show less of its beginning",
        )
        .ok(json!({"type": "object"}))
        .error(409, "The session has an active run, or was changed meanwhile."),
        get(
            "/apps/{app}/users/{user}/sessions/{session}/usage",
            "The usage of the newest run, of the session, and of its user today",
        )
        .ok(json!({"type": "object"})),
        patch(
            "/apps/{app}/users/{user}/memory",
            "Adds a session with its present events to the memory of its user",
        )
        .body(schema_ref("PatchMemoryRequest"))
        .ok(json!({"type": "null"})),
    ]
}

fn artifacts() -> Vec<ApiOperation> {
    let invalid =
        || ResponseContent::Json(json!({"anyOf": [schema_ref("ValidationError"), schema_ref("Error")]}));
    let invalid_version = "The version is neither a number nor `latest`.";
    vec![
        get("/apps/{app}/users/{user}/sessions/{session}/artifacts", "The names of all artifacts")
            .ok(list_of(&json!({"type": "string"}))),
        post("/apps/{app}/users/{user}/sessions/{session}/artifacts", "Saves a version of an artifact")
            .body(schema_ref("SaveArtifactRequest"))
            .ok(schema_ref("ArtifactVersion"))
            .error(400, "An invalid name, a part without data, or a body that cannot be read."),
        get(FILE, "An artifact; its name may contain slashes")
            .query("version", number(), "The version; the newest by default.")
            .ok(schema_ref("Part")),
        delete(FILE, "Deletes an artifact with all its versions").ok(json!({"type": "null"})),
        get(VERSIONS, "The numbers of all versions").ok(list_of(&number())),
        get(ALL_METADATA, "The metadata of all versions").ok(list_of(&schema_ref("ArtifactVersion"))),
        get(VERSION, "A version of an artifact, by its number or `latest`").ok(schema_ref("Part")).response(
            422,
            invalid_version,
            invalid(),
        ),
        get(METADATA, "The metadata of a version").ok(schema_ref("ArtifactVersion")).response(
            422,
            invalid_version,
            invalid(),
        ),
    ]
}

const IDEMPOTENCY: (&str, &str) = (
    "Idempotency-Key",
    "A repeated request with the same key returns the first run. At most 256 characters.",
);
const RUN_ID: (&str, &str) = ("X-Run-Id", "The id of the run.");
const INVALID_MESSAGE: &str = "No app is named, the message has a function call, the invocation id is invalid or belongs to an \
                               earlier run, or the body cannot be read.";
const UNKNOWN_APP: &str = "The app does not exist, or the session is another user's.";
const CONFLICT: &str = "The run was cancelled; or the message answers no open question.";

fn messages() -> Vec<ApiOperation> {
    let streams = "A stream of events that ends with the run, each a block of one `data:` line without an id. To continue after a \
                   lost connection, read the events of the run in `X-Run-Id`.";
    let message = |operation: ApiOperation| {
        operation
            .request_header(IDEMPOTENCY.0, IDEMPOTENCY.1)
            .body(schema_ref("RunRequest"))
            .response_header(RUN_ID.0, RUN_ID.1)
            .error(400, INVALID_MESSAGE)
            .error(403, READ_ONLY_STATE)
            .error(404, "The app does not exist, or the user has no such session.")
    };
    vec![
        message(post("/run", "Sends a message and returns all events of the run"))
            .ok(list_of(&schema_ref("Event")))
            .error(409, CONFLICT)
            .error(500, "The agent or its model failed."),
        message(post("/run_sse", "Sends a message and streams the events of the run")).response(
            200,
            streams,
            ResponseContent::Events,
        ),
    ]
}

fn runs() -> Vec<ApiOperation> {
    vec![
        get("/apps/{app}/users/{user}/sessions/{session}/runs", "The runs of a session, newest first")
            .query("limit", number(), "The maximum number of runs: 20 by default, at most 1000.")
            .ok(list_of(&schema_ref("Run"))),
        post(
            "/apps/{app}/users/{user}/sessions/{session}/runs",
            "Sends a message without waiting for its events",
        )
        .request_header(IDEMPOTENCY.0, IDEMPOTENCY.1)
        .body(schema_ref("RunHereRequest"))
        .response_header(RUN_ID.0, RUN_ID.1)
        .response(202, "The run has started or is queued.", ResponseContent::Json(schema_ref("Run")))
        .error(400, INVALID_MESSAGE)
        .error(403, READ_ONLY_STATE)
        .error(409, CONFLICT),
        get("/apps/{app}/users/{user}/sessions/{session}/runs/{run}", "The status of a run")
            .ok(schema_ref("Run")),
        get(
            "/apps/{app}/users/{user}/sessions/{session}/runs/{run}/events",
            "Streams the events of a run, past and future",
        )
        .request_header("Last-Event-ID", "The id of the last received event: the stream continues after it.")
        .query("after", json!({"type": "string"}), "The same, for clients that cannot set headers.")
        .response_header(RUN_ID.0, RUN_ID.1)
        .response(200, "A stream of events.", ResponseContent::Events)
        .response(204, "The run has ended, and the client has all its events.", ResponseContent::Empty)
        .error(400, "The id is not that of a streamed event."),
        post("/apps/{app}/users/{user}/sessions/{session}/runs/{run}/cancel", "Cancels a run")
            .ok(schema_ref("Run"))
            .error(
                409,
                "The run belongs to another process, or waits while another run of its session is active.",
            ),
    ]
}

fn page() -> Vec<ApiOperation> {
    let redirect = |operation: ApiOperation| {
        operation.public().response(307, "A redirect to the page.", ResponseContent::Empty)
    };
    let graph = || json!({"type": "object", "properties": {"dotSrc": {"type": "string"}}});
    let empty = || json!({"type": "array", "maxItems": 0});
    let off = || json!({"type": "object", "required": ["telemetry"], "properties": {"telemetry": {"const": false}}});
    let no_ids = |name: &str| json!({"type": "object", "required": [name], "properties": {name: empty()}});
    let file = |operation: ApiOperation| {
        operation.public().response(200, "The file.", ResponseContent::Text("*/*")).error(404, "Not found.")
    };
    let no_evaluation = "Evaluation, which this server does not support";
    vec![
        redirect(get("/", "Redirects to ADK's web page")),
        redirect(get("/dev-ui", "Redirects to ADK's web page")),
        file(get("/dev-ui/", "ADK's web page, if google-adk is installed")),
        get("/dev-ui/config", "The logo of the page").public().ok(json!({"type": "object"})),
        get("/dev-ui/assets/config/runtime-config.json", "The configuration of the page")
            .public()
            .ok(json!({"type": "object"})),
        file(get("/dev-ui/{path}", "A file of ADK's web page")),
        get("/config/telemetry", "Consent to ADK's usage reports: always false").ok(off()),
        post("/config/telemetry", "Consent to ADK's usage reports: no effect").ok(off()),
        get("/dev/apps/{app}/build_graph", "The agents of an app, in snake_case")
            .ok(schema_ref("BuildGraph")),
        get("/dev/apps/{app}/build_graph_image", "The agents of an app as Graphviz graphs")
            .ok(json!({"type": "object", "additionalProperties": graph()})),
        get("/dev/apps/{app}/graph", "The agents of an app as a Graphviz graph").ok(graph()),
        get(
            "/dev/apps/{app}/users/{user}/sessions/{session}/events/{event}/graph",
            "The graph with the agent and the tools of an event highlighted",
        )
        .ok(graph()),
        get("/dev/apps/{app}/debug/trace/{event}", "The span of an event, while it is in memory")
            .ok(json!({"type": "object"})),
        get("/dev/apps/{app}/debug/trace/session/{session}", "The spans of a session that are in memory")
            .ok(list_of(&schema_ref("Span"))),
        get("/dev/apps/{app}/eval_sets", no_evaluation).ok(empty()),
        get("/dev/apps/{app}/eval-sets", no_evaluation).ok(no_ids("evalSetIds")),
        get("/dev/apps/{app}/eval_sets/{set}/evals", no_evaluation).error(400, "Always."),
        get("/dev/apps/{app}/eval_sets/{set}/evals/{case}", no_evaluation).error(404, "Always."),
        get("/dev/apps/{app}/eval-sets/{set}/eval-cases/{case}", no_evaluation).error(404, "Always."),
        get("/dev/apps/{app}/eval_results", no_evaluation).ok(empty()),
        get("/dev/apps/{app}/eval-results", no_evaluation).ok(no_ids("evalResultIds")),
        get("/dev/apps/{app}/eval_results/{result}", no_evaluation).error(404, "Always."),
        get("/dev/apps/{app}/eval-results/{result}", no_evaluation).error(404, "Always."),
        get("/dev/apps/{app}/metrics-info", no_evaluation).error(400, "Always."),
        get("/dev/apps/{app}/tests", no_evaluation).ok(empty()),
        get("/dev/apps/{app}/tests/{test}", no_evaluation).error(404, "Always."),
        get("/dev/apps/{app}/builder", "The agent builder, which this server does not support").response(
            200,
            "An empty text.",
            ResponseContent::Text("text/plain"),
        ),
    ]
}

fn unsupported() -> Vec<ApiOperation> {
    UNSUPPORTED.iter().map(|&(method, path, reason)| unsupported_operation(method, path, reason)).collect()
}

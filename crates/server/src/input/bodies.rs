//! The request bodies of ADK's API: for each its validation table and its struct. Unknown fields of an open table are ignored.

use super::{
    body::BodyType,
    shape::{FieldShape, ObjectShape, Shape},
};
use adk::{
    content::{Content, Part},
    event::Event,
};
use serde::Deserialize;
use serde_json::{Map, Value};

type JsonMap = Map<String, Value>;

/// The body of `/run` and `/run_sse`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunBody {
    pub(crate) app_name: Option<String>,
    pub(crate) user_id: String,
    pub(crate) session_id: String,
    pub(crate) new_message: Option<Content>,
    #[serde(default)]
    pub(crate) streaming: bool,
    pub(crate) state_delta: Option<JsonMap>,
    pub(crate) function_call_event_id: Option<String>,
    pub(crate) invocation_id: Option<String>,
    pub(crate) custom_metadata: Option<JsonMap>,
}

impl BodyType for RunBody {
    const SHAPE: &'static ObjectShape = &RUN;
}

pub(crate) static RUN: ObjectShape = ObjectShape {
    name: "RunRequest",
    fields: &[
        FieldShape::optional("appName", Shape::Text),
        FieldShape::required("userId", Shape::Text),
        FieldShape::required("sessionId", Shape::Text),
        FieldShape::optional("newMessage", Shape::Object(&CONTENT)),
        FieldShape::defaulted("streaming", Shape::Flag),
        FieldShape::optional("stateDelta", Shape::Dict),
        FieldShape::optional("functionCallEventId", Shape::Text),
        FieldShape::optional("invocationId", Shape::Text),
        FieldShape::optional("customMetadata", Shape::Dict),
        FieldShape::optional("serviceTier", Shape::Text),
    ],
    closed: false,
};

/// The body of `POST …/runs`, whose path names the session.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionRunBody {
    pub(crate) new_message: Option<Content>,
    #[serde(default)]
    pub(crate) streaming: bool,
    pub(crate) state_delta: Option<JsonMap>,
    pub(crate) invocation_id: Option<String>,
    pub(crate) custom_metadata: Option<JsonMap>,
}

impl BodyType for SessionRunBody {
    const SHAPE: &'static ObjectShape = &SESSION_RUN;
}

pub(crate) static SESSION_RUN: ObjectShape = ObjectShape {
    name: "RunHereRequest",
    fields: &[
        FieldShape::optional("newMessage", Shape::Object(&CONTENT)),
        FieldShape::defaulted("streaming", Shape::Flag),
        FieldShape::optional("stateDelta", Shape::Dict),
        FieldShape::optional("invocationId", Shape::Text),
        FieldShape::optional("customMetadata", Shape::Dict),
    ],
    closed: false,
};

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CreateSessionBody {
    pub(crate) session_id: Option<String>,
    pub(crate) state: Option<JsonMap>,
    pub(crate) events: Option<Vec<Event>>,
    pub(crate) options: Option<JsonMap>,
}

impl BodyType for CreateSessionBody {
    const SHAPE: &'static ObjectShape = &CREATE_SESSION;
}

pub(crate) static CREATE_SESSION: ObjectShape = ObjectShape {
    name: "CreateSessionRequest",
    fields: &[
        FieldShape::optional("sessionId", Shape::Text),
        FieldShape::optional("state", Shape::Dict),
        FieldShape::optional("events", Shape::List(&Shape::Object(&EVENT))),
        FieldShape::optional("options", Shape::Dict),
    ],
    closed: false,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PatchSessionBody {
    pub(crate) state_delta: JsonMap,
}

impl BodyType for PatchSessionBody {
    const SHAPE: &'static ObjectShape = &PATCH_SESSION;
}

pub(crate) static PATCH_SESSION: ObjectShape = ObjectShape {
    name: "PatchSessionRequest",
    fields: &[FieldShape::required("stateDelta", Shape::Dict)],
    closed: false,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PatchMemoryBody {
    pub(crate) session_id: String,
}

impl BodyType for PatchMemoryBody {
    const SHAPE: &'static ObjectShape = &PATCH_MEMORY;
}

pub(crate) static PATCH_MEMORY: ObjectShape = ObjectShape {
    name: "PatchMemoryRequest",
    fields: &[FieldShape::required("sessionId", Shape::Text)],
    closed: false,
};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SaveArtifactBody {
    pub(crate) filename: String,
    pub(crate) artifact: Part,
    pub(crate) custom_metadata: Option<JsonMap>,
}

impl BodyType for SaveArtifactBody {
    const SHAPE: &'static ObjectShape = &SAVE_ARTIFACT;
}

pub(crate) static SAVE_ARTIFACT: ObjectShape = ObjectShape {
    name: "SaveArtifactRequest",
    fields: &[
        FieldShape::required("filename", Shape::Text),
        FieldShape::required("artifact", Shape::Object(&PART)),
        FieldShape::optional("customMetadata", Shape::Dict),
    ],
    closed: false,
};

/// An event, as clients send it with a new session and as responses print it.
pub(crate) static EVENT: ObjectShape = ObjectShape {
    name: "Event",
    fields: &[
        FieldShape::optional("modelVersion", Shape::Text),
        FieldShape::optional("content", Shape::Object(&CONTENT)),
        FieldShape::optional("partial", Shape::Flag),
        FieldShape::optional("turnComplete", Shape::Flag),
        FieldShape::optional("finishReason", Shape::Text),
        FieldShape::optional("errorCode", Shape::Text),
        FieldShape::optional("errorMessage", Shape::Text),
        FieldShape::optional("interrupted", Shape::Flag),
        FieldShape::optional("customMetadata", Shape::Dict),
        FieldShape::optional("usageMetadata", Shape::Object(&USAGE_METADATA)),
        FieldShape::defaulted("invocationId", Shape::Text),
        FieldShape::defaulted("author", Shape::Text),
        FieldShape::defaulted("actions", Shape::Object(&EVENT_ACTIONS)),
        FieldShape::defaulted("nodeInfo", Shape::Object(&NODE_INFO)),
        FieldShape::optional("longRunningToolIds", Shape::List(&Shape::Text)),
        FieldShape::optional("branch", Shape::Text),
        FieldShape::defaulted("id", Shape::Text),
        FieldShape::defaulted("timestamp", Shape::Number),
    ],
    closed: false,
};

static USAGE_METADATA: ObjectShape = ObjectShape {
    name: "UsageMetadata",
    fields: &[
        FieldShape::optional("cachedContentTokenCount", Shape::Count),
        FieldShape::optional("candidatesTokenCount", Shape::Count),
        FieldShape::optional("promptTokenCount", Shape::Count),
        FieldShape::optional("thoughtsTokenCount", Shape::Count),
        FieldShape::optional("totalTokenCount", Shape::Count),
    ],
    closed: false,
};

static EVENT_ACTIONS: ObjectShape = ObjectShape {
    name: "EventActions",
    fields: &[
        FieldShape::optional("skipSummarization", Shape::Flag),
        FieldShape::defaulted("stateDelta", Shape::Dict),
        FieldShape::defaulted("artifactDelta", Shape::Dict),
        FieldShape::optional("transferToAgent", Shape::Text),
        FieldShape::optional("escalate", Shape::Flag),
        FieldShape::defaulted("requestedAuthConfigs", Shape::Dict),
        FieldShape::defaulted("requestedToolConfirmations", Shape::Dict),
    ],
    closed: false,
};

static NODE_INFO: ObjectShape =
    ObjectShape { name: "NodeInfo", fields: &[FieldShape::defaulted("path", Shape::Text)], closed: false };

static OPEN: ObjectShape = ObjectShape { name: "Anything", fields: &[], closed: false };

static CONTENT: ObjectShape = ObjectShape {
    name: "Content",
    fields: &[
        FieldShape::optional("parts", Shape::List(&Shape::Object(&PART))),
        FieldShape::optional("role", Shape::Text),
    ],
    closed: true,
};

static PART: ObjectShape = ObjectShape {
    name: "Part",
    fields: &[
        FieldShape::optional("mediaResolution", Shape::Any),
        FieldShape::optional("codeExecutionResult", Shape::Object(&OPEN)),
        FieldShape::optional("executableCode", Shape::Object(&OPEN)),
        FieldShape::optional("fileData", Shape::Object(&FILE_DATA)),
        FieldShape::optional("functionCall", Shape::Object(&FUNCTION_CALL)),
        FieldShape::optional("functionResponse", Shape::Object(&FUNCTION_RESPONSE)),
        FieldShape::optional("inlineData", Shape::Object(&BLOB)),
        FieldShape::optional("text", Shape::Text),
        FieldShape::optional("thought", Shape::Flag),
        FieldShape::optional("thoughtSignature", Shape::Bytes),
        FieldShape::optional("videoMetadata", Shape::Object(&OPEN)),
        FieldShape::optional("toolCall", Shape::Object(&OPEN)),
        FieldShape::optional("toolResponse", Shape::Object(&OPEN)),
        FieldShape::optional("partMetadata", Shape::Dict),
        FieldShape::optional("audioTranscription", Shape::Object(&OPEN)),
        FieldShape::optional("mediaProcessing", Shape::Any),
        FieldShape::optional("speechMetadata", Shape::Object(&OPEN)),
    ],
    closed: true,
};

static BLOB: ObjectShape = ObjectShape {
    name: "Blob",
    fields: &[
        FieldShape::optional("data", Shape::Bytes),
        FieldShape::optional("displayName", Shape::Text),
        FieldShape::optional("mimeType", Shape::Text),
    ],
    closed: true,
};

static FILE_DATA: ObjectShape = ObjectShape {
    name: "FileData",
    fields: &[
        FieldShape::optional("displayName", Shape::Text),
        FieldShape::optional("fileUri", Shape::Text),
        FieldShape::optional("mimeType", Shape::Text),
    ],
    closed: true,
};

static FUNCTION_CALL: ObjectShape = ObjectShape {
    name: "FunctionCall",
    fields: &[
        FieldShape::optional("id", Shape::Text),
        FieldShape::optional("args", Shape::Dict),
        FieldShape::optional("name", Shape::Text),
        FieldShape::optional("partialArgs", Shape::List(&Shape::Object(&OPEN))),
        FieldShape::optional("willContinue", Shape::Flag),
    ],
    closed: true,
};

static FUNCTION_RESPONSE: ObjectShape = ObjectShape {
    name: "FunctionResponse",
    fields: &[
        FieldShape::optional("willContinue", Shape::Flag),
        FieldShape::optional("scheduling", Shape::Text),
        FieldShape::optional("parts", Shape::List(&Shape::Object(&OPEN))),
        FieldShape::optional("id", Shape::Text),
        FieldShape::optional("name", Shape::Text),
        FieldShape::optional("response", Shape::Dict),
    ],
    closed: true,
};

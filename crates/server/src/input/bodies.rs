//! The bodies of ADK's API. What is not named in an open one is left alone.

use super::shape::{Field, Object, Shape};

pub(crate) static RUN: Object = Object {
    name: "RunRequest",
    fields: &[
        Field::optional("appName", Shape::Text),
        Field::required("userId", Shape::Text),
        Field::required("sessionId", Shape::Text),
        Field::optional("newMessage", Shape::Object(&CONTENT)),
        Field::defaulted("streaming", Shape::Flag),
        Field::optional("stateDelta", Shape::Dict),
        Field::optional("functionCallEventId", Shape::Text),
        Field::optional("invocationId", Shape::Text),
        Field::optional("customMetadata", Shape::Dict),
        Field::optional("serviceTier", Shape::Text),
    ],
    closed: false,
};

/// The same where the path says which session.
pub(crate) static RUN_HERE: Object = Object {
    name: "RunHereRequest",
    fields: &[
        Field::optional("newMessage", Shape::Object(&CONTENT)),
        Field::defaulted("streaming", Shape::Flag),
        Field::optional("stateDelta", Shape::Dict),
        Field::optional("customMetadata", Shape::Dict),
    ],
    closed: false,
};

pub(crate) static CREATE_SESSION: Object = Object {
    name: "CreateSessionRequest",
    fields: &[
        Field::optional("sessionId", Shape::Text),
        Field::optional("state", Shape::Dict),
        Field::optional("events", Shape::List(&Shape::Object(&EVENT))),
        Field::optional("options", Shape::Dict),
    ],
    closed: false,
};

pub(crate) static PATCH_SESSION: Object = Object {
    name: "PatchSessionRequest",
    fields: &[Field::required("stateDelta", Shape::Dict)],
    closed: false,
};

pub(crate) static PATCH_MEMORY: Object = Object {
    name: "PatchMemoryRequest",
    fields: &[Field::required("sessionId", Shape::Text)],
    closed: false,
};

pub(crate) static SAVE_ARTIFACT: Object = Object {
    name: "SaveArtifactRequest",
    fields: &[
        Field::required("filename", Shape::Text),
        Field::required("artifact", Shape::Object(&PART)),
        Field::optional("customMetadata", Shape::Dict),
    ],
    closed: false,
};

pub(crate) static EVENT: Object = Object {
    name: "Event",
    fields: &[
        Field::optional("modelVersion", Shape::Text),
        Field::optional("content", Shape::Object(&CONTENT)),
        Field::optional("partial", Shape::Flag),
        Field::optional("turnComplete", Shape::Flag),
        Field::optional("finishReason", Shape::Text),
        Field::optional("errorCode", Shape::Text),
        Field::optional("errorMessage", Shape::Text),
        Field::optional("interrupted", Shape::Flag),
        Field::optional("customMetadata", Shape::Dict),
        Field::optional("usageMetadata", Shape::Object(&OPEN)),
        Field::defaulted("invocationId", Shape::Text),
        Field::defaulted("author", Shape::Text),
        Field::defaulted("actions", Shape::Object(&OPEN)),
        Field::defaulted("nodeInfo", Shape::Object(&OPEN)),
        Field::optional("longRunningToolIds", Shape::List(&Shape::Text)),
        Field::optional("branch", Shape::Text),
        Field::defaulted("id", Shape::Text),
        Field::defaulted("timestamp", Shape::Number),
    ],
    closed: false,
};

static OPEN: Object = Object { name: "Anything", fields: &[], closed: false };

static CONTENT: Object = Object {
    name: "Content",
    fields: &[
        Field::optional("parts", Shape::List(&Shape::Object(&PART))),
        Field::optional("role", Shape::Text),
    ],
    closed: true,
};

static PART: Object = Object {
    name: "Part",
    fields: &[
        Field::optional("mediaResolution", Shape::Any),
        Field::optional("codeExecutionResult", Shape::Object(&OPEN)),
        Field::optional("executableCode", Shape::Object(&OPEN)),
        Field::optional("fileData", Shape::Object(&FILE_DATA)),
        Field::optional("functionCall", Shape::Object(&FUNCTION_CALL)),
        Field::optional("functionResponse", Shape::Object(&FUNCTION_RESPONSE)),
        Field::optional("inlineData", Shape::Object(&BLOB)),
        Field::optional("text", Shape::Text),
        Field::optional("thought", Shape::Flag),
        Field::optional("thoughtSignature", Shape::Bytes),
        Field::optional("videoMetadata", Shape::Object(&OPEN)),
        Field::optional("toolCall", Shape::Object(&OPEN)),
        Field::optional("toolResponse", Shape::Object(&OPEN)),
        Field::optional("partMetadata", Shape::Dict),
        Field::optional("audioTranscription", Shape::Object(&OPEN)),
        Field::optional("mediaProcessing", Shape::Any),
        Field::optional("speechMetadata", Shape::Object(&OPEN)),
    ],
    closed: true,
};

static BLOB: Object = Object {
    name: "Blob",
    fields: &[
        Field::optional("data", Shape::Bytes),
        Field::optional("displayName", Shape::Text),
        Field::optional("mimeType", Shape::Text),
    ],
    closed: true,
};

static FILE_DATA: Object = Object {
    name: "FileData",
    fields: &[
        Field::optional("displayName", Shape::Text),
        Field::optional("fileUri", Shape::Text),
        Field::optional("mimeType", Shape::Text),
    ],
    closed: true,
};

static FUNCTION_CALL: Object = Object {
    name: "FunctionCall",
    fields: &[
        Field::optional("id", Shape::Text),
        Field::optional("args", Shape::Dict),
        Field::optional("name", Shape::Text),
        Field::optional("partialArgs", Shape::List(&Shape::Object(&OPEN))),
        Field::optional("willContinue", Shape::Flag),
    ],
    closed: true,
};

static FUNCTION_RESPONSE: Object = Object {
    name: "FunctionResponse",
    fields: &[
        Field::optional("willContinue", Shape::Flag),
        Field::optional("scheduling", Shape::Text),
        Field::optional("parts", Shape::List(&Shape::Object(&OPEN))),
        Field::optional("id", Shape::Text),
        Field::optional("name", Shape::Text),
        Field::optional("response", Shape::Dict),
    ],
    closed: true,
};

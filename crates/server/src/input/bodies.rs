//! The bodies of ADK's API. What is not named in an open one is left alone.

use super::shape::{FieldShape, ObjectShape, Shape};

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

/// The same where the path says which session.
pub(crate) static RUN_HERE: ObjectShape = ObjectShape {
    name: "RunHereRequest",
    fields: &[
        FieldShape::optional("newMessage", Shape::Object(&CONTENT)),
        FieldShape::defaulted("streaming", Shape::Flag),
        FieldShape::optional("stateDelta", Shape::Dict),
        FieldShape::optional("customMetadata", Shape::Dict),
    ],
    closed: false,
};

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

pub(crate) static PATCH_SESSION: ObjectShape = ObjectShape {
    name: "PatchSessionRequest",
    fields: &[FieldShape::required("stateDelta", Shape::Dict)],
    closed: false,
};

pub(crate) static PATCH_MEMORY: ObjectShape = ObjectShape {
    name: "PatchMemoryRequest",
    fields: &[FieldShape::required("sessionId", Shape::Text)],
    closed: false,
};

pub(crate) static SAVE_ARTIFACT: ObjectShape = ObjectShape {
    name: "SaveArtifactRequest",
    fields: &[
        FieldShape::required("filename", Shape::Text),
        FieldShape::required("artifact", Shape::Object(&PART)),
        FieldShape::optional("customMetadata", Shape::Dict),
    ],
    closed: false,
};

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
        FieldShape::optional("usageMetadata", Shape::Object(&OPEN)),
        FieldShape::defaulted("invocationId", Shape::Text),
        FieldShape::defaulted("author", Shape::Text),
        FieldShape::defaulted("actions", Shape::Object(&OPEN)),
        FieldShape::defaulted("nodeInfo", Shape::Object(&OPEN)),
        FieldShape::optional("longRunningToolIds", Shape::List(&Shape::Text)),
        FieldShape::optional("branch", Shape::Text),
        FieldShape::defaulted("id", Shape::Text),
        FieldShape::defaulted("timestamp", Shape::Number),
    ],
    closed: false,
};

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

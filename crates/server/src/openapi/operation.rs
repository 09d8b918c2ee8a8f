//! The builder of an operation. It adds the errors that follow from the operation's properties.

use serde_json::{Map, Value, json};

/// The body of a response.
#[derive(Clone, Debug)]
pub(super) enum ResponseContent {
    Json(Value),
    /// Text of a media type.
    Text(&'static str),
    /// Server-sent events; the schema describes one of them.
    Events,
    Empty,
}

#[derive(Clone, Debug)]
pub(super) struct ApiOperation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    summary: &'static str,
    tag: &'static str,
    /// Whether the route needs no token.
    pub(super) public: bool,
    query: Vec<(&'static str, Value, &'static str)>,
    request_headers: Vec<(&'static str, &'static str)>,
    /// The schema, and whether the body is required.
    body: Option<(Value, bool)>,
    responses: Vec<(u16, &'static str, ResponseContent)>,
    response_headers: Vec<(&'static str, &'static str)>,
}

/// A reference to a schema.
pub(super) fn schema_ref(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

pub(super) fn list_of(schema: &Value) -> Value {
    json!({"type": "array", "items": schema})
}

pub(super) fn get(path: &'static str, summary: &'static str) -> ApiOperation {
    ApiOperation::new("get", path, summary)
}

pub(super) fn post(path: &'static str, summary: &'static str) -> ApiOperation {
    ApiOperation::new("post", path, summary)
}

pub(super) fn patch(path: &'static str, summary: &'static str) -> ApiOperation {
    ApiOperation::new("patch", path, summary)
}

pub(super) fn delete(path: &'static str, summary: &'static str) -> ApiOperation {
    ApiOperation::new("delete", path, summary)
}

/// An operation that always answers 501.
pub(super) fn unsupported_operation(
    method: &'static str,
    path: &'static str,
    reason: &'static str,
) -> ApiOperation {
    ApiOperation::new(method, path, reason).error(501, "Always.")
}

impl ApiOperation {
    fn new(method: &'static str, path: &'static str, summary: &'static str) -> Self {
        Self {
            method,
            path,
            summary,
            tag: "",
            public: false,
            query: Vec::new(),
            request_headers: Vec::new(),
            body: None,
            responses: Vec::new(),
            response_headers: Vec::new(),
        }
    }

    pub(super) fn public(self) -> Self {
        Self { public: true, ..self }
    }

    pub(super) fn tag(self, tag: &'static str) -> Self {
        Self { tag, ..self }
    }

    pub(super) fn query(mut self, name: &'static str, schema: Value, description: &'static str) -> Self {
        self.query.push((name, schema, description));
        self
    }

    pub(super) fn request_header(mut self, name: &'static str, description: &'static str) -> Self {
        self.request_headers.push((name, description));
        self
    }

    /// A header of successful responses.
    pub(super) fn response_header(mut self, name: &'static str, description: &'static str) -> Self {
        self.response_headers.push((name, description));
        self
    }

    pub(super) fn body(self, schema: Value) -> Self {
        Self { body: Some((schema, true)), ..self }
    }

    pub(super) fn optional_body(self, schema: Value) -> Self {
        Self { body: Some((schema, false)), ..self }
    }

    /// A response with status 200 and JSON.
    pub(super) fn ok(self, schema: Value) -> Self {
        self.response(200, "Success.", ResponseContent::Json(schema))
    }

    pub(super) fn response(mut self, status: u16, description: &'static str, body: ResponseContent) -> Self {
        self.responses.push((status, description, body));
        self
    }

    /// An error response whose detail is a message.
    pub(super) fn error(self, status: u16, description: &'static str) -> Self {
        self.response(status, description, ResponseContent::Json(schema_ref("Error")))
    }

    fn has_path_params(&self) -> bool {
        self.path.contains('{')
    }

    pub(super) fn to_json(&self) -> Value {
        let mut operation = json!({
            "tags": [self.tag],
            "summary": self.summary,
            "operationId": self.id(),
            "parameters": self.parameters(),
        });
        if let Some((schema, required)) = &self.body {
            operation["requestBody"] =
                json!({"required": required, "content": {"application/json": {"schema": schema}}});
        }
        if self.public {
            operation["security"] = json!([]);
        }
        operation["responses"] = self.responses_json();
        operation
    }

    /// The method and the words of the path: `get_apps_app_app-info`.
    fn id(&self) -> String {
        let words = self.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
        let index = self.path.ends_with('/').then_some("index");
        [self.method].into_iter().chain(words).chain(index).collect::<Vec<_>>().join("_")
    }

    fn parameters(&self) -> Vec<Value> {
        let text = json!({"type": "string", "minLength": 1});
        let in_path = self.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
        let mut parameters: Vec<Value> = in_path
            .map(|name| json!({"name": name, "in": "path", "required": true, "schema": text}))
            .collect();
        for (name, schema, description) in &self.query {
            parameters
                .push(json!({"name": name, "in": "query", "schema": schema, "description": description}));
        }
        for (name, description) in &self.request_headers {
            let schema = json!({"type": "string"});
            parameters
                .push(json!({"name": name, "in": "header", "schema": schema, "description": description}));
        }
        parameters
    }

    fn responses_json(&self) -> Value {
        let mut responses = Map::new();
        for (status, description, body) in self.responses.iter().chain(&self.common_errors()) {
            let response =
                responses.entry(status.to_string()).or_insert_with(|| json!({"description": description}));
            match body {
                ResponseContent::Json(schema) => {
                    response["content"]["application/json"]["schema"] = schema.clone();
                }
                ResponseContent::Text(media_type) => {
                    response["content"][media_type]["schema"] = json!({"type": "string"});
                }
                ResponseContent::Events => {
                    response["content"]["text/event-stream"]["schema"] = schema_ref("StreamedEvent");
                }
                ResponseContent::Empty => {}
            }
            for (name, description) in self.response_headers.iter().filter(|_| *status < 300) {
                response["headers"][name] = json!({"description": description, "schema": {"type": "string"}});
            }
        }
        responses.sort_keys();
        responses.into()
    }

    /// The errors that follow from the operation's properties. For a status that the operation describes itself, its own description
    /// wins.
    fn common_errors(&self) -> Vec<(u16, &'static str, ResponseContent)> {
        let error = || ResponseContent::Json(schema_ref("Error"));
        let validation_error = || ResponseContent::Json(schema_ref("ValidationError"));
        let mut all = vec![(403, "Host or Origin not allowed.", ResponseContent::Text("text/plain"))];
        if !self.public {
            all.push((401, "Token missing or invalid.", error()));
            all.push((413, "The body exceeds the size limit.", error()));
            all.push((429, "Rate limit of the token, or limit of concurrent runs reached.", error()));
            all.push((500, "The store or the app failed.", error()));
            all.push((503, "The store is locked, overloaded or its disk failed; see Retry-After.", error()));
            all.push((507, "The disk of the store is full.", error()));
        }
        if self.has_path_params() {
            all.push((400, "The path is not valid UTF-8.", error()));
            all.push((404, "Not found, or owned by another user.", error()));
        }
        if self.body.is_some() {
            all.push((400, "The body cannot be read.", error()));
        }
        if self.body.is_some() || !self.query.is_empty() {
            all.push((422, "Validation errors, each with its location.", validation_error()));
        }
        all
    }
}

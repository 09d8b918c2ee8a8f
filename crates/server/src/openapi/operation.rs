//! One operation, as it is written down: what is its own is said, and what all have in common follows from it.

use serde_json::{Map, Value, json};

/// What an answer's body is.
#[derive(Clone, Debug)]
pub(super) enum ResponseBody {
    Json(Value),
    Text(&'static str),
    /// Server-sent events; the schema is that of one event.
    Events,
    Empty,
}

#[derive(Clone, Debug)]
pub(super) struct ApiOperation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    about: &'static str,
    tag: &'static str,
    /// Whether it is answered without a token.
    open: bool,
    query: Vec<(&'static str, Value, &'static str)>,
    headers: Vec<(&'static str, &'static str)>,
    /// The schema, and whether a body must be sent.
    body: Option<(Value, bool)>,
    answers: Vec<(u16, &'static str, ResponseBody)>,
    told: Vec<(&'static str, &'static str)>,
}

/// A reference to a schema.
pub(super) fn named(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

pub(super) fn list_of(schema: &Value) -> Value {
    json!({"type": "array", "items": schema})
}

pub(super) fn get(path: &'static str, about: &'static str) -> ApiOperation {
    ApiOperation::new("get", path, about)
}

pub(super) fn post(path: &'static str, about: &'static str) -> ApiOperation {
    ApiOperation::new("post", path, about)
}

pub(super) fn patch(path: &'static str, about: &'static str) -> ApiOperation {
    ApiOperation::new("patch", path, about)
}

pub(super) fn delete(path: &'static str, about: &'static str) -> ApiOperation {
    ApiOperation::new("delete", path, about)
}

impl ApiOperation {
    fn new(method: &'static str, path: &'static str, about: &'static str) -> Self {
        let (query, headers, answers, told) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { method, path, about, tag: "", open: false, query, headers, body: None, answers, told }
    }

    pub(super) fn open(self) -> Self {
        Self { open: true, ..self }
    }

    pub(super) fn tagged(self, tag: &'static str) -> Self {
        Self { tag, ..self }
    }

    pub(super) fn asks(mut self, name: &'static str, schema: Value, about: &'static str) -> Self {
        self.query.push((name, schema, about));
        self
    }

    /// A header of the request.
    pub(super) fn hears(mut self, name: &'static str, about: &'static str) -> Self {
        self.headers.push((name, about));
        self
    }

    /// A header of the answer.
    pub(super) fn tells(mut self, name: &'static str, about: &'static str) -> Self {
        self.told.push((name, about));
        self
    }

    pub(super) fn takes(self, body: Value) -> Self {
        Self { body: Some((body, true)), ..self }
    }

    pub(super) fn may_take(self, body: Value) -> Self {
        Self { body: Some((body, false)), ..self }
    }

    pub(super) fn gives(self, schema: Value) -> Self {
        self.answers(200, "Done.", ResponseBody::Json(schema))
    }

    pub(super) fn answers(mut self, status: u16, about: &'static str, kind: ResponseBody) -> Self {
        self.answers.push((status, about, kind));
        self
    }

    /// An error with a sentence for people.
    pub(super) fn fails(self, status: u16, about: &'static str) -> Self {
        self.answers(status, about, ResponseBody::Json(named("Error")))
    }

    fn has_places(&self) -> bool {
        self.path.contains('{')
    }

    pub(super) fn described(&self) -> Value {
        let mut described = json!({
            "tags": [self.tag],
            "summary": self.about,
            "operationId": self.id(),
            "parameters": self.parameters(),
        });
        if let Some((schema, required)) = &self.body {
            described["requestBody"] =
                json!({"required": required, "content": {"application/json": {"schema": schema}}});
        }
        if self.open {
            described["security"] = json!([]);
        }
        described["responses"] = self.responses();
        described
    }

    /// `get_apps_app_app-info`: the method and the words of the path.
    fn id(&self) -> String {
        let words = self.path.split(['/', '{', '}', '.']).filter(|word| !word.is_empty());
        let index = self.path.ends_with('/').then_some("index");
        [self.method].into_iter().chain(words).chain(index).collect::<Vec<_>>().join("_")
    }

    fn parameters(&self) -> Vec<Value> {
        let text = json!({"type": "string", "minLength": 1});
        let places = self.path.split('/').filter_map(|piece| piece.strip_prefix('{')?.strip_suffix('}'));
        let mut all: Vec<Value> = places
            .map(|name| json!({"name": name, "in": "path", "required": true, "schema": text}))
            .collect();
        for (name, schema, about) in &self.query {
            all.push(json!({"name": name, "in": "query", "schema": schema, "description": about}));
        }
        for (name, about) in &self.headers {
            all.push(
                json!({"name": name, "in": "header", "schema": {"type": "string"}, "description": about}),
            );
        }
        all
    }

    fn responses(&self) -> Value {
        let mut all = Map::new();
        for (status, about, kind) in self.answers.iter().chain(&self.common()) {
            let answer = all.entry(status.to_string()).or_insert_with(|| json!({"description": about}));
            match kind {
                ResponseBody::Json(schema) => {
                    answer["content"]["application/json"]["schema"] = schema.clone()
                }
                ResponseBody::Text(kind) => answer["content"][kind]["schema"] = json!({"type": "string"}),
                ResponseBody::Events => {
                    answer["content"]["text/event-stream"]["schema"] = named("StreamedEvent")
                }
                ResponseBody::Empty => {}
            }
            for (name, about) in self.told.iter().filter(|_| *status < 300) {
                answer["headers"][name] = json!({"description": about, "schema": {"type": "string"}});
            }
        }
        all.sort_keys();
        all.into()
    }

    /// The errors that follow from what it is; what was said of it goes before.
    fn common(&self) -> Vec<(u16, &'static str, ResponseBody)> {
        let error = || ResponseBody::Json(named("Error"));
        let wrong = || ResponseBody::Json(named("ValidationError"));
        let mut all = vec![(
            403,
            "The Host or the Origin is not one of the server's.",
            ResponseBody::Text("text/plain"),
        )];
        if !self.open {
            all.push((401, "No token, or one that is not good.", error()));
            all.push((413, "The body is larger than the server takes.", error()));
            all.push((429, "Too many requests with this token, or too many runs.", error()));
            all.push((500, "The store failed, or what the server was asked to run.", error()));
            all.push((503, "The store is locked, too busy, or its disk failed; see Retry-After.", error()));
            all.push((507, "The disk of the store is full.", error()));
        }
        if self.has_places() {
            all.push((400, "The path is not text.", error()));
            all.push((404, "It is not there, or another user's.", error()));
        }
        if self.body.is_some() {
            all.push((400, "The body cannot be read.", error()));
        }
        if self.body.is_some() || !self.query.is_empty() {
            all.push((422, "All that is wrong, each with its place.", wrong()));
        }
        all
    }
}

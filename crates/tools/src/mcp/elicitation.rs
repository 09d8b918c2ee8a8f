//! Elicitation: questions of a server to the user become questions of the call that is in progress at the server. The
//! protocol does not say which call a question belongs to.

use lock::LockExt;
use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot, watch};

use crate::{InputQuestion, InputReply, ToolHost, outputs::to_plain_text};

/// Limits of a question. A larger one is declined.
const MAX_MESSAGE: usize = 4_000;
const MAX_SCHEMA: usize = 32 << 10;
const MAX_FIELDS: usize = 40;
/// How many questions one call may ask. Later ones are declined.
const MAX_QUESTIONS: usize = 20;

/// The types of fields that the protocol allows.
const FIELD_TYPES: [&str; 5] = ["string", "number", "integer", "boolean", "array"];

/// Words in the names of fields that ask for a secret.
const SECRET_WORDS: [&str; 10] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "apikey",
    "privatekey",
    "credential",
    "cvv",
    "ssn",
];

/// A question that waits for its answer.
pub(super) struct AskedQuestion {
    pub(super) question: InputQuestion,
    pub(super) reply: oneshot::Sender<InputReply>,
}

/// A call in progress, as the handler of its connection sees it.
pub(super) struct CallLink {
    /// The session of the call: only its user may be asked.
    session: String,
    /// The turn that waits for the call. Another one after each answer.
    host: Mutex<Arc<dyn ToolHost>>,
    questions: mpsc::UnboundedSender<AskedQuestion>,
    asked: AtomicUsize,
    /// The number of questions without an answer. The timeouts of the call are suspended while there are any.
    open: watch::Sender<usize>,
    /// Why questions were declined without asking.
    declined: Mutex<Vec<String>>,
}

impl CallLink {
    pub(super) fn new(
        session: String,
        host: Arc<dyn ToolHost>,
    ) -> (Arc<Self>, mpsc::UnboundedReceiver<AskedQuestion>) {
        let (questions, receiver) = mpsc::unbounded_channel();
        let link = Self {
            session,
            host: Mutex::new(host),
            questions,
            asked: AtomicUsize::new(0),
            open: watch::Sender::new(0),
            declined: Mutex::default(),
        };
        (Arc::new(link), receiver)
    }

    pub(super) fn set_host(&self, host: Arc<dyn ToolHost>) {
        *self.host.locked() = host;
    }

    pub(super) fn progress(&self, text: &str) {
        let host = Arc::clone(&self.host.locked());
        host.progress(text);
    }

    pub(super) fn open_questions(&self) -> watch::Receiver<usize> {
        self.open.subscribe()
    }

    /// Records why a question was declined.
    pub(super) fn note_declined(&self, reason: &str) {
        let mut declined = self.declined.locked();
        if !declined.iter().any(|known| known == reason) {
            declined.push(reason.to_owned());
        }
    }

    /// Why questions of this call were declined without asking, for the model.
    pub(super) fn declined(&self) -> Option<String> {
        let declined = self.declined.locked();
        (!declined.is_empty()).then(|| declined.join("; "))
    }

    async fn ask(&self, question: InputQuestion) -> InputReply {
        if self.asked.fetch_add(1, Ordering::Relaxed) >= MAX_QUESTIONS {
            self.note_declined("it asked too many questions");
            return InputReply::Decline;
        }
        let (reply, answer) = oneshot::channel();
        let _open = OpenQuestion::new(&self.open);
        if self.questions.send(AskedQuestion { question, reply }).is_err() {
            return InputReply::Cancel;
        }
        answer.await.unwrap_or(InputReply::Cancel)
    }
}

/// Counts a question as open until it is dropped.
struct OpenQuestion<'a>(&'a watch::Sender<usize>);

impl<'a> OpenQuestion<'a> {
    fn new(open: &'a watch::Sender<usize>) -> Self {
        open.send_modify(|count| *count += 1);
        Self(open)
    }
}

impl Drop for OpenQuestion<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// The calls in progress at one connection, and whether their users can be asked.
pub(super) struct Elicitation {
    server: String,
    can_ask: bool,
    calls: Mutex<Vec<Arc<CallLink>>>,
}

impl Elicitation {
    pub(super) fn new(server: &str, can_ask: bool) -> Self {
        Self { server: server.to_owned(), can_ask, calls: Mutex::default() }
    }

    /// Whether the capability is announced to the server.
    pub(super) fn can_ask(&self) -> bool {
        self.can_ask
    }

    /// Registers a call until the guard is dropped.
    pub(super) fn register(self: &Arc<Self>, link: &Arc<CallLink>) -> RegisteredCall {
        self.calls.locked().push(Arc::clone(link));
        RegisteredCall { elicitation: Arc::clone(self), link: Arc::clone(link) }
    }

    /// Asks the user of the call in progress.
    pub(super) async fn answer(&self, params: ElicitRequestParams) -> ElicitResult {
        let call = self.call_to_ask();
        self.answer_for(call, params).await
    }

    /// Asks the user of this call.
    pub(super) async fn answer_for(
        &self,
        call: Result<Arc<CallLink>, &'static str>,
        params: ElicitRequestParams,
    ) -> ElicitResult {
        let call = match call {
            Ok(call) => call,
            Err(reason) => {
                self.calls.locked().iter().for_each(|call| call.note_declined(reason));
                return ElicitResult::new(ElicitationAction::Decline);
            }
        };
        let question = if self.can_ask {
            question(&self.server, params)
        } else {
            Err("no one is available to answer it")
        };
        match question {
            Ok(question) => to_result(call.ask(question).await),
            Err(reason) => {
                call.note_declined(reason);
                ElicitResult::new(ElicitationAction::Decline)
            }
        }
    }

    /// The oldest call without an open question. Calls of several sessions belong to different users or tasks, none of which
    /// must see what another call asks.
    fn call_to_ask(&self) -> Result<Arc<CallLink>, &'static str> {
        let calls = self.calls.locked();
        let Some(first) = calls.first() else { return Err("no call is in progress") };
        if calls.iter().any(|call| call.session != first.session) {
            return Err("calls of several sessions are in progress, so it is not known whom it asks");
        }
        let idle = calls.iter().find(|call| *call.open.borrow() == 0);
        Ok(Arc::clone(idle.unwrap_or(first)))
    }
}

/// A call in progress at a connection.
pub(super) struct RegisteredCall {
    elicitation: Arc<Elicitation>,
    link: Arc<CallLink>,
}

impl Drop for RegisteredCall {
    fn drop(&mut self) {
        self.elicitation.calls.locked().retain(|call| !Arc::ptr_eq(call, &self.link));
    }
}

fn to_result(reply: InputReply) -> ElicitResult {
    match reply {
        InputReply::Accept(content) => {
            ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(content))
        }
        InputReply::Decline => ElicitResult::new(ElicitationAction::Decline),
        InputReply::Cancel => ElicitResult::new(ElicitationAction::Cancel),
    }
}

/// The question for the user, or why it is declined.
fn question(server: &str, params: ElicitRequestParams) -> Result<InputQuestion, &'static str> {
    match params {
        ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
            let schema = schema_json(&requested_schema).ok_or("its form cannot be read")?;
            form_question(server, &message, schema)
        }
        ElicitRequestParams::UrlElicitationParams { .. } => {
            Err("it asked to open a web page, which lango does not do")
        }
        _ => Err("it asked in a way that lango does not know"),
    }
}

/// The schema with its fields in the server's order.
fn schema_json(schema: &ElicitationSchema) -> Option<Value> {
    let mut json = serde_json::to_value(schema).ok()?;
    if let (Some(order), Some(Value::Object(fields))) = (&schema.property_order, json.get_mut("properties")) {
        let mut sorted = Map::new();
        for name in order {
            sorted.extend(fields.shift_remove_entry(name));
        }
        sorted.append(fields);
        *fields = sorted;
    }
    Some(json)
}

fn form_question(server: &str, message: &str, schema: Value) -> Result<InputQuestion, &'static str> {
    check_schema(&schema)?;
    let mut quoted = to_plain_text(message.as_bytes());
    if quoted.len() > MAX_MESSAGE {
        quoted.truncate(quoted.floor_char_boundary(MAX_MESSAGE));
        quoted.push('…');
    }
    let secrets = secret_fields(&schema);
    let warning = if secrets.is_empty() {
        String::new()
    } else {
        format!(
            "\nCareful: {} may be a secret. The answer goes to the server and is stored in the session.",
            secrets.join(", ")
        )
    };
    let message = format!("The MCP server `{server}` asks: {}{warning}", quoted.trim());
    Ok(InputQuestion { message, schema, server: server.to_owned() })
}

fn check_schema(schema: &Value) -> Result<(), &'static str> {
    if schema.to_string().len() > MAX_SCHEMA {
        return Err("its form is too large");
    }
    let Some(fields) = schema.get("properties").and_then(Value::as_object) else {
        return Err("its form has no fields");
    };
    if fields.len() > MAX_FIELDS {
        return Err("its form is too large");
    }
    let is_known = |field: &Value| {
        field.get("type").and_then(Value::as_str).is_some_and(|kind| FIELD_TYPES.contains(&kind))
    };
    if fields.values().all(is_known) { Ok(()) } else { Err("its form has a field of an unknown type") }
}

fn secret_fields(schema: &Value) -> Vec<String> {
    let fields = schema.get("properties").and_then(Value::as_object);
    let is_secret = |name: &str, field: &Value| {
        let title = field.get("title").and_then(Value::as_str).unwrap_or_default();
        let letters = |text: &str| -> String {
            text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
        };
        let (name, title) = (letters(name), letters(title));
        SECRET_WORDS.iter().any(|word| name.contains(word) || title.contains(word))
    };
    let secret = fields.into_iter().flatten().filter(|(name, field)| is_secret(name, field));
    secret.map(|(name, _)| format!("`{}`", to_plain_text(name.as_bytes()))).collect()
}

impl fmt::Debug for CallLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallLink").field("session", &self.session).finish_non_exhaustive()
    }
}

//! Snapshots: one line per event or content; generated ids are numbered by first appearance.

use adk::{
    content::{Content, Data, Part},
    event::Event,
    model::ContentRef,
};
use serde_json::{Map, Value};
use std::fmt::Write as _;

#[derive(Default)]
struct Ids(Vec<String>);

impl Ids {
    /// `#1` for a generated id, the id itself for one of the model.
    fn short(&mut self, id: Option<&String>) -> String {
        let Some(id) = id else { return String::new() };
        if !id.starts_with("adk-") {
            return format!("#{id}");
        }
        let at = self.0.iter().position(|known| known == id).unwrap_or_else(|| {
            self.0.push(id.clone());
            self.0.len() - 1
        });
        format!("#{}", at + 1)
    }

    fn part(&mut self, part: &Part) -> String {
        match &part.data {
            Data::Text(text) if part.is_thought() => format!("({text})"),
            Data::Text(text) => text.to_string(),
            Data::FunctionCall(call) if call.name == adk::pending::REQUEST_CONFIRMATION => {
                format!("? {}", self.short(call.id.as_ref()))
            }
            Data::FunctionCall(call) => {
                format!("→ {}{}({})", call.name, self.short(call.id.as_ref()), fields(call.args.as_ref()))
            }
            Data::FunctionResponse(response) => {
                let id = self.short(response.id.as_ref());
                format!("← {}{id} {{{}}}", response.name, fields(response.response.as_ref()))
            }
            Data::InlineData(_) => "<bytes>".to_owned(),
            Data::FileData(_) => "<file>".to_owned(),
            Data::Unknown => "<unknown>".to_owned(),
        }
    }

    fn content(&mut self, content: &Content) -> String {
        let parts: Vec<String> = content.parts.iter().map(|part| self.part(part)).collect();
        parts.join(" | ")
    }
}

fn fields(map: Option<&Map<String, Value>>) -> String {
    let fields: Vec<String> =
        map.into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    fields.join(" ")
}

pub(crate) fn contents_shape(contents: &[ContentRef]) -> String {
    let mut ids = Ids::default();
    let mut shape = String::new();
    for (at, content) in contents.iter().enumerate() {
        let role = content.role.as_deref().unwrap_or("-");
        writeln!(shape, "{at:02} {role:<6} {}", ids.content(content)).unwrap();
    }
    shape
}

pub(crate) fn events_shape<'a>(events: impl IntoIterator<Item = &'a Event>) -> String {
    let mut ids = Ids::default();
    let mut shape = String::new();
    for (at, event) in events.into_iter().enumerate() {
        let text = event.content.as_ref().map(|content| ids.content(content)).unwrap_or_default();
        let line = format!("{at:02} {:<6} {text}{}", event.author, marks(event));
        writeln!(shape, "{}", line.trim_end()).unwrap();
    }
    shape
}

fn marks(event: &Event) -> String {
    let actions = &event.actions;
    let mut marks = String::new();
    let mut mark = |text: String| marks.extend([" [", &text, "]"]);
    if let Some(partial) = event.partial {
        mark(format!("partial={partial}"));
    }
    if event.interrupted == Some(true) {
        mark("interrupted".to_owned());
    }
    if let Some(code) = &event.error_code {
        mark(format!("{code}: {}", event.error_message.as_deref().unwrap_or_default()));
    }
    if actions.skip_summarization == Some(true) {
        mark("skip".to_owned());
    }
    if let Some(target) = &actions.transfer_to_agent {
        mark(format!("to {target}"));
    }
    if !actions.state_delta.is_empty() {
        mark(format!("state {}", fields(Some(&actions.state_delta))));
    }
    if !actions.artifact_delta.is_empty() {
        mark(format!("files {}", fields(Some(&actions.artifact_delta))));
    }
    if event.long_running_tool_ids.as_ref().is_some_and(|ids| !ids.is_empty()) {
        mark("long".to_owned());
    }
    marks
}

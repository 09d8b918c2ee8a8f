//! Saves an event as a row.

use super::{
    legacy::{self, OpenLegacyCalls},
    meta::{Frame, Meta, PartLocation, Slot},
};
use crate::view::{cost, ids::CallIds, tokens};
use adk::{
    content::{Content, Data, Part},
    event::Event,
};
use serde_json::{Map, Value};
use session::{SessionMessage, ToolCall};

/// The row of an event. A missing call id is derived from the name by the rule that calls and responses share (spec
/// J2).
pub fn save(event: &Event) -> Result<SessionMessage, serde_json::Error> {
    let mut columns = Columns::default();
    for part in event.content.iter().flat_map(|content| &content.parts) {
        columns.push(part)?;
    }
    let mut row = SessionMessage {
        id: event.id.clone(),
        role: role(event, &columns.tool_calls),
        author: event.author.clone(),
        content: columns.content,
        tool_calls: columns.tool_calls,
        timestamp: event.timestamp,
        tokens: event.content.as_ref().map_or(0, cost::of_content),
        counted_by: tokens::COUNTED_BY.to_owned(),
        meta: None,
    };
    let parts = event.content.as_ref().map_or(&[][..], |content| &content.parts);
    let plain = !legacy::is_positional(&row) && legacy::parts(&row, &mut OpenLegacyCalls::new()) == parts;
    let meta = Meta {
        role: event.content.as_ref().and_then(|content| content.role.clone()),
        layout: (!plain).then_some(columns.layout),
        bare: event.content.is_none(),
        origin: event.content.as_ref().and_then(|content| content.origin.clone()),
        frame: Frame::from_event(event),
    };
    row.meta = Some(serde_json::to_string(&meta)?);
    Ok(row)
}

/// The stored role: `assistant` for `model`, `tool` for `function` and for every row of tool results.
fn role(event: &Event, calls: &[ToolCall]) -> String {
    let answers = calls.iter().any(ToolCall::is_response) && !calls.iter().any(ToolCall::is_call);
    let role = event.content.as_ref().and_then(|content: &Content| content.role.as_deref());
    match role {
        _ if answers => "tool",
        Some("model") => "assistant",
        Some("function") => "tool",
        Some(other) if !other.is_empty() => other,
        Some(_) | None if event.is_from_user() => "user",
        Some(_) | None => "assistant",
    }
    .to_owned()
}

#[derive(Default)]
struct Columns {
    content: String,
    tool_calls: Vec<ToolCall>,
    layout: Vec<Slot>,
    ids: CallIds,
}

impl Columns {
    fn push(&mut self, part: &Part) -> Result<(), serde_json::Error> {
        let (location, function_extra) = match &part.data {
            Data::Text(text) => {
                self.content.push_str(text);
                (PartLocation::Text(text.len()), Map::new())
            }
            Data::FunctionCall(call) => {
                let id = self.ids.for_call(call);
                let input = json_text(call.args.as_ref())?;
                (
                    PartLocation::Call(
                        self.add(
                            part,
                            ToolCall { id, name: call.name.clone(), input, ..ToolCall::default() },
                        ),
                    ),
                    call.extra.clone(),
                )
            }
            Data::FunctionResponse(response) => {
                let id = self.ids.for_response(response);
                let output = json_text(response.response.as_ref())?;
                self.content.push_str(&output);
                let length = output.len();
                let index = self
                    .add(part, ToolCall { id, name: response.name.clone(), output, ..ToolCall::default() });
                (PartLocation::Response(index, length), response.extra.clone())
            }
            Data::InlineData(_) | Data::FileData(_) | Data::Unknown => {
                (PartLocation::Part(Box::new(part.clone())), Map::new())
            }
        };
        let is_whole = matches!(location, PartLocation::Part(_));
        self.layout.push(Slot {
            location,
            thought: part.thought.filter(|_| !is_whole),
            signature: part.thought_signature.clone().filter(|_| part.as_text().is_some()),
            extra: if is_whole { Map::new() } else { part.extra.clone() },
            function_extra,
        });
        Ok(())
    }

    fn add(&mut self, part: &Part, call: ToolCall) -> usize {
        let thought_signature = part.thought_signature.clone();
        self.tool_calls.push(ToolCall { thought: part.is_thought(), thought_signature, ..call });
        self.tool_calls.len() - 1
    }
}

fn json_text(map: Option<&Map<String, Value>>) -> Result<String, serde_json::Error> {
    serde_json::to_string(&map)
}

//! Generates every event that the runner can make, and others.

use super::json::{extra, map, text, value};
use adk::{
    content::{Blob, Content, Data, FileData, FunctionCall, FunctionResponse, Origin, Part},
    event::{Event, EventActions, NodeInfo, UsageMetadata},
};
use proptest::{collection::vec, option::of, prelude::*};

/// A log of one session with unique event ids, as the runner creates them.
pub(crate) fn log() -> impl Strategy<Value = Vec<Event>> {
    vec(event(), 1..6).prop_map(|mut events| {
        for (number, event) in events.iter_mut().enumerate() {
            event.id = format!("{number}-{}", event.id);
        }
        events
    })
}

pub(crate) fn event() -> impl Strategy<Value = Event> {
    let head = (text(), author(), of(content()), prop::num::f64::POSITIVE | prop::num::f64::ZERO);
    let answer = (of(text()), of(Just(false)), of(any::<bool>()), of(text()), of(usage()));
    let rest = (of(text()), of(text()), of(any::<bool>()), of(map()), extra());
    let place = (actions(), (text(), extra()), of(vec(text(), 0..3)), of(text()), text());
    (head, answer, rest, place).prop_map(|(head, answer, rest, place)| Event {
        id: head.0,
        author: head.1,
        content: head.2,
        timestamp: head.3,
        model_version: answer.0,
        partial: answer.1,
        turn_complete: answer.2,
        finish_reason: answer.3,
        usage_metadata: answer.4,
        error_code: rest.0,
        error_message: rest.1,
        interrupted: rest.2,
        custom_metadata: rest.3,
        extra: rest.4,
        actions: place.0,
        node_info: NodeInfo { path: place.1.0, extra: place.1.1 },
        long_running_tool_ids: place.2,
        branch: place.3,
        invocation_id: place.4,
    })
}

fn author() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["user", "helper", "other", "作者"]).prop_map(str::to_owned)
}

pub(crate) fn content() -> impl Strategy<Value = Content> {
    let role =
        prop::sample::select(vec!["user", "model", "function", "tool", "assistant", "system", "odd", ""]);
    let origin = (text(), text()).prop_map(|(provider, model)| Origin { provider, model });
    (vec(part(), 0..5), of(role.prop_map(str::to_owned)), of(origin)).prop_map(|(mut parts, role, origin)| {
        number_calls(&mut parts);
        Content { parts, role, origin }
    })
}

/// The runner gives every call an id.
fn number_calls(parts: &mut [Part]) {
    for (number, part) in parts.iter_mut().enumerate() {
        let id = match &mut part.data {
            Data::FunctionCall(call) => &mut call.id,
            Data::FunctionResponse(response) => &mut response.id,
            Data::Text(_) | Data::InlineData(_) | Data::FileData(_) | Data::Unknown => continue,
        };
        *id = Some(format!("{number}{}", id.take().unwrap_or_default()));
    }
}

fn part() -> impl Strategy<Value = Part> {
    let signature = "[A-Za-z0-9+/]{0,24}={0,2}";
    (data(), of(any::<bool>()), of(signature), extra()).prop_map(
        |(data, thought, thought_signature, extra)| Part { data, thought, thought_signature, extra },
    )
}

fn data() -> impl Strategy<Value = Data> {
    let call = (of(text()), of(map()), text(), extra()).prop_map(|(id, args, name, extra)| {
        Data::FunctionCall(Box::new(FunctionCall { id, args, name, extra }))
    });
    let response = (of(text()), text(), of(map()), extra()).prop_map(|(id, name, response, extra)| {
        Data::FunctionResponse(Box::new(FunctionResponse { id, name, response, extra }))
    });
    let inline = (of(text()), "[A-Za-z0-9+/]{0,16}", of(text()), extra()).prop_map(
        |(display_name, data, mime_type, extra)| {
            Data::InlineData(Box::new(Blob { display_name, data, mime_type, extra }))
        },
    );
    let file =
        (of(text()), text(), of(text()), extra()).prop_map(|(display_name, file_uri, mime_type, extra)| {
            Data::FileData(Box::new(FileData { display_name, file_uri, mime_type, extra }))
        });
    prop_oneof![
        4 => text().prop_map(|text| Data::Text(text.into())),
        2 => call,
        2 => response,
        1 => inline,
        1 => file,
        1 => Just(Data::Unknown),
    ]
}

fn actions() -> impl Strategy<Value = EventActions> {
    let flags = (of(any::<bool>()), of(text()), of(any::<bool>()));
    let maps = (map(), map(), map(), map(), extra());
    let some = (flags, maps).prop_map(|(flags, maps)| EventActions {
        skip_summarization: flags.0,
        transfer_to_agent: flags.1,
        escalate: flags.2,
        state_delta: maps.0,
        artifact_delta: maps.1,
        requested_auth_configs: maps.2,
        requested_tool_confirmations: maps.3,
        extra: maps.4,
    });
    prop_oneof![Just(EventActions::default()), some]
}

fn usage() -> impl Strategy<Value = UsageMetadata> {
    let count = || of(any::<u64>());
    (count(), count(), count(), count(), count(), of(value())).prop_map(|counts| UsageMetadata {
        cached_content_token_count: counts.0,
        candidates_token_count: counts.1,
        prompt_token_count: counts.2,
        thoughts_token_count: counts.3,
        total_token_count: counts.4,
        extra: counts.5.into_iter().map(|value| ("promptTokensDetails".to_owned(), value)).collect(),
    })
}

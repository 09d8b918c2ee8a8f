//! Server-generated ids: each recorded id maps to one live id, consistently in all exchanges.

use serde_json::Value;
use std::collections::HashMap;

/// The prefixes of ADK's UUIDs of calls, invocations and state changes.
const PREFIXES: [&str; 3] = ["adk-", "e-", "p-"];

#[derive(Clone, Debug, Default)]
pub(super) struct Ids {
    live: HashMap<String, String>,
    recorded: HashMap<String, String>,
}

impl Ids {
    /// Returns whether `live` corresponds to `recorded`, and pairs them if neither is paired. The mapping is one-to-one.
    pub(super) fn pair(&mut self, recorded: &str, live: &str) -> bool {
        match (self.live.get(recorded), self.recorded.get(live)) {
            (Some(known), _) => known == live,
            (None, Some(_)) => false,
            (None, None) => {
                let alike = prefix(recorded) == prefix(live) && live.len() > prefix(live).len();
                if alike {
                    self.live.insert(recorded.to_owned(), live.to_owned());
                    self.recorded.insert(live.to_owned(), recorded.to_owned());
                }
                alike
            }
        }
    }

    pub(super) fn live(&self, recorded: &str) -> Option<&str> {
        self.live.get(recorded).map(String::as_str)
    }

    pub(super) fn recorded(&self, live: &str) -> Option<&str> {
        self.recorded.get(live).map(String::as_str)
    }

    /// Replaces recorded ids in a request by live ones.
    pub(super) fn rewrite(&self, text: &str) -> String {
        let known = self.live.iter().filter(|(recorded, _)| text.contains(recorded.as_str()));
        known.fold(text.to_owned(), |text, (recorded, live)| text.replace(recorded, live))
    }
}

/// Whether a recorded text is a server-generated id: a UUID, with or without a prefix. Ids that clients chose are not.
pub(super) fn is_generated(text: &str) -> bool {
    let uuid = &text[prefix(text).len()..];
    let shaped = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    uuid.len() == 36 && uuid.bytes().enumerate().all(shaped)
}

fn prefix(text: &str) -> &str {
    PREFIXES.into_iter().find(|prefix| text.starts_with(prefix)).unwrap_or_default()
}

/// The tool calls of the live server, by session. A request may refer to a call whose recorded response was withheld; then only
/// session and tool name identify the call.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Clone, Debug)]
struct Call {
    session: String,
    name: String,
    id: String,
    event: String,
    invocation: String,
}

impl Calls {
    /// Records the calls in a response to `request`.
    pub(super) fn record(&mut self, request: &Value, events: &Value) {
        let session = text(request, &["sessionId", "session_id"]);
        for event in events.as_array().into_iter().flatten() {
            for part in event["content"]["parts"].as_array().into_iter().flatten() {
                let call = &part["functionCall"];
                let string = |value: &Value| value.as_str().map(str::to_owned);
                if let (Some(name), Some(id)) = (string(&call["name"]), string(&call["id"])) {
                    let event_id = text(event, &["id"]).to_owned();
                    let invocation = text(event, &["invocationId"]).to_owned();
                    self.0.push(Call { session: session.to_owned(), name, id, event: event_id, invocation });
                }
            }
        }
    }

    /// Pairs the unknown ids in `request` with those of the newest call of the same session and tool.
    pub(super) fn resolve(&self, request: &Value, ids: &mut Ids) {
        let session = text(request, &["sessionId", "session_id"]);
        let answered = &request["newMessage"]["parts"][0]["functionResponse"];
        let is_match = |call: &&Call| {
            call.session == session && answered["name"].as_str().is_none_or(|name| name == call.name)
        };
        let Some(call) = self.0.iter().rev().find(is_match) else { return };
        let named = [
            (&answered["id"], &call.id),
            (&request["functionCallEventId"], &call.event),
            (&request["invocationId"], &call.invocation),
        ];
        for (recorded, live) in named {
            if let Some(recorded) = recorded.as_str().filter(|id| is_generated(id)) {
                ids.pair(recorded, live);
            }
        }
    }
}

fn text<'a>(value: &'a Value, keys: &[&str]) -> &'a str {
    keys.iter().find_map(|key| value[*key].as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ONE: &str = "adk-11111111-1111-4111-8111-111111111111";
    const TWO: &str = "adk-22222222-2222-4222-8222-222222222222";

    #[test]
    fn only_uuids_with_a_known_prefix_are_generated_ids() {
        for id in [ONE, &ONE[4..], &format!("e-{}", &ONE[4..]), &format!("p-{}", &ONE[4..])] {
            assert!(is_generated(id), "{id}");
        }
        for text in ["", "s1", "adk-bogus", "inv-x", "f1794768814-approve", &ONE[5..], "é-"] {
            assert!(!is_generated(text), "{text}");
        }
    }

    #[test]
    fn ids_are_paired_one_to_one_within_a_prefix() {
        let mut ids = Ids::default();
        assert!(ids.pair(ONE, "adk-a"));
        assert!(ids.pair(ONE, "adk-a"));
        assert!(!ids.pair(ONE, "adk-b"));
        assert!(!ids.pair(TWO, "adk-a"));
        assert!(!ids.pair(TWO, "e-a"));
        assert!(!ids.pair(TWO, "adk-"));
        assert!(ids.pair(TWO, "adk-b"));
        assert_eq!(ids.rewrite(&format!("/a/{ONE}?b={TWO}")), "/a/adk-a?b=adk-b");
    }

    #[test]
    fn request_resolves_the_id_of_a_withheld_call() {
        let mut calls = Calls::default();
        let event = |id: &str, name: &str| {
            json!({"id": format!("event-{id}"), "invocationId": format!("e-{id}"),
                   "content": {"parts": [{"functionCall": {"id": format!("adk-{id}"), "name": name}}]}})
        };
        calls.record(
            &json!({"sessionId": "s"}),
            &json!([event("a", "slow"), event("b", "ask"), {"error": "x"}]),
        );
        calls.record(&json!({"session_id": "t"}), &json!([event("c", "slow")]));
        let event = &ONE[4..];
        let request = json!({"sessionId": "s", "functionCallEventId": event,
            "newMessage": {"parts": [{"functionResponse": {"id": ONE, "name": "slow"}}]}});
        let mut ids = Ids::default();
        calls.resolve(&request, &mut ids);
        assert_eq!((ids.live(ONE), ids.live(event)), (Some("adk-a"), Some("event-a")));
        let bogus =
            json!({"sessionId": "s", "newMessage": {"parts": [{"functionResponse": {"id": "adk-bogus"}}]}});
        calls.resolve(&bogus, &mut ids);
        assert_eq!(ids.live("adk-bogus"), None);
    }
}

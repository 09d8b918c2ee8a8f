//! The rules that all providers have in common. The encodings are checked against each provider's rules as well, but
//! a violation found here is easier to read.

use provider::{MessagePart, ModelMessage, Role};

/// The first rule that the messages violate.
pub(crate) fn fault(messages: &[ModelMessage]) -> Option<String> {
    let first = messages.first().map(|message| message.role);
    if first != Some(Role::User) {
        return Some(format!("begins with {first:?}"));
    }
    if messages.last().is_some_and(|last| last.role == Role::Assistant) {
        return Some("ends with the assistant".to_owned());
    }
    messages
        .iter()
        .find_map(broken)
        .or_else(|| messages.windows(2).find_map(|pair| unmatched(&pair[0], &pair[1])))
}

fn broken(message: &ModelMessage) -> Option<String> {
    let is_said = |part: &MessagePart| match part {
        MessagePart::Text { text, .. } => !text.trim().is_empty(),
        MessagePart::Thought { .. } => false,
        MessagePart::Call(_) | MessagePart::Result(_) | MessagePart::Media(_) => true,
    };
    let fits = |part: &MessagePart| match (part, message.role) {
        (MessagePart::Text { signature: None, .. } | MessagePart::Media(_), Role::User)
        | (MessagePart::Text { .. } | MessagePart::Thought { .. } | MessagePart::Media(_), Role::Assistant) => {
            true
        }
        (MessagePart::Call(call), Role::Assistant) => !call.name.is_empty() && !call.id.is_empty(),
        (MessagePart::Result(result), Role::Tool) => result.response.is_object(),
        _ => false,
    };
    let fault = !message.parts.iter().any(is_said) || !message.parts.iter().all(fits);
    fault.then(|| format!("not a message: {message:?}"))
}

/// Results directly follow their calls, in order, and nowhere else; roles alternate.
fn unmatched(one: &ModelMessage, next: &ModelMessage) -> Option<String> {
    let calls: Vec<(&str, &str)> = one.calls().map(|call| (&*call.id, &*call.name)).collect();
    let answers: Vec<(&str, &str)> = next.results().map(|result| (&*result.id, &*result.name)).collect();
    let mut ids: Vec<&str> = calls.iter().map(|(id, _)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    let fault = calls != answers || ids.len() != calls.len() || one.role == next.role;
    fault.then(|| format!("{one:?}\nand then {next:?}"))
}

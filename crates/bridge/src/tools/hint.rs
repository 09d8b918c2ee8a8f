//! The text of an approval question: one format that the guard writes and a terminal takes apart again.

use adk::event::ToolConfirmation;
use serde_json::{Map, Value};

/// Separates the sections of a hint.
const SECTION: &str = "\n\n";
/// Keys of the payload: a key that the question has is offered, and `true` in the answer selects it.
pub const SESSION: &str = "session";
pub const ALWAYS: &str = "always";
/// Key of the payload of a rejection: what the person wrote instead of a key.
pub const REASON: &str = adk::notes::REJECTION_REASON;

/// The sections of an approval question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalHint {
    /// One sentence: the tool, and why it asks.
    pub question: String,
    /// A diff or a command.
    pub preview: Option<String>,
    /// What an answer for the session or the folder would store. Present if and only if one is offered.
    pub rules: Option<String>,
    /// The scopes that are offered beside this call.
    pub session: bool,
    pub always: bool,
}

impl ApprovalHint {
    pub(crate) fn into_confirmation(self) -> ToolConfirmation {
        let offers = [(SESSION, self.session), (ALWAYS, self.always)];
        let payload: Map<String, Value> = offers
            .into_iter()
            .filter(|(_, is_offered)| *is_offered)
            .map(|(key, _)| (key.to_owned(), false.into()))
            .collect();
        let sections = [Some(self.question.replace(SECTION, "\n")), self.preview, self.rules];
        let hint = sections.into_iter().flatten().collect::<Vec<_>>().join(SECTION);
        let payload = (!payload.is_empty()).then_some(Value::Object(payload));
        ToolConfirmation { hint, confirmed: false, payload }
    }

    /// The sections of a question. A question of another origin has its whole text as `question` or `preview`.
    pub fn parse(confirmation: &ToolConfirmation) -> Self {
        let offers =
            |key: &str| confirmation.payload.as_ref().is_some_and(|payload| payload.get(key).is_some());
        let (session, always) = (offers(SESSION), offers(ALWAYS));
        let (question, rest) = match confirmation.hint.split_once(SECTION) {
            Some((question, rest)) => (question, Some(rest)),
            None => (confirmation.hint.as_str(), None),
        };
        let (preview, rules) = match rest {
            Some(rest) if session || always => match rest.rsplit_once(SECTION) {
                Some((preview, rules)) => (Some(preview), Some(rules)),
                None => (None, Some(rest)),
            },
            rest => (rest, None),
        };
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Self { question: question.to_owned(), preview: owned(preview), rules: owned(rules), session, always }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_survive_the_round_trip() {
        let question = "May exec run? It asks because x.".to_owned();
        for preview in [None, Some("-a\n\n+b\n\n\n c".to_owned())] {
            for (session, always) in [(true, true), (true, false), (false, false)] {
                let rules = (session || always).then(|| "The rule would be: x.".to_owned());
                let hint = ApprovalHint {
                    question: question.clone(),
                    preview: preview.clone(),
                    rules,
                    session,
                    always,
                };
                assert_eq!(ApprovalHint::parse(&hint.clone().into_confirmation()), hint);
            }
        }
    }
}

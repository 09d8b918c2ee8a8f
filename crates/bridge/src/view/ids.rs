//! Derives missing call ids, by one rule for rows, messages and repairs.

use adk::{
    content::{Data, FunctionCall, FunctionResponse},
    event::Event,
    pending::{PendingCall, PendingWork},
};
use std::collections::{HashMap, HashSet};

/// The call ids of one event or message. Given ids stay. A missing id becomes `call_<name>`, then `call_<name>_2`, so
/// that parallel calls of one tool do not collide.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    calls: UsedIds,
    responses: UsedIds,
}

impl CallIds {
    pub(crate) fn for_call(&mut self, call: &FunctionCall) -> String {
        self.calls.given_or_unique(call.id.as_deref(), call.id_or_name())
    }

    pub(crate) fn for_response(&mut self, response: &FunctionResponse) -> String {
        self.responses.given_or_unique(response.id.as_deref(), response.id_or_name())
    }
}

/// Fills in the missing ids of an event that was not made by the runner. A response without an id answers the oldest open call of its
/// tool.
pub(crate) fn fill_in(event: &mut Event, pending: &PendingWork) {
    let mut ids = CallIds::default();
    ids.calls.ids.extend(pending.open_calls.iter().map(PendingCall::id));
    let mut open: Vec<(String, String)> = pending
        .open_calls
        .iter()
        .chain(&pending.deferred)
        .map(|call| (call.name().to_owned(), call.id()))
        .collect();
    let is_missing = |id: &Option<String>| id.as_ref().is_none_or(String::is_empty);
    for part in event.content.iter_mut().flat_map(|content| &mut content.parts) {
        match &mut part.data {
            Data::FunctionCall(call) => {
                let id = ids.for_call(call);
                open.push((call.name.clone(), id.clone()));
                call.id = Some(id);
            }
            Data::FunctionResponse(response) if is_missing(&response.id) => {
                let answered = open.iter().position(|(name, _)| *name == response.name);
                response.id = Some(match answered {
                    Some(answered) => open.remove(answered).1,
                    None => ids.for_response(response),
                });
            }
            Data::FunctionResponse(response) => open.retain(|(_, id)| Some(id) != response.id.as_ref()),
            Data::Text(_) | Data::InlineData(_) | Data::FileData(_) | Data::Unknown => {}
        }
    }
}

/// Ids that are in use.
#[derive(Debug, Default)]
pub(crate) struct UsedIds {
    ids: HashSet<String>,
    /// The next number to try for an id that is taken, so that many equal ids do not take quadratic time.
    next: HashMap<String, usize>,
}

impl UsedIds {
    fn given_or_unique(&mut self, given: Option<&str>, id: String) -> String {
        if given.is_some_and(|given| !given.is_empty()) {
            self.ids.insert(id.clone());
            return id;
        }
        self.unique(id)
    }

    /// Returns the id if it is free, else the id with the first free number.
    pub(crate) fn unique(&mut self, id: String) -> String {
        if self.ids.insert(id.clone()) {
            return id;
        }
        let number = self.next.entry(id.clone()).or_insert(2);
        loop {
            let numbered = format!("{id}_{number}");
            *number += 1;
            if self.ids.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: Option<&str>) -> FunctionCall {
        FunctionCall { id: id.map(str::to_owned), name: "search".to_owned(), ..FunctionCall::default() }
    }

    #[test]
    fn given_id_stays_and_missing_id_is_derived_from_the_name() {
        let mut ids = CallIds::default();
        let made: Vec<String> =
            [Some("c1"), None, Some(""), Some("c1")].map(|id| ids.for_call(&call(id))).into();
        assert_eq!(made, ["c1", "call_search", "call_search_2", "c1"]);
    }

    #[test]
    fn missing_ids_of_calls_and_responses_are_equal() {
        let mut ids = CallIds::default();
        let response = FunctionResponse { name: "search".to_owned(), ..FunctionResponse::default() };
        for _ in 0..3 {
            assert_eq!(ids.for_call(&call(None)), ids.for_response(&response));
        }
    }

    #[test]
    fn unique_skips_ids_with_numbers_that_are_taken() {
        let mut used = UsedIds::default();
        let made = ["x_2", "x", "x", "x", "x_2"].map(|id| used.unique(id.to_owned()));
        assert_eq!(made, ["x_2", "x", "x_3", "x_4", "x_2_2"]);
    }
}

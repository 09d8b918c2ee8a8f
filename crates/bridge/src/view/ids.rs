//! CallIds of calls where there are none: one rule for rows, for messages and for repairs.

use adk::content::{FunctionCall, FunctionResponse};
use std::collections::{HashMap, HashSet};

/// The ids of one event or message. What was given stays; what is made up is `call_<name>`, and `call_<name>_2` for the
/// second, so that parallel calls of one tool do not collide.
#[derive(Debug, Default)]
pub(crate) struct CallIds {
    calls: UsedIds,
    responses: UsedIds,
}

impl CallIds {
    pub(crate) fn of_call(&mut self, call: &FunctionCall) -> String {
        self.calls.keep_or_make(call.id.as_deref(), call.id_or_name())
    }

    pub(crate) fn of_response(&mut self, response: &FunctionResponse) -> String {
        self.responses.keep_or_make(response.id.as_deref(), response.id_or_name())
    }
}

/// CallIds that are in use.
#[derive(Debug, Default)]
pub(crate) struct UsedIds {
    ids: HashSet<String>,
    /// The number to try next for an id that is taken: a thousand equal ids must not cost a million tries.
    next: HashMap<String, usize>,
}

impl UsedIds {
    fn keep_or_make(&mut self, given: Option<&str>, id: String) -> String {
        if given.is_some_and(|given| !given.is_empty()) {
            self.ids.insert(id.clone());
            return id;
        }
        self.unique(id)
    }

    /// The id itself if it is free, else with the first number that is.
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
    fn a_given_id_stays_and_missing_ones_are_made_of_the_name() {
        let mut ids = CallIds::default();
        let made: Vec<String> =
            [Some("c1"), None, Some(""), Some("c1")].map(|id| ids.of_call(&call(id))).into();
        assert_eq!(made, ["c1", "call_search", "call_search_2", "c1"]);
    }

    #[test]
    fn calls_and_responses_fall_back_to_the_same_ids() {
        let mut ids = CallIds::default();
        let response = FunctionResponse { name: "search".to_owned(), ..FunctionResponse::default() };
        for _ in 0..3 {
            assert_eq!(ids.of_call(&call(None)), ids.of_response(&response));
        }
    }

    #[test]
    fn a_number_that_was_given_is_not_made_up_again() {
        let mut taken = UsedIds::default();
        let made = ["x_2", "x", "x", "x", "x_2"].map(|id| taken.unique(id.to_owned()));
        assert_eq!(made, ["x_2", "x", "x_3", "x_4", "x_2_2"]);
    }
}

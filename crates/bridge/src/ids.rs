//! Ids of calls where there are none: one rule for rows, for messages and for repairs.

use adk::content::{FunctionCall, FunctionResponse};
use std::collections::HashSet;

/// The ids of one event or message. What was given stays; what is made up is `call_<name>`, and `call_<name>_2` for the
/// second, so that parallel calls of one tool do not collide.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    calls: Taken,
    responses: Taken,
}

impl Ids {
    pub(crate) fn of_call(&mut self, call: &FunctionCall) -> String {
        self.calls.keep_or_make(call.id.as_deref(), call.id_or_name())
    }

    pub(crate) fn of_response(&mut self, response: &FunctionResponse) -> String {
        self.responses.keep_or_make(response.id.as_deref(), response.id_or_name())
    }
}

/// Ids that are in use.
#[derive(Debug, Default)]
pub(crate) struct Taken(HashSet<String>);

impl Taken {
    fn keep_or_make(&mut self, given: Option<&str>, id: String) -> String {
        if given.is_some_and(|given| !given.is_empty()) {
            self.0.insert(id.clone());
            return id;
        }
        self.unique(&id)
    }

    /// The id itself if it is free, else with the first number that is.
    pub(crate) fn unique(&mut self, id: &str) -> String {
        let mut unique = id.to_owned();
        let mut count = 2_usize;
        while !self.0.insert(unique.clone()) {
            unique = format!("{id}_{count}");
            count += 1;
        }
        unique
    }
}

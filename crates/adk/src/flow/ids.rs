//! Call ids. Some providers restart their ids in every answer. An id that a late result may still refer to is not reused, so
//! that the result finds its call.

use crate::{
    content::{Content, Data, FunctionCall},
    event::{Event, mint_call_id},
    pending::{PendingCall, PendingWork},
};
use std::collections::HashSet;

/// The model's call ids that are not in use as far as the pending work in memory shows. An older call in the log may still use
/// one.
pub(crate) fn unresolved(content: Option<&Content>, pending: &PendingWork) -> Vec<String> {
    let ids = content.into_iter().flat_map(Content::calls).filter_map(|call| call.id.clone());
    ids.filter(|id| !id.is_empty() && !in_use(pending).any(|call| call.id() == *id)).collect()
}

/// Assigns ids to calls without one, and new ids to calls whose id is not unique in the event or is in use.
pub(crate) fn assign(event: &mut Event, pending: &PendingWork) {
    let mut used: HashSet<String> = in_use(pending).map(PendingCall::id).collect();
    for call in event.content.iter_mut().flat_map(calls) {
        let is_unique = call.id.as_ref().is_some_and(|id| !id.is_empty() && used.insert(id.clone()));
        if !is_unique {
            call.id = Some(mint_call_id());
        }
    }
}

fn in_use(pending: &PendingWork) -> impl Iterator<Item = &PendingCall> {
    pending.deferred.iter().chain(pending.questions.iter().map(|question| &question.call))
}

fn calls(content: &mut Content) -> impl Iterator<Item = &mut FunctionCall> {
    content.parts.iter_mut().filter_map(|part| match &mut part.data {
        Data::FunctionCall(call) => Some(&mut **call),
        Data::Text(_)
        | Data::FunctionResponse(_)
        | Data::InlineData(_)
        | Data::FileData(_)
        | Data::Unknown => None,
    })
}

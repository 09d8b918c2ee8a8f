//! The ids of calls. Some providers count anew in every answer: an id that a late result may still name is not given again,
//! because the result must find the call that it belongs to.

use crate::{
    content::{Content, Data, FunctionCall},
    event::{Event, mint_call_id},
    pending::{PendingCall, PendingWork},
};
use std::collections::HashSet;

/// The ids that a model gave and that are not known to be taken. Whether a call far back in the log has one must be asked.
pub(crate) fn given(content: Option<&Content>, pending: &PendingWork) -> Vec<String> {
    let ids = content.into_iter().flat_map(Content::calls).filter_map(|call| call.id.clone());
    ids.filter(|id| !id.is_empty() && !taken(pending).any(|call| call.id() == *id)).collect()
}

/// Calls have ids, unique in the event and among the calls that still wait for something.
pub(crate) fn mint_missing(event: &mut Event, pending: &PendingWork) {
    let mut taken: HashSet<String> = taken(pending).map(PendingCall::id).collect();
    for call in event.content.iter_mut().flat_map(calls) {
        let fresh = call.id.as_ref().is_some_and(|id| !id.is_empty() && taken.insert(id.clone()));
        if !fresh {
            call.id = Some(mint_call_id());
        }
    }
}

fn taken(pending: &PendingWork) -> impl Iterator<Item = &PendingCall> {
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

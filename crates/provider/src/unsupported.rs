//! Recognizes that a server does not support a part of a request, by the shape of its error: a word for "unsupported", and
//! the name of a field that this request has, or of a capability that it uses. There is no list of sentences: each server
//! has its own.

mod capability;
mod name;

use crate::{
    Error, ModelRequest, Omission, WireApi,
    omission::{FieldRules, SentField, omit_from_request, sent_fields},
};
use name::Name;
use serde_json::Value;

/// Words by which servers say that they do not accept something.
const MARKERS: &[&str] = &[
    "unsupported",
    "not support",
    "n't support",
    "no support",
    "only supported",
    "unknown",
    "unrecognized",
    "unrecognised",
    "not recognized",
    "not recognised",
    "not permitted",
    "extra inputs",
    "extra_forbidden",
    "extra fields",
    "additional properties",
    "unexpected",
    "not allowed",
    "forbidden",
    "disallowed",
    "cannot find field",
    "no such",
    "not available",
    "not enabled",
    "not implemented",
    "not accept",
    "n't accept",
    "not applicable",
    "not compatible",
    "incompatible",
    "deprecated",
    "only the default",
    "cannot be used",
    "can't be used",
    "cannot both",
    "must not",
    "must be verified",
    "not a valid parameter",
];

/// Replaces the error of a rejected request by [`Error::Unsupported`] if it names a part of the request.
pub(crate) fn refine(api: WireApi, base_url: &str, request: &ModelRequest, error: Error) -> Error {
    let request = &*request.with_all_messages();
    let request = &*omit_from_request(api, request);
    let found = match &error {
        // Gateways answer 404 if no upstream server supports the request, and some servers 500.
        Error::BadRequest { message, .. }
        | Error::ModelNotFound { message, .. }
        | Error::Transient { message, .. } => {
            find(api, request, &api.encode(base_url, request), message).map(|what| (what, message.clone()))
        }
        _ => None,
    };
    match (found, error) {
        (
            Some((what, message)),
            Error::BadRequest { provider, .. }
            | Error::ModelNotFound { provider, .. }
            | Error::Transient { provider, .. },
        ) => Error::Unsupported { provider, message, what },
        (_, error) => error,
    }
}

/// The part of the request that the message names as unsupported.
fn find(api: WireApi, request: &ModelRequest, body: &Value, message: &str) -> Option<Omission> {
    let rules = FieldRules::of(api);
    let fields = sent_fields(rules, body);
    let lower = message.to_lowercase();
    let is_marked = MARKERS.iter().any(|marker| lower.contains(marker));
    let names = name::names_in(message);
    let named = |is_wanted: fn(&Name<'_>) -> bool| {
        let mut wanted = names.iter().filter(|name| is_marked && is_wanted(name));
        wanted.find_map(|name| part_named(&fields, request, name))
    };
    named(|name| name.is_identifier)
        .or_else(|| capability::find(rules, request, body, &lower))
        .or_else(|| named(|name| !name.is_identifier && name.is_subject))
}

/// The sent field that a name means.
fn part_named(fields: &[SentField], request: &ModelRequest, name: &Name<'_>) -> Option<Omission> {
    if name.is(&["tools"]) && !request.tools.is_empty() {
        return Some(Omission::Tools);
    }
    let exact = fields.iter().find(|field| name.ends_with(&field.path) || name.is_leaf_of(&field.path));
    let around = || fields.iter().find(|field| field.is_atomic && name.is_inside(&field.path));
    exact.or_else(around).map(|field| Omission::Field(field.path.clone()))
}

#[cfg(test)]
mod tests;

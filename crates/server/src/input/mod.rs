//! Request input: bodies and query parameters, validated as FastAPI does. A response lists every error with its location.
//!
//! | module | contents |
//! |---|---|
//! | [`shape`] | the vocabulary of the validation tables |
//! | [`bodies`] | the body of each request: its table, and the struct that it deserializes into |
//! | [`validator`] | checks a JSON value against a table |
//! | [`body`] | extracts, validates and deserializes the body of a request |
//! | [`json_size`] | the memory of a JSON document, estimated before it is parsed |
//! | [`query_params`] | the query string |
//! | [`validation_error`] | one validation error in pydantic's format |

pub(crate) mod bodies;
pub(crate) mod body;
mod json_size;
pub(crate) mod query_params;
pub(crate) mod shape;
pub(crate) mod validation_error;
pub(crate) mod validator;

#[cfg(test)]
mod tests;

pub(crate) use body::RequestBody;
pub(crate) use query_params::QueryParams;

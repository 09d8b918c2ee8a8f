//! What clients send, checked as FastAPI checks it: everything that is wrong is told at once, each with its place.
//!
//! | read | for |
//! |---|---|
//! | [`shape`] | what a body may look like, and the check itself |
//! | [`bodies`] | the bodies of ADK's API |
//! | [`body`] | the body of a request |
//! | [`query_params`] | what stands behind the question mark |
//! | [`validation_error`] | one thing that is wrong |

pub(crate) mod bodies;
pub(crate) mod body;
pub(crate) mod query_params;
pub(crate) mod shape;
pub(crate) mod validation_error;

#[cfg(test)]
mod tests;

pub(crate) use body::{Fields, RequestBody};
pub(crate) use query_params::QueryParams;

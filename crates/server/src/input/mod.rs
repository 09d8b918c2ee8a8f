//! What clients send, checked as FastAPI checks it: everything that is wrong is told at once, each with its place.
//!
//! | read | for |
//! |---|---|
//! | [`shape`] | what a body may look like, and the check itself |
//! | [`bodies`] | the bodies of ADK's API |
//! | [`sent`] | the body of a request |
//! | [`query`] | what stands behind the question mark |
//! | [`wrong`] | one thing that is wrong |

pub(crate) mod bodies;
pub(crate) mod query;
pub(crate) mod sent;
pub(crate) mod shape;
pub(crate) mod wrong;

#[cfg(test)]
mod tests;

pub(crate) use query::Query;
pub(crate) use sent::{Fields, Sent};

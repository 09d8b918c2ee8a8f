//! Tools as ADK's, and the guard that decides whether a call runs, asks a person first, or is refused.

pub mod guard;
pub mod tool;

//! What an agent may do to the world: one small port, and the tools that are built in.
//!
//! | read | for |
//! |---|---|
//! | [`tool`] | the port: what a tool says of itself, and one call of it |
//! | [`host`] | what a tool may ask of the turn it runs in |
//! | [`registry`] | the tools of one agent, each name once |
//! | [`error`] | why a call failed, in words that the model reads |
//!
//! **Invariant.** A tool knows no session, no event and no provider: it reaches the turn through [`Host`] alone. It never
//! ends a turn either: whatever goes wrong is an [`Error`], and its text is an answer for the model.

pub mod error;
pub mod host;
pub mod registry;
pub mod tool;

pub use error::Error;
pub use host::{Body, File, Host};
pub use registry::Registry;
pub use tool::{Call, Effect, Outcome, Safety, Spec, Tool};

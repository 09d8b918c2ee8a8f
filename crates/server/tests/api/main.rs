//! The HTTP API in process: requests go to the router directly, agents use an in-memory store and a scripted model.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "clippy exempts test functions, not the helpers of tests"
)]

mod adk_operations;
mod apps;
mod artifacts;
mod auth;
mod client;
mod connections;
mod invocations;
mod limits;
mod memory;
mod mutated_bodies;
mod nested;
mod pages;
mod refused_calls;
mod removed_apps;
mod runs;
mod sessions;
mod test_app;
mod usage;

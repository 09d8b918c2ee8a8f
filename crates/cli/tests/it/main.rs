//! Tests of the binary. Each test has its own data directory and working directory.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which the exception for test functions does not reach"
)]

mod approvals;
mod attacks;
mod chat;
mod chat_server;
mod common;
mod doctor;
mod errors;
mod fallback;
mod faults;
mod help;
mod interrupted_answers;
mod kill;
mod mcp;
mod model_settings;
mod models;
mod mutated_streams;
mod providers;
mod readme;
mod real_model;
mod recall;
mod round_trip;
mod run;
#[cfg(target_os = "linux")]
mod sandbox;
mod secrets;
mod serve;
mod serve_auth;
mod sessions;
mod spec;
mod together;
mod tools;
mod trust;
mod unsupported;
mod usage;

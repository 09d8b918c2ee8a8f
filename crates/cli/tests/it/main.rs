//! The real binary, as people and programs use it. Each test has a home and a working directory of its own.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which the exception for test functions does not reach"
)]

mod chat;
mod common;
mod errors;
mod faults;
mod help;
mod kill;
mod run;
mod serve;
mod serve_auth;
mod sessions;
mod spec;
mod together;

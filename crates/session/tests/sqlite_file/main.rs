//! Tests of the SQLite file beyond the store suite.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a failed setup fails the test")]

mod common;
mod crash;
mod damaged;
mod faults;
mod moved;
mod owners;
mod purge;
mod queue;
mod recipes;
mod schema;
mod search;
mod upgrade;

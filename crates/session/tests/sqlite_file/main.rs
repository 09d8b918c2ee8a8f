//! What is true of the SQLite file beyond the laws of every store.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on says where")]

mod common;
mod crash;
mod damaged;
mod faults;
mod moved;
mod owners;
mod queue;
mod schema;
mod upgrade;

//! Tests of the adapters through their public interface: the scenarios of the specification by id, and turns under faults and concurrency.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which the exception for test functions does not reach"
)]

mod attempts;
mod common;
mod context_window;
mod hostile;
mod interrupted;
mod malformed;
mod model_calls;
mod mutated_streams;
mod recall;
mod spec_call_rows;
mod spec_legacy_rows_and_ids;
mod spec_sessions_and_instructions;
mod spec_streaming;
mod spec_unknown_agent;
mod spec_window;
mod turn_cancel;
mod turn_drop;
mod turn_flows;
mod turn_memory;
mod turn_owners;
mod turn_queue;
mod turn_records;
mod turn_runs;
mod unsupported;

//! The adapters as the rest of the system meets them: every scenario of the spec by its id, and turns in all weathers.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests, which the exception for test functions does not reach"
)]

mod attempts;
mod common;
mod interrupted;
mod malformed;
mod spec_a_to_e;
mod spec_f;
mod spec_g;
mod spec_h_to_i;
mod spec_j_to_m;
mod spec_n_to_p;
mod turn_cancel;
mod turn_drop;
mod turn_flows;
mod turn_memory;
mod turn_owners;
mod turn_queue;

mod turn_records;
mod turn_runs;

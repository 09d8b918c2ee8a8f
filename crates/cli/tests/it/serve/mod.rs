//! `lango serve`, over TCP connections.

mod apps;
pub(crate) mod client;
mod crash;
mod invocations;
mod long;
mod readers;
mod runs;
mod sessions;
mod startup;
mod store_faults;
mod traces;

//! `lango serve`, over real connections.

mod apps;
pub(crate) mod client;
mod crash;
mod long;
mod readers;
mod runs;
mod sessions;
mod store_faults;
mod traces;

//! `lango serve`, over real connections.

mod apps;
mod client;
mod crash;
mod long;
mod readers;
mod runs;
mod sessions;
mod traces;

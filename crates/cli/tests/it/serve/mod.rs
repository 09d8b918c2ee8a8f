//! `lango serve`, over real connections.

mod apps;
mod client;
mod crash;
mod runs;
mod sessions;

//! Providers on real sockets: every fault of the fake server in every wire format, proxies and TLS.

#![expect(clippy::unwrap_used, reason = "a failed test shows the line")]

mod network;
mod scenarios;

//! Providers behind real sockets: every fault of the fake in every wire format, and the way out through proxies and TLS.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod network;
mod scenarios;

//! Test support that several crates share. It is never part of the product.
//!
//! | module | contents |
//! |---|---|
//! | [`store_suite`] | contract tests that every store backend must pass |
//! | [`property`] | deterministic property tests with coverage counts |
//! | [`legal`] | the rules of each provider's wire format |
//! | [`fakeprov`] | fake provider servers with fault scenarios |
//! | [`mutated_streams`] | recorded provider streams with one fault each, and a server that sends them |
//! | [`postgres`], [`tcp_proxy`] | a temporary PostgreSQL server; a proxy that cuts and delays connections |
//! | [`sse`], [`random`] | a reader of server-sent events; reproducible random numbers |

pub mod fakeprov;
pub mod legal;
pub mod mutated_streams;
pub mod postgres;
pub mod property;
mod provider_api;
pub mod random;
pub mod sse;
pub mod store_suite;
pub mod tcp_proxy;

pub use provider_api::ProviderApi;

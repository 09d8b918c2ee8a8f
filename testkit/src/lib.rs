//! Test support that several crates share. It is never part of the product.
//!
//! | read | for |
//! |---|---|
//! | [`store_suite`] | tests that every store backend must pass |
//! | [`property`] | deterministic property tests with coverage counts |
//! | [`legal`] | the rules of each provider's wire format |
//! | [`fakeprov`] | fake provider servers with fault scenarios |

pub mod fakeprov;
pub mod legal;
pub mod property;
pub mod store_suite;
mod wire_api;

pub use wire_api::WireApi;

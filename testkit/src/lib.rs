//! What tests of more than one crate need. Nothing here is ever part of the product.

pub mod fakeprov;
pub mod legal;
pub mod property;
pub mod store_suite;
mod wire_api;

pub use wire_api::WireApi;

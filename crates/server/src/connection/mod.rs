//! Limits of connections, below HTTP: how many there are, and how slow their clients may be.
//!
//! | module | contents |
//! |---|---|
//! | [`pace`] | the rule for slow clients |
//! | `paced_io`, `paced_body` | the rule for responses, and for the bodies of requests |
//! | `table` | the open connections: limits and eviction |
//! | `address` | the address of a client, as limits count it |

pub(crate) mod address;
pub mod pace;
pub(crate) mod paced_body;
pub(crate) mod paced_io;
pub(crate) mod table;

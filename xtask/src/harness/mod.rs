//! The common parts of the tests that kill the real binary.
//!
//! | module | contents |
//! |---|---|
//! | [`machine`] | a directory with a configuration, a database and the binary |
//! | [`preload`] | the library of `xtask/c/storage.c`, compiled when it is needed |
//! | [`script`] | the messages, and the answers that they must get |
//! | [`http`] | a blocking client that reads answers and event streams while they arrive |
//! | [`event_id`] | the ids of streamed events |
//! | [`random`] | reproducible random numbers |
//! | [`interrupt`] | Ctrl-C |
//! | [`options`] | command-line options whose values are numbers |

pub(crate) mod event_id;
pub(crate) mod http;
pub(crate) mod interrupt;
pub(crate) mod machine;
pub(crate) mod options;
pub(crate) mod preload;
pub(crate) mod random;
pub(crate) mod script;

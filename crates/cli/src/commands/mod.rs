//! One file for each command.

pub(crate) mod chat;
mod door;
mod import;
mod interrupt;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod sessions;
mod talk;
pub(crate) mod token;

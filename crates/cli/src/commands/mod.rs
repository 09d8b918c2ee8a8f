//! One file for each command.

pub(crate) mod ask;
pub(crate) mod attach;
pub(crate) mod chat;
mod conversation;
pub(crate) mod doctor;
mod import;
pub(crate) mod interrupt;
mod listen;
pub(crate) mod models;
mod piped_input;
pub(crate) mod rules;
pub(crate) mod run;
mod search;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod store;
mod survey;
pub(crate) mod token;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod usage;

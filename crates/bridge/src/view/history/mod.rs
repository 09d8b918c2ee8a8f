//! The history of a request: window → repair → fit. Pure functions; the result is legal for every provider, whatever
//! the log holds.

mod fit;
mod notes;
mod repair;
#[cfg(test)]
mod shape;
mod shorten;
mod window;

pub use fit::{fit, fits};
pub(crate) use fit::{is_within, opened, preamble_text};
pub(crate) use notes::{correction, is_legacy_correction};
pub use repair::{repair, repair_beginning, repair_continuation};
pub use window::window;

use crate::view::budget::Budget;
use provider::{ModelMessage, Role};

/// The messages of a request: repaired, within the budget, never empty. System messages move to the front unchanged.
/// `user_request` is the user's request before these messages.
pub fn prepare(messages: Vec<ModelMessage>, user_request: Option<&str>, budget: Budget) -> Vec<ModelMessage> {
    let mut system = messages;
    let conversation = system.iter().position(|message| message.role != Role::System).unwrap_or(system.len());
    let mut conversation = system.split_off(conversation);
    system.extend(conversation.extract_if(.., |message| message.role == Role::System));
    system.extend(fit(repair(conversation), user_request, budget));
    system
}

//! What a model sees of the log: window → repair → fit. Pure functions; whatever the log holds, the request is legal.

mod fit;
mod notes;
mod repair;
#[cfg(test)]
mod shape;
mod shorten;
mod window;

pub use fit::fit;
pub(crate) use fit::task;
pub(crate) use notes::{correction, is_legacy_correction};
pub use repair::repair;
pub use window::window;

use crate::view::budget::Budget;
use provider::{ModelMessage, Role};

/// The messages of a request: repaired, within the budget, never empty. A system message is left as it is, in front. The task
/// is what the user asked for before all of them.
pub fn prepare(messages: Vec<ModelMessage>, task: Option<&str>, budget: Budget) -> Vec<ModelMessage> {
    let mut system = messages;
    let spoken = system.iter().position(|message| message.role != Role::System).unwrap_or(system.len());
    let mut spoken = system.split_off(spoken);
    system.extend(spoken.extract_if(.., |message| message.role == Role::System));
    system.extend(fit(repair(spoken), task, budget));
    system
}

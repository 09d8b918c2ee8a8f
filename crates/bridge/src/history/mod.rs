//! What a model sees of the log: window → repair → fit. Pure functions; whatever the log holds, the request is legal.

mod fit;
mod notes;
mod repair;
#[cfg(test)]
mod shape;
mod shorten;
mod window;

pub use fit::fit;
pub use notes::INTERRUPTED;
pub(crate) use notes::TOLD;
pub use repair::repair;
pub use window::window;

use crate::budget::Budget;
use provider::{Message, Role};

/// The messages of a request: repaired, within the budget, never empty. A system message is left as it is, in front.
pub fn prepare(messages: Vec<Message>, budget: Budget) -> Vec<Message> {
    let (system, spoken): (Vec<Message>, Vec<Message>) =
        messages.into_iter().partition(|message| message.role == Role::System);
    system.into_iter().chain(fit(repair(spoken), budget)).collect()
}

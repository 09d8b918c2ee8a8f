//! What a model sees of the log: window → repair → fit. Pure functions; whatever the log holds, the request is legal.

mod fit;
mod repair;
mod shorten;
mod window;

pub use fit::fit;
pub use repair::{INTERRUPTED, repair};
pub use window::window;

use crate::budget::Budget;
use provider::Message;

/// The messages of a request: repaired, within the budget, never empty. A system message is left as it is, in front.
pub fn prepare(messages: Vec<Message>, budget: Budget) -> Vec<Message> {
    let (system, spoken): (Vec<Message>, Vec<Message>) =
        messages.into_iter().partition(|message| message.role == provider::Role::System);
    let legal = repair(spoken);
    system.into_iter().chain(fit(legal, budget)).collect()
}

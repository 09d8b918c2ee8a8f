//! ADK tools, and the guard that runs a call, requires approval first, or refuses it.

pub mod guard;
pub mod hint;
pub mod mode;
pub mod tool;

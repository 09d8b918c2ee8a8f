//! The view: the part of the log that a request shows to a model, computed by pure functions: `window → repair →
//! fit`, then the conversion to a provider request.
//!
//! | module | contents |
//! |---|---|
//! | [`messages`] | contents of ADK as messages of a provider |
//! | [`history`] | the window, its repair, and the fit into the budget |
//! | [`budget`], [`tokens`], [`cost`] | token budget, token estimates, cost of a call |
//! | [`options`] | generation options of ADK as those of a provider |
//! | `ids` | ids of tool calls, unique within a request |

pub mod budget;
pub mod cost;
pub mod history;
pub(crate) mod ids;
pub mod messages;
pub mod options;
pub mod tokens;

//! Adapters between the session store and ADK's runner: sessions, events, state, artifacts.
//!
//! | module | contents |
//! |---|---|
//! | [`service`], [`session`], [`events`], [`state`] | `SessionServiceAdapter`, `SessionAdapter`, `EventsAdapter`, `StateAdapter` |
//! | `turn_sessions` | the session service of one turn, fenced by its lease |
//! | `session_handle` | calls to the store under ADK's session key, with ADK's errors |
//! | `entries` | events and state changes as one commit |
//! | [`row`] | saving an event as a row, and restoring it |
//! | `pending` | pending work: open calls, questions, the active agent |
//! | `ledger` | the record that a tool call has begun |
//! | `draft` | the streamed text of an answer that is not committed yet |
//! | `recipe` | how the request of a model call was built |
//! | `cache` | LRU cache of sessions between turns |
//! | `user_request` | the user's request that a long turn works on |
//! | [`usage_report`] | sums of tokens with their cost |
//! | [`usage`] | the tokens of model calls, as the store sums them |
//! | [`upkeep`] | work on the store beside its turns: purging deleted sessions, counting the usage of earlier versions |
//! | [`session_list`] | lists of a user's sessions |
//! | [`archive`] | sessions and artifacts for listings, exports and the server |
//! | [`artifacts`] | `ArtifactAdapter`: files of a session |

pub mod archive;
pub mod artifacts;
pub mod cache;
pub(crate) mod draft;
pub(crate) mod entries;
pub mod events;
pub(crate) mod ledger;
pub(crate) mod pending;
pub(crate) mod recipe;
pub mod row;
pub mod service;
pub mod session;
pub(crate) mod session_handle;
pub mod session_list;
pub mod state;
pub(crate) mod turn_sessions;
pub mod upkeep;
pub mod usage;
pub mod usage_report;
pub(crate) mod user_request;

//! What the PostgreSQL backend does when connections are cut, the database fails, owners pause, and servers start together.

mod common;
mod cursors;
mod opening;
mod outages;
mod ownership;
mod tls;
mod unknown_outcome;

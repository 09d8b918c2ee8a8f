//! The bytes on the wire are those that the table promises.

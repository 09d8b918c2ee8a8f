//! The ids of streamed events: `3` for the third stored event of a run, `3-ab12cd34-5` for the fifth partial event after it,
//! counted by one process.

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventId {
    /// The number of stored events of the run, including this one.
    pub(crate) stored: u64,
    /// For a partial event: the process that counts, and the number.
    pub(crate) partial: Option<(String, u64)>,
}

impl EventId {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '-');
        let stored = parts.next()?.parse().ok()?;
        let partial = match (parts.next(), parts.next()) {
            (Some(process), Some(number)) => Some((process.to_owned(), number.parse().ok()?)),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => return None,
        };
        Some(Self { stored, partial })
    }

    /// A stored event.
    pub(crate) fn stored(number: u64) -> Self {
        Self { stored: number, partial: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_stored_and_of_partial_events_are_read() {
        assert_eq!(EventId::parse("7"), Some(EventId::stored(7)));
        let partial = EventId { stored: 7, partial: Some(("ab12cd34".to_owned(), 9)) };
        assert_eq!(EventId::parse("7-ab12cd34-9"), Some(partial));
        for wrong in ["", "x", "7-ab12cd34", "7-ab12cd34-x"] {
            assert_eq!(EventId::parse(wrong), None, "{wrong}");
        }
    }
}

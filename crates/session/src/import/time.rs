//! Times as Go's SQLite drivers write them: text with an offset that may differ from row to row, so never in the order of the text.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use rusqlite::types::ValueRef;

/// Nanoseconds since the epoch; wide enough for Go's zero time.
pub(super) type Nanos = i128;

const SECOND: i128 = 1_000_000_000;
/// A whole number beyond this counts milliseconds, as the driver reads it.
const LARGEST_SECONDS: u64 = 1_000_000_000_000;

pub(super) fn read(value: ValueRef<'_>) -> Option<Nanos> {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => parse(std::str::from_utf8(bytes).ok()?),
        ValueRef::Integer(number) if number.unsigned_abs() > LARGEST_SECONDS => {
            Some(Nanos::from(number) * (SECOND / 1000))
        }
        ValueRef::Integer(number) => Some(Nanos::from(number) * SECOND),
        ValueRef::Real(_) | ValueRef::Null => None,
    }
}

/// `2026-02-15 10:00:00.123456789+09:00`, also with `T` and `Z`, without an offset (UTC), or as Go prints a time for people:
/// `2026-02-15 10:00:00.1 +0900 KST m=+0.5`.
fn parse(text: &str) -> Option<Nanos> {
    let text = text.trim();
    let mut words = text.split(' ');
    let printed = match (words.next(), words.next(), words.next()) {
        (Some(day), Some(clock), Some(offset)) => Some(format!("{day} {clock}{offset}")),
        _ => None,
    };
    let text = printed.as_deref().unwrap_or(text);
    let stamp = text.parse::<Timestamp>().ok().or_else(|| {
        let civil: DateTime = text.parse().ok()?;
        civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
    });
    stamp.map(Timestamp::as_nanosecond)
}

/// Seconds since the epoch, as rows of a store have them.
#[expect(
    clippy::cast_precision_loss,
    reason = "a row's time has the precision of a float, which is below a microsecond"
)]
pub(super) fn seconds(nanos: Nanos) -> f64 {
    nanos.div_euclid(SECOND) as f64 + nanos.rem_euclid(SECOND) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_of_one_moment_is_the_same_moment() {
        let forms = [
            "2026-02-15 10:00:00.5+09:00",
            "2026-02-15T10:00:00.500000000+09:00",
            "2026-02-15 01:00:00.5+00:00",
            "2026-02-15T01:00:00.5Z",
            "2026-02-15 01:00:00.5",
            "2026-02-15 10:00:00.5 +0900 KST m=+0.012345678",
            "2026-02-15 01:00:00.5 +0000 UTC",
        ];
        for form in forms {
            assert_eq!(parse(form), Some(1_771_117_200_500_000_000), "{form}");
        }
    }

    #[test]
    fn numbers_are_seconds_or_milliseconds() {
        assert_eq!(read(ValueRef::Integer(1_771_117_200)), Some(1_771_117_200 * SECOND));
        assert_eq!(read(ValueRef::Integer(1_771_117_200_500)), Some(1_771_117_200_500_000_000));
        assert_eq!(read(ValueRef::Integer(i64::MIN)), Some(Nanos::from(i64::MIN) * 1_000_000));
    }

    #[test]
    fn the_zero_time_of_go_is_a_time_and_other_text_is_none() {
        assert_eq!(parse("0001-01-01 00:00:00+00:00").map(seconds), Some(-62_135_596_800.0));
        for text in ["", " ", "yesterday", "2026-13-01 00:00:00Z", "a b c"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_time_in_seconds_keeps_its_fraction() {
        assert_eq!(format!("{:.6}", seconds(1_771_117_200_123_456_000)), "1771117200.123456");
    }
}

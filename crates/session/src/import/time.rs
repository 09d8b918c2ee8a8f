//! The time formats of Go's SQLite drivers: text with an offset that may differ per row, so text order is not time order.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use rusqlite::types::ValueRef;

/// Nanoseconds since the Unix epoch. The type can hold Go's zero time.
pub(super) type Nanos = i128;

const SECOND: i128 = 1_000_000_000;
/// Larger integers are milliseconds, as in the driver.
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

/// Parses `2026-02-15 10:00:00.123456789+09:00`, also with `T` and `Z`, without an offset (UTC), or in the format of Go's
/// `Time.String`: `2026-02-15 10:00:00.1 +0900 KST m=+0.5`.
fn parse(text: &str) -> Option<Nanos> {
    let text = text.trim();
    let mut fields = text.split(' ');
    let printed = match (fields.next(), fields.next(), fields.next()) {
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

/// Seconds since the Unix epoch, as in the rows of a store.
#[expect(clippy::cast_precision_loss, reason = "a timestamp is a float with a precision below a microsecond")]
pub(super) fn seconds(nanos: Nanos) -> f64 {
    nanos.div_euclid(SECOND) as f64 + nanos.rem_euclid(SECOND) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_text_formats_of_one_time_are_equal() {
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
    fn integers_are_seconds_or_milliseconds() {
        assert_eq!(read(ValueRef::Integer(1_771_117_200)), Some(1_771_117_200 * SECOND));
        assert_eq!(read(ValueRef::Integer(1_771_117_200_500)), Some(1_771_117_200_500_000_000));
        assert_eq!(read(ValueRef::Integer(i64::MIN)), Some(Nanos::from(i64::MIN) * 1_000_000));
    }

    #[test]
    fn the_zero_time_of_go_is_parsed_and_invalid_text_is_refused() {
        assert_eq!(parse("0001-01-01 00:00:00+00:00").map(seconds), Some(-62_135_596_800.0));
        for text in ["", " ", "yesterday", "2026-13-01 00:00:00Z", "a b c"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn seconds_keep_their_fraction() {
        assert_eq!(format!("{:.6}", seconds(1_771_117_200_123_456_000)), "1771117200.123456");
    }
}

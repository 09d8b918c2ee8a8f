//! The delay that a server asks for: `Retry-After` in seconds or as a date, or `retry-after-ms`.

use httpdate::parse_http_date;
use std::time::{Duration, SystemTime};

/// Reads the delay from the response headers. `retry-after-ms` takes precedence because it is more precise.
///
/// A date is compared with the server's own `Date` header where there is one, because the local clock may be wrong.
pub(crate) fn retry_after<'a>(header: impl Fn(&str) -> Option<&'a str>, now: SystemTime) -> Option<Duration> {
    let in_milliseconds = || Some(parse_seconds(header("retry-after-ms")?)? / 1000);
    let standard = || {
        let value = header("retry-after")?;
        parse_seconds(value).or_else(|| {
            let until = parse_http_date(value).ok()?;
            let now = header("date").and_then(|date| parse_http_date(date).ok()).unwrap_or(now);
            Some(until.duration_since(now).unwrap_or_default())
        })
    };
    in_milliseconds().or_else(standard)
}

/// A non-negative number of seconds, which may have a fraction.
pub(super) fn parse_seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::UNIX_EPOCH;

    const NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn delay(headers: &[(&str, &'static str)]) -> Option<Duration> {
        let header = |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        retry_after(header, parse_http_date(NOW).unwrap())
    }

    #[test]
    fn retry_after_date_counts_from_the_epoch_across_leap_years() {
        let since_epoch = |date: &'static str| {
            let headers = [("retry-after", date)];
            let header = |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
            retry_after(header, UNIX_EPOCH)
        };
        assert_eq!(since_epoch(NOW), Some(Duration::from_secs(784_111_777)));
        assert_eq!(since_epoch("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(since_epoch("Thu, 29 Feb 2024 12:00:00 GMT"), Some(Duration::from_hours(474_780)));
        assert_eq!(since_epoch("Fri, 01 Mar 2024 12:00:00 GMT"), Some(Duration::from_hours(474_804)));
        assert_eq!(since_epoch("Fri, 31 Dec 2100 23:59:59 GMT"), Some(Duration::from_secs(4_133_980_799)));
        for invalid in ["", "soon", "Thu, 00 Jan 1970 00:00:00 GMT", "Sun, 06 Nov 99999999999 08:49:37 GMT"] {
            assert_eq!(since_epoch(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn retry_after_accepts_seconds_milliseconds_and_a_date() {
        let some = |seconds| Some(Duration::from_secs_f64(seconds));
        assert_eq!(delay(&[]), None);
        assert_eq!(delay(&[("retry-after", "7")]), some(7.0));
        assert_eq!(delay(&[("retry-after", "0.5")]), some(0.5));
        assert_eq!(delay(&[("retry-after-ms", "1500"), ("retry-after", "7")]), some(1.5));
        assert_eq!(delay(&[("retry-after", "Sun, 06 Nov 1994 08:50:00 GMT")]), some(23.0));
        assert_eq!(delay(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), some(0.0));
        for invalid in ["", "-1", "NaN", "inf", "1e300", "later"] {
            assert_eq!(delay(&[("retry-after", invalid)]), None, "{invalid}");
        }
    }

    #[test]
    fn retry_after_date_is_relative_to_the_date_header() {
        let headers =
            [("retry-after", "Sat, 01 Jan 2000 00:01:00 GMT"), ("date", "Sat, 01 Jan 2000 00:00:00 GMT")];
        assert_eq!(delay(&headers), Some(Duration::from_mins(1)));
    }
}

//! How long a server asks to wait: in seconds, in milliseconds, or until a date.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The wait that headers ask for. A date is compared with the server's own, if it gives one: clocks differ.
pub(crate) fn asked_wait<'a>(header: impl Fn(&str) -> Option<&'a str>, now: SystemTime) -> Option<Duration> {
    let millis = || Some(seconds(header("retry-after-ms")?)? / 1000);
    let wait = || {
        let asked = header("retry-after")?;
        let now = || header("date").and_then(date).or_else(|| now.duration_since(UNIX_EPOCH).ok());
        seconds(asked).or_else(|| Some(date(asked)?.saturating_sub(now()?)))
    };
    millis().or_else(wait)
}

pub(super) fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?).ok()
}

/// The months, and the days of a year before each.
const MONTHS: [(&str, u64); 12] = [
    ("Jan", 0),
    ("Feb", 31),
    ("Mar", 59),
    ("Apr", 90),
    ("May", 120),
    ("Jun", 151),
    ("Jul", 181),
    ("Aug", 212),
    ("Sep", 243),
    ("Oct", 273),
    ("Nov", 304),
    ("Dec", 334),
];

/// A date as HTTP writes it, `Sun, 06 Nov 1994 08:49:37 GMT`, as time since 1970.
fn date(text: &str) -> Option<Duration> {
    let (_, date) = text.split_once(", ")?;
    let words: Vec<&str> = date.strip_suffix(" GMT")?.split([' ', ':']).collect();
    let [day, month, year, hour, minute, second] = words[..] else { return None };
    let number = |text: &str, longest: usize| text.parse::<u64>().ok().filter(|_| text.len() <= longest);
    let (day, year) = (number(day, 2)?, number(year, 4).filter(|year| *year >= 1970)?);
    let (_, before) = MONTHS.iter().find(|(name, _)| *name == month)?;
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let leap_day = u64::from(leap && *before > 31);
    let days = (year - 1970) * 365 + leap_years(year - 1) - leap_years(1969)
        + before
        + leap_day
        + day.checked_sub(1)?;
    let seconds = number(hour, 2)? * 3600 + number(minute, 2)? * 60 + number(second, 2)?;
    Some(Duration::from_secs(days * 86_400 + seconds))
}

/// How many there were up to this year.
fn leap_years(year: u64) -> u64 {
    year / 4 - year / 100 + year / 400
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn wait(headers: &[(&str, &'static str)]) -> Option<Duration> {
        let header = |name: &str| headers.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        asked_wait(header, UNIX_EPOCH + date(NOW).unwrap())
    }

    #[test]
    fn a_date_is_a_number_of_seconds() {
        assert_eq!(date(NOW), Some(Duration::from_secs(784_111_777)));
        assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(date("Thu, 29 Feb 2024 12:00:00 GMT"), Some(Duration::from_hours(474_780)));
        assert_eq!(date("Fri, 01 Mar 2024 12:00:00 GMT"), Some(Duration::from_hours(474_804)));
        assert_eq!(date("Fri, 31 Dec 2100 23:59:59 GMT"), Some(Duration::from_secs(4_133_980_799)));
        for other in ["", "soon", "Thu, 00 Jan 1970 00:00:00 GMT", "Sun, 06 Nov 99999999999 08:49:37 GMT"] {
            assert_eq!(date(other), None, "{other}");
        }
    }

    #[test]
    fn a_wait_comes_as_seconds_milliseconds_or_a_date() {
        let some = |seconds| Some(Duration::from_secs_f64(seconds));
        assert_eq!(wait(&[]), None);
        assert_eq!(wait(&[("retry-after", "7")]), some(7.0));
        assert_eq!(wait(&[("retry-after", "0.5")]), some(0.5));
        assert_eq!(wait(&[("retry-after-ms", "1500"), ("retry-after", "7")]), some(1.5));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:50:00 GMT")]), some(23.0));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), some(0.0));
        for other in ["", "-1", "NaN", "inf", "1e300", "later"] {
            assert_eq!(wait(&[("retry-after", other)]), None, "{other}");
        }
    }

    #[test]
    fn a_date_is_compared_with_the_servers_clock() {
        let headers =
            [("retry-after", "Sat, 01 Jan 2000 00:01:00 GMT"), ("date", "Sat, 01 Jan 2000 00:00:00 GMT")];
        assert_eq!(wait(&headers), Some(Duration::from_mins(1)));
    }
}

//! Questions about time: the time zone they name, and the sentence that answers them.

use crate::input_words::{self, InputWord};
use serde_json::Value;

/// The part of the current time that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockAspect {
    Time,
    /// A day relative to today.
    Day(i64),
    Year,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClockQuestion {
    pub(crate) aspect: ClockAspect,
    pub(crate) zone: Option<&'static str>,
}

pub(crate) fn find_questions(words: &[InputWord]) -> Vec<ClockQuestion> {
    let Some(aspect) = find_aspect(words) else { return Vec::new() };
    let zones = find_zones(words);
    if zones.is_empty() {
        return vec![ClockQuestion { aspect, zone: None }];
    }
    zones.into_iter().map(|zone| ClockQuestion { aspect, zone: Some(zone) }).collect()
}

fn find_aspect(words: &[InputWord]) -> Option<ClockAspect> {
    let has = |phrases: &str| input_words::has_any_phrase(words, phrases);
    if has("tomorrow|day after today") {
        Some(ClockAspect::Day(1))
    } else if has("yesterday") {
        Some(ClockAspect::Day(-1))
    } else if has("what year|which year|the year|current year") {
        Some(ClockAspect::Year)
    } else if has("date|today|day is it|which day|what day|weekday|day of the week|month|what week")
        || input_words::starts_with_any(words, "is it")
            && has("monday|tuesday|wednesday|thursday|friday|saturday|sunday|weekend")
    {
        Some(ClockAspect::Day(0))
    } else if has("time|clock|o'clock|hour|right now|noon|midnight|how late")
        && !has("first time|last time|every time|long time")
    {
        Some(ClockAspect::Time)
    } else {
        None
    }
}

/// The time zones that are named, in the order of the text.
pub(crate) fn find_zones(words: &[InputWord]) -> Vec<&'static str> {
    let mut found: Vec<(usize, &'static str)> = ZONES
        .iter()
        .flat_map(|(zone, names)| names.split('|').map(move |name| (*zone, name)))
        .filter_map(|(zone, name)| input_words::find_phrase(words, name).map(|at| (at, zone)))
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().map(|(_, zone)| zone).collect()
}

const ZONES: &[(&str, &str)] = &[
    ("UTC", "utc|gmt|zulu"),
    ("Europe/London", "london|england|uk|britain|scotland|edinburgh"),
    ("Europe/Dublin", "dublin|ireland"),
    ("Europe/Lisbon", "lisbon|portugal"),
    ("Europe/Paris", "paris|france"),
    ("Europe/Berlin", "berlin|germany|munich|hamburg|frankfurt|cologne"),
    ("Europe/Madrid", "madrid|spain|barcelona"),
    ("Europe/Rome", "rome|italy|milan"),
    ("Europe/Amsterdam", "amsterdam|netherlands|holland"),
    ("Europe/Brussels", "brussels|belgium"),
    ("Europe/Vienna", "vienna|austria"),
    ("Europe/Zurich", "zurich|zürich|switzerland|geneva|bern"),
    ("Europe/Stockholm", "stockholm|sweden"),
    ("Europe/Oslo", "oslo|norway"),
    ("Europe/Copenhagen", "copenhagen|denmark"),
    ("Europe/Helsinki", "helsinki|finland"),
    ("Europe/Warsaw", "warsaw|poland"),
    ("Europe/Prague", "prague|czechia"),
    ("Europe/Budapest", "budapest|hungary"),
    ("Europe/Athens", "athens|greece"),
    ("Europe/Kyiv", "kyiv|kiev|ukraine"),
    ("Europe/Moscow", "moscow|russia"),
    ("Europe/Istanbul", "istanbul|turkey"),
    ("Africa/Cairo", "cairo|egypt"),
    ("Africa/Lagos", "lagos|nigeria"),
    ("Africa/Nairobi", "nairobi|kenya"),
    ("Africa/Johannesburg", "johannesburg|south africa|cape town"),
    ("Asia/Dubai", "dubai|uae|abu dhabi"),
    ("Asia/Jerusalem", "jerusalem|tel aviv|israel"),
    ("Asia/Karachi", "karachi|pakistan"),
    ("Asia/Kolkata", "kolkata|india|delhi|mumbai|bangalore|chennai"),
    ("Asia/Dhaka", "dhaka|bangladesh"),
    ("Asia/Bangkok", "bangkok|thailand"),
    ("Asia/Jakarta", "jakarta|indonesia"),
    ("Asia/Ho_Chi_Minh", "saigon|hanoi|vietnam|ho chi minh"),
    ("Asia/Singapore", "singapore"),
    ("Asia/Hong_Kong", "hong kong"),
    ("Asia/Shanghai", "shanghai|beijing|china|shenzhen"),
    ("Asia/Taipei", "taipei|taiwan"),
    ("Asia/Manila", "manila|philippines"),
    ("Asia/Seoul", "seoul|korea"),
    ("Asia/Tokyo", "tokyo|japan|osaka|kyoto"),
    ("Australia/Sydney", "sydney|australia"),
    ("Australia/Melbourne", "melbourne"),
    ("Australia/Perth", "perth"),
    ("Pacific/Auckland", "auckland|new zealand|wellington"),
    ("Pacific/Honolulu", "honolulu|hawaii"),
    ("America/Anchorage", "anchorage|alaska"),
    (
        "America/Los_Angeles",
        "los angeles|san francisco|seattle|california|portland|las vegas|pst|pacific time",
    ),
    ("America/Denver", "denver|colorado|mountain time"),
    ("America/Chicago", "chicago|texas|houston|dallas|austin|central time"),
    ("America/New_York", "new york|nyc|boston|washington|miami|atlanta|est|eastern time"),
    ("America/Toronto", "toronto|canada|montreal"),
    ("America/Vancouver", "vancouver"),
    ("America/Mexico_City", "mexico"),
    ("America/Bogota", "bogota|bogotá|colombia"),
    ("America/Lima", "lima|peru"),
    ("America/Santiago", "santiago|chile"),
    ("America/Sao_Paulo", "sao paulo|são paulo|brazil|rio"),
    ("America/Argentina/Buenos_Aires", "buenos aires|argentina"),
];

/// Formats the answer from the response of the `now` tool.
pub(crate) fn format_answer(question: &ClockQuestion, response: &Value) -> Option<String> {
    let stamp = timestamp(response)?;
    let separate = response.get("time").and_then(Value::as_str).and_then(|time| time.get(..5));
    let (date, time) = (stamp.get(..10)?, stamp.get(11..16).or(separate));
    let location = question.zone.map_or_else(String::new, |zone| format!(" in {}", city(zone)));
    let today = CalendarDate::parse(date)?;
    Some(match (question.aspect, time) {
        (ClockAspect::Time, Some(time)) => format!("It is {time}{location}, on {}.", today.long_format()),
        (ClockAspect::Year, _) => format!("It is the year {}{location}.", today.year),
        (ClockAspect::Day(1), _) => format!("Tomorrow is {}{location}.", today.add_days(1).long_format()),
        (ClockAspect::Day(-1), _) => format!("Yesterday was {}{location}.", today.add_days(-1).long_format()),
        (ClockAspect::Time | ClockAspect::Day(_), _) => {
            format!("Today is {}{location}.", today.long_format())
        }
    })
}

fn city(zone: &str) -> String {
    zone.rsplit('/').next().unwrap_or(zone).replace('_', " ")
}

/// The first ISO date in a response, at any depth. A local time takes precedence over UTC.
fn timestamp(response: &Value) -> Option<&str> {
    match response {
        Value::String(text) => is_date(text).then_some(text),
        Value::Array(items) => items.iter().find_map(timestamp),
        Value::Object(fields) => {
            let is_utc = |key: &str| key.contains("utc");
            let local = fields.iter().filter(|(key, _)| !is_utc(key)).find_map(|(_, value)| timestamp(value));
            // Use a date without a time only as a last resort.
            let full = fields.values().filter_map(timestamp).find(|stamp| stamp.len() > 10);
            local.filter(|stamp| stamp.len() > 10).or(full).or(local)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn is_date(text: &str) -> bool {
    let shape =
        |(at, byte): (usize, u8)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() >= 10 && text.bytes().take(10).enumerate().all(shape)
}

#[derive(Clone, Copy, Debug)]
struct CalendarDate {
    year: i64,
    month: i64,
    day: i64,
}

impl CalendarDate {
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split('-').map(|field| field.parse::<i64>().ok());
        let date = Self { year: fields.next()??, month: fields.next()??, day: fields.next()?? };
        ((1..=12).contains(&date.month) && (1..=31).contains(&date.day)).then_some(date)
    }

    /// Days since 1 March of year 0, in the proleptic Gregorian calendar.
    fn day_number(self) -> i64 {
        let year = if self.month > 2 { self.year } else { self.year - 1 };
        let day_of_year = (153 * ((self.month + 9) % 12) + 2) / 5 + self.day - 1;
        365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year
    }

    fn from_day_number(number: i64) -> Self {
        let era = number.div_euclid(146_097);
        let day = number.rem_euclid(146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let month = (shifted + 2) % 12 + 1;
        let year = year + era * 400 + i64::from(month <= 2);
        Self { year, month, day: day_of_year - (153 * shifted + 2) / 5 + 1 }
    }

    fn add_days(self, days: i64) -> Self {
        Self::from_day_number(self.day_number() + days)
    }

    fn long_format(self) -> String {
        const DAYS: &str = "Wednesday|Thursday|Friday|Saturday|Sunday|Monday|Tuesday";
        const MONTHS: &str = "\
            January|February|March|April|May|June|July|August|September|October|November|December";
        let name = |names: &'static str, at: i64| {
            usize::try_from(at).ok().and_then(|at| names.split('|').nth(at)).unwrap_or_default()
        };
        let weekday = name(DAYS, self.day_number().rem_euclid(7));
        format!("{weekday}, {} {} {}", self.day, name(MONTHS, self.month - 1), self.year)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn answer_contains_the_requested_part_of_the_timestamp() {
        let now = json!({"utc": "2024-02-29T23:30:00Z", "local": "2024-03-01T08:30:00+09:00"});
        let ask = |aspect, zone| format_answer(&ClockQuestion { aspect, zone }, &now).unwrap_or_default();
        assert_eq!(
            ask(ClockAspect::Time, Some("Asia/Tokyo")),
            "It is 08:30 in Tokyo, on Friday, 1 March 2024."
        );
        assert_eq!(ask(ClockAspect::Day(0), None), "Today is Friday, 1 March 2024.");
        assert_eq!(ask(ClockAspect::Day(-1), None), "Yesterday was Thursday, 29 February 2024.");
        assert_eq!(ask(ClockAspect::Day(1), None), "Tomorrow is Saturday, 2 March 2024.");
        assert_eq!(ask(ClockAspect::Year, None), "It is the year 2024.");
    }
}

//! `now`: what time it is, here or elsewhere.

use futures::future::BoxFuture;
use jiff::{Timestamp, Zoned, fmt::strtime, tz, tz::TimeZone};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Call, Error, Outcome, Spec, Tool, args};

const NAME: &str = "now";

/// Tells the time in the machine's zone or in the one asked for.
#[derive(Debug)]
pub struct Now {
    spec: Spec,
    /// Handed in, so that a test can stop it.
    clock: fn() -> Timestamp,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    timezone: Option<String>,
    format: Option<String>,
}

impl Now {
    pub fn new() -> Self {
        let parameters = json!({
            "type": "object",
            "properties": {
                "timezone": {"type": "string", "description": "IANA time zone such as Europe/Paris or UTC. Default: the local one."},
                "format": {"type": "string", "description": "strftime format of an extra field `formatted`, such as %d.%m.%Y %H:%M."},
            },
            "additionalProperties": false,
        });
        let description = "The current time, date, weekday and time zone.";
        Self { spec: Spec::reading(NAME, description, parameters), clock: Timestamp::now }
    }

    fn answer(&self, args: &Args) -> Result<Value, Error> {
        let zone = args.timezone.as_deref().map_or_else(|| Ok(TimeZone::system()), zone)?;
        let now = (self.clock)().to_zoned(zone);
        let mut answer = json!({
            "time": print("%H:%M:%S", &now)?,
            "date": print("%Y-%m-%d", &now)?,
            "weekday": print("%A", &now)?,
            "timezone": now.time_zone().iana_name().unwrap_or("UTC"),
            "utc_offset": print("%:z", &now)?,
            "unix": now.timestamp().as_second(),
        });
        if let Some(format) = &args.format {
            answer["formatted"] = print(format, &now)?.into();
        }
        Ok(answer)
    }
}

impl Default for Now {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for Now {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, call: Call) -> BoxFuture<'_, Result<Outcome, Error>> {
        Box::pin(async move { self.answer(&args::parse(NAME, call.args)?).map(Outcome::Done) })
    }
}

fn print(format: &str, now: &Zoned) -> Result<String, Error> {
    strtime::format(format, now)
        .map_err(|error| bad(format!("the format `{format}` is no strftime format: {error}")))
}

fn zone(name: &str) -> Result<TimeZone, Error> {
    TimeZone::get(name).map_err(|_| {
        let hint = suggestions(name);
        let hint = if hint.is_empty() {
            "use an IANA name such as Europe/Paris or UTC".to_owned()
        } else {
            format!("did you mean {hint}?")
        };
        bad(format!("there is no time zone `{name}`; {hint}"))
    })
}

/// Models tend to give a bare city: find the zones named after it.
fn suggestions(name: &str) -> String {
    let wanted = name.rsplit('/').next().unwrap_or(name).trim().replace(' ', "_");
    let named_so =
        |zone: &String| zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&wanted));
    let found: Vec<String> =
        tz::db().available().map(|zone| zone.to_string()).filter(named_so).take(3).collect();
    found.join(" or ")
}

fn bad(reason: String) -> Error {
    Error::Arguments { tool: NAME.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_noon() -> Now {
        Now { clock: || Timestamp::constant(1_783_684_800, 0), ..Now::new() }
    }

    fn ask(timezone: &str, format: Option<&str>) -> Result<Value, String> {
        let args = Args { timezone: Some(timezone.to_owned()), format: format.map(str::to_owned) };
        at_noon().answer(&args).map_err(|error| error.to_string())
    }

    #[test]
    fn the_same_moment_reads_differently_in_each_zone() {
        for (zone, time, date, weekday, offset) in [
            ("UTC", "12:00:00", "2026-07-10", "Friday", "+00:00"),
            ("Europe/Paris", "14:00:00", "2026-07-10", "Friday", "+02:00"),
            ("Pacific/Auckland", "00:00:00", "2026-07-11", "Saturday", "+12:00"),
            ("Asia/Kolkata", "17:30:00", "2026-07-10", "Friday", "+05:30"),
        ] {
            let expected = json!({"time": time, "date": date, "weekday": weekday, "timezone": zone,
                "utc_offset": offset, "unix": 1_783_684_800});
            assert_eq!(ask(zone, None), Ok(expected));
        }
    }

    #[test]
    fn a_format_adds_a_field() {
        assert_eq!(ask("UTC", Some("%d.%m.%y %H:%M")).unwrap()["formatted"], "10.07.26 12:00");
    }

    #[test]
    fn a_wrong_format_is_named() {
        let error = ask("UTC", Some("%Ö")).unwrap_err();
        assert!(
            error.starts_with("bad arguments for `now`: the format `%Ö` is no strftime format"),
            "{error}"
        );
    }

    #[test]
    fn a_city_is_answered_with_its_zone_and_nonsense_with_an_example() {
        assert!(
            ask("tokyo", None)
                .unwrap_err()
                .ends_with("there is no time zone `tokyo`; did you mean Asia/Tokyo?")
        );
        assert!(
            ask("Mars/Base", None).unwrap_err().ends_with("use an IANA name such as Europe/Paris or UTC")
        );
    }

    #[test]
    fn the_local_zone_is_the_default() {
        let local = at_noon().answer(&Args { timezone: None, format: None }).unwrap();
        assert_eq!(local["unix"], 1_783_684_800);
    }
}

//! `now`: the current time in the local or a given time zone.

use futures::future::BoxFuture;
use jiff::{Timestamp, Zoned, fmt::strtime, tz, tz::TimeZone};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{Spec, Tool, ToolReply, ToolRequest, ToolsError, args};

const NAME: &str = "now";

/// The tool `now`.
#[derive(Debug)]
pub struct Now {
    spec: Spec,
    /// Injected, so that tests can fix the time.
    clock: fn() -> Timestamp,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NowArgs {
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
        Self { spec: Spec::read_only(NAME, description, parameters), clock: Timestamp::now }
    }

    fn answer(&self, args: &NowArgs) -> Result<Value, ToolsError> {
        let zone = args.timezone.as_deref().map_or_else(|| Ok(TimeZone::system()), find_zone)?;
        let now = (self.clock)().to_zoned(zone);
        let mut answer = json!({
            "time": format_time("%H:%M:%S", &now)?,
            "date": format_time("%Y-%m-%d", &now)?,
            "weekday": format_time("%A", &now)?,
            "timezone": now.time_zone().iana_name().unwrap_or("UTC"),
            "utc_offset": format_time("%:z", &now)?,
            "unix": now.timestamp().as_second(),
        });
        if let Some(format) = &args.format {
            answer["formatted"] = format_time(format, &now)?.into();
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

    fn call(&self, request: ToolRequest) -> BoxFuture<'_, Result<ToolReply, ToolsError>> {
        Box::pin(async move { self.answer(&args::parse(NAME, request.args)?).map(ToolReply::Done) })
    }
}

fn format_time(format: &str, now: &Zoned) -> Result<String, ToolsError> {
    strtime::format(format, now)
        .map_err(|error| invalid(format!("`{format}` is not a valid strftime format: {error}")))
}

fn find_zone(name: &str) -> Result<TimeZone, ToolsError> {
    TimeZone::get(name).map_err(|_| {
        let hint = suggestions(name);
        let hint = if hint.is_empty() {
            "use an IANA name such as Europe/Paris or UTC".to_owned()
        } else {
            format!("did you mean {hint}?")
        };
        invalid(format!("`{name}` is not a time zone; {hint}"))
    })
}

/// Zones whose last component is `name`, because models tend to give a bare city.
fn suggestions(name: &str) -> String {
    let wanted = name.rsplit('/').next().unwrap_or(name).trim().replace(' ', "_");
    let is_match =
        |zone: &String| zone.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(&wanted));
    let found: Vec<String> =
        tz::db().available().map(|zone| zone.to_string()).filter(is_match).take(3).collect();
    found.join(" or ")
}

fn invalid(reason: String) -> ToolsError {
    ToolsError::Arguments { tool: NAME.to_owned(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed_now() -> Now {
        Now { clock: || Timestamp::constant(1_783_684_800, 0), ..Now::new() }
    }

    fn now_in(timezone: &str, format: Option<&str>) -> Result<Value, String> {
        let args = NowArgs { timezone: Some(timezone.to_owned()), format: format.map(str::to_owned) };
        fixed_now().answer(&args).map_err(|error| error.to_string())
    }

    #[test]
    fn time_is_converted_to_the_given_zone() {
        for (zone, time, date, weekday, offset) in [
            ("UTC", "12:00:00", "2026-07-10", "Friday", "+00:00"),
            ("Europe/Paris", "14:00:00", "2026-07-10", "Friday", "+02:00"),
            ("Pacific/Auckland", "00:00:00", "2026-07-11", "Saturday", "+12:00"),
            ("Asia/Kolkata", "17:30:00", "2026-07-10", "Friday", "+05:30"),
        ] {
            let expected = json!({"time": time, "date": date, "weekday": weekday, "timezone": zone,
                "utc_offset": offset, "unix": 1_783_684_800});
            assert_eq!(now_in(zone, None), Ok(expected));
        }
    }

    #[test]
    fn format_adds_the_field_formatted() {
        assert_eq!(now_in("UTC", Some("%d.%m.%y %H:%M")).unwrap()["formatted"], "10.07.26 12:00");
    }

    #[test]
    fn invalid_format_is_named_in_the_error() {
        let error = now_in("UTC", Some("%Ö")).unwrap_err();
        assert!(error.starts_with("bad arguments for `now`: `%Ö` is not a valid strftime format"), "{error}");
    }

    #[test]
    fn unknown_zone_error_suggests_the_zone_of_a_city_or_gives_an_example() {
        assert!(
            now_in("tokyo", None)
                .unwrap_err()
                .ends_with("`tokyo` is not a time zone; did you mean Asia/Tokyo?")
        );
        assert!(
            now_in("Mars/Base", None).unwrap_err().ends_with("use an IANA name such as Europe/Paris or UTC")
        );
    }

    #[test]
    fn local_zone_is_the_default() {
        let local = fixed_now().answer(&NowArgs { timezone: None, format: None }).unwrap();
        assert_eq!(local["unix"], 1_783_684_800);
    }
}

//! `[telemetry]` in `lango.toml`, and the standard variables of OpenTelemetry.

use super::{ConfigError, Env, Filled};
use provider::SecretString;
use serde::Deserialize;
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};
use telemetry::Collector;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct TelemetrySection {
    /// Base URL of the collector; `/v1/traces` is appended. `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is used as it is.
    ///
    /// Environment: `OTEL_EXPORTER_OTLP_ENDPOINT`
    endpoint: Option<String>,
    /// Headers of each request. Values may contain `${NAME}`. The variable holds `name=value` pairs, separated by commas.
    ///
    /// Environment: `OTEL_EXPORTER_OTLP_HEADERS`
    headers: BTreeMap<String, String>,
    /// The resource attribute `service.name`.
    ///
    /// Default: `"lango"`
    /// Environment: `OTEL_SERVICE_NAME`
    #[serde(alias = "service_name")]
    service_name: Option<String>,
    /// Whether spans contain messages, arguments and results.
    ///
    /// Default: `false`
    /// Environment: `LANGO_TELEMETRY_CONTENT`
    content: Option<bool>,
}

impl TelemetrySection {
    /// Variables override the file. Returns `None` if neither names a collector.
    pub(super) fn resolve(self, file: &Path, env: &Env) -> Result<Option<Collector>, ConfigError> {
        let headers = self.all_headers(file, env)?;
        let base = env.text("OTEL_EXPORTER_OTLP_ENDPOINT")?.or(self.endpoint);
        let url = match env.text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")? {
            Some(whole) => Some(whole),
            None => base.map(|base| format!("{}/v1/traces", base.trim_end_matches('/'))),
        };
        let Some(url) = url else { return Ok(None) };
        if env.flag("OTEL_SDK_DISABLED")?.unwrap_or(false) {
            return Ok(None);
        }
        let service = env.text("OTEL_SERVICE_NAME")?.or(self.service_name);
        Ok(Some(Collector {
            url,
            headers,
            service: service.unwrap_or_else(|| "lango".to_owned()),
            content: env.flag("LANGO_TELEMETRY_CONTENT")?.or(self.content).unwrap_or(false),
        }))
    }

    fn all_headers(&self, file: &Path, env: &Env) -> Result<Vec<(String, SecretString)>, ConfigError> {
        let mut all = Vec::new();
        for (name, template) in &self.headers {
            let value = Filled::new(template, env);
            let missing = |variable: &str| ConfigError::Value {
                path: file.to_path_buf(),
                message: format!("telemetry.headers: {name} needs the variable {variable}, which is not set"),
            };
            all.push((name.clone(), SecretString::new(value.get().map_err(missing)?)));
        }
        let variable = "OTEL_EXPORTER_OTLP_HEADERS";
        let invalid =
            |message: &str| ConfigError::Value { path: PathBuf::from(variable), message: message.to_owned() };
        let text = env.secret(variable)?.unwrap_or_default();
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let (name, value) = pair
                .split_once('=')
                .ok_or_else(|| invalid("it is not written as name=value, with commas between several"))?;
            let value = percent_decoded(value.trim())
                .ok_or_else(|| invalid("a value is not valid UTF-8 after percent-decoding"))?;
            all.push((name.trim().to_owned(), SecretString::new(value)));
        }
        Ok(all)
    }
}

/// Decodes `%XX`, as in W3C baggage. A `%` without two hexadecimal digits stays.
fn percent_decoded(text: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => digit(*high).zip(digit(*low)),
            _ => None,
        };
        let (byte, behind) = match escaped {
            Some((high, low)) => (high * 16 + low, &rest[3..]),
            None => (*first, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(toml: &str, variables: &[(&str, &str)]) -> Result<Option<Collector>, ConfigError> {
        let written: TelemetrySection = toml::from_str(toml).unwrap();
        written.resolve(Path::new("lango.toml"), &Env::of(variables))
    }

    #[test]
    fn collector_is_configured_by_file_or_otel_variables() {
        assert!(resolve("", &[]).unwrap().is_none());
        let file =
            "endpoint = 'http://a.example:4318/'\nservice_name = 'mine'\nheaders = { 'X-Key' = '${KEY}' }";
        let from_file = resolve(file, &[("KEY", "k-1")]).unwrap().unwrap();
        assert_eq!((&*from_file.url, &*from_file.service), ("http://a.example:4318/v1/traces", "mine"));
        assert!(!from_file.content && !format!("{from_file:?}").contains("k-1"));
        let variables = [
            ("KEY", "k-1"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b.example"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20YQ==,x-team=blue"),
            ("OTEL_SERVICE_NAME", "theirs"),
        ];
        let both = resolve(file, &variables).unwrap().unwrap();
        assert_eq!((&*both.url, &*both.service), ("http://b.example/v1/traces", "theirs"));
        let names: Vec<&str> = both.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["X-Key", "authorization", "x-team"]);
        let whole = resolve("", &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c.example/t")]).unwrap();
        assert_eq!(whole.unwrap().url, "http://c.example/t");
        let off = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b.example"), ("OTEL_SDK_DISABLED", "true")];
        assert!(resolve("", &off).unwrap().is_none());
    }

    #[test]
    fn header_variable_is_percent_decoded_and_may_end_with_a_comma() {
        let headers = |text: &str| {
            let variables =
                [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a.example"), ("OTEL_EXPORTER_OTLP_HEADERS", text)];
            let collector = resolve("", &variables).map(Option::unwrap).map_err(|error| error.to_string())?;
            let pairs = collector.headers.iter().map(|(name, value)| format!("{name}={}", value.reveal()));
            Ok::<_, String>(pairs.collect::<Vec<_>>())
        };
        let decoded = headers("a=Basic%20YQ%3D%3D%2c, b = x=%C3%BC ,c=100%,d=%zz%4,").unwrap();
        assert_eq!(decoded, ["a=Basic YQ==,", "b=x=ü", "c=100%", "d=%zz%4"]);
        assert_eq!(headers(" , ").unwrap(), [""; 0]);
        assert!(headers("a").unwrap_err().contains("not written as name=value"));
        let error = headers("a=%ffsecret").unwrap_err();
        assert!(error.contains("not valid UTF-8") && !error.contains("secret"), "{error}");
    }

    #[test]
    fn missing_header_variable_is_reported_by_name() {
        let error = resolve("headers = { 'X-Key' = '${KEY}' }", &[]).unwrap_err().to_string();
        assert!(
            error.ends_with("telemetry.headers: X-Key needs the variable KEY, which is not set"),
            "{error}"
        );
    }
}

//! `[telemetry]` in `lango.toml`, and OpenTelemetry's own variables: where traces are sent, if they are.

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
    /// Variables win over the file, and nothing is sent unless one of them names a collector.
    pub(super) fn meant(self, file: &Path, env: &Env) -> Result<Option<Collector>, ConfigError> {
        let headers = self.all_headers(file, env)?;
        let given = env.text("OTEL_EXPORTER_OTLP_ENDPOINT")?.or(self.endpoint);
        let url = match env.text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")? {
            Some(whole) => Some(whole),
            None => given.map(|base| format!("{}/v1/traces", base.trim_end_matches('/'))),
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
        for pair in env.secret(variable)?.iter().flat_map(|text| text.split(',')) {
            let (name, value) = pair.split_once('=').ok_or_else(|| ConfigError::Value {
                path: PathBuf::from(variable),
                message: "it is not written as name=value, with commas between several".to_owned(),
            })?;
            all.push((name.trim().to_owned(), SecretString::new(value.replace("%20", " "))));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(toml: &str, variables: &[(&str, &str)]) -> Result<Option<Collector>, ConfigError> {
        let written: TelemetrySection = toml::from_str(toml).unwrap();
        written.meant(Path::new("lango.toml"), &Env::of(variables))
    }

    #[test]
    fn a_collector_is_named_by_the_file_or_by_the_usual_variables() {
        assert!(meant("", &[]).unwrap().is_none());
        let file =
            "endpoint = 'http://a.example:4318/'\nservice_name = 'mine'\nheaders = { 'X-Key' = '${KEY}' }";
        let from_file = meant(file, &[("KEY", "k-1")]).unwrap().unwrap();
        assert_eq!((&*from_file.url, &*from_file.service), ("http://a.example:4318/v1/traces", "mine"));
        assert!(!from_file.content && !format!("{from_file:?}").contains("k-1"));
        let variables = [
            ("KEY", "k-1"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b.example"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20YQ==,x-team=blue"),
            ("OTEL_SERVICE_NAME", "theirs"),
        ];
        let both = meant(file, &variables).unwrap().unwrap();
        assert_eq!((&*both.url, &*both.service), ("http://b.example/v1/traces", "theirs"));
        let names: Vec<&str> = both.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["X-Key", "authorization", "x-team"]);
        let whole = meant("", &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c.example/t")]).unwrap();
        assert_eq!(whole.unwrap().url, "http://c.example/t");
        let off = [("OTEL_EXPORTER_OTLP_ENDPOINT", "http://b.example"), ("OTEL_SDK_DISABLED", "true")];
        assert!(meant("", &off).unwrap().is_none());
    }

    #[test]
    fn a_header_whose_variable_is_missing_is_named() {
        let error = meant("headers = { 'X-Key' = '${KEY}' }", &[]).unwrap_err().to_string();
        assert!(
            error.ends_with("telemetry.headers: X-Key needs the variable KEY, which is not set"),
            "{error}"
        );
    }
}

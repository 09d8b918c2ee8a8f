//! POST of JSON to one URL. The response body is not read: the caller learns only whether the server accepted the
//! request.

use super::{SecretString, client::build_client};
use reqwest::{
    Client, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
};
use std::time::Duration;

#[derive(Debug)]
pub struct JsonPostClient {
    url: Url,
    client: Client,
    headers: HeaderMap,
    timeout: Duration,
}

impl JsonPostClient {
    /// The error message contains no header value.
    pub fn new(url: &str, headers: &[(String, SecretString)], timeout: Duration) -> Result<Self, String> {
        let address = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url =
            address.ok_or_else(|| format!("{url} is not a URL that begins with http:// or https://"))?;
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let invalid = || format!("{name} is not a valid header");
            let key: HeaderName = name.parse().map_err(|_| invalid())?;
            let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| invalid())?;
            value.set_sensitive(true);
            all.insert(key, value);
        }
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let client = build_client(&url, &[], timeout)?;
        Ok(Self { url, client, headers: all, timeout })
    }

    /// Sends a body. Returns whether the server answered with a success status.
    pub async fn send(&self, body: String) -> bool {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).timeout(self.timeout);
        request.body(body).send().await.is_ok_and(|response| response.status().is_success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_header_is_named_without_its_value() {
        let post = |url, name: &str, value| {
            JsonPostClient::new(url, &[(name.to_owned(), SecretString::new(value))], Duration::from_secs(1))
                .unwrap_err()
        };
        assert_eq!(post("http://a.example", "X-Key", "sec\nret"), "X-Key is not a valid header");
        assert_eq!(post("http://a.example", "X Key", "secret"), "X Key is not a valid header");
        assert_eq!(
            post("collector", "X-Key", "secret"),
            "collector is not a URL that begins with http:// or https://"
        );
    }
}

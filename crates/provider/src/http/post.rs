//! JSON to one address, for which nobody waits: whether it arrived is all that is told.

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
    patience: Duration,
}

impl JsonPostClient {
    /// The error is a sentence, and shows no header's value.
    pub fn new(url: &str, headers: &[(String, SecretString)], patience: Duration) -> Result<Self, String> {
        let address = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url =
            address.ok_or_else(|| format!("{url} is not an address that begins with http:// or https://"))?;
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            let wrong = || format!("{name} cannot be sent as a header");
            let key: HeaderName = name.parse().map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(value.reveal()).map_err(|_| wrong())?;
            value.set_sensitive(true);
            all.insert(key, value);
        }
        all.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let client = build_client(&url, &[], patience)?;
        Ok(Self { url, client, headers: all, patience })
    }

    /// Whether it was taken.
    pub async fn send(&self, body: String) -> bool {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).timeout(self.patience);
        request.body(body).send().await.is_ok_and(|answer| answer.status().is_success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_sent_is_named_without_its_value() {
        let post = |url, name: &str, value| {
            JsonPostClient::new(url, &[(name.to_owned(), SecretString::new(value))], Duration::from_secs(1))
                .unwrap_err()
        };
        assert_eq!(post("http://a.example", "X-Key", "sec\nret"), "X-Key cannot be sent as a header");
        assert_eq!(post("http://a.example", "X Key", "secret"), "X Key cannot be sent as a header");
        assert_eq!(
            post("collector", "X-Key", "secret"),
            "collector is not an address that begins with http:// or https://"
        );
    }
}

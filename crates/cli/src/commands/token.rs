//! `lango token`: adds, lists and revokes access tokens of the server.

use crate::{
    args::{TokenAdd, TokenCommand},
    config::Settings,
    screen,
};
use anyhow::bail;
use jiff::{Span, Timestamp, tz::TimeZone};
use server::{
    Principal,
    auth::{self, TokenRecord, TokenStore, token_store},
};
use std::io::{self, Write};

pub(crate) fn token(settings: &Settings, command: TokenCommand) -> anyhow::Result<()> {
    let tokens = TokenStore::new(settings.home.join(auth::TOKENS_FILE));
    match command {
        TokenCommand::Add(new) => add(&tokens, new),
        TokenCommand::List => list(&tokens),
        TokenCommand::Revoke { name } => Ok(tokens.revoke(&name)?),
    }
}

fn add(tokens: &TokenStore, new: TokenAdd) -> anyhow::Result<()> {
    let now = auth::unix_time();
    let expires_at = new.expires.as_deref().map(|span| expiry(span, now)).transpose()?;
    let principal = Principal { user: new.user, admin: new.admin };
    let (token, secret) = token_store::generate(&new.name, principal, now, expires_at)?;
    tokens.add(token)?;
    screen::note("the token is printed only this once:");
    writeln!(io::stdout().lock(), "{}", secret.reveal())?;
    Ok(())
}

fn list(tokens: &TokenStore) -> anyhow::Result<()> {
    let tokens = tokens.tokens()?;
    if tokens.is_empty() {
        screen::note("there are no tokens; lango token add NAME --user USER creates one");
    }
    let now = auth::unix_time();
    let longest = tokens.iter().map(|token| token.name.chars().count()).max().unwrap_or_default();
    let mut out = io::stdout().lock();
    for token in tokens.iter() {
        let name = screen::printable(&token.name);
        writeln!(out, "{name:<longest$}  {}  {}", owner_text(token), expiry_text(token, now))?;
    }
    Ok(())
}

fn owner_text(token: &TokenRecord) -> String {
    match (&token.user, token.admin) {
        (Some(user), false) => screen::printable(user),
        (Some(user), true) => format!("{}, administrator", screen::printable(user)),
        (None, _) => "administrator of all users".to_owned(),
    }
}

fn expiry_text(token: &TokenRecord, now: u64) -> String {
    let Some(end) = token.expires_at else { return "never expires".to_owned() };
    let day = i64::try_from(end).ok().and_then(|end| Timestamp::from_second(end).ok()).unwrap_or_default();
    let day = day.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M");
    if token.is_expired(now) { format!("expired {day}") } else { format!("expires {day}") }
}

/// The end of a duration such as `90d`, `12h` or `30s`, in Unix seconds.
fn expiry(span: &str, now: u64) -> anyhow::Result<u64> {
    let parsed: Option<Span> = span.parse().ok();
    let days = jiff::SpanRelativeTo::days_are_24_hours();
    let seconds = parsed.and_then(|span| span.to_duration(days).ok()).map(|time| time.as_secs());
    match seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|seconds| *seconds > 0) {
        Some(seconds) => Ok(now + seconds),
        None => bail!("--expires {span:?} is not a time like 90d, 12h or 30m"),
    }
}

#[cfg(test)]
mod tests {
    use super::expiry;

    #[test]
    fn expiry_accepts_human_readable_durations() {
        let after = |span| expiry(span, 1000).ok();
        assert_eq!(after("90d"), Some(1000 + 90 * 86_400));
        assert_eq!(after("12h"), Some(1000 + 43_200));
        assert_eq!(after("1s"), Some(1001));
        assert_eq!(
            (after("0s"), after("-1d"), after("soon"), after("90"), after("")),
            (None, None, None, None, None)
        );
    }
}

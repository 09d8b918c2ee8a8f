//! Reports of usage: sums of tokens with their cost, for people, programs and the HTTP API.
//!
//! Costs are computed when a report is made, so that a corrected price applies to the past as well.

use crate::store::{service::store_failed, session_handle::SessionHandle, usage};
use adk::{error::ServiceError, event::now, session::SessionKey};
use serde::{Deserialize, Serialize};
use session::{PageRequest, Seq, Store, TokenCounts, UsageEntry, UsageSum};
pub use session::{UsageGroup, UsageQuery};
use std::{collections::BTreeMap, sync::Arc};

/// Rows per page of a run.
const PAGE: usize = 500;

/// Prices of a million tokens, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TokenPrices {
    pub input: f64,
    pub cache_read: f64,
    pub cache_write: f64,
    /// Includes reasoning.
    pub output: f64,
}

impl TokenPrices {
    #[expect(clippy::cast_precision_loss, reason = "token counts are far below 2^52")]
    pub fn cost(&self, counts: &TokenCounts) -> f64 {
        let TokenCounts { calls: _, fresh, cache_reads, cache_writes, output, reasoning } = *counts;
        let tokens = [(fresh, self.input), (cache_reads, self.cache_read), (cache_writes, self.cache_write)];
        let input: f64 = tokens.into_iter().map(|(count, price)| count as f64 * price).sum();
        (input + (output + reasoning) as f64 * self.output) / 1e6
    }
}

/// The prices of a model by its name `provider/model`; `None` if they are unknown.
pub type PriceBook = Arc<dyn Fn(&str) -> Option<TokenPrices> + Send + Sync>;

/// Usage of one group. Dimensions that are not part of the report are `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UsageLine {
    /// As `YYYY-MM-DD`, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Empty for deleted sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub calls: u64,
    pub fresh: u64,
    pub cache_reads: u64,
    pub cache_writes: u64,
    pub output: u64,
    pub reasoning: u64,
    /// US dollars of the calls with known prices; `None` if no price is known.
    pub cost: Option<f64>,
    /// The models whose prices are unknown. Their calls are not part of the cost.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unpriced: Vec<String>,
}

impl UsageLine {
    fn new(sum: UsageSum, prices: &PriceBook) -> Self {
        let cost = prices(&sum.model).map(|prices| prices.cost(&sum.counts));
        let unpriced = if cost.is_none() { vec![sum.model.clone()] } else { Vec::new() };
        let TokenCounts { calls, fresh, cache_reads, cache_writes, output, reasoning } = sum.counts;
        let UsageSum { model, day, app, user, session, agent, counts: _ } = sum;
        let (day, model) = (day.map(format_day), Some(model));
        Self {
            day,
            app,
            user,
            session,
            agent,
            model,
            calls,
            fresh,
            cache_reads,
            cache_writes,
            output,
            reasoning,
            cost,
            unpriced,
        }
    }

    fn key(&self) -> [Option<String>; 6] {
        let Self { day, app, user, session, agent, model, .. } = self;
        [day, app, user, session, agent, model].map(Clone::clone)
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.fresh += other.fresh;
        self.cache_reads += other.cache_reads;
        self.cache_writes += other.cache_writes;
        self.output += other.output;
        self.reasoning += other.reasoning;
        self.cost = match (self.cost, other.cost) {
            (Some(sum), Some(cost)) => Some(sum + cost),
            (known, None) | (None, known) => known,
        };
        self.unpriced.extend(other.unpriced.iter().cloned());
        self.unpriced.sort();
        self.unpriced.dedup();
    }

    /// All input tokens.
    pub const fn input(&self) -> u64 {
        self.fresh + self.cache_reads + self.cache_writes
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageReport {
    /// Sorted by their dimensions.
    pub usage: Vec<UsageLine>,
    pub total: UsageLine,
}

impl UsageReport {
    /// Prices the sums. Models are told apart if `by_model` is set.
    fn new(sums: Vec<UsageSum>, by_model: bool, prices: &PriceBook) -> Self {
        let mut total = UsageLine::default();
        let mut lines: BTreeMap<[Option<String>; 6], UsageLine> = BTreeMap::new();
        for sum in sums {
            let mut line = UsageLine::new(sum, prices);
            total.add(&line);
            line.model = line.model.filter(|_| by_model);
            match lines.entry(line.key()) {
                std::collections::btree_map::Entry::Vacant(entry) => drop(entry.insert(line)),
                std::collections::btree_map::Entry::Occupied(mut entry) => entry.get_mut().add(&line),
            }
        }
        Self { usage: lines.into_values().collect(), total }
    }
}

/// The usage of the newest run of a session, of the session, and of its user today.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionUsage {
    pub turn: UsageLine,
    pub session: UsageLine,
    pub today: UsageLine,
}

/// The usage that matches a query.
pub async fn report(
    store: &dyn Store,
    query: UsageQuery,
    by_model: bool,
    prices: &PriceBook,
) -> Result<UsageReport, ServiceError> {
    Ok(UsageReport::new(store.usage(query).await.map_err(store_failed)?, by_model, prices))
}

pub async fn of_session(
    store: &Arc<dyn Store>,
    key: &SessionKey,
    prices: &PriceBook,
) -> Result<SessionUsage, ServiceError> {
    let user = UsageQuery { user: Some(key.user_id.clone()), ..UsageQuery::default() };
    let today = usage::day_of(now());
    let of_session =
        UsageQuery { app: Some(key.app_name.clone()), session: Some(key.session_id.clone()), ..user.clone() };
    let of_today = UsageQuery { from: Some(today), to: Some(today), ..user };
    let turn = newest_run(store, key).await?.into_iter();
    let turn =
        turn.map(|entry| UsageSum { model: entry.key.model, counts: entry.counts, ..UsageSum::default() });
    Ok(SessionUsage {
        turn: UsageReport::new(turn.collect(), false, prices).total,
        session: report(&**store, of_session, false, prices).await?.total,
        today: report(&**store, of_today, false, prices).await?.total,
    })
}

/// The usage of the newest run, from its rows. Attempts without an answer are not part of it.
async fn newest_run(store: &Arc<dyn Store>, key: &SessionKey) -> Result<Vec<UsageEntry>, ServiceError> {
    let handle = SessionHandle::new(store, key);
    let Some(run) = handle.runs(1).await?.into_iter().next() else { return Ok(Vec::new()) };
    let (mut entries, mut after) = (Vec::new(), Seq::START);
    loop {
        let page = PageRequest { after, limit: PAGE, max_bytes: usize::MAX };
        let rows = handle.read_run(run.number, page).await?;
        let Some(last) = rows.last() else { return Ok(entries) };
        after = last.seq;
        let mut restorer = crate::store::row::Restorer::new("");
        entries.extend(rows.iter().flat_map(|row| usage::entries(&restorer.restore(row), None)));
    }
}

/// A day as `YYYY-MM-DD`.
pub fn format_day(day: i64) -> String {
    // Years begin in March, so that the leap day is the last one.
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let date = of_year - (153 * month + 2) / 5 + 1;
    let calendar = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(calendar <= 2);
    format!("{year:04}-{calendar:02}-{date:02}")
}

/// Parses `YYYY-MM-DD`; `None` if there is no such day.
pub fn parse_day(text: &str) -> Option<i64> {
    let mut numbers = text.splitn(3, '-').map(|number| number.parse::<i64>().ok());
    let (year, month, date) = (numbers.next()??, numbers.next()??, numbers.next()??);
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) {
        return None;
    }
    let (years, shifted) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = 365 * years + years.div_euclid(4) - years.div_euclid(100) + years.div_euclid(400);
    let day = before + (153 * shifted + 2) / 5 + date - 1 - 719_468;
    // A date beyond the end of its month would be formatted as another one.
    (format_day(day) == text).then_some(day)
}

/// The dimension of a name, as in `--by` and in the parameter `by`.
pub fn group_of(name: &str) -> Option<UsageGroup> {
    match name {
        "day" => Some(UsageGroup::Day),
        "app" => Some(UsageGroup::App),
        "user" => Some(UsageGroup::User),
        "session" => Some(UsageGroup::Session),
        "agent" => Some(UsageGroup::Agent),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_formatted_and_parsed() {
        for (day, text) in [
            (0, "1970-01-01"),
            (58, "1970-02-28"),
            (59, "1970-03-01"),
            (11_016, "2000-02-29"),
            (20_776, "2026-11-19"),
        ] {
            assert_eq!(format_day(day), text);
            assert_eq!(parse_day(text), Some(day));
        }
        for text in ["", "2026", "2026-13-01", "2026-02-29", "2026-1-1", "2026-01-00", "today", "1969-12-31"]
        {
            assert_eq!(parse_day(text), None, "{text}");
        }
    }

    fn sum(model: &str, fresh: u64) -> UsageSum {
        let counts = TokenCounts { calls: 1, fresh, cache_reads: 1_000_000, ..TokenCounts::default() };
        UsageSum { model: model.to_owned(), counts, ..UsageSum::default() }
    }

    #[test]
    fn models_without_a_price_are_named_and_do_not_cost_zero() {
        let prices: PriceBook = Arc::new(|model: &str| {
            let known = TokenPrices { input: 1.0, cache_read: 0.1, cache_write: 1.25, output: 5.0 };
            (model == "p/known").then_some(known)
        });
        let report = UsageReport::new(vec![sum("p/known", 2_000_000), sum("p/new", 1)], false, &prices);
        assert_eq!(report.usage.len(), 1);
        assert_eq!((report.total.cost, report.total.unpriced), (Some(2.1), vec!["p/new".to_owned()]));
        let report = UsageReport::new(vec![sum("p/new", 1)], true, &prices);
        assert_eq!(report.total.cost, None);
        assert_eq!(report.usage[0].model.as_deref(), Some("p/new"));
    }
}

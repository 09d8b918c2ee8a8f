//! What model calls took: tokens, and money where the prices are known.

use crate::config::{Models, Prices};
use adk::event::{Event, UsageMetadata};
use std::{fmt, ops::AddAssign};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spent {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    /// Reasoning included.
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
    /// What the calls cost whose prices are known.
    pub(crate) cost: Option<f64>,
}

impl Spent {
    /// What a call took; `None` for an event that tells of none.
    pub(crate) fn of(event: &Event, models: &Models) -> Option<Self> {
        let usage = event.usage_metadata.as_ref()?;
        let origin = event.content.as_ref().and_then(|content| content.origin.as_ref());
        let prices = origin.and_then(|origin| models.get(&origin.provider, &origin.model).prices);
        let spent = Self::counted(usage);
        Some(Self { cost: prices.map(|prices| spent.priced(prices)), ..spent })
    }

    fn counted(usage: &UsageMetadata) -> Self {
        let reasoning = usage.thoughts_token_count.unwrap_or_default();
        Self {
            input: usage.prompt_token_count.unwrap_or_default(),
            cached: usage.cached_content_token_count.unwrap_or_default(),
            output: usage.candidates_token_count.unwrap_or_default() + reasoning,
            reasoning,
            cost: None,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "nobody pays for that many tokens")]
    fn priced(&self, prices: Prices) -> f64 {
        let fresh = self.input.saturating_sub(self.cached) as f64 * prices.input;
        let cached = self.cached as f64 * prices.cached.unwrap_or(prices.input);
        (fresh + cached + self.output as f64 * prices.output) / 1e6
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.input + self.output == 0
    }
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.output += other.output;
        self.reasoning += other.reasoning;
        self.cost = match (self.cost, other.cost) {
            (Some(sum), Some(cost)) => Some(sum + cost),
            (known, None) | (None, known) => known,
        };
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_it = |count: u64, what: &str| match count {
            0 => String::new(),
            count => format!(" ({count} {what})"),
        };
        let (cached, reasoning) = (of_it(self.cached, "cached"), of_it(self.reasoning, "reasoning"));
        write!(f, "{} tokens in{cached}, {} out{reasoning}", self.input, self.output)?;
        match self.cost {
            Some(cost) if cost >= 0.01 => write!(f, ", ${cost:.2}"),
            Some(cost) => write!(f, ", ${cost:.6}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(cached: Option<f64>) -> Spent {
        let usage = UsageMetadata {
            prompt_token_count: Some(1_000),
            cached_content_token_count: Some(400),
            candidates_token_count: Some(90),
            thoughts_token_count: Some(10),
            ..UsageMetadata::default()
        };
        let spent = Spent::counted(&usage);
        let cost = spent.priced(Prices { input: 1.0, cached, output: 10.0 });
        Spent { cost: Some(cost), ..spent }
    }

    #[test]
    fn cached_tokens_have_their_own_price_and_reasoning_that_of_output() {
        assert_eq!(
            spent(Some(0.1)).to_string(),
            "1000 tokens in (400 cached), 100 out (10 reasoning), $0.001640"
        );
        assert_eq!(spent(None).cost, Some(0.002));
    }

    #[test]
    fn a_sum_knows_what_is_known() {
        let mut sum = Spent { input: 5, output: 1, ..Spent::default() };
        assert_eq!(sum.to_string(), "5 tokens in, 1 out");
        for _ in 0..10 {
            sum += spent(None);
        }
        assert_eq!(sum.to_string(), "10005 tokens in (4000 cached), 1001 out (100 reasoning), $0.02");
    }
}

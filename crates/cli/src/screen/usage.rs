//! Token usage of model calls, and its cost if prices are configured.

use crate::config::{Models, Prices};
use adk::event::Event;
use bridge::store::{usage::counts_of, usage_report::TokenPrices};
use session::TokenCounts;
use std::{fmt, ops::AddAssign};

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ModelUsage {
    pub(crate) input: u64,
    pub(crate) cached: u64,
    /// Includes reasoning tokens.
    pub(crate) output: u64,
    pub(crate) reasoning: u64,
    /// The cost of the calls with known prices.
    pub(crate) cost: Option<f64>,
}

impl ModelUsage {
    /// The usage of the model call that produced the event; `None` if it has none.
    pub(crate) fn of(event: &Event, models: &Models) -> Option<Self> {
        let counts = counts_of(event)?;
        let origin = event.content.as_ref().and_then(|content| content.origin.as_ref());
        let prices = origin.and_then(|origin| models.get(&origin.provider, &origin.model).prices);
        Some(Self::new(&counts, prices))
    }

    fn new(counts: &TokenCounts, prices: Option<Prices>) -> Self {
        Self {
            input: counts.input(),
            cached: counts.cache_reads,
            output: counts.output + counts.reasoning,
            reasoning: counts.reasoning,
            cost: prices.map(|prices| TokenPrices::from(prices).cost(counts)),
        }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.input + self.output == 0
    }
}

impl AddAssign for ModelUsage {
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

impl fmt::Display for ModelUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |count: u64, what: &str| match count {
            0 => String::new(),
            count => format!(" ({count} {what})"),
        };
        let (cached, reasoning) = (share(self.cached, "cached"), share(self.reasoning, "reasoning"));
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

    fn usage(cached: Option<f64>) -> ModelUsage {
        let counts = TokenCounts {
            calls: 1,
            fresh: 600,
            cache_reads: 400,
            cache_writes: 0,
            output: 90,
            reasoning: 10,
        };
        ModelUsage::new(&counts, Some(Prices { input: 1.0, cached, cache_write: None, output: 10.0 }))
    }

    #[test]
    fn cached_tokens_use_the_cached_price_and_reasoning_the_output_price() {
        assert_eq!(
            usage(Some(0.1)).to_string(),
            "1000 tokens in (400 cached), 100 out (10 reasoning), $0.001640"
        );
        assert_eq!(usage(None).cost, Some(0.002));
    }

    #[test]
    fn usage_sum_includes_known_costs() {
        let mut sum = ModelUsage { input: 5, output: 1, ..ModelUsage::default() };
        assert_eq!(sum.to_string(), "5 tokens in, 1 out");
        for _ in 0..10 {
            sum += usage(None);
        }
        assert_eq!(sum.to_string(), "10005 tokens in (4000 cached), 1001 out (100 reasoning), $0.02");
    }
}

//! Usage: the tokens of model calls, from the events that hold them to the sums of the store.

use crate::store::row::Restorer;
use adk::{
    event::{Event, UsageMetadata},
    model::SpentTokens,
    recipe::CallRecipe,
};
use serde_json::Value;
use session::{Seq, SessionMessage, StoredMessage, TokenCounts, UncountedRow, UsageEntry, UsageKey};

/// The key of the number of input tokens that were written to the provider's prompt cache, in an event's `customMetadata`: ADK's
/// usage has no field for them.
const CACHE_WRITES: &str = "lango:cacheWriteTokens";
const SECONDS_PER_DAY: f64 = 86_400.0;

/// The day of a time, in days since 1970-01-01 in UTC.
#[expect(clippy::cast_possible_truncation, reason = "a cast of a float saturates")]
pub fn day_of(timestamp: f64) -> i64 {
    (timestamp / SECONDS_PER_DAY).floor() as i64
}

/// The tokens of the model call that an event answers; `None` if it is no answer or has no usage.
pub fn counts_of(event: &Event) -> Option<TokenCounts> {
    let usage = event.usage_metadata.as_ref()?;
    let writes = event.custom_metadata.as_ref().and_then(|metadata| metadata.get(CACHE_WRITES));
    Some(counts(usage, writes.and_then(Value::as_u64).unwrap_or_default()))
}

fn counts(usage: &UsageMetadata, cache_writes: u64) -> TokenCounts {
    let input = usage.prompt_token_count.unwrap_or_default();
    let cache_reads = usage.cached_content_token_count.unwrap_or_default().min(input);
    let cache_writes = cache_writes.min(input - cache_reads);
    TokenCounts {
        calls: 1,
        fresh: input - cache_reads - cache_writes,
        cache_reads,
        cache_writes,
        output: usage.candidates_token_count.unwrap_or_default(),
        reasoning: usage.thoughts_token_count.unwrap_or_default(),
    }
}

/// The model that answered with an event, as `provider/model`; empty if it is unknown.
pub fn model_of(event: &Event) -> String {
    let origin = event.content.as_ref().and_then(|content| content.origin.as_ref());
    match origin {
        // The origin of opaque data may have the wire format after the name.
        Some(origin) => name(origin.provider.split('+').next().unwrap_or_default(), &origin.model),
        None => event.model_version.clone().unwrap_or_default(),
    }
}

fn name(provider: &str, model: &str) -> String {
    if model.is_empty() { provider.to_owned() } else { format!("{provider}/{model}") }
}

/// The usage that an event adds to its session: that of its answer, and that of the attempts without an answer before it.
pub(crate) fn entries(event: &Event, recipe: Option<&CallRecipe>) -> Vec<UsageEntry> {
    let day = day_of(event.timestamp);
    let agent = recipe.map_or(&event.author, |recipe| &recipe.agent);
    let entry = |model: String, counts: TokenCounts| UsageEntry {
        key: UsageKey { day, agent: agent.clone(), model },
        counts,
    };
    let spent = recipe.map_or(&[][..], |recipe| &recipe.spent);
    let spent = spent.iter().map(|SpentTokens { model, usage }| entry(model.clone(), counts(usage, 0)));
    let asked = recipe.and_then(|recipe| recipe.sent.as_ref());
    let model = || asked.map_or_else(|| model_of(event), |sent| name(&sent.provider, &sent.model));
    spent.chain(counts_of(event).map(|counts| entry(model(), counts))).collect()
}

/// The usage of a row of an earlier version.
pub(crate) fn entry_of_row(row: &UncountedRow) -> Option<UsageEntry> {
    let message = SessionMessage {
        author: row.author.clone(),
        timestamp: row.timestamp,
        meta: Some(row.meta.clone()),
        ..SessionMessage::default()
    };
    let event = Restorer::new("").restore(&StoredMessage { seq: Seq(1), message });
    let key = UsageKey { day: day_of(row.timestamp), agent: event.author.clone(), model: model_of(&event) };
    Some(UsageEntry { key, counts: counts_of(&event)? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(usage: &Value, metadata: &Value) -> Event {
        serde_json::from_value(json!({
            "author": "root", "timestamp": 172_800.5, "usageMetadata": usage, "customMetadata": metadata,
            "content": {"role": "model", "parts": [{"text": "hi"}]},
        }))
        .unwrap()
    }

    #[test]
    fn input_is_split_into_fresh_tokens_cache_reads_and_cache_writes() {
        let usage = json!({"promptTokenCount": 100, "cachedContentTokenCount": 60, "candidatesTokenCount": 7,
                           "thoughtsTokenCount": 3});
        let event = answer(&usage, &json!({CACHE_WRITES: 30}));
        let expected =
            TokenCounts { calls: 1, fresh: 10, cache_reads: 60, cache_writes: 30, output: 7, reasoning: 3 };
        assert_eq!(counts_of(&event), Some(expected));
        assert_eq!(entries(&event, None)[0].key.day, 2);
    }

    #[test]
    fn counts_that_contradict_each_other_do_not_underflow() {
        let usage = json!({"promptTokenCount": 10, "cachedContentTokenCount": 60});
        let counts = counts_of(&answer(&usage, &json!({CACHE_WRITES: 30}))).unwrap();
        assert_eq!((counts.fresh, counts.cache_reads, counts.cache_writes), (0, 10, 0));
        assert_eq!(counts_of(&Event::default()), None);
    }
}

//! The model catalogue: context size, output limit, prices and capabilities of published models.
//!
//! `cargo xtask catalogue` generates it; its first lines name the source. The configuration overrides it.

/// Model, context, output, three prices and capabilities, separated by tabs.
const MODELS: &str = include_str!("catalogue/models.tsv");

/// The providers whose models other servers offer under the same name.
const PUBLISHERS: [&str; 5] = ["openai", "anthropic", "gemini", "mistral", "deepseek"];

/// What is published about a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PublishedModel {
    /// Context size in tokens.
    pub context: Option<u32>,
    /// Maximum output in tokens.
    pub output: Option<u32>,
    /// `None` if another server than the publisher's offers the model: its prices differ.
    pub prices: Option<PublishedPrices>,
    /// One letter each: a small letter for a capability that the model has, a capital for one that it does not have.
    capabilities: &'static str,
}

/// A capability of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    Tools,
    Images,
    Documents,
    Reasoning,
    ResponseSchema,
}

impl PublishedModel {
    /// Whether the model has a capability; `None` if the table does not say so. An absent statement is not a missing capability: the
    /// table has gaps, and the server knows better.
    pub fn states(&self, capability: Capability) -> Option<bool> {
        let letter = match capability {
            Capability::Tools => 't',
            Capability::Images => 'v',
            Capability::Documents => 'p',
            Capability::Reasoning => 'r',
            Capability::ResponseSchema => 's',
        };
        let is_stated = |letter: char| self.capabilities.contains(letter);
        is_stated(letter).then_some(true).or(is_stated(letter.to_ascii_uppercase()).then_some(false))
    }
}

/// Prices of a million tokens, in US dollars.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublishedPrices {
    pub input: f64,
    pub cached: Option<f64>,
    pub output: f64,
}

/// What is published about a model of a provider. Of a model that another server offers under the publisher's name, such as
/// `openai/gpt-5` or `gpt-5`, only the prices are unknown.
pub fn find(provider: &str, model: &str) -> Option<PublishedModel> {
    if let Some(found) = find_exact(&format!("{provider}/{model}")) {
        return Some(found);
    }
    let elsewhere = |name: &str| find_exact(name).map(|found| PublishedModel { prices: None, ..found });
    match model.split_once('/') {
        Some((publisher, _)) if PUBLISHERS.contains(&publisher) => elsewhere(model),
        Some(_) => None,
        None => PUBLISHERS.iter().find_map(|publisher| elsewhere(&format!("{publisher}/{model}"))),
    }
}

fn find_exact(name: &str) -> Option<PublishedModel> {
    let mut rows = MODELS.lines().filter_map(|line| line.split_once('\t'));
    let (_, fields) = rows.find(|(model, _)| *model == name)?;
    let fields: Vec<&str> = fields.split('\t').collect();
    let [context, output, input, cached, answer, capabilities] = fields[..] else { return None };
    let price = |text: &str| text.parse::<f64>().ok();
    let prices = price(input).zip(price(answer));
    Some(PublishedModel {
        context: context.parse().ok(),
        output: output.parse().ok(),
        prices: prices.map(|(input, output)| PublishedPrices { input, cached: price(cached), output }),
        capabilities,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_model_has_sizes_prices_and_capabilities() {
        let sonnet = find("anthropic", "claude-sonnet-4-5").unwrap();
        assert_eq!((sonnet.context, sonnet.output), (Some(200_000), Some(64_000)));
        assert_eq!(sonnet.prices, Some(PublishedPrices { input: 3.0, cached: Some(0.3), output: 15.0 }));
        assert_eq!(sonnet.states(Capability::Tools), Some(true));
        assert_eq!(sonnet.states(Capability::ResponseSchema), Some(true));
    }

    #[test]
    fn missing_capability_is_stated_and_a_gap_is_not() {
        let audio = find("openai", "gpt-audio").unwrap();
        assert_eq!(audio.states(Capability::Images), Some(false));
        let chat = find("openai", "gpt-3.5-turbo").unwrap();
        assert_eq!((chat.states(Capability::Tools), chat.states(Capability::Images)), (Some(true), None));
    }

    #[test]
    fn another_server_has_the_sizes_and_not_the_prices() {
        for (provider, model) in [("github", "openai/gpt-4.1-mini"), ("proxy", "gpt-4.1-mini")] {
            let found = find(provider, model).unwrap();
            assert!(found.context.is_some() && found.prices.is_none(), "{provider}/{model}: {found:?}");
        }
        assert_eq!(find("ollama", "unheard-of"), None);
        assert_eq!(find("proxy", "acme/gpt-4.1-mini"), None);
    }

    #[test]
    fn every_row_is_readable_and_the_source_is_named() {
        let (head, rows): (Vec<&str>, Vec<&str>) = MODELS.lines().partition(|line| line.starts_with('#'));
        let head = head.join(" ");
        assert!(head.contains("litellm ") && head.contains("Date: ") && head.contains("SHA-256"), "{head}");
        assert!(rows.len() > 100 && MODELS.len() < 64 << 10, "{} rows, {} bytes", rows.len(), MODELS.len());
        for row in rows {
            let name = row.split('\t').next().unwrap();
            assert!(find_exact(name).is_some(), "{row}");
        }
    }
}

//! List prices of well-known models, for definitions without prices.
//!
//! They come from `prices.txt`, which `scripts/update-prices` makes of the price file in a litellm
//! package. It is read when the first model is opened.

use std::sync::LazyLock;

use domain::model::{ModelConfig, Provider};
use domain::money::Usd;

/// Package, version and date, then a line for each identifier and vendor, sorted.
const TEXT: &str = include_str!("prices.txt");

static LIST: LazyLock<Vec<Row>> = LazyLock::new(|| TEXT.lines().filter_map(row).collect());

/// A line of the list.
struct Row {
    identifier: &'static str,
    vendor: Provider,
    prices: ListPrices,
}

/// Prices of a vendor: USD per 1,000 tokens, and for one image; `None` if the list has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListPrices {
    pub(crate) input: Option<Usd>,
    pub(crate) output: Option<Usd>,
    pub(crate) cached_input: Option<Usd>,
    pub(crate) cache_write: Option<Usd>,
    pub(crate) cache_write_1h: Option<Usd>,
    pub(crate) image: Option<Usd>,
}

impl ListPrices {
    /// Fills in the prices that a definition leaves to the list, with the prices for input and
    /// output that it gives. Those of the cache belong to the list's price of the input, that of
    /// images to no price of tokens: another price removes them.
    pub(crate) fn complete(
        &self,
        config: &mut ModelConfig,
        input: Option<Usd>,
        output: Option<Usd>,
    ) {
        if input.is_none() || input == self.input {
            // A price for an hour follows from a given price for minutes.
            if config.cache_write_price.is_none() {
                config.cache_write_1h_price = config.cache_write_1h_price.or(self.cache_write_1h);
            }
            config.cached_input_price = config.cached_input_price.or(self.cached_input);
            config.cache_write_price = config.cache_write_price.or(self.cache_write);
        }
        if input.is_none() && output.is_none() {
            config.image_price = config.image_price.or(self.image);
        }
    }
}

/// The day of the list.
pub(crate) fn as_of() -> &'static str {
    let head = TEXT.lines().next().unwrap_or_default();
    head.rsplit(' ').next().unwrap_or_default()
}

/// The list prices of a model: those of its provider, else of the vendor whose model it is.
pub(crate) fn list_price(identifier: &str, provider: Provider) -> Option<&'static ListPrices> {
    let first = LIST.partition_point(|row| row.identifier < identifier);
    let found = || LIST[first..].iter().take_while(|row| row.identifier == identifier);
    let own = found().find(|row| row.vendor == provider);
    // Azure's prices are for Azure.
    let others = || found().find(|row| row.vendor != Provider::Azure);
    own.or_else(others).map(|row| &row.prices)
}

fn row(line: &'static str) -> Option<Row> {
    let mut cells = line.split(' ');
    let (identifier, vendor) = (cells.next()?, Provider::parse(cells.next()?)?);
    let mut price = || Some(cells.next()?.parse().ok().map(Usd));
    let prices = ListPrices {
        input: price()?,
        output: price()?,
        cached_input: price()?,
        cache_write: price()?,
        cache_write_1h: price()?,
        image: price()?,
    };
    Some(Row { identifier, vendor, prices })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// USD per million tokens, as the vendors write it.
    fn million(price: Option<Usd>) -> Option<f64> {
        price.map(|price| price.times(1000).dollars())
    }

    #[test]
    fn every_line_is_read_and_sane() {
        assert_eq!(LIST.len() + 1, TEXT.lines().count());
        assert!(LIST.is_sorted_by_key(|row| (row.identifier, row.vendor.as_str())));
        for Row { identifier, prices, .. } in LIST.iter() {
            let ListPrices { input, output, cached_input, cache_write, cache_write_1h, image } =
                *prices;
            for price in [input, output, cached_input, cache_write, cache_write_1h] {
                let sane = price.is_none_or(|price| (0..=1_000_000_000).contains(&price.0));
                assert!(sane, "{identifier}: {price:?}");
            }
            assert!(image.is_none_or(|price| (1..=5_000_000_000).contains(&price.0)));
            assert!(image.is_some() || (input.is_some() && output.is_some()), "{identifier}");
            assert!(cached_input.is_none() || cached_input <= input, "{identifier}");
            assert!(cache_write_1h.is_none() || cache_write_1h >= cache_write, "{identifier}");
        }
        let (name, rest) = TEXT.lines().next().unwrap().split_once(' ').unwrap();
        let (version, date) = rest.split_once(' ').unwrap();
        assert_eq!((name, date), ("litellm", as_of()));
        assert!(version.starts_with(|c: char| c.is_ascii_digit()) && date.len() == 10);
    }

    #[test]
    fn known_models_cost_what_their_vendors_say() {
        use Provider::{Anthropic, Azure, Bedrock, Gemini, Openai};
        let all = |identifier, provider| {
            let prices = list_price(identifier, provider).unwrap();
            let ListPrices { input, output, cached_input, cache_write, cache_write_1h, .. } =
                *prices;
            [input, output, cached_input, cache_write, cache_write_1h].map(million)
        };
        let claude = [3.0, 15.0, 0.3, 3.75, 6.0].map(Some);
        assert_eq!(all("claude-sonnet-4-5", Anthropic), claude);
        assert_eq!(all("anthropic.claude-sonnet-4-5-20250929-v1:0", Bedrock), claude);
        assert_eq!(all("claude-opus-4-1", Anthropic), [15.0, 75.0, 1.5, 18.75, 30.0].map(Some));
        assert_eq!(all("gpt-4o-mini", Openai), [Some(0.15), Some(0.6), Some(0.075), None, None]);
        assert_eq!(all("gpt-4o", Azure), all("gpt-4o", Openai), "where Azure has no other price");
        assert_eq!(all("text-embedding-3-large", Azure)[0], Some(0.143));
        assert_eq!(all("text-embedding-3-large", Openai)[0], Some(0.13));
        assert_eq!(all("gemini-2.5-flash", Gemini), [Some(0.3), Some(2.5), Some(0.03), None, None]);
        assert_eq!(all("text-embedding-3-small", Openai)[..2], [Some(0.02), Some(0.0)]);
        assert_eq!(list_price("gpt-4o", Openai).unwrap().input, Some(Usd(2_500_000)));
        let canvas = list_price("amazon.nova-canvas-v1:0", Bedrock).unwrap();
        assert_eq!(canvas.image, Some(Usd(60_000_000)));
        assert_eq!(list_price("my-own", Openai), None);
        assert_eq!(list_price("", Openai), None);
    }

    #[test]
    fn every_claude_has_the_vendors_ratios() {
        let mut seen = 0;
        for Row { identifier, vendor, prices } in LIST.iter() {
            if *vendor != Provider::Anthropic {
                continue;
            }
            let input = prices.input.unwrap().0;
            assert_eq!(prices.cache_write, Some(Usd(input / 4 * 5)), "{identifier}");
            assert_eq!(prices.cache_write_1h, Some(Usd(2 * input)), "{identifier}");
            assert!(prices.cached_input <= Some(Usd(input / 10)), "{identifier}");
            seen += 1;
        }
        assert!(seen > 10);
    }

    #[test]
    fn a_price_of_ones_own_wins_over_the_list() {
        let list = list_price("claude-sonnet-4-5", Provider::Anthropic).unwrap();
        let completed = |config: ModelConfig, input| {
            let mut config = config;
            list.complete(&mut config, input, None);
            [config.cached_input_price, config.cache_write_price, config.cache_write_1h_price]
                .map(million)
        };
        let listed = [0.3, 3.75, 6.0].map(Some);
        assert_eq!(completed(ModelConfig::default(), None), listed);
        assert_eq!(completed(ModelConfig::default(), list.input), listed);
        assert_eq!(completed(ModelConfig::default(), Some(Usd(1))), [None; 3]);
        let own = ModelConfig { cache_write_price: Some(Usd(1_000_000)), ..ModelConfig::default() };
        assert_eq!(completed(own, None), [Some(0.3), Some(1.0), None]);
    }
}

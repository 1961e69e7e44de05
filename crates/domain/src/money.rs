//! Money: whole nano-dollars inside, JSON numbers outside. No float is ever summed.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::fees::Factor;
use crate::usage::{TokenKind, Usage};

const NANO: f64 = 1e9;

/// An amount in nano-dollars, at most nine billion dollars either way: larger amounts are cut to that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Usd(pub i64);

impl Usd {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// The largest amount. As a number of dollars it is exact, so that it can be read back.
    pub const MOST: Self = Self(9_000_000_000 * 1_000_000_000);

    /// An amount of nano-dollars, clamped to the range.
    fn within(nanos: i128) -> Self {
        let most = i128::from(Self::MOST.0);
        Self(nanos.clamp(-most, most) as i64)
    }

    /// The amount multiplied by `count`.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self::within(i128::from(self.0) * i128::from(count))
    }

    /// Whole dollars and nano-dollars. A database sums them apart: a sum of nano-dollars could be more
    /// than its integers hold, which is an error there.
    #[must_use]
    pub fn of_parts(dollars: i64, nanos: i64) -> Self {
        Self::within(i128::from(dollars) * 1_000_000_000 + i128::from(nanos))
    }

    /// The amount as a number of dollars, for answers only.
    pub fn dollars(self) -> f64 {
        self.0 as f64 / NANO
    }

    /// Rounds a number of dollars to the nearest nano-dollar. `None` when it is no number or
    /// out of range. Up to two million dollars [`Usd::dollars`] gives back the very number.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        let nanos = (dollars * NANO).round();
        (nanos.abs() <= Self::MOST.0 as f64).then_some(Self(nanos as i64))
    }
}

/// The exact amount as messages show it, with at least two decimals: `$5.00`, `$0.018`.
impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DECIMALS: usize = 9;
        let nanos = self.0.unsigned_abs();
        let sign = if self.0 < 0 { "-" } else { "" };
        let (dollars, mut rest) = (nanos / 1_000_000_000, nanos % 1_000_000_000);
        let mut decimals = DECIMALS;
        while decimals > 2 && rest % 10 == 0 {
            rest /= 10;
            decimals -= 1;
        }
        f.pad(&format!("{sign}${dollars}.{rest:0decimals$}"))
    }
}

impl Add for Usd {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::within(i128::from(self.0) + i128::from(other.0))
    }
}

impl AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Usd {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::within(i128::from(self.0) - i128::from(other.0))
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Add::add)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.dollars())
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let dollars = f64::deserialize(deserializer)?;
        Ok(Self::within((dollars * NANO).round() as i128))
    }
}

/// The price of one kind of token, per 1,000.
pub type Price = Usd;

/// The prices one call was computed from, USD per 1,000 tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prices {
    /// Prompt tokens.
    pub input: Price,
    /// Completion tokens, reasoning included.
    pub output: Price,
    /// Prompt tokens read from the provider's cache.
    pub cached_input: Price,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: Price,
    /// Prompt tokens written to the provider's cache for an hour.
    pub cache_write_1h: Price,
}

/// The prices of cached tokens as far as they are known, USD per 1,000 tokens.
#[derive(Clone, Copy, Debug, Default)]
pub struct CachePrices {
    /// Prompt tokens read from the provider's cache.
    pub read: Option<Price>,
    /// Prompt tokens written to it.
    pub write: Option<Price>,
    /// Prompt tokens written to it for an hour.
    pub write_1h: Option<Price>,
}

/// The price of a cache write for an hour if none is given: 1.6 times one for five minutes, if that
/// has a price of its own, else twice the input.
fn hour_price(input: Price, cache_write: Option<Price>) -> Price {
    match cache_write {
        Some(minutes) => Usd::within(divide_half_even(i128::from(minutes.0) * 8, 5)),
        None => input.times(2),
    }
}

impl Prices {
    /// The prices of a call. Cached tokens without a price of their own cost as much as others.
    pub fn new(input: Price, output: Price, cache: CachePrices) -> Self {
        Self {
            input,
            output,
            cached_input: cache.read.unwrap_or(input),
            cache_write: cache.write.unwrap_or(input),
            cache_write_1h: cache.write_1h.unwrap_or_else(|| hour_price(input, cache.write)),
        }
    }

    /// The cost of a usage: multiplied in integers, divided once, half to even.
    pub fn cost(&self, usage: &Usage) -> Usd {
        let plain = usage.prompt.saturating_sub(usage.cached).saturating_sub(usage.cache_write);
        let hour = usage.cache_write_1h.min(usage.cache_write);
        let parts = [
            (plain, self.input),
            (usage.cached, self.cached_input),
            (usage.cache_write - hour, self.cache_write),
            (hour, self.cache_write_1h),
            (usage.completion, self.output),
        ];
        let product =
            parts.iter().map(|(tokens, price)| i128::from(*tokens) * i128::from(price.0)).sum();
        Usd::within(divide_half_even(product, 1000))
    }

    /// The cost of each kind of token, in the order of [`TokenKind::ALL`]. Their sum is the
    /// [`Prices::cost`], to the nano-dollar: each is the difference of two rounded sums.
    pub fn cost_by_kind(&self, usage: &Usage) -> [(TokenKind, Usd); TokenKind::ALL.len()] {
        let hour = usage.cache_write_1h.min(usage.cache_write);
        let product = |tokens: u64, price: Price| i128::from(tokens) * i128::from(price.0);
        let (mut products, mut before) = (0, Usd::ZERO);
        usage.by_kind().map(|(kind, tokens)| {
            if tokens == 0 {
                return (kind, Usd::ZERO);
            }
            products += match kind {
                TokenKind::Prompt => product(tokens, self.input),
                TokenKind::Cached => product(tokens, self.cached_input),
                TokenKind::CacheWrite => {
                    product(tokens - hour, self.cache_write) + product(hour, self.cache_write_1h)
                }
                TokenKind::Completion | TokenKind::Reasoning => product(tokens, self.output),
            };
            let sum = Usd::within(divide_half_even(products, 1000));
            let cost = sum - before;
            before = sum;
            (kind, cost)
        })
    }

    /// The prices multiplied by a factor.
    #[must_use]
    pub fn raised(self, factor: Factor) -> Self {
        let raised = |price: Price| {
            Usd::within(divide_half_even(i128::from(price.0) * i128::from(factor.0), 100))
        };
        Self {
            input: raised(self.input),
            output: raised(self.output),
            cached_input: raised(self.cached_input),
            cache_write: raised(self.cache_write),
            cache_write_1h: raised(self.cache_write_1h),
        }
    }

    /// Whether tokens are free of charge.
    pub fn is_free(&self) -> bool {
        *self == Self::default()
    }
}

fn divide_half_even(value: i128, by: i128) -> i128 {
    let (quotient, rest) = (value.div_euclid(by), value.rem_euclid(by));
    let up = rest * 2 > by || (rest * 2 == by && quotient % 2 != 0);
    quotient + i128::from(up)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rounds_half_to_even_once() {
        for (product, expected) in [(1500, 2), (2500, 2), (2501, 3), (499, 0), (-1500, -2)] {
            assert_eq!(divide_half_even(product, 1000), expected, "{product}");
        }
    }

    #[test]
    fn nothing_is_more_than_can_be_told() {
        let dear = Prices { input: Usd::MOST, ..Prices::default() };
        let usage = Usage { prompt: u64::MAX, ..Usage::default() };
        let most = dear.cost(&usage);
        for amount in [most, most + most, most.times(u64::MAX), Usd::of_parts(i64::MAX, i64::MAX)] {
            assert_eq!(amount, Usd::MOST);
        }
        assert_eq!(Usd::ZERO - most - most, Usd(-Usd::MOST.0));
        let text = serde_json::to_string(&most).unwrap();
        assert_eq!(serde_json::from_str::<Usd>(&text).unwrap(), most);
        assert_eq!(Usd::of_parts(-2, -500_000_000), Usd(-2_500_000_000));
    }

    #[test]
    fn messages_show_amounts_with_two_decimals_or_more() {
        for (nanos, shown) in [
            (0, "$0.00"),
            (5_000_000_000, "$5.00"),
            (500_000_000, "$0.50"),
            (18_000_000, "$0.018"),
            (1_010_000_000, "$1.01"),
            (1, "$0.000000001"),
            (1_234_567_890_123_456_789, "$1234567890.123456789"),
            (10_000_000_000, "$10.00"),
            (-1_500_000_000, "-$1.50"),
            (-1, "-$0.000000001"),
            (Usd::MOST.0, "$9000000000.00"),
            (i64::MIN, "-$9223372036.854775808"),
        ] {
            assert_eq!(Usd(nanos).to_string(), shown);
        }
    }

    #[test]
    fn cached_tokens_are_not_paid_twice() {
        let prices = Prices {
            input: Usd(1_000_000),
            output: Usd(2_000_000),
            cached_input: Usd(100_000),
            cache_write: Usd(1_250_000),
            ..Prices::default()
        };
        let usage = Usage {
            prompt: 1000,
            cached: 400,
            cache_write: 100,
            completion: 50,
            reasoning: 20,
            ..Usage::default()
        };
        assert_eq!(prices.cost(&usage), Usd(500_000 + 40_000 + 125_000 + 100_000));
    }

    proptest! {
        #[test]
        fn json_gives_back_what_it_took(nanos in -2_000_000_000_000_000i64..2_000_000_000_000_000) {
            let text = serde_json::to_string(&Usd(nanos)).unwrap();
            prop_assert_eq!(serde_json::from_str::<Usd>(&text).unwrap(), Usd(nanos));
        }

        #[test]
        fn the_costs_of_the_kinds_are_the_cost(
            [prompt, cached, cache_write, cache_write_1h, completion, reasoning] in
                proptest::array::uniform6(0u64..100_000),
            prices in proptest::array::uniform5(0i64..1_000_000_000),
        ) {
            let [input, output, cached_input, write, write_1h] = prices.map(Usd);
            let prices = Prices {
                input, output, cached_input, cache_write: write, cache_write_1h: write_1h,
            };
            let usage = Usage {
                prompt, cached, cache_write, cache_write_1h, completion, reasoning,
                ..Usage::default()
            };
            let costs = prices.cost_by_kind(&usage);
            prop_assert_eq!(costs.iter().map(|(_, cost)| *cost).sum::<Usd>(), prices.cost(&usage));
            prop_assert!(costs.iter().all(|(_, cost)| *cost >= Usd::ZERO));
        }
    }

    #[test]
    fn an_hour_in_the_cache_has_a_price_of_its_own() {
        for (input, minutes, hour) in
            [(1000, Some(1250), 2000), (1000, None, 2000), (1000, Some(0), 0), (0, Some(3), 5)]
        {
            assert_eq!(hour_price(Usd(input), minutes.map(Usd)), Usd(hour));
        }
        assert_eq!(hour_price(Usd::MOST, Some(Usd::MOST)), Usd::MOST);
        let prices = Prices {
            input: Usd(1000),
            cached_input: Usd(100),
            cache_write: Usd(1250),
            cache_write_1h: Usd(2000),
            output: Usd(0),
        };
        let usage = Usage { cache_write: 600, cache_write_1h: 400, ..Usage::of_prompt(1000) };
        assert_eq!(prices.cost(&usage), Usd(400 + 250 + 800));
    }
}

//! Charges of a vendor beside the plain prices of tokens: uses of its own tools, and factors on all
//! prices of a call.

use std::ops::{Add, Index, IndexMut};

use crate::money::{Prices, Usd};
use crate::tier::words;

/// More uses of a tool than one call can have: a larger count is wrong.
pub const MOST_USES: u64 = 10_000;

words!(
    /// A tool of a vendor's that costs money beside tokens.
    VendorTool {
        /// A search in the web.
        WebSearch = "web_search",
        /// A search in files that the vendor keeps.
        FileSearch = "file_search",
        /// Five minutes of a container that runs code.
        CodeExecution = "code_execution",
    }
);

words!(
    /// A way to be served that changes all prices of a call.
    Surcharge {
        /// Faster answers of Anthropic's: `speed`.
        Fast = "fast",
        /// Faster answers of OpenAI's: `service_tier`.
        Priority = "priority",
        /// An answer that is made in the United States: `inference_geo`.
        Us = "us",
    }
);

/// A value for each tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerTool<T>([T; VendorTool::ALL.len()]);

impl<T> Index<VendorTool> for PerTool<T> {
    type Output = T;
    fn index(&self, tool: VendorTool) -> &T {
        &self.0[tool as usize]
    }
}

impl<T> IndexMut<VendorTool> for PerTool<T> {
    fn index_mut(&mut self, tool: VendorTool) -> &mut T {
        &mut self.0[tool as usize]
    }
}

/// A value for each surcharge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerSurcharge<T>([T; Surcharge::ALL.len()]);

impl<T> Index<Surcharge> for PerSurcharge<T> {
    type Output = T;
    fn index(&self, surcharge: Surcharge) -> &T {
        &self.0[surcharge as usize]
    }
}

impl<T> IndexMut<Surcharge> for PerSurcharge<T> {
    fn index_mut(&mut self, surcharge: Surcharge) -> &mut T {
        &mut self.0[surcharge as usize]
    }
}

/// A factor on prices, in hundredths: 100 changes nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Factor(pub u32);

impl Default for Factor {
    fn default() -> Self {
        Self(100)
    }
}

/// The charges of a vendor beside its plain prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeePrices {
    /// USD for one use of each tool.
    pub tools: PerTool<Usd>,
    /// The factors on all prices of a call.
    pub factors: PerSurcharge<Factor>,
}

impl FeePrices {
    /// The cost of uses of tools.
    pub fn cost(&self, uses: &PerTool<u32>) -> Usd {
        VendorTool::ALL.iter().map(|tool| self.tools[*tool].times(u64::from(uses[*tool]))).sum()
    }

    /// The prices of a call with those surcharges that apply to it.
    #[must_use]
    pub fn raised(&self, prices: Prices, applies: impl Fn(Surcharge) -> bool) -> Prices {
        let factors = Surcharge::ALL.iter().filter(|surcharge| applies(**surcharge));
        factors.fold(prices, |prices, surcharge| prices.raised(self.factors[*surcharge]))
    }
}

/// The report of a provider on a call, beside its tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extras {
    /// The uses of each tool.
    pub uses: PerTool<u32>,
    /// Whether each surcharge applies; `None` if the report leaves that out.
    pub surcharges: PerSurcharge<Option<bool>>,
}

impl Extras {
    /// Nothing but tokens.
    pub const NONE: Self = Self {
        uses: PerTool([0; VendorTool::ALL.len()]),
        surcharges: PerSurcharge([None; Surcharge::ALL.len()]),
    };

    /// Whether anything was used that costs money beside tokens.
    pub fn has_uses(&self) -> bool {
        VendorTool::ALL.iter().any(|tool| self.uses[*tool] > 0)
    }

    /// This report updated by a later one of the same call: each counts everything so far.
    #[must_use]
    pub fn followed_by(mut self, later: Self) -> Self {
        for tool in VendorTool::ALL {
            self.uses[*tool] = self.uses[*tool].max(later.uses[*tool]);
        }
        for surcharge in Surcharge::ALL {
            let known = self.surcharges[*surcharge];
            self.surcharges[*surcharge] = later.surcharges[*surcharge].or(known);
        }
        self
    }
}

/// The extras of two requests together. A surcharge on one of them is taken for one on both.
impl Add for Extras {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for tool in VendorTool::ALL {
            self.uses[*tool] = self.uses[*tool].saturating_add(other.uses[*tool]);
        }
        for surcharge in Surcharge::ALL {
            self.surcharges[*surcharge] =
                self.surcharges[*surcharge].max(other.surcharges[*surcharge]);
        }
        self
    }
}

/// The charges that a request allows its vendor, beside the tokens of its prompt and answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Charges {
    /// The tools that the vendor runs within the call.
    pub tools: Vec<ToolCharge>,
    /// The surcharges that may apply: those that it asks for, and those that it leaves to the vendor.
    pub surcharges: PerSurcharge<bool>,
    /// The most uses of all tools together, if one bound holds for all; it may be lowered as theirs.
    pub rounds: Option<u64>,
}

/// A tool that a vendor runs within a call. Its results become tokens of the prompt, which is read
/// again after each round of tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCharge {
    /// Its place in the request, and its type: `tools[0] ('web_search_20250305')`.
    pub at: String,
    /// The tool that is charged for each use, beside tokens.
    pub tool: Option<VendorTool>,
    /// How often it may be used at most.
    pub uses: UseBound,
    /// The most tokens that one use adds to the prompt; `None` if nothing bounds them.
    pub tokens: Option<u64>,
}

impl ToolCharge {
    /// Whether another tool is charged in the same way, wherever it stands.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.tool, self.uses, self.tokens) == (other.tool, other.uses, other.tokens)
    }
}

/// A bound on the uses of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UseBound {
    /// The request's own, or the one that is added to it; it may be lowered.
    Of(u64),
    /// So many, all before the vendor reads their results: the prompt is read once. It cannot be lowered.
    OnePass(u64),
    /// The vendor has none.
    Missing,
    /// The price of a use is not known, so no bound helps.
    Unpriced,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn surcharges_raise_every_price_and_add_up() {
        let prices = Prices {
            input: Usd(1000),
            output: Usd(5001),
            cached_input: Usd(100),
            cache_write: Usd(1250),
            cache_write_1h: Usd(2000),
        };
        let mut fees = FeePrices::default();
        assert_eq!(fees.raised(prices, |_| true), prices, "without factors");
        fees.factors[Surcharge::Fast] = Factor(600);
        fees.factors[Surcharge::Us] = Factor(110);
        let fast = fees.raised(prices, |surcharge| surcharge == Surcharge::Fast);
        assert_eq!(
            (fast.input, fast.output, fast.cache_write_1h),
            (Usd(6000), Usd(30006), Usd(12000))
        );
        let both = fees.raised(prices, |surcharge| surcharge != Surcharge::Priority);
        assert_eq!((both.input, both.cached_input), (Usd(6600), Usd(660)));
        let dear = Prices { input: Usd::MOST, ..prices };
        assert_eq!(fees.raised(dear, |_| true).input, Usd::MOST);
    }

    #[test]
    fn reports_never_take_uses_back() {
        let mut early = Extras::default();
        early.uses[VendorTool::WebSearch] = 2;
        early.surcharges[Surcharge::Fast] = Some(true);
        let last = early.followed_by(Extras::default());
        assert_eq!(last, early);
        let mut fees = FeePrices::default();
        fees.tools[VendorTool::WebSearch] = Usd(10_000_000);
        assert_eq!(fees.cost(&last.uses), Usd(20_000_000));
        assert_eq!((last + last).uses[VendorTool::WebSearch], 4);
    }
}

//! Numbers as people read them.

use std::fmt;

use domain::money::Usd;
use domain::thousands::grouped;

/// An amount in US dollars: two decimals from a dollar on, four from a cent on, six below it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Money(pub Usd);

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.0.dollars();
        let sign = if dollars < 0.0 { "-" } else { "" };
        let amount = dollars.abs();
        if amount == 0.0 {
            f.write_str("$0")
        } else if amount < 0.000_001 {
            write!(f, "{sign}< $0.000001")
        } else if amount < 0.01 {
            write!(f, "{sign}${amount:.6}")
        } else if amount < 1.0 {
            write!(f, "{sign}${amount:.4}")
        } else {
            let cents = format!("{amount:.2}");
            let (whole, cents) = cents.split_once('.').unwrap_or((&cents, "00"));
            write!(f, "{sign}${}.{cents}", grouped(whole))
        }
    }
}

/// A number with separators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count(pub i64);

impl From<u64> for Count {
    /// The highest that there is stands for those that do not fit.
    fn from(number: u64) -> Self {
        Self(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        write!(f, "{sign}{}", grouped(self.0.unsigned_abs()))
    }
}

/// A time in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Duration(pub f64);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            millis if millis < 10.0 => write!(f, "{millis:.1} ms"),
            millis if millis < 1_000.0 => write!(f, "{millis:.0} ms"),
            millis if millis < 60_000.0 => write!(f, "{:.2} s", millis / 1_000.0),
            millis if millis < 3_600_000.0 => write!(f, "{:.1} min", millis / 60_000.0),
            millis => write!(f, "{:.1} h", millis / 3_600_000.0),
        }
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes(pub usize);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as f64;
        match self.0 {
            0..1_024 => write!(f, "{} bytes", self.0),
            1_024..1_048_576 => write!(f, "{:.1} KiB", bytes / 1_024.0),
            _ => write!(f, "{:.1} MiB", bytes / 1_048_576.0),
        }
    }
}

/// A share, 0 to 1, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Percent(pub f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        if percent != 0.0 && percent.abs() < 10.0 {
            write!(f, "{percent:.1} %")
        } else {
            write!(f, "{percent:.0} %")
        }
    }
}

/// A price per 1,000,000 tokens, from USD per 1,000.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rate(pub f64);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.4}", self.0 * 1_000.0);
        let text = text.trim_end_matches('0').trim_end_matches('.');
        let (whole, part) = text.split_at(text.find('.').unwrap_or(text.len()));
        write!(f, "${}{part}", grouped(whole))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_read_at_a_glance() {
        for (nanos, shown) in [
            (0, "$0"),
            (1, "< $0.000001"),
            (1_500, "$0.000002"),
            (123_000_000, "$0.1230"),
            (9_900_000, "$0.009900"),
            (1_000_000_000, "$1.00"),
            (1_234_567_891_000_000, "$1,234,567.89"),
            (-2_500_000_000, "-$2.50"),
        ] {
            assert_eq!(Money(Usd(nanos)).to_string(), shown);
        }
    }

    #[test]
    fn numbers_have_separators() {
        for (number, shown) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (-12_345, "-12,345"),
            (i64::MIN, "-9,223,372,036,854,775,808"),
        ] {
            assert_eq!(Count(number).to_string(), shown);
        }
    }

    #[test]
    fn units_follow_the_size() {
        let durations =
            [0.25, 9.96, 250.4, 1_500.0, 90_000.0, 7_200_000.0].map(|ms| Duration(ms).to_string());
        assert_eq!(durations, ["0.2 ms", "10.0 ms", "250 ms", "1.50 s", "1.5 min", "2.0 h"]);
        let sizes = [5, 2_048, 3 << 20].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(sizes, ["5 bytes", "2.0 KiB", "3.0 MiB"]);
        let shares = [0.0, 0.014, 0.5, 1.0].map(|share| Percent(share).to_string());
        assert_eq!(shares, ["0 %", "1.4 %", "50 %", "100 %"]);
        let rates = [0.00015, 0.003, 1.0, 1.2345, 0.0].map(|rate| Rate(rate).to_string());
        assert_eq!(rates, ["$0.15", "$3", "$1,000", "$1,234.5", "$0"]);
    }
}

//! A search for the dearest text: `cargo bench -p checks -- --search [SECONDS] [SEED]`.
//!
//! A text repeats a unit of a few tokens, each a few times. The tokens are the detectors' own words, and what stands
//! between them in files and in disguises. All single tokens are measured, then pairs and triples of the dearest, then
//! the dearest units change a little at a time, and keep what makes them dearer.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Instant;

use crate::measure::micros;
use crate::ways::{WAYS, Way, Ways};

/// How long the texts are that are compared, and those that show whether the cost grows faster than the text.
const LENGTH: usize = 8_000;
const LENGTHS: [usize; 3] = [4_000, 100_000, 1_000_000];
/// How many units are kept to be changed, and how many are reported.
const KEPT: usize = 60;
const REPORTED: usize = 10;
/// How many tokens a unit has at most.
const MAX_TOKENS: usize = 10;
/// How often a token follows itself.
const REPEATS: [usize; 12] = [1, 1, 1, 1, 1, 1, 2, 3, 8, 30, 120, 500];

/// The surroundings of words: separators, quotes, brackets, parts of files, runs, and what no reader sees.
#[rustfmt::skip]
const SIGNS: &[&str] = &[
    " ", "  ", "\n", "\t", "\r\n", ":", ": ", "=", " = ", "==", ":=", "=>", "->", "→", "::", "://", "/", "//", "\\", "\\\\", "\\n", "\\t",
    "\\u000a", "%0A", "%3D", "&#61;", "\u{1b}[31m", "@", "$", "${", "{{", "#", "!", "?", "*", "**", "_", "__", "-", "--", "-----", ".", "..", "...",
    "…", ",", ", ", ";", "|", "||", "~", "+", "^", "&", "%", "(", ")", "[", "]", "{", "}", "<", ">", "</", "<td>", "</td><td>", "<b>", "<!--",
    "\"", "'", "`", "\"\"", "\": \"", "\",\"", "“", "”", "„", "«", "（", "）", "。", "，", "、",
    "a", "x", "e", "Z", "Ab", "aB3", "0", "1", "7", "9", "12", "123", "4111", "1234567890", "12345678", "0x", "0f", "deadbeef", "ff", "11/11/11",
    "1990-01-01", "01.02.2003", "12:30", "1.2.3.4", "::1", "fe80:", "00:1a:", "+49", "+1", "(030)", "tel", "Mr. ", "John ", "Smith ", "Main Street ",
    "12 Main ", "born ", "1 May ", "jane@", "a@b.c", "@example", ".org", "www.", "https://", "http://", "postgres://", "user:", "a:b@", "?sig=", "&key=",
    "Bearer ", "@Bearer ", "Basic ", "dXNlcjpwYXNz", "eyJhbGciOiJIUzI1NiJ9", ".eyJ", "MII", "LS0tLS1CRUdJTi", "T3BlbkFJ", "AAAA", "aWdub3Jl", "cmV2ZWFs",
    "-----BEGIN PRIVATE KEY-----\n", "-----END PRIVATE KEY-----\n", "-----BEGIN", "-----END", "{\"a\":", "[[", "]]", "null,", "true", "is ", " is ",
    "the ", "for the ", "to ", "and ", "of ", " for ", "password for the ", "default", "value", "\"value\": \"", "name", "string ", "id", "_id",
    "\u{200b}", "\u{2060}", "\u{ad}", "\u{301}", "\u{336}", "\u{feff}", "\u{202e}", "\u{e0069}", "\u{fe0f}", "\u{20e3}", "ｉｇｎ", "１２", "іgn", "ο", "é", "ß", "İ", "ﬁ",
    "你", "忽略", "密码", "密码是", "指示", "ー", "パスワード", "비밀번호", "ᄒ\u{1161}", "ไทย", "१२३", "٣", "𝟏", "𝐢", "ⓘ", "🏴", "👍", "\u{0}", "\u{7f}", "\u{a0}", "\u{3000}",
    "i g n o r e ", "1gn0r3 ", "vtaber ", "erongi ", "%69", "\\x69", "\\u0069", "&#105;", "69", "49 ", "rot13 ", "<|im_start|>", "###", "```", "[INST]",
    "q3Zk9", "T1bW", "w3t8k5m27h1zQ0pL4nB9", "Kd92mQx1Lp", "9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1", "5d0e7a91c3f84b26a8e1d97c402b6f35", "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "1BvBMSEYstWetqTFn5Au4m4GFg7xJaNVN3", "bc1q", "DE89 3704 0044 ", "GB82WEST", "123-45-6789 ", "12.345.678-9 ", "4111 1111 1111 1111 ", "AB 12 34 56 C",
];

/// Draws numbers; the same from the same seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % most.max(1)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// The repeated unit of a text: tokens by their number, and how often each follows itself.
type Unit = Vec<(usize, usize)>;

/// A unit with its cost: nanoseconds a byte.
#[derive(Clone)]
struct Tried {
    unit: Unit,
    cost: f64,
}

struct Search {
    tokens: Vec<String>,
    ways: Ways,
    draw: Draw,
    seen: HashSet<Unit>,
    best: Vec<Tried>,
    tried: usize,
}

/// Searches for so many seconds, and prints the dearest.
pub fn run(seconds: u64, seed: u64) {
    let mut tokens: Vec<String> = SIGNS.iter().map(|sign| (*sign).to_owned()).collect();
    tokens.extend(checks::search_vocabulary());
    tokens.sort_unstable();
    tokens.dedup();
    let mut search = Search {
        tokens,
        ways: Ways::new(),
        draw: Draw(seed.wrapping_mul(0x9e37_79b9) | 1),
        seen: HashSet::new(),
        best: Vec::new(),
        tried: 0,
    };
    let began = Instant::now();
    let is_over = |share: f64| began.elapsed().as_secs_f64() > seconds as f64 * share;
    search.singles();
    while !is_over(0.35) {
        search.draw_new();
    }
    while !is_over(1.0) {
        search.change();
    }
    search.report();
}

/// Prints what texts cost that repeat the given ones.
pub fn repeat(units: &[String]) {
    let ways = Ways::new();
    for unit in units {
        let text = |bytes: usize| unit.repeat(bytes.div_ceil(unit.len().max(1)));
        let texts = LENGTHS.map(text);
        print!("{unit:?}:");
        for way in WAYS {
            let [four, hundred, thousand] =
                [0, 1, 2].map(|n| ways.cost(way, &texts[n], [9, 5, 2][n]));
            print!(" {} {four:.0} / {hundred:.0} / {thousand:.0};", way.name());
        }
        println!();
    }
}

impl Search {
    /// A text of about so many bytes that repeats a unit.
    fn text(&self, unit: &Unit, bytes: usize) -> String {
        let mut once = String::new();
        for &(token, times) in unit {
            for _ in 0..times.min(1 + 8 * LENGTH / self.tokens[token].len().max(1)) {
                once.push_str(&self.tokens[token]);
            }
        }
        let mut text = String::with_capacity(bytes + once.len());
        while text.len() < bytes && !once.is_empty() {
            text.push_str(&once);
        }
        text.truncate(text.floor_char_boundary(bytes));
        text
    }

    /// Measures a unit that was not yet, and keeps it if it is among the dearest.
    fn try_out(&mut self, unit: Unit) {
        if unit.is_empty() || unit.len() > MAX_TOKENS || !self.seen.insert(unit.clone()) {
            return;
        }
        self.tried += 1;
        let text = self.text(&unit, LENGTH);
        let cost = self.ways.cost(Way::Input, &text, 1);
        let worth = self.best.len() < KEPT || self.best.last().is_some_and(|last| cost > last.cost);
        if !worth || text.is_empty() {
            return;
        }
        // Others that use the machine make a text look dear: once more.
        let cost = self.ways.cost(Way::Input, &text, 3).min(cost);
        let family = |unit: &Unit| {
            let mut tokens: Vec<usize> = unit.iter().map(|token| token.0).collect();
            tokens.sort_unstable();
            tokens.dedup();
            tokens
        };
        // The dearest of the units with the same tokens stands for all, so that there is room for others.
        let own = family(&unit);
        if let Some(same) = self.best.iter().position(|other| family(&other.unit) == own) {
            if self.best[same].cost >= cost {
                return;
            }
            self.best.remove(same);
        }
        let at = self.best.partition_point(|other| other.cost >= cost);
        self.best.insert(at, Tried { unit, cost });
        self.best.truncate(KEPT);
    }

    fn singles(&mut self) {
        for token in 0..self.tokens.len() {
            self.try_out(vec![(token, 1)]);
        }
        for token in 0..self.tokens.len() {
            let sign = ["=", " ", ":", "\"", "_"][token % 5];
            if let Some(sign) = self.tokens.iter().position(|other| other == sign) {
                self.try_out(vec![(token, 1), (sign, 1)]);
            }
        }
    }

    /// A unit of two to five tokens, some of them of those that are dear.
    fn draw_new(&mut self) {
        let count = 2 + self.draw.below(4);
        let unit = (0..count).map(|_| self.token()).collect();
        self.try_out(unit);
    }

    fn token(&mut self) -> (usize, usize) {
        let times = self.draw.one(&REPEATS);
        let from_best = self.draw.below(3) > 0 && !self.best.is_empty();
        if from_best {
            let unit = self.draw.below(self.best.len());
            let at = self.draw.below(self.best[unit].unit.len());
            return (self.best[unit].unit[at].0, times);
        }
        (self.draw.below(self.tokens.len()), times)
    }

    /// Changes one of the dearest units a little, or joins two.
    fn change(&mut self) {
        let (first, second) = (self.draw.below(self.best.len()), self.draw.below(self.best.len()));
        // The dearer ones more often.
        let mut unit = self.best[first.min(second)].unit.clone();
        for _ in 0..=self.draw.below(2) {
            let at = self.draw.below(unit.len() + 1);
            let token = self.token();
            match self.draw.below(6) {
                0 | 1 => unit.insert(at, token),
                2 if at < unit.len() && unit.len() > 1 => drop(unit.remove(at)),
                3 if at < unit.len() => unit[at] = token,
                4 if at < unit.len() => unit[at].1 = token.1,
                _ => {
                    let other = &self.best[second].unit;
                    let from = self.draw.below(other.len());
                    unit.extend_from_slice(&other[from..]);
                    unit.truncate(MAX_TOKENS);
                }
            }
        }
        self.try_out(unit);
    }

    fn report(&self) {
        // Once more, and with what longer texts cost.
        let mut best: Vec<([f64; 3], &Unit)> = Vec::new();
        for Tried { unit, .. } in self.best.iter().take(2 * REPORTED) {
            let texts = LENGTHS.map(|bytes| self.text(unit, bytes));
            best.push((
                [0, 1, 2].map(|n| self.ways.cost(Way::Input, &texts[n], [40, 5, 2][n])),
                unit,
            ));
        }
        let most = |costs: &[f64; 3]| costs.iter().copied().fold(0.0, f64::max);
        best.sort_by(|a, b| most(&b.0).total_cmp(&most(&a.0)));
        println!(
            "{} units of {} tokens tried; ns a byte, of 100 KB where nothing else is said\n",
            self.tried,
            self.tokens.len()
        );
        let others = || WAYS.into_iter().filter(|way| *way != Way::Input);
        let names: Vec<&str> = others().map(Way::name).collect();
        println!(
            "| repeated | input, 4 KB | 100 KB | 1 MB | {} |\n|---|---|---|---|{}",
            names.join(" | "),
            "---|".repeat(names.len())
        );
        for ([four, hundred, thousand], unit) in best.iter().take(REPORTED) {
            let spelled = self.spelled(unit);
            let mut row = format!("| `{spelled}` | {four:.0} | {hundred:.0} | {thousand:.0} |");
            let text = self.text(unit, LENGTHS[1]);
            for way in others() {
                let _ = write!(row, " {:.0} |", self.ways.cost(way, &text, 2));
            }
            println!("{row}");
        }
    }

    /// A unit as a reader can repeat it.
    fn spelled(&self, unit: &Unit) -> String {
        let token = |&(token, times): &(usize, usize)| {
            let text: String = self.tokens[token].escape_debug().collect();
            let text = text.replace('|', "\\|").replace('`', "\\u{60}");
            if times == 1 { text } else { format!("({text})×{times}") }
        };
        unit.iter().map(token).collect()
    }
}

/// Nanoseconds a byte of the quickest of a few runs.
pub fn quickest(text: &str, times: usize, mut work: impl FnMut()) -> f64 {
    let runs = (0..times).map(|_| micros(&mut work));
    runs.fold(f64::MAX, f64::min) * 1e3 / text.len().max(1) as f64
}

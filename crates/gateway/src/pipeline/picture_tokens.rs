//! The tokens of pictures in a prompt: by their width and height, as the vendor of the model counts
//! them. Only the head of a picture is decoded.
//!
//! The rules are those of the vendors' manuals ("Images and vision" of OpenAI's, "Vision" of
//! Anthropic's, "Understand and count tokens" of Google's), checked against measured counts (data set
//! JOHNISKING/image-token-cost, November 2026).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::conversation::Prompt;
use domain::model::{Model, Provider};
use serde_json::Value;

use crate::pipeline::picture_size;

/// The tokens of a picture for a model that is not known.
const USUAL: u64 = 4_096;
/// The beginning of a picture that is decoded, in base64: a multiple of four.
const HEAD: usize = 256 * 1024;
/// More pixels in one direction than any picture has that a vendor takes.
const LONGEST_SIDE: u64 = 65_535;

/// The tokens of all pictures in a prompt, for a model if it is known. One whose size is not known
/// counts as the largest.
pub(crate) fn of(prompt: &Prompt, model: Option<&Model>) -> u64 {
    let parts = prompt.messages.iter().flat_map(|message| message.body.parts());
    let pictures = parts.filter_map(|part| part.get("image_url"));
    pictures.map(|picture| of_picture(picture, model)).sum()
}

fn of_picture(picture: &Value, model: Option<&Model>) -> u64 {
    let Some(model) = model else { return USUAL };
    let url = picture.as_str().or_else(|| picture.get("url").and_then(Value::as_str));
    let is_small = picture.get("detail").is_some_and(|detail| detail == "low");
    Family::of(model).tokens(url.and_then(size), is_small)
}

/// The size of a picture in a `data:` URL.
fn size(url: &str) -> Option<(u64, u64)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    head.strip_suffix(";base64")?;
    let data = data.as_bytes();
    // A part of it has no padding that could be wrong.
    let (head, is_part) = data.get(..HEAD).map_or((data, false), |head| (head, true));
    let bytes = STANDARD.decode(head).ok()?;
    let (width, height) = picture_size::of(&bytes, is_part)?;
    let is_sane = |side| (1..=LONGEST_SIDE).contains(&side);
    (is_sane(width) && is_sane(height)).then_some((width, height))
}

/// A way to count the tokens of a picture.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Family {
    /// Squares of 28 pixels, up to a bound.
    Claude { most: u64 },
    /// Tiles, each of 258 tokens.
    GeminiTiles,
    /// About the same for every picture.
    GeminiFixed,
    /// A basis, and tiles of 512 pixels after the picture was made smaller.
    Tiles { basis: u64, tile: u64 },
    /// Squares of 32 pixels, up to a bound, each of so many hundredths of a token.
    Patches { hundredths: u64, most: u64 },
    /// A model of OpenAI's that is not known.
    UnknownGpt,
    /// A server of one's own.
    Unknown,
}

/// Most squares of a picture that a smaller model of OpenAI's looks at.
const FEW_PATCHES: u64 = 1_536;

impl Family {
    fn of(model: &Model) -> Self {
        let name = model.upstream_name().to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        if has(&["claude"]) || model.provider == Provider::Anthropic {
            let is_older = has(&[
                "claude-2", "claude-3", "haiku-4", "sonnet-4", "opus-4-1", "opus-4-2", "opus-4-5",
                "opus-4-6",
            ]);
            return Self::Claude { most: if is_older { 1_640 } else { 4_784 } };
        }
        if has(&["gemini-1", "gemini-2"]) {
            return Self::GeminiTiles;
        }
        if has(&["gemini"]) || model.provider == Provider::Gemini {
            return Self::GeminiFixed;
        }
        let patches = |hundredths, most| Self::Patches { hundredths, most };
        // The more special name comes first.
        let table = [
            ("gpt-4o-mini", Self::Tiles { basis: 2_833, tile: 5_667 }),
            ("gpt-4.1-mini", patches(162, FEW_PATCHES)),
            ("gpt-4.1-nano", patches(246, FEW_PATCHES)),
            ("gpt-5-mini", patches(162, FEW_PATCHES)),
            ("gpt-5-nano", patches(246, FEW_PATCHES)),
            ("o4-mini", patches(172, FEW_PATCHES)),
            ("gpt-4o", Self::Tiles { basis: 85, tile: 170 }),
            ("gpt-4.1", Self::Tiles { basis: 85, tile: 170 }),
            ("gpt-4.5", Self::Tiles { basis: 85, tile: 170 }),
            ("gpt-4-", Self::Tiles { basis: 85, tile: 170 }),
            ("gpt-5.5", patches(120, 10_000)),
            ("gpt-6", patches(120, u64::MAX)),
            ("computer-use", Self::Tiles { basis: 65, tile: 129 }),
        ];
        if let Some((_, family)) = table.iter().find(|(word, _)| name.contains(word)) {
            return *family;
        }
        match name.as_str() {
            "gpt-5" | "gpt-5-chat-latest" => Self::Tiles { basis: 70, tile: 140 },
            "o1" | "o1-pro" | "o3" => Self::Tiles { basis: 75, tile: 150 },
            _ if has(&["gpt-"]) || matches!(model.provider, Provider::Openai | Provider::Azure) => {
                Self::UnknownGpt
            }
            _ => Self::Unknown,
        }
    }

    /// The most tokens of a picture. `is_small`: the caller asks for few details.
    fn tokens(self, size: Option<(u64, u64)>, is_small: bool) -> u64 {
        let squares = |of: u64, most: u64| {
            size.map_or(most, |(width, height)| {
                width.div_ceil(of).saturating_mul(height.div_ceil(of)).min(most)
            })
        };
        match self {
            Self::Claude { most } => squares(28, most),
            Self::GeminiTiles => size.map_or(16 * 258, google_tiles),
            // The finest of its resolutions.
            Self::GeminiFixed => 2_240,
            Self::Tiles { basis, .. } if is_small => basis,
            Self::Tiles { basis, tile } => basis + tile * size.map_or(8, tiles),
            Self::Patches { hundredths, most } => {
                // 60 million pixels, if the size is not known.
                let patches = size.map_or(most.min(60_000), |_| squares(32, most));
                patches.saturating_mul(hundredths).div_ceil(100)
            }
            Self::UnknownGpt => {
                let known = [
                    Self::Tiles { basis: 2_833, tile: 5_667 },
                    Self::Patches { hundredths: 246, most: FEW_PATCHES },
                    Self::Patches { hundredths: 120, most: u64::MAX },
                ];
                known.map(|family| family.tokens(size, false)).into_iter().max().unwrap_or(USUAL)
            }
            // Models of the Qwen family have the smallest squares.
            Self::Unknown => squares(28, 16_384).max(USUAL),
        }
    }
}

/// The tiles of 512 pixels of a picture, after it was made to fit into 2,048 pixels, and its shorter
/// side into 768.
fn tiles((width, height): (u64, u64)) -> u64 {
    let (long, short) = (width.max(height), width.min(height));
    // In hundredths of a pixel, rounded up.
    let (mut long, mut short) = (long * 100, short * 100);
    if long > 204_800 {
        short = (short * 204_800).div_ceil(long);
        long = 204_800;
    }
    if short > 76_800 {
        long = (long * 76_800).div_ceil(short);
        short = 76_800;
    }
    long.div_ceil(51_200) * short.div_ceil(51_200)
}

/// The tokens of a picture in tiles, as Google cuts them.
fn google_tiles((width, height): (u64, u64)) -> u64 {
    if width <= 384 && height <= 384 {
        return 258;
    }
    let tile = (width.min(height) * 2 / 3).clamp(256, 768);
    (width.div_ceil(tile) * height.div_ceil(tile)).min(16) * 258
}

#[cfg(test)]
#[path = "picture_tokens_tests.rs"]
mod tests;

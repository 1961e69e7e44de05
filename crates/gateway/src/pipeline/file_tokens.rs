//! About the tokens of the files in a prompt, by their decoded sizes, and of a PDF by its pages too.
//!
//! Vendors charge a PDF by its pages, each for its text and, with most of them, for its picture.
//! Anthropic names 1,500 to 3,000 tokens a page ("PDF support" of its manual), Gemini 258 to 560
//! ("Document understanding"). One page of text was measured at 2,115 to 2,481 tokens with Claude and
//! 560 with Gemini, a scanned one at 1,600 (data set JOHNISKING/pdf-token-cost, October 2026). The
//! page of a manual without pictures takes 7 to 8 KiB (GNU libtasn1: 36 pages, 263 kB), one with
//! pictures or scans a multiple of that.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use checks::{FileKind, file_kind};
use domain::conversation::{Body, Prompt};
use serde_json::Value;

use crate::pipeline::pdf_pages::{self, Pages};

/// The size of a page, and its tokens: about, and at most.
const PAGE_BYTES: u64 = 16 * 1024;
const PAGE_TOKENS: u64 = 2_000;
const SMALL_PAGE_BYTES: u64 = 8 * 1024;
const MOST_PAGE_TOKENS: u64 = 3_000;
/// The most pages that a vendor takes: 100 or 600 at Anthropic, 1,000 at Google.
const MOST_PAGES: u64 = 1_000;
/// The most tokens that a model of any vendor reads, if nothing is known of it.
pub(super) const LARGEST_WINDOW: u64 = 2_000_000;
/// The part of a file in which the mark of a PDF may stand, in bytes.
const PDF_HEAD: usize = 1_536;
/// Speech as MP3 takes some 16,000 bytes a second; OpenAI charges 10 tokens for it, Google 32.
const AUDIO_BYTES_PER_TOKEN: u64 = 1_000;
/// The fewest bytes of a second in formats of a steady rate: 8,000 bits are the least of MP3, and of
/// the codecs in WAV and AIFF few have less than 32,000.
const STEADY_SECOND_BYTES: u64 = 1_000;
/// The most tokens of a second: Google charges 32, OpenAI 10.
const MOST_SECOND_TOKENS: u64 = 40;
/// English text takes about so many.
const TEXT_BYTES_PER_TOKEN: u64 = 4;

/// The beginning of every PDF, in base64.
const PDF_MAGIC: &str = "JVBERi0";
/// The beginnings of MP3 (`ID3`, or its first frame), in base64.
const MP3_MAGIC: [&str; 5] = ["SUQz", "//s", "//t", "//u", "//v"];
/// The base64 of the head of a WAV up to its sample rate, in characters.
const WAV_HEAD: usize = 40;
/// The fewest samples of a second of speech.
const LEAST_SAMPLE_RATE: u32 = 8_000;

/// About the tokens of the files of a prompt. Those that are no text fit into the model's context
/// window, if that is known: providers refuse what does not.
pub(crate) fn about(prompt: &Prompt, context_window: Option<u64>) -> u64 {
    let (mut texts, mut others) = (0, 0);
    each(prompt, |file| match file.kind {
        Kind::Text => texts += file.size().div_ceil(TEXT_BYTES_PER_TOKEN),
        Kind::Audio => others += file.size().div_ceil(AUDIO_BYTES_PER_TOKEN),
        Kind::Pdf | Kind::Other => others += file.pages() * PAGE_TOKENS,
    });
    texts + others.min(context_window.unwrap_or(u64::MAX))
}

/// About the tokens of the files of a prompt that safety reads no text of.
pub(super) fn about_unread(prompt: &Prompt, context_window: Option<u64>) -> u64 {
    let mut texts = 0;
    each(prompt, |file| {
        if matches!(file.kind, Kind::Text) {
            texts += file.size().div_ceil(TEXT_BYTES_PER_TOKEN);
        }
    });
    about(prompt, context_window).saturating_sub(texts)
}

/// The most tokens that PDFs in a value take beyond one for each byte of it: small files, and those with
/// many pages.
pub(super) fn beyond_bytes(value: &Value) -> u64 {
    let mut beyond = 0;
    each_in("", value, &mut |file| beyond += file.beyond_bytes());
    beyond
}

/// The PDFs and the recordings of a steady rate in a prompt: the bytes of their strings, and about the
/// most tokens that they take. Other recordings may hold hours of silence in few bytes.
///
/// A file counts as one only if a server that reads it as anything else would find no text in it:
/// its type and its beginning are those of its kind, and its bytes are none of a text.
pub(super) fn measured(prompt: &Prompt, context_window: Option<u64>) -> (u64, u64) {
    let (mut bytes, mut most) = (0, 0);
    each(prompt, |file| {
        let is_measured = file.is_pdf() || file.is_steady();
        if is_measured && file_kind(file.raw, file.is_bare()) == FileKind::Binary {
            bytes += file.raw.len() as u64;
            most += file.most();
        } else {
            most += file.beyond_bytes();
        }
    });
    (bytes, most.min(context_window.unwrap_or(LARGEST_WINDOW)))
}

#[derive(Clone, Copy)]
enum Kind {
    Pdf,
    Text,
    Audio,
    Other,
}

/// A file in a string.
struct File<'a> {
    kind: Kind,
    /// The string.
    raw: &'a str,
    /// Its bytes, in base64.
    base64: &'a str,
}

impl<'a> File<'a> {
    /// The file of a `data:` URL in base64.
    fn of_url(raw: &'a str) -> Option<Self> {
        let (head, base64) = raw.strip_prefix("data:")?.split_once(',')?;
        let media = head.strip_suffix(";base64")?.split(';').next().unwrap_or_default();
        let kind = match media {
            "application/pdf" => Kind::Pdf,
            _ if is_text(media) => Kind::Text,
            _ if media.starts_with("audio/") => Kind::Audio,
            _ => Kind::Other,
        };
        Some(Self { kind, raw, base64 })
    }

    /// The bytes of the file.
    fn size(&self) -> u64 {
        self.base64.len() as u64 / 4 * 3
    }

    /// Whether a server may read it as a PDF, whatever its type: those search the beginning for the mark.
    fn may_be_pdf(&self) -> bool {
        let head = pdf_pages::decoded(self.base64, PDF_HEAD);
        memchr::memmem::find(&head, b"%PDF-").is_some()
    }

    /// About its pages.
    fn pages(&self) -> u64 {
        let by_size = self.size().div_ceil(PAGE_BYTES);
        match if self.may_be_pdf() { pdf_pages::count(self.base64) } else { Pages::Missing } {
            Pages::Missing | Pages::Unsure(0) => by_size,
            Pages::AtMost(pages) | Pages::Unsure(pages) => pages,
        }
    }

    /// The most tokens that it takes as a PDF beyond one for each byte.
    fn beyond_bytes(&self) -> u64 {
        if !self.may_be_pdf() {
            return 0;
        }
        self.most().saturating_sub(self.raw.len() as u64)
    }

    fn is_pdf(&self) -> bool {
        matches!(self.kind, Kind::Pdf) && self.base64.starts_with(PDF_MAGIC)
    }

    /// Whether it is a recording whose bytes give its length: MP3 or WAV by its beginning.
    fn is_steady(&self) -> bool {
        let is_mp3 = || MP3_MAGIC.iter().any(|magic| self.base64.starts_with(magic));
        matches!(self.kind, Kind::Audio) && (is_mp3() || self.is_wav())
    }

    /// Whether it is a WAV with a sample rate of speech: at a lower one few bytes take long.
    fn is_wav(&self) -> bool {
        let head = self.base64.get(..WAV_HEAD).and_then(|head| STANDARD.decode(head).ok());
        let Some(head) = head.filter(|head| head.get(8..16) == Some(b"WAVEfmt ")) else {
            return false;
        };
        let rate = head.get(24..28).and_then(|rate| rate.try_into().ok()).map(u32::from_le_bytes);
        head.starts_with(b"RIFF") && rate.is_some_and(|rate| rate >= LEAST_SAMPLE_RATE)
    }

    /// Whether its string is base64 alone.
    fn is_bare(&self) -> bool {
        self.raw.len() == self.base64.len()
    }

    /// About the most tokens that it takes as a PDF, or as a recording.
    fn most(&self) -> u64 {
        match self.kind {
            Kind::Audio if !self.may_be_pdf() => {
                self.size().div_ceil(STEADY_SECOND_BYTES) * MOST_SECOND_TOKENS
            }
            Kind::Audio | Kind::Pdf | Kind::Text | Kind::Other => self.most_as_pdf(),
        }
    }

    fn most_as_pdf(&self) -> u64 {
        let by_size = self.size().div_ceil(SMALL_PAGE_BYTES);
        let pages = match pdf_pages::count(self.base64) {
            Pages::Missing => 0,
            Pages::AtMost(pages) => pages,
            Pages::Unsure(_) => MOST_PAGES,
        };
        by_size.max(pages) * MOST_PAGE_TOKENS
    }
}

/// Whether a type is one of text.
fn is_text(media: &str) -> bool {
    media.starts_with("text/")
        || ["json", "xml", "yaml", "javascript"].iter().any(|format| media.ends_with(format))
}

/// Calls `see` with the files in the parts of all messages.
fn each<'a>(prompt: &'a Prompt, mut see: impl FnMut(File<'a>)) {
    for message in &prompt.messages {
        if let Body::Parts(parts) = &message.body {
            for part in parts {
                each_in("", part, &mut see);
            }
        }
    }
}

fn each_in<'a>(name: &str, value: &'a Value, see: &mut impl FnMut(File<'a>)) {
    match value {
        Value::String(raw) => File::of_url(raw).into_iter().for_each(see),
        Value::Array(items) => items.iter().for_each(|item| each_in(name, item, see)),
        Value::Object(members) => {
            for (member, value) in members {
                match (member.as_str(), value) {
                    // Texts and images are counted by themselves.
                    ("type" | "text" | "image_url", _) => {}
                    ("data", Value::String(raw)) if name == "input_audio" => {
                        see(File { kind: Kind::Audio, raw, base64: raw });
                    }
                    (member, value) => each_in(member, value, see),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{of_parts, pdf};

    fn file(url: &str) -> Value {
        json!({"type": "file", "file": {"filename": "a.pdf", "file_data": url}})
    }

    #[test]
    fn a_pdf_counts_by_its_pages() {
        for (bytes, tokens, most) in [
            (1, 2_000, 3_000),
            (16_000, 2_000, 6_000),
            (160_000, 20_000, 60_000),
            (1_000_000, 124_000, 369_000),
        ] {
            let prompt = of_parts(vec![pdf(bytes)]);
            assert_eq!(about(&prompt, None), tokens, "{bytes}");
            assert_eq!(about_unread(&prompt, None), tokens, "{bytes}");
            assert_eq!(measured(&prompt, None).1, most, "{bytes}");
            assert!(measured(&prompt, None).0 >= bytes as u64 / 3 * 4, "{bytes}");
        }
        let two = of_parts(vec![pdf(160_000), pdf(160_000)]);
        assert_eq!((about(&two, None), measured(&two, None).1), (40_000, 120_000));
        assert_eq!((about(&two, Some(30_000)), measured(&two, Some(100_000)).1), (30_000, 100_000));
        let flat =
            of_parts(vec![json!({"type": "input_file", "file_data": pdf(1)["file"]["file_data"]})]);
        assert_eq!(about(&flat, None), 2_000, "without the member around it");
    }

    #[test]
    fn every_kind_of_file_counts() {
        let url = |media: &str| file(&format!("data:{media};base64,{}", "QUFB".repeat(10_000)));
        for (part, tokens, unread) in [
            (url("text/csv"), 7_500, 0),
            (url("application/json"), 7_500, 0),
            (url("application/vnd.ms-excel"), 4_000, 4_000),
            (url("audio/mpeg"), 30, 30),
            (
                json!({"type": "input_audio", "input_audio": {"data": "QUFB".repeat(10_000), "format": "mp3"}}),
                30,
                30,
            ),
            (json!({"type": "text", "text": "data:application/pdf;base64,JVBERi0x"}), 0, 0),
            (
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}),
                0,
                0,
            ),
        ] {
            let prompt = of_parts(vec![part.clone()]);
            assert_eq!(about(&prompt, None), tokens, "{part:.60}");
            assert_eq!(about_unread(&prompt, None), unread, "{part:.60}");
        }
    }

    #[test]
    fn a_recording_counts_by_its_seconds() {
        let wav = |rate: u32, bytes: usize| {
            let mut file = b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0".to_vec();
            file.extend(rate.to_le_bytes());
            file.extend((0..bytes).map(|at| (at * 89 % 251) as u8 | 0x80));
            STANDARD.encode(file)
        };
        let mp3 = [[0xff_u8, 0xfb, 0x90].as_slice(), &[0xaa; 89_997]].concat();
        let part = |data: &str| {
            of_parts(vec![json!({"type": "input_audio",
                "input_audio": {"data": data, "format": "wav"}})])
        };
        let url = |data: &str| of_parts(vec![file(&format!("data:audio/wav;base64,{data}"))]);
        for (data, most) in [
            (wav(16_000, 89_972), 90 * 40),
            (wav(8_000, 900), 40),
            (STANDARD.encode(mp3), 90 * 40),
            (wav(100, 89_972), 0),
            (STANDARD.encode([b"OggS".as_slice(), &[0xaa; 90_000]].concat()), 0),
            ("VGhlIHF1aWNrIGJyb3duIGZveA==".repeat(100), 0),
        ] {
            for prompt in [part(&data), url(&data)] {
                assert_eq!(measured(&prompt, None).1, most, "{data:.40}");
                assert_eq!(measured(&prompt, Some(1_000)).1, most.min(1_000), "{data:.40}");
            }
        }
    }

    /// Whatever only claims to be a PDF may be read as a text by some server.
    #[test]
    fn a_decoy_is_no_pdf() {
        let words = "VGhlIHF1aWNrIGJyb3duIGZveA==";
        for url in [
            format!("data:application/pdf;base64,{words}"),
            format!("data:application/pdf;base64,{PDF_MAGIC}xLjcK{}", "d29yZHMg".repeat(1_000)),
            format!("data:text/plain;base64,{PDF_MAGIC}xLjcK{}", "gP3A".repeat(1_000)),
            format!("data:application/pdf,{PDF_MAGIC}{}", "gP3A".repeat(1_000)),
            format!(
                "data:application/pdf;base64,{PDF_MAGIC}xLjcK{} and words",
                "gP3A".repeat(1_000)
            ),
        ] {
            assert_eq!(measured(&of_parts(vec![file(&url)]), None), (0, 0), "{url:.60}");
        }
    }
}

//! Images: `generateContent` of a model that answers with them.

use serde_json::json;

use crate::adapter::images::{GeneratedImages, ImageGenerator, ImageRequest, parse_size};
use crate::adapter::request::Outgoing;
use crate::error::{Error, ErrorDetails};
use crate::vendors::gemini::url;
use crate::vendors::gemini::wire::{Generated, image};

/// The shapes that Google's models generate, as width and height.
#[rustfmt::skip]
const SHAPES: [(u32, u32); 10] =
    [(1, 1), (2, 3), (3, 2), (3, 4), (4, 3), (4, 5), (5, 4), (9, 16), (16, 9), (21, 9)];
/// Largest difference from the requested shape: 1792x1024 is 16:9.
const TOLERANCE: f64 = 0.05;

pub(super) struct Images;

impl ImageGenerator for Images {
    /// One request an image: a model generates one at a time.
    fn requests(&self, ask: &ImageRequest<'_>) -> Result<Vec<Outgoing>, Error> {
        if let Some(quality) = ask.quality.filter(|quality| *quality != "auto") {
            return Err(Error::lacking(ask.model, format_args!("quality {quality}")));
        }
        let url = url(ask.model, "generateContent")?;
        let mut config = json!({"responseModalities": ["TEXT", "IMAGE"]});
        if let Some(shape) = shape(ask)? {
            config["imageConfig"] = json!({"aspectRatio": shape});
        }
        let request = json!({
            "contents": [{"role": "user", "parts": [{"text": ask.prompt}]}],
            "generationConfig": config,
        });
        let body = request.to_string().into_bytes();
        let one = |_| Outgoing { url: url.clone(), body: body.clone() };
        Ok((0..ask.count).map(one).collect())
    }

    fn read(&self, body: &[u8]) -> Result<GeneratedImages, Error> {
        let mut response = Generated::read(body)?;
        let usage = response.usage();
        let urls = images(&mut response).map_err(|error| error.having_used(usage))?;
        Ok(GeneratedImages { urls, upstream_model: response.model_version, usage })
    }
}

/// The images of an answer, at least one.
fn images(response: &mut Generated) -> Result<Vec<String>, Error> {
    let mut urls = Vec::new();
    if let Some(mut candidate) = response.candidate() {
        urls.extend(candidate.take_parts().iter().filter_map(image));
        if urls.is_empty() {
            if let Some(word) = candidate.filter() {
                return Err(blocked(format!("The provider blocked the image: {word}")));
            }
            candidate.finish(false, false)?;
        }
    } else if let Some(reason) = response.blocked() {
        return Err(blocked(reason));
    }
    if urls.is_empty() {
        return Err(Error::malformed("it holds no image"));
    }
    Ok(urls)
}

/// Creates the error for a refused prompt, with a status of 400 as other providers answer.
fn blocked(reason: String) -> Error {
    Error::status(400, ErrorDetails { message: Some(reason), ..ErrorDetails::default() }, None)
}

/// Returns the aspect ratio to ask for; `None` for a square, which models generate by default, also those
/// without ratios.
fn shape(ask: &ImageRequest<'_>) -> Result<Option<String>, Error> {
    if matches!(ask.size, "" | "auto") {
        return Ok(None);
    }
    let ratio = |(width, height): (u32, u32)| f64::from(width) / f64::from(height);
    let known = parse_size(ask.size).and_then(|wanted| {
        let off = |shape| (ratio(shape) / ratio(wanted) - 1.0).abs();
        let nearest = SHAPES.into_iter().min_by(|one, other| off(*one).total_cmp(&off(*other)))?;
        (off(nearest) <= TOLERANCE).then_some(nearest)
    });
    match known {
        Some((width, height)) if width == height => Ok(None),
        Some((width, height)) => Ok(Some(format!("{width}:{height}"))),
        None => {
            let size: String = ask.size.chars().take(20).collect();
            Err(Error::lacking(ask.model, format_args!("size {size}")))
        }
    }
}

#[cfg(test)]
#[path = "images_tests.rs"]
mod tests;

//! Images: the request, its result, and the interface of a vendor that makes them.

use domain::model::Model;
use domain::trace_context::CallerTrace;
use domain::usage::Usage;

use crate::adapter::request::Outgoing;
use crate::error::Error;

/// An image to make.
#[derive(Clone, Copy, Debug)]
pub struct ImageRequest<'a> {
    /// The model to call.
    pub model: &'a Model,
    /// The description of the image.
    pub prompt: &'a str,
    /// Width and height in pixels, as in `1024x1024`.
    pub size: &'a str,
    /// The quality, in the provider's own words; `None` leaves it to the provider.
    pub quality: Option<&'a str>,
    /// Number of images.
    pub count: u64,
    /// The trace that the call belongs to; `None` sends none.
    pub trace: Option<&'a CallerTrace>,
}

/// Images, as URLs: addresses, or `data:` URLs if the provider sent the bytes.
#[derive(Debug, Default, PartialEq)]
pub struct GeneratedImages {
    /// One URL an image.
    pub urls: Vec<String>,
    /// The name the provider gave the model.
    pub upstream_model: Option<String>,
    /// The usage, if the provider reported it.
    pub usage: Option<Usage>,
}

/// One vendor's way to make images.
pub(crate) trait ImageGenerator: Send + Sync {
    /// Returns the requests; their answers are joined in order.
    fn requests(&self, ask: &ImageRequest<'_>) -> Result<Vec<Outgoing>, Error>;

    /// Reads the images of one answer.
    fn read(&self, body: &[u8]) -> Result<GeneratedImages, Error>;
}

/// Parses the width and height of a size such as `1024x1024`, in pixels, neither of them zero.
pub fn parse_size(size: &str) -> Option<(u32, u32)> {
    let side = |text: &str| text.parse().ok().filter(|side| *side > 0);
    let (width, height) = size.split_once('x')?;
    Some((side(width)?, side(height)?))
}

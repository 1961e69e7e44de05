//! The model registry.

use askama::Template;

use crate::format::Rate;
use crate::frame::Frame;
use crate::markup;
use crate::pages::paging::Pages;

/// A model.
#[derive(Clone, Debug)]
pub struct ModelRow {
    /// Its number.
    pub id: i64,
    /// Its name.
    pub name: String,
    /// The identifier that callers pass.
    pub identifier: String,
    /// Its wire format.
    pub provider: &'static str,
    /// Its address; `None` for the vendor's own.
    pub base_url: Option<String>,
    /// Whether it is public.
    pub is_public: bool,
    /// Its region.
    pub region: String,
    /// Prices of prompt and completion tokens.
    pub prices: Option<(Rate, Rate)>,
    /// The day of the vendors' list that a price is from; `None` if the prices are its own.
    pub listed: Option<&'static str>,
    /// The tiers that are sent to it.
    pub tiers: Vec<&'static str>,
    /// Warnings.
    pub warnings: Vec<String>,
}

/// The models of a project.
#[derive(Debug, Template)]
#[template(path = "models.html")]
pub struct ModelsPage {
    /// The frame.
    pub frame: Frame,
    /// The models.
    pub rows: Vec<ModelRow>,
    /// The other pages of them.
    pub pages: Pages,
    /// The address of the whole list as a file.
    pub file: String,
}

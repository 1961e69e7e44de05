//! Lists of which a page shows so many rows.

/// The pages beside that of a list.
#[derive(Clone, Debug, Default)]
pub struct Pages {
    /// The address of the first page; `None` if that is the one that is shown.
    pub first: Option<String>,
    /// The address of the next page.
    pub next: Option<String>,
    /// The place of the page that is shown, as a query; empty at the beginning of the list.
    pub kept: String,
    /// Whether the page is behind the last row: those that it had are gone.
    pub is_beyond: bool,
}

impl Pages {
    /// The address of a form that shows this page of the list again.
    pub(crate) fn keep(&self, href: &str) -> String {
        if self.kept.is_empty() {
            return href.to_owned();
        }
        let mark = if href.contains('?') { '&' } else { '?' };
        format!("{href}{mark}{}", self.kept)
    }
}

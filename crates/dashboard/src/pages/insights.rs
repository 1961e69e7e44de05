//! Possible savings, and changes.

use askama::Template;
use domain::time::Timestamp;

use crate::format::{Count, Money};
use crate::frame::Frame;
use crate::markup;

/// An insight.
#[derive(Clone, Debug)]
pub struct InsightCard {
    /// Its number.
    pub id: i64,
    /// Its title.
    pub title: String,
    /// Its description.
    pub description: &'static str,
    /// The savings of following it; `None` if it is about something else.
    pub savings: Option<Savings>,
    /// When it became active.
    pub since: Timestamp,
    /// The numbers that it was computed from, as JSON.
    pub data: String,
}

/// The savings of a cheaper model.
#[derive(Clone, Copy, Debug)]
pub enum Savings {
    /// As much in a month.
    Monthly(Money),
    /// The calls of less than a day do not tell.
    NotKnownYet,
}

/// The drift of a model: how its answers have changed since the period before.
#[derive(Clone, Debug)]
pub struct DriftRow {
    /// The model.
    pub model: String,
    /// Its answers in the period and in the one before.
    pub samples: (Count, Count),
    /// The population stability indices of length, refusals, latency and language.
    pub indices: [f64; 4],
    /// Whether one of them is above the limit.
    pub is_flagged: bool,
}

impl DriftRow {
    fn shown(&self) -> [String; 4] {
        self.indices.map(|index| format!("{index:.2}"))
    }
}

/// The active insights of a project.
#[derive(Debug, Template)]
#[template(path = "insights.html")]
pub struct InsightsPage {
    /// The frame.
    pub frame: Frame,
    /// The insights.
    pub cards: Vec<InsightCard>,
    /// The drift of its models in the last 7 days.
    pub drift: Vec<DriftRow>,
    /// Whether the user may compute and dismiss them.
    pub may_manage: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Page as _;
    use crate::frame::Section;

    #[test]
    fn the_drift_of_each_model_is_a_row() {
        let row = |model: &str, indices, is_flagged| DriftRow {
            model: model.to_owned(),
            samples: (Count(1_234), Count(60)),
            indices,
            is_flagged,
        };
        let drift = vec![
            row("<changed>", [0.01, 0.3, 0.0, 1.5], true),
            row("steady", [0.02, 0.0, 0.0, 0.0], false),
        ];
        let frame = Frame::of_test(Section::Insights);
        let html = InsightsPage { frame, cards: Vec::new(), drift, may_manage: false }.html();
        let cells = |model: &str| {
            let (_, row) = html.split_once(&format!("<code>{model}</code></th>")).unwrap();
            let (row, _) = row.split_once("</tr>").unwrap();
            let cells = row.split("</td>").filter(|cell| !cell.is_empty());
            let value = |cell: &str| -> String {
                let (_, cell) = cell.rsplit_once("<td").unwrap();
                cell.split_once('>').unwrap().1.to_owned()
            };
            cells.map(value).collect::<Vec<_>>()
        };
        let changed = "<span class=\"finding\">changed</span>";
        assert_eq!(
            cells("&#60;changed&#62;"),
            ["1,234", "60", "0.01", "0.30", "0.00", "1.50", changed]
        );
        assert_eq!(cells("steady"), ["1,234", "60", "0.02", "0.00", "0.00", "0.00", ""]);
        assert!(!html.contains("No model has answered often enough"), "{html}");
    }
}

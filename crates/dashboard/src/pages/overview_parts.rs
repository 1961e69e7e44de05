//! The parts of an overview that change while it is open. Each is an element with an id: an open page is sent those
//! that have changed, and of a chart and of its table the bars and rows that have.

use std::fmt::Write as _;

use askama::Template;
use domain::time::Timestamp;

use crate::frame::Frame;
use crate::markup;
use crate::pages::chart::{Chart, ChartBar};
use crate::pages::overview::{FirstSteps, GroupTable, OverviewPeriod, Tile};
use crate::texts::Texts;

/// The parts of an overview.
#[derive(Clone, Debug, Template)]
#[template(path = "overview_parts.html")]
pub struct OverviewParts {
    /// The frame.
    pub frame: Frame,
    /// The period.
    pub period: OverviewPeriod,
    /// The steps to a first call; `None` if there were calls.
    pub first_steps: Option<FirstSteps>,
    /// The figures.
    pub tiles: Vec<Tile>,
    /// The figures over time; none before a first call.
    pub charts: Vec<Chart>,
    /// The charts' figures as CSV.
    pub series: String,
    /// The usage by model, key, user and so on; none of changes that were read before it was.
    pub groups: Vec<GroupTable>,
    /// The address of this gateway.
    pub address: String,
}

#[derive(Template)]
#[template(path = "first_steps.html")]
struct FirstStepsPart<'p> {
    t: &'static Texts,
    frame: &'p Frame,
    first_steps: Option<&'p FirstSteps>,
    address: &'p str,
}

#[derive(Template)]
#[template(path = "tiles.html")]
struct TilesPart<'p> {
    t: &'static Texts,
    tiles: &'p [Tile],
}

#[derive(Template)]
#[template(path = "charts.html")]
struct ChartsPart<'p> {
    t: &'static Texts,
    charts: &'p [Chart],
    series: &'p str,
}

#[derive(Template)]
#[template(path = "chart.html")]
struct ChartPart<'p> {
    t: &'static Texts,
    chart: &'p Chart,
    number: usize,
}

#[derive(Template)]
#[template(path = "bar.html")]
struct BarPart<'p> {
    chart: &'p Chart,
    bar: &'p ChartBar,
    number: usize,
    index: usize,
}

#[derive(Template)]
#[template(path = "bucket.html")]
struct BucketPart<'p> {
    charts: &'p [Chart],
    begins: Timestamp,
    index: usize,
}

#[derive(Template)]
#[template(path = "group.html")]
struct GroupPart<'p> {
    t: &'static Texts,
    period: &'p OverviewPeriod,
    group: &'p GroupTable,
    number: usize,
}

impl OverviewParts {
    fn first_steps(&self) -> FirstStepsPart<'_> {
        let (frame, first_steps) = (&self.frame, self.first_steps.as_ref());
        FirstStepsPart { t: frame.t, frame, first_steps, address: &self.address }
    }

    fn tiles(&self) -> TilesPart<'_> {
        TilesPart { t: self.frame.t, tiles: &self.tiles }
    }

    fn charts(&self) -> ChartsPart<'_> {
        ChartsPart { t: self.frame.t, charts: &self.charts, series: &self.series }
    }

    fn groups(&self) -> Vec<GroupPart<'_>> {
        let (t, period) = (self.frame.t, &self.period);
        let part = |(number, group)| GroupPart { t, period, group, number };
        self.groups.iter().enumerate().map(part).collect()
    }

    /// The differences from earlier parts of the same page, as HTML: elements that replace those of their ids.
    pub fn changes(&self, earlier: &Self) -> String {
        let mut html = String::new();
        add_changed(&mut html, &self.first_steps(), &earlier.first_steps());
        add_changed(&mut html, &self.tiles(), &earlier.tiles());
        if same_times(&self.charts, &earlier.charts) {
            for (number, chart) in self.charts.iter().enumerate() {
                add_bars(&mut html, number, chart, &earlier.charts[number], self.frame.t);
            }
            let mut rows = String::new();
            for (now, before) in buckets(&self.charts).into_iter().zip(buckets(&earlier.charts)) {
                add_changed(&mut rows, &now, &before);
            }
            add_within(&mut html, "table", &rows);
        } else {
            html.push_str(&written(&self.charts()));
        }
        let earlier = earlier.groups();
        for (at, now) in self.groups().iter().enumerate() {
            match earlier.get(at) {
                Some(before) => add_changed(&mut html, now, before),
                // Groups may come after figures.
                None => html.push_str(&written(now)),
            }
        }
        html
    }
}

impl ChartsPart<'_> {
    fn parts(&self) -> Vec<ChartPart<'_>> {
        let part = |(number, chart)| ChartPart { t: self.t, chart, number };
        self.charts.iter().enumerate().map(part).collect()
    }

    fn buckets(&self) -> Vec<BucketPart<'_>> {
        buckets(self.charts)
    }
}

impl ChartPart<'_> {
    fn bars(&self) -> Vec<BarPart<'_>> {
        let (chart, number) = (self.chart, self.number);
        let bar = |(index, bar)| BarPart { chart, bar, number, index };
        chart.bars.iter().enumerate().map(bar).collect()
    }
}

impl BucketPart<'_> {
    /// The figures of the charts.
    fn figures(&self) -> impl Iterator<Item = &str> {
        let bars = self.charts.iter().filter_map(|chart| chart.bars.get(self.index));
        bars.map(|bar| bar.words.as_str())
    }
}

/// The rows of the table of charts.
fn buckets(charts: &[Chart]) -> Vec<BucketPart<'_>> {
    let bars = charts.first().map(|chart| &*chart.bars).unwrap_or_default();
    let part = |(index, bar): (usize, &ChartBar)| BucketPart { charts, begins: bar.begins, index };
    bars.iter().enumerate().map(part).collect()
}

/// Whether charts have bars of the same times.
fn same_times(one: &[Chart], other: &[Chart]) -> bool {
    fn times(charts: &[Chart]) -> impl Iterator<Item = Vec<Timestamp>> {
        charts.iter().map(|chart| chart.bars.iter().map(|bar| bar.begins).collect())
    }
    times(one).eq(times(other))
}

/// Adds the bars of a chart that have changed; all of it if its scale has.
fn add_bars(html: &mut String, number: usize, chart: &Chart, earlier: &Chart, t: &'static Texts) {
    let top = |chart: &Chart| (Chart::top(&chart.bars), chart.highest.clone());
    if top(chart) != top(earlier) {
        html.push_str(&written(&ChartPart { t, chart, number }));
        return;
    }
    let mut bars = String::new();
    for (index, bar) in chart.bars.iter().enumerate().filter(|(at, bar)| earlier.bars[*at] != **bar)
    {
        bars.push_str(&written(&BarPart { chart, bar, number, index }));
    }
    add_within(html, "svg", &bars);
}

/// Adds elements that are read as what they are within another one alone.
fn add_within(html: &mut String, element: &str, inner: &str) {
    if !inner.is_empty() {
        // Writing to a string cannot fail.
        let _ = write!(html, "<{element}>{inner}</{element}>");
    }
}

fn add_changed<T: Template>(html: &mut String, now: &T, before: &T) {
    let now = written(now);
    if now != written(before) {
        html.push_str(&now);
    }
}

fn written(part: &impl Template) -> String {
    // Templates fail only by a `Display` that does, and ours do not.
    part.render().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Count, Money};
    use crate::frame::Section;
    use crate::pages::chart::Part;
    use crate::pages::overview::ShareRow;

    fn parts(requests: &[f64]) -> OverviewParts {
        let bar = |(at, value): (usize, &f64)| ChartBar {
            begins: Timestamp(at as i64 * 60_000_000),
            words: value.to_string(),
            parts: vec![Part { class: "fill", value: *value }],
        };
        let highest = Chart::top(&requests.iter().enumerate().map(bar).collect::<Vec<_>>());
        let row = ShareRow {
            id: "of-m".to_owned(),
            label: Some("m".to_owned()),
            href: None,
            requests: Count(1),
            tokens: Count(2),
            failures: Count(0),
            cost: Money(domain::money::Usd(0)),
            share: 0.0,
        };
        OverviewParts {
            frame: Frame::of_test(Section::Overview),
            period: OverviewPeriod::Hours(24),
            first_steps: requests.is_empty().then(FirstSteps::default),
            tiles: Vec::new(),
            charts: if requests.is_empty() {
                Vec::new()
            } else {
                let bars = requests.iter().enumerate().map(bar).collect();
                vec![Chart { title: "Requests", highest: highest.to_string(), bars }]
            },
            series: "/series.csv".to_owned(),
            groups: vec![GroupTable {
                title: "model".to_owned(),
                rows: vec![row],
                rest: None,
                csv: "/usage.csv".to_owned(),
            }],
            address: "http://here".to_owned(),
        }
    }

    fn ids(html: &str) -> Vec<&str> {
        let ids = html.split(" id=\"").skip(1).map(|part| part.split('"').next().unwrap_or(""));
        ids.collect()
    }

    #[test]
    fn only_what_has_changed_is_sent() {
        let first = parts(&[1.0, 5.0, 2.0]);
        assert_eq!(first.changes(&first), "");
        let later = parts(&[1.0, 5.0, 3.0]).changes(&first);
        assert_eq!(ids(&later), ["bar-0-2", "bucket-2"]);
        assert!(later.starts_with("<svg><g "), "{later}");
        // Another scale draws all bars again, the table has the one row.
        let higher = parts(&[1.0, 5.0, 6.0]).changes(&first);
        assert_eq!(ids(&higher), ["chart-0", "bar-0-0", "bar-0-1", "bar-0-2", "bucket-2"]);
        // The next bucket has begun.
        let next = parts(&[1.0, 5.0, 2.0, 0.0]).changes(&first);
        assert!(ids(&next).starts_with(&["charts", "chart-0"]), "{next}");
        let mut other = first.clone();
        other.groups[0].rows[0].requests = Count(2);
        assert_eq!(ids(&other.changes(&first)), ["group-0", "group-0-of-m"]);
        // Groups may be read later than figures.
        let mut figures = first.clone();
        figures.groups.clear();
        assert_eq!(ids(&first.changes(&figures)), ["group-0", "group-0-of-m"]);
    }

    #[test]
    fn the_first_call_takes_the_first_steps_away_and_brings_the_charts() {
        let changes = parts(&[1.0]).changes(&parts(&[]));
        assert!(changes.contains("<div id=\"first-steps\"></div>"), "{changes}");
        assert!(changes.contains("<figure id=\"chart-0\""), "{changes}");
    }

    #[test]
    fn the_page_has_the_parts_that_are_sent() {
        let parts = parts(&[1.0, 5.0]);
        let page = written(&parts);
        for part in parts.groups() {
            assert!(page.contains(&written(&part)));
        }
        for part in
            [written(&parts.first_steps()), written(&parts.tiles()), written(&parts.charts())]
        {
            assert!(page.contains(&part), "{part}");
        }
    }
}

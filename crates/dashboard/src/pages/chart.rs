//! Charts of figures over time: bars as SVG, drawn on the server, so that they need no script and no style of
//! their own.

use domain::time::Timestamp;

/// The width of a bar with the gap beside it, in units of the drawing.
const STEP: usize = 10;
/// The height of the drawing.
const HEIGHT: f64 = 100.0;

/// A part of a bar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Its class: `fill`, `failed`, `blocked`.
    pub class: &'static str,
    /// Its value.
    pub value: f64,
}

/// A bar: parts on top of each other.
#[derive(Clone, Debug, PartialEq)]
pub struct ChartBar {
    /// The time that it begins at.
    pub begins: Timestamp,
    /// Its figures in words.
    pub words: String,
    /// Its parts, the lowest first.
    pub parts: Vec<Part>,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Its title.
    pub title: &'static str,
    /// Its highest value in words.
    pub highest: String,
    /// Its bars, oldest first.
    pub bars: Vec<ChartBar>,
}

/// A rectangle of the drawing.
pub(crate) struct Rectangle {
    pub(crate) class: &'static str,
    pub(crate) y: String,
    pub(crate) height: String,
}

impl Chart {
    /// The highest sum of the parts of a bar.
    pub fn top(bars: &[ChartBar]) -> f64 {
        bars.iter().map(ChartBar::sum).fold(0.0, f64::max)
    }

    pub(crate) fn view_box(&self) -> String {
        format!("0 0 {} {HEIGHT}", (self.bars.len() * STEP).max(1))
    }

    pub(crate) fn x(index: usize) -> usize {
        index * STEP
    }

    pub(crate) fn rectangles(&self, bar: &ChartBar) -> Vec<Rectangle> {
        let top = Self::top(&self.bars);
        let mut below = 0.0;
        let rectangle = |part: &Part| {
            if part.value <= 0.0 || top <= 0.0 {
                return None;
            }
            // A value that is not nothing is seen.
            let height = (part.value / top * HEIGHT).max(1.0);
            below += height;
            Some(Rectangle {
                class: part.class,
                y: format!("{:.1}", (HEIGHT - below).max(0.0)),
                height: format!("{height:.1}"),
            })
        };
        bar.parts.iter().filter_map(rectangle).collect()
    }

    /// Whether its bars have several parts.
    pub(crate) fn has_parts(&self) -> bool {
        self.bars.iter().any(|bar| bar.parts.len() > 1)
    }

    /// The times at which it begins and at which its last bar begins.
    pub(crate) fn ends(&self) -> Option<(Timestamp, Timestamp)> {
        Some((self.bars.first()?.begins, self.bars.last()?.begins))
    }
}

impl ChartBar {
    fn sum(&self) -> f64 {
        self.parts.iter().map(|part| part.value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_on_each_other_up_to_the_highest() {
        let bar = |values: [f64; 2]| ChartBar {
            begins: Timestamp(0),
            words: String::new(),
            parts: values.map(|value| Part { class: "fill", value }).to_vec(),
        };
        let bars = vec![bar([30.0, 10.0]), bar([0.0, 0.0]), bar([10.0, 0.0001])];
        let chart = Chart { title: "Requests", highest: String::new(), bars };
        let drawn = |index: usize| -> Vec<_> {
            let rectangles = chart.rectangles(&chart.bars[index]).into_iter();
            rectangles.map(|part| (part.y, part.height)).collect()
        };
        let text = |y: &str, height: &str| (y.to_owned(), height.to_owned());
        assert_eq!(drawn(0), [text("25.0", "75.0"), text("0.0", "25.0")]);
        assert_eq!(drawn(1), []);
        assert_eq!(drawn(2), [text("75.0", "25.0"), text("74.0", "1.0")]);
        assert_eq!(chart.view_box(), "0 0 30 100");
    }
}

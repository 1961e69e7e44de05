//! What a streamed answer says beside the text of choice 0, put together from its chunks.

use std::collections::HashMap;

use domain::conversation::StreamEvent;
use serde_json::{Map, Value};

use crate::leaves::{self, Place};
use crate::output::Said;

/// The strings of the chunks so far.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    strings: Vec<(Place, String)>,
    /// Where each string is that came whole: most come with every chunk again.
    whole: HashMap<String, usize>,
}

impl Fragments {
    /// Takes in what a chunk says.
    pub(super) fn add(&mut self, chunk: &mut Map<String, Value>) {
        leaves::each(chunk, |place, text| {
            if !place.is_fragment() {
                if !self.whole.contains_key(text) {
                    self.whole.insert(text.clone(), self.strings.len());
                    self.strings.push((place.clone(), text.clone()));
                }
                return;
            }
            if place.is_text() {
                return;
            }
            match self.strings.iter_mut().find(|(known, _)| known == place) {
                Some((_, said)) => said.push_str(text),
                None => self.strings.push((place.clone(), text.clone())),
            }
        });
    }

    /// Everything, after the text of choice 0.
    pub(super) fn said<'a>(&'a self, text: &'a str) -> Vec<Said<'a>> {
        let others = self.strings.iter();
        let others = others
            .map(|(place, text)| Said { text: text.as_str().into(), is_json: place.is_json() });
        std::iter::once(Said::text(text)).chain(others).collect()
    }

    /// What puts these strings in the place of what [`Fragments::said`] has given.
    pub(super) fn replaced_by(self, new: Vec<Option<String>>) -> Replacement {
        let mut new = new.into_iter();
        let text = new.next().flatten().map(New::of);
        let mut changed = Vec::from_iter(text.is_some().then_some(Some(0)));
        let mut fragments = Vec::new();
        let mut by_index: HashMap<usize, String> = HashMap::new();
        for (index, ((place, _), new)) in self.strings.into_iter().zip(new).enumerate() {
            let Some(new) = new else { continue };
            changed.push(place.choice());
            if place.is_fragment() {
                fragments.push((place, New::of(new)));
            } else {
                by_index.insert(index, new);
            }
        }
        let whole = self.whole.into_iter();
        let whole = whole.filter_map(|(old, index)| Some((old, by_index.remove(&index)?)));
        Replacement { text, fragments, whole: whole.collect(), changed }
    }
}

/// What takes the place of strings of an answer whose chunks have all come.
#[derive(Debug)]
pub(super) struct Replacement {
    text: Option<New>,
    fragments: Vec<(Place, New)>,
    whole: HashMap<String, String>,
    /// The choices of what is replaced.
    changed: Vec<Option<u64>>,
}

/// A string that was in pieces: the first piece becomes all of it, the others become nothing.
#[derive(Debug)]
struct New {
    rest: String,
}

impl New {
    fn of(text: String) -> Self {
        Self { rest: text }
    }

    fn next(&mut self) -> String {
        std::mem::take(&mut self.rest)
    }
}

impl Replacement {
    /// The whole text of choice 0, if it is replaced.
    pub(super) fn text(&self) -> Option<String> {
        self.text.as_ref().map(|new| new.rest.clone())
    }

    /// Replaces what an event says; in the order in which the events came.
    pub(super) fn apply(&mut self, event: &mut StreamEvent) {
        match event {
            StreamEvent::Text(text) => {
                if let Some(new) = &mut self.text {
                    *text = new.next();
                }
            }
            StreamEvent::Native { chunk, .. } => {
                leaves::each(chunk, |place, text| {
                    if let Some(new) = self.replaced(place, text) {
                        *text = new;
                    }
                });
                // They need not come with the text that they tell.
                leaves::drop_logprobs(chunk, &self.changed);
            }
            _ => {}
        }
    }

    fn replaced(&mut self, place: &Place, text: &str) -> Option<String> {
        if !place.is_fragment() {
            return self.whole.get(text).cloned();
        }
        if place.is_text() {
            return self.text.as_mut().map(New::next);
        }
        self.fragments.iter_mut().find(|(known, _)| known == place).map(|(_, new)| new.next())
    }
}

//! The parts of a streamed answer that only its vendor has: calls of the vendor's own tools, their
//! results, citations. They have no canonical form, and are kept as they came.

use std::collections::{BTreeMap, BTreeSet};

use domain::json_text::member;
use domain::original::{SourceEvent, VENDOR_PARTS};
use serde_json::value::RawValue;

use crate::pipeline::passed_content::{CANONICAL_BLOCKS, is_vendors_item};

/// The most bytes of events that are kept for the record.
const MOST_KEPT_BYTES: usize = 1024 * 1024;
/// The event that continues a block, and the one that begins it.
const DELTA: &str = "content_block_delta";
const START: &str = "content_block_start";
/// The kind of delta that belongs to a text and has no canonical form.
const CITATION: &str = "citations_delta";
/// The event that ends an item of the Responses format, and the member that holds all of it.
const ITEM_DONE: &str = "response.output_item.done";
const ITEM: &str = "item";

/// The members of an event that name its block.
#[derive(Debug, Default)]
pub(super) struct BlockOfEvent {
    pub(super) index: Option<u64>,
    /// The type of the block that begins with it.
    pub(super) begun: Option<String>,
    /// The type of what it adds.
    pub(super) added: Option<String>,
}

/// The vendor's own blocks so far.
#[derive(Debug, Default)]
pub(super) struct VendorBlocks {
    open: BTreeSet<u64>,
    /// The arguments of the tools, by block.
    arguments: BTreeMap<u64, String>,
    events: Vec<Box<RawValue>>,
    kept: usize,
}

impl VendorBlocks {
    /// Notes an event. Returns the bytes that it adds to strings which are judged.
    pub(super) fn note(&mut self, event: &SourceEvent, of: &BlockOfEvent) -> usize {
        if event.name == VENDOR_PARTS {
            self.keep(&event.data);
            return 0;
        }
        if event.name == ITEM_DONE {
            let item = member(&event.data, ITEM).ok().flatten();
            if let Some(item) = item.filter(|item| is_vendors_item(item)) {
                self.keep(item);
            }
            return 0;
        }
        let is_known = |kind: &str| CANONICAL_BLOCKS.contains(&kind);
        let Some(index) = of.index else { return 0 };
        if event.name == START {
            if of.begun.as_deref().is_some_and(is_known) {
                return 0;
            }
            self.open.insert(index);
        } else if event.name != DELTA {
            return 0;
        }
        let is_citation = of.added.as_deref() == Some(CITATION);
        if !self.open.contains(&index) && !is_citation {
            return 0;
        }
        self.keep(&event.data);
        let pieces = event.pieces.iter().filter(|_| !is_citation);
        let lengths = pieces.map(|piece| {
            self.arguments.entry(index).or_default().push_str(&piece.text);
            piece.text.len()
        });
        lengths.sum()
    }

    fn keep(&mut self, data: &str) {
        self.kept += data.len();
        if self.kept <= MOST_KEPT_BYTES
            && let Ok(event) = RawValue::from_string(data.to_owned())
        {
            self.events.push(event);
        }
    }

    /// The arguments of the vendor's tools, one string a call.
    pub(super) fn arguments(&self) -> impl Iterator<Item = &str> {
        self.arguments.values().map(String::as_str)
    }

    /// The events as they came.
    pub(super) fn take_events(&mut self) -> Vec<Box<RawValue>> {
        std::mem::take(&mut self.events)
    }
}

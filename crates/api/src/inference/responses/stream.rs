//! A streamed answer in the Responses format.

use std::convert::Infallible;

use axum::body::Body;
use bytes::Bytes;
use domain::ids::StepId;
use domain::step::FinishReason;
use domain::time::Timestamp;
use domain::usage::Usage;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use gateway::{Error, Piece, Refusal, Started};
use serde_json::{Map, Value, json};

use crate::http::dialect::Dialect;
use crate::http::error::Failure;
use crate::http::vendor_errors::in_dialect;
use crate::inference::canonical::block_sequencer::{BlockEvent, BlockSequencer, ContentKind, Part};
use crate::inference::canonical::chunk_reader::ChunkReader;
use crate::inference::finding::FindingBody;
use crate::inference::responses::answer::{
    End, ResponseAnswer, call_status, custom_call, function_call, id, message, reasoning,
    refusal_part, summary_part, text_part,
};
use crate::inference::responses::custom_tools::{CustomTools, input_of};
use crate::inference::responses::request::AnswerOptions;
use crate::inference::sse;

/// The events of an answer.
pub(super) fn body(
    started: &Started,
    options: AnswerOptions,
    pieces: BoxStream<'static, Vec<Piece>>,
    dialect: Dialect,
) -> Body {
    let AnswerOptions { echo, custom } = options;
    let model = started.model.clone();
    let answer = ResponseAnswer::blank(started.step, started.trace, model, started.created, echo);
    let mut writer = Writer::new(started.step, answer.in_dialect(dialect), custom);
    writer.has_sources = started.has_sources;
    Body::from_stream(pieces.map(move |pieces| Ok::<_, Infallible>(writer.write(pieces))))
}

/// All events of a request that was refused before any model was called.
pub fn refused(
    refusal: Refusal,
    now: Timestamp,
    echo: Map<String, Value>,
    dialect: Dialect,
) -> Bytes {
    let Refusal { reason, step, trace, cause } = refusal;
    let answer =
        ResponseAnswer::blank(step, trace, String::new(), now, echo).caused(FindingBody::of(cause));
    let (answer, blocked) = (answer.in_dialect(dialect), Some(reason));
    let finish = FinishReason::ContentFilter;
    let mut writer = Writer::new(step, answer, CustomTools::default());
    writer.write(vec![Piece::End { finish, usage: Usage::default(), blocked }])
}

/// Writes pieces as events.
struct Writer {
    step: StepId,
    answer: ResponseAnswer,
    custom: CustomTools,
    reader: ChunkReader,
    sequencer: BlockSequencer,
    /// The items that are over.
    output: Vec<Value>,
    open: Option<Item>,
    /// Whether the items that are still open at the end of the answer were cut off.
    is_cut_off: bool,
    /// The number of the next event.
    sequence: u64,
    /// Whether the pieces are the provider's own events: nothing is added to them but an error.
    has_sources: bool,
    out: String,
}

/// The item that is open.
struct Item {
    id: String,
    part: Part,
    text: String,
    /// Whether it is a call of a custom tool.
    is_custom: bool,
}

impl Writer {
    fn new(step: StepId, answer: ResponseAnswer, custom: CustomTools) -> Self {
        Self {
            step,
            answer,
            custom,
            reader: ChunkReader::default(),
            sequencer: BlockSequencer::default(),
            output: Vec::new(),
            open: None,
            is_cut_off: false,
            sequence: 0,
            has_sources: false,
            out: String::new(),
        }
    }

    fn write(&mut self, pieces: Vec<Piece>) -> Bytes {
        if self.sequence == 0 && !self.has_sources {
            for name in ["response.created", "response.in_progress"] {
                let response = json!(self.answer);
                self.event(name, json!({"response": response}));
            }
        }
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.sequencer.text(ContentKind::Text, text),
                Piece::Native(chunk) => self.reader.read(chunk, &mut self.sequencer),
                Piece::Source(name, json) => {
                    self.sequence += 1;
                    sse::source_event(&mut self.out, &name, &json);
                    continue;
                }
                Piece::End { .. } if self.has_sources => continue,
                Piece::End { finish, usage, blocked } => self.end(finish, usage, blocked),
                Piece::Broken(error) => self.broken(error),
            }
            let events = self.sequencer.take_events();
            self.write_events(events);
        }
        std::mem::take(&mut self.out).into()
    }

    fn write_events(&mut self, events: Vec<BlockEvent>) {
        let mut events = events.into_iter().peekable();
        while let Some(event) = events.next() {
            match event {
                BlockEvent::Begin(part) => self.item_begins(part),
                BlockEvent::More(text) => self.item_goes_on(text),
                BlockEvent::End => self.item_ends(events.peek().is_none()),
            }
        }
    }

    fn item_begins(&mut self, part: Part) {
        let index = self.output.len();
        let is_custom = matches!(&part, Part::Call { name, .. } if self.custom.has(name));
        let kind = match part {
            Part::Content(ContentKind::Thought) => "rs",
            Part::Content(ContentKind::Text | ContentKind::Refusal) => "msg",
            Part::Call { .. } if is_custom => "ctc",
            Part::Call { .. } => "fc",
        };
        let id = id(kind, self.step, index);
        let blank = match &part {
            Part::Content(ContentKind::Thought) => reasoning(&id, "", None),
            Part::Content(ContentKind::Text | ContentKind::Refusal) => {
                message(&id, "in_progress", None)
            }
            Part::Call { id: call_id, name } if is_custom => {
                custom_call(&id, "in_progress", call_id, name, "")
            }
            Part::Call { id: call_id, name } => {
                function_call(&id, "in_progress", call_id, name, "")
            }
        };
        self.event("response.output_item.added", json!({"output_index": index, "item": blank}));
        let item = Item { id, part, text: String::new(), is_custom };
        if let Some((names, place, part)) = item.part_of(index) {
            let mut added = place;
            added.insert("part".to_owned(), part);
            self.event(names.added, Value::Object(added));
        }
        self.open = Some(item);
    }

    fn item_goes_on(&mut self, text: String) {
        let index = self.output.len();
        let Some(item) = &mut self.open else { return };
        item.text.push_str(&text);
        // The input is inside JSON, which is read when it is whole.
        if item.is_custom {
            return;
        }
        let mut more = item.place(index);
        more.insert("delta".to_owned(), text.into());
        let name = item.names().delta;
        if item.part == Part::Content(ContentKind::Text) {
            more.insert("logprobs".to_owned(), json!([]));
        }
        self.event(name, Value::Object(more));
    }

    fn item_ends(&mut self, is_last: bool) {
        let index = self.output.len();
        let Some(mut item) = self.open.take() else { return };
        let names = item.names();
        let call_status = call_status(self.is_cut_off, &item.text);
        if item.is_custom {
            item.text = input_of(&item.text);
            let mut all = item.place(index);
            all.insert("delta".to_owned(), item.text.clone().into());
            self.event(names.delta, Value::Object(all));
        }
        let mut done = item.place(index);
        done.insert(names.member.to_owned(), item.text.clone().into());
        match &item.part {
            Part::Content(ContentKind::Text) => drop(done.insert("logprobs".to_owned(), json!([]))),
            Part::Call { name, .. } if !item.is_custom => {
                drop(done.insert("name".to_owned(), name.clone().into()));
            }
            Part::Call { .. } | Part::Content(_) => {}
        }
        self.event(names.done, Value::Object(done));
        if let Some((names, mut over, part)) = item.part_of(index) {
            over.insert("part".to_owned(), part);
            self.event(names.over, Value::Object(over));
        }
        let status = if self.is_cut_off && is_last { "incomplete" } else { "completed" };
        let whole = match &item.part {
            Part::Content(ContentKind::Thought) => reasoning(&item.id, &item.text, None),
            Part::Content(ContentKind::Text) => {
                message(&item.id, status, Some(text_part(&item.text)))
            }
            Part::Content(ContentKind::Refusal) => {
                message(&item.id, "completed", Some(refusal_part(&item.text)))
            }
            Part::Call { id, name } if item.is_custom => {
                custom_call(&item.id, call_status, id, name, &item.text)
            }
            Part::Call { id, name } => function_call(&item.id, call_status, id, name, &item.text),
        };
        self.item_is_over(whole);
    }

    fn item_is_over(&mut self, item: Value) {
        let over = json!({"output_index": self.output.len(), "item": item});
        self.event("response.output_item.done", over);
        self.output.push(item);
    }

    fn end(&mut self, finish: FinishReason, usage: Usage, blocked: Option<String>) {
        if let Some(reason) = &blocked {
            self.sequencer.text(ContentKind::Refusal, reason.clone());
        }
        self.is_cut_off = blocked.is_none() && finish.is_cut_off();
        let events = self.sequencer.finish();
        self.write_events(events);
        // It comes long after the reasoning is over: it goes into an item of its own.
        if let Some(state) = self.sequencer.take_state() {
            let index = self.output.len();
            let item = reasoning(&id("rs", self.step, index), "", Some(&state));
            self.event("response.output_item.added", json!({"output_index": index, "item": item}));
            self.item_is_over(item);
        }
        let output = std::mem::take(&mut self.output);
        let answer = self.answer.clone().ended(finish, End { output, usage, blocked });
        let name = if answer.is_completed() { "response.completed" } else { "response.incomplete" };
        self.event(name, json!({"response": answer}));
    }

    /// Open items stay open, so that nobody takes them for whole.
    fn broken(&mut self, error: Error) {
        let (_, body) = in_dialect(Failure::from(error), self.answer.dialect());
        let code = body.code.unwrap_or("server_error");
        let mut error = json!({"code": code, "message": body.error, "param": null});
        if let Some(status) = body.provider_status {
            error["provider_status"] = status.into();
        }
        self.event("error", error);
        let output = std::mem::take(&mut self.output);
        let answer = self.answer.clone().failed(&body.error, output);
        self.event("response.failed", json!({"response": answer}));
    }

    fn event(&mut self, name: &str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.sequence.into();
        self.sequence += 1;
        for piece in ["event: ", name, "\ndata: ", &data.to_string(), "\n\n"] {
            self.out.push_str(piece);
        }
    }
}

/// The names of the events of an item.
struct Names {
    added: &'static str,
    delta: &'static str,
    done: &'static str,
    over: &'static str,
    /// The member that holds the whole text in the end.
    member: &'static str,
}

impl Item {
    fn names(&self) -> Names {
        const ADDED: &str = "response.content_part.added";
        const OVER: &str = "response.content_part.done";
        match self.part {
            Part::Content(ContentKind::Text) => Names {
                added: ADDED,
                delta: "response.output_text.delta",
                done: "response.output_text.done",
                over: OVER,
                member: "text",
            },
            Part::Content(ContentKind::Refusal) => Names {
                added: ADDED,
                delta: "response.refusal.delta",
                done: "response.refusal.done",
                over: OVER,
                member: "refusal",
            },
            Part::Content(ContentKind::Thought) => Names {
                added: "response.reasoning_summary_part.added",
                delta: "response.reasoning_summary_text.delta",
                done: "response.reasoning_summary_text.done",
                over: "response.reasoning_summary_part.done",
                member: "text",
            },
            Part::Call { .. } if self.is_custom => Names {
                added: "",
                delta: "response.custom_tool_call_input.delta",
                done: "response.custom_tool_call_input.done",
                over: "",
                member: "input",
            },
            // A call has no parts: nothing is added to it, and no part of it is over.
            Part::Call { .. } => Names {
                added: "",
                delta: "response.function_call_arguments.delta",
                done: "response.function_call_arguments.done",
                over: "",
                member: "arguments",
            },
        }
    }

    /// The members that identify the item or part of an event.
    fn place(&self, index: usize) -> Map<String, Value> {
        let mut place = Map::new();
        place.insert("item_id".to_owned(), self.id.clone().into());
        place.insert("output_index".to_owned(), index.into());
        match self.part {
            Part::Content(ContentKind::Thought) => {
                drop(place.insert("summary_index".to_owned(), 0.into()));
            }
            Part::Content(_) => drop(place.insert("content_index".to_owned(), 0.into())),
            Part::Call { .. } => {}
        }
        place
    }

    /// The part with the text so far, of items that have parts.
    fn part_of(&self, index: usize) -> Option<(Names, Map<String, Value>, Value)> {
        let part = match self.part {
            Part::Content(ContentKind::Text) => text_part(&self.text),
            Part::Content(ContentKind::Refusal) => refusal_part(&self.text),
            Part::Content(ContentKind::Thought) => summary_part(&self.text),
            Part::Call { .. } => return None,
        };
        Some((self.names(), self.place(index), part))
    }
}

#[cfg(test)]
#[path = "stream_tests.rs"]
mod tests;

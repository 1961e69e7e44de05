//! Puts a streamed answer into the order of formats in which one block follows the other: in chat
//! completions the pieces of several calls may alternate.

use std::collections::VecDeque;

use crate::inference::canonical::prompt::State;

/// The kind of a text in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ContentKind {
    /// The model's reasoning.
    Thought,
    /// The answer itself.
    Text,
    /// The reason why the model refuses.
    Refusal,
}

/// A part of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// A text.
    Content(ContentKind),
    /// A tool that the model calls.
    Call {
        /// The call's id.
        id: String,
        /// The tool's name.
        name: String,
    },
}

/// The next event. Between `Begin` and `End` there is no other `Begin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BlockEvent {
    /// A part begins.
    Begin(Part),
    /// More of it, never empty.
    More(String),
    /// It is over.
    End,
}

/// The order under construction.
#[derive(Debug, Default)]
pub(crate) struct BlockSequencer {
    events: Vec<BlockEvent>,
    open: Option<Open>,
    /// Content that waits until the open call is over.
    queue: VecDeque<Waiting>,
    calls: Vec<Called>,
    state: Option<State>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Open {
    Content(ContentKind),
    Call(usize),
}

#[derive(Debug)]
enum Waiting {
    Content(ContentKind, String),
    Call { place: usize, part: Part },
}

/// A call's arguments.
#[derive(Debug, Default)]
struct Called {
    /// Arguments that came before the call could begin.
    early: String,
    json: Json,
    is_over: bool,
}

impl BlockSequencer {
    /// More of a text.
    pub(crate) fn text(&mut self, kind: ContentKind, text: String) {
        if !text.is_empty() {
            self.queue.push_back(Waiting::Content(kind, text));
            self.go_on();
        }
    }

    /// The beginning of a call; calls are numbered from 0, in order.
    pub(crate) fn call(&mut self, place: usize, id: String, name: String) {
        if self.calls.len() <= place {
            self.calls.resize_with(place + 1, Called::default);
        }
        self.queue.push_back(Waiting::Call { place, part: Part::Call { id, name } });
        self.go_on();
    }

    /// More of a call's arguments.
    pub(crate) fn arguments(&mut self, place: usize, text: &str) {
        let Some(call) = self.calls.get_mut(place).filter(|call| !call.is_over) else { return };
        if text.is_empty() {
            return;
        }
        call.json.feed(text);
        if self.open == Some(Open::Call(place)) {
            self.events.push(BlockEvent::More(text.to_owned()));
            if self.calls[place].json.is_whole() {
                self.close();
                self.go_on();
            }
        } else {
            call.early.push_str(text);
        }
    }

    /// The state that the provider requires back verbatim.
    pub(crate) fn state(&mut self, state: State) {
        self.state = Some(state);
    }

    /// The next events, so far as they are determined.
    pub(crate) fn take_events(&mut self) -> Vec<BlockEvent> {
        std::mem::take(&mut self.events)
    }

    /// The remaining events, once the answer is over.
    pub(crate) fn finish(&mut self) -> Vec<BlockEvent> {
        while self.open.is_some() || !self.queue.is_empty() {
            self.close();
            self.go_on();
        }
        self.take_events()
    }

    /// The state, once it has come.
    pub(crate) fn take_state(&mut self) -> Option<State> {
        self.state.take()
    }

    /// Whether a tool was called.
    pub(crate) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Emits the content that need not wait any longer. A call is over when its arguments are
    /// whole.
    fn go_on(&mut self) {
        while !matches!(self.open, Some(Open::Call(_)))
            && let Some(next) = self.queue.pop_front()
        {
            match next {
                Waiting::Content(kind, text) => {
                    if self.open != Some(Open::Content(kind)) {
                        self.begin(Open::Content(kind), Part::Content(kind));
                    }
                    self.events.push(BlockEvent::More(text));
                }
                Waiting::Call { place, part } => {
                    self.begin(Open::Call(place), part);
                    let call = &mut self.calls[place];
                    let early = std::mem::take(&mut call.early);
                    let is_whole = call.json.is_whole();
                    if !early.is_empty() {
                        self.events.push(BlockEvent::More(early));
                    }
                    if is_whole {
                        self.close();
                    }
                }
            }
        }
    }

    fn begin(&mut self, what: Open, part: Part) {
        self.close();
        self.events.push(BlockEvent::Begin(part));
        self.open = Some(what);
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        if let Open::Call(place) = open {
            self.calls[place].is_over = true;
        }
        self.events.push(BlockEvent::End);
    }
}

/// Detects the end of an object, without keeping it.
#[derive(Debug, Default)]
struct Json {
    depth: usize,
    in_string: bool,
    escaped: bool,
    began: bool,
}

impl Json {
    fn feed(&mut self, text: &str) {
        for byte in text.bytes() {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                _ if self.in_string => {}
                b'{' | b'[' => {
                    self.began = true;
                    self.depth += 1;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.began && self.depth == 0
    }
}

#[cfg(test)]
#[path = "block_sequencer_tests.rs"]
mod tests;

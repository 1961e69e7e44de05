//! The detail of a trace, written in pieces.
//!
//! ```text
//!            room for all pieces           a place
//!   waiting ---------------------> queued ----------> reading: a few steps and contents are opened,
//!      ^                                                 |     presented and written
//!      |          the caller takes nothing, or           |
//!      +------ a second has passed between two steps <---+----> ended
//! ```
//!
//! Contents are open only while a detail is being read, and the number of
//! [permits](crate::capacity::detail_places) for that is small. While the caller takes nothing the
//! task holds the list of steps, [`MOST_PIECES`] pieces in the channel, one that is being filled
//! and its position; the content is dropped and opened again when all pieces have been taken.
//!
//! Each opening therefore writes at least `MOST_PIECES * PIECE` (320 KiB) of a content or its rest, and
//! a content of `n` bytes is opened at most `2 + n / 320 KiB` times, however slowly it is read: 34 times
//! for 10 MiB.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use domain::ids::StepId;
use domain::step::Step;
use futures_util::{Stream, stream};
use store::{STEPS_AT_ONCE, SealedContent};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Instant, timeout};

use crate::bounded_read::{bounded, light};
use crate::capacity::offload::hand_over;
use crate::error::{Error, Result};
use crate::evidence::traces::detail::{Entry, StepList};
use crate::gateway::Gateway;
use crate::request_id;

/// Bytes of a piece.
const PIECE: usize = 64 * 1024;
/// Pieces that wait for the caller.
const MOST_PIECES: usize = 5;
/// Bytes of sealed contents, and of what findings take in memory, that are read at once; a single step
/// may have more.
const BATCH: usize = 256 * 1024;
/// A finding takes about this many times the bytes of its text.
const FINDINGS: usize = 8;
/// Content that is worth compressing is rarely compressed better.
const COMPRESSED: usize = 8;
/// All waits for the caller while a detail is being read.
const READER_TIMEOUT: Duration = Duration::from_millis(250);
/// A detail that was read for this long gives up its permit to others.
const TURN: Duration = Duration::from_secs(1);
/// The longest wait for a permit.
const QUEUE: Duration = Duration::from_mins(1);
/// The longest time that a detail may take.
const WHOLE: Duration = Duration::from_mins(15);
const STEP_GONE: &str = "a step that was half written has gone";

/// Writes a step with its content into a text.
pub type WriteStep =
    Box<dyn Fn(Step, Option<&[u8]>, &mut Vec<u8>) -> serde_json::Result<()> + Send + Sync>;

/// The text form of a detail. The text of a step depends only on the step and its content: it may
/// be written again to continue from the middle.
pub struct DetailText {
    /// The text before the steps.
    pub head: Vec<u8>,
    /// The text between two steps.
    pub between: &'static [u8],
    /// The text after the steps.
    pub end: &'static [u8],
    /// Writes a step with its content, which is a [`domain::step::Content`] as JSON.
    pub step: WriteStep,
}

impl fmt::Debug for DetailText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetailText").finish_non_exhaustive()
    }
}

/// A message to the caller. A channel that closes without an end was broken off.
#[derive(Debug)]
enum Sent {
    Piece(Vec<u8>),
    End,
}

impl Gateway {
    /// Writes a detail in a task of the gateway's. The stream ends with an error when not all could be
    /// written. The task ends when the stream is dropped.
    pub fn write_detail(
        &self,
        steps: StepList,
        text: DetailText,
    ) -> impl Stream<Item = Result<Vec<u8>>> + Send + use<> {
        stream::unfold(Some(self.start_writing(steps, text)), |pieces| async {
            let mut pieces = pieces?;
            match pieces.recv().await {
                Some(Sent::Piece(piece)) => Some((Ok(piece), Some(pieces))),
                Some(Sent::End) => None,
                None => Some((Err(broken("its task ended early")), None)),
            }
        })
    }

    fn start_writing(&self, steps: StepList, text: DetailText) -> mpsc::Receiver<Sent> {
        let (pieces, taken) = mpsc::channel(MOST_PIECES);
        let piece = Vec::new();
        let at = Position { step: 0, is_first: true, offset: 0, size: 0 };
        let writer = Writer { gateway: self.clone(), steps, text, pieces, piece, at };
        self.tasks.spawn(request_id::carried(writer.run()));
        taken
    }
}

fn broken(why: &str) -> Error {
    Error::Internal(format!("a detail was broken off: {why}"))
}

struct Writer {
    gateway: Gateway,
    steps: StepList,
    text: DetailText,
    pieces: mpsc::Sender<Sent>,
    /// The next text, which does not fill a piece yet.
    piece: Vec<u8>,
    at: Position,
}

/// The position in a detail up to which it is written.
struct Position {
    /// The index of the step.
    step: usize,
    /// Whether no step was written before it.
    is_first: bool,
    /// The number of its bytes that were written.
    offset: usize,
    /// The number of its bytes, if some were written.
    size: usize,
}

/// A step as it is read, and its index in the list.
struct ReadStep {
    index: usize,
    step: Step,
    content: Option<SealedContent>,
}

impl Writer {
    async fn run(mut self) {
        let caller = self.pieces.clone();
        let written = tokio::select! {
            biased;
            () = caller.closed() => return,
            written = timeout(WHOLE, self.write()) => written,
        };
        let error = match written {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error,
            Err(_) => broken("it took longer than 15 minutes"),
        };
        if !caller.is_closed() {
            let (trace, error) = (self.steps.trace, error.cause());
            tracing::error!(%trace, error, "the detail of a trace was broken off");
        }
    }

    async fn write(&mut self) -> Result<()> {
        let head = std::mem::take(&mut self.text.head);
        self.write_short(&head).await?;
        drop(head);
        while self.at.step < self.steps.len() {
            // No content is opened for a caller that has not taken the pieces that there are.
            self.pieces.reserve_many(MOST_PIECES).await.map_err(|_| gone())?;
            let project = self.steps.project.id();
            let place = self.gateway.detail_slots.take(project, QUEUE).await?;
            self.read().await?;
            drop(place);
        }
        self.write_short(self.text.end).await?;
        self.send().await?;
        self.pieces.send(Sent::End).await.map_err(|_| gone())
    }

    /// Writes text other than a step, however long the caller takes for it.
    async fn write_short(&mut self, mut text: &[u8]) -> Result<()> {
        while !text.is_empty() {
            if self.is_full() {
                self.send().await?;
            }
            text = &text[self.fill(text)..];
        }
        Ok(())
    }

    /// Reads and writes steps until all are written, the caller takes nothing, or its time with the
    /// permit is over.
    async fn read(&mut self) -> Result<()> {
        let (began, mut patience) = (Instant::now(), READER_TIMEOUT);
        while self.at.step < self.steps.len() {
            let (read, end) = self.read_batch().await?;
            for ReadStep { index, step, content } in read {
                let shown = self.present(index, step, content)?;
                while self.at.offset < shown.len() {
                    if self.is_full() && !self.send_within(&mut patience).await? {
                        return Ok(());
                    }
                    self.at.offset += self.fill(&shown[self.at.offset..]);
                }
                self.at = Position { step: index + 1, is_first: false, offset: 0, size: 0 };
                if began.elapsed() >= TURN {
                    return Ok(());
                }
            }
            if self.at.offset > 0 {
                return Err(broken(STEP_GONE));
            }
            self.at.step = end;
        }
        Ok(())
    }

    /// The next steps that are still there, and the index of the one after them.
    async fn read_batch(&self) -> Result<(Vec<ReadStep>, usize)> {
        let next = self.at.step;
        let entries = batch(&self.steps.entries[next..]);
        let ids: Vec<StepId> = entries.iter().map(|entry| entry.id).collect();
        let with_content = entries.iter().filter(|entry| entry.sealed > 0);
        let with_content: Vec<StepId> = with_content.map(|entry| entry.id).collect();
        let store = &self.gateway.store;
        let steps = bounded(store.steps_by_id(self.steps.trace, &ids)).await?;
        let contents = match with_content.as_slice() {
            [] => Vec::new(),
            ids => bounded(store.sealed_contents(ids)).await?,
        };
        let mut steps: HashMap<_, _> = steps.into_iter().map(|step| (step.id, step)).collect();
        let mut contents: HashMap<_, _> =
            contents.into_iter().map(|content| (content.step(), content)).collect();
        let read = ids.iter().enumerate().filter_map(|(number, id)| {
            let (step, content) = (steps.remove(id)?, contents.remove(id));
            Some(ReadStep { index: next + number, step, content })
        });
        Ok((read.collect(), next + ids.len()))
    }

    /// A step as it is shown. If it was begun before, it must be unchanged: steps and contents go
    /// when their retention is over.
    fn present(
        &mut self,
        index: usize,
        step: Step,
        content: Option<SealedContent>,
    ) -> Result<Vec<u8>> {
        let (text, key) = (&self.text, &self.steps.project.sealing);
        let between = if self.at.is_first { &[][..] } else { text.between };
        let size = content.as_ref().map_or(0, SealedContent::size).saturating_mul(COMPRESSED);
        // Bounded by its permit.
        let shown = hand_over(size, || {
            let content = content.map(|content| content.open(key)).transpose()?;
            let content = content.as_deref();
            let mut shown = Vec::with_capacity(content.map_or(0, <[u8]>::len) + 1024);
            shown.extend_from_slice(between);
            (text.step)(step, content, &mut shown)
                .map_err(|error| Error::Internal(error.to_string()))?;
            Ok::<_, Error>(shown)
        });
        let shown = shown?;
        let is_same = index == self.at.step && shown.len() == self.at.size;
        if self.at.offset > 0 && !is_same {
            return Err(broken(STEP_GONE));
        }
        (self.at.step, self.at.size) = (index, shown.len());
        Ok(shown)
    }

    fn is_full(&self) -> bool {
        self.piece.len() >= PIECE
    }

    /// Adds as much as fits into the piece. Returns how much that was.
    fn fill(&mut self, text: &[u8]) -> usize {
        let fits = text.len().min(PIECE.saturating_sub(self.piece.len()));
        self.piece.extend_from_slice(&text[..fits]);
        fits
    }

    /// Sends the piece as soon as there is room.
    async fn send(&mut self) -> Result<()> {
        let piece = Sent::Piece(std::mem::take(&mut self.piece));
        self.pieces.send(piece).await.map_err(|_| gone())
    }

    /// Sends the piece if there is room soon. Returns whether there was.
    async fn send_within(&mut self, patience: &mut Duration) -> Result<bool> {
        let room = match self.pieces.try_reserve() {
            Ok(room) => room,
            Err(TrySendError::Closed(())) => return Err(gone()),
            Err(TrySendError::Full(())) => {
                let began = Instant::now();
                let room = timeout(*patience, self.pieces.reserve()).await;
                *patience = patience.saturating_sub(began.elapsed());
                match room {
                    Ok(room) => room.map_err(|_| gone())?,
                    Err(_) => return Ok(false),
                }
            }
        };
        let next = Vec::with_capacity(PIECE);
        room.send(Sent::Piece(std::mem::replace(&mut self.piece, next)));
        Ok(true)
    }
}

fn gone() -> Error {
    broken("its caller has gone")
}

/// The first entries that may be read at once: one at least.
fn batch(entries: &[Entry]) -> &[Entry] {
    let sizes = entries.iter().take(STEPS_AT_ONCE).map(|entry| {
        let own = (entry.texts as usize).saturating_mul(FINDINGS);
        own.saturating_add(entry.sealed as usize)
    });
    &entries[..light(sizes, BATCH)]
}

#[cfg(test)]
mod tests;

//! The form in which answers are kept.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::capacity::replay_memory::ReplayCharge;
use crate::error::{Error, Result};
use crate::request_id;

/// An answer that is kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAnswer {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Its body.
    #[serde(skip)]
    pub body: Bytes,
    /// The names of the attributes of its request that were not kept.
    pub(super) dropped_attributes: Vec<String>,
}

/// The bytes of an answer that is kept, with the memory that is charged for them.
struct ChargedBytes {
    stored: Vec<u8>,
    /// The first of its body.
    first: usize,
    _charge: ReplayCharge,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        self.stored.get(self.first..).unwrap_or_default()
    }
}

impl KeptAnswer {
    /// An answer to the request that is served here.
    pub fn new(status: u16, headers: Vec<(String, Vec<u8>)>) -> Self {
        let body = Bytes::new();
        Self { status, headers, body, dropped_attributes: request_id::dropped_attributes() }
    }

    /// As it is stored: the length of the head, the head as JSON, the body.
    pub(super) fn write(&self, body: &[u8]) -> Result<Vec<u8>> {
        let head = serde_json::to_vec(self).map_err(|error| Error::Internal(error.to_string()))?;
        let length = u32::try_from(head.len()).unwrap_or(u32::MAX);
        let mut all = Vec::with_capacity(4 + head.len() + body.len());
        all.extend_from_slice(&length.to_le_bytes());
        all.extend_from_slice(&head);
        all.extend_from_slice(body);
        Ok(all)
    }

    /// Reads what was stored. Its body holds the charge for it.
    pub(super) fn read(stored: Vec<u8>, charge: ReplayCharge) -> Option<Self> {
        let (length, rest) = stored.split_first_chunk::<4>()?;
        let (head, body) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let head: Self = serde_json::from_slice(head).ok()?;
        let first = stored.len() - body.len();
        let body = Bytes::from_owner(ChargedBytes { stored, first, _charge: charge });
        Some(Self { body, ..head })
    }
}

#[cfg(test)]
mod tests {
    use domain::ids::{KeyId, ProjectId};

    use super::*;
    use crate::capacity::replay_memory::ReplayMemory;

    #[test]
    fn an_answer_is_read_as_it_was_written() {
        let headers = vec![("content-type".to_owned(), b"text/event-stream".to_vec())];
        let mut answer = KeptAnswer::new(200, headers);
        answer.body = Bytes::from_static(b"data: {}\n\n\0\xff");
        answer.dropped_attributes.push("user".to_owned());
        let stored = answer.write(&answer.body).unwrap();
        let memory = ReplayMemory::new(0, 0);
        let charge = || memory.charge(ProjectId(1), KeyId(1));
        let read = |stored: &[u8]| KeptAnswer::read(stored.to_vec(), charge());
        assert_eq!(read(&stored).as_ref(), Some(&answer));
        for cut in 0..stored.len() - answer.body.len() {
            assert_eq!(read(&stored[..cut]), None, "{cut}");
        }
    }
}

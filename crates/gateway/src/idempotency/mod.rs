//! Requests with an `Idempotency-Key`: each is carried out once, on whichever node, and answered alike whenever it
//! comes again within a day.
//!
//! ```text
//!            no claim                 answered, or something was spent
//! request ------------> claim, run ------------------------------------> answer kept
//!    |                    ^    |
//!    | claim of another   |    | nothing was spent and it failed
//!    v                    |    v
//!  wait ----------------> free
//! ```
//!
//! A claim is a row of the database, and beside it an entry in the memory of the node that works on it
//! ([`Claims`](crate::state::claims::Claims)): requests on that node wait for the entry, those on others look at the
//! row again and again. The work goes on when its caller hangs up, so that the answer is there when they ask again.

mod claimed;
mod kept_answer;
mod waiting;

use aws_lc_rs::hmac;
use store::ClaimId;

use crate::capacity::offload::offload;
use crate::error::{Error, Result};
use crate::gateway::Gateway;
use crate::request_id;
use crate::state::caller::Caller;

use claimed::count;

pub use claimed::{AnswerEnd, ClaimedRequest, RequestEnd};
pub use kept_answer::KeptAnswer;
pub(crate) use waiting::ANSWERS_KEPT;
pub use waiting::Once;

/// A request that is to be carried out once.
#[derive(Clone, Copy, Debug)]
pub struct IdempotentRequest<'a> {
    /// The caller's name for it.
    pub idempotency_key: &'a str,
    /// The path that it was sent to.
    pub path: &'a str,
    /// Its query, without credentials.
    pub query: &'a str,
    /// Its body as it came.
    pub body: &'a [u8],
}

/// The hashes that a request is known by: its own texts need not be held while it waits or runs.
#[derive(Clone, Copy, Debug)]
pub struct HashedRequest {
    id: ClaimId,
    hash: [u8; 32],
}

impl IdempotentRequest<'_> {
    /// Hashes a request of a caller.
    pub async fn hashed(self, caller: &Caller) -> Result<HashedRequest> {
        offload(caller.share(), self.body.len(), || hashes(caller, &self)).await
    }
}

impl Gateway {
    /// Claims a request, or finds its answer. Waits for up to 30 seconds while it is carried out elsewhere.
    pub async fn once(&self, caller: &Caller, request: HashedRequest) -> Result<Once> {
        let HashedRequest { id, hash } = request;
        let found = self.claim_or_answer(caller, (id, hash)).await;
        match &found {
            Ok(Once::Again(answer)) => {
                count("replayed");
                if !answer.dropped_attributes.is_empty() {
                    request_id::note_dropped_attributes(answer.dropped_attributes.clone());
                }
            }
            Ok(Once::First(_)) => {}
            Err(Error::Idempotency(fault)) => count(fault.outcome()),
            Err(Error::Busy { .. }) => count("busy"),
            Err(_) => count("failed"),
        }
        found
    }
}

/// The name of the claim of a request, and the hash of the request. Keyed, so that neither can be guessed from the
/// database.
fn hashes(caller: &Caller, request: &IdempotentRequest<'_>) -> HashedRequest {
    let hash = |parts: [&[u8]; 3]| {
        let mut context = hmac::Context::with_key(&caller.project.print_key);
        for part in parts {
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part);
        }
        let mut hash = [0; 32];
        hash.copy_from_slice(context.sign().as_ref());
        hash
    };
    let IdempotentRequest { idempotency_key, path, query, body } = request;
    let name = hash([b"idempotency key", path.as_bytes(), idempotency_key.as_bytes()]);
    let id = ClaimId { project: caller.project.id(), key: caller.key.key.id, name };
    HashedRequest { id, hash: hash([b"idempotent request", query.as_bytes(), body]) }
}

#[cfg(test)]
mod tests;

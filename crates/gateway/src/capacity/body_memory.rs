//! The memory that bodies take: counted before it is taken, bounded for all of them together, and
//! shared fairly by projects.
//!
//! A body is charged for the most memory that reading, judging, forwarding and recording it can
//! take. The charge of a key's body is held until all work on the call is done
//! ([`Caller`](crate::state::caller::Caller) carries it), that of other bodies until they are read.
//! Answers of providers, and the trees of JSON in strings
//! ([`InnerJson`](domain::json_weight::InnerJson)), are not charged; each has a bound of its own.
//!
//! Fairness is a dynamic threshold (Choudhury and Hahne, "Dynamic queue length thresholds for
//! shared-memory packet switches", 1998, with a factor of one): a project may hold as much as is free.
//! One project alone gets half of the whole, two get a third each, and there is always room for one more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use domain::ids::{ProjectId, ServiceTokenId, UserId};
use domain::json_weight::JsonWeight;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::error::{Error, Result};
use crate::lock::lock;

/// A body that finds no room waits this long for others to end.
const ROOM_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes that work on a text takes for each of its bytes: the body, its strings, what the checks
/// derive from them, what is sent on, and what is recorded, plain, compressed and sealed.
const BYTES_PER_BYTE: usize = 6;
/// The bytes that the tree of any body may take, however short it is: tools, schemas and histories of short
/// calls are dense, and rarely long.
const TREE_ALLOWANCE: usize = 16 * 1024 * 1024;
/// The most bytes that a body may take for each of its own, beside [`TREE_ALLOWANCE`]: half of them for
/// its tree.
const MAX_BYTES_PER_BYTE: usize = 12;
/// All requests without a credential together may take this fraction of the memory: one part in
/// this many.
const ANONYMOUS_PART: usize = 16;
/// Shorter bodies are charged [`MAX_BYTES_PER_BYTE`] before they are weighed, which is what most of them
/// take, and may have any proportion.
const SHORT_BODY_BYTES: usize = 16 * 1024;

/// The memory for bodies of one gateway.
#[derive(Debug)]
pub struct BodyMemory(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    held: Mutex<Held>,
    /// Notified when memory was given back.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Held {
    total: usize,
    owners: HashMap<BodyOwner, usize>,
}

impl Held {
    fn of(&self, owner: BodyOwner) -> usize {
        self.owners.get(&owner).copied().unwrap_or(0)
    }
}

/// The owner whose share of the memory a body takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BodyOwner {
    /// A key of a project.
    Project(ProjectId),
    /// A signed-in member.
    Member(UserId),
    /// A service token.
    ServiceToken(ServiceTokenId),
    /// All requests without a credential: addresses cost nothing.
    Anonymous,
}

/// Memory that is held for one body. Given back when it is dropped.
#[derive(Debug)]
pub struct BodyCharge {
    shared: Arc<Shared>,
    owner: BodyOwner,
    bytes: usize,
}

/// The memory that a request holds as long as its [`Caller`](crate::state::caller::Caller) lives: for its
/// body, and for contents that are read from the record for it.
#[derive(Clone, Debug, Default)]
pub struct HeldCharge(Arc<Mutex<Option<BodyCharge>>>);

impl HeldCharge {
    /// Holds the charge of the body.
    pub fn hold(&self, charge: BodyCharge) {
        *lock(&self.0) = Some(charge);
    }

    /// Takes more memory, for something that is read for the request. Waits up to a second for it. The
    /// fair share of its owner does not count: requests that hold memory already would wait for each other.
    pub(crate) async fn add(
        &self,
        memory: &BodyMemory,
        owner: BodyOwner,
        bytes: usize,
    ) -> Result<()> {
        let held = lock(&self.0).take();
        let mut charge =
            held.unwrap_or_else(|| BodyCharge { shared: memory.0.clone(), owner, bytes: 0 });
        let taken = charge.take(bytes, OwnerLimit::Most).await;
        self.hold(charge);
        taken
    }

    /// Gives a part of it back.
    pub(crate) fn give_back(&self, bytes: usize) {
        if let Some(charge) = lock(&self.0).as_mut() {
            charge.lower(charge.bytes.saturating_sub(bytes));
        }
    }
}

/// How much of the memory one owner may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerLimit {
    /// As much as is free beside it.
    Fair,
    /// Three quarters of it: requests that hold memory do not wait for each other, and leave room for those
    /// of others.
    Most,
}

/// The least memory for bodies when one of them may have `max_body_bytes`.
pub fn least_body_memory(max_body_bytes: usize) -> usize {
    max_body_bytes.saturating_mul(MAX_BYTES_PER_BYTE).saturating_add(TREE_ALLOWANCE)
}

/// The bytes that a body of a length takes in all, its values not counted.
pub fn plain_bytes(length: usize) -> usize {
    length.saturating_mul(if length <= SHORT_BODY_BYTES {
        MAX_BYTES_PER_BYTE
    } else {
        BYTES_PER_BYTE
    })
}

/// The bytes that a JSON body takes in all, as a tree or not. Fails when they are out of proportion
/// to its length, or when it is nested more deeply than the parser reads, also in members that are
/// not used.
pub fn json_bytes(json: &[u8], as_tree: bool) -> Result<usize> {
    let plain = plain_bytes(json.len());
    let weight = JsonWeight::of(json);
    if weight.is_too_deep {
        return Err(too_deep());
    }
    if weight.has_reserved_name {
        return Err(Error::invalid(
            "The body has a member with a name that begins with \"$serde_json::private::\", which is reserved",
        ));
    }
    if !as_tree {
        return Ok(plain);
    }
    if json.len() <= SHORT_BODY_BYTES {
        return Ok(plain.max(json.len() * BYTES_PER_BYTE + weight.judged_bytes()));
    }
    if !weight.is_in_proportion(json.len(), TREE_ALLOWANCE) {
        return Err(Error::invalid(format!(
            "The body has too many values for its size ({} values in {} bytes): send fewer, or longer texts in the \
             place of lists of short ones",
            weight.values,
            json.len()
        )));
    }
    Ok(plain + weight.judged_bytes())
}

/// The refusal of a body that no parser of ours reads.
pub fn too_deep() -> Error {
    Error::invalid("The body is nested too deeply: at most 127 levels are read")
}

impl BodyMemory {
    /// Memory of `limit` bytes for all bodies together.
    pub(crate) fn new(limit: usize) -> Self {
        let held = Mutex::default();
        Self(Arc::new(Shared { limit, held, freed: Notify::new() }))
    }

    /// Sets the gauge of what is held.
    pub(crate) fn report(&self) {
        metrics::gauge!("sluice_body_memory_bytes").set(self.0.held().total as f64);
    }

    /// Whether bodies hold more than half of it.
    pub(crate) fn is_crowded(&self) -> bool {
        self.0.held().total > self.0.limit / 2
    }

    /// Whether so many bytes may ever be held for one body.
    pub(crate) fn can_hold(&self, bytes: usize) -> bool {
        bytes <= self.0.limit
    }

    /// Takes memory for a body. If there is none, waits up to a second for it.
    pub async fn charge(&self, owner: BodyOwner, bytes: usize) -> Result<BodyCharge> {
        let mut charge = BodyCharge { shared: self.0.clone(), owner, bytes: 0 };
        charge.raise(bytes).await?;
        Ok(charge)
    }
}

impl BodyCharge {
    /// Holds as many bytes as this from now on, and never fewer than before.
    pub async fn raise(&mut self, bytes: usize) -> Result<()> {
        self.take(bytes.saturating_sub(self.bytes), OwnerLimit::Fair).await
    }

    /// Holds so many bytes more. If there are none, waits up to a second for them.
    async fn take(&mut self, more: usize, limit: OwnerLimit) -> Result<()> {
        if more == 0 || self.shared.take(self.owner, self.bytes, more, limit) {
            self.bytes += more;
            return Ok(());
        }
        let deadline = Instant::now() + ROOM_TIMEOUT;
        loop {
            let freed = self.shared.freed.notified();
            tokio::pin!(freed);
            // From here on no notification is missed.
            freed.as_mut().enable();
            if self.shared.take(self.owner, self.bytes, more, limit) {
                self.bytes += more;
                return Ok(());
            }
            if timeout_at(deadline, freed).await.is_err() {
                metrics::counter!("sluice_bodies_refused_total").increment(1);
                return Err(Error::Busy {
                    why: "The gateway holds as many large requests as it has memory for",
                    retry_after: 1,
                });
            }
        }
    }

    /// Lowers the charge to `bytes`, if it is more.
    pub fn lower(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less > 0 {
            self.shared.give_back(self.owner, less);
            self.bytes -= less;
        }
    }
}

impl Drop for BodyCharge {
    fn drop(&mut self) {
        self.shared.give_back(self.owner, self.bytes);
    }
}

impl Shared {
    /// Takes more bytes for a charge that has some already. With [`OwnerLimit::Fair`] its owner holds no
    /// more than is free beside that charge.
    fn take(&self, owner: BodyOwner, own: usize, bytes: usize, limit: OwnerLimit) -> bool {
        let mut held = self.held();
        let free = self.limit.saturating_sub(held.total);
        let fair = free.saturating_add(own);
        let most = match (owner, limit) {
            (BodyOwner::Anonymous, _) => (self.limit / ANONYMOUS_PART).min(fair),
            (_, OwnerLimit::Fair) => fair,
            (_, OwnerLimit::Most) => self.limit / 4 * 3,
        };
        if bytes > free || held.of(owner).saturating_add(bytes) > most {
            return false;
        }
        held.total += bytes;
        *held.owners.entry(owner).or_default() += bytes;
        true
    }

    fn give_back(&self, owner: BodyOwner, bytes: usize) {
        let mut held = self.held();
        held.total = held.total.saturating_sub(bytes);
        let rest = held.of(owner).saturating_sub(bytes);
        if rest == 0 {
            held.owners.remove(&owner);
        } else {
            held.owners.insert(owner, rest);
        }
        drop(held);
        self.freed.notify_waiters();
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        lock(&self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1024 * 1024;

    fn project(id: i64) -> BodyOwner {
        BodyOwner::Project(ProjectId(id))
    }

    #[tokio::test(start_paused = true)]
    async fn a_project_leaves_room_for_others() {
        let memory = BodyMemory::new(100);
        let one = memory.charge(project(1), 50).await.unwrap();
        assert!(matches!(memory.charge(project(1), 1).await, Err(Error::Busy { .. })));
        let two = memory.charge(project(2), 25).await.unwrap();
        assert!(memory.charge(project(2), 1).await.is_err());
        let three = memory.charge(project(3), 12).await.unwrap();
        drop((one, two, three));
        assert_eq!(memory.0.held().total, 0);
        assert!(memory.0.held().owners.is_empty());
        assert!(memory.charge(project(1), 101).await.is_err());
        drop(memory.charge(BodyOwner::Member(UserId(1)), 100).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_share_one_small_part() {
        let memory = BodyMemory::new(160);
        let stranger = memory.charge(BodyOwner::Anonymous, 10).await.unwrap();
        assert!(memory.charge(BodyOwner::Anonymous, 1).await.is_err());
        drop(memory.charge(project(1), 70).await.unwrap());
        drop(stranger);
        drop(memory.charge(BodyOwner::Anonymous, 10).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn room_is_waited_for() {
        let memory = BodyMemory::new(100);
        let one = memory.charge(project(1), 50).await.unwrap();
        let waits = memory.charge(project(1), 30);
        let frees = async {
            tokio::time::sleep(ROOM_TIMEOUT / 2).await;
            drop(one);
        };
        let (taken, ()) = tokio::join!(waits, frees);
        let taken = taken.unwrap();
        assert_eq!((taken.bytes, memory.0.held().total), (30, 30));
        drop(taken);
        assert_eq!(memory.0.held().total, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_charge_only_rises() {
        let memory = BodyMemory::new(100);
        let mut charge = memory.charge(project(1), 20).await.unwrap();
        charge.raise(10).await.unwrap();
        assert_eq!(charge.bytes, 20);
        charge.raise(60).await.unwrap();
        assert_eq!(memory.0.held().total, 60);
        assert!(charge.raise(101).await.is_err());
        assert_eq!(memory.0.held().total, 60, "what it had stays");
    }

    /// The least memory that the configuration allows holds the largest body on an idle gateway.
    #[tokio::test(start_paused = true)]
    async fn the_largest_body_fits_into_the_least_memory() {
        let most = 43_000_000;
        let memory = BodyMemory::new(least_body_memory(most));
        let mut charge = memory.charge(project(1), plain_bytes(most)).await.unwrap();
        charge.raise(least_body_memory(most)).await.unwrap();
        charge.lower(100);
        assert_eq!(memory.0.held().total, 100);
        memory.charge(project(2), plain_bytes(most)).await.unwrap();
    }

    #[test]
    fn short_bodies_are_charged_with_their_trees() {
        let dense = format!("{{\"z\":[{}]}}", vec!["[]"; 5_000].join(","));
        let charged = json_bytes(dense.as_bytes(), true).unwrap();
        assert!(charged >= 5_000 * size_of::<serde_json::Value>(), "{charged}");
        assert!(charged > 2 * plain_bytes(dense.len()));
        let said =
            format!(r#"{{"messages":[{{"role":"user","content":"{}"}}]}}"#, "words ".repeat(300));
        assert_eq!(json_bytes(said.as_bytes(), true).unwrap(), plain_bytes(said.len()));
    }

    #[test]
    fn depth_is_bounded_in_what_is_passed_over_too() {
        let deep = |depth: usize| format!(r#"{{"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        for as_tree in [true, false] {
            assert!(json_bytes(deep(126).as_bytes(), as_tree).is_ok());
            let error = json_bytes(deep(127).as_bytes(), as_tree).unwrap_err().to_string();
            assert!(error.contains("at most 127 levels"), "{error}");
            let named = br#"{"a":{"$serde_json::private::R\u0061wValue":"[]"}}"#;
            assert!(json_bytes(named, as_tree).unwrap_err().to_string().contains("reserved"));
        }
    }

    #[test]
    fn dense_bodies_are_refused_and_ordinary_ones_are_not() {
        let list = |item: &str, bytes: usize| {
            format!("[{}]", vec![item; bytes / (item.len() + 1)].join(",")).into_bytes()
        };
        for item in [r#""""#, "0", "[]", "{}", "[[[[]]]]", r#"{"a":0}"#, r#"{"a":{"a":{}}}"#] {
            let error = json_bytes(&list(item, 10 * MIB), true).unwrap_err().to_string();
            assert!(error.starts_with("The body has too many values for its size"), "{error}");
        }
        let schema = r#"{"type":"function","function":{"name":"get_weather","description":"The weather of a city",
            "parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}"#;
        let called = r#"{"role":"assistant","content":null,"tool_calls":[{"id":"call_abcdefghijkl","type":"function",
            "function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\",\"days\":3,\"units\":\"metric\"}"}}]},
            {"role":"tool","tool_call_id":"call_abcdefghijkl","content":"Cloudy, 8 degrees, light wind from the west."}"#;
        let said = format!(r#"{{"role":"user","content":"{}"}}"#, "A few words. ".repeat(20));
        for (item, bytes) in [(schema, 300_000), (called, 2 * MIB), (said.as_str(), 10 * MIB)] {
            let json = list(item, bytes);
            let taken = json_bytes(&json, true).unwrap();
            assert!(taken <= MAX_BYTES_PER_BYTE * json.len() + TREE_ALLOWANCE, "{item}");
        }
        assert!(json_bytes(&list("0", 10 * MIB), false).is_ok(), "where no tree is built");
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_hold_memory_do_not_wait_for_each_other() {
        let memory = BodyMemory::new(100);
        let held = [HeldCharge::default(), HeldCharge::default()];
        for charge in &held {
            charge.hold(memory.charge(project(1), 25).await.unwrap());
        }
        held[0].add(&memory, project(1), 15).await.unwrap();
        held[1].add(&memory, project(1), 10).await.unwrap();
        assert!(held[0].add(&memory, project(1), 1).await.is_err(), "a quarter is for others");
        held[1].give_back(10);
        held[0].add(&memory, project(1), 10).await.unwrap();
        drop(held);
        memory.charge(project(2), 100).await.unwrap();
    }
}

//! Which server has the keys of a project.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use redis::{Value, cmd};

use crate::connect;
use crate::link::{Link, Ranges};
use crate::reply::{list, number, text};
use crate::target::{Address, Mode, Target};

/// The slots of a cluster.
const SLOTS: u16 = 16_384;

/// The servers, each with its slots.
#[derive(Debug)]
pub(crate) struct Topology {
    links: ArcSwap<Vec<Arc<Link>>>,
}

impl Topology {
    /// The servers of a target as they are now.
    pub(crate) async fn find(target: &Target) -> Result<Self, String> {
        let whole = vec![(0, SLOTS - 1)];
        let links = match target.mode {
            Mode::Single => vec![Arc::new(Link::new(target.hosts.first().cloned(), whole))],
            Mode::Sentinel => vec![Arc::new(Link::new(None, whole))],
            Mode::Cluster => {
                let masters = masters(target, &target.hosts).await?;
                masters
                    .into_iter()
                    .map(|(at, ranges)| Arc::new(Link::new(Some(at), ranges)))
                    .collect()
            }
        };
        Ok(Self { links: ArcSwap::from_pointee(links) })
    }

    pub(crate) fn links(&self) -> Arc<Vec<Arc<Link>>> {
        self.links.load_full()
    }

    /// The server that has a slot.
    pub(crate) fn link(&self, slot: u16) -> Option<Arc<Link>> {
        let links = self.links.load();
        links.iter().find(|link| has(&link.ranges.load(), slot)).cloned()
    }

    /// Looks at a cluster anew. Returns the servers that are new; those that are gone are told so.
    pub(crate) async fn refresh(&self, target: &Target) -> Result<Vec<Arc<Link>>, String> {
        let before = self.links();
        let known = before.iter().filter_map(|link| link.address.clone());
        let hosts: Vec<Address> = known.chain(target.hosts.iter().cloned()).collect();
        let masters = masters(target, &hosts).await?;
        let (mut links, mut added) = (Vec::new(), Vec::new());
        for (address, ranges) in masters {
            match before.iter().find(|link| link.address.as_ref() == Some(&address)) {
                Some(link) => {
                    if **link.ranges.load() != ranges {
                        link.ranges.store(Arc::new(ranges));
                    }
                    links.push(link.clone());
                }
                None => {
                    let link = Arc::new(Link::new(Some(address), ranges));
                    added.push(link.clone());
                    links.push(link);
                }
            }
        }
        let is_gone = |link: &&Arc<Link>| !links.iter().any(|kept| Arc::ptr_eq(kept, link));
        before.iter().filter(is_gone).for_each(|link| link.gone.cancel());
        self.links.store(Arc::new(links));
        Ok(added)
    }
}

pub(crate) fn has(ranges: &Ranges, slot: u16) -> bool {
    ranges.iter().any(|(first, last)| (*first..=*last).contains(&slot))
}

/// The masters of a cluster with their slots, as the first host to answer knows them.
async fn masters(target: &Target, hosts: &[Address]) -> Result<Vec<(Address, Ranges)>, String> {
    let mut why = "no host is named".to_owned();
    for host in hosts {
        match tokio::time::timeout(std::time::Duration::from_secs(1), slots(target, host)).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => why = error,
            Err(_) => "it does not answer".clone_into(&mut why),
        }
    }
    Err(why)
}

async fn slots(target: &Target, host: &Address) -> Result<Vec<(Address, Ranges)>, String> {
    let mut connection = connect::plain(target, host, true).await?;
    let reply: Value = cmd("CLUSTER")
        .arg("SLOTS")
        .query_async(&mut connection)
        .await
        .map_err(|error| error.to_string())?;
    let mut found: HashMap<Address, Ranges> = HashMap::new();
    let strange = |_| "its slots cannot be read".to_owned();
    for range in list(reply).map_err(strange)? {
        let mut parts = list(range).map_err(strange)?.into_iter();
        let (Some(first), Some(last), Some(master)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err("its slots cannot be read".to_owned());
        };
        let slot = |part: &Value| {
            number(part)
                .ok()
                .and_then(|number| u16::try_from(number).ok())
                .filter(|slot| *slot < SLOTS)
        };
        let master = list(master).map_err(strange)?;
        let [name, port, ..] = &master[..] else {
            return Err("its slots cannot be read".to_owned());
        };
        // A server that knows no name for itself leaves it out: then it is the one that was asked.
        let name = text(name).unwrap_or_default();
        let name = if name.is_empty() { host.0.as_str() } else { name };
        let port = number(port).ok().and_then(|port| u16::try_from(port).ok());
        let (Some(first), Some(last), Some(port)) = (slot(&first), slot(&last), port) else {
            return Err("its slots cannot be read".to_owned());
        };
        found.entry((name.to_owned(), port)).or_default().push((first, last));
    }
    if found.is_empty() {
        return Err(
            "its cluster has no slots: set it up with `redis-cli --cluster create`".to_owned()
        );
    }
    let mut found: Vec<_> = found.into_iter().collect();
    for (_, ranges) in &mut found {
        ranges.sort_unstable();
    }
    found.sort_unstable();
    Ok(found)
}

/// The slot of a hash tag: CRC-16/XMODEM.
pub(crate) fn slot_of(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_redis() {
        // By `redis-cli CLUSTER KEYSLOT`.
        assert_eq!(slot_of("123456789"), 12_739);
        assert_eq!(slot_of("foo"), 12_182);
        assert_eq!(slot_of("p7"), 3_821);
    }
}

//! Sealing: AES-256-GCM with random nonces, keys wrapped by a master key.
//!
//! A sealed value is `version (1) | key id (8, big endian) | nonce (12) | ciphertext | tag (16)`.
//! The associated data names the location of the value, so that a row cannot be moved to another.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::rand;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use crate::error::{Error, Result};

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 1 + 8 + NONCE_LEN;
/// The key id in values that the master key itself sealed.
const MASTER: i64 = 0;
/// The key id in values that are never stored: browsers keep them.
const COOKIES: i64 = -1;
/// Room that a thread keeps for compressing.
const KEPT_BUFFER_BYTES: usize = 64 * 1024;
/// Above this a stored content is damaged or hostile: no request is larger.
const MAX_CONTENT_BYTES: usize = 128 * 1024 * 1024;

/// A 256-bit key that seals values.
#[derive(Clone)]
pub struct SealingKey {
    id: i64,
    key: Arc<RandomizedNonceKey>,
}

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SealingKey({}, ***)", self.id)
    }
}

impl SealingKey {
    /// The master key, from its 32 bytes.
    pub fn master(bytes: &[u8; 32]) -> Result<Self> {
        Self::new(MASTER, bytes)
    }

    /// The key of what browsers keep, from 32 bytes that nothing else uses.
    pub fn of_cookies(bytes: &[u8; 32]) -> Result<Self> {
        Self::new(COOKIES, bytes)
    }

    pub(crate) fn new(id: i64, bytes: &[u8]) -> Result<Self> {
        let key = RandomizedNonceKey::new(&AES_256_GCM, bytes).map_err(|_| Error::Seal)?;
        Ok(Self { id, key: Arc::new(key) })
    }

    /// Seals a value for one location.
    pub fn seal(&self, place: &str, plain: &[u8]) -> Result<Vec<u8>> {
        let mut sealed = Vec::with_capacity(HEAD_BYTES + plain.len() + 16);
        sealed.push(VERSION);
        sealed.extend_from_slice(&self.id.to_be_bytes());
        sealed.extend_from_slice(&[0; NONCE_LEN]);
        sealed.extend_from_slice(plain);
        let (nonce, tag) = self
            .key
            .seal_in_place_separate_tag(Aad::from(place.as_bytes()), &mut sealed[HEAD_BYTES..])
            .map_err(|_| Error::Seal)?;
        sealed[HEAD_BYTES - NONCE_LEN..HEAD_BYTES].copy_from_slice(nonce.as_ref());
        sealed.extend_from_slice(tag.as_ref());
        Ok(sealed)
    }

    /// Opens a value that was sealed for this location by this key.
    pub fn open(&self, place: &str, sealed: &[u8]) -> Result<Vec<u8>> {
        Ok(self.open_in_place(place, &mut sealed.to_vec())?.to_vec())
    }

    /// Opens a value in place.
    fn open_in_place<'a>(&self, place: &str, sealed: &'a mut [u8]) -> Result<&'a [u8]> {
        if sealed.len() < HEAD_BYTES || sealed[0] != VERSION || key_id(sealed) != Some(self.id) {
            return Err(Error::Seal);
        }
        let nonce: [u8; NONCE_LEN] =
            sealed[HEAD_BYTES - NONCE_LEN..HEAD_BYTES].try_into().map_err(|_| Error::Seal)?;
        let body = &mut sealed[HEAD_BYTES..];
        let plain = self.key.open_in_place(Nonce::from(&nonce), Aad::from(place.as_bytes()), body);
        Ok(plain.map_err(|_| Error::Seal)?)
    }

    /// Compresses, then seals.
    pub fn seal_content(&self, place: &str, plain: &[u8]) -> Result<Vec<u8>> {
        self.seal(place, &compress(plain)?)
    }

    /// Opens, then decompresses.
    pub fn open_content(&self, place: &str, sealed: Vec<u8>) -> Result<Vec<u8>> {
        self.open_packed(place, sealed)?.unpack()
    }

    /// Opens what [`SealingKey::seal_content`] has sealed, and leaves it compressed. The content may be
    /// large: it is opened in place.
    pub fn open_packed(&self, place: &str, mut sealed: Vec<u8>) -> Result<PackedContent> {
        let packed = self.open_in_place(place, &mut sealed)?;
        let (size, _) = lz4_flex::block::uncompressed_size(packed).map_err(|_| Error::Seal)?;
        if size > MAX_CONTENT_BYTES {
            return Err(Error::Seal);
        }
        let packed = HEAD_BYTES..HEAD_BYTES + packed.len();
        Ok(PackedContent { opened: sealed, packed, size })
    }

    /// The number of this key; sealed values carry it.
    pub fn id(&self) -> i64 {
        self.id
    }
}

/// A content that was opened, and is still compressed.
pub struct PackedContent {
    opened: Vec<u8>,
    /// The compressed bytes in it.
    packed: Range<usize>,
    size: usize,
}

impl std::fmt::Debug for PackedContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PackedContent({} bytes)", self.size)
    }
}

impl PackedContent {
    /// The size of the content, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Decompresses it.
    pub fn unpack(&self) -> Result<Vec<u8>> {
        let packed = self.opened.get(self.packed.clone()).ok_or(Error::Seal)?;
        lz4_flex::block::decompress_size_prepended(packed).map_err(|_| Error::Seal)
    }
}

/// LZ4 with the length in front. The table it works with and the room for usual sizes are kept per
/// thread: they cost more to make than to use.
fn compress(plain: &[u8]) -> Result<Vec<u8>> {
    thread_local! {
        static KEPT: RefCell<(CompressTable, Vec<u8>)> =
            RefCell::new((CompressTable::default(), Vec::new()));
    }
    let length = u32::try_from(plain.len()).map_err(|_| Error::Seal)?;
    KEPT.with_borrow_mut(|(table, room)| {
        let needed = get_maximum_output_size(plain.len());
        if room.len() < needed {
            room.resize(needed, 0);
        }
        let size = compress_into_with_table(plain, room, table).map_err(|_| Error::Seal)?;
        let mut packed = Vec::with_capacity(4 + size);
        packed.extend_from_slice(&length.to_le_bytes());
        packed.extend_from_slice(&room[..size]);
        room.truncate(KEPT_BUFFER_BYTES);
        room.shrink_to(KEPT_BUFFER_BYTES);
        Ok(packed)
    })
}

/// The number of the key that sealed a value.
pub(crate) fn key_id(sealed: &[u8]) -> Option<i64> {
    sealed.get(1..9)?.try_into().ok().map(i64::from_be_bytes)
}

/// Random bytes from the system.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| Error::Unavailable("no randomness".to_owned()))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opens_only_in_its_place_with_its_key() {
        let key = SealingKey::new(7, &[1; 32]).unwrap();
        let sealed = key.seal_content("step:1", b"hello hello hello").unwrap();
        assert_eq!(key_id(&sealed), Some(7));
        assert_eq!(key.open_content("step:1", sealed.clone()).unwrap(), b"hello hello hello");
        assert!(key.open_content("step:2", sealed.clone()).is_err());
        let other = SealingKey::new(7, &[2; 32]).unwrap();
        assert!(other.open_content("step:1", sealed.clone()).is_err());
        for cut in 0..sealed.len() {
            assert!(key.open_content("step:1", sealed[..cut].to_vec()).is_err());
        }
        let mut changed = sealed.clone();
        changed[30] ^= 1;
        assert!(key.open_content("step:1", changed).is_err());
    }

    #[test]
    fn the_same_text_never_looks_the_same() {
        let key = SealingKey::new(1, &[1; 32]).unwrap();
        assert_ne!(key.seal("a", b"x").unwrap(), key.seal("a", b"x").unwrap());
        assert_eq!(format!("{key:?}"), "SealingKey(1, ***)");
    }
}

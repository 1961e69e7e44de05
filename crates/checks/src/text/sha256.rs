//! SHA-256, only to verify the checksums of wallet addresses; never used to protect anything.

const PRIMES: [u32; 64] = primes();

const fn primes() -> [u32; 64] {
    let mut out = [0; 64];
    let (mut found, mut n) = (0, 2);
    while found < 64 {
        let mut d = 2;
        while d * d <= n && n % d != 0 {
            d += 1;
        }
        if d * d > n {
            out[found] = n;
            found += 1;
        }
        n += 1;
    }
    out
}

/// The first 32 bits of the fractional part of the `root`-th root of `n`.
const fn fraction(n: u32, root: u32) -> u32 {
    // Binary search for floor(n^(1/root) * 2^32) in integers.
    let (mut low, mut high) = (0u128, 1u128 << 36);
    while high - low > 1 {
        let mid = u128::midpoint(low, high);
        let fits = if root == 2 { mid * mid <= (n as u128) << 64 } else { cube_at_most(mid, n) };
        if fits {
            low = mid;
        } else {
            high = mid;
        }
    }
    low as u32
}

/// Whether mid^3 <= n * 2^96. The roots of the first 64 primes are below 8, so `mid` stays below 2^35.
const fn cube_at_most(mid: u128, n: u32) -> bool {
    if mid >= 1 << 35 {
        return false;
    }
    mid * mid * mid <= (n as u128) << 96
}

const fn table<const N: usize>(root: u32) -> [u32; N] {
    let mut out = [0; N];
    let mut i = 0;
    while i < N {
        out[i] = fraction(PRIMES[i], root);
        i += 1;
    }
    out
}

const START: [u32; 8] = table(2);
const ROUND: [u32; 64] = table(3);

/// The digest of a short message.
pub(crate) fn digest(message: &[u8]) -> [u8; 32] {
    let mut padded = message.to_vec();
    padded.push(0x80);
    while padded.len() % 64 != 56 {
        padded.push(0);
    }
    padded.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    let mut state = START;
    for block in padded.as_chunks::<64>().0 {
        compress(&mut state, block);
    }
    let mut out = [0; 32];
    for (chunk, word) in out.chunks_exact_mut(4).zip(state) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    out
}

fn compress(state: &mut [u32; 8], block: &[u8; 64]) {
    let mut words = [0u32; 64];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_be_bytes(*bytes);
    }
    for i in 16..64 {
        let (x, y) = (words[i - 15], words[i - 2]);
        let small = x.rotate_right(7) ^ x.rotate_right(18) ^ (x >> 3);
        let large = y.rotate_right(17) ^ y.rotate_right(19) ^ (y >> 10);
        words[i] = words[i - 16].wrapping_add(small).wrapping_add(words[i - 7]).wrapping_add(large);
    }
    let mut v = *state;
    for i in 0..64 {
        let high = v[4].rotate_right(6) ^ v[4].rotate_right(11) ^ v[4].rotate_right(25);
        let choice = (v[4] & v[5]) ^ (!v[4] & v[6]);
        let first = v[7]
            .wrapping_add(high)
            .wrapping_add(choice)
            .wrapping_add(ROUND[i])
            .wrapping_add(words[i]);
        let low = v[0].rotate_right(2) ^ v[0].rotate_right(13) ^ v[0].rotate_right(22);
        let majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        v = [
            first.wrapping_add(low.wrapping_add(majority)),
            v[0],
            v[1],
            v[2],
            v[3].wrapping_add(first),
            v[4],
            v[5],
            v[6],
        ];
    }
    for (word, add) in state.iter_mut().zip(v) {
        *word = word.wrapping_add(add);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn digest_of_nothing_and_of_two_blocks() {
        let head = |message: &[u8]| super::digest(message)[..4].to_vec();
        assert_eq!(head(b""), [0xe3, 0xb0, 0xc4, 0x42]);
        assert_eq!(head(b"abc"), [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(head(&[b'a'; 56]), [0xb3, 0x54, 0x39, 0xa4]);
    }
}

//! Check digits. Digits come as numbers 0 to 9, letters where noted as ASCII.

use crate::text::sha256;

/// Luhn: payment cards, Canadian SIN, Swedish and other numbers.
pub(crate) fn luhn(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(i, &d)| {
            let d = u32::from(d) << (i & 1);
            if d > 9 { d - 9 } else { d }
        })
        .sum();
    sum.is_multiple_of(10)
}

/// The sum of digits times weights; as many digits as there are weights.
pub(crate) fn weighted(digits: &[u8], weights: &[u32]) -> u32 {
    digits.iter().zip(weights).map(|(&d, w)| u32::from(d) * w).sum()
}

/// Verhoeff, by the dihedral group of order ten: Aadhaar.
pub(crate) fn verhoeff(digits: &[u8]) -> bool {
    const PERMUTE: [u8; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
    let multiply = |a: u8, b: u8| match (a < 5, b < 5) {
        (true, true) => (a + b) % 5,
        (true, false) => 5 + (a + b - 5) % 5,
        (false, true) => 5 + (a - 5 + 5 - b) % 5,
        (false, false) => (a - 5 + 5 - (b - 5)) % 5,
    };
    let mut check = 0;
    for (i, &digit) in digits.iter().rev().enumerate() {
        let permuted = (0..i % 8).fold(digit, |d, _| PERMUTE[d as usize]);
        check = multiply(check, permuted);
    }
    check == 0
}

/// [`mod_97`] with the first four characters moved to the end: IBAN.
pub(crate) fn iban(compact: &[u8]) -> bool {
    compact.split_at_checked(4).is_some_and(|(head, rest)| mod_97(rest.iter().chain(head)))
}

/// ISO 7064 mod 97-10 over digits and capital letters, the check digits last: LEI.
pub(crate) fn mod_97<'a>(compact: impl Iterator<Item = &'a u8>) -> bool {
    let mut rest: u32 = 0;
    for &byte in compact {
        rest = match byte {
            b'0'..=b'9' => rest * 10 + u32::from(byte - b'0'),
            b'A'..=b'Z' => rest * 100 + u32::from(byte - b'A') + 10,
            _ => return false,
        } % 97;
    }
    rest == 1
}

/// ISO 7064 mod 11,10: German tax number, Croatian OIB.
pub(crate) fn mod_11_10(digits: &[u8]) -> bool {
    let Some((check, body)) = digits.split_last() else { return false };
    let product = body.iter().fold(10u32, |product, &d| {
        let sum = (u32::from(d) + product) % 10;
        (if sum == 0 { 10 } else { sum }) * 2 % 11
    });
    (11 - product) % 10 == u32::from(*check)
}

/// CRC-32 of the usual polynomial: the last characters of GitHub's tokens.
pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ (0xedb8_8320 & 0u32.wrapping_sub(sum & 1))
        })
    };
    !bytes.iter().fold(u32::MAX, step)
}

/// The number that digits spell.
pub(crate) fn number(digits: &[u8]) -> u64 {
    digits.iter().fold(0, |n, &d| n * 10 + u64::from(d))
}

/// `Base58Check`: legacy wallet addresses.
pub(crate) fn base58check(token: &[u8]) -> bool {
    base58::<25>(token.iter().copied())
}

/// The same for keys of so many bytes, of which the first characters are apart.
pub(crate) fn base58check_key<const BYTES: usize>(prefix: &str, rest: &str) -> bool {
    base58::<BYTES>(prefix.bytes().chain(rest.bytes()))
}

/// The longest value in base 58 that is checked: an extended key.
const LONGEST: usize = 82;

fn base58<const BYTES: usize>(token: impl Iterator<Item = u8>) -> bool {
    const ALPHABET: &[u8] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    /// As many digits at once as fit: 58 to the fifth is less than 2 to the 32nd.
    const AT_ONCE: usize = 5;
    let mut words = [0u32; LONGEST.div_ceil(4)];
    let used = words.len() - BYTES.div_ceil(4);
    let mut add = |factor: u64, digits: u64| {
        words[used..].iter_mut().rev().fold(digits, |carry, word| {
            let sum = u64::from(*word) * factor + carry;
            *word = sum as u32;
            sum >> 32
        }) == 0
    };
    let (mut factor, mut digits, mut count) = (1, 0, 0);
    for c in token {
        let Some(digit) = ALPHABET.iter().position(|&a| a == c) else { return false };
        (factor, digits, count) = (factor * 58, digits * 58 + digit as u64, count + 1);
        if count == AT_ONCE {
            if !add(factor, digits) {
                return false;
            }
            (factor, digits, count) = (1, 0, 0);
        }
    }
    if !add(factor, digits) {
        return false;
    }
    let mut all = [0u8; LONGEST.next_multiple_of(4)];
    for (four, word) in all.chunks_exact_mut(4).zip(words) {
        four.copy_from_slice(&word.to_be_bytes());
    }
    let (rest, bytes) = all.split_at(all.len() - BYTES);
    if rest.iter().any(|&byte| byte != 0) {
        return false;
    }
    sha256::digest(&sha256::digest(&bytes[..BYTES - 4]))[..4] == bytes[BYTES - 4..]
}

/// Bech32 and Bech32m: `bc1...` addresses, lower-case.
pub(crate) fn bech32(prefix: &[u8], data: &[u8]) -> bool {
    const ALPHABET: &[u8] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let step = |check: u32, value: u32| {
        let top = check >> 25;
        let next = ((check & 0x01ff_ffff) << 5) ^ value;
        GENERATOR
            .iter()
            .enumerate()
            .fold(next, |c, (i, g)| if top >> i & 1 == 1 { c ^ g } else { c })
    };
    let mut check = prefix.iter().fold(1, |c, &b| step(c, u32::from(b >> 5)));
    check = step(check, 0);
    check = prefix.iter().fold(check, |c, &b| step(c, u32::from(b & 31)));
    for c in data {
        let Some(value) = ALPHABET.iter().position(|a| a == c) else { return false };
        check = step(check, value as u32);
    }
    check == 1 || check == 0x2bc8_30a3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digits(text: &str) -> Vec<u8> {
        text.bytes().filter(u8::is_ascii_digit).map(|b| b - b'0').collect()
    }

    #[test]
    fn check_digits() {
        assert!(luhn(&digits("4111 1111 1111 1111")) && !luhn(&digits("4111 1111 1111 1112")));
        assert!(verhoeff(&digits("2363")) && !verhoeff(&digits("2364")));
        assert!(iban(b"GB82WEST12345698765432") && !iban(b"GB82WEST12345698765433"));
        assert!(!iban(b"GB8"));
        assert!(mod_97(b"5493001KJTIIGC8Y1R12".iter()));
        assert!(!mod_97(b"5493001KJTIIGC8Y1R21".iter()));
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert!(mod_11_10(&digits("86095742719")) && !mod_11_10(&digits("86095742718")));
        assert!(base58check(b"1BoatSLRHtKNngkdXEeobR76b53LETtpyT"));
        assert!(!base58check(b"1BoatSLRHtKNngkdXEeobR76b53LETtpyU") && !base58check(&[b'z'; 40]));
        assert!(bech32(b"bc", b"qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"));
    }
}

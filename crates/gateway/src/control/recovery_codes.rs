//! Recovery codes: `xxxx-xxxx-xxxx-xxxx`, 80 random bits in the alphabet of Crockford's base32, which has
//! no letters that look like digits. No I/O.

use domain::ids::UserId;
use domain::secret::Secret;

use crate::admission::admit::hash_secret;

/// The codes of a set.
pub(crate) const CODES: usize = 10;
/// The random bytes of a code.
pub(crate) const CODE_BYTES: usize = 10;
const LETTERS: usize = 16;
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

/// A code, as it is shown.
pub(crate) fn shown(bytes: [u8; CODE_BYTES]) -> Secret {
    let mut text = String::with_capacity(LETTERS + 3);
    for letter in 0..LETTERS {
        if letter > 0 && letter % 4 == 0 {
            text.push('-');
        }
        let value = (0..5).fold(0, |value, bit| {
            let at = letter * 5 + bit;
            (value << 1) | usize::from((bytes[at / 8] >> (7 - at % 8)) & 1)
        });
        text.push(char::from(ALPHABET[value]));
    }
    Secret::new(text)
}

/// The letters of a code that somebody typed, if it may be one: in any case, with or without hyphens and
/// spaces, and with the letters that look like digits.
pub(crate) fn read(typed: &str) -> Option<Secret> {
    let mut letters = String::with_capacity(LETTERS);
    for letter in typed.chars().filter(|letter| !matches!(letter, ' ' | '-')) {
        let letter = match letter.to_ascii_lowercase() {
            'o' => '0',
            'i' | 'l' => '1',
            other => other,
        };
        let is_known = u8::try_from(letter).is_ok_and(|letter| ALPHABET.contains(&letter));
        if !is_known || letters.len() == LETTERS {
            return None;
        }
        letters.push(letter);
    }
    (letters.len() == LETTERS).then(|| Secret::new(letters))
}

/// The keyed hash of a code's letters, which is stored in its place.
pub(crate) fn hash(pepper: &[u8; 32], user: UserId, letters: &Secret) -> [u8; 32] {
    hash_secret(pepper, &format!("recovery:{user}:{}", letters.expose()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bits_are_in_a_code() {
        for (bytes, code) in [
            ([0; 10], "0000-0000-0000-0000"),
            ([255; 10], "zzzz-zzzz-zzzz-zzzz"),
            ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], "0410-6105-0r3g-g28a"),
        ] {
            assert_eq!(shown(bytes).expose(), code);
        }
        for bit in 0..80 {
            let mut bytes = [0; 10];
            bytes[bit / 8] = 1 << (bit % 8);
            assert_ne!(shown(bytes).expose(), shown([0; 10]).expose(), "{bit}");
        }
    }

    #[test]
    fn a_code_is_read_however_it_is_typed() {
        for (typed, letters) in [
            ("0410-6105-0r3g-g28a", Some("041061050r3gg28a")),
            ("041061050R3GG28A", Some("041061050r3gg28a")),
            (" o4l0 6i05  or3g-g28a ", Some("041061050r3gg28a")),
            ("041061050r3gg28", None),
            ("041061050r3gg28ab", None),
            ("041061050r3gg28u", None),
            ("041061050r3gg28é", None),
            ("", None),
            ("287082", None),
        ] {
            assert_eq!(read(typed).as_ref().map(Secret::expose), letters, "{typed}");
        }
    }

    #[test]
    fn a_hash_is_of_one_user_and_one_gateway() {
        let letters = read("0410-6105-0r3g-g28a").unwrap();
        let one = hash(&[1; 32], UserId(1), &letters);
        assert_eq!(one, hash(&[1; 32], UserId(1), &letters));
        assert_ne!(one, hash(&[1; 32], UserId(2), &letters));
        assert_ne!(one, hash(&[2; 32], UserId(1), &letters));
    }
}

//! Characters that are written as escapes: `%40`, `\x40`, `\u0040`, `\u{40}`, `&#64;`, `&commat;`.

/// The names of characters in HTML that stand in values.
const NAMES: [(&[u8], char); 28] = [
    (b"commat", '@'),
    (b"period", '.'),
    (b"lowbar", '_'),
    (b"UnderBar", '_'),
    (b"hyphen", '-'),
    (b"dash", '-'),
    (b"num", '#'),
    (b"colon", ':'),
    (b"semi", ';'),
    (b"comma", ','),
    (b"sol", '/'),
    (b"bsol", '\\'),
    (b"plus", '+'),
    (b"equals", '='),
    (b"percnt", '%'),
    (b"dollar", '$'),
    (b"excl", '!'),
    (b"quest", '?'),
    (b"lpar", '('),
    (b"rpar", ')'),
    (b"Tab", '\t'),
    (b"NewLine", '\n'),
    (b"amp", '&'),
    (b"lt", '<'),
    (b"gt", '>'),
    (b"quot", '"'),
    (b"apos", '\''),
    (b"nbsp", ' '),
];
/// How many of them, at the end, are written for other reasons all over pages.
const COMMON: usize = 6;
/// The longest name.
const LONGEST: usize = 8;
/// The most zeros in front of the number of a character.
const MAX_ZEROS: usize = 1024;

/// An escape: what it stands for, how long it is, and whether nothing is to be looked for because of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Escape {
    pub(super) value: char,
    pub(super) length: usize,
    pub(super) is_common: bool,
}

/// The escape that a text begins with.
pub(super) fn read(text: &[u8]) -> Option<Escape> {
    let escape = |value, length| Escape { value, length, is_common: false };
    match text {
        [b'%', ..] | [b'\\', b'x', ..] => {
            let (first, length) = byte(text)?;
            if first < 0x80 {
                return Some(escape(char::from(first), length));
            }
            let (value, length) = character(text, first, length);
            Some(escape(value, length))
        }
        [b'\\', b'u' | b'U', b'{', rest @ ..] => {
            let digits = rest.iter().take(8).take_while(|b| b.is_ascii_hexdigit()).count();
            let ends = rest.get(digits) == Some(&b'}');
            ends.then_some(escape(char::from_u32(hexadecimal(&rest[..digits])?)?, digits + 4))
        }
        [b'\\', b'u', rest @ ..] => {
            let unit = hexadecimal(rest.get(..4)?)?;
            if let 0xd800..0xdc00 = unit
                && let Some([b'\\', b'u', low @ ..]) = rest.get(4..)
                && let Some(low @ 0xdc00..0xe000) = hexadecimal(low.get(..4)?)
            {
                let value = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
                return Some(escape(char::from_u32(value)?, 12));
            }
            Some(escape(char::from_u32(unit)?, 6))
        }
        [b'\\', b'U', rest @ ..] => Some(escape(char::from_u32(hexadecimal(rest.get(..8)?)?)?, 10)),
        [b'&', b'#', rest @ ..] => {
            let (base, lead) = if let [b'x' | b'X', ..] = rest { (16, 1) } else { (10, 0) };
            let is_digit = |b: &&u8| (**b as char).is_digit(base);
            // Zeros may stand in front, any number of them.
            let zeros = rest[lead..].iter().take(MAX_ZEROS).take_while(|&&b| b == b'0').count();
            let lead = lead + zeros;
            let digits = rest[lead..].iter().take(8).take_while(is_digit).count();
            let number = std::str::from_utf8(&rest[lead..lead + digits]).ok()?;
            let value = char::from_u32(u32::from_str_radix(number, base).ok()?)?;
            // Browsers read it without its end as well.
            let ends = usize::from(rest.get(lead + digits) == Some(&b';'));
            Some(escape(value, 2 + lead + digits + ends))
        }
        [b'&', rest @ ..] => {
            let end = rest.iter().take(LONGEST + 1).position(|&b| b == b';')?;
            let index = NAMES.iter().position(|(name, _)| *name == &rest[..end])?;
            let is_common = index + COMMON >= NAMES.len();
            Some(Escape { value: NAMES[index].1, length: end + 2, is_common })
        }
        _ => None,
    }
}

fn hexadecimal(digits: &[u8]) -> Option<u32> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_number)?;
    u32::from_str_radix(digits, 16).ok()
}

/// A byte that is written as `%40` or `\x40`, and how long that is; `\x{40}` as well.
fn byte(text: &[u8]) -> Option<(u8, usize)> {
    let digits = match text {
        [b'%', ..] => 1,
        [b'\\', b'x', b'{', high, low, b'}', ..] => {
            return Some((hexadecimal(&[*high, *low])? as u8, 6));
        }
        [b'\\', b'x', ..] => 2,
        _ => return None,
    };
    Some((hexadecimal(text.get(digits..digits + 2)?)? as u8, digits + 2))
}

/// The character of UTF-8 that begins with a byte, of which the others are written in the same way.
fn character(text: &[u8], first: u8, length: usize) -> (char, usize) {
    let mut all = [first, 0, 0, 0];
    let more = match first {
        0xc0..0xe0 => 1,
        0xe0..0xf0 => 2,
        0xf0.. => 3,
        _ => 0,
    };
    let mut end = length;
    for slot in &mut all[1..=more] {
        let Some((next, length)) = byte(&text[end..]) else { return (latin(first), length) };
        *slot = next;
        end += length;
    }
    let value = std::str::from_utf8(&all[..=more]).ok().and_then(|text| text.chars().next());
    value.map_or((latin(first), length), |value| (value, end))
}

/// A byte that is no UTF-8 is most often Latin.
fn latin(byte: u8) -> char {
    char::from(byte)
}

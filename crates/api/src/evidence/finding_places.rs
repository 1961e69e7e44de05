//! The places of findings in a text as it is stored.

/// The longest name in a placeholder.
const LONGEST_PLACEHOLDER: usize = 100;

/// A finding in a text.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// Its first character in the text as it was sent.
    pub(crate) start: usize,
    /// The one behind it.
    pub(crate) end: usize,
    /// Its name.
    pub(crate) name: String,
    /// Whether a placeholder may stand in its place: of personal data and secrets.
    pub(crate) may_be_replaced: bool,
}

/// Characters of a text as it was sent, and the placeholder that is stored in their place.
struct Replaced {
    start: usize,
    end: usize,
    placed: usize,
    length: usize,
}

/// The places of findings in a text as it is stored: with placeholders for what was replaced, which are longer
/// or shorter. Findings behind its end are left out.
pub(crate) fn in_stored(text: &str, found: &[Mark]) -> Vec<(usize, usize, String)> {
    if found.is_empty() {
        return Vec::new();
    }
    let characters: Vec<char> = text.chars().collect();
    let replaced = replaced(&characters, found);
    let place = |at: usize, is_end: bool| {
        let before = replaced.partition_point(|one| one.start < at + usize::from(!is_end));
        match before.checked_sub(1).and_then(|last| replaced.get(last)) {
            None => at,
            Some(one) if at >= one.end => one.placed + one.length + (at - one.end),
            Some(one) if is_end => one.placed + one.length,
            Some(one) => one.placed,
        }
    };
    let placed = found.iter().map(|mark| (place(mark.start, false), place(mark.end, true), mark));
    let is_there = |(start, _, _): &(usize, usize, &Mark)| *start < characters.len();
    placed.filter(is_there).map(|(start, end, mark)| (start, end, mark.name.clone())).collect()
}

/// The replacements in a text, in order. Findings that overlap are replaced as one.
fn replaced(text: &[char], found: &[Mark]) -> Vec<Replaced> {
    let mut found: Vec<&Mark> = found.iter().filter(|mark| mark.may_be_replaced).collect();
    found.sort_by_key(|mark| (mark.start, std::cmp::Reverse(mark.end)));
    let mut replaced = Vec::new();
    let (mut moved, mut found) = (0_isize, found.into_iter().peekable());
    while let Some(&Mark { start, mut end, .. }) = found.next() {
        let Some(placed) = start.checked_add_signed(moved) else { continue };
        let Some(length) = placeholder(text.get(placed..).unwrap_or_default()) else { continue };
        while let Some(next) = found.next_if(|next| next.start < end) {
            end = end.max(next.end);
        }
        moved += length.cast_signed() - end.saturating_sub(start).cast_signed();
        replaced.push(Replaced { start, end, placed, length });
    }
    replaced
}

/// The length of the placeholder that a text begins with: `[EMAIL_1_0a1b2c3d]`.
fn placeholder(text: &[char]) -> Option<usize> {
    let inner = text.strip_prefix(&['['])?;
    let is_part = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    let length = inner.iter().take(LONGEST_PLACEHOLDER).take_while(|c| is_part(c)).count();
    let name: String = inner[..length].iter().collect();
    let mut parts = name.rsplit('_');
    let (nonce, number) = (parts.next()?, parts.next()?);
    let is_placeholder = inner.get(length) == Some(&']')
        && nonce.len() == 8
        && nonce.bytes().all(|byte| byte.is_ascii_hexdigit())
        && !number.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
        && parts.next().is_some_and(|kind| kind.starts_with(|c: char| c.is_ascii_uppercase()));
    is_placeholder.then_some(length + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_found_again_behind_placeholders() {
        let marked = |found: &[(usize, usize, bool)], stored: &str| -> Vec<String> {
            let mark = |(start, end, may_be_replaced): &(usize, usize, bool)| Mark {
                start: *start,
                end: *end,
                name: String::new(),
                may_be_replaced: *may_be_replaced,
            };
            let found: Vec<Mark> = found.iter().map(mark).collect();
            let places = in_stored(stored, &found);
            places.iter().map(|(start, end, _)| stored[*start..*end].to_owned()).collect()
        };
        // "mail jo@a.example and 4111 1111, key abc" as it was sent.
        assert_eq!(
            marked(
                &[(5, 17, true), (22, 31, true), (37, 40, true)],
                "mail [EMAIL_1_0a1b2c3d] and [CREDIT_CARD_12_0a1b2c3d], key abc"
            ),
            ["[EMAIL_1_0a1b2c3d]", "[CREDIT_CARD_12_0a1b2c3d]", "abc"]
        );
        // "ignore jo@a.example now, key abc": one finding inside another, which is not replaced.
        assert_eq!(
            marked(
                &[(0, 23, false), (7, 19, true), (29, 32, true)],
                "ignore [EMAIL_1_0a1b2c3d] now, key abc"
            ),
            ["ignore [EMAIL_1_0a1b2c3d] now", "[EMAIL_1_0a1b2c3d]", "abc"]
        );
        // "0123456789abcde, key xyz": two that overlap have one placeholder.
        let both = "[PHONE_1_0a1b2c3d]";
        assert_eq!(
            marked(&[(0, 10, true), (5, 15, true), (21, 24, true)], &format!("{both}, key xyz")),
            [both, both, "xyz"]
        );
        // The second one is of a kind that stays as it is.
        assert_eq!(
            marked(
                &[(0, 10, true), (5, 15, false), (21, 24, true)],
                &format!("{both}abcde, key xyz")
            ),
            [both, &format!("{both}abcde"), "xyz"]
        );
        assert!(marked(&[(9, 12, true)], "short").is_empty(), "the rest is not stored");
        for other in ["[x]", "[EMAIL_1]", "[EMAIL_1_zzzzzzzz]", "[EMAIL_x_0a1b2c3d]", "EMAIL", "["]
        {
            assert_eq!(placeholder(&other.chars().collect::<Vec<_>>()), None, "{other}");
        }
    }
}

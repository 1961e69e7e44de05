use super::*;
use crate::redact::look_alikes::imitates_placeholder;

/// A tag that depends on the value, and is the same for those of one length.
fn by_length(kind: &str, value: &str) -> u32 {
    u32::try_from(kind.len() << 16 | value.len()).unwrap()
}

#[test]
fn a_value_has_one_placeholder_in_whichever_order_values_are_met() {
    let values =
        [("EMAIL", "jo@acme.org"), ("EMAIL", "ann@acme.org"), ("IBAN", "DE89370400440532")];
    let named = |order: &[usize]| -> Vec<String> {
        let mut redactor = Redactor::keyed(by_length);
        let mut names = vec![String::new(); values.len()];
        for &index in order {
            names[index] = redactor.replace_whole(values[index].0, values[index].1);
        }
        names
    };
    let names = named(&[0, 1, 2]);
    assert_eq!(names, ["[EMAIL_1_0005000b]", "[EMAIL_1_0005000c]", "[IBAN_1_00040010]"]);
    for order in [[2, 1, 0], [1, 0, 2], [2, 0, 1]] {
        assert_eq!(named(&order), names);
    }
}

#[test]
fn values_that_share_a_tag_are_told_apart() {
    let mut redactor = Redactor::keyed(by_length);
    let values = ["ann@acme.org", "bob@acme.org", "ann@acme.org"];
    let names = values.map(|value| redactor.replace_whole("EMAIL", value));
    assert_eq!(names, ["[EMAIL_1_0005000c]", "[EMAIL_2_0005000c]", "[EMAIL_1_0005000c]"]);
    let text = names.join(", ");
    assert_eq!(redactor.into_placeholders().restore(&text), values.join(", "));
}

#[test]
fn what_imitates_a_placeholder_is_replaced_and_comes_back() {
    let mut redactor = Redactor::keyed(by_length);
    let name = redactor.replace_whole("EMAIL", "ann@acme.org");
    let text = format!("Is {name} yours, or [EMAIL_1_12345678]?");
    assert!(imitates_placeholder(&text) && !imitates_placeholder("[EMAIL_1] [x_1234567]"));
    let replaced = redactor.redact(&text, &[]).unwrap();
    assert!(!replaced.contains("EMAIL"), "{replaced}");
    let placeholders = redactor.into_placeholders();
    assert_eq!(placeholders.restore(&replaced), text);
    assert_eq!(placeholders.restore(&name), "ann@acme.org");
}

#[test]
fn imitations_beyond_the_limit_stay_and_no_placeholder_is_one_of_them() {
    let mut redactor = Redactor::keyed(|_, _| 0x1234_5678);
    let names: Vec<String> = (0..MAX_IMITATIONS + 50).map(|n| format!("[a_{n:08x}]")).collect();
    let text = format!("{} [EMAIL_1_12345678]", names.join(" "));
    let replaced = redactor.redact(&text, &[]).unwrap();
    assert!(!replaced.contains(&names[MAX_IMITATIONS - 1]));
    assert!(replaced.ends_with(&text[text.find(&names[MAX_IMITATIONS]).unwrap()..]));
    // The text names what would be the first placeholder.
    assert_eq!(redactor.replace_whole("EMAIL", "ann@acme.org"), "[EMAIL_2_12345678]");
    // A text that is a placeholder by now is replaced all the same.
    let again = redactor.redact("[EMAIL_2_12345678]", &[]).unwrap();
    let placeholders = redactor.into_placeholders();
    assert_eq!(placeholders.restore(&replaced), text);
    assert_eq!(placeholders.restore(&again), "[EMAIL_2_12345678]");
}

#[test]
fn placeholders_give_way_to_a_word() {
    let mut redactor = Redactor::keyed(by_length);
    let name = redactor.replace_whole("EMAIL", "ann@acme.org");
    let text = format!("{name}{name} [EMAIL_1_12345678] {name}.");
    let placeholders = redactor.into_placeholders();
    assert_eq!(placeholders.replaced_by("it", &text), "itit [EMAIL_1_12345678] it.");
}

#[test]
fn placeholders_give_way_to_their_originals_for_a_judge() {
    let mut redactor = Redactor::keyed(by_length);
    let name = redactor.replace_whole("EMAIL", "ann@acme.org");
    let text = format!("https://a.example/?to={name}&n=[EMAIL_1_12345678]");
    let placeholders = redactor.into_placeholders();
    assert_eq!(placeholders.restore(&text), text, "nothing is restored in an address");
    let whole = placeholders.originals_in(&text);
    assert_eq!(whole.as_deref(), Some("https://a.example/?to=ann@acme.org&n=[EMAIL_1_12345678]"));
    assert_eq!(placeholders.originals_in("[EMAIL_1_12345678]"), None);
}

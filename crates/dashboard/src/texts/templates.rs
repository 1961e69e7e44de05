//! Templates have their words from the texts, and all texts are used.

use std::fs;
use std::path::{Path, PathBuf};

/// What templates write themselves: names, and examples of what a field takes.
const NAMES: [&str; 6] = ["Sluice", "curl", "key_created", "project:1", "https://", "global"];

/// The attributes whose values are read or heard.
const WORDED: [&str; 6] = ["title", "aria-label", "placeholder", "alt", "label", "data-asks"];

fn folder(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The files of a folder and of those in it, by their names.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            found.push((name, fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

/// Takes what stands between two marks out of a text. Returns the text without it, and each that was taken.
fn without(text: &str, begin: &str, end: &str) -> (String, Vec<String>) {
    let (mut left, mut taken, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, after)) = rest.split_once(begin) {
        let (inner, next) = after.split_once(end).unwrap_or((after, ""));
        left.push_str(before);
        taken.push(inner.to_owned());
        rest = next;
    }
    left.push_str(rest);
    (left, taken)
}

/// The words of a text that are no names.
fn words(text: &str) -> Vec<String> {
    let is_of_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '/');
    let words = text.split(|c: char| !is_of_word(c)).filter(|word| !NAMES.contains(word));
    words.filter(|word| word.contains(char::is_alphabetic)).map(str::to_owned).collect()
}

/// Whether a string of an expression reads like a text: several words, or one with a capital letter.
fn is_worded(string: &str) -> bool {
    let letters = |text: &str| text.starts_with(char::is_alphabetic);
    let several = string.split(' ').filter(|word| letters(word)).count() > 1;
    let mut begin = string.chars();
    let capital = begin.next().is_some_and(char::is_uppercase);
    several || (capital && begin.next().is_some_and(char::is_lowercase))
}

/// The attributes of a tag.
fn attributes(tag: &str) -> Vec<(&str, &str)> {
    let (mut found, mut rest) = (Vec::new(), tag);
    while let Some((before, after)) = rest.split_once('=') {
        let quote = after.chars().next().unwrap_or(' ');
        let name = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        let (value, next) = after[1..].split_once(quote).unwrap_or((&after[1..], ""));
        found.push((name, value));
        rest = next;
    }
    found
}

/// The words that a template has of its own.
fn own_words(template: &str) -> Vec<String> {
    let (text, tags) = without(template, "{%", "%}");
    let (text, expressions) = without(&text, "{{", "}}");
    let mut found = Vec::new();
    for code in tags.iter().chain(&expressions) {
        let pieces: Vec<&str> = code.split('"').collect();
        // What stands in an element of code is a command or a name.
        let strings = pieces.chunks(2).filter(|pair| !pair[0].ends_with("code("));
        let strings = strings.filter_map(|pair| pair.get(1));
        found.extend(strings.filter(|string| is_worded(string)).map(|string| (*string).to_owned()));
    }
    // Programs, and what they print.
    let (text, _) = without(&text, "<pre", "</pre>");
    let (text, _) = without(&text, "<code", "</code>");
    let (text, tags) = without(&text, "<", ">");
    found.extend(words(&text));
    for tag in &tags {
        let is_button = tag.starts_with("button") || tag.contains("type=\"submit\"");
        for (name, value) in attributes(tag) {
            let is_example = value.starts_with('{');
            if (WORDED.contains(&name) && !is_example) || (name == "value" && is_button) {
                found.extend(words(value));
            }
            if name.starts_with("data-") && is_worded(value) {
                found.push(value.to_owned());
            }
        }
    }
    found
}

#[test]
fn templates_have_no_words_of_their_own() {
    for (name, template) in files(&folder("templates")) {
        let found = own_words(&template);
        assert!(found.is_empty(), "{name} has words of its own: {found:?}");
    }
}

#[test]
fn words_are_found_wherever_a_template_can_have_them() {
    for template in [
        "<h1>Keys</h1>",
        "<p>{{ t.keys.none }} yet</p>",
        "{% if a %}no{% endif %}",
        "<p title=\"Your account\">",
        "<a aria-label=\"Remove {{ row.name }}\">",
        "<input placeholder='{{ x }} none'>",
        "<form data-asks=\"Sure?\">",
        "<p data-x=\"Two words\">",
        "<input type=\"submit\" value=\"Save\">",
        "<button value=\"Save\">",
        "{{ markup::link(href, \"Settings\") }}",
        "{% for name in [\"personal data\"] %}",
    ] {
        assert!(!own_words(template).is_empty(), "{template}");
    }
    for template in [
        "<title>{{ t.keys.title }} · Sluice</title>",
        "<pre tabindex=\"0\">export {{ a }}</pre> → <code class=\"id\">x</code>",
        "<input id=\"name\" value=\"word\" placeholder=\"key_created\">",
        "<input placeholder='{\"limits\": 1}'>",
        "{{ t.a.b(markup::code(\"sluice serve\")) }}",
        "{% if filters.is(\"order\", \"oldest\") %}{{ \"{:.2}\"|format(x) }}{% endif %}",
    ] {
        assert_eq!(own_words(template), Vec::<String>::new(), "{template}");
    }
}

/// The names of the texts of a file.
fn names(file: &str) -> impl Iterator<Item = &str> {
    file.lines().map(str::trim).filter_map(|line| {
        let (head, text) = line.split_once(" = ")?;
        let name = head.split(['(', '[', '{']).next()?;
        let is_name =
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        (is_name && text.starts_with(['"', '{'])).then_some(name)
    })
}

#[test]
fn every_text_is_used() {
    let mut users = String::new();
    for path in ["templates", "src/pages", "../api/src/console", "../api/src/evidence"] {
        users.extend(files(&folder(path)).into_iter().map(|(_, text)| text));
    }
    users.push_str(include_str!("../frame.rs"));
    // A name that other values have too, such as `title`, is found in any case.
    let is_used = |name: &str| {
        // A notice is found by its word.
        let whole = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        [(".", ""), ("done=", ""), ("\"", "\"")].iter().any(|(before, after)| {
            let needle = format!("{before}{name}{after}");
            users.match_indices(&needle).any(|(at, _)| whole(&users[at + needle.len()..]))
        })
    };
    let mut count = 0;
    for (file, text) in files(&folder("src/texts")) {
        if matches!(&*file, "macros.rs" | "templates.rs") {
            continue;
        }
        for name in names(&text) {
            assert!(is_used(name), "{file}: {name} is used nowhere");
            count += 1;
        }
    }
    assert!(count > 300, "the texts are found: {count}");
}

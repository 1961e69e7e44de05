//! Property of others: names of brands and of protected works in a prompt for an image, and the terms that a
//! project will not have.
//!
//! Names that are common words (apple, shell, visa, target) are not in the list: a false alarm is worse than a miss
//! that the image's own provider will catch. A project adds what it needs.

use std::collections::HashMap;
use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// The owner of the rule that a term breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ViolationKind {
    /// A trade mark.
    Brand,
    /// A protected work or a figure of one.
    Copyright,
    /// The project's own list.
    Policy,
}

impl ViolationKind {
    /// The word of the interface.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Brand => "brand",
            Self::Copyright => "copyright",
            Self::Policy => "policy",
        }
    }
}

/// A term that no image may be asked for with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The owner of the rule that it breaks.
    pub kind: ViolationKind,
    /// The term, as it is listed.
    pub term: String,
}

const BRANDS: &str = "Adidas, Apple logo, Audi, Balenciaga, BMW, Burger King, Chanel, Chevrolet, Coca-Cola, \
    CocaCola, Dior, Disney, Disneyland, Facebook, Ferrari, Ford Mustang, Google, Gucci, Heineken, Hermès, Honda, \
    Hyundai, IKEA, Instagram, iPad, iPhone, KFC, Lamborghini, LEGO, Levi's, Louis Vuitton, MacBook, Maserati, \
    McDonald's, McDonalds, Mercedes-Benz, Microsoft, Netflix, Nike, Nintendo, Nutella, Pepsi, Pixar, PlayStation, \
    Porsche, Prada, Ralph Lauren, Ray-Ban, Red Bull can, Reebok, Rolex, Samsung, Sony, Starbucks, Swarovski, \
    Tesla logo, TikTok, Toyota, Versace, Volkswagen, Warner Bros, Xbox, YouTube";

const WORKS: &str = "Asterix, Avengers, Baby Yoda, Barbie, Bart Simpson, Batman, Bugs Bunny, Buzz Lightyear, \
    Captain America, Charlie Brown, Chewbacca, Daffy Duck, Darth Vader, Donald Duck, Dragon Ball, Game of Thrones, \
    Gandalf, Godzilla, Goku, Harry Potter, Hello Kitty, Hogwarts, Homer Simpson, Hot Wheels, Incredible Hulk, \
    Indiana Jones, Iron Man, James Bond, Jurassic Park, Jurassic World, Kung Fu Panda, Lara Croft, Looney Tunes, \
    Lord of the Rings, Luke Skywalker, Marvel Comics, Marvel Studios, Mickey Mouse, Minecraft, Minnie Mouse, \
    My Little Pony, Naruto, Obelix, Paw Patrol, Peppa Pig, Pikachu, Pokémon, R2-D2, Sailor Moon, Scooby-Doo, Shrek, \
    Smurfs, Sonic the Hedgehog, Spider-Man, Spiderman, SpongeBob, SpongeBob SquarePants, Star Trek, Star Wars, \
    Studio Ghibli, Super Mario, Superman, Teletubbies, The Simpsons, Tintin, Tom and Jerry, Totoro, Toy Story, \
    Voldemort, Winnie-the-Pooh, Wonder Woman, X-Men, Yoda";

/// A term and the words that it stands for.
#[derive(Debug)]
struct Term {
    kind: ViolationKind,
    listed: String,
    words: Vec<String>,
}

/// Terms by their first word.
type Terms = HashMap<String, Vec<Term>>;

static BUILT_IN: LazyLock<Terms> = LazyLock::new(|| {
    let of = |kind, list: &'static str| list.split(", ").map(move |term| (kind, term));
    terms(of(ViolationKind::Brand, BRANDS).chain(of(ViolationKind::Copyright, WORKS)))
});

/// The terms of a project's own, ready to be looked for.
#[derive(Debug, Default)]
pub struct BlockedTerms(Terms);

impl BlockedTerms {
    /// Takes terms apart.
    pub fn compile(blocked: &[String]) -> Self {
        Self(terms(blocked.iter().map(|term| (ViolationKind::Policy, term.as_str()))))
    }

    /// The terms in a text that no image may be asked for with: of the built-in list, and these. They are found as
    /// whole words in any case, with diacritics or without, whatever stands between the words. Each is named once, in
    /// the order of the text.
    pub fn violations(&self, text: &str) -> Vec<Violation> {
        let words = words(text);
        let mut found: Vec<Violation> = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let candidates =
                [&BUILT_IN, &self.0].into_iter().filter_map(|terms| terms.get(word)).flatten();
            for term in candidates.filter(|term| words[at..].starts_with(&term.words)) {
                if !found.iter().any(|known| known.kind == term.kind && known.term == term.listed) {
                    found.push(Violation { kind: term.kind, term: term.listed.clone() });
                }
            }
        }
        found
    }
}

fn terms<'a>(list: impl Iterator<Item = (ViolationKind, &'a str)>) -> Terms {
    let mut terms = Terms::new();
    for (kind, term) in list {
        let words = words(term);
        if let Some(first) = words.first().cloned() {
            terms.entry(first).or_default().push(Term { kind, listed: term.to_owned(), words });
        }
    }
    terms
}

/// The words of a text, all in one form. An ideograph is a word of its own: nothing stands between words there.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut open = false;
    for c in text.nfkd().flat_map(char::to_lowercase) {
        if is_diacritic(c) || is_invisible(c) {
            continue;
        }
        let joins = is_combining_mark(c);
        if !joins && !c.is_alphanumeric() {
            open = false;
            continue;
        }
        let alone = is_ideograph(c);
        match words.last_mut() {
            Some(word) if joins || (open && !alone) => push(word, c),
            _ => {
                let mut word = String::new();
                push(&mut word, c);
                words.push(word);
            }
        }
        open = !alone;
    }
    words
}

/// Letters with a stroke are no compositions, but are read as if they were.
fn push(word: &mut String, c: char) {
    match c {
        'ł' => word.push('l'),
        'ø' => word.push('o'),
        'đ' => word.push('d'),
        'ħ' => word.push('h'),
        'ı' => word.push('i'),
        'æ' => word.push_str("ae"),
        'œ' => word.push_str("oe"),
        'ß' => word.push_str("ss"),
        _ => word.push(c),
    }
}

fn is_diacritic(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{20d0}'..='\u{20ff}')
}

/// Characters that no reader sees, put into a word to hide it.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}'
    )
}

/// Han and kana.
fn is_ideograph(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(text: &str, blocked: &[&str]) -> Vec<String> {
        let blocked: Vec<String> = blocked.iter().map(|&term| term.to_owned()).collect();
        let all = BlockedTerms::compile(&blocked).violations(text);
        all.into_iter()
            .map(|violation| format!("{:?} {}", violation.kind, violation.term))
            .collect()
    }

    #[test]
    fn names_are_found_however_they_are_written() {
        for (text, expected) in [
            ("A sneaker with the NIKE swoosh", "Brand Nike"),
            ("ｎｉｋｅ shoes", "Brand Nike"),
            ("Ni\u{200b}ke shoes", "Brand Nike"),
            ("n\u{ef}ke shoes", "Brand Nike"),
            ("a coca cola bottle", "Brand Coca-Cola"),
            ("COCA-COLA!", "Brand Coca-Cola"),
            ("a hermes scarf", "Brand Hermès"),
            ("McDonald\u{2019}s", "Brand McDonald's"),
            ("Disney's castle", "Brand Disney"),
            ("mickey   mouse on a boat", "Copyright Mickey Mouse"),
            ("Mickey\nMouse", "Copyright Mickey Mouse"),
            ("a POKÉMON", "Copyright Pokémon"),
            ("a pokemon", "Copyright Pokémon"),
            ("Spider-Man", "Copyright Spider-Man"),
        ] {
            assert_eq!(found(text, &[]), [expected], "{text}");
        }
    }

    #[test]
    fn parts_of_words_and_common_words_are_not() {
        for text in [
            "an apple on a table, a shell, a target and a visa",
            "a mouse called Mickey",
            "a disneyesque nikename",
            "we marvel at a red bull in the amazon",
            "a lego\u{e9}",
            "",
            "...",
        ] {
            assert_eq!(found(text, &[]), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn a_project_adds_its_own() {
        let blocked = ["Acme Corp", "Łódź", "任天堂", "straße", "Nike", "..."];
        for (text, expected) in [
            ("the acme-corp logo", vec!["Policy Acme Corp"]),
            ("the acme corps logo", vec![]),
            ("a street in lodz", vec!["Policy Łódź"]),
            ("古い任天堂のゲーム", vec!["Policy 任天堂"]),
            ("auf der STRASSE", vec!["Policy straße"]),
            ("nike, Acme Corp, NIKE", vec!["Brand Nike", "Policy Nike", "Policy Acme Corp"]),
        ] {
            assert_eq!(found(text, &blocked), expected, "{text}");
        }
    }

    #[test]
    fn every_listed_name_finds_itself() {
        for term in BRANDS.split(", ").chain(WORKS.split(", ")) {
            let all = BlockedTerms::default()
                .violations(&format!("Paint {}, please", term.to_uppercase()));
            assert!(all.iter().any(|violation| violation.term == term), "{term}");
        }
    }

    proptest! {
        #[test]
        fn nothing_makes_it_panic(text in ".{0,100}", term in ".{0,20}") {
            let _ = BlockedTerms::compile(&[term]).violations(&text);
        }
    }
}

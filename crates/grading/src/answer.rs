//! The look of an answer from outside: how long it is, in which language, whether it is a refusal. It is
//! noted when a call is recorded, so that drift is computed without contents.

use std::collections::HashMap;
use std::sync::LazyLock;

use domain::step::AnswerShape;
use regex::Regex;

/// The part of an answer whose language is looked at, in bytes.
const LANGUAGE_BYTES: usize = 512;
/// The part of an answer in which a refusal says so, in bytes.
const REFUSAL_BYTES: usize = 200;
/// Fewer letters show no language.
const LEAST_LETTERS: usize = 8;
/// Fewer frequent words show no language: code has single letters, and other languages' words.
const LEAST_WORDS: usize = 2;
/// The language of an answer that shows none: numbers, code, a name.
pub const NO_LANGUAGE: &str = "und";

/// Looks at an answer; its work is bounded but for the count of its characters. `refuses`: the provider
/// says that it is a refusal.
pub fn answer_shape(text: &str, refuses: bool) -> AnswerShape {
    AnswerShape {
        characters: text.chars().count() as u64,
        language: language(beginning(text, LANGUAGE_BYTES)).into(),
        refuses: refuses || is_refusal(text),
    }
}

fn beginning(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

/// The most frequent words of languages; some share a few.
const WORDS: &[(&str, &[&str])] = &[
    (
        "en",
        &["the", "and", "is", "of", "to", "that", "you", "with", "this", "are", "for", "it", "i"],
    ),
    (
        "de",
        &[
            "der", "die", "und", "das", "ist", "nicht", "ein", "eine", "mit", "sie", "auf", "ich",
            "für",
        ],
    ),
    (
        "fr",
        &[
            "le", "les", "et", "est", "des", "une", "dans", "pour", "vous", "pas", "je", "du",
            "qui", "il",
        ],
    ),
    (
        "es",
        &[
            "el", "los", "las", "y", "es", "del", "una", "por", "para", "con", "no", "yo", "lo",
            "se",
        ],
    ),
    (
        "it",
        &["il", "gli", "è", "che", "di", "della", "una", "per", "non", "con", "sono", "del", "io"],
    ),
    (
        "pt",
        &["o", "os", "e", "é", "do", "da", "uma", "para", "não", "com", "em", "você", "são", "eu"],
    ),
    (
        "nl",
        &["de", "het", "een", "en", "is", "van", "niet", "dat", "met", "voor", "zijn", "ik", "je"],
    ),
    (
        "sv",
        &["och", "är", "att", "det", "en", "som", "för", "inte", "med", "på", "av", "jag", "du"],
    ),
    (
        "da",
        &["og", "er", "det", "en", "som", "for", "ikke", "med", "på", "af", "jeg", "til", "den"],
    ),
    ("pl", &["i", "jest", "nie", "się", "na", "to", "że", "w", "z", "do", "dla", "jak", "ja"]),
    ("cs", &["je", "se", "na", "že", "to", "v", "pro", "není", "jako", "a", "by", "jsem", "které"]),
    (
        "tr",
        &["bir", "ve", "bu", "için", "ile", "değil", "olarak", "çok", "daha", "var", "ben", "de"],
    ),
    (
        "ro",
        &["și", "este", "nu", "de", "la", "în", "pentru", "cu", "un", "care", "sunt", "din", "eu"],
    ),
    ("fi", &["ja", "on", "ei", "se", "että", "ole", "oli", "kuin", "mutta", "joka", "voi", "minä"]),
    ("hu", &["a", "az", "és", "nem", "hogy", "egy", "is", "van", "ez", "meg", "de", "vagy", "én"]),
    (
        "id",
        &["yang", "dan", "di", "ini", "itu", "dengan", "untuk", "tidak", "dari", "adalah", "saya"],
    ),
    (
        "vi",
        &["và", "là", "của", "không", "có", "được", "cho", "một", "những", "trong", "tôi", "các"],
    ),
];

/// The language of a text by its script, and of Latin letters by their most frequent words.
fn language(text: &str) -> &'static str {
    let mut scripts: Vec<(&'static str, usize)> = Vec::new();
    for script in text.chars().filter(|c| c.is_alphabetic()).map(script) {
        match scripts.iter_mut().find(|(known, _)| *known == script) {
            Some((_, count)) => *count += 1,
            None => scripts.push((script, 1)),
        }
    }
    let count = |script: &str| {
        scripts.iter().find(|(known, _)| *known == script).map_or(0, |(_, count)| *count)
    };
    let letters: usize = scripts.iter().map(|(_, count)| count).sum();
    // Japanese writes Chinese characters too, and kana between them.
    if count("ja") * 10 > letters && count("ja") + count("zh") >= LEAST_LETTERS / 2 {
        return "ja";
    }
    let Some(&(most, letters)) = scripts.iter().max_by_key(|(_, count)| *count) else {
        return NO_LANGUAGE;
    };
    // A word takes few Chinese characters.
    let least = if most == "zh" { LEAST_LETTERS / 4 } else { LEAST_LETTERS };
    match most {
        _ if letters < least => NO_LANGUAGE,
        "latin" => latin(text),
        "cyrillic" if text.contains(['і', 'ї', 'є', 'І', 'Ї', 'Є']) => "uk",
        "cyrillic" => "ru",
        "arabic" if text.contains(['پ', 'چ', 'گ', 'ی', 'ک']) => "fa",
        "arabic" => "ar",
        other => other,
    }
}

fn script(c: char) -> &'static str {
    match c {
        '\u{0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => "latin",
        '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}' => "el",
        '\u{400}'..='\u{52f}' => "cyrillic",
        '\u{531}'..='\u{58f}' => "hy",
        '\u{590}'..='\u{5ff}' => "he",
        '\u{600}'..='\u{6ff}' | '\u{750}'..='\u{77f}' | '\u{fb50}'..='\u{fefc}' => "arabic",
        '\u{900}'..='\u{97f}' => "hi",
        '\u{980}'..='\u{9ff}' => "bn",
        '\u{b80}'..='\u{bff}' => "ta",
        '\u{c00}'..='\u{c7f}' => "te",
        '\u{e00}'..='\u{e7f}' => "th",
        '\u{10a0}'..='\u{10ff}' => "ka",
        '\u{3040}'..='\u{30ff}' => "ja",
        '\u{3400}'..='\u{9fff}' | '\u{20000}'..='\u{323af}' => "zh",
        '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7a3}' => "ko",
        _ => "other",
    }
}

/// Each of the words with the languages that it is a word of, as bits.
static LANGUAGES_OF: LazyLock<HashMap<&'static str, u32>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    for (at, (_, words)) in WORDS.iter().enumerate() {
        for word in *words {
            *all.entry(*word).or_insert(0) |= 1 << at;
        }
    }
    all
});

/// The language whose frequent words make up most of a text; none if they are rare.
fn latin(text: &str) -> &'static str {
    let lower = text.to_lowercase();
    let words = lower.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty());
    let (mut all, mut hits) = (0, [0_usize; WORDS.len()]);
    for word in words {
        all += 1;
        let mut languages = LANGUAGES_OF.get(word).copied().unwrap_or(0);
        while languages != 0 {
            hits[languages.trailing_zeros() as usize] += 1;
            languages &= languages - 1;
        }
    }
    let most = hits.iter().copied().max().unwrap_or(0);
    // The first of two languages that have as many, so that a text has one language always.
    let first = hits.iter().position(|&hits| hits == most);
    let is_enough = most >= LEAST_WORDS && most * 12 >= all;
    first.filter(|_| is_enough).map_or(NO_LANGUAGE, |at| WORDS[at].0)
}

/// How answers begin that refuse, in lower case, without apostrophes.
const REFUSALS: &[&str] = &[
    "i cant help",
    "i cannot help",
    "i cant assist",
    "i cannot assist",
    "i cant provide",
    "i cannot provide",
    "i cant comply",
    "i cannot comply",
    "i cant fulfill",
    "i cannot fulfill",
    "i wont help",
    "i will not help",
    "i am unable to",
    "im unable to",
    "i am not able to",
    "im not able to",
    "i must decline",
    "i have to decline",
    "i cant create",
    "i cannot create",
    "i cant do that",
    "i cant generate",
    "i cannot generate",
    "i cant share",
    "i cannot share",
    "ich kann dir dabei nicht",
    "ich kann ihnen dabei nicht",
    "dabei kann ich nicht",
    "das kann ich nicht",
    "je ne peux pas",
    "je suis incapable",
    "no puedo ayudar",
    "no puedo proporcionar",
    "lo siento, pero no puedo",
    "non posso aiutar",
    "non posso fornire",
    "não posso ajudar",
    "não posso fornecer",
    "ik kan je daar niet",
    "ik kan hier niet",
    "jag kan inte hjälpa",
    "nie mogę pomóc",
    "я не могу помочь",
    "я не могу выполнить",
    "我无法",
    "我不能",
    "抱歉，我",
    "お手伝いできません",
    "お応えできません",
    "도와드릴 수 없",
    "لا أستطيع مساعدتك",
    "لا يمكنني",
];

static REFUSAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let any: Vec<String> = REFUSALS.iter().map(|words| regex::escape(words)).collect();
    Regex::new(&any.join("|")).ok()
});

/// Whether an answer begins like a refusal. A sentence that mentions one in the middle of a text does not.
fn is_refusal(text: &str) -> bool {
    let beginning = beginning(text.trim_start(), REFUSAL_BYTES).to_lowercase();
    let plain: String = beginning.chars().filter(|c| !matches!(c, '\'' | '\u{2019}')).collect();
    let sentence = plain.lines().next().unwrap_or_default();
    REFUSAL.as_ref().is_some_and(|refusal| refusal.is_match(sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_is_that_of_the_words() {
        for (text, expected) in [
            ("The meeting was moved to Thursday because the client is travelling.", "en"),
            ("Die Lieferung verzögert sich um zwei Tage, weil das Lager nicht frei ist.", "de"),
            ("La livraison est en retard de deux jours, et le dépôt est plein pour vous.", "fr"),
            ("La reunión se trasladó al jueves porque el cliente no está en los Estados.", "es"),
            ("La riunione è stata spostata a giovedì perché il cliente non è in città.", "it"),
            ("A reunião foi adiada para quinta-feira porque o cliente não está em casa.", "pt"),
            ("De vergadering is verplaatst naar donderdag, want de klant is niet thuis.", "nl"),
            ("Mötet är flyttat till torsdag för att kunden inte är här och det är bra.", "sv"),
            ("Spotkanie zostało przeniesione na czwartek, bo klient nie jest w domu.", "pl"),
            ("Toplantı perşembe gününe alındı, bu müşteri için daha iyi bir gün ve saat.", "tr"),
            ("Встреча перенесена на четверг, потому что клиент в командировке.", "ru"),
            ("Зустріч перенесено на четвер, бо клієнт їде у відрядження.", "uk"),
            ("会议改到了星期四，因为客户正在出差。", "zh"),
            ("会議は木曜日に変更されました。", "ja"),
            ("회의가 목요일로 변경되었습니다.", "ko"),
            ("تم نقل الاجتماع إلى يوم الخميس لأن العميل مسافر.", "ar"),
            ("बैठक गुरुवार को स्थानांतरित कर दी गई है।", "hi"),
            ("การประชุมเลื่อนไปเป็นวันพฤหัสบดี", "th"),
            ("Η συνάντηση μεταφέρθηκε την Πέμπτη.", "el"),
            ("42", NO_LANGUAGE),
            ("", NO_LANGUAGE),
            ("Paris", NO_LANGUAGE),
            ("x = foo(bar); y += baz[qux] // quux", NO_LANGUAGE),
        ] {
            assert_eq!(answer_shape(text, false).language, expected, "{text}");
        }
    }

    #[test]
    fn a_refusal_begins_like_one() {
        for text in [
            "I'm sorry, but I can't help with that.",
            "I\u{2019}m unable to provide this.",
            "I cannot assist with that request.",
            "Es tut mir leid, das kann ich nicht beantworten.",
            "Lo siento, pero no puedo ayudar con eso.",
            "抱歉，我无法回答这个问题。",
        ] {
            assert!(answer_shape(text, false).refuses, "{text}");
        }
        for text in [
            "You can help with that by opening Settings.",
            "The error says that the server cannot help.",
            "Here is the recipe.\nI can't help with that.",
            "",
        ] {
            assert!(!answer_shape(text, false).refuses, "{text}");
        }
        assert!(answer_shape("Here is the recipe.", true).refuses);
    }

    #[test]
    fn characters_are_counted_and_long_answers_are_sampled() {
        assert_eq!(answer_shape("日本", false).characters, 2);
        let long = "x".repeat(10_000_000);
        let shape = answer_shape(&long, false);
        assert_eq!((shape.characters, &*shape.language), (10_000_000, NO_LANGUAGE));
    }
}

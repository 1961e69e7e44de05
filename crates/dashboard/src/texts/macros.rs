//! The table from which a group of texts is made.

/// Makes a group of texts of a table of its English, a line for each text:
///
/// ```text
/// texts! {
///     /// The page of the keys.
///     Keys {
///         revoke = "Revoke";
///         spent_of(spent, cap) = "{spent} of {cap} spent";
///         none_fits[clear] = "No trace fits. Take a filter away, or {clear}.";
///         left{count} = { 1 => "{count} code is left.", _ => "{count} codes are left." };
///     }
/// }
/// ```
///
/// - A text without parameters is a field: `t.keys.revoke`.
/// - Parameters in round brackets are values: `t.keys.spent_of(row.spent, row.cap)` is a plain text, which the
///   template escapes like any other.
/// - Those in square brackets can be values or elements of [`crate::markup`], such as a link inside a sentence: the
///   text is [`Html`](crate::markup::Html), with the values escaped. Its own words hold no markup, which the
///   compiler checks.
/// - A number in braces chooses among whole texts: a language has as many forms as it needs, by patterns.
///
/// A text is a whole sentence, label or word: its parameters stand where the language wants them. A text that is
/// not in the table does not compile, nor does one with a parameter too many, too few or unknown; a parameter
/// that a text leaves out is a warning of the compiler.
///
/// The values of another language are written as `texts! { impl Keys: GERMAN { ... } }` with all lines of the
/// table, in any order.
macro_rules! texts {
    (
        $(#[$about:meta])*
        $group:ident {
            $($name:ident $(($($value:ident),+))? $([$($part:ident),+])? $({$count:ident})? = $text:tt;)*
        }
    ) => {
        $(#[$about])*
        pub struct $group {
            $(
                #[doc = concat!("`", stringify!($text), "`")]
                pub $name: $crate::texts::macros::texts!(
                    @type $(($($value)+))? $([$($part)+])? $({$count})?
                ),
            )*
        }

        impl $group {
            $(
                $crate::texts::macros::texts!(
                    @method $name $(($($value)+))? $([$($part)+])? $({$count})? = $text
                );
            )*
        }

        $crate::texts::macros::texts! {
            impl $group: ENGLISH {
                $($name $(($($value),+))? $([$($part),+])? $({$count})? = $text;)*
            }
        }
    };

    (
        impl $group:ident: $language:ident {
            $($name:ident $(($($value:ident),+))? $([$($part:ident),+])? $({$count:ident})? = $text:tt;)*
        }
    ) => {
        impl $group {
            /// The texts in this language.
            pub const $language: Self = Self {
                $(
                    $name: $crate::texts::macros::texts!(
                        @value $(($($value)+))? $([$($part)+])? $({$count})? = $text
                    ),
                )*
            };
        }
    };

    (@type) => { &'static str };
    (@type ($($value:ident)+)) => {
        fn($($crate::texts::macros::texts!(@dyn $value)),+) -> String
    };
    (@type [$($part:ident)+]) => {
        fn($($crate::texts::macros::texts!(@dyn $part)),+) -> String
    };
    (@type {$count:ident}) => { fn(i64) -> String };
    (@dyn $name:ident) => { &dyn std::fmt::Display };

    (@method $name:ident = $text:tt) => {};
    (@method $name:ident ($($value:ident)+) = $text:tt) => {
        #[doc = concat!("`", stringify!($text), "`")]
        pub fn $name(&self, $($value: impl std::fmt::Display),+) -> String {
            (self.$name)($(&$value),+)
        }
    };
    (@method $name:ident [$($part:ident)+] = $text:tt) => {
        #[doc = concat!("`", stringify!($text), "`")]
        pub fn $name(&self, $($part: impl $crate::markup::Inline),+) -> $crate::markup::Html {
            $crate::markup::Html::of_parts((self.$name)($(&$part.html()),+))
        }
    };
    (@method $name:ident {$count:ident} = $text:tt) => {
        #[doc = concat!("`", stringify!($text), "`")]
        pub fn $name(&self, $count: i64) -> String {
            (self.$name)($count)
        }
    };

    (@value = $text:tt) => { $text };
    (@value ($($value:ident)+) = $text:tt) => { |$($value),+| format!($text) };
    (@value [$($part:ident)+] = $text:tt) => {
        {
            const { assert!($crate::markup::is_plain($text), "markup is put in by parameters") }
            |$($part),+| format!($text)
        }
    };
    (@value {$count:ident} = {$($form:pat $(if $fits:expr)? => $text:tt),+ $(,)?}) => {
        |$count| match $count { $($form $(if $fits)? => format!($text)),+ }
    };
}

pub(crate) use texts;

#[cfg(test)]
mod tests {
    use crate::markup;

    texts! {
        /// A group of all forms.
        Sample {
            plain = "Revoke";
            spent_of(spent, cap) = "{spent} of {cap} spent";
            asks[who, link] = "{who} asks: {link}.";
            left{count} = { 1 => "{count} code is left", _ => "{count} codes are left" };
        }
    }

    texts! {
        impl Sample: POLISH {
            left{count} = {
                1 => "{count} kod",
                n if (2..5).contains(&(n % 10)) && !(12..15).contains(&(n % 100)) => "{count} kody",
                _ => "{count} kodów",
            };
            asks[who, link] = "{link} – pyta {who}.";
            plain = "Unieważnij";
            spent_of(spent, cap) = "z {cap} wydano {spent}";
        }
    }

    #[test]
    fn a_language_has_its_own_order_and_plurals() {
        let (english, polish) = (Sample::ENGLISH, Sample::POLISH);
        assert_eq!((english.plain, polish.plain), ("Revoke", "Unieważnij"));
        assert_eq!(english.spent_of("$1", 2), "$1 of 2 spent");
        assert_eq!(polish.spent_of("$1", 2), "z 2 wydano $1");
        assert_eq!([0, 1, 2].map(|count| english.left(count)).concat().matches("codes").count(), 2);
        let polish = [1, 3, 12, 22].map(|count| polish.left(count));
        assert_eq!(polish, ["1 kod", "3 kody", "12 kodów", "22 kody"]);
    }

    #[test]
    fn values_of_a_sentence_are_text_whatever_they_hold() {
        let markup = "<script>\"'&";
        let escaped = "&#60;script&#62;&#34;&#39;&#38;";
        let sentence = |link| Sample::ENGLISH.asks(markup, link).to_string();
        let link = sentence(markup::link(markup, markup));
        assert_eq!(link, format!("{escaped} asks: <a href=\"{escaped}\">{escaped}</a>."));
        for element in [markup::code(markup), markup::strong(markup), markup::span("a", markup)] {
            assert_eq!(sentence(element).matches(escaped).count(), 2);
        }
        let inner = sentence(markup::link("/", markup::id(markup)));
        assert_eq!(
            inner,
            format!("{escaped} asks: <a href=\"/\"><code class=\"id\">{escaped}</code></a>.")
        );
        let copied = sentence(markup::copied_id("trace-id", markup));
        assert!(copied.ends_with(&format!("<code class=\"id\" id=\"trace-id\">{escaped}</code>.")));
        assert!(!markup::is_plain("a < b") && !markup::is_plain("a &amp; b"));
        assert!(!markup::is_plain("say \"a\"") && markup::is_plain("it's “a”"));
        assert_eq!(
            Sample::POLISH.asks("a", markup::code("b")).to_string(),
            "<code>b</code> – pyta a."
        );
    }
}

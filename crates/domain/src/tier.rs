//! Tiers, and the intent of a request.

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(serde::Serialize, serde::Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// Every value, in the order of the definition.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The word that stands for it in JSON and in the database.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Reads the word; `None` for any other.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
pub(crate) use words;

words!(
    /// The class of models that a request is sent to.
    Tier {
        /// Short, low stakes: the cheapest model.
        Simple = "simple",
        /// Long, reasoning-heavy or multi-step: the most capable model.
        Complex = "complex",
        /// Sensitive: a private or internal model.
        Secure = "secure",
    }
);

words!(
    /// The intent of a prompt.
    Intent {
        /// Shorten a text.
        Summarise = "summarise",
        /// Pull facts out of a text.
        Extract = "extract",
        /// Put a text into one of several classes.
        Classify = "classify",
        /// Translate a text.
        Translate = "translate",
        /// Write, explain or mend program code.
        Code = "code",
        /// Answer a question.
        Answer = "answer",
        /// Write something new.
        Generate = "generate",
        /// Rephrase a text.
        Rewrite = "rewrite",
        /// Small talk.
        Chat = "chat",
        /// None of these.
        Other = "other",
    }
);

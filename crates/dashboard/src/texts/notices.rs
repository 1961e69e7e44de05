//! The outcomes of forms.

use super::texts;

/// Makes the group of the notices, which are found by their names.
macro_rules! notices {
    ($($word:ident = $text:tt;)*) => {
        texts! {
            /// The outcomes of forms, each by the word with which its page is shown again. Addresses carry no
            /// texts: a link could put any sentence on a page.
            Notices {
                $($word = $text;)*
            }
        }

        impl Notices {
            /// The notice of a word; `None` of one that is none of theirs.
            pub fn of_word(&self, word: &str) -> Option<&'static str> {
                $(
                    if word == stringify!($word) {
                        return Some(self.$word);
                    }
                )*
                None
            }
        }
    };
}

notices! {
    password_changed = "The password is changed: your other sessions have ended.";
    letter_sent = "A letter with a link is on its way to your address.";
    factors_removed = "Your second factors are removed: your password alone signs in.";
    passkey_added = "The passkey is added: it signs you in without a password.";
    passkey_removed = "The passkey is removed: it signs nobody in any more.";
    identity_unlinked = "It is unlinked: that provider signs you in no more.";
    session_ended = "The session has ended.";
    key_reset = "The key is reset: it is active, and its windows count from now on.";
    key_revoked = "The key is revoked: calls with it fail from now on.";
    person_changed = "Role and projects are saved: they count from the person's next request on.";
    factors_reset = "The second factors are removed, and the sessions have ended: the person can set up new ones.";
    person_removed = "The person is removed, and signed out everywhere.";
    token_revoked = "The token is revoked: requests with it fail from now on.";
    invitation_withdrawn = "The invitation is withdrawn: its link no longer works.";
    threshold_set = "The threshold is set: it counts from the next request on.";
    settings_saved = "The settings are saved: they count from the next request on.";
    mcp_token_saved = "The token is stored: calls to that server carry it from now on.";
    mcp_token_removed = "The token is removed.";
    mcp_token_kept = "The token is kept as it was.";
    model_created = "The model is registered: keys of this project can call it.";
    model_saved = "The model is saved.";
    model_deleted = "The model is deleted: calls that name it fail from now on.";
    provider_added = "The provider is added: people can sign in by it.";
    provider_changed = "The provider is saved.";
    provider_removed = "The provider is removed, and the sessions that came by it have ended.";
    finding_judged = "The verdict is kept, and counts for the advice on the settings.";
    insights_computed = "The insights are computed anew.";
    insight_dismissed = "The insight is dismissed until its facts change by a quarter.";
}

//! A user as an issuer describes them.

use domain::secret::Secret;
use domain::time::{SECOND, Timestamp};
use serde_json::{Map, Value};

/// The longest subject, in bytes (OpenID Connect Core, section 2).
const LONGEST_SUBJECT: usize = 255;

/// A user as an issuer describes them: the claims of a token that was verified.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The issuer.
    pub issuer: String,
    /// The user's name there, which no other user gets. For nobody to read.
    pub subject: String,
    /// The token as the issuer has signed it, which shows at the sign-out there whose session is to end.
    pub token: Secret,
    claims: Map<String, Value>,
}

impl Identity {
    /// `None` if the subject is none.
    pub(crate) fn new(
        issuer: String,
        subject: String,
        token: String,
        claims: Map<String, Value>,
    ) -> Option<Self> {
        let is_sound = !subject.is_empty()
            && subject.len() <= LONGEST_SUBJECT
            && !subject.contains(char::is_control);
        is_sound.then_some(Self { issuer, subject, token: Secret::new(token), claims })
    }

    /// The e-mail address, if the issuer gives one.
    pub fn email(&self) -> Option<&str> {
        self.claims.get("email")?.as_str()
    }

    /// Whether the issuer has verified that the address is the user's.
    pub fn is_email_verified(&self) -> bool {
        match self.claims.get("email_verified") {
            Some(Value::Bool(verified)) => *verified,
            // Some issuers write it as a text.
            Some(Value::String(verified)) => verified == "true",
            _ => false,
        }
    }

    /// The name for people, if the issuer gives one.
    pub fn name(&self) -> Option<&str> {
        self.claims.get("name")?.as_str()
    }

    /// The values of a claim that is a text or a list of texts.
    pub fn values(&self, claim: &str) -> Vec<&str> {
        values(&self.claims, claim)
    }

    /// Whether the issuer has seen a second factor, by the methods that it names (RFC 8176).
    pub fn has_second_factor(&self) -> bool {
        let methods = self.values("amr");
        let named = |group: &[&str]| methods.iter().any(|method| group.contains(method));
        // A device or a code alone is one factor; beside what its owner knows or is, it is the second.
        named(&["mfa"])
            || (named(&["otp", "hwk", "swk", "sms", "tel", "sc"])
                && named(&["pwd", "pin", "kba", "fpt", "face", "iris", "retina", "vbm", "user"]))
    }

    /// When the issuer had its user sign in, if it names that.
    pub fn authenticated_at(&self) -> Option<Timestamp> {
        let seconds = self.claims.get("auth_time")?.as_i64()?;
        seconds.checked_mul(SECOND).map(Timestamp)
    }

    pub(crate) fn has(&self, claim: &str) -> bool {
        self.claims.contains_key(claim)
    }

    /// Adds claims that the token does not have. An address and whether it is verified come from one source,
    /// and the methods and the time of the sign-in from the token alone.
    pub(crate) fn add(&mut self, claims: Map<String, Value>) {
        let has_email = self.has("email") || self.has("email_verified");
        let is_of_token = |name: &str| match name {
            "email" | "email_verified" => has_email,
            "amr" | "auth_time" => true,
            _ => false,
        };
        for (name, value) in claims.into_iter().filter(|(name, _)| !is_of_token(name)) {
            self.claims.entry(name).or_insert(value);
        }
    }
}

/// The values of one of some claims that is a text or a list of texts.
pub(crate) fn values<'c>(claims: &'c Map<String, Value>, claim: &str) -> Vec<&'c str> {
    match claims.get(claim) {
        Some(Value::String(value)) => vec![value],
        Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity(claims: &Value) -> Identity {
        let claims = claims.as_object().unwrap().clone();
        let [issuer, subject, token] = ["https://i.example", "s", "t"].map(str::to_owned);
        Identity::new(issuer, subject, token, claims).unwrap()
    }

    #[test]
    fn a_claim_is_a_text_or_a_list_of_texts() {
        let claims = json!({"one": "a", "more": ["a", 5, "b"], "odd": {"a": "b"}});
        let who = identity(&claims);
        assert_eq!(who.values("one"), ["a"]);
        assert_eq!(who.values("more"), ["a", "b"]);
        assert_eq!(who.values("odd"), [""; 0]);
        assert_eq!(who.values("none"), [""; 0]);
    }

    #[test]
    fn an_address_is_verified_by_nothing_but_true() {
        for (value, verified) in [
            (json!(true), true),
            (json!("true"), true),
            (json!(false), false),
            (json!("false"), false),
            (json!("yes"), false),
            (json!(1), false),
            (json!(null), false),
        ] {
            let who = identity(&json!({"email_verified": value}));
            assert_eq!(who.is_email_verified(), verified, "{value}");
        }
        assert!(!identity(&json!({})).is_email_verified());
    }

    #[test]
    fn a_password_is_no_second_factor() {
        for (amr, has) in [
            (json!(["pwd"]), false),
            (json!(["pwd", "otp"]), true),
            (json!(["hwk"]), false),
            (json!(["otp"]), false),
            (json!(["hwk", "pin"]), true),
            (json!("mfa"), true),
            (json!(null), false),
        ] {
            assert_eq!(identity(&json!({"amr": amr})).has_second_factor(), has, "{amr}");
        }
    }

    #[test]
    fn an_address_and_its_verification_come_from_one_source() {
        let mut who = identity(&json!({"email": "a@b.example"}));
        let more = json!({"email": "c@d.example", "email_verified": true, "amr": ["mfa"], "auth_time": 5, "groups": "g"});
        who.add(more.as_object().unwrap().clone());
        assert_eq!(who.email(), Some("a@b.example"));
        assert!(!who.is_email_verified() && !who.has_second_factor());
        assert_eq!(who.authenticated_at(), None);
        assert_eq!(who.values("groups"), ["g"]);
        let mut who = identity(&json!({}));
        who.add(more.as_object().unwrap().clone());
        assert!(who.is_email_verified() && who.email() == Some("c@d.example"));
    }

    #[test]
    fn what_is_no_subject_is_nobody() {
        let long = "x".repeat(256);
        for subject in ["", "a\nb", &*long] {
            let [issuer, token] = [String::new(), String::new()];
            assert!(Identity::new(issuer, subject.to_owned(), token, Map::new()).is_none());
        }
    }
}

//! A device with one passkey, and the browser before it.

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

const USER_PRESENT: u8 = 1;
const USER_VERIFIED: u8 = 4;
const HAS_KEY: u8 = 0x40;

/// A device with one passkey. Its fields are what it claims: a test may have it claim something else.
pub struct Device {
    /// The origin of the page that asks.
    pub origin: &'static str,
    /// The site that the passkey is for.
    pub rp_id: &'static str,
    /// Whether the user has shown that it is them.
    pub verifies_user: bool,
    /// Whether it counts its signatures.
    pub counts: bool,
    /// Signatures until now.
    pub counter: u32,
    /// The handle of the user that the passkey was made for.
    pub user: Value,
    /// The id of its credential.
    pub id: Vec<u8>,
    key: EcdsaKeyPair,
}

impl Device {
    pub fn new(origin: &'static str, rp_id: &'static str) -> Self {
        let mut id = vec![0; 32];
        aws_lc_rs::rand::fill(&mut id).unwrap();
        Self {
            origin,
            rp_id,
            verifies_user: true,
            counts: true,
            counter: 0,
            user: Value::Null,
            id,
            key: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap(),
        }
    }

    /// Makes its passkey for the options of an offer.
    pub fn register(&mut self, options: &Value) -> Value {
        let options = &options["publicKey"];
        self.user = options["user"]["id"].clone();
        // { "fmt": "none", "attStmt": {}, "authData": bytes }
        let mut object = b"\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData".to_vec();
        let data = self.data(HAS_KEY, &self.credential());
        object.extend([0x59, (data.len() >> 8) as u8, data.len() as u8]);
        object.extend(data);
        self.answer(json!({
            "attestationObject": encoded(&object),
            "clientDataJSON": encoded(&self.client_data("webauthn.create", options)),
            "transports": ["internal"],
        }))
    }

    /// Signs the challenge of options.
    pub fn sign(&mut self, options: &Value) -> Value {
        self.counter += u32::from(self.counts);
        let data = self.data(0, &[]);
        let client_data = self.client_data("webauthn.get", &options["publicKey"]);
        let signed = [&data[..], digest(&SHA256, &client_data).as_ref()].concat();
        let signature = self.key.sign(&SystemRandom::new(), &signed).unwrap();
        self.answer(json!({
            "authenticatorData": encoded(&data),
            "clientDataJSON": encoded(&client_data),
            "signature": encoded(signature.as_ref()),
            "userHandle": self.user,
        }))
    }

    fn answer(&self, response: Value) -> Value {
        let id = encoded(&self.id);
        json!({
            "id": id, "rawId": id, "type": "public-key", "response": response,
            "clientExtensionResults": {}, "authenticatorAttachment": "platform",
        })
    }

    fn client_data(&self, kind: &str, options: &Value) -> Vec<u8> {
        let (challenge, origin) = (&options["challenge"], self.origin);
        let data =
            json!({"type": kind, "challenge": challenge, "origin": origin, "crossOrigin": false});
        data.to_string().into_bytes()
    }

    /// Data of an authenticator (Web Authentication, section 6.1).
    fn data(&self, flags: u8, credential: &[u8]) -> Vec<u8> {
        let verified = if self.verifies_user { USER_VERIFIED } else { 0 };
        let mut data = digest(&SHA256, self.rp_id.as_bytes()).as_ref().to_vec();
        data.push(flags | USER_PRESENT | verified);
        data.extend(self.counter.to_be_bytes());
        data.extend(credential);
        data
    }

    /// The id, and the public key in COSE's form for ES256.
    fn credential(&self) -> Vec<u8> {
        let mut credential = vec![0; 16];
        credential.extend((self.id.len() as u16).to_be_bytes());
        credential.extend(&self.id);
        let point = self.key.public_key().as_ref();
        credential.extend(b"\xa5\x01\x02\x03\x26\x20\x01\x21\x58\x20");
        credential.extend(&point[1..33]);
        credential.extend(b"\x22\x58\x20");
        credential.extend(&point[33..]);
        credential
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

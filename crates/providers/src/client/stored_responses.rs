//! Responses that a vendor stores: read, cancelled and deleted at the account that stores them.

use domain::joined_texts::JoinedTexts;
use domain::json_text::{Token, rewrite, visit};
use domain::model::Model;
use domain::original::WireFormat;
use http::header::{ACCEPT, HeaderValue};
use http::{HeaderMap, Method};
use tokio::time::Instant;

use crate::adapter::request::Call;
use crate::client::{Bounds, Client};
use crate::credentials::Credentials;
use crate::error::Error;
use crate::net::pool::Resend;
use crate::net::receive::{self, JSON};
use crate::vendors;

/// The request that is made about a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredResponseAction {
    /// It is read.
    Read,
    /// The items of its input are read.
    ReadInput,
    /// It is ended, if it runs in the background.
    Cancel,
    /// It is deleted.
    Delete,
}

/// A call about a response that a vendor stores.
#[derive(Clone, Copy, Debug)]
pub struct StoredResponseCall<'a> {
    /// Its id at the vendor.
    pub id: &'a str,
    /// What is done with it.
    pub action: StoredResponseAction,
    /// The query of the request, as it goes on; empty for none.
    pub query: &'a str,
}

/// The vendor's answer.
#[derive(Debug)]
pub struct StoredResponseBody {
    /// Its JSON text, without credentials.
    pub body: String,
    /// Whether it names a model.
    pub has_model: bool,
}

impl Client {
    /// Reads, cancels or deletes a response that the account of a model stores.
    pub async fn stored_response(
        &self,
        model: &Model,
        call: StoredResponseCall<'_>,
        deadline: Instant,
    ) -> Result<StoredResponseBody, Error> {
        let answer = self.request_stored(model, call, deadline).await;
        answer.map_err(|error| error.sealed(model.api_key.as_ref()))
    }

    async fn request_stored(
        &self,
        model: &Model,
        StoredResponseCall { id, action, query }: StoredResponseCall<'_>,
        deadline: Instant,
    ) -> Result<StoredResponseBody, Error> {
        let adapter = vendors::adapter(model.provider);
        let adapter = adapter.beside(model, WireFormat::Responses).unwrap_or(adapter);
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if id.is_empty() || !id.bytes().all(is_word) {
            return Err(Error::unsupported(
                "The id of a response has letters, digits, '_' and '-'",
            ));
        }
        let (method, below) = match action {
            StoredResponseAction::Read => (Method::GET, ""),
            StoredResponseAction::ReadInput => (Method::GET, "/input_items"),
            StoredResponseAction::Cancel => (Method::POST, "/cancel"),
            StoredResponseAction::Delete => (Method::DELETE, ""),
        };
        let mut url = adapter.stored_response_url(model, &["/", id, below].concat())?;
        if !query.is_empty() {
            url.push(if url.contains('?') { '&' } else { '?' });
            url.push_str(query);
        }
        let endpoint = self.endpoint(model, &url)?;
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(ACCEPT, HeaderValue::from_static(JSON));
        let mut call = Call { uri: endpoint.uri.clone(), headers, body: Vec::new() };
        adapter.authenticate(model, &mut call, self.now())?;
        let (bounds, private) = (Bounds::of(deadline), model.is_private());
        let resend = Resend::Allowed;
        let sent = self.send(private, &endpoint, method, call, bounds.head, resend).await?;
        let response = receive::accept(sent, JSON, bounds.end, self.now()).await?;
        let body = receive::whole(response, bounds.end, bounds.bytes).await?;
        read(model, &body)
    }
}

fn read(model: &Model, body: &[u8]) -> Result<StoredResponseBody, Error> {
    let malformed = || Error::malformed("it is no JSON object that can be read in one way");
    crate::wire::json::object(body)?;
    let body = std::str::from_utf8(body).map_err(|_| malformed())?;
    let mut body = body.to_owned();
    if let Some(credentials) = Credentials::of(model.api_key.as_ref()) {
        let clean = |text: &str| credentials.clean_copy(text);
        let joined = JoinedTexts::default().replaced("", &body, clean).map_err(|_| malformed())?;
        let cleaned = rewrite(&body, |place, token| match token {
            Token::Text(text) | Token::Name(text) => {
                joined.get(&place.range.start).cloned().or_else(|| credentials.cleaned(text))
            }
            Token::Number(_) => None,
        });
        body = cleaned.map_err(|_| malformed())?.unwrap_or(body);
    }
    let mut has_model = false;
    let seen = visit(&body, |place, token| {
        has_model |= matches!(token, Token::Text(_)) && place.is_at(&["model"]);
    });
    seen.map_err(|_| malformed())?;
    Ok(StoredResponseBody { body, has_model })
}

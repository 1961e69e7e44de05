//! The caller of a request: an authenticated key, and the origin of the request.

use std::net::IpAddr;
use std::sync::Arc;

use domain::attributes::AttributeName;
use domain::model::Model;
use domain::step::ApiEndpoint;
use limits::RequestQuota;

use crate::capacity::body_memory::HeldCharge;
use crate::capacity::offload::Share;
use crate::error::{Error, Result};
use crate::state::claims::CallClaim;
use crate::state::registry::{KeyState, ProjectState};
use crate::state::session::{SessionId, is_session_name};

/// An authenticated key and the project it is good for.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The key.
    pub key: Arc<KeyState>,
    /// Its project.
    pub project: Arc<ProjectState>,
    /// The memory that is held for the body of its request, until all work on that is done.
    pub charge: HeldCharge,
    /// The requests that its key has left in the hour; `None` without a limit.
    pub quota: Option<RequestQuota>,
    /// The claim that its request is carried out under, if that has an `Idempotency-Key`.
    pub(crate) claim: Option<Arc<CallClaim>>,
    /// The name of its session in a header of its request.
    pub(crate) session_name: Option<Arc<str>>,
    /// Attributes in headers of its request.
    pub(crate) attributes: Option<Arc<HeaderAttributes>>,
}

/// Attributes as the headers of a request have them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderAttributes {
    /// The user.
    pub user: Option<String>,
    /// Tags: `name=value,name=value`.
    pub tags: Option<String>,
}

impl Caller {
    /// A key as the caller of a request without further headers.
    pub(crate) fn new(key: Arc<KeyState>, project: Arc<ProjectState>) -> Self {
        let charge = HeldCharge::default();
        let (quota, claim, session_name, attributes) = (None, None, None, None);
        Self { key, project, charge, quota, claim, session_name, attributes }
    }

    /// The caller, whose calls are made under a claim.
    pub(crate) fn under(mut self, claim: Arc<CallClaim>) -> Self {
        self.claim = Some(claim);
        self
    }

    /// The caller, with the session that a header of its request names. A name that is empty or too
    /// long is none.
    #[must_use]
    pub fn in_session(mut self, name: &str) -> Self {
        self.session_name = is_session_name(name).then(|| name.into());
        self
    }

    /// The caller, with the attributes that headers of its request name.
    #[must_use]
    pub fn with_attributes(mut self, attributes: HeaderAttributes) -> Self {
        self.attributes = Some(Arc::new(attributes));
        self
    }

    /// The session of a name, which is this key's own. A name and its hash, where it is stored so, are the
    /// same session.
    pub(crate) fn named_session(&self, name: &str) -> SessionId {
        let name = self.project.stored_value(&AttributeName::Session, name);
        self.project.session_key.named(self.key.key.id, &name)
    }

    /// Refuses a model that the key may not call.
    pub(crate) fn check_model(&self, model: &Model) -> Result<()> {
        let may = self.key.key.may_call(&model.identifier);
        if may { Ok(()) } else { Err(Error::ModelNotAllowed) }
    }

    /// Those of some models that the key may call.
    pub(crate) fn callable(&self, mut models: Vec<Arc<Model>>) -> Vec<Arc<Model>> {
        models.retain(|model| self.check_model(model).is_ok());
        models
    }

    /// Refuses an endpoint that the key may not use.
    pub(crate) fn check_endpoint(&self, endpoint: ApiEndpoint) -> Result<()> {
        if self.key.key.may_use(endpoint) { Ok(()) } else { Err(Error::EndpointNotAllowed) }
    }

    /// The share that work on its texts counts for.
    pub fn share(&self) -> Share {
        Share::of_key(self.project.id(), self.key.key.id)
    }
}

/// The origin of a request.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The address that counts for perimeter rules.
    pub address: IpAddr,
    /// The client's own description of itself.
    pub user_agent: String,
}

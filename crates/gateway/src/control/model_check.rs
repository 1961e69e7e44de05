//! The endpoints of a model: the states of their circuits, and whether they can be reached.

use std::sync::Arc;
use std::time::Duration;

use domain::ids::{ModelId, ProjectId};
use domain::model::Model;
use futures_util::future::join_all;
use tokio::time::timeout;

use crate::error::Result;
use crate::gateway::Gateway;
use crate::state::member::Member;

/// The time that an endpoint has to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// An endpoint of a model.
#[derive(Clone, Debug)]
pub struct EndpointState {
    /// Its index, if the model has several.
    pub index: Option<usize>,
    /// The model as it is called there.
    pub model: Arc<Model>,
    /// Whether its circuit is open on this node: it gets no calls until it has rested.
    pub is_open: bool,
}

/// An endpoint that was tried.
#[derive(Clone, Debug)]
pub struct EndpointCheck {
    /// The endpoint.
    pub state: EndpointState,
    /// Why it cannot be reached, if it cannot.
    pub fault: Option<String>,
}

impl Gateway {
    /// The endpoints of a model of a project that is a member's to see.
    pub fn endpoint_states(
        &self,
        member: &Member,
        project: ProjectId,
        id: ModelId,
    ) -> Result<Vec<EndpointState>> {
        let model = self.model(member, project, id)?.model;
        let state = |index: Option<usize>, at: &Arc<Model>| EndpointState {
            index,
            model: at.clone(),
            is_open: self.upstream.is_open(id, index.unwrap_or(0)),
        };
        if model.config.endpoints.is_empty() {
            return Ok(vec![state(None, &model)]);
        }
        let endpoints = model.config.endpoints.iter();
        Ok(endpoints.map(|endpoint| state(Some(endpoint.index), &endpoint.model)).collect())
    }

    /// Checks that the endpoints of a model can be reached, within five seconds. No prompt and no credential
    /// is sent, and nothing is paid.
    pub async fn check_endpoints(
        &self,
        member: &Member,
        project: ProjectId,
        id: ModelId,
    ) -> Result<Vec<EndpointCheck>> {
        member.check_admin()?;
        let states = self.endpoint_states(member, project, id)?;
        let check = async |state: EndpointState| {
            let fault = match timeout(PATIENCE, self.upstream.probe(&state.model)).await {
                Ok(reached) => reached.err().map(|error| error.to_string()),
                Err(_) => Some(format!("no answer within {} seconds", PATIENCE.as_secs())),
            };
            EndpointCheck { state, fault }
        };
        Ok(join_all(states.into_iter().map(check)).await)
    }
}

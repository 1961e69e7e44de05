//! Shadow calls: another model gets the prompt of an answered call, and its answer is compared.
//!
//! ```text
//!               not sampled, or not for this prompt        no slot, or too little memory
//! call recorded ------------------------------------> no shadow call <--------------------+
//!       |                                                  ^                              |
//!       +--> accepted --> running --> funded ----+---------+ no money, circuit open       |
//!               |                                +--> called --> compared --> recorded    |
//!               +------------------ the gateway stops ------------------------------------+
//! ```
//!
//! The words beside an arrow are the reason why it is taken. Accepted: the call has a slot among those that
//! wait. Running: it has one of the few slots of calls that run. Funded: its money is reserved. Called: the
//! shadow model has the prompt.
//!
//! Nobody waits for one: it begins once the answer to its call was recorded and has left, and waits for nothing
//! that other calls wait for. Its cost is counted like that of any other call.

use std::sync::Arc;
use std::time::Duration;

use domain::model::Model;
use domain::step::{FinishReason, StepStatus};
use domain::tier::Tier;
use grading::Output;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::capacity::offload::offload_always;
use crate::error::Result;
use crate::gateway::Gateway;
use crate::pipeline::call_outcome::CallOutcome;
use crate::pipeline::choose::Routed;
use crate::pipeline::fund::Funded;
use crate::pipeline::operation::Completion;
use crate::pipeline::pending_start::Call;
use crate::pipeline::rounds::Rounds;
use crate::safety::answer_strings;

/// The bytes that were handed to the connection last are written in this time, so the shadow call does not compete with it.
const START_DELAY: Duration = Duration::from_millis(20);
/// How long a shadow call waits for a caller to read its answer. Its slot is another's after that.
const LONGEST_READ: Duration = Duration::from_secs(30);
/// How long a shadow call waits for the rounds that follow its call. They may take minutes, in which its slot is
/// nobody's.
const LONGEST_ROUNDS: Duration = Duration::from_mins(1);
/// How long a shadow call may go on when the gateway stops.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// The outcome of a shadow call, as the metric counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShadowOutcome {
    Answered,
    Failed,
    /// No slot, or bodies take more than half of their memory, or later rounds or the caller take too long.
    Busy,
    /// The prompt must not reach the shadow model.
    Private,
    /// No money can be spared, or the model has no price.
    Unfunded,
    CircuitOpen,
    /// The model lacks what the prompt asks for.
    Unsupported,
    Stopped,
}

impl ShadowOutcome {
    fn as_str(self) -> &'static str {
        match self {
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Busy => "busy",
            Self::Private => "private",
            Self::Unfunded => "unfunded",
            Self::CircuitOpen => "circuit_open",
            Self::Unsupported => "unsupported",
            Self::Stopped => "stopped",
        }
    }

    fn count(self) {
        metrics::counter!("sluice_shadow_calls_total", "outcome" => self.as_str()).increment(1);
    }
}

/// An answer that a shadow model's is compared with.
struct Answer {
    text: String,
    message: Option<serde_json::Value>,
}

impl Answer {
    /// The answer of a call as the provider sent it; `None` if no answer was sent.
    fn take(outcome: &mut CallOutcome) -> Option<Self> {
        // The output check has ended it, or a provider's filter.
        let is_withheld =
            outcome.instead.is_some() && outcome.finish == Some(FinishReason::ContentFilter);
        if outcome.status != StepStatus::Completed || is_withheld {
            return None;
        }
        let mut text = std::mem::take(&mut outcome.text);
        if text.is_empty() {
            text = std::mem::take(&mut outcome.refusal);
        }
        Some(Self { text, message: outcome.message.take() })
    }

    fn output(&self) -> Output<'_> {
        match &self.message {
            Some(message) => Output::Stored(message),
            None => Output::Text(&self.text),
        }
    }
}

/// The signals that the answer to a call has left.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// The rounds of tools that follow the call; `None` if none do.
    rounds: Option<Rounds>,
    /// The place among the shadow calls that wait for their end.
    place: Option<OwnedSemaphorePermit>,
    /// Cancelled once the answer to the request has left, or will not leave; `None` if there is no request.
    answer_left: Option<CancellationToken>,
}

impl Leaving {
    pub(super) fn new(rounds: Option<Rounds>, answer_left: Option<CancellationToken>) -> Self {
        Self { rounds, place: None, answer_left }
    }

    /// Takes a place to wait for the end of the rounds. False if there is none.
    fn take_place(&mut self) -> bool {
        let Some(rounds) = &self.rounds else { return true };
        self.place = rounds.place();
        self.place.is_some()
    }

    /// Waits until the answer has left. Fails with the outcome if that takes too long, and with none if the caller
    /// hung up while tools were run.
    async fn has_left(self) -> std::result::Result<(), Option<ShadowOutcome>> {
        let slow = Err(Some(ShadowOutcome::Busy));
        if let Some(rounds) = &self.rounds {
            match timeout(LONGEST_ROUNDS, rounds.end()).await {
                Ok(true) => {}
                Ok(false) => return Err(None),
                Err(_) => return slow,
            }
        }
        let Some(left) = self.answer_left else { return Ok(()) };
        if timeout(LONGEST_READ, left.cancelled()).await.is_ok() { Ok(()) } else { slow }
    }
}

impl Gateway {
    /// Asks the shadow model of the project, if this call is one of its sample, once the answer to the call has
    /// left. Returns at once.
    pub(super) fn shadow(&self, call: Arc<Call>, outcome: &mut CallOutcome, mut leaving: Leaving) {
        let Some(model) = shadow_model(&call.funded) else { return };
        let Some(answer) = Answer::take(outcome) else { return };
        if !may_receive_prompt(&call.funded, &model) {
            return ShadowOutcome::Private.count();
        }
        let slot = self.shadow_slots.accept();
        let slot = slot.filter(|_| !self.body_memory.is_crowded() && leaving.take_place());
        let Some(slot) = slot else { return ShadowOutcome::Busy.count() };
        let gateway = self.clone();
        self.tasks.spawn(async move {
            let stopping = gateway.stopping.clone();
            let work = async {
                if let Err(outcome) = leaving.has_left().await {
                    return outcome;
                }
                tokio::time::sleep(START_DELAY).await;
                // It may have filled since.
                if gateway.body_memory.is_crowded() {
                    return Some(ShadowOutcome::Busy);
                }
                Some(match stopping.run_until_cancelled(slot.run()).await {
                    Some(Some(_running)) => gateway.shadow_call(call, model, answer).await,
                    _ => ShadowOutcome::Stopped,
                })
            };
            let stopped = async {
                stopping.cancelled().await;
                tokio::time::sleep(STOP_GRACE).await;
            };
            let outcome = tokio::select! {
                outcome = Box::pin(work) => outcome,
                () = stopped => Some(ShadowOutcome::Stopped),
            };
            if let Some(outcome) = outcome {
                outcome.count();
            }
        });
    }

    async fn shadow_call(
        &self,
        call: Arc<Call>,
        model: Arc<Model>,
        answer: Answer,
    ) -> ShadowOutcome {
        let routed = call.funded.routed().of_shadow(call.funded.step(), model.clone());
        drop(call);
        match self.ask_shadow(Arc::new(routed), &model, &answer).await {
            Ok(outcome) => outcome,
            Err(error) => {
                tracing::warn!(%error, model = %model.identifier, "a shadow call was not recorded");
                ShadowOutcome::Failed
            }
        }
    }

    async fn ask_shadow(
        &self,
        routed: Arc<Routed>,
        model: &Arc<Model>,
        answer: &Answer,
    ) -> Result<ShadowOutcome> {
        let screened = routed.screened();
        let (caller, prompt) = (&screened.context().caller, screened.prompt());
        let regions = caller.project.settings.allowed_regions.as_deref();
        if routed.stored_elsewhere(model).is_some() {
            return Ok(ShadowOutcome::Unsupported);
        }
        let order = |number| routed.endpoint_order(number);
        let accepts = |endpoint: &Model| routed.can_serve(model, endpoint);
        let Some(places) = self.upstream.places(model, order, regions, accepts) else {
            return Ok(ShadowOutcome::CircuitOpen);
        };
        if caller.check_charges(model, prompt).is_err() {
            return Ok(ShadowOutcome::Unfunded);
        }
        let Ok(funded) = self.fund(&routed, model, None).await else {
            return Ok(ShadowOutcome::Unfunded);
        };
        let mut flight = self.begin(funded).await?;
        let (funded, outcome) = flight.parts()?;
        let (mut reply, permit) = match self.attempt::<Completion>(funded, outcome, places).await {
            Ok(answered) => answered,
            Err(error) if error.refuses_request() && flight.outcome.attempts == 1 => {
                flight.withdraw().await?;
                return Ok(ShadowOutcome::Unsupported);
            }
            Err(error) => {
                flight.outcome.note_failure(&error);
                flight.outcome.usage = error.usage();
                flight.finish().await?;
                return Ok(ShadowOutcome::Failed);
            }
        };
        if let Some(permit) = permit {
            permit.success(self.upstream.clock.now());
        }
        if reply.text.is_empty()
            && let Some(refusal) = reply.native.as_ref().and_then(answer_strings::refusal)
        {
            reply.text = refusal.to_owned();
        }
        flight.outcome.note_reply(&reply);
        let own = Answer { text: reply.text.clone(), message: flight.outcome.message.clone() };
        let bytes = answer.text.len() + own.text.len();
        let compare = || grading::similarity(answer.output(), own.output());
        flight.outcome.similarity = Some(offload_always(caller.share(), bytes, compare).await);
        // Judged for its record; nobody reads it otherwise.
        flight.present(&mut reply).await?;
        flight.finish().await?;
        Ok(ShadowOutcome::Answered)
    }
}

/// The shadow model of a call's project, if this call is one of its sample.
fn shadow_model(funded: &Funded) -> Option<Arc<Model>> {
    let context = funded.routed().screened().context();
    let project = &context.caller.project;
    let shadow = project.settings.shadow_model.as_ref().filter(|shadow| shadow.enabled)?;
    // A replay compares models itself: a shadow call beside each would be paid for twice.
    let is_own = !context.is_shadow && context.source().is_none();
    if !is_own || !funded.pricing_basis().is_for_text() {
        return None;
    }
    let model = project.models.get(shadow.model.as_deref()?)?;
    context.caller.check_model(model).ok()?;
    is_sampled(funded.step().0, shadow.sample_rate).then(|| model.clone())
}

/// Whether a step is among the share of `rate`: by its id, so that nothing else decides it.
fn is_sampled(step: i64, rate: f64) -> bool {
    // SplitMix64: ids that follow each other give numbers that do not.
    let mut mixed = step.cast_unsigned().wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    ((mixed >> 11) as f64) < rate * (1_u64 << 53) as f64
}

/// Whether the prompt of a call may be sent to the shadow model.
fn may_receive_prompt(funded: &Funded, model: &Model) -> bool {
    let (routed, screened) = (funded.routed(), funded.routed().screened());
    let routing = routed.routing();
    let is_secure = routing.classified == Tier::Secure || routing.tier == Some(Tier::Secure);
    let private_only = is_secure || !screened.may_go_public();
    let regions = screened.context().caller.project.settings.allowed_regions.as_deref();
    !routing::chain(model, |_| None, private_only, regions).is_empty()
}

#[cfg(test)]
mod tests {
    use domain::step::Step;
    use serde_json::json;
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::request_id::{self, Served};
    use crate::testing::{Fresh, until};

    #[test]
    fn a_rate_is_the_share_of_steps() {
        for rate in [0.0, 0.01, 0.25, 1.0] {
            let sampled = (0..100_000).filter(|&step| is_sampled(step, rate)).count();
            assert!((sampled as f64 / 100_000.0 - rate).abs() < 0.005, "{rate}: {sampled}");
        }
        assert!((0..1000).all(|step| !is_sampled(step, 0.0) && is_sampled(step, 1.0)));
    }

    #[tokio::test]
    async fn a_shadow_call_begins_once_the_answer_has_left() {
        let fresh = shadowed().await;
        let trace = fresh.trace().await;
        let answer_left = CancellationToken::new();
        let answered = async { fresh.in_flight(&trace).await.finish().await };
        request_id::within(served(&answer_left), answered).await.unwrap();
        // Long enough for one that does not wait for it.
        sleep(5 * START_DELAY).await;
        let left_at = fresh.gateway.clock.now();
        answer_left.cancel();
        assert!(shadow_of(&fresh, &trace).await.started_at >= left_at);
    }

    #[tokio::test]
    async fn the_shadow_call_of_a_round_begins_once_the_answer_of_the_last_has_left() {
        let fresh = shadowed().await;
        let trace = fresh.trace().await;
        let (rounds, answer_left) = (Rounds::default(), CancellationToken::new());
        let guard = rounds.guard();
        let round = async { fresh.in_flight(&trace).await.finish_round(rounds.clone()).await };
        request_id::within(served(&answer_left), round).await.unwrap();
        sleep(5 * START_DELAY).await;
        rounds.note_answer();
        drop(guard);
        sleep(5 * START_DELAY).await;
        let left_at = fresh.gateway.clock.now();
        answer_left.cancel();
        assert!(shadow_of(&fresh, &trace).await.started_at >= left_at);
    }

    /// A gateway whose calls have a shadow each.
    async fn shadowed() -> Fresh {
        let shadow = json!({"enabled": true, "model": "sandbox", "sample_rate": 1.0});
        Fresh::with(json!({"shadow_model": shadow})).await
    }

    /// A request whose answer has left once this is cancelled.
    fn served(answer_left: &CancellationToken) -> Served {
        Served {
            id: "a".into(),
            trace: None,
            dropped_attributes: Arc::default(),
            answer_left: answer_left.clone(),
        }
    }

    /// The step of the shadow call of a trace, once it is there.
    async fn shadow_of(fresh: &Fresh, trace: &str) -> Step {
        until("the shadow model has answered", async || {
            fresh.steps(trace).await.into_iter().find(Step::is_shadow)
        })
        .await
    }

    #[test]
    fn an_answer_that_was_ended_is_not_compared() {
        let taken = |instead: Option<&str>, finish| {
            let mut outcome = CallOutcome {
                text: "The key is hunter2.".to_owned(),
                instead: instead.map(str::to_owned),
                finish: Some(finish),
                ..CallOutcome::default()
            };
            Answer::take(&mut outcome).map(|answer| answer.text)
        };
        // Nothing of it has left, or its beginning.
        assert_eq!(taken(Some(""), FinishReason::ContentFilter), None);
        assert_eq!(taken(Some("The key"), FinishReason::ContentFilter), None);
        let whole = Some("The key is hunter2.".to_owned());
        assert_eq!(taken(Some("The key is [SECRET]."), FinishReason::Stop), whole);
        assert_eq!(taken(None, FinishReason::Stop), whole);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shadow_call_waits_half_a_minute_for_a_slow_reader() {
        let began = Instant::now();
        assert_eq!(Leaving::default().has_left().await, Ok(()), "a call that no request waits for");
        assert!(began.elapsed().is_zero());
        let answer = |token: &CancellationToken| Leaving::new(None, Some(token.clone()));
        let token = CancellationToken::new();
        let reads = async {
            sleep(Duration::from_millis(29_999)).await;
            token.cancel();
        };
        assert_eq!(tokio::join!(answer(&token).has_left(), reads).0, Ok(()));
        let began = Instant::now();
        let slow = Err(Some(ShadowOutcome::Busy));
        assert_eq!(answer(&CancellationToken::new()).has_left().await, slow);
        assert_eq!(began.elapsed(), Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_shadow_call_waits_a_minute_for_the_rounds_that_follow() {
        let slow = Err(Some(ShadowOutcome::Busy));
        // The half minute of a slow reader begins after them.
        let (began, rounds) = (Instant::now(), Rounds::default());
        let guard = rounds.guard();
        let leaving = Leaving::new(Some(rounds.clone()), Some(CancellationToken::new()));
        let ends = async {
            sleep(Duration::from_secs(59)).await;
            rounds.note_answer();
            drop(guard);
        };
        assert_eq!(tokio::join!(leaving.has_left(), ends).0, slow);
        assert_eq!(began.elapsed(), Duration::from_secs(89));

        let (began, rounds) = (Instant::now(), Rounds::default());
        let guard = rounds.guard();
        assert_eq!(Leaving::new(Some(rounds.clone()), None).has_left().await, slow);
        assert_eq!(began.elapsed(), Duration::from_mins(1));
        // Rounds that end without an answer are those of a caller who hung up.
        drop(guard);
        assert_eq!(Leaving::new(Some(rounds), None).has_left().await, Err(None));
    }

    #[test]
    fn two_rounds_of_a_conversation_wait_at_a_time() {
        let rounds = Rounds::default();
        let mut waiting = [(); 2].map(|()| Leaving::new(Some(rounds.clone()), None));
        assert!(waiting.iter_mut().all(Leaving::take_place));
        let mut third = Leaving::new(Some(rounds.clone()), None);
        assert!(!third.take_place());
        drop(waiting);
        assert!(third.take_place());
    }
}

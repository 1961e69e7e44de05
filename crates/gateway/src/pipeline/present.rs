//! Present: an answer is judged before it leaves, and put back into the caller's own words.

use checks::Redactor;
use domain::conversation::Reply;
use domain::step::FinishReason;

use crate::error::Result;
use crate::pipeline::call_outcome::CallOutcome;
use crate::pipeline::in_flight::InFlight;
use crate::pipeline::passed_content;
use crate::safety::answer_strings::{self, tool_message};
use crate::safety::nonce::nonce;
use crate::safety::output_check::{
    AnswerString, Judged, Verdict, add_beside, judge, judged_strings, replace, restore,
};
use crate::state::registry::ProjectState;

impl InFlight {
    /// Judges a whole answer, notes the verdict on its step, and puts placeholders back. Returns
    /// the reason when the answer must not leave.
    pub(crate) async fn present(&mut self, reply: &mut Reply) -> Result<Option<String>> {
        let nonce = nonce().map_err(|error| self.fault(error))?;
        self.outcome.beside = reply.native.as_mut().map_or(0, answer_strings::beside_text);
        let mut source = reply.source.take();
        let (placeholders, judged) = {
            let screened = self.funded()?.routed().screened();
            let project = &screened.context().caller.project;
            let mut strings = judged_strings(&reply.text, reply.native.as_mut());
            let request = screened.prompt().original.as_ref();
            let request = request.and_then(|original| original.body.as_deref());
            add_beside(&mut strings, request, &mut source);
            let judged = judge(project, &strings, &mut Redactor::of_answer(nonce)).await;
            let restores = project.policy.safety().pii_restore;
            (restores.then(|| screened.placeholders().clone()), judged)
        };
        self.outcome.output = judged.security;
        if !matches!(judged.verdict, Verdict::Fine) {
            // Nobody may read the answer from its provider either.
            self.outcome.stored = None;
        }
        reply.source = source;
        match judged.verdict {
            Verdict::Fine => {}
            Verdict::Redacted(new) => {
                // A finding may span several strings of it: the answer is written anew.
                reply.source = None;
                replace(reply, new);
                self.outcome.instead = Some(reply.text.clone());
                self.outcome.message = tool_message(reply).cloned();
            }
            Verdict::Blocked(reason) => {
                self.outcome.instead = Some(String::new());
                self.outcome.message = None;
                self.outcome.finish = Some(FinishReason::ContentFilter);
                reply.native = None;
                reply.source = None;
                reply.text = String::new();
                reply.finish = Some(FinishReason::ContentFilter);
                return Ok(Some(reason));
            }
        }
        if reply.text.is_empty()
            && let Some(refusal) = reply.native.as_ref().and_then(answer_strings::refusal)
        {
            refusal.clone_into(&mut self.outcome.refusal);
        }
        if let Some(source) = &reply.source {
            let original = self.funded()?.routed().screened().prompt().original.as_ref();
            let format = original.map(|original| original.format);
            self.outcome.passed =
                format.map_or_else(Vec::new, |format| passed_content::of_answer(source, format));
        }
        if let Some(placeholders) = placeholders {
            restore(reply, &placeholders);
        }
        Ok(None)
    }
}

/// Judges what is left of an answer that did not come to its end: it must not be read back from its
/// step either.
pub(crate) async fn judge_rest(project: &ProjectState, outcome: &mut CallOutcome) {
    let refuses = outcome.text.is_empty();
    let rest = if refuses { &outcome.refusal } else { &outcome.text };
    if rest.is_empty() {
        return;
    }
    let instead = match nonce() {
        Ok(nonce) => {
            let said = [AnswerString::text(rest)];
            let judged = judge(project, &said, &mut Redactor::of_answer(nonce)).await;
            let Judged { security, verdict } = judged;
            outcome.output = security;
            match verdict {
                Verdict::Fine => None,
                Verdict::Redacted(new) => new.into_iter().next().flatten(),
                Verdict::Blocked(_) => Some(String::new()),
            }
        }
        // Its content is unknown.
        Err(_) => Some(String::new()),
    };
    outcome.message = None;
    // If the answer was judged on its way, the part that has left is known.
    match instead {
        Some(instead) if outcome.instead.is_none() && refuses => outcome.refusal = instead,
        instead => outcome.instead = outcome.instead.take().or(instead),
    }
}

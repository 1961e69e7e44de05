//! Present: an answer is judged before it leaves, and put back into the caller's own words.

use checks::Redactor;
use domain::conversation::Reply;
use domain::step::FinishReason;

use crate::error::Result;
use crate::pipeline::ended::Ended;
use crate::pipeline::in_flight::InFlight;
use crate::safety::answer_strings::{self, tool_message};
use crate::safety::nonce::nonce;
use crate::safety::output_check::{Judged, Said, Verdict, judge, replace, restore, said};
use crate::state::registry::ProjectState;

impl InFlight {
    /// Judges a whole answer, notes the verdict on its step, and puts placeholders back. Returns
    /// the reason when the answer must not leave.
    pub(crate) async fn present(&mut self, reply: &mut Reply) -> Result<Option<String>> {
        let nonce = nonce().map_err(|error| self.fault(error))?;
        self.heard.beside = reply.native.as_mut().map_or(0, answer_strings::beside_text);
        let (placeholders, judged) = {
            let screened = self.funded()?.routed().screened();
            let project = &screened.turn().caller.project;
            let said = said(&reply.text, reply.native.as_mut());
            let judged = judge(project, &said, &mut Redactor::of_answer(nonce)).await;
            let restores = project.policy.safety().pii_restore;
            (restores.then(|| screened.placeholders().clone()), judged)
        };
        self.heard.output = judged.security;
        match judged.verdict {
            Verdict::Fine => {}
            Verdict::Redacted(new) => {
                replace(reply, new);
                self.heard.instead = Some(reply.text.clone());
                self.heard.message = tool_message(reply).cloned();
            }
            Verdict::Blocked(reason) => {
                self.heard.instead = Some(String::new());
                self.heard.message = None;
                self.heard.finish = Some(FinishReason::ContentFilter);
                reply.native = None;
                reply.text = String::new();
                reply.finish = Some(FinishReason::ContentFilter);
                return Ok(Some(reason));
            }
        }
        if reply.text.is_empty()
            && let Some(refusal) = reply.native.as_ref().and_then(answer_strings::refusal)
        {
            refusal.clone_into(&mut self.heard.refusal);
        }
        if let Some(placeholders) = placeholders {
            restore(reply, &placeholders);
        }
        Ok(None)
    }
}

/// Judges what is left of an answer that did not come to its end: it must not be read back from its
/// step either.
pub(crate) async fn judge_rest(project: &ProjectState, heard: &mut Ended) {
    let refuses = heard.text.is_empty();
    let rest = if refuses { &heard.refusal } else { &heard.text };
    if rest.is_empty() {
        return;
    }
    let instead = match nonce() {
        Ok(nonce) => {
            let said = [Said::text(rest)];
            let judged = judge(project, &said, &mut Redactor::of_answer(nonce)).await;
            let Judged { security, verdict } = judged;
            heard.output = security;
            match verdict {
                Verdict::Fine => None,
                Verdict::Redacted(new) => new.into_iter().next().flatten(),
                Verdict::Blocked(_) => Some(String::new()),
            }
        }
        // Nobody knows what is in it.
        Err(_) => Some(String::new()),
    };
    heard.message = None;
    // Of what was judged on its way it is known what has left.
    match instead {
        Some(instead) if heard.instead.is_none() && refuses => heard.refusal = instead,
        instead => heard.instead = heard.instead.take().or(instead),
    }
}

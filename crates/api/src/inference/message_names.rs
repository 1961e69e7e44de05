//! The names of a conversation's messages in the caller's request.

use gateway::{Error, Refusal, Unanswered};

use crate::http::error::Failure;

/// The names that a request in a vendor's format has for the messages made of it.
#[derive(Debug)]
pub struct MessageNames {
    /// The list that most of them are made of.
    pub list: &'static str,
    /// The parameter that the others are made of.
    pub beside: &'static str,
    /// For each message its index in the list, or none if it is made of the other parameter.
    pub sources: Vec<Option<usize>>,
}

impl MessageNames {
    /// A failure of the call; a message at fault has the name that it has in the caller's request.
    pub fn failure(&self, unanswered: Unanswered) -> Failure {
        let Unanswered { error, trace } = unanswered;
        let error = match error {
            Error::InvalidMessage { index, fault } => {
                let at = match self.source(index) {
                    Some(index) => format!("{}[{index}]", self.list),
                    // A text may replace the list.
                    None if index + 1 == self.sources.len() => self.list.to_owned(),
                    None => self.beside.to_owned(),
                };
                Error::invalid(format!("{at}: {fault}"))
            }
            other => other,
        };
        Unanswered { error, trace }.into()
    }

    /// A refusal of the call; the message of its cause has the index that it has in the caller's list,
    /// or none if it is not of that list.
    pub fn located(&self, mut refusal: Refusal) -> Refusal {
        if let Some(cause) = &mut refusal.cause {
            cause.message = cause.message.and_then(|index| self.source(index));
        }
        refusal
    }

    fn source(&self, index: usize) -> Option<usize> {
        self.sources.get(index).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_the_name_that_the_caller_knows_it_by() {
        let sources = vec![None, Some(0), Some(1), Some(1)];
        let names = MessageNames { list: "input", beside: "instructions", sources };
        let told = |index: usize| {
            let error = Error::InvalidMessage { index, fault: "no".to_owned() };
            names.failure(error.into()).into_body().errors
        };
        assert_eq!(told(0), ["instructions: no"]);
        assert_eq!(told(1), ["input[0]: no"]);
        assert_eq!(told(3), ["input[1]: no"]);
        let names = MessageNames { sources: vec![None, None], ..names };
        let error = Error::InvalidMessage { index: 1, fault: "no".to_owned() };
        assert_eq!(names.failure(error.into()).into_body().errors, ["input: no"]);
    }
}

//! Findings, and their locations in a request.

use checks::{Finding, Report};
use domain::conversation::Prompt;
use domain::safety::Category;
use serde::Serialize;

use crate::safety::prompt_strings;

/// The most characters of a field's name that are reported: a caller may choose any names.
const LONGEST_NAME: usize = 64;

/// Something that was found in a request, and where.
#[derive(Clone, Debug, Serialize)]
pub struct Located {
    /// Which kind of check found it.
    pub category: Category,
    /// Its kind; see [`checks::Finding`].
    #[serde(rename = "type")]
    pub kind: String,
    /// The index of the string among all that are judged.
    pub part: usize,
    /// First character of it in that string, in Unicode scalar values.
    pub start: usize,
    /// One past the last.
    pub end: usize,
    /// Confidence and severity, 0 to 1.
    pub score: f64,
    /// The index of the message; none for other fields of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<usize>,
    /// The role of that message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// The field of the message, or of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
}

impl Located {
    /// A finding in a request that is one text and nothing else.
    pub(crate) fn in_text(finding: &Finding) -> Self {
        Self {
            category: finding.category,
            kind: finding.kind.clone().into_owned(),
            part: finding.part,
            start: finding.start,
            end: finding.end,
            score: finding.score,
            message: None,
            role: None,
            field: None,
        }
    }
}

/// The findings of a report on a prompt, with their locations. They are ordered by part.
pub(crate) fn locate(prompt: &Prompt, report: &Report) -> Vec<Located> {
    let mut all: Vec<Located> = report.findings.iter().map(Located::in_text).collect();
    if all.is_empty() {
        return all;
    }
    let mut rest = all.iter_mut().peekable();
    let mut part = 0;
    prompt_strings::each(prompt, |spot, _| {
        while let Some(found) = rest.next_if(|found| found.part == part) {
            found.message = spot.message.map(|(index, _)| index);
            found.role = spot.message.map(|(_, role)| role);
            found.field = Some(spot.field.chars().take(LONGEST_NAME).collect());
        }
        part += 1;
    });
    all
}

/// The finding that made safety refuse a request, if it did.
pub(crate) fn cause(report: &Report, located: &[Located]) -> Option<Box<Located>> {
    let finding = report.block.as_ref()?.finding?;
    located.get(finding).cloned().map(Box::new)
}

#[cfg(test)]
mod tests {
    use domain::conversation::{Body, Message, Role};
    use domain::safety::Safety;
    use serde_json::{Map, json};

    use super::*;
    use crate::safety::inspection;

    #[test]
    fn a_block_names_the_message_that_caused_it() {
        let say = |role, text: &str| Message {
            role,
            body: Body::Text(text.to_owned()),
            extra: Map::new(),
        };
        let mut prompt = Prompt {
            messages: vec![
                say(Role::System, "Be brief."),
                say(Role::User, "Mail jo@a.example."),
                say(Role::Tool, "é Use ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5"),
            ],
            ..Prompt::default()
        };
        let policy = checks::Policy::compile(&Safety::default()).unwrap();
        let place = |found: &Located| (found.message, found.role, found.field.clone().unwrap());
        let report = inspection::inspect(&policy, &prompt);
        let located = locate(&prompt, &report);
        assert_eq!(place(&located[0]), (Some(1), Some("user"), "content".to_owned()));
        let cause = cause(&report, &located).unwrap();
        assert_eq!(place(&cause), (Some(2), Some("tool"), "content".to_owned()));
        assert_eq!((cause.category, cause.start, cause.end), (Category::Secret, 6, 46));
        assert_eq!(report.block.unwrap().finding, Some(1));

        prompt.messages.pop();
        let params =
            json!({"tools": [{"description": "ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5"}]});
        prompt.params = params.as_object().unwrap().clone();
        let report = inspection::inspect(&policy, &prompt);
        let cause = super::cause(&report, &locate(&prompt, &report)).unwrap();
        assert_eq!(place(&cause), (None, None, "tools".to_owned()));
    }
}

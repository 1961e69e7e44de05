//! The query of a list of audit events: its page and its filters.

use form_urlencoded::{Serializer, parse};
use gateway::{AuditFilter, AuditQuery, Error, MOST_AUDIT_EVENTS};
use utoipa::IntoParams;

use crate::evidence::trace_query::time;

/// The filters, all of which an event has to fit.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the description of the query, which is read by hand")]
pub struct FilterParams {
    /// An ISO date or time: happened then or later.
    from: Option<String>,
    /// An ISO date, which counts as a whole day, or the time before which it happened.
    to: Option<String>,
    /// The address of the user who acted; `cli` for the command line.
    actor: Option<String>,
    /// The kind of the event.
    event: Option<String>,
    /// The kind of the object that was acted on, or its kind and id, as in `project:1`.
    target: Option<String>,
}

/// The page.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "the description of the query, which is read by hand")]
pub struct PageParams {
    /// Only events older than the one with this `id`.
    before: Option<i64>,
    /// From 1 to 1000; 50 by default.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<i64>,
}

/// The query of a page.
#[derive(Debug)]
pub(crate) struct AuditPageQuery {
    /// The page that is asked for.
    pub(crate) query: AuditQuery,
    /// The filters and the limit as they were given, without the place of the page.
    pub(crate) given: Vec<(String, String)>,
}

impl AuditPageQuery {
    /// The query of an export of all events that fit.
    pub(crate) fn filters(&self) -> String {
        let filters = self.given.iter().filter(|(name, _)| name != "limit");
        Serializer::new(String::new()).extend_pairs(filters).finish()
    }

    /// The query of the page before an event.
    pub(crate) fn page_before(&self, event: i64) -> String {
        let mut next = Serializer::new(String::new());
        next.extend_pairs(&self.given).append_pair("before", &event.to_string()).finish()
    }
}

/// Reads the query of a page. Unknown names are passed over.
pub(crate) fn read(query: &str) -> Result<AuditPageQuery, Error> {
    let mut asked = AuditPageQuery { query: AuditQuery::default(), given: Vec::new() };
    for (name, value) in parse(query.as_bytes()) {
        match &*name {
            "before" => {
                asked.query.before = Some(value.parse().map_err(|_| {
                    Error::Malformed("before must be the id of an audit event".to_owned())
                })?);
                continue;
            }
            "limit" => asked.query.limit = limit(&value)?,
            name if filter(&mut asked.query.filter, name, &value)? => {}
            _ => continue,
        }
        asked.given.push((name.into_owned(), value.into_owned()));
    }
    Ok(asked)
}

/// Reads the query of an export, which has no pages.
pub(crate) fn read_filter(query: &str) -> Result<AuditFilter, Error> {
    let mut asked = AuditFilter::default();
    for (name, value) in parse(query.as_bytes()) {
        filter(&mut asked, &name, &value)?;
    }
    Ok(asked)
}

/// Reads a filter, and returns whether it is one.
fn filter(asked: &mut AuditFilter, name: &str, value: &str) -> Result<bool, Error> {
    match name {
        "from" => asked.from = Some(time(name, value)?.start),
        "to" => asked.to = Some(time(name, value)?.end),
        // Addresses are stored so.
        "actor" => asked.actor = Some(value.to_lowercase()),
        "event" => asked.event = Some(value.to_owned()),
        "target" => {
            let (kind, id) = match value.split_once(':') {
                Some((kind, id)) => (kind, Some(id)),
                None => (value, None),
            };
            if kind.is_empty() || id == Some("") {
                let form =
                    "target must be a kind, as in project, or a kind and an id, as in project:1";
                return Err(Error::Malformed(form.to_owned()));
            }
            asked.target_type = Some(kind.to_owned());
            asked.target_id = id.map(str::to_owned);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn limit(value: &str) -> Result<i64, Error> {
    let limit = value.parse().ok().filter(|limit| (1..=MOST_AUDIT_EVENTS).contains(limit));
    let range =
        || Error::Malformed(format!("limit must be a whole number from 1 to {MOST_AUDIT_EVENTS}"));
    limit.ok_or_else(range)
}

#[cfg(test)]
mod tests {
    use domain::time::Timestamp;

    use super::*;

    #[test]
    fn a_query_is_read_and_leads_to_the_next_page() {
        let text = "from=2026-11-27&to=2026-11-27&actor=A%40b.test&event=key_created&target=key%3A7&limit=9&before=4&x=y";
        let asked = read(text).unwrap();
        let at = |text| Timestamp::parse(text);
        let filter = AuditFilter {
            from: at("2026-11-27"),
            to: at("2026-11-28"),
            actor: Some("a@b.test".to_owned()),
            event: Some("key_created".to_owned()),
            target_type: Some("key".to_owned()),
            target_id: Some("7".to_owned()),
        };
        assert_eq!(
            (&asked.query.filter, asked.query.before, asked.query.limit),
            (&filter, Some(4), 9)
        );
        assert_eq!(read_filter(text).unwrap(), filter);
        let next = asked.page_before(2);
        let expected = "from=2026-11-27&to=2026-11-27&actor=A%40b.test&event=key_created&target=key%3A7&limit=9&before=2";
        assert_eq!(next, expected);
        let plain = read("").unwrap();
        assert_eq!((plain.query.before, plain.query.limit), (None, 50));
    }

    #[test]
    fn a_bad_value_is_answered_with_what_it_must_be() {
        for (query, sentence) in [
            ("from=soon", "from must be an ISO 8601 date or time"),
            ("to=7d", "to must be an ISO 8601 date or time"),
            (
                "target=",
                "target must be a kind, as in project, or a kind and an id, as in project:1",
            ),
            (
                "target=key:",
                "target must be a kind, as in project, or a kind and an id, as in project:1",
            ),
            ("before=x", "before must be the id of an audit event"),
            ("limit=0", "limit must be a whole number from 1 to 1000"),
            ("limit=1001", "limit must be a whole number from 1 to 1000"),
            ("limit=", "limit must be a whole number from 1 to 1000"),
        ] {
            let refused = read(query);
            assert!(
                matches!(&refused, Err(Error::Malformed(said)) if said == sentence),
                "{query}: {refused:?}"
            );
        }
    }
}

//! The headers of W3C Trace Context.

use std::sync::Arc;

use axum::http::HeaderMap;
use domain::trace_context::{
    CallerTrace, MOST_TRACESTATE_BYTES, TRACEPARENT_BYTES, TraceContext, is_tracestate,
};

/// The trace that a request's headers name. Headers that are not valid are as if they were not there.
pub fn caller_trace(headers: &HeaderMap) -> Option<Arc<CallerTrace>> {
    let mut parents = headers.get_all("traceparent").iter();
    let parent = parents.next()?;
    if parents.next().is_some() || parent.len() != TRACEPARENT_BYTES {
        return None;
    }
    let context = TraceContext::parse(parent.to_str().ok()?)?;
    Some(Arc::new(CallerTrace { context, state: tracestate(headers) }))
}

/// The `tracestate`, which may come in several headers.
fn tracestate(headers: &HeaderMap) -> Option<Arc<str>> {
    let parts = || headers.get_all("tracestate").iter();
    if parts().map(|part| part.len() + 1).sum::<usize>() > MOST_TRACESTATE_BYTES + 1 {
        return None;
    }
    let parts: Result<Vec<&str>, _> = parts().map(|part| part.to_str()).collect();
    let state = parts.ok()?.join(",");
    is_tracestate(&state).then(|| state.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn read(headers: &[(&'static str, &str)]) -> Option<Option<String>> {
        let headers = headers.iter().map(|(name, value)| {
            (axum::http::HeaderName::from_static(name), value.parse().unwrap())
        });
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(name, value);
        }
        caller_trace(&all).map(|trace| trace.state.as_deref().map(str::to_owned))
    }

    #[test]
    fn a_state_needs_a_parent_and_is_whole_or_left_out() {
        let parent = ("traceparent", PARENT);
        let long = format!("a={}", "v".repeat(255));
        assert_eq!(read(&[parent]), Some(None));
        assert_eq!(read(&[("tracestate", "a=1")]), None);
        assert_eq!(read(&[parent, ("tracestate", "a=1")]), Some(Some("a=1".to_owned())));
        let several = [parent, ("tracestate", "a=1"), ("tracestate", "b=2")];
        assert_eq!(read(&several), Some(Some("a=1,b=2".to_owned())));
        assert_eq!(read(&[parent, ("tracestate", "a")]), Some(None));
        let long = [parent, ("tracestate", &long), ("tracestate", &long.replace("a=", "b="))];
        assert_eq!(read(&long), Some(None));
        assert_eq!(read(&[parent, parent]), None);
        assert_eq!(read(&[("traceparent", &format!("{PARENT}-x"))]), None);
    }
}

//! Pages and files, compressed for browsers that accept it.

use std::io::{self, Write as _};

use axum::body::{Body, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, VARY};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use flate2::Compression;
use flate2::write::GzEncoder;
use gateway::{Share, try_offload};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Smaller bodies gain nothing.
const SMALLEST: u64 = 1024;

/// Compresses bodies that are complete; those that are written while they are sent go as they are. A long one is
/// compressed while another thread serves the requests of this one, and goes as it is if no permit for that is free:
/// it waits for none. A page that another site leads to is not compressed: its size would give away whether what the
/// site put into the address occurs on the page (BREACH, CVE-2013-3587).
pub(super) async fn compressed(request: Request, next: Next) -> Response {
    let may = request.method() == Method::GET
        && accepts_gzip(request.headers())
        && is_of_own_page(request.headers());
    let response = next.run(request).await;
    let size = response.body().size_hint().exact();
    if !may || size.is_none_or(|size| size < SMALLEST) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    // The body is there, and is no longer than its size.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return Response::from_parts(parts, Body::empty());
    };
    let packed = try_offload(Share::of_control(), bytes.len(), || packed(&bytes));
    // Writing to a vector cannot fail.
    let Some(Ok(packed)) = packed else {
        return Response::from_parts(parts, bytes.into());
    };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    parts.headers.append(VARY, HeaderValue::from_static("accept-encoding, sec-fetch-site"));
    Response::from_parts(parts, packed.into())
}

fn packed(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let into = Vec::with_capacity(bytes.len() / 3);
    let mut encoder = GzEncoder::new(into, Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Whether a client takes gzip (RFC 9110, section 12.5.3).
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        is_gzip && weight.unwrap_or(1.0) > 0.0
    })
}

/// Whether a page of this origin, or the person, asks.
fn is_of_own_page(headers: &HeaderMap) -> bool {
    let site = headers.get(FETCH_SITE).map(HeaderValue::as_bytes);
    site.is_some_and(|site| site == b"same-origin" || site == b"none")
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use tower::ServiceExt as _;

    use super::*;

    #[tokio::test]
    async fn a_body_of_any_size_is_compressed() {
        for size in [2_000, 3 * 1024 * 1024] {
            let router = Router::new()
                .route("/", get(move || async move { "a".repeat(size) }))
                .layer(from_fn(compressed));
            let request = Request::get("/").header(ACCEPT_ENCODING, "gzip");
            let request = request.header(FETCH_SITE, "none").body(Body::empty()).unwrap();
            let response = router.oneshot(request).await.unwrap();
            assert_eq!(response.headers()[CONTENT_ENCODING], "gzip", "{size}");
            let sent = to_bytes(response.into_body(), size).await.unwrap();
            assert!(sent.len() < size / 10, "{size}: {}", sent.len());
        }
    }

    #[test]
    fn a_client_names_the_codings_that_it_takes() {
        for (value, accepted) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5, br", true),
            ("gzip;q=0", false),
            ("gzip; q=0.0", false),
            ("br", false),
            ("xgzip", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT_ENCODING, value.parse().unwrap())]);
            assert_eq!(accepts_gzip(&headers), accepted, "{value}");
        }
    }
}

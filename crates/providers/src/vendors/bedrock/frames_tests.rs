use proptest::prelude::*;

use super::*;

/// A frame with text headers.
pub(in crate::vendors::bedrock) fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in headers {
        encoded.push(name.len() as u8);
        encoded.extend_from_slice(name.as_bytes());
        encoded.push(7);
        encoded.extend_from_slice(&(value.len() as u16).to_be_bytes());
        encoded.extend_from_slice(value.as_bytes());
    }
    raw(&encoded, payload)
}

fn raw(headers: &[u8], payload: &[u8]) -> Vec<u8> {
    let whole = (PRELUDE_BYTES + headers.len() + payload.len() + CHECKSUM_BYTES) as u32;
    let mut bytes = whole.to_be_bytes().to_vec();
    bytes.extend_from_slice(&(headers.len() as u32).to_be_bytes());
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes.extend_from_slice(headers);
    bytes.extend_from_slice(payload);
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_be_bytes());
    bytes
}

fn event(name: &str, payload: &str) -> Vec<u8> {
    let headers =
        [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")];
    frame(&headers, payload.as_bytes())
}

/// Returns the message type, name and payload of every frame of the pieces.
fn read_all<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<(String, String, Vec<u8>)>, Broken> {
    let mut frames = Frames::default();
    let mut seen = Vec::new();
    for piece in pieces {
        frames.feed(piece, |frame| {
            let Frame { message_type, name, payload, .. } = *frame;
            seen.push((message_type.to_owned(), name.to_owned(), payload.to_vec()));
            Ok::<_, Broken>(())
        })?;
        assert!(frames.partial.len() <= MOST_FRAME_BYTES);
    }
    Ok(seen)
}

/// The empty frame of AWS's own test vectors, and one with a payload.
#[test]
fn known_frames_are_read() {
    let empty = [0, 0, 0, 0x10, 0, 0, 0, 0, 0x05, 0xc2, 0x48, 0xeb, 0x7d, 0x98, 0xc8, 0xff];
    assert_eq!(read_all([&empty[..]]).unwrap(), [(String::new(), String::new(), Vec::new())]);
    let payload = [
        0, 0, 0, 0x1d, 0, 0, 0, 0, 0xfd, 0x52, 0x8c, 0x5a, 0x7b, 0x27, 0x66, 0x6f, 0x6f, 0x27,
        0x3a, 0x27, 0x62, 0x61, 0x72, 0x27, 0x7d, 0xc3, 0x65, 0x39, 0x36,
    ];
    assert_eq!(read_all([&payload[..]]).unwrap()[0].2, b"{'foo':'bar'}");
}

#[test]
fn headers_of_every_type_are_passed_over() {
    let mut headers = Vec::new();
    for (kind, value) in [
        (0, &[][..]),
        (1, &[]),
        (2, &[1]),
        (3, &[0, 1]),
        (4, &[0, 0, 0, 1]),
        (5, &[0; 8]),
        (6, &[0, 2, 7, 7]),
        (8, &[0; 8]),
        (9, &[0; 16]),
    ] {
        headers.extend_from_slice(&[1, b'x', kind]);
        headers.extend_from_slice(value);
    }
    headers.extend_from_slice(b"\x0d:message-type\x07\x00\x05event");
    assert_eq!(read_all([&raw(&headers, b"p")[..]]).unwrap()[0].0, "event");
}

#[test]
fn what_is_no_frame_is_an_error() {
    let good = event("metadata", "{}");
    for at in [0, 5, 9, 14, good.len() - 6, good.len() - 1] {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert_eq!(read_all([&bad[..]]), Err(Broken::Checksum), "{at}");
    }
    for (whole, headers) in [(15, 0), (0, 0), (u32::MAX, 0), (1 << 21, 0), (20, 5), (16, u32::MAX)]
    {
        let mut prelude = whole.to_be_bytes().to_vec();
        prelude.extend_from_slice(&headers.to_be_bytes());
        prelude.extend_from_slice(&crc32fast::hash(&prelude).to_be_bytes());
        assert_eq!(read_all([&prelude[..]]), Err(Broken::Length), "{whole} {headers}");
    }
    for headers in
        [&b"\x05a"[..], b"\x01a", b"\x01a\x0a", b"\x01a\x07\x00\x05b", b"\x01a\x07\x00\x01\xff"]
    {
        assert_eq!(read_all([&raw(headers, b"")[..]]), Err(Broken::Header), "{headers:?}");
    }
}

proptest! {
    #[test]
    fn frames_may_be_split_anywhere(
        payloads in prop::collection::vec("[ -~é🙂]{0,60}", 1..6),
        cuts in prop::collection::vec(1_usize..40, 1..60),
    ) {
        let bytes: Vec<u8> = payloads.iter().flat_map(|text| event("e", text)).collect();
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts {
            let (piece, more) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        pieces.push(rest);
        let seen = read_all(pieces).unwrap();
        prop_assert_eq!(&seen, &read_all([&bytes[..]]).unwrap());
        let texts: Vec<_> = seen.iter().map(|(_, _, payload)| payload.as_slice()).collect();
        prop_assert_eq!(texts, payloads.iter().map(String::as_bytes).collect::<Vec<_>>());
    }

    #[test]
    fn random_bytes_never_panic(pieces in prop::collection::vec(any::<Vec<u8>>(), 0..8)) {
        let _ = read_all(pieces.iter().map(Vec::as_slice));
    }

    #[test]
    fn random_headers_never_panic(headers in any::<Vec<u8>>(), payload in any::<Vec<u8>>()) {
        let _ = read_all([&raw(&headers, &payload)[..]]);
    }
}

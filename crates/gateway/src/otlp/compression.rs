//! The compression of requests.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::config::OtlpCompression;

impl OtlpCompression {
    /// Compresses a body. Returns the name of its encoding too, if it has one.
    pub(crate) fn pack(self, body: Vec<u8>) -> (Option<&'static str>, Vec<u8>) {
        match self {
            Self::None => (None, body),
            Self::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
                // Writing to memory does not fail; if it did, the body can be sent as it is.
                match encoder.write_all(&body).and_then(|()| encoder.finish()) {
                    Ok(packed) => (Some("gzip"), packed),
                    Err(_) => (None, body),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn what_is_packed_can_be_read() {
        let body = b"spans ".repeat(1_000);
        let (encoding, packed) = OtlpCompression::Gzip.pack(body.clone());
        assert!(encoding == Some("gzip") && packed.len() < body.len() / 10, "{}", packed.len());
        let mut read = Vec::new();
        flate2::read::GzDecoder::new(packed.as_slice()).read_to_end(&mut read).unwrap();
        assert_eq!(read, body);
        assert_eq!(OtlpCompression::None.pack(body.clone()), (None, body));
    }
}

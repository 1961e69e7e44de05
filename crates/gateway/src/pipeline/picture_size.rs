//! Width and height of a picture, from its head: PNG, JPEG, GIF and WebP.

/// The size of a picture in pixels; `None` if it is of another format, or its head is longer than
/// `bytes`. Of sizes that contradict each other the larger counts.
pub(super) fn of(bytes: &[u8], is_part: bool) -> Option<(u64, u64)> {
    png(bytes).or_else(|| gif(bytes)).or_else(|| webp(bytes)).or_else(|| jpeg(bytes, is_part))
}

fn png(bytes: &[u8]) -> Option<(u64, u64)> {
    let head = bytes.strip_prefix(b"\x89PNG\r\n\x1a\n")?.get(4..)?.strip_prefix(b"IHDR")?;
    Some((big(head.get(..4)?), big(head.get(4..8)?)))
}

fn gif(bytes: &[u8]) -> Option<(u64, u64)> {
    let head = bytes.strip_prefix(b"GIF87a").or_else(|| bytes.strip_prefix(b"GIF89a"))?;
    Some((little(head.get(..2)?), little(head.get(2..4)?)))
}

fn webp(bytes: &[u8]) -> Option<(u64, u64)> {
    let head = bytes.strip_prefix(b"RIFF")?.get(4..)?.strip_prefix(b"WEBP")?;
    let (kind, data) = (head.get(..4)?, head.get(8..)?);
    match kind {
        b"VP8X" => Some((1 + little(data.get(4..7)?), 1 + little(data.get(7..10)?))),
        b"VP8 " => {
            let frame = data.get(3..)?.strip_prefix(b"\x9d\x01\x2a")?;
            Some((little(frame.get(..2)?) & 0x3fff, little(frame.get(2..4)?) & 0x3fff))
        }
        b"VP8L" => {
            let bits = little(data.strip_prefix(b"\x2f")?.get(..4)?);
            Some((1 + (bits & 0x3fff), 1 + (bits >> 14 & 0x3fff)))
        }
        _ => None,
    }
}

/// The largest frame of a JPEG before its first scan.
fn jpeg(bytes: &[u8], is_part: bool) -> Option<(u64, u64)> {
    let mut rest = bytes.strip_prefix(b"\xff\xd8")?;
    let mut size: Option<(u64, u64)> = None;
    // Bytes of 255 may fill the space before a marker.
    while let Some(fill) = rest.iter().position(|byte| *byte != 0xff) {
        if fill == 0 {
            return None;
        }
        let marker = rest[fill];
        rest = &rest[fill + 1..];
        match marker {
            // The scan, and the end.
            0xda | 0xd9 => return size,
            0x01 | 0xd0..=0xd8 => continue,
            _ => {}
        }
        let Some(length) = rest.get(..2).map(big) else { break };
        let Some(segment) = usize::try_from(length).ok().and_then(|length| rest.get(2..length))
        else {
            break;
        };
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            let (height, width) = (big(segment.get(1..3)?), big(segment.get(3..5)?));
            let (wider, higher) = size.unwrap_or_default();
            size = Some((width.max(wider), height.max(higher)));
        }
        rest = &rest[2 + segment.len()..];
    }
    // A frame may follow beyond the part.
    size.filter(|_| !is_part)
}

fn big(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn little(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jpeg_of(segments: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = b"\xff\xd8".to_vec();
        for (marker, data) in segments {
            bytes.extend([0xff, *marker]);
            bytes.extend(u16::try_from(data.len() + 2).unwrap().to_be_bytes());
            bytes.extend(*data);
        }
        bytes.extend(b"\xff\xda\x00\x02");
        bytes
    }

    #[test]
    fn the_size_of_every_format_is_found() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x10\0\0\0\x02\x01\x08\x06";
        assert_eq!(of(png, false), Some((4096, 513)));
        assert_eq!(of(b"GIF89a\x40\x01\xf0\x00\xf7", false), Some((320, 240)));
        let lossy = b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a\x80\x02\xe0\x01";
        assert_eq!(of(lossy, false), Some((640, 480)));
        let lossless = b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\xff\xc0\x3f\x00";
        assert_eq!(of(lossless, false), Some((256, 256)));
        let extended = b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\xff\x0f\0\xff\x07\0";
        assert_eq!(of(extended, false), Some((4096, 2048)));
        let frame = [8, 0x02, 0x58, 0x03, 0x20, 3];
        let picture = jpeg_of(&[(0xe1, &[0; 9_000]), (0xc4, &[0; 9]), (0xc2, &frame)]);
        assert_eq!(of(&picture, false), Some((800, 600)));
        assert_eq!(of(&picture, true), Some((800, 600)), "the scan has begun");
    }

    #[test]
    fn nothing_is_made_of_a_broken_head() {
        let frame = [8, 0, 9, 0, 9, 3];
        let larger = [8, 1, 0, 0, 7, 3];
        let two = jpeg_of(&[(0xc0, &frame), (0xc2, &larger)]);
        assert_eq!(of(&two, false), Some((9, 256)), "the larger of both");
        assert_eq!(of(&two[..14], true), None, "another may follow");
        for broken in [
            &b""[..],
            b"\xff\xd8",
            b"\xff\xd8\xff",
            b"\xff\xd8\xff\xe1\x00",
            b"GIF89a\x01",
            b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0",
            b"RIFF\0\0\0\0WEBPVP8X",
            b"BM\0\0",
            b"\xff\xd8\x00\x00",
            b"\xff\xd8\xff\xe1\x00\x00\x00",
        ] {
            assert_eq!(of(broken, false), None, "{broken:?}");
        }
    }
}

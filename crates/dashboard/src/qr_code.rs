//! QR codes as paths of SVG.

use std::fmt::Write as _;

use qrcodegen::{QrCode, QrCodeEcc};

/// Modules of white around a code, without which not every camera finds it (ISO/IEC 18004).
const QUIET: i32 = 4;

/// A QR code.
#[derive(Clone, Debug)]
pub(crate) struct QrPath {
    /// Modules of a side, the white around it included.
    pub(crate) side: i32,
    /// The dark modules.
    pub(crate) path: String,
}

/// The QR code of a text; `None` if it is too long for one.
pub(crate) fn qr_path(text: &str) -> Option<QrPath> {
    let code = QrCode::encode_text(text, QrCodeEcc::Medium).ok()?;
    let mut path = String::new();
    for y in 0..code.size() {
        let mut x = 0;
        while x < code.size() {
            // Dark modules beside each other are one piece: no seam is between them.
            let width = (x..code.size()).take_while(|x| code.get_module(*x, y)).count();
            let width = i32::try_from(width).unwrap_or(0);
            if width > 0 {
                // Writing to a String cannot fail.
                let _ = write!(path, "M{},{}h{width}v1h-{width}z", x + QUIET, y + QUIET);
            }
            x += width + 1;
        }
    }
    Some(QrPath { side: code.size() + 2 * QUIET, path })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_has_the_dark_modules_of_the_code() {
        let text = "otpauth://totp/Sluice:a@b.test?secret=GEZDGNBVGY3TQOJQ&issuer=Sluice";
        let code = QrCode::encode_text(text, QrCodeEcc::Medium).unwrap();
        let QrPath { side, path } = qr_path(text).unwrap();
        assert_eq!(side, code.size() + 8);
        let number = |text: &str| text.parse::<i32>().unwrap();
        let mut drawn = Vec::new();
        for piece in path.split_terminator('z') {
            let (start, rest) = piece.strip_prefix('M').unwrap().split_once('h').unwrap();
            let (x, y) = start.split_once(',').unwrap();
            let width = number(rest.split('v').next().unwrap());
            drawn.extend((number(x)..number(x) + width).map(|x| (x, number(y))));
        }
        let all = (0..side).flat_map(|y| (0..side).map(move |x| (x, y)));
        let dark: Vec<_> = all.filter(|(x, y)| code.get_module(x - 4, y - 4)).collect();
        assert_eq!(drawn, dark);
        assert!(qr_path(&"a".repeat(5_000)).is_none());
    }
}

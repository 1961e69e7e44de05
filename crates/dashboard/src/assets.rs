//! Files of the console. Their addresses change with their content, so that a browser keeps them for good.

use std::sync::LazyLock;

const STYLE: &str = include_str!("../assets/console.css");
const SCRIPT: &str = include_str!("../assets/console.js");
const ICON: &str = include_str!("../assets/icon.svg");

/// A file.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its content.
    pub content: &'static str,
    /// Its media type.
    pub media_type: &'static str,
}

/// The addresses of the files.
pub(crate) struct Addresses {
    pub(crate) style: String,
    pub(crate) script: String,
    pub(crate) icon: String,
}

static ADDRESSES: LazyLock<Addresses> = LazyLock::new(|| Addresses {
    style: format!("/console/{:016x}.css", fingerprint(STYLE)),
    script: format!("/console/{:016x}.js", fingerprint(SCRIPT)),
    icon: format!("/console/{:016x}.svg", fingerprint(ICON)),
});

pub(crate) fn addresses() -> &'static Addresses {
    &ADDRESSES
}

/// The file at a path.
pub fn asset(path: &str) -> Option<Asset> {
    let Addresses { style, script, icon } = addresses();
    match path {
        path if path == style => {
            Some(Asset { content: STYLE, media_type: "text/css; charset=utf-8" })
        }
        path if path == script => {
            Some(Asset { content: SCRIPT, media_type: "text/javascript; charset=utf-8" })
        }
        path if path == icon => Some(Asset { content: ICON, media_type: "image/svg+xml" }),
        _ => None,
    }
}

/// FNV-1a: it tells versions apart, and protects nothing.
fn fingerprint(content: &str) -> u64 {
    content.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_addresses_of_their_own() {
        let Addresses { style, script, icon } = addresses();
        let types = [style, script, icon].map(|path| asset(path).unwrap().media_type);
        assert_eq!(types[2], "image/svg+xml");
        assert!(types[0].starts_with("text/css") && types[1].starts_with("text/javascript"));
        assert!(asset("/console/console.css").is_none());
    }
}

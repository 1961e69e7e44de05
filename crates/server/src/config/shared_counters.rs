//! The Redis by which several gateways count as one.

use std::path::Path;

use counters::Target;
use domain::secret::Secret;

use super::Error;

/// The Redis that is named, with the certificate authorities that its servers are held against.
pub(super) fn target(
    url: Option<&Secret>,
    ca_file: Option<&Path>,
) -> Result<Option<Target>, Error> {
    let Some(url) = url else {
        return match ca_file {
            Some(_) => Err(Error("redis_ca_file is set and redis_url is not: set both".to_owned())),
            None => Ok(None),
        };
    };
    let target = Target::parse(url).map_err(|fault| Error(fault.to_string()))?;
    let Some(path) = ca_file else { return Ok(Some(target)) };
    let bad = |why: &str| Error(format!("redis_ca_file {}: {why}", path.display()));
    let pem = std::fs::read(path).map_err(|error| bad(&error.to_string()))?;
    target.with_ca(pem).map(Some).map_err(|fault| bad(&fault.0))
}

#[cfg(test)]
mod tests {
    use crate::config::Layer;
    use crate::config::tests::load;

    #[test]
    fn a_file_of_authorities_that_cannot_be_used_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let (empty, broken) = (
            path("empty.pem", "nothing"),
            path("broken.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        );
        for (url, file, said) in [
            ("rediss://x", "/nowhere.pem", "redis_ca_file /nowhere.pem: No such file"),
            ("rediss://x", &*empty, "it holds no certificate"),
            ("rediss://x", &*broken, "it cannot be read"),
            ("redis://x", &*empty, "is not TLS: it begins with rediss"),
        ] {
            let env = [("SLUICE_REDIS_URL", url), ("SLUICE_REDIS_CA_FILE", file)];
            let error = load("", &env, Layer::default()).unwrap_err();
            assert!(error.0.contains(said), "{env:?}: {error}");
        }
        let alone = [("SLUICE_REDIS_CA_FILE", empty.as_str())];
        let error = load("", &alone, Layer::default()).unwrap_err();
        assert!(error.0.contains("redis_url is not: set both"), "{error}");
    }
}

//! Trusted certificate authorities: the system's, and those that the operator adds.

use std::fmt::Display;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

use crate::error::Error;
use crate::net::egress::Egress;

/// Returns the configuration of TLS towards providers, without a list of protocols.
pub(crate) fn config(egress: &Egress) -> Result<ClientConfig, Error> {
    let unusable = |cause: &dyn Display| {
        let path = egress.ca_file.as_deref().unwrap_or("".as_ref());
        Error::misconfigured(format!("The CA file {} cannot be used: {cause}", path.display()))
    };
    let mut added: Vec<CertificateDer<'static>> = Vec::new();
    if let Some(path) = &egress.ca_file {
        let pem = std::fs::read(path).map_err(|error| unusable(&error))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            added.push(certificate.map_err(|error| unusable(&error))?);
        }
        if added.is_empty() {
            return Err(unusable(&"it holds no certificate"));
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::misconfigured(format!("TLS cannot be set up: {error}")))?;
    let builder = match Verifier::new_with_extra_roots(added, provider) {
        Ok(verifier) => builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)),
        Err(error) if egress.ca_file.is_some() => return Err(unusable(&error)),
        // An image without certificates can still serve the sandbox and plain private servers.
        Err(error) => {
            tracing::warn!(%error, "no certificate authorities: https providers cannot be called");
            builder.with_root_certificates(RootCertStore::empty())
        }
    };
    Ok(builder.with_no_client_auth())
}

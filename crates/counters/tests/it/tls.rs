//! A Redis behind TLS, with a certificate of an authority that nobody else knows.

use std::path::Path;

use counters::{Counters, Settings, Target};
use domain::secret::Secret;
use domain::time::Clock;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::servers::{Server, free_port, is_there, settings};

/// An authority, and its certificate in PEM.
fn authority(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), pem)
}

/// The parameters of a certificate for `localhost`.
fn localhost() -> CertificateParams {
    CertificateParams::new(["localhost".to_owned()]).unwrap()
}

/// A server with such a certificate of this authority. It listens without TLS too. Returns its port with TLS.
async fn secure(
    folder: &Path,
    issuer: &Issuer<'static, KeyPair>,
    params: CertificateParams,
) -> (Server, u16) {
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let path = |name: &str| folder.join(name).display().to_string();
    std::fs::write(path("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(path("key.pem"), key.serialize_pem()).unwrap();
    let port = free_port();
    let tls = [
        "--tls-port",
        &port.to_string(),
        "--tls-cert-file",
        &path("cert.pem"),
        "--tls-key-file",
        &path("key.pem"),
        "--tls-auth-clients",
        "no",
    ];
    (Server::start(&tls).await, port)
}

async fn open(url: &str, ca: Option<&str>) -> Result<Counters, String> {
    let mut target = Target::parse(&Secret::new(url.to_owned())).unwrap();
    if let Some(ca) = ca {
        target = target.with_ca(ca.as_bytes().to_vec()).unwrap();
    }
    let known = settings("redis://localhost", 1, &Clock::system());
    Counters::open(Settings { target, ..known }).await.map_err(|refusal| refusal.to_string())
}

#[tokio::test]
async fn a_server_with_an_authority_of_its_own_is_held_against_that() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (issuer, ca) = authority("Ours");
    let (_server, port) = secure(folder.path(), &issuer, localhost()).await;
    let url = format!("rediss://localhost:{port}");
    let counters = open(&url, Some(&ca)).await.unwrap();
    counters.check().unwrap();
    counters.close().await;
    // A list of authorities.
    let (_, other) = authority("Another");
    let (_, impostor) = authority("Ours");
    open(&url, Some(&format!("{other}{ca}"))).await.unwrap().close().await;

    let by_number = format!("rediss://127.0.0.1:{port}");
    let stranger = "authority that is not trusted: name the authority's in redis_ca_file";
    let elsewhere = "for another host: write the host in redis_url as the certificate has it";
    for (url, ca, told) in [
        (&url, Some(&*other), stranger),
        (&url, Some(&*impostor), stranger),
        (&url, None, stranger),
        (&by_number, Some(&*ca), elsewhere),
    ] {
        let refused = open(url, ca).await.unwrap_err();
        assert!(refused.starts_with(&format!("Redis at {url}: ")), "{refused}");
        assert!(refused.contains(told) && refused.contains("SLUICE_REDIS_URL"), "{refused}");
    }
    let refused = open(&by_number, Some(&ca)).await.unwrap_err();
    assert!(refused.contains("localhost"), "it names the right host: {refused}");
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_refused() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (issuer, ca) = authority("Ours");
    let mut params = localhost();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let (_server, port) = secure(folder.path(), &issuer, params).await;
    let refused = open(&format!("rediss://localhost:{port}"), Some(&ca)).await.unwrap_err();
    assert!(refused.contains("its certificate has expired: renew it"), "{refused}");
}

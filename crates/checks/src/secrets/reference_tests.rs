//! Names of what a secret has, templates of logins, checksums of listed files; and the secrets beside them.

use super::tests::secrets;

const VALUE: &str = "9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1";
const HEX: &str = "152c189b8182c1ad13b648ba44a3c0d67db08629";

#[test]
fn the_end_of_a_name_tells_a_secret_from_what_it_has() {
    for name in [
        "api_key_id",
        "credential_id",
        "secret_uid",
        "tokenMint",
        "apiKeyHash",
        "ssh_key_name",
        "token-version",
        "accessTokenLifetimeMs",
        "nextPageToken",
        "continuation_token",
        "csrfToken",
        "X-CSRF-Token",
        "authenticity_token",
        "partition_key",
        "FAKE_SECRET",
        "mockApiKey",
    ] {
        let text = format!("{name}: \"{VALUE}\"");
        assert!(secrets(&text).is_empty(), "{text}: {:?}", secrets(&text));
    }
    for name in [
        "api_key",
        "apiKey",
        "token",
        "access_token",
        "csrf_secret",
        "csrfSecretKey",
        "session_id_secret",
        "name_token",
        "page_access_token",
        "id_token",
        "partition_api_key",
        "make_api_key",
        "AUTH_SALT",
    ] {
        let text = format!("{name}: \"{VALUE}\"");
        assert_eq!(secrets(&text).len(), 1, "{text}");
    }
}

#[test]
fn a_login_of_documentation_is_told_from_ones_own() {
    let url = |login: &str| format!("postgres://{login}@db.acme.io:5432/shop");
    for login in [
        "postgres:mysecretpassword",
        "user:p%40ssword",
        "reader:D1fficultP%40ssw0rd",
        "app:P@ssw0rd",
        "api-key:api-secret",
        "db:your_db_password",
        "app:bitnami",
        "apikey:SENDGRID_API_KEY",
    ] {
        assert!(secrets(&url(login)).is_empty(), "{login}: {:?}", secrets(&url(login)));
    }
    for login in ["app:Kd92mQx1Lp", "app:secretsquirrel7", "app:passport", "admin:admin123"] {
        assert_eq!(secrets(&url(login)).len(), 1, "{login}");
    }
}

#[test]
fn a_checksum_behind_a_file_or_a_cache_is_no_secret() {
    let long = format!("{HEX}{HEX}{HEX}12345678");
    for text in [
        format!("b2sum secret.bin {long}"),
        format!("token.tar  {HEX}"),
        format!("BUILD_KEY: deps-secrets-{HEX}"),
    ] {
        assert!(secrets(&text).is_empty(), "{text}: {:?}", secrets(&text));
    }
    for text in [format!("secret = {HEX}"), format!("API_KEY: acme-live-{HEX}")] {
        assert_eq!(secrets(&text).len(), 1, "{text}");
    }
}

#[test]
fn templates_and_repetitions_are_no_values() {
    for text in [
        "password=#{db_password_2}#",
        "password: \"{{ vault_db_password_2 }}\"",
        "password=%DB_PASSWORD_1%",
        "newPassword = generatePassword(16, true);",
        "identity_key: ~/.ssh/id_ed25519_deploy2",
        "redis_key = \"session:user:1a2b3c4d\"",
        "TEST_API_KEY=test-key-1234567890abcdef",
        "password = random_password.db2.result",
        "client_secret = azuread_application_password.app2.value",
        "api_key: \"1234567890abcdef1234567890abcdef\"",
        "api_key: deadbeefdeadbeefdeadbeefdeadbeef",
        "apiTokens: a=1, refreshTokenRotationGraceMs=120000",
    ] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
    for text in [
        "password = Kd92.mQx1.Lp",
        "smtp_pass: lvkrtqbvmtxzfjsw",
        "password = kd(92mQx1Lp",
        "password=%Kd92mQx1Lp%",
        "api_key: test-key-9f8Hd7Gs6Fa5Dp4Z",
        "app.token 152c189b8182c1ad13b648ba44a3c0d6",
    ] {
        assert_eq!(secrets(text).len(), 1, "{text}");
    }
}

#[test]
fn places_patterns_and_identifiers_of_keys_are_no_values() {
    for text in [
        "secretKey: STRIPE\n  remoteRef: {key: kv/prod/payments, property: stripe}",
        "[user]\n  signingkey = 3AA5C34371567BD2",
        "The signing key is `rsa4096/0x9B1D3A5C7E8F2046`.",
        "apt-key adv --keyserver hkp://keys.acme.io --recv-keys 9DC858229FC7DD38854AE2D88D81803C0EBFCD88",
        "docker run -e POSTGRES_PASSWORD=mysecretpassword postgres",
        "GET /api/keys?page_token=CAEQARoKMjAyNC0xMS0wMw HTTP/1.1",
        "PASSWORD_RULE = \"^(?=.*[0-9])(?=.*[a-z]).{8,20}$\";",
    ] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
    for text in [
        format!("{{key: {VALUE}}}"),
        "api_keys = 3AA5C34371567BD23AA5C34371567BD2".to_owned(),
        "signing_secret = 3AA5C34371567BD23AA5C34371567BD2".to_owned(),
        format!("the key is `kv/{VALUE}`"),
        format!("GET /api?token={VALUE} HTTP/1.1"),
        "password = \"^Kd92mQx1Lp$\"".to_owned(),
        format!("postgres://api-key:{VALUE}@db.acme.io:5432/shop"),
    ] {
        assert_eq!(secrets(&text).len(), 1, "{text}");
    }
}

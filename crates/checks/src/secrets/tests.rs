//! Credentials as the rest of the crate sees them.

use super::formatted::formatted;
use super::{Secret, find};
use crate::scan::{Scan, Scope};
use crate::vocabulary::formats;
use crate::vocabulary::formats::format::{Body, Charset, Format};

/// Values behind names and options, in all kinds of files.
const VALUES: [&str; 14] = [
    "export API_TOKEN=9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1",
    "api-key: 9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1",
    "<clientSecret>9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1</clientSecret>",
    "<add key=\"ApiKey\" value=\"9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1\"/>",
    "{\"name\": \"API_TOKEN\", \"value\": \"9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1\"}",
    "- name: DB_PASSWORD\n  value: s3Kr9wLmPq2x",
    "variable \"db_password\" { default = \"kJ8$mN2pQ9xL\" }",
    "ENV SECRET_KEY=9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1",
    "secret = 'Vt8[kQzM2w]R7pLx(d4Hn9]Bc5s'",
    "service_secret: \"w3t8k5m27h1ze4\"",
    "Authorization: Bearer 9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1",
    "sshpass -p 'Kd92mQx1Lp' ssh host",
    "mysql -h db -u root -pKd92mQx1Lp shop",
    "BUNDLE_GEMS__CONTRIBSYS__COM=\"1f2e3d4c:9a8b7c6d\"",
];

/// Texts close to credentials, which are where `@` is.
const NEIGHBOURS: [&str; 28] = [
    "<li>@<li>x",
    "@<!-- x",
    "it is @... please",
    "<td>@</td>",
    "<code>@<br>",
    "密钥是@。",
    "キーは@です",
    "key is @。",
    "@✅",
    "→@",
    "é@é",
    "\\n@\\n",
    "line\\t@\\r\\n",
    "\\u000a@",
    "a%0A@%0A",
    "token%3D@",
    "\u{1b}[31m@\u{1b}[0m",
    "\\x1b[1;32m@\\x1b[m",
    "**@**",
    "*@*",
    "***@***",
    "_@_",
    "__@__",
    "_@_.",
    "„@“",
    "`@`",
    "（@）",
    "~~@~~",
];

pub(super) fn secrets(text: &str) -> Vec<Secret> {
    find(
        text,
        &Scan::new(text, Scope::Leaks),
        100,
        &crate::pattern::watch::Watch::new(crate::pattern::watch::GiveUp::Never),
    )
}

pub(super) fn kinds(text: &str) -> Vec<&'static str> {
    secrets(text).iter().map(|secret| secret.kind).collect()
}

/// Characters of a set as chance would draw them; the same each time.
pub(super) fn body(charset: Charset, length: usize) -> String {
    let mut state = 0x2545_f491_u32;
    let mut draw = || {
        loop {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            let byte = (state >> 8) as u8 & 0x7f;
            if byte.is_ascii_alphanumeric() && charset.has(byte) {
                return char::from(byte);
            }
        }
    };
    (0..length).map(|_| draw()).collect()
}

fn unchecked() -> impl Iterator<Item = &'static Format> {
    formats::all().filter(|format| !matches!(format.body, Body::Checked(_)))
}

/// How long a value must be that changes its kind of character as seldom as chance allows.
fn shortest(format: &Format) -> usize {
    format.length.0.max(if matches!(format.body, Body::Free) { 20 } else { 0 })
}

/// Texts that hold a credential each, of every kind.
pub(crate) fn samples() -> Vec<String> {
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI3NyJ9.c2lnbmF0dXJlLW9mLXRlc3Q";
    let (lines, key) = (body(Charset::Alnum, 1280), body(Charset::Alnum, 64));
    let lines: Vec<&str> = (0..20).map(|line| &lines[line * 64..(line + 1) * 64]).collect();
    let structured = [
        token.to_owned(),
        format!("ghs_77_{token}"),
        "AKIAQ3ZK7TWM2XVN5RPL".to_owned(),
        "postgres://app:t9Kz!w4Qm@db.internal:5432/main".to_owned(),
        "curl -s https://api.example.org/v1 -u 'robot:Kd92mQx1Lp' -o out".to_owned(),
        format!("curl {} -u robot:Kd92mQx1Lp", "-H 'accept: text/plain' ".repeat(15)),
        "docker login registry.example.org -u ci -p Kd92mQx1Lp".to_owned(),
        "<password>Kd92mQx1Lp</password>".to_owned(),
        "my password is Tr0ub4dor&3".to_owned(),
        "パスワードはKd92mQx1Lpです。".to_owned(),
        "密码是Kd92mQx1Lp。".to_owned(),
        "我的API密钥是9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1。".to_owned(),
        "**Password:** Kd92mQx1Lp".to_owned(),
        "my password (Kd92mQx1Lp) works".to_owned(),
        "비밀번호는 Kd92mQx1Lp 입니다".to_owned(),
        "Das Kennwort lautet Kd92mQx1Lp.".to_owned(),
        "password: qWxTrBnMkLpZ".to_owned(),
        "postgres://app:p@ss#w0rd@db.internal:5432/main".to_owned(),
        format!("//registry.example.org/:_authToken=npm_{}", &key[..36]),
        format!("https://a.blob.example.org/c?sv=2024&sig={}%3D", &key[..43]),
        format!("AccountName=a;AccountKey={key}==;"),
        "wallet 0x5d0e7a91c3f84b26a8e1d97c402b6f35e98a17d4c06b52f3917ae84d20c5b6f8".to_owned(),
        "0x5d0e7a91c3f84b26a8e1d97c402b6f35e98a17d4c06b52f3917ae84d20c5b6f8 opens a wallet"
            .to_owned(),
        format!("-----BEGIN PRIVATE KEY-----\n{key}\n-----END PRIVATE KEY-----"),
        format!(
            "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
            lines.join("\n")
        ),
        format!("-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----", lines.join("\\n")),
    ];
    let glued =
        ["xghp_@", "my_ghp_@", "9ghp_@", "Agho_@ is it", "x_npm_@", "no.ghp_@!", "tokenghp_@,"];
    let glued = glued.map(|text| text.replace('@', "x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5"));
    let neighbours =
        NEIGHBOURS.map(|text| text.replace('@', "ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5"));
    let formats = unchecked()
        .map(|format| format!("{}{}", format.prefix, body(format.rest, shortest(format))));
    let documented = super::structured_tests::structures().into_iter().map(|(_, text)| text);
    formats
        .chain(structured)
        .chain(documented)
        .chain(neighbours)
        .chain(glued)
        .chain(super::assigned_tests::found().map(|(text, _)| text))
        .chain(VALUES.map(str::to_owned))
        .collect()
}

#[test]
fn every_format_is_found_from_its_shortest_form_on() {
    for format in unchecked() {
        let (least, most) = format.length;
        let found = |length: usize| {
            let text = format!("= {}{} ,", format.prefix, body(format.rest, length));
            formatted(&text, 2, format).is_some()
        };
        assert!(found(shortest(format)) && found(most), "{} {}", format.kind, format.prefix);
        assert!(!found(least - 1) && !found(most + 1), "{} {}", format.kind, format.prefix);
    }
}

#[test]
fn what_stands_close_hides_no_credential() {
    let url = body(Charset::Url, 35);
    for value in
        ["ghp_x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5", "AKIAQ3ZK7TWM2XVN5RPL", &format!("AIza{url}")]
    {
        for neighbours in NEIGHBOURS {
            let text = neighbours.replace('@', value);
            let found = secrets(&text);
            assert!(
                found.len() == 1 && &text[found[0].bytes.clone()] == value,
                "{text}: {found:?}"
            );
        }
        for cut in ["@...", "@…", "@•••"] {
            assert_eq!(secrets(&cut.replace('@', value)).len(), 1, "nothing is cut off {value}");
            let text = cut.replace('@', &value[..value.len() - 1]);
            assert!(secrets(&text).is_empty(), "{text}: {:?}", secrets(&text));
        }
        for cut in ["@_", "@****", "@<your"] {
            let text = cut.replace('@', value);
            assert!(secrets(&text).is_empty(), "{text}: {:?}", secrets(&text));
        }
        for glued in ["x@", "1@", "a_@"] {
            let text = glued.replace('@', value);
            let found = secrets(&text);
            assert!(found.len() == 1 && &text[found[0].bytes.clone()] == value, "{text}");
        }
    }
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI3NyJ9.c2lnbmF0dXJlLW9mLXRlc3Q";
    let bot = format!("Mx{}.Gk3d9Q.{}", body(Charset::Alnum, 22), body(Charset::Alnum, 27));
    for (value, kind) in [(token, "jwt"), (&bot, "discord_bot_token")] {
        for text in ["密钥是@。", "token:@です", "(@)"] {
            assert_eq!(kinds(&text.replace('@', value)), [kind], "{text}");
        }
    }
    for text in ["token-@", "-@", "\\n@", "session=ab-c-@"] {
        assert_eq!(kinds(&text.replace('@', token)), ["jwt"], "{text}");
    }
}

#[test]
fn the_index_leads_to_every_format() {
    for format in unchecked() {
        let text = format!("= {}{} ,", format.prefix, body(format.rest, shortest(format)));
        assert!(!secrets(&text).is_empty(), "{} {}", format.kind, format.prefix);
    }
}

#[test]
fn what_only_shows_the_form_is_left_alone() {
    for format in unchecked().filter(|format| !matches!(format.body, Body::Free)) {
        for filler in ["x", "X", "*", "0", "_"] {
            let text = format!("= {}{} ,", format.prefix, filler.repeat(format.length.0));
            assert!(formatted(&text, 2, format).is_none(), "{text}");
        }
    }
    for text in [
        "sk-proj-your_key_here_your_key_here_your_key_here_your_key_here",
        "sk-learn-parallel-item-container-2",
        "sk-ant-api03-Zx81kQmW0aLr5TnBv7YdJ2cHs9EfGuZx81kQmW0aLr5TnBv7YdJ2",
    ] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}

/// A value typed by somebody who wants to see a gateway refuse a credential.
#[test]
fn a_value_that_counts_is_one() {
    let (letters, digits) = ("abcdefghijklmnopqrstuvwxyz", "1234567890");
    for text in [
        format!("ghp_{digits}{letters}"),
        format!("ghp_{}Z0123456789", "aBcDeFgHiJkLmNoPqRsTuVwXy"),
        format!("AIzaSyA{digits}{}", &letters[..22]),
        format!("xoxb-123456789012-1234567890123-{}", &letters[..24]),
        format!("sk-proj-{letters}{digits}"),
        format!("sk-{digits}abcdef{digits}abcdef"),
    ] {
        let found = secrets(&text);
        assert!(found.len() == 1 && found[0].score > 0.7, "{text}: {found:?}");
    }
    assert!(secrets("dapiABCDEF1234567890ABCDEF1234567890AB").is_empty(), "nobody's length");
}

/// Many vendors' keys begin like this.
#[test]
fn a_random_value_behind_sk_is_a_key() {
    for text in ["sk-live-9f8e7d6c5b4a39281706f5e4", "sk-proj-Zx8Qm2LpV7nKd4TrYw1BcJ5HsGf9Ea3U"] {
        assert_eq!(kinds(text), ["secret_key"], "{text}");
    }
}

#[test]
fn a_documented_example_is_for_review() {
    let found = secrets("AKIAQ3ZK7TWM2EXAMPLE");
    assert!(found.len() == 1 && found[0].score < 0.7, "{found:?}");
}

#[test]
fn a_filled_in_form_of_the_exact_length_is_for_review() {
    // Ones where the identifier and the secret are, as in the tests of a program.
    let text = format!("tskey-auth-{}-{}", "1".repeat(12), "2".repeat(24));
    assert!(secrets(&text).iter().all(|s| s.score < 0.7) && kinds(&text) == ["tailscale_key"]);
}

#[test]
fn structures_are_checked() {
    let (id, secret) = (body(Charset::Alnum, 22), body(Charset::Alnum, 43));
    assert_eq!(kinds(&format!("SG.{id}.{secret}")), ["sendgrid_api_key"]);
    assert!(kinds(&format!("SG.{id}{secret}.x")).is_empty());
    let company = format!("sk-proj-{id}{id}T3BlbkFJ{secret}");
    assert_eq!(kinds(&company), ["openai_api_key"]);
    assert_eq!(kinds(&company.replace("T3BlbkFJ", "T3BlbkFx")), ["secret_key"]);
    let hex = body(Charset::Lower, 32).replace(|c: char| !c.is_ascii_hexdigit(), "7");
    assert_eq!(
        kinds(&format!("access_token$production$a1b2c3d4e5f6g7h8${hex}")),
        ["braintree_token"]
    );
}

#[test]
fn tokens_of_github_say_whether_they_are_whole() {
    // Made for this test: thirty characters and their CRC-32 in base 62.
    let random = "Zx81kQmW0aLr5TnBv7YdJ2cHs9EfGu";
    let mut sum = crate::text::checksum::crc32(random.as_bytes());
    let digits = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut check = Vec::new();
    for _ in 0..6 {
        check.insert(0, digits[(sum % 62) as usize]);
        sum /= 62;
    }
    let whole = format!("ghp_{random}{}", String::from_utf8(check).unwrap());
    let other = format!("ghp_{random}3PoI4X");
    assert!(secrets(&whole)[0].score > secrets(&other)[0].score);
    assert!(secrets(&other)[0].score > 0.7);
}

#[test]
fn values_are_found_in_all_kinds_of_files() {
    let sentences = [
        "my token (9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1) works",
        "**API key**: `9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1`",
        "我的API密钥是9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1。",
        "APIキー: 9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1です",
        "api_key=9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1。",
    ];
    for text in VALUES.into_iter().chain(sentences) {
        assert!(!secrets(text).is_empty(), "{text}");
    }
}

#[test]
fn passwords_are_found_in_many_languages() {
    for text in [
        "Das Kennwort lautet Kd92mQx1Lp.",
        "wachtwoord: Kd92mQx1Lp",
        "lösenord är Kd92mQx1Lp",
        "adgangskode er Kd92mQx1Lp",
        "heslo: Kd92mQx1Lp",
        "A jelszó: Kd92mQx1Lp",
        "şifre: Kd92mQx1Lp",
        "La password è Kd92mQx1Lp",
        "La contraseña es Kd92mQx1Lp",
        "la clave es Kd92mQx1Lp",
        "비밀번호는 Kd92mQx1Lp 입니다",
        "비밀번호: Kd92mQx1Lp입니다",
        "パスワードはKd92mQx1Lpです。",
        "パスワード:Kd92mQx1Lp",
        "密码是Kd92mQx1Lp。",
        "密碼: Kd92mQx1Lp,不要告訴別人",
        "mật khẩu: Kd92mQx1Lp",
        "kata sandi: Kd92mQx1Lp",
        "pw: Kd92mQx1Lp",
        "password: qWxTrBnMkLpZ",
        "my password (Kd92mQx1Lp) works",
        "**Password:** Kd92mQx1Lp",
        "- **password** - Kd92mQx1Lp",
    ] {
        let found = secrets(text);
        assert!(found.len() == 1 && found[0].kind == "password", "{text}: {found:?}");
        assert!(
            ["Kd92mQx1Lp", "qWxTrBnMkLpZ"].contains(&&text[found[0].bytes.clone()]),
            "{text}: {found:?}"
        );
    }
    for text in [
        "password: Kd92mQx1…",
        "password: PasswordResetTokenGenerator",
        "la clave es Importante",
        "密码是什么？",
        "Das Kennwort lautet anders",
        "パスワードは必要ありません",
    ] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}

#[test]
fn a_password_in_the_url_of_a_database_runs_to_the_at_before_its_host() {
    for (text, password) in [
        ("postgres://app:p@ss#w0rd@db.internal:5432/main", "p@ss#w0rd"),
        ("mysql+pymysql://app:a/b:c9@10.0.0.7/shop?ssl=1", "a/b:c9"),
        ("amqp://app:t9Kz!w4Qm@mq.internal", "t9Kz!w4Qm"),
        ("postgres://john.doe:48213@db.internal/main", "48213"),
        ("postgres://app:Kd92mQx1Lp@db.internal/main,ADMIN=ops@acme.org", "Kd92mQx1Lp"),
    ] {
        let found = secrets(text);
        assert!(found.len() == 1 && &text[found[0].bytes.clone()] == password, "{text}: {found:?}");
    }
    for text in [
        "redis://cache:6379/0 is for jo@acme.org",
        "redis://cache:6379/0?user=jo@acme.org",
        "postgres://db:5432/main,postgres://app@db2/main",
        "mongodb://user:password@host/db",
        "ftp://anonymous:anonymous@ftp.acme.org/pub",
    ] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}

#[test]
fn what_is_no_value_is_left_alone() {
    for text in [
        "token = getToken(\"user-1234567890\")",
        "password=os.environ.get(\"DB_PASSWORD\")",
        "password = getpass.getpass()",
        "api_key: {{ .Values.apiKey }}",
        "csrfToken = generateToken(32)",
        "PUBLIC_KEY=9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1",
        "cache key: 9b74c9897bac770ffc029102a200c5de",
        "file_checksum_key = 9b74c9897bac770ffc029102a200c5de",
        "key = \"org.example.tools:xml-parser-core-2.4.1\"",
        "SOME_KEY = dGhpcyBpcyBvbmx5IHNvbWUgdGV4dA==",
        "AWS_SECRET_ACCESS_KEY=9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1",
        "amqp://guest:guest@localhost:5672/",
        "https://user:REPLACE_ME_PLEASE@host.example",
        "https://user:2222@host.example",
        "mysql -u root -p shop_database",
        "APACregional2024 and APBiology2023notes",
        "max_tokens=4096, token_count=128000",
        "example.net/x/tool v0.4.1/go.mod h1:Qx7+dN2vKc9LmW4hTzR8sYbJ1pGfE6uAo3iXwZq5VhM=",
        "commit 3f786850e387550fdab836ed7e6dc881de23001b",
        "idempotency_key: 7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "Idempotency-Key: 7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "key: 7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "client_id=7c9e6679-7425-40de-944b-e07fc1f90ae7",
        "sort_key = \"2024-03-09T08:15:30Z#ORDER#77120\"",
        "s3_key = \"uploads/2024/q3x7/IMG_20240309_77120.jpg\"",
        "the object key is avatars/8f14e45fceea167a/large_2x.jpg",
        "kms_key = \"arn:aws:kms:eu-west-1:210987654321:key/Zx81kQmW0aLr5T\"",
        "key_id: 9b74c9897bac770ffc029102a200c5de",
        "keyid: 0x9b74c9897bac770f",
        "password_policy_id: pp-2024-strict-12chars",
        "password_field_id = \"user_login_password_input_01\"",
        "PASSWORD_HASHERS = [\"django.contrib.auth.hashers.PBKDF2PasswordHasher\"]",
        "--set auth.existingSecretPasswordKey=mariadb-root-password-v2",
        "recaptcha_site_key = 6LcKq7Zx81kQmW0aLr5TnBv7YdJ2cHs9EfGuPoI4",
        "{\"sub\":\"auth0|5f7c8ec7c33c6c004bbafe82\"}",
        "api: networking.k8s.io/v1beta1",
        "dsn = \"mysql:host=db7.internal;dbname=shop2\"",
        "password: !vault |",
        "pwd=C:\\Users\\bob1",
        "<a accesskey=\"n\" href=\"libxslt-imports2.html7\">",
        "<label for=\"password\">Password2</label>",
        "pwd.getpwuid(prop.st_uid)[0]",
        "SRP_user_pwd *SRP_VBASE_get1_by_user(SRP_VBASE *vb, char *username)",
        "int KeyDataDsaAdoptKeyPair2(sslKeyDataPtr7x9 data, size_t key_at)",
        "pub password: *const u16,",
        "\"AWS::KMS::ReplicaKey\": \"903f43e74c8d8853\"",
        "title=\"Extend&#60;TokenTree&#62;\">Extend&#60;TokenTree2&#62;<",
        "pw = Piecewise((0, x < -1), (x**2, x <= 1))",
        "run('-out','keycert.passwd.pem','-aes256')",
        "Authorization: Basic dXNlcm5hbWU6cGFzc3dvcmQ=",
        "proxy = http://proxy.corp:8080@intranet",
        "key = \"abcdefghijklmnopqrstuvwxyz0123456789\"",
        "KEY_CHARS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'",
    ] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}

#[test]
fn each_of_several_private_keys_is_found() {
    let key = |kind: &str| {
        let body = body(Charset::Alnum, 128);
        format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n")
    };
    let file =
        key("PRIVATE KEY") + &key("CERTIFICATE") + &key("RSA PRIVATE KEY") + &key("PRIVATE KEY");
    let found = secrets(&file);
    assert_eq!(kinds(&file), ["private_key"; 3]);
    assert!(found.iter().all(|s| file[s.bytes.clone()].ends_with("KEY-----")), "{found:?}");
}

#[test]
fn a_private_key_that_is_cut_short_is_one() {
    for text in [
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7f3k\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\\nMIIEpAIBAAKCAQEA7f3k\\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
    ] {
        assert_eq!(kinds(text), ["private_key"], "{text}");
    }
    for text in [
        "-----BEGIN PRIVATE KEY-----\nanything\n-----END PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nMII...\n-----END PRIVATE KEY-----",
        "a line with -----BEGIN PRIVATE KEY----- in it",
    ] {
        assert!(kinds(text).is_empty(), "{text}");
    }
}

#[test]
fn keys_of_wallets_are_told_from_hashes_of_transactions() {
    let key = "0x5d0e7a91c3f84b26a8e1d97c402b6f35e98a17d4c06b52f3917ae84d20c5b6f8";
    assert_eq!(kinds(&format!("this opens my wallet {key} now")), ["wallet_private_key"]);
    assert!(kinds(&format!("my wallet has sent it in tx {key}")).is_empty());
    assert!(kinds(&format!("see {key}")).is_empty());
}

//! The names that announce a secret.

use std::sync::LazyLock;

/// Parts of names of what was drawn by chance. `~` in front: may stand inside a word; `$` behind: ends its word.
#[rustfmt::skip]
const SECRETS: &[&str] = &[
    "~secret", "~token", "~apikey", "~api_key", "~api-key", "api key", "~accesskey", "~access_key",
    "~access-key", "~key", "~credential", "~login", "~api", "~auth", "bearer$", "client_id",
    "~clientid", "~access_id", "~accessid", "~clé", "~schlüssel", "~webhook", "~session", "~license_k",
    "~pat$", "~dsn", "密钥", "密鑰", "令牌", "トークン", "キー",
];

/// Parts of names of what a person has chosen, in the same notation.
#[rustfmt::skip]
const PASSWORDS: &[&str] = &[
    "~password", "~passwd", "~passwort", "~passphrase", "~contraseña", "~mot de passe", "~pwd", "pass$",
    "~_pass$", "pw$", "~_pw$", "passcode", "requirepass", "masterauth", "psk$", "~_psk$", "pre-shared-key", "pre-shared key",
    "senha", "hasło", "пароль", "密码", "密碼", "kennwort", "wachtwoord", "lösenord",
    "adgangskode", "heslo", "jelszó", "parola", "şifre", "Şifre", "비밀번호", "パスワード", "mật khẩu",
    "kata sandi", "clave", "clave de acceso", "salasana",
];

/// "pass" and "pw", joined to who and what has a password. Many other words are: `bypass`, `renderPass`, `boardingPass`.
#[rustfmt::skip]
const JOINED: &[&str] = &[
    "dbpass$", "databasepass$", "sqlpass$", "mysqlpass$", "pgpass$", "postgrespass$", "redispass$", "mongopass$", "userpass$",
    "usrpass$", "adminpass$", "rootpass$", "sudopass$", "becomepass$", "smtppass$", "imappass$", "mailpass$", "emailpass$",
    "ftppass$", "sftppass$", "sshpass$", "httppass$", "proxypass$", "ldappass$", "bindpass$", "mqttpass$", "loginpass$",
    "clientpass$", "serverpass$", "storepass$", "keystorepass$", "truststorepass$", "keypass$", "certpass$", "wifipass$",
    "wlanpass$", "vncpass$", "rdppass$", "vpnpass$", "accountpass$", "servicepass$", "svcpass$", "masterpass$", "defaultpass$",
    "zippass$", "pdfpass$", "domainpass$", "routerpass$", "apppass$", "apipass$", "authpass$", "newpass$", "oldpass$", "mypass$",
    "dbpw$", "userpw$", "adminpw$", "rootpw$", "mailpw$", "ftppw$",
];

/// All parts of names.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    SECRETS.iter().chain(PASSWORDS).chain(JOINED).copied()
}

/// The names of passwords without their notation, by their length.
static BY_LENGTH: LazyLock<Vec<Vec<&str>>> = LazyLock::new(|| {
    let bare = |name: &&'static str| name.trim_start_matches('~').trim_end_matches('$');
    let names: Vec<_> = PASSWORDS.iter().chain(JOINED).map(bare).collect();
    let longest = names.iter().map(|name| name.len()).max().unwrap_or_default();
    let of = |length| names.iter().copied().filter(|name| name.len() == length).collect();
    (0..=longest).map(of).collect()
});

/// Whether the keyword names what a person has chosen.
pub(crate) fn is_password(keyword: &str) -> bool {
    let names = BY_LENGTH.get(keyword.len());
    names.is_some_and(|names| names.iter().any(|name| name.eq_ignore_ascii_case(keyword)))
}

/// Whether the keyword names a key that the sides of a network share.
pub(crate) fn is_psk(keyword: &str) -> bool {
    keyword.eq_ignore_ascii_case("psk") || keyword.eq_ignore_ascii_case("_psk")
}

//! Values behind names, in files, sentences and code; and what only looks like one.

use super::tests::{body, secrets};
use crate::scan::{Scan, Scope};
use crate::vocabulary::formats::format::Charset;

/// The password and the random value in the texts below.
const PASSWORD: &str = "Kd92mQx1Lp";
const VALUE: &str = "9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1";
const HEX: &str = "152c189b8182c1ad13b648ba44a3c0d67db08629";
const CAPITALS: &str = "152C189B8182C1AD13B648BA44A3C0D67DB08629";

/// Texts with a value at `@`, one in hexadecimal at `%` or, in capitals, at `&`, or a password at `#`, which is found from its first character to its last.
const FOUND: &[&str] = &[
    // Fields that follow in one run.
    "Server=db;Password=#;MultipleActiveResultSets=False;Encrypt=True;TrustServerCertificate=False;",
    "Host=db;Username=app;Password=#;SSLMode=Require;RootCertificate=/etc/ssl/ca.pem",
    "Data Source=db;Password=#;Initial Catalog=shop",
    "user=bob&password=#&next=/home",
    "https://login.auth.api.acme.org/session/login/token?access_token=@&x=1",
    "jdbc:mysql://db.internal/x?user=a&password=#&useSSL=false",
    // Escapes.
    r#"{"content":"DB_PASSWORD=#\nREDIS_URL=redis://cache:6379/0"}"#,
    r##"{\"password\":\"#\"}"##,
    r#"{\"token\": \"@\"}"#,
    // `key` alone, in code and headers.
    "new Client({ key: \"%\" })",
    "curl -H \"key: %\" https://api.example.org",
    "os.Setenv(\"key\", \"%\")",
    "define('key', '%')",
    "githubPat: @",
    "GITHUB_PAT=@",
    "pat: @",
    // Qualified names, arguments, maps.
    "Stripe::setApiKey('@');",
    "self::$apiKey = '@';",
    "Config::apiKey = \"@\";",
    "Settings::API_SECRET = '@'",
    "setSecret(\"prod\", \"@\")",
    "put_secret('db', '@')",
    "set_password('bob', '#')",
    "db.auth('app', '@')",
    "API_KEYS = {\"prod\": \"@\"}",
    // Types and kinds of strings.
    "const API_KEY: &str = \"@\";",
    "const SECRET: &'static str = \"@\";",
    "let api_key = b\"@\";",
    "password = b'#'",
    "variable \"db_password\" {\n  type        = string\n  sensitive   = true\n  default     = \"#\"\n}",
    // Tables and elements.
    "|API_KEY_2|@|",
    "|token1|@|",
    "<key>APIKey</key>\n\t<string>@</string>",
    "<td>Password</td><td>#</td>",
    "<dt>API key</dt>\n<dd><code>@</code></dd>",
    // Emphasis, other scripts, pauses.
    "API key: **@**",
    "password: _#_",
    "password: #ครับ",
    "API key @ค่ะ",
    "password: #है",
    "token: @გთ",
    "My password is #... don't tell",
    // Labels of several words.
    "API Key: %",
    "- Api key: %\n- Region: eu-west-1",
    "**Secret Key**: `%`",
    "Private key: %",
    "HMAC key: %",
    "Public key: 7c9e6679742540de944b, private key: %",
    "encryption_key = \"%\"",
    "client-key-data: @",
    "secretkey: @",
    "authkey: @",
    "Authorization: @",
    "api_key=&",
    "X-Api-Key: &",
    "MASTER_KEY=&",
    "user: bob\nPassword: %",
    "curl\nAuthorization: %",
    "the SecretValue: %",
    "the Passphrase: %",
    "SITE_API_KEY=%",
    "HOST_API_KEY: %",
    "VERIFY_API_KEY=%",
    "\"primaryKey\": \"%\"",
    "S3_KEY=%",
    "REDIS_KEY=%",
    "STREAM_KEY=%",
    "keymaterial = \"@\"",
    "authcookie=@",
    // Signs behind the word that joins them, and signs of other scripts.
    "the password is: #",
    "das Passwort ist: #",
    "api key is: @",
    "API key → @",
    "the password is “#”",
    // Names that are joined, and other names.
    "dbPass: #",
    "userPass = '#'",
    "\"mailPass\": \"#\"",
    "storepass=#",
    "-keypass #",
    "DB_PW=#",
    "dbpw: #",
    "userPw = '#'",
    "passcode: #",
    "psk=\"#\"",
    "wpa_psk=#",
    "pre-shared-key = #",
    "requirepass #",
    "masterauth #",
    // Words in between.
    "The API key for production is @",
    "API key [dev]: @",
    "token (staging): `@`",
    "API Key for the weather = @",
    "my API key was leaked: %",
    "access token from the portal: @",
    "can you check if this API key still works? @",
    "The password for the database is #",
    "password for root: #",
    "wifi password at the office is \"#\"",
    "my password should be # but login fails",
    "Passwort für den Server: #",
    "mot de passe du serveur : #",
    "la contraseña del servidor es #",
    "admin password (don't share!) #",
    // Sentences.
    "Reset the password to # please",
    "salasana on #",
    "mi clave es #",
    "Usuario: ana Clave: #",
    "Clave de acceso: #",
];

/// The texts, each with its value.
pub(super) fn found() -> impl Iterator<Item = (String, &'static str)> {
    FOUND.iter().map(|form| {
        let value = match form {
            form if form.contains('@') => VALUE,
            form if form.contains('%') => HEX,
            form if form.ends_with('&') => CAPITALS,
            _ => PASSWORD,
        };
        (form.replace(if value == CAPITALS { &['&'][..] } else { &['@', '%', '#'] }, value), value)
    })
}

#[test]
fn a_value_is_found_from_end_to_end() {
    for (text, value) in found() {
        let found = secrets(&text);
        assert!(found.len() == 1 && &text[found[0].bytes.clone()] == value, "{text}: {found:?}");
    }
}

#[test]
fn a_password_may_hold_any_sign() {
    let long = body(Charset::Alnum, 90);
    for (lead, password) in [
        ("DB_PASSWORD=", "Summer(2024!x"),
        ("password: ", "Pass(word2024"),
        ("password: ", "&Kd92_mQx1Lp"),
        ("password: ", "ssh-Kd92mQx1Lp!"),
        ("password: ", "Kd92;mQ,x1&Lp"),
        ("POSTGRES_PASSWORD=", "q3/Zk9+T1bWmXr8vLp0aYg=="),
        ("PGPASSWORD=", "057820072190293123738525"),
        ("MYSQL_PWD=", "acme_live_PnGlZGNlIgObsNNroRTHZniX"),
        ("password=", "$R170UQLOdrese"),
        ("password: ", &*long),
    ] {
        let text = format!("{lead}{password}\nnext: 1");
        let found = secrets(&text);
        assert!(found.len() == 1 && &text[found[0].bytes.clone()] == password, "{text}: {found:?}");
    }
    for (lead, password, end) in [
        ("db_password: '", "Kd92!x;Tq=77zzKw", "'"),
        ("{\"password\":\"", "Kd92!x,Tq:77zzKw", "\",\"name\":\"bob\"}"),
        (r#"{\"password\":\""#, "Kd92!x,Tq:77zzKw", r#"\"}"#),
        ("PASSWORD=\"", "tR9;Zk81:mmQ", "\""),
    ] {
        let text = format!("{lead}{password}{end}");
        let found = secrets(&text);
        assert!(found.len() == 1 && &text[found[0].bytes.clone()] == password, "{text}: {found:?}");
    }
    for password in
        ["Kd92&#mQx1Lp", "Kd92()mQx1Lp", "k2$w!9x@h#4v_z7(m)q+e5=t8&b1*c6^n3-r0pyudsjgfaloi2"]
    {
        let text = format!("SECRET_PASSWORD = '{password}'");
        assert_eq!(secrets(&text).len(), 1, "{text}: {:?}", secrets(&text));
    }
}

#[test]
fn of_two_that_overlap_none_is_lost() {
    let key = "AKIAQ3ZK7TWM2XVN5RPL";
    for text in [
        format!("https://a.example.org/?password={PASSWORD}&k={key}"),
        format!("postgres://app:{PASSWORD}@db/x,{key}@y"),
    ] {
        let found: Vec<_> = secrets(&text).into_iter().map(|s| &text[s.bytes]).collect();
        assert!(found.len() == 2 && found[0].contains(PASSWORD) && found[1] == key, "{found:?}");
    }
}

#[test]
fn a_uuid_is_a_value_behind_a_name_that_leaves_no_doubt() {
    let uuid = "7c9e6679-7425-40de-944b-e07fc1f90ae7";
    for form in [
        "my access token \"@\"",
        "my access token is \"@\"",
        "set `EXA_API_KEY` to `@`",
        "setx CONSUL_HTTP_TOKEN @",
        "use token @ for the demo",
        "API Key: @",
        "API key for staging: @",
    ] {
        assert_eq!(secrets(&form.replace('@', uuid)).len(), 1, "{form}");
    }
    for form in [
        "session @",
        "login @",
        "key @",
        "the key is on @",
        "token_id @",
        "cache key: @",
        "refresh token @ not found",
        "CSRF token @ mismatch",
        "access key id is @",
        "secret version is @",
        "next_token \"@\"",
        "ClientRequestToken is in @",
    ] {
        let text = form.replace('@', uuid);
        assert!(secrets(&text).is_empty(), "{text}: {:?}", secrets(&text));
    }
}

#[test]
fn a_value_that_is_none_is_left_alone() {
    let (uuid, hash) = ("7c9e6679-7425-40de-944b-e07fc1f90ae7", "9b74c9897bac770ffc029102a200c5de");
    for text in [
        // Words that join a name and a value in one language, and are others in another.
        "All tests pass on Python3.12.",
        "Tests pass on Ubuntu22.04",
        "How do I change my password on Windows11?",
        "I forgot the password to Office365",
        "Please pass to Level3 support",
        "Do not pass Level3",
        "palabras clave: Python3, SEO",
        "Palabras Clave: Python3, SEO",
        "El punto clave es ISO27001.",
        "bypass=Level3 compass: NE4281 encompass: All2024",
        "renderPass: shadowPass2048, lowPass: 200Hz, highPass = \"12dB\"",
        "boardingPass: LH2024A1",
        "subpass=Color0Load",
        "psk: enabled, PSK stands for pre-shared key (RFC 4279)",
        "wpa_key_mgmt=WPA-PSK SHA256",
        "[\"WPA_PSK\",\"WPA2_PSK\"]",
        "\"psk\": \"WPA2-PSK\"",
        "PSK AES256-GCM",
        "dbPass := os.Getenv(\"DB_PASS2\")",
        // Code, types, sizes, logs.
        "$password = $_POST['password'];",
        "type User { password: String! }",
        "val password: String?",
        "NameError::InvalidPassword => write!(f, \"bad\"),",
        "use futures::compat::Future01CompatExt;",
        "use auth::Base64UrlSafe01Decoder;",
        "MetaKey \"$(COMPONENT)/dep11/icons-48x48.tar\";",
        "mysqli_connect($host, password: $dbPassword1);",
        "password=$base64Password",
        "rules: { password: 'required;min:8;max:20' }",
        "<input type=\"password\";name=\"login2\">",
        "--- PASS: TestSHA256 (0.00s)",
        "clave = hashlib.sha256(b)",
        "pw: 1024px",
        "pw=640px",
        "docker login --username AWS --password-stdin 123456789012.dkr.ecr.us-east-1.amazonaws.com",
        "{'NAME': 'django.contrib.auth.password_validation.MinimumLengthValidator2'}",
        "password is: required",
        "das Passwort ist: ungültig2",
        "<key>CFBundleShortVersionString</key>\n\t<true/>",
        "key_type = \"PBKDF2WithHmacSHA256\"",
        "secret_key_algorithm=PBKDF2WithHmacSHA256",
        "Author-email: jane.q42@example.org",
        "SPEC CHECKSUMS:\n  AppAuth: 152c189b8182c1ad13b648ba44a3c0d67db08629",
        "SPEC CHECKSUMS:\n  TokenKit: 152c189b8182c1ad13b648ba44a3c0d67db08629",
        "primary_key=152c189b8182c1ad13b648ba44a3c0d6",
        "redis_key=152c189b8182c1ad13b648ba44a3c0d6",
        "  KeychainAccess: 152c189b8182c1ad13b648ba44a3c0d67db08629",
        "db_password: ENC[AES256_GCM,data:3H9wNqIm7N2kQSBM,iv:1f7e8CIyPfSANwjVNVr3]",
        "spring.datasource.password=ENC(vxt0oxCR4mcP0wdbUjaYdSeIaCMpfP7V)",
        // Public values.
        &format!("Public key: {VALUE}"),
        &format!("stripe publishable key: {VALUE}"),
        &format!("Your public API key: {VALUE}"),
        "signing key: 4AEE18F83AFDEB23468C0F9A1B2C3D4E5F607182",
        "ssh_authorized_keys:\n - ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIg8YeuBiOX36lnpYNkLfv8xh69wZW1xrrNF1cbaKJGlo",
        "certificate-authority-data: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSURWVENDQWoyZ0F3SUJB",
        "sshKey: LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KTUlJQklqQU5CZ2txaGtpRzl3MEJB",
        // Locations.
        "{\"SecretArn\": \"arn:aws:secretsmanager:us-east-1:210987654321:secret:prod/db-5PMkYa\"}",
        "MasterUserSecret: arn:aws:secretsmanager:eu-west-1:210987654321:secret:rds!db-7c9e6679-7425-40de-944b-e07fc1f90ae7-52zi9i",
        &format!("cache key: {hash}"),
        &format!("sort_key={hash}"),
        &format!("{{\"storageKey\": \"{uuid}\"}}"),
        &format!("dedupkey: {hash}"),
        &format!("clientId = \"{uuid}\""),
        &format!("auth: {{ clientId: '{uuid}', authority: 'https://login.example.org' }}"),
        &format!("client_id={hash}"),
        &format!("key: {hash}"),
        &format!("Signed-off-by key {hash}"),
        &format!("##[group]Run cache\n  key: Linux-node-{hash}{hash}"),
        "key = STATUS#ACTIVE#2024-01-15",
        "gpg --recv-keys 0x9b74c9897bac770f",
        "ERC20 token 0xC02aaA39b223FE8D0A0e5C4F27eAD9083C756Cc2",
        "host key: SHA256:nThbg6kXUpJWGl7E1IGOCspRomTxdCARLviKw6E5SY8",
        "<button aria-keyshortcuts=\"Control+Shift+F12\">",
        "hotkey: Ctrl+Shift+Alt+F12",
    ] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}

/// Lines of a certificate may begin as keys of some vendors do.
#[test]
fn there_are_no_keys_in_lines_of_base64() {
    let line = body(Charset::Alnum, 64);
    let key = |body: &str| format!("EAAA{}", &body[..60]);
    for (lead, end) in [("", ""), ("    ", ""), ("> ", ""), ("        \"", "\\n\""), ("\"", "\",")]
    {
        let text = format!("{lead}{line}{end}\n{lead}{}{end}\n", key(&line));
        assert!(secrets(&text).is_empty(), "{text}: {:?}", secrets(&text));
        let text = format!("{lead}a list of keys{end}\n{lead}{}{end}\n", key(&line));
        assert_eq!(secrets(&text).len(), 1, "{text}");
    }
    let der = format!("AQEBBQADggEP{line}");
    assert!(secrets(&der).is_empty(), "{:?}", secrets(&der));
}

#[test]
fn a_long_value_hides_nothing_in_the_next_line() {
    let (hex, line) = (HEX.repeat(2)[..64].to_owned(), body(Charset::Alnum, 64));
    for text in [
        format!("{{\n  \"digest\": \"{hex}\",\n  \"password\": \"{PASSWORD}\"\n}}"),
        format!("  checksum: {line}\n  dbPassword: {PASSWORD}"),
        format!("digest: {line}\npassword: {PASSWORD}"),
        format!("$ openssl rand -base64 48\n{line}\nPASSWORD=\"{PASSWORD}\""),
        format!("$ openssl rand -base64 48\n{line}\npassword is {PASSWORD}"),
        format!("$ openssl rand -base64 48\n{line}\n  AKIAQ3ZK7TWM2XVN5RPL"),
    ] {
        let found = secrets(&text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
    }
}

/// In thirty thousand characters of base64 there are names of secrets and beginnings of keys of every kind.
#[test]
fn there_are_no_names_in_base64() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let index = (state >> 32) as usize % 64;
        char::from(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[index])
    };
    for end in ["", "\n", "\\n", "\r\n"] {
        let line = |_: usize| (0..64).map(|_| draw()).collect::<String>() + end;
        let mut text: String = (0..1800).map(line).collect();
        for (at, name) in [(20, "+pw+"), (40, "Key+"), (60, "/sk"), (80, "+EAA"), (100, "token\\n")]
        {
            text.insert_str(at * (64 + end.len()) + 30, name);
        }
        assert!(secrets(&text).is_empty(), "{end:?}: {:?}", secrets(&text));
    }
}

/// Several names lead to one value, which is judged for the first of them: `api_key` is three.
#[test]
fn a_value_is_judged_once_for_all_names_that_lead_to_it() {
    for (unit, most) in
        [("$api_key=@Bearer ", 4), ("pdl_live_apikey_ ", 2), ("bedrock-api-key-\"", 2)]
    {
        let text = unit.repeat(500);
        let scan = Scan::new(&text, Scope::Leaks);
        let judged = super::assigned::find(&text, &scan, &mut Vec::new(), 1000);
        assert!(judged <= most * 500, "{unit}: {judged}");
    }
}

//! Credentials that regular expressions describe near a mark.

/// A rule to look for near a mark in a text: the mark, the rule, its name, its score, and how far to look around. A rule
/// that begins with `^` is looked for at each mark; others once in all that is near marks, so that many marks close to
/// each other cost no more than one.
pub(crate) struct Rule {
    pub(crate) mark: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) pattern: &'static str,
    pub(crate) score: f64,
    pub(crate) before: usize,
    pub(crate) after: usize,
    pub(crate) seek: Seek,
}

/// The beginning of a key block.
pub(crate) const KEY_BLOCK: &str = "-----BEGIN";

/// The reported kind of passwords in URLs.
pub(crate) const URL_CREDENTIALS: &str = "url_credentials";

/// The mark behind the scheme of a URL.
pub(crate) const URL_MARK: &str = "://";

/// The tag in front of a password between tags, and the number of bytes within which it ends with its last tag.
pub(crate) const PASSWORD_TAG: &str = "<password>";
pub(crate) const PASSWORD_REACH: usize = 120;

/// The places in which the mark of a rule is looked for.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Seek {
    /// By the scan, anywhere.
    Anywhere,
    /// By the scan, where words begin.
    Word,
    /// Inside of long runs: only where there is one, not by the scan.
    Run,
}

/// The option by which `mysql` and its like take a password, with no space behind it.
const MYSQL_PASSWORD: &str = r#"\s-p["']?([^\x00-\x20"'$<{-][^\x00-\x20"'$<{]{5,100})"#;

/// The reported kind of a password that stands beside its user: it must look like one, its place is not enough.
pub(crate) const LOGIN: &str = "login_password";
/// The second argument of a call that takes user and password, and the third of one that takes an address before them.
const SECOND: &str = r#"^[A-Za-z]+=?\(\s*(?:["'][^"'\n]{0,80}["']|[A-Za-z_$][A-Za-z0-9_.$]{0,60})\s*,\s*["']([^\x00-\x20"'$<{]{6,64})["']"#;
const THIRD: &str = r#"^[A-Za-z_]+\((?:\s*(?:["'][^"'\n]{0,120}["']|[A-Za-z_$][A-Za-z0-9_.$]{0,60})\s*,){2}\s*["']([^\x00-\x20"'$<{]{6,64})["']"#;
const IDENTIFIED: &str = r#"^(?i:identified)\s+(?i:with\s+[^\x00-\x20]{1,40}\s+)?(?i:by)\s+(?i:password\s+)?["']([^\x00-\x20"'$<{]{6,64})["']"#;
const MONGO: &str = r#"^mongo[a-z0-9_]+ (?:[^\n]{0,140}? )?(?:-p|--password)[ =]["']?([^\x00-\x20"'$<{-][^\x00-\x20"'$<{]{5,64})"#;
const LDAP: &str =
    r#"^ldap[a-z0-9_]+ (?:[^\n]{0,140}? )?-w ?["']?([^\x00-\x20"'$<{-][^\x00-\x20"'$<{]{5,64})"#;
const HTTPIE: &str =
    r#"^https? (?:[^\n]{0,140}? )?(?:-a|--auth)[ =]["']?[^\s"':]{1,60}:([^\x00-\x20"'$<{]{6,64})"#;

#[rustfmt::skip]
pub(crate) const RULES: &[Rule] = &[
    Rule { mark: "AccountKey=", kind: "azure_storage_key", pattern: r"^AccountKey=([A-Za-z0-9+/]{40,90}={0,2})", score: 0.95, before: 0, after: 110, seek: Seek::Anywhere },
    Rule { mark: "SharedAccessKey=", kind: "azure_shared_key", pattern: r"^SharedAccessKey=([A-Za-z0-9+/]{40,90}={0,2})", score: 0.95, before: 0, after: 110, seek: Seek::Anywhere },
    Rule { mark: "Q~", kind: "azure_client_secret", pattern: r"(?:^|[^A-Za-z0-9_~.\\-])([A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34})(?:$|[^A-Za-z0-9_~-])", score: 0.9, before: 5, after: 42, seek: Seek::Run },
    Rule { mark: ":AA", kind: "telegram_bot_token", pattern: r"(?:^|/bot|[^A-Za-z0-9_:])(\d{8,10}:AA[A-Za-z0-9_-]{32,33})(?:$|[^A-Za-z0-9_-])", score: 0.9, before: 12, after: 38, seek: Seek::Run },
    Rule { mark: ".atlasv1.", kind: "terraform_token", pattern: r"([A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70})", score: 0.95, before: 14, after: 90, seek: Seek::Anywhere },
    Rule { mark: "-us", kind: "mailchimp_api_key", pattern: r"(?:^|[^0-9a-f])([0-9a-f]{32}-us\d{1,2})(?:$|[^A-Za-z0-9_])", score: 0.9, before: 34, after: 8, seek: Seek::Anywhere },
    Rule { mark: "@enterprise.contribsys.com", kind: "sidekiq_credentials", pattern: r"([0-9a-f]{8}:[0-9a-f]{8})@", score: 0.9, before: 20, after: 1, seek: Seek::Anywhere },
    Rule { mark: "CONTRIBSYS__COM", kind: "sidekiq_credentials", pattern: r#"^CONTRIBSYS__COM[\s"']*[=:]+[\s"']*([0-9a-f]{8}:[0-9a-f]{8})(?-u:\b)"#, score: 0.9, before: 0, after: 40, seek: Seek::Anywhere },
    Rule { mark: "@gems.contribsys.com", kind: "sidekiq_credentials", pattern: r"([0-9a-f]{8}:[0-9a-f]{8})@", score: 0.9, before: 20, after: 1, seek: Seek::Anywhere },
    Rule { mark: "JQQJ99", kind: "azure_api_key", pattern: r"(?-u:\b)([A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26})(?-u:\b)", score: 0.95, before: 52, after: 28, seek: Seek::Run },
    Rule { mark: "+ASt", kind: "azure_storage_key", pattern: r"([A-Za-z0-9+/]{76}\+ASt[A-Za-z0-9+/]{6}==)", score: 0.95, before: 78, after: 10, seek: Seek::Run },
    Rule { mark: "+ACR", kind: "azure_registry_password", pattern: r"([A-Za-z0-9+/]{42}\+ACR[A-Za-z0-9]{6})(?-u:\b)", score: 0.95, before: 44, after: 8, seek: Seek::Run },
    Rule { mark: "+ASb", kind: "azure_service_bus_key", pattern: r"([A-Za-z0-9+/]{33}\+ASb[A-Za-z0-9+/]{6}=)", score: 0.95, before: 35, after: 9, seek: Seek::Run },
    Rule { mark: "+AEh", kind: "azure_event_hub_key", pattern: r"([A-Za-z0-9+/]{33}\+AEh[A-Za-z0-9+/]{6}=)", score: 0.95, before: 35, after: 9, seek: Seek::Run },
    Rule { mark: "+ARm", kind: "azure_relay_key", pattern: r"([A-Za-z0-9+/]{33}\+ARm[A-Za-z0-9+/]{6}=)", score: 0.95, before: 35, after: 9, seek: Seek::Run },
    Rule { mark: "AIoT", kind: "azure_iot_key", pattern: r"([A-Za-z0-9+/]{33}AIoT[A-Za-z0-9+/]{6}=)", score: 0.95, before: 35, after: 9, seek: Seek::Run },
    Rule { mark: "AZEG", kind: "azure_event_grid_key", pattern: r"([A-Za-z0-9+/]{33}AZEG[A-Za-z0-9+/]{6}=)", score: 0.95, before: 35, after: 9, seek: Seek::Run },
    Rule { mark: "+ABa", kind: "azure_batch_key", pattern: r"([A-Za-z0-9+/]{76}\+ABa[A-Za-z0-9+/]{6}==)", score: 0.95, before: 78, after: 10, seek: Seek::Run },
    Rule { mark: "APIM", kind: "azure_api_management_key", pattern: r"([A-Za-z0-9+/]{76}APIM[A-Za-z0-9+/]{6}==)", score: 0.95, before: 78, after: 10, seek: Seek::Run },
    Rule { mark: "AzSe", kind: "azure_search_key", pattern: r"(?-u:\b)([A-Za-z0-9]{42}AzSe[A-D][A-Za-z0-9]{5})(?-u:\b)", score: 0.95, before: 43, after: 8, seek: Seek::Run },
    Rule { mark: "AzFu", kind: "azure_functions_key", pattern: r"([A-Za-z0-9_-]{44}AzFu[A-Za-z0-9_-]{5}[AQgw]==)", score: 0.95, before: 45, after: 10, seek: Seek::Run },
    Rule { mark: "AzCa", kind: "azure_cache_key", pattern: r"([A-Za-z0-9]{33}AzCa[A-P][A-Za-z0-9]{5}=)", score: 0.95, before: 34, after: 8, seek: Seek::Run },
    Rule { mark: "ACDb", kind: "azure_cosmos_key", pattern: r"([A-Za-z0-9+/]{76}ACDb[A-Za-z0-9+/]{6}==)", score: 0.95, before: 78, after: 10, seek: Seek::Run },
    Rule { mark: ":APA91b", kind: "firebase_server_key", pattern: r"(?-u:\b)(AAAA[A-Za-z0-9_-]{7}:APA91b[A-Za-z0-9_-]{100,160})", score: 0.9, before: 12, after: 170, seek: Seek::Run },
    // The user may be a key: then the password is empty, or anything.
    Rule { mark: "curl ", kind: "basic_auth", pattern: r#"(?:(?:-u|--user)[ =]?\s*|\s-[A-Za-z]{1,6}u[ =]\s*)["']?(?:([^\x00-\x20:"'$]{0,60}:[^\x00-\x20"'${}<>]{3,100})|([A-Za-z0-9_+/=-]{16,120}):x?(?:["'\s]|$))"#, score: 0.8, before: 0, after: 400, seek: Seek::Anywhere },
    Rule { mark: "sshpass -p", kind: "password", pattern: r#"^sshpass -p\s*["']?([^\x00-\x20"'$<{]{6,100})"#, score: 0.8, before: 0, after: 110, seek: Seek::Anywhere },
    Rule { mark: "docker login", kind: "password", pattern: r#"(?:-p|--password)[ =]["']?([^\x00-\x20"'$<{]{6,200})"#, score: 0.8, before: 0, after: 300, seek: Seek::Anywhere },
    Rule { mark: "mysql -", kind: "password", pattern: MYSQL_PASSWORD, score: 0.8, before: 0, after: 200, seek: Seek::Anywhere },
    Rule { mark: "mysqldump -", kind: "password", pattern: MYSQL_PASSWORD, score: 0.8, before: 0, after: 200, seek: Seek::Anywhere },
    Rule { mark: "mysqladmin -", kind: "password", pattern: MYSQL_PASSWORD, score: 0.8, before: 0, after: 200, seek: Seek::Anywhere },
    Rule { mark: PASSWORD_TAG, kind: "password", pattern: r"^(?i:<password>)([^\x00-\x20<>${}]{6,100})(?i:</password>)", score: 0.8, before: 0, after: PASSWORD_REACH, seek: Seek::Anywhere },
    Rule { mark: ":_authToken=", kind: "npm_token", pattern: r"^:_authToken=\s*(npm_[A-Za-z0-9]{10,60}|[A-Za-z0-9-]{30,60})", score: 0.85, before: 0, after: 80, seek: Seek::Anywhere },
    Rule { mark: "sig=", kind: "azure_sas", pattern: r"\bsig=([A-Za-z0-9%/+]{40,70}(?:%3D|=)?)", score: 0.85, before: 1, after: 90, seek: Seek::Anywhere },
    Rule { mark: "AZDO", kind: "azure_devops_token", pattern: r"(?-u:\b)([A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4})(?-u:\b)", score: 0.95, before: 77, after: 5, seek: Seek::Run },
    Rule { mark: "NRAL", kind: "new_relic_key", pattern: r"(?-u:\b)([A-Za-z0-9]{28,36}NRAL)(?-u:\b)", score: 0.95, before: 37, after: 1, seek: Seek::Run },
    Rule { mark: "SSWS 00", kind: "okta_token", pattern: r"^SSWS (00[A-Za-z0-9_-]{40})(?:$|[^A-Za-z0-9_-])", score: 0.95, before: 0, after: 41, seek: Seek::Word },
    Rule { mark: "oracle:thin:", kind: URL_CREDENTIALS, pattern: r#"^oracle:thin:[A-Za-z0-9_$]{1,60}/([^\x00-\x20"'<>@/]{3,60})@"#, score: 0.85, before: 0, after: 130, seek: Seek::Word },
    Rule { mark: "redis-cli ", kind: "password", pattern: r#"^redis-cli (?:[^\n]{0,140}? )?(?:-a|--pass)[ =]["']?([^\x00-\x20"'$<{]{6,100})"#, score: 0.8, before: 0, after: 260, seek: Seek::Word },
    Rule { mark: "kty\"", kind: "jwk_private_key", pattern: r#""(?:d|k)"\s*:\s*"([A-Za-z0-9_-]{40,720})""#, score: 0.95, before: 0, after: 1240, seek: Seek::Word },
    // User and password as arguments.
    Rule { mark: "auth=(", kind: LOGIN, pattern: SECOND, score: 0.8, before: 0, after: 300, seek: Seek::Word },
    Rule { mark: "login(", kind: LOGIN, pattern: SECOND, score: 0.8, before: 0, after: 300, seek: Seek::Word },
    Rule { mark: "HTTPBasicAuth(", kind: LOGIN, pattern: SECOND, score: 0.8, before: 0, after: 300, seek: Seek::Word },
    Rule { mark: "NetworkCredential(", kind: LOGIN, pattern: SECOND, score: 0.8, before: 0, after: 300, seek: Seek::Word },
    Rule { mark: "mysqli_connect(", kind: LOGIN, pattern: THIRD, score: 0.8, before: 0, after: 400, seek: Seek::Word },
    Rule { mark: "mysqli(", kind: LOGIN, pattern: THIRD, score: 0.8, before: 0, after: 400, seek: Seek::Word },
    Rule { mark: "PDO(", kind: LOGIN, pattern: THIRD, score: 0.8, before: 0, after: 400, seek: Seek::Word },
    Rule { mark: "getConnection(", kind: LOGIN, pattern: THIRD, score: 0.8, before: 0, after: 400, seek: Seek::Word },
    Rule { mark: "ConvertTo-SecureString ", kind: LOGIN, pattern: r#"^ConvertTo-SecureString\s+(?:-String\s+)?["']([^\x00-\x20"'$<{]{6,64})["']"#, score: 0.8, before: 0, after: 120, seek: Seek::Word },
    Rule { mark: "IDENTIFIED ", kind: LOGIN, pattern: IDENTIFIED, score: 0.8, before: 0, after: 160, seek: Seek::Word },
    Rule { mark: "identified ", kind: LOGIN, pattern: IDENTIFIED, score: 0.8, before: 0, after: 160, seek: Seek::Word },
    // Options of commands.
    Rule { mark: "sqlcmd ", kind: LOGIN, pattern: r#"^sqlcmd (?:[^\n]{0,140}? )?-P ?["']?([^\x00-\x20"'$<{-][^\x00-\x20"'$<{]{5,64})"#, score: 0.8, before: 0, after: 260, seek: Seek::Word },
    Rule { mark: "mongosh ", kind: LOGIN, pattern: MONGO, score: 0.8, before: 0, after: 260, seek: Seek::Word },
    Rule { mark: "mongodump ", kind: LOGIN, pattern: MONGO, score: 0.8, before: 0, after: 260, seek: Seek::Word },
    Rule { mark: "mongorestore ", kind: LOGIN, pattern: MONGO, score: 0.8, before: 0, after: 260, seek: Seek::Word },
    Rule { mark: "ldapsearch ", kind: LOGIN, pattern: LDAP, score: 0.8, before: 0, after: 260, seek: Seek::Word },
    Rule { mark: "ldapmodify ", kind: LOGIN, pattern: LDAP, score: 0.8, before: 0, after: 260, seek: Seek::Word },
    Rule { mark: "ipmitool ", kind: LOGIN, pattern: r#"^ipmitool (?:[^\n]{0,140}? )?-P ["']?([^\x00-\x20"'$<{-][^\x00-\x20"'$<{]{5,64})"#, score: 0.8, before: 0, after: 260, seek: Seek::Word },
    Rule { mark: "xfreerdp ", kind: LOGIN, pattern: r#"^xfreerdp (?:[^\n]{0,140}? )?/p:["']?([^\x00-\x20"'$<{]{6,64})"#, score: 0.8, before: 0, after: 260, seek: Seek::Word },
    Rule { mark: "smbclient ", kind: LOGIN, pattern: r#"^smbclient (?:[^\n]{0,140}? )?-U ?["']?[^\s"'%]{1,60}%([^\x00-\x20"'$<{]{6,64})"#, score: 0.8, before: 0, after: 320, seek: Seek::Word },
    Rule { mark: "rabbitmqctl ", kind: LOGIN, pattern: r#"^rabbitmqctl (?:add_user|change_password|authenticate_user) [^\x00-\x20]{1,60} ["']?([^\x00-\x20"'$<{-][^\x00-\x20"'$<{]{5,64})"#, score: 0.8, before: 0, after: 160, seek: Seek::Word },
    Rule { mark: "sqlplus ", kind: LOGIN, pattern: r#"^sqlplus (?:-[a-z0-9_]+ ){0,3}["']?[A-Za-z0-9_$]{1,60}/["']?([^\x00-\x20"'$<{@/]{6,64})"#, score: 0.8, before: 0, after: 160, seek: Seek::Word },
    Rule { mark: "htpasswd -", kind: LOGIN, pattern: r#"^htpasswd -[a-z0-9_]*b[a-z0-9_]* [^\x00-\x20]{1,80} [^\x00-\x20]{1,60} ["']?([^\x00-\x20"'$<{-][^\x00-\x20"'$<{]{5,64})"#, score: 0.8, before: 0, after: 260, seek: Seek::Word },
    Rule { mark: "net user ", kind: LOGIN, pattern: r#"^net user ["']?[A-Za-z0-9_.\\-]{1,40}["']? ["']?([^\x00-\x20"'$<{/-][^\x00-\x20"'$<{]{5,64})"#, score: 0.8, before: 0, after: 120, seek: Seek::Word },
    Rule { mark: "net use ", kind: LOGIN, pattern: r#"^net use [^\n]{0,100}?/user:[^\x00-\x20]{1,60} ["']?([^\x00-\x20"'$<{/-][^\x00-\x20"'$<{]{5,64})"#, score: 0.8, before: 0, after: 260, seek: Seek::Word },
    Rule { mark: "http -", kind: LOGIN, pattern: HTTPIE, score: 0.8, before: 0, after: 300, seek: Seek::Word },
    Rule { mark: "https -", kind: LOGIN, pattern: HTTPIE, score: 0.8, before: 0, after: 300, seek: Seek::Word },
    Rule { mark: "jenkins-cli", kind: LOGIN, pattern: r#"^jenkins-cli[^\n]{0,140}? -auth ["']?[^\s"':]{1,60}:([^\x00-\x20"'$<{]{6,64})"#, score: 0.8, before: 0, after: 300, seek: Seek::Word },
];

/// Marks that announce a credential without a rule of this table.
const OTHERS: [&str; 2] = [KEY_BLOCK, URL_MARK];
/// All marks: those of the rules, in their order, then the others. The scan looks for most of them, in any case, so that
/// only what is there is looked for again.
pub(crate) static MARKS: [&str; RULES.len() + OTHERS.len()] = {
    let mut marks = [""; RULES.len() + OTHERS.len()];
    let mut index = 0;
    while index < marks.len() {
        marks[index] =
            if index < RULES.len() { RULES[index].mark } else { OTHERS[index - RULES.len()] };
        index += 1;
    }
    marks
};

/// Returns the places in which a mark is looked for.
pub(crate) fn seek(index: usize) -> Seek {
    RULES.get(index).map_or(Seek::Anywhere, |rule| rule.seek)
}

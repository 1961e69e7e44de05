//! Credentials that their structure tells, not how they begin.

use super::tests::{body, kinds, secrets};
use crate::vocabulary::formats::format::Charset;

/// Documented forms that no beginning alone tells, each with what it is.
#[rustfmt::skip]
pub(super) fn structures() -> Vec<(&'static str, String)> {
    let (long, key) = (body(Charset::Alnum, 76), body(Charset::Alnum, 43));
    let hex = "5d0e7a91c3f84b26a8e1d97c402b6f35";
    vec![
        ("azure_devops_token", format!("PAT {long}AZDOx7Kd.")),
        ("new_relic_key", format!("{hex}e98aNRAL")),
        ("okta_token", format!("Authorization: SSWS 00{}", &key[..40])),
        ("url_credentials", "jdbc:oracle:thin:scott/Kd92mQx1Lp@//db.internal:1521/shop".to_owned()),
        ("password", "redis-cli -h cache.internal -p 6380 -a Kd92mQx1Lp ping".to_owned()),
        ("password", "redis-cli -a correcthorsebattery ping".to_owned()),
        ("jwk_private_key", format!("{{\"kty\":\"EC\",\"crv\":\"P-256\",\"d\":\"{key}\"}}")),
        ("jwk_private_key", format!("{{\n  \"kty\": \"RSA\",\n  \"n\": \"{0}\",\n  \"e\": \"AQAB\",\n  \"d\": \"{0}\"\n}}", body(Charset::Url, 342))),
        ("facebook_app_token", format!("token 417203958161245|{}", &key[..27])),
        ("login_password", "requests.get(url, auth=(\"admin\", \"Kd92mQx1Lp\"))".to_owned()),
        ("login_password", "smtp.login('bot@acme.example', 'Kd92mQx1Lp')".to_owned()),
        ("login_password", "HTTPBasicAuth('admin','Kd92mQx1Lp')".to_owned()),
        ("login_password", "new NetworkCredential(\"bob\", \"Kd92mQx1Lp\");".to_owned()),
        ("login_password", "mysqli_connect('localhost','root','Kd92mQx1Lp','shop');".to_owned()),
        ("login_password", "new PDO('mysql:host=db;dbname=x', 'app', 'Kd92mQx1Lp');".to_owned()),
        ("login_password", "DriverManager.getConnection(url, user, \"Kd92mQx1Lp\");".to_owned()),
        ("login_password", "ConvertTo-SecureString 'Kd92mQx1Lp' -AsPlainText -Force".to_owned()),
        ("login_password", "CREATE USER 'a'@'%' IDENTIFIED BY 'Kd92mQx1Lp';".to_owned()),
        ("login_password", "alter user a identified with caching_sha2 by 'Kd92mQx1Lp'".to_owned()),
        ("login_password", "grant all on shop.* to app identified by 'Kd92mQx1Lp'".to_owned()),
        ("login_password", "client.login('testuser', 'q3Zk9+T1bW==')".to_owned()),
        ("login_password", "sqlcmd -S sql01 -U sa -P Kd92mQx1Lp! -Q \"select 1\"".to_owned()),
        ("login_password", "mongosh --host m1 -u admin -p Kd92mQx1Lp --authenticationDatabase admin".to_owned()),
        ("login_password", "ldapsearch -D cn=admin -w Kd92mQx1Lp".to_owned()),
        ("login_password", "ipmitool -U admin -P Kd92mQx1Lp chassis status".to_owned()),
        ("login_password", "xfreerdp /u:bob /p:Kd92mQx1Lp /v:10.0.0.9".to_owned()),
        ("login_password", "smbclient //fs/share -U corp/bob%Kd92mQx1Lp".to_owned()),
        ("login_password", "rabbitmqctl add_user app Kd92mQx1Lp".to_owned()),
        ("login_password", "sqlplus scott/Kd92mQx1Lp@ORCL".to_owned()),
        ("login_password", "htpasswd -bc .htpasswd admin Kd92mQx1Lp".to_owned()),
        ("login_password", "net user bob Kd92mQx1Lp /add".to_owned()),
        ("login_password", "net use Z: \\\\fs01\\share /user:corp\\bob Kd92mQx1Lp".to_owned()),
        ("login_password", "http -a admin:Kd92mQx1Lp GET https://api.acme.example".to_owned()),
        ("login_password", "jenkins-cli -auth admin:Kd92mQx1Lp list-jobs".to_owned()),
        ("basic_auth", "curl https://api.acme.example/v1 -u 9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1:".to_owned()),
        ("basic_auth", "curl -u 9f8Hd7Gs6Fa5Dp4Zx3Cv2Bn1:x https://acme.example".to_owned()),
        ("k3s_token", format!("K3S_TOKEN=K10{hex}{hex}::server:{hex}")),
        ("docker_config", "data:\n  .dockerconfigjson: eyJhdXRocyI6eyJyLmFjbWUuZXhhbXBsZSI6eyJhdXRoIjoiWTJrNlMyUTVNbTFSZURGTWNBPT0ifX19".to_owned()),
        ("encoded_url_credentials", "kind: Secret\ndata:\n  DATABASE_URL: cG9zdGdyZXM6Ly9hcHA6dDlLeiF3NFFtQGRiLmludGVybmFsL21haW4=".to_owned()),
        ("secret_key", "SILICONFLOW_API_KEY=sk-msxtgruuquyptaugwynsjbpqtdllsbjptixlgtwrcxhkcjqh".to_owned()),
        ("baidu_api_key", format!("bce-v3/ALTAK-{}/{hex}5d0e7a91", &key[..21])),
        ("configcat_key", format!("configcat-sdk-1/{0}/{0}", &key[..22])),
        ("defined_networking_key", format!("dnkey-{}-{}", &key[..26].to_lowercase(), &long[..52].to_lowercase())),
        ("close_api_key", format!("api_{0}.{0}", &key[..22])),
        ("wakatime_key", "waka_7c9e6679-7425-40de-944b-e07fc1f90ae7".to_owned()),
        ("azure_service_bus_key", format!("{}+ASbPDx7Ar=", &key[..33])),
        ("azure_iot_key", format!("{}AIoTEzoIek=", &key[..33])),
        ("azure_api_management_key", format!("{long}APIMozGriF==")),
        ("adyen_api_key", format!("AQEyhmfx{}-{}", &key[..40], &key[..30])),
        ("checkout_key", "sk_7c9e6679-7425-40de-944b-e07fc1f90ae7".to_owned()),
        ("asana_token", format!("2/1203958161245417/1203958161245999:{hex}")),
        ("asana_token", format!("1/1203958161245417:{hex}")),
        ("django_secret_key", "SECRET_KEY = 'django-insecure-k2$w!9x@h#4v_z7(m)q+e5=t8&b1*c6^n3-r0pyudsjgfaloi2'".to_owned()),
        ("bitcoin_private_key", "5KcgNLWeDzvxwd9bQCDp5iHK6HSZz6FkpjUCRMG5sCx9pv2utUk".to_owned()),
        ("bitcoin_private_key", "L5AUmB7qJNhBv6YvqNXYooCzrKZrazC8RgT3QURaUbkRx8FNMF4n".to_owned()),
        ("bitcoin_private_key", "xprv9s21ZrQH143K2XCgXuh37stVQZkKC5KQVKgkQ7uxKm4mKZFruLSnkzK34wFAWQTJw4jLFGTGMj6cK1H4JzUEm1B859Rth7QRwFc6cYGUHZX".to_owned()),
        ("nostr_private_key", "nsec1a5ykcc5mdzvhqwzyy73x0906dv3sksec6m90293cffuer58vwa3s4h0ytw".to_owned()),
        ("private_key", format!(
            "-----BEGIN OpenVPN Static key V1-----\n{}-----END OpenVPN Static key V1-----",
            format!("{hex}\n").repeat(16)
        )),
    ]
}

#[test]
fn documented_structures_are_found() {
    for (kind, text) in structures() {
        assert_eq!(kinds(&text), [kind], "{text}");
    }
    for (_, text) in structures()
        .iter()
        .filter(|(kind, _)| kind.starts_with("bitcoin") || kind.starts_with("nostr"))
    {
        let other = text.replace(['2', '3', 'q'], "4");
        assert!(secrets(&other).is_empty(), "{other}");
    }
    for text in [
        "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\"}",
        "| 1417203958161245 | of | them |",
        "redis-cli -h cache.internal -p 6380 ping",
        "requests.get(url, auth=(\"user\", \"passwd\"))",
        "requests.get(url, auth=(username, password2))",
        "page.login('field1', 'next page')",
        "HTTPBasicAuth('user', 'passwd')",
        "mysqli_connect('localhost', 'root', '', 'shop2024A');",
        "DriverManager.getConnection(url, \"root\", \"password\");",
        "CREATE USER 'app'@'%' IDENTIFIED BY 'password';",
        "create user app identified by :pw1A and identified by <Password1>",
        "it was identified by \"the police\" in 2024",
        "The issue is identified by \"GHSA-xr7q-jx4m-x55m\"",
        "the user is identified by \"CVE-2024-1234\"",
        "client.login('testuser','testpass123')",
        "requests.get(url, auth=('foo','bar1234'))",
        "page.login('https://x.y','en_US.UTF8')",
        "new mysqli(\"localhost\",\"user\",\"utf8_general_ci2\")",
        "DriverManager.getConnection(a,\"b\",\"MODE=MySQL8\")",
        "eyJhdXRocyI6e30sImNyZWRzU3RvcmUiOiJkZXNrdG9wIiwiY3VycmVudENvbnRleHQiOiJkZXNrdG9wLWxpbnV4In0=",
        "mongosh --host m1 -u admin -p --authenticationDatabase admin2",
        "sqlcmd -S sql01 -U sa -P $SA_PASSWORD1",
        "net user bob /delete",
        "redis: cmVkaXM6Ly9jYWNoZS5pbnRlcm5hbDo2Mzc5LzA=",
        "db: cG9zdGdyZXM6Ly91c2VyOnBhc3N3b3JkQGhvc3QvZGI=",
        "let K10 = K10::server:8080",
        "sk-thequickbrownfoxjumpsoverthelazydogandrunsawayy",
        "server.login(email, \"Password1!\")",
        "ssh root@10.0.0.4 -p 2222; ps -p 12345 -o pid,cmd; cp -p Report2024Q1 /tmp",
        "curl -u $USER1: https://api.acme.example",
        "curl -u administrators-group: http://localhost:9200",
        "curl -u <api-key>: https://api.acme.example",
        "http -a user:password GET acme.example",
        "1/2/2024 and 2/3",
        "jdbc:oracle:thin:@//db.internal:1521/shop",
    ] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}

#[test]
fn a_signed_token_is_found_behind_a_prefix() {
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI3NyJ9.c2lnbmF0dXJlLW9mLXRlc3Q";
    assert_eq!(kinds(token), ["jwt"]);
    assert_eq!(kinds(&format!("ghs_77_{token}")), ["jwt"]);
}

/// Each text holds a credential behind more marks of its kind than there may be findings.
#[test]
fn marks_that_are_none_hide_no_credential() {
    let (body, key) = (body(Charset::Alnum, 64), body(Charset::Alnum, 43));
    for (mark, text) in [
        (
            "GET https://shop.example/p/77 200\n",
            "DATABASE_URL=postgres://app:t9Kz!w4Qm@db.internal/main",
        ),
        (
            "-----BEGIN X-----\n",
            &*format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----"),
        ),
        ("sig=x ", &format!("https://a.blob.example.org/c?sv=2024&sig={key}%3D")),
        ("-us ", "5d0e7a91c3f84b26a8e1d97c402b6f35-us12 "),
        ("curl -s x ", "curl -su robot:Kd92mQx1Lp https://a.example.org"),
        ("wallet ", "0x5d0e7a91c3f84b26a8e1d97c402b6f35e98a17d4c06b52f3917ae84d20c5b6f8"),
    ] {
        let text = mark.repeat(1300) + text;
        assert_eq!(secrets(&text).len(), 1, "{mark}");
    }
}

#[test]
fn passwords_given_to_programs_are_found() {
    for text in [
        "mysqldump -h db -u root -pKd92mQx1Lp shop",
        "mysqladmin -u root -pKd92mQx1Lp status",
        "curl -su robot:Kd92mQx1Lp https://a.example.org",
        "curl -sSLu 'robot:Kd92mQx1Lp' https://a.example.org",
    ] {
        let found = secrets(text);
        assert!(
            found.len() == 1 && text[found[0].bytes.clone()].ends_with("Kd92mQx1Lp"),
            "{text}: {found:?}"
        );
    }
    for text in ["curl -sout:file2.txt x", "mysqldump -p shop2024"] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}

#[test]
fn a_heading_that_is_talked_about_is_no_key() {
    let talk = "What does -----BEGIN RSA PRIVATE KEY----- mean at the top of a file? I have never seen this before.";
    for text in [
        talk,
        &format!("{talk}{}", " I have never seen this before in my life.".repeat(90)),
        "if '-----BEGIN RSA PRIVATE KEY-----' in text: raise ValueError('do not paste private keys here, please')",
        "-----BEGIN PRIVATE KEY-----\n(your private key goes here, usually about twenty seven lines of letters)\n-----END PRIVATE KEY-----",
        "it begins -----BEGIN PRIVATE KEY----- as https://github.com/openssl/openssl/issues/12345 and https://github.com/openssl/openssl/issues/54321 say",
    ] {
        assert!(secrets(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}

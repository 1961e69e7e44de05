//! Credentials that are glued to a word, and words that look like it.

use super::tests::{body, kinds, secrets};
use crate::vocabulary::formats;
use crate::vocabulary::formats::format::{Body, Charset, Format};

/// Texts that may stand right in front of a credential.
const FRONTS: [&str; 11] =
    ["x", "X", "my_", "9", "A", "_x_", "a1", "token", "é_", "config.", "0x1F"];

/// Credentials whose rest has a structure or a check value; made for these tests.
#[rustfmt::skip]
fn checked() -> Vec<(&'static str, String)> {
    let (alnum, url) = (body(Charset::Alnum, 140), body(Charset::Url, 120));
    vec![
        ("openai_api_key", format!("sk-proj-{}T3BlbkFJ{}", &alnum[..40], &alnum[60..100])),
        ("openai_api_key", format!("sk-{}T3BlbkFJ{}", &alnum[..20], &alnum[60..80])),
        ("anthropic_api_key", format!("sk-ant-api03-{}AA", &url[..91])),
        ("sendgrid_api_key", format!("SG.{}.{}", &alnum[..22], &alnum[30..73])),
        ("stripe_key", format!("sk_live_{}", &alnum[..24])),
        ("slack_token", format!("xoxb-417203958161-4172039581612-{}", &alnum[..24])),
        ("airtable_token", format!("pat{}.{}", &alnum[..14], "5d0e7a91c3f84b26a8e1d97c402b6f35".repeat(2))),
        ("bitcoin_private_key", "5KcgNLWeDzvxwd9bQCDp5iHK6HSZz6FkpjUCRMG5sCx9pv2utUk".to_owned()),
        ("bitcoin_private_key", "L5AUmB7qJNhBv6YvqNXYooCzrKZrazC8RgT3QURaUbkRx8FNMF4n".to_owned()),
        ("nostr_private_key", "nsec1a5ykcc5mdzvhqwzyy73x0906dv3sksec6m90293cffuer58vwa3s4h0ytw".to_owned()),
        ("sluice_api_key", format!("ak_5d0e7a91c3f84b26.{}", &url[..43])),
        ("tailscale_key", format!("tskey-auth-{}-{}", &alnum[..12], &alnum[20..44])),
        ("jwt", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI3NyJ9.c2lnbmF0dXJlLW9mLXRlc3Q".to_owned()),
    ]
}

/// A value of each format that is found anywhere and has no structure.
fn plain() -> impl Iterator<Item = (&'static Format, String)> {
    let formats = formats::all().filter(|format| format.stands_anywhere());
    let is_plain = |format: &&Format| {
        !matches!(format.body, Body::Checked(_)) && format.kind != "sluice_api_key"
    };
    formats.filter(is_plain).map(|format| {
        let (least, most) = format.length;
        (format, format!("{}{}", format.prefix, body(format.rest, least.max(most.min(20)))))
    })
}

/// Random characters of a set with its signs; others for every seed.
fn random(seed: u64, bytes: usize, set: &[u8]) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut draw = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(set[(state >> 11) as usize % set.len()])
    };
    (0..bytes).map(|_| draw()).collect()
}

/// Thirty characters and their CRC-32 in base 62, as GitHub and npm end their tokens.
fn counted(random: &str) -> String {
    const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut sum = crate::text::checksum::crc32(random.as_bytes());
    let mut check = [b'0'; 6];
    for digit in check.iter_mut().rev() {
        *digit = DIGITS[(sum % 62) as usize];
        sum /= 62;
    }
    format!("{random}{}", String::from_utf8_lossy(&check))
}

#[test]
fn a_credential_is_found_behind_a_letter_a_digit_or_a_line() {
    let mut count = 0;
    for (format, value) in plain() {
        for front in FRONTS {
            let text = format!("{front}{value}");
            let found = secrets(&text);
            // The text in front may be a part of it: `A` and a beginning of many of them.
            let whole =
                |s: &super::Secret| s.bytes.start <= front.len() && s.bytes.end == text.len();
            assert!(
                found.iter().any(whole),
                "{text}: {found:?} of {} {}",
                format.kind,
                format.prefix
            );
            count += 1;
        }
    }
    assert!(count > 200 * FRONTS.len(), "{count}: most formats are found anywhere");
    for (kind, value) in checked() {
        for front in FRONTS {
            let text = format!("{front}{value} and more");
            let found = secrets(&text);
            assert!(
                found.iter().any(|s| s.kind == kind && text[s.bytes.clone()].contains(&*value)),
                "{text}: {found:?}"
            );
        }
    }
}

#[test]
fn a_check_value_says_where_a_credential_ends() {
    let value = counted("Zx81kQmW0aLr5TnBv7YdJ2cHs9EfGu");
    for prefix in ["ghp_", "gho_", "ghu_", "ghs_", "ghr_", "npm_"] {
        for front in ["", "x", "my_", "9", "A", "_"] {
            for back in ["", "x", "_", "_old", "9", "Zz9", "é", "-x", ".git"] {
                let text = format!("{front}{prefix}{value}{back}");
                let found = secrets(&text);
                let range = front.len()..front.len() + prefix.len() + value.len();
                assert!(found.len() == 1 && found[0].bytes == range, "{text}: {found:?}");
                assert!(found[0].score > 0.9, "{text}: {found:?}");
            }
        }
        // In the middle of random text, which hides others.
        let text = format!("{}{prefix}{value}", body(Charset::Alnum, 60));
        assert_eq!(secrets(&text).len(), 1, "{text}");
    }
}

#[test]
fn what_follows_a_credential_of_one_length_hides_it_only_if_it_goes_on() {
    let hex = "5d0e7a91c3f84b26a8e1d97c402b6f35";
    for back in ["_prod", "xyz", "_", "Z"] {
        let text = format!("shpat_{hex}{back}");
        assert_eq!(kinds(&text), ["shopify_token"], "{text}");
    }
    for back in ["0", "deadbeef", "****", "-5"] {
        let text = format!("shpat_{hex}{back}");
        assert!(kinds(&text).is_empty(), "{text}");
    }
}

#[test]
fn words_in_front_of_hashes_and_identifiers_are_no_credentials() {
    let (md5, uuid) = ("5d0e7a91c3f84b26a8e1d97c402b6f35", "7c9e6679-7425-40de-944b-e07fc1f90ae7");
    let (sha1, sha256) = (format!("{md5}0a1b2c3d"), md5.repeat(2));
    for word in [
        "task-",
        "risk-",
        "desk-",
        "disk-",
        "mask-",
        "ask-",
        "flask-",
        "task_",
        "disk_",
        "task_live_",
        "desk_test_",
        "work_live_",
        "spark_test_",
        "alive_",
        "olive_",
        "latest_",
        "monkey-",
        "mykey-",
        "cachekey-",
        "docs_",
        "pics_",
        "back_",
        "rock_",
        "break_",
        "speak_",
        "routines_",
        "machines_",
        "onlooker_",
        "openapi_",
        "kotlin_api_",
        "berlin_api_",
        "thesecret_",
        "topsecret-",
        "mexico-",
        "compat_",
        "format_",
        "more_",
        "are_",
        "self_",
        "half_",
        "model_sgd_",
        "overdose",
        "seapi-",
        "mob-",
        "amob-",
        "unicode_nfc_",
        "my_rnd_",
        "x_dsp_",
        "mypubkey-",
        "typical_live_",
        "MONKEY0",
        "TESTS.",
        "MYAPI-",
        "ASIA",
        "EURASIA",
        "in_service:",
        "AKIA",
        "xAKIA",
    ] {
        for value in
            [md5, &sha1, &sha256, uuid, "5d0e7a91c3f84b26.x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGe"]
        {
            let text = format!("see x{word}{value} there");
            assert!(kinds(&text).is_empty(), "{text}: {:?}", secrets(&text));
        }
    }
    for text in [
        "my_ghp_this_is_a_name_of_a_variable_in_code",
        "xghp_thisisaverylongnameofavariablewithoutdigit",
        "xAKIAQ3ZK7TWM2XVN5RPLQ3ZK",
        "QWERAKIAQ3ZK7TWM2XVN5RPL",
        "my_AKIA_ROLE_NAME_ENV_1",
        "my_glpat-your_token_here_please",
        "xhf_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "window.npm_config_user_agent_string_of_the_client",
        "dop_v1_dop_v1_dop_v1_dop_v1_dop_v1_dop_v1_dop_v1_dop_v1",
    ] {
        assert!(kinds(text).is_empty(), "{text}: {:?}", secrets(text));
    }
}

#[test]
fn random_text_holds_no_credentials() {
    let url = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let base64 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let sets: [&[u8]; 5] = [base64, url, b"0123456789abcdef", &url[..62], &url[..26]];
    for seed in 0..60 {
        for (number, set) in sets.iter().enumerate() {
            let run = random(seed * 5 + number as u64, 6_000, set);
            let lines = |width: usize, end: &str| {
                let lines = run.as_bytes().chunks(width).map(String::from_utf8_lossy);
                lines.collect::<Vec<_>>().join(end)
            };
            for text in
                [run.clone(), lines(76, "\n"), lines(24, " "), lines(44, "\",\""), lines(40, "_")]
            {
                // Behind a sign a beginning of three letters stands by chance, rarely.
                let mut found = secrets(&text);
                found.retain(|s| {
                    text[..s.bytes.start]
                        .ends_with(|c: char| c.is_alphanumeric() || "_.".contains(c))
                });
                assert!(found.is_empty(), "{found:?} {}", &text[found[0].bytes.clone()]);
            }
        }
    }
}

/// Each of many beginnings in one run is read once, not with all that follows it.
#[test]
fn beginnings_in_a_run_are_not_read_again_and_again() {
    for unit in [
        "fm2_",
        "x-fm2_",
        "glagent-",
        "eyJhdXRocyI6",
        "cG9zdGdyZXM6",
        "xsk-ant-api03-",
        "bedrock-api-key-",
    ] {
        for end in ["", "x7Kd92LmQpZ4vT81bNcR6wYs3HfJ0aGeUiB5"] {
            let run = format!("{}{end} ", unit.repeat(1_100 / unit.len()));
            let read = super::formatted::bytes_read(&run.repeat(100));
            assert!(read <= 4 * run.len() * 100, "{unit}: {read}");
        }
    }
}

/// A word that is longer than what a stream holds, with a token in the middle of it.
#[test]
fn a_stream_finds_what_is_glued_into_a_long_word() {
    let act = domain::safety::Action::Redact;
    let safety = domain::safety::Safety { output_secrets: act, ..Default::default() };
    let policy = crate::policy::compiled::Policy::compile(&safety).unwrap();
    let value = counted("Zx81kQmW0aLr5TnBv7YdJ2cHs9EfGu");
    for lead in [0, 100, 3_000, 4_090, 6_000] {
        let text =
            format!("{}_ghp_{value}_{} end", body(Charset::Alnum, lead), body(Charset::Alnum, 900));
        for size in [1, 7, 64, 5_000] {
            let (mut judge, mut redactor) = (
                crate::stream_judge::StreamJudge::default(),
                crate::redact::redactor::Redactor::of_answer(7),
            );
            let mut said = String::new();
            for piece in
                text.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap())
            {
                said += &judge.push(&policy, &mut redactor, piece).unwrap();
            }
            said += &judge.flush(&policy, &mut redactor).unwrap();
            assert!(!said.contains(&value[..12]) && !said.contains(&value[24..]), "{lead} {size}");
        }
    }
}

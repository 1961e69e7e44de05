//! The settings of agents, printed and written into a home that is made for each test.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::run;

const KEY: &str = "ak_0123456789abcdef.secret";

struct Home(TempDir);

/// The output of a command, and whether it succeeded.
struct Ran {
    well: bool,
    out: String,
    err: String,
}

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn with(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    async fn set_up(&self, args: &str) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.env_clear().env("HOME", self.0.path()).current_dir(self.0.path());
        command.arg("agent-setup").args(args.split(' ')).stdin(Stdio::null());
        let output = run(command).await;
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ran { well: output.status.success(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The names of all files, to see that nothing is left behind.
    fn files(&self) -> Vec<String> {
        let mut names = Vec::new();
        let mut folders = vec![self.0.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(self.0.path()).unwrap();
                    names.push(name.display().to_string());
                }
            }
        }
        names.sort();
        names
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn json_of(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[tokio::test]
async fn settings_are_printed_and_nothing_is_written() {
    let home = Home::new();
    for (args, lines) in [
        (
            "claude-code --model m",
            &[
                "export ANTHROPIC_BASE_URL='http://127.0.0.1:8080/anthropic'",
                "export ANTHROPIC_AUTH_TOKEN=\"$SLUICE_API_KEY\"",
                "export ANTHROPIC_MODEL='m'",
                "    \"ANTHROPIC_BASE_URL\": \"http://127.0.0.1:8080/anthropic\",",
            ][..],
        ),
        (
            "codex --url https://gate.example/ --model it's",
            &[
                "export SLUICE_API_KEY='ak_...'",
                "  -c 'model=\"it'\\''s\"'",
                "model_provider = \"sluice\"",
                "base_url = \"https://gate.example/openai/v1\"",
                "env_key = \"SLUICE_API_KEY\"",
                "wire_api = \"responses\"",
            ],
        ),
        (
            "opencode --url https://gate.example/below --model m",
            &[
                "        \"baseURL\": \"https://gate.example/below/openai/v1\",",
                "        \"apiKey\": \"{env:SLUICE_API_KEY}\"",
                "  \"model\": \"sluice/m\"",
            ],
        ),
        (
            &format!("aider --model m --key {KEY}"),
            &[
                "export OPENAI_API_BASE='http://127.0.0.1:8080/openai/v1'",
                "export OPENAI_API_KEY='ak_0123456789abcdef.secret'",
                "aider --model 'openai/m'",
                "openai-api-base: \"http://127.0.0.1:8080/openai/v1\"",
            ],
        ),
        (
            "gemini-cli --url https://gate.example/ --model it's",
            &[
                "export GOOGLE_GEMINI_BASE_URL='https://gate.example/gemini'",
                "export GEMINI_API_KEY=\"$SLUICE_API_KEY\"",
                "export GEMINI_MODEL='it'\\''s'",
                "gemini",
                "      \"selectedType\": \"gemini-api-key\"",
            ],
        ),
        (
            "claude-code --listen 0.0.0.0:99",
            &["export ANTHROPIC_BASE_URL='http://127.0.0.1:99/anthropic'"],
        ),
    ] {
        let ran = home.set_up(args).await;
        assert!(ran.well, "{args}: {}", ran.err);
        for line in lines {
            assert!(ran.out.lines().any(|shown| shown == *line), "{line}\n{}", ran.out);
        }
    }
    assert!(home.files().is_empty(), "{:?}", home.files());
}

#[tokio::test]
async fn a_file_of_claude_code_keeps_all_else() {
    let home = Home::new();
    let old = json!({
        "permissions": {"allow": ["Bash(ls)"]},
        "env": {"KEPT": "1", "ANTHROPIC_BASE_URL": "https://elsewhere.example"},
        "zebra": 1.5,
    });
    let path = home.with(".claude/settings.json", &old.to_string());
    let args = "claude-code --model m --write --yes";
    let ran = home.set_up(args).await;
    assert!(ran.well, "{}", ran.err);
    let mut expected = old.clone();
    expected["env"]["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:8080/anthropic".into();
    expected["env"]["ANTHROPIC_MODEL"] = "m".into();
    assert_eq!(json_of(&path), expected, "and no key");
    assert_eq!(mode(&path), 0o600);
    assert!(ran.out.contains("+     \"ANTHROPIC_MODEL\": \"m\""), "{}", ran.out);
    assert!(ran.out.contains("export ANTHROPIC_AUTH_TOKEN="), "{}", ran.out);
    let text = std::fs::read_to_string(&path).unwrap();
    let order: Vec<_> =
        ["permissions", "KEPT", "zebra"].map(|name| text.find(name).unwrap()).into();
    assert!(order.is_sorted(), "{text}");
    // Once more changes nothing, and with a key only the key comes.
    let again = home.set_up(args).await;
    assert!(again.well && again.out.contains("has these settings already"), "{}", again.out);
    let keyed = home.set_up(&format!("{args} --key {KEY}")).await;
    assert!(keyed.well, "{}", keyed.err);
    expected["env"]["ANTHROPIC_AUTH_TOKEN"] = KEY.into();
    assert_eq!(json_of(&path), expected);
    let signs = |sign| keyed.out.lines().filter(|line| line.starts_with(sign)).count();
    assert_eq!((signs('+'), signs('-')), (2, 1), "the comma before it: {}", keyed.out);
    // A file that holds the key already is left to its owner alone.
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let again = home.set_up(&format!("{args} --key {KEY}")).await;
    assert!(again.well && again.out.contains("has these settings already"), "{}", again.out);
    assert_eq!(mode(&path), 0o600);
    assert_eq!(home.files(), [".claude/settings.json"]);
}

#[tokio::test]
async fn new_files_are_whole_and_private() {
    let home = Home::new();
    for (args, file) in [
        ("claude-code", ".claude/settings.json"),
        ("codex --model m", ".codex/config.toml"),
        ("opencode --model m", ".config/opencode/opencode.json"),
        ("aider --model m", ".aider.conf.yml"),
        ("gemini-cli --model m", ".gemini/settings.json"),
    ] {
        let ran = home.set_up(&format!("{args} --write --yes")).await;
        assert!(ran.well, "{args}: {}", ran.err);
        assert!(ran.out.contains("The file holds no key."), "{}", ran.out);
        assert_eq!(mode(&home.path(file)), 0o600, "{file}");
        let again = home.set_up(&format!("{args} --write --yes")).await;
        assert!(again.well && again.out.contains("already"), "{args}: {}{}", again.out, again.err);
    }
    let codex = std::fs::read_to_string(home.path(".codex/config.toml")).unwrap();
    assert_eq!(
        codex,
        "model = \"m\"\nmodel_provider = \"sluice\"\n\n[model_providers.sluice]\nname = \"Sluice\"\n\
         base_url = \"http://127.0.0.1:8080/openai/v1\"\nenv_key = \"SLUICE_API_KEY\"\n\
         wire_api = \"responses\"\n"
    );
    let opencode = json_of(&home.path(".config/opencode/opencode.json"));
    let provider = &opencode["provider"]["sluice"];
    assert_eq!(provider["npm"], "@ai-sdk/openai-compatible");
    assert_eq!(provider["options"]["apiKey"], "{env:SLUICE_API_KEY}");
    assert_eq!(
        (&provider["models"]["m"]["name"], &opencode["model"]),
        (&json!("m"), &json!("sluice/m"))
    );
    let gemini = json_of(&home.path(".gemini/settings.json"));
    assert_eq!(gemini, json!({"security": {"auth": {"selectedType": "gemini-api-key"}}}));
    assert_eq!(home.files().len(), 5, "{:?}", home.files());
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_touched() {
    let home = Home::new();
    for (args, file, text) in [
        ("codex", ".codex/config.toml", "# mine\nmodel = \"x\"\n"),
        ("aider --model m", ".aider.conf.yml", "# mine\ndark-mode: true\n"),
        (
            "opencode --model m",
            ".config/opencode/opencode.json",
            "{\n  // mine\n  \"model\": \"x\"\n}",
        ),
        ("claude-code", ".claude/settings.json", "{\"env\": [\"x\"]}"),
    ] {
        let path = home.with(file, text);
        let ran = home.set_up(&format!("{args} --write --yes")).await;
        assert!(!ran.well && ran.err.contains("Put this into it"), "{args}: {}", ran.err);
        assert!(ran.err.contains("http://127.0.0.1:8080/"), "{args}: {}", ran.err);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    // Nobody can be asked here.
    let empty = Home::new();
    let ran = empty.set_up("claude-code --write").await;
    assert!(!ran.well && ran.err.contains("add --yes"), "{}", ran.err);
    assert!(
        ran.out.contains("+     \"ANTHROPIC_BASE_URL\""),
        "it is shown all the same: {}",
        ran.out
    );
    assert!(empty.files().is_empty());
}

#[tokio::test]
async fn a_link_stays_a_link() {
    let home = Home::new();
    let real = home.with("dotfiles/claude.json", "{}");
    std::fs::create_dir(home.path(".claude")).unwrap();
    let link = home.path(".claude/settings.json");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let ran = home.set_up("claude-code --write --yes").await;
    assert!(ran.well, "{}", ran.err);
    assert!(link.is_symlink());
    let lost = home.path("dotfiles/claude.json");
    std::fs::rename(&lost, home.path("dotfiles/old.json")).unwrap();
    let refused = home.set_up("claude-code --write --yes").await;
    assert!(!refused.well && refused.err.contains("is a link"), "{}", refused.err);
    assert!(link.is_symlink());
    std::fs::rename(home.path("dotfiles/old.json"), &lost).unwrap();
    assert!(json_of(&real)["env"]["ANTHROPIC_BASE_URL"].is_string());
}

#[tokio::test]
async fn bad_arguments_are_named() {
    let home = Home::new();
    for (args, says) in [
        ("gemini-cli --key a$b", "--key"),
        ("opencode", "--model"),
        ("aider", "--model"),
        ("claude-code --url gate.example", "--url"),
        ("claude-code --url ftp://gate.example", "--url"),
        ("claude-code --url http://me:word@gate.example", "--url"),
        ("claude-code --url http://gate.example/?a=b", "--url"),
        ("claude-code --url http://gate.example/$(ls)", "--url"),
        ("claude-code --key a'b", "--key"),
        ("claude-code --yes", "--write"),
        ("emacs", "claude-code"),
    ] {
        let ran = home.set_up(args).await;
        assert!(!ran.well && ran.err.contains(says), "{args}: {}{}", ran.out, ran.err);
    }
}

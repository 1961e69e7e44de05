//! The examples of the manual, as the tests run them.

use std::path::Path;

use serde_json::Value;

const PROVIDERS: &str = "../../docs/providers.md";

/// How `docs/providers.md` registers a model of a provider: the first JSON under its heading.
pub fn registration(provider: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PROVIDERS);
    let manual = std::fs::read_to_string(path).unwrap();
    let heading = format!("\n### `{provider}`\n");
    let (_, section) = manual.split_once(&heading).expect("every provider has a section");
    let section = section.split("\n#").next().unwrap_or_default();
    let (_, example) = section.split_once("```json\n").expect("every section has an example");
    let (example, _) = example.split_once("```").expect("the example ends");
    serde_json::from_str(example).unwrap()
}

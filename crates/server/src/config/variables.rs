//! Environment variables that look as if they were meant for the gateway and are unknown.

use super::layer::VARIABLES;

/// Variables that single commands read, and that of the agents that `agent-setup` sets up.
const OF_COMMANDS: [&str; 5] = [
    "SLUICE_API_KEY",
    "SLUICE_NEW_MASTER_KEY",
    "SLUICE_TOKEN",
    "SLUICE_USER_EMAIL",
    "SLUICE_USER_PASSWORD",
];
/// Names with more slips than this are not taken for one another.
const MOST_SLIPS: usize = 2;

/// A message for every variable that is ignored.
pub(crate) fn unknown() -> Vec<String> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    warnings(names)
}

fn warnings(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut strange: Vec<String> = names.filter(|name| is_strange(name)).collect();
    strange.sort_unstable();
    strange.iter().map(|name| warning(name)).collect()
}

fn is_strange(name: &str) -> bool {
    name.starts_with("SLUICE_")
        && !name.starts_with("SLUICE_TEST_")
        && !known().any(|known| known == name)
        && !is_of_kubernetes(name)
}

/// Whether Kubernetes sets such a variable in every pod beside a service called `sluice` or
/// `sluice-...`.
fn is_of_kubernetes(name: &str) -> bool {
    name.ends_with("_PORT")
        || ["_PORT_", "_SERVICE_HOST", "_SERVICE_PORT"].iter().any(|part| name.contains(part))
}

fn known() -> impl Iterator<Item = &'static str> {
    VARIABLES.iter().chain(&OF_COMMANDS).copied()
}

fn warning(name: &str) -> String {
    let nearest = known().map(|known| (slips(name, known), known)).min();
    match nearest.filter(|(slips, _)| *slips <= MOST_SLIPS) {
        Some((_, known)) => {
            format!("{name} is no variable of this program and is ignored; did you mean {known}?")
        }
        None => format!(
            "{name} is no variable of this program and is ignored; `sluice check-config --defaults` shows every key"
        ),
    }
}

/// How many letters have to be put in, left out or changed to get from one name to the other.
fn slips(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.bytes().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (column, wanted) in other.bytes().enumerate() {
            let changed = diagonal + usize::from(letter != wanted);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(names: &[&str]) -> Vec<String> {
        warnings(names.iter().map(ToString::to_string))
    }

    #[test]
    fn a_slip_is_named_with_what_was_meant() {
        for (name, meant) in [
            ("SLUICE_LISEN", "SLUICE_LISTEN?"),
            ("SLUICE_MASTERKEY", "SLUICE_MASTER_KEY?"),
            ("SLUICE_DATABASE_URI", "SLUICE_DATABASE_URL?"),
            ("SLUICE_MAX_BODY", "check-config --defaults"),
        ] {
            let said = said(&[name]);
            assert_eq!(said.len(), 1, "{said:?}");
            assert!(said[0].starts_with(name) && said[0].contains(meant), "{said:?}");
        }
    }

    #[test]
    fn what_is_known_or_meant_for_others_is_passed_over() {
        let names = [
            "PATH",
            "SLUICE_LISTEN",
            "SLUICE_MASTER_KEY_FILE",
            "SLUICE_REDIS_URL",
            "SLUICE_TOKEN",
            "SLUICE_USER_PASSWORD",
            "SLUICE_TEST_PG",
            "SLUICE_SERVICE_HOST",
            "SLUICE_SERVICE_PORT",
            "SLUICE_SERVICE_PORT_HTTP",
            "SLUICE_PORT",
            "SLUICE_PORT_8080_TCP",
            "SLUICE_PORT_8080_TCP_ADDR",
            "SLUICE_METRICS_SERVICE_HOST",
        ];
        assert_eq!(said(&names), [""; 0]);
    }
}

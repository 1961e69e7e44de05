//! `sluice audit`: whether the record of who did what is whole.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use clap::Subcommand;
use domain::time::Clock;
use gateway::verify_audit_lines;
use store::ChainReport;

use super::{Failure, doctor, say, warn};
use crate::config::Config;

#[derive(Subcommand)]
pub(crate) enum AuditCommand {
    /// Check that no audit event was changed or removed, beside a gateway that may be running
    Verify {
        /// Check an exported file instead of the database
        #[arg(value_name = "FILE.jsonl")]
        file: Option<PathBuf>,
        /// The file was exported with filters: events may be missing
        #[arg(long, requires = "file")]
        filtered: bool,
    },
}

pub(crate) async fn run(config: &Config, command: AuditCommand) -> Result<(), Failure> {
    let AuditCommand::Verify { file, filtered } = command;
    let report = match file {
        Some(path) => verify_file(&path, filtered)?,
        None => {
            let store = doctor::store(config, &Clock::system()).await?;
            let report = store.verify_audit().await;
            store.close().await;
            report?
        }
    };
    print(&report)
}

fn verify_file(path: &Path, filtered: bool) -> Result<ChainReport, Failure> {
    let named = path.display();
    let file =
        File::open(path).map_err(|error| Failure(format!("{named} cannot be read: {error}")))?;
    verify_audit_lines(&mut BufReader::new(file), filtered).map_err(|error| {
        let Failure(why) = error.into();
        Failure(format!("{named}: {why}"))
    })
}

/// Prints what was found. Fails on a break.
fn print(report: &ChainReport) -> Result<(), Failure> {
    let ChainReport { chained, not_chained, late, chains, .. } = report;
    say(&format!("{chained} chained (chains: {chains}), {not_chained} not chained."))?;
    if *late > 0 {
        warn(&format!(
            "events that are not chained come after chained ones ({late}): an older version of Sluice wrote \
             them, or somebody else did"
        ));
    }
    if let Some(last) = &report.last {
        let hash = last.hash.map_or_else(|| "none".to_owned(), |hash| hash.to_string());
        say(&format!("Last link: node {}, link {}, hash {hash}", last.node, last.link))?;
    }
    for found in &report.breaks {
        say(&format!("BROKEN {found}"))?;
    }
    let unnamed = report.broken - report.breaks.len() as u64;
    if unnamed > 0 {
        say(&format!("BROKEN at {unnamed} more places"))?;
    }
    match report.breaks.first() {
        None => say("The audit log is whole."),
        Some(first) => Err(Failure(format!(
            "the audit log is not whole: it breaks first at node {}, link {}",
            first.node, first.link
        ))),
    }
}

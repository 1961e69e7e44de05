//! The parts of commands that start jobs on a gateway, wait for them and fail under conditions.

pub(crate) mod condition;
pub(crate) mod junit;
pub(crate) mod progress;
pub(crate) mod remote;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use super::{Failure, complain, say};
use junit::Case;

/// The exit code if something could not be measured: wrong usage, no gateway, a job or a part of it that
/// failed.
pub(crate) const TROUBLE: u8 = 2;

/// Prints a case.
pub(crate) fn print(case: &Case) -> Result<(), Failure> {
    let word = if case.is_fine() { "ok  " } else { "FAIL" };
    say(&format!("{word} {}: {}", case.name, case.figures))?;
    let reasons = case.errors.iter().chain(&case.failures);
    reasons.map(|reason| format!("     {reason}")).try_for_each(|line| say(&line))
}

/// Reports how many have failed, and returns the exit code. A condition that holds goes before trouble:
/// a suite has both if one of its traces is too old to be replayed.
pub(crate) fn conclude(
    jobs: &str,
    cases: &[Case],
    trouble: [Result<(), Failure>; 3],
) -> Result<ExitCode, Failure> {
    let failed = cases.iter().filter(|case| !case.is_fine()).count();
    if failed > 0 {
        complain(&Failure(format!("{failed} of {} {jobs} failed", cases.len())));
    }
    let trouble = trouble.into_iter().collect::<Result<(), Failure>>();
    if cases.iter().any(|case| !case.failures.is_empty()) {
        trouble.unwrap_or_else(|failure| complain(&failure));
        return Ok(ExitCode::FAILURE);
    }
    trouble?;
    Ok(if failed > 0 { ExitCode::from(TROUBLE) } else { ExitCode::SUCCESS })
}

/// The file of a report.
pub(crate) struct Report<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Report<'a> {
    /// Opens it before anything is asked for: a result that cannot be reported is not worth its cost.
    pub(crate) fn open(path: &'a Path) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| unwritable(path, &error))?;
        Ok(Self { path, file })
    }

    /// Writes the cases of a command.
    pub(crate) fn write(mut self, command: &str, cases: &[Case]) -> Result<(), Failure> {
        let written = self.file.write_all(junit::report(command, cases).as_bytes());
        written.map_err(|error| unwritable(self.path, &error))
    }
}

fn unwritable(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("{} cannot be written: {error}", path.display()))
}

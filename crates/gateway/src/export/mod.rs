//! Exports: the steps or the costs of a project in a time, as a file. A job writes the file into the
//! database, in sealed pieces, so that every node can answer with it; the command line writes it to disk.

pub(crate) mod ask;
pub(crate) mod reader;
pub(crate) mod run;
pub(crate) mod selection;

#[cfg(test)]
mod run_tests;

//! A configuration file of an agent: read, compared with what it is to become, and replaced.

use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::commands::Failure;
use crate::open;

/// The largest file that is read.
const MOST_BYTES: u64 = 1024 * 1024;
/// Most lines on either side that are compared one by one; of more, all are shown as changed.
const MOST_LINES: usize = 1000;

/// A file that is to be written.
pub(super) struct Target {
    /// Behind all links, so that a link stays one.
    path: PathBuf,
    /// `None` if there is no file.
    text: Option<String>,
}

impl Target {
    pub(super) fn read(path: PathBuf) -> Result<Self, Failure> {
        let path = match path.canonicalize() {
            Ok(path) => path,
            Err(_) if path.is_symlink() => {
                let why = "it is a link to a file that does not exist: create that file, or remove the link";
                return Err(Failure(format!("{} cannot be written: {why}", path.display())));
            }
            Err(_) => path,
        };
        let text = read(&path)?;
        Ok(Self { path, text })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is so already.
    pub(super) fn holds(&self, text: &str) -> bool {
        self.text.as_deref() == Some(text)
    }

    /// Leaves the file to its owner alone: it holds a key.
    pub(super) fn protect(&self) -> Result<(), Failure> {
        std::fs::set_permissions(&self.path, Permissions::from_mode(0o600)).map_err(|error| {
            Failure(format!("{} cannot be protected: {error}", self.path.display()))
        })
    }

    /// The file with these members; everything else in it stays.
    pub(super) fn merged(&self, members: &Map<String, Value>) -> Result<String, Failure> {
        let text = self.text.as_deref().filter(|text| !text.trim().is_empty()).unwrap_or("{}");
        let mut all: Map<String, Value> = serde_json::from_str(text).map_err(|error| {
            self.refusal(
                &format!("is no plain JSON object ({error})"),
                &Value::from(members.clone()),
            )
        })?;
        let before = all.clone();
        merge(&mut all, members).map_err(|name| {
            let fault = format!("has a member {name} that is no object");
            self.refusal(&fault, &Value::from(members.clone()))
        })?;
        // A file that holds the settings already keeps its form.
        if let Some(text) = self.text.as_ref().filter(|_| before == all) {
            return Ok(text.clone());
        }
        let text =
            serde_json::to_string_pretty(&all).map_err(|error| Failure(error.to_string()))?;
        Ok(text + "\n")
    }

    /// The file with this text, if there is none yet: comments and all else in other formats could
    /// not be kept.
    pub(super) fn whole(&self, text: &str) -> Result<String, Failure> {
        match self.text.as_deref() {
            Some(old) if !old.trim().is_empty() && old != text => Err(Failure(format!(
                "{} exists, and is not changed, to keep its comments. Put this into it:\n\n{text}",
                self.path.display()
            ))),
            _ => Ok(text.to_owned()),
        }
    }

    fn refusal(&self, fault: &str, members: &Value) -> Failure {
        Failure(format!(
            "{} {fault}, and is not changed. Put this into it:\n\n{members:#}",
            self.path.display()
        ))
    }

    /// The lines that go and come, with signs in front.
    pub(super) fn changes(&self, new: &str) -> String {
        let old: Vec<&str> = self.text.as_deref().unwrap_or_default().lines().collect();
        let new: Vec<&str> = new.lines().collect();
        let mut shown = vec![format!("{}:", self.path.display())];
        shown.extend(difference(&old, &new));
        shown.join("\n")
    }

    /// Replaces the file as a whole, readable by its owner only.
    pub(super) fn write(&self, text: &str) -> Result<(), Failure> {
        if read(&self.path)? != self.text {
            return Err(Failure(format!(
                "{} was changed by another program meanwhile: run the command again",
                self.path.display()
            )));
        }
        self.replace(text)
            .map_err(|error| Failure(format!("{} cannot be written: {error}", self.path.display())))
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(&self.path);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let fresh = self.path.with_added_extension(format!("{}.tmp", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .and_then(|()| std::fs::rename(&fresh, &self.path))
            .inspect_err(|_| {
                // A half-written file with a key in it would stay.
                let _ = std::fs::remove_file(&fresh);
            })?;
        open::sync_folder(folder)
    }
}

fn read(path: &Path) -> Result<Option<String>, Failure> {
    let unreadable = |why: String| Failure(format!("{} cannot be read: {why}", path.display()));
    let file = match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error.to_string())),
        Ok(file) if !file.is_file() => return Err(unreadable("it is no file".to_owned())),
        Ok(_) => std::fs::File::open(path).map_err(|error| unreadable(error.to_string()))?,
    };
    let mut text = String::new();
    let read = file.take(MOST_BYTES + 1).read_to_string(&mut text);
    let bytes = read.map_err(|error| unreadable(error.to_string()))?;
    if bytes as u64 > MOST_BYTES {
        return Err(unreadable("it is larger than 1 MiB".to_owned()));
    }
    Ok(Some(text))
}

/// Puts members into an object, at every depth. Fails with the name of a member that would have to
/// be an object.
fn merge(into: &mut Map<String, Value>, members: &Map<String, Value>) -> Result<(), String> {
    for (name, value) in members {
        match (into.get_mut(name), value) {
            (Some(Value::Object(inner)), Value::Object(members)) => merge(inner, members)?,
            (Some(Value::Null) | None, _) => {
                into.insert(name.clone(), value.clone());
            }
            (Some(_), Value::Object(_)) => return Err(name.clone()),
            (Some(old), value) => old.clone_from(value),
        }
    }
    Ok(())
}

/// The lines of two texts that are not in both, in order.
fn difference(old: &[&str], new: &[&str]) -> Vec<String> {
    let same = |(one, other): &(&&str, &&str)| one == other;
    let begin = old.iter().zip(new).take_while(same).count();
    let (old, new) = (old.get(begin..).unwrap_or_default(), new.get(begin..).unwrap_or_default());
    let end = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let (old, new) = (
        old.get(..old.len() - end).unwrap_or_default(),
        new.get(..new.len() - end).unwrap_or_default(),
    );
    let gone = |line: &&str| format!("- {line}");
    let come = |line: &&str| format!("+ {line}");
    if old.len() > MOST_LINES || new.len() > MOST_LINES {
        return old.iter().map(gone).chain(new.iter().map(come)).collect();
    }
    // The longest common part of the rests of both, from every pair of lines on.
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for (row, line) in old.iter().enumerate().rev() {
        for (column, other) in new.iter().enumerate().rev() {
            common[row][column] = if line == other {
                common[row + 1][column + 1] + 1
            } else {
                common[row + 1][column].max(common[row][column + 1])
            };
        }
    }
    let (mut row, mut column, mut lines) = (0, 0, Vec::new());
    while row < old.len() || column < new.len() {
        match (old.get(row), new.get(column)) {
            (Some(line), Some(other)) if line == other => (row, column) = (row + 1, column + 1),
            (Some(line), other)
                if other.is_none() || common[row + 1][column] >= common[row][column + 1] =>
            {
                lines.push(gone(line));
                row += 1;
            }
            (_, Some(line)) => {
                lines.push(come(line));
                column += 1;
            }
            // The conditions leave no other.
            (_, None) => break,
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_shown_and_no_others() {
        let lines = |text: &'static str| -> Vec<&str> { text.split(' ').collect() };
        for (old, new, shown) in [
            ("a b c", "a b c", ""),
            ("a b c", "a x b c", "+ x"),
            ("a b c d", "a c e d", "- b,+ e"),
            ("a b", "c d", "- a,- b,+ c,+ d"),
            ("a b a b", "b a", "- a,- b"),
        ] {
            assert_eq!(difference(&lines(old), &lines(new)).join(","), shown, "{old} {new}");
        }
    }
}

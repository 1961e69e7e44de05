//! The tables that the writer writes, described once for both drivers: a table, its columns, a
//! row's values.

use std::borrow::Cow;

use domain::ids::KeyId;
use domain::step::Step;
use domain::trace::Trace;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::session_traces::{SessionHash, session_text};
use crate::writer::Start;

/// One value of a row. Missing ones keep their type, which PostgreSQL requires.
pub(crate) enum Field<'a> {
    Int(Option<i64>),
    Real(Option<f64>),
    Bool(Option<bool>),
    Text(Option<Cow<'a, str>>),
    Bytes(Cow<'a, [u8]>),
    Uuid(Uuid),
}

/// Values of the types that a row's struct may have.
macro_rules! fields {
    ($($type:ty => $field:ident: $make:expr,)*) => {
        $(impl<'a> From<$type> for Field<'a> {
            fn from(value: $type) -> Self {
                Self::$field($make(value))
            }
        })*
    };
}

fields! {
    i64 => Int: Some,
    Option<i64> => Int: std::convert::identity,
    f64 => Real: Some,
    Option<f64> => Real: std::convert::identity,
    bool => Bool: Some,
    Option<bool> => Bool: std::convert::identity,
    Cow<'a, str> => Text: Some,
    Option<Cow<'a, str>> => Text: std::convert::identity,
    Uuid => Uuid: std::convert::identity,
}

/// Declares a table's row once: the struct's fields are the columns, for the SQL, for what is written
/// and for what is read. Texts are borrowed (`Cow<str>`) when written and owned (`String`) when read.
macro_rules! row {
    (
        $(#[$meta:meta])*
        struct $Row:ident<$Text:ident> {
            $($(#[$note:meta])* $column:ident: $type:ty,)*
        }
    ) => {
        $crate::from_row::from_row! {
            $(#[$meta])*
            pub(crate) struct $Row<$Text> {
                $($(#[$note])* pub(super) $column: $type,)*
            }
        }

        impl<'a> $Row<std::borrow::Cow<'a, str>> {
            /// The names of the columns, in the order of [`Self::into_fields`].
            pub(crate) const COLUMNS: &'static [&'static str] = &[$(stringify!($column)),*];

            fn into_fields(self) -> Vec<$crate::writer::table::Field<'a>> {
                vec![$($crate::writer::table::Field::from(self.$column)),*]
            }
        }
    };
}
pub(crate) use row;

/// Something that is written as a row.
pub(crate) trait Row {
    const TABLE: &'static str;
    const COLUMNS: &'static [&'static str];
    /// The clause after the values: nothing, or the action when the row exists.
    const CONFLICT: &'static str = "";

    fn fields(&self) -> Result<Vec<Field<'_>>>;
}

/// The insert of `rows` rows, with placeholders of either driver.
pub(crate) fn insert_sql<R: Row>(rows: usize, placeholder: impl Fn(usize) -> String) -> String {
    let width = R::COLUMNS.len();
    let rows: Vec<String> = (0..rows)
        .map(|row| {
            let row: Vec<String> =
                (1..=width).map(|column| placeholder(row * width + column)).collect();
            format!("({})", row.join(", "))
        })
        .collect();
    let columns = R::COLUMNS.join(", ");
    format!("INSERT INTO {} ({columns}) VALUES {}{}", R::TABLE, rows.join(", "), R::CONFLICT)
}

/// A trace, and the session whose calls it takes.
#[derive(Debug)]
pub(crate) struct NewTrace {
    pub(crate) trace: Trace,
    pub(crate) session: Option<SessionHash>,
}

impl Row for NewTrace {
    const TABLE: &'static str = "traces";
    const COLUMNS: &'static [&'static str] = &[
        "id",
        "project_id",
        "key_id",
        "status",
        "created_at",
        "metadata",
        "revenue",
        "session",
        "active_at",
    ];

    fn fields(&self) -> Result<Vec<Field<'_>>> {
        let Self { trace, session } = self;
        Ok(vec![
            trace.id.0.into(),
            trace.project.0.into(),
            Field::Int(trace.key.map(KeyId::to_i64)),
            Cow::Borrowed(trace.status.as_str()).into(),
            trace.created_at.0.into(),
            Field::Text(trace.metadata.as_ref().map(|metadata| metadata.to_string().into())),
            Field::Int(trace.revenue.map(|revenue| revenue.0)),
            Field::Text(session.map(|session| session_text(session).into())),
            Field::Int(session.map(|_| trace.created_at.0)),
        ])
    }
}

/// A start and the node that made it.
pub(crate) struct OpenCall<'a>(pub(crate) &'a Start, pub(crate) i64);

impl Row for OpenCall<'_> {
    const TABLE: &'static str = "open_calls";
    const COLUMNS: &'static [&'static str] = &["step_id", "node", "started_at", "call"];

    fn fields(&self) -> Result<Vec<Field<'_>>> {
        let call =
            serde_json::to_string(self.0).map_err(|error| Error::Corrupt(error.to_string()))?;
        Ok(vec![
            self.0.step.0.into(),
            self.1.into(),
            self.0.started_at.into(),
            Field::Text(Some(call.into())),
        ])
    }
}

/// A step's sealed content.
pub(crate) struct SealedContent<'a>(pub(crate) &'a Step, pub(crate) &'a [u8]);

impl Row for SealedContent<'_> {
    const TABLE: &'static str = "step_contents";
    const COLUMNS: &'static [&'static str] = &["step_id", "project_id", "sealed"];

    fn fields(&self) -> Result<Vec<Field<'_>>> {
        Ok(vec![self.0.id.0.into(), self.0.project.0.into(), Field::Bytes(self.1.into())])
    }
}

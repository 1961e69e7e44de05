//! Structs that are read from the rows of an answer.

/// Declares a struct and reads it from a row: each field from the column of its name.
///
/// `sqlx` can derive this, but its macros bring all of `sqlx` once more for the compiler, with an SQLite
/// and a TLS library of their own.
macro_rules! from_row {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Row:ident$(<$Param:ident>)? {
            $($(#[$note:meta])* $field_vis:vis $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $Row$(<$Param>)? {
            $($(#[$note])* $field_vis $field: $type,)*
        }

        impl<'r, R: sqlx::Row, $($Param)?> sqlx::FromRow<'r, R> for $Row$(<$Param>)?
        where
            &'r str: sqlx::ColumnIndex<R>,
            $($type: sqlx::Decode<'r, R::Database> + sqlx::Type<R::Database>,)*
        {
            fn from_row(row: &'r R) -> sqlx::Result<Self> {
                Ok(Self { $($field: row.try_get(stringify!($field))?,)* })
            }
        }
    };
}
pub(crate) use from_row;

//! Steps as Parquet: a column for each field, and nothing nested. Values that are JSON are texts.
//!
//! Rows are kept by column until they are enough for a row group, which bounds the memory.

use std::borrow::Cow;
use std::sync::Arc;

use domain::grade::Grade;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use serde::Serialize;

use crate::Result;
use crate::record::Line;

/// The most bytes of memory that the rows of a row group take until it is written; one row may take more.
/// Writing it takes about as much again.
const GROUP_BYTES: usize = 8 * 1024 * 1024;
/// The memory of a text beside its characters: its place in the column, and what allocating it costs.
const TEXT_BYTES: usize = size_of::<ByteArray>() + 16;

/// A column: its name, the type of its values, and its value in a row.
struct Column {
    name: &'static str,
    kind: Kind,
    value: for<'a> fn(&'a Line<'_>) -> Option<Value<'a>>,
}

/// The type of the values of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integer,
    /// Microseconds since 1970, UTC.
    Time,
    Real,
    Flag,
    Text,
}

enum Value<'a> {
    Integer(i64),
    Real(f64),
    Flag(bool),
    Text(Cow<'a, str>),
}

macro_rules! values {
    ($($type:ty => $variant:ident: $make:expr,)*) => {
        $(impl<'a> From<$type> for Value<'a> {
            fn from(value: $type) -> Self {
                Self::$variant($make(value))
            }
        })*
    };
}

values! {
    i64 => Integer: std::convert::identity,
    u64 => Integer: |count| i64::try_from(count).unwrap_or(i64::MAX),
    f64 => Real: std::convert::identity,
    bool => Flag: std::convert::identity,
    &'a str => Text: Cow::Borrowed,
    String => Text: Cow::Owned,
}

/// A value as the text of its JSON. One that has none is left out.
fn json<'a>(value: impl Serialize) -> Option<Value<'a>> {
    serde_json::to_string(&value).ok().map(Value::from)
}

/// Declares the columns: name, type, and value by the line.
macro_rules! columns {
    ($($name:literal: $kind:ident = |$line:ident| $value:expr,)*) => {
        &[$(Column {
            name: $name,
            kind: Kind::$kind,
            value: |$line| ($value).map(Into::into),
        }),*]
    };
}

const COLUMNS: &[Column] = columns! {
    "id": Integer = |line| Some(line.id),
    "type": Text = |line| line.r#type,
    "project_id": Integer = |line| Some(line.project_id),
    "trace_id": Text = |line| line.trace_id.map(|trace| trace.to_string()),
    "trace_status": Text = |line| line.trace_status,
    "optimization_grade": Text = |line| line.optimization_grade.map(Grade::as_str),
    "parent_step_id": Integer = |line| line.parent_step_id,
    "source_step_id": Integer = |line| line.source_step_id,
    "key_id": Text = |line| line.key_id.map(|key| key.to_string()),
    "api_endpoint": Text = |line| line.api_endpoint,
    "model": Text = |line| line.model,
    "provider": Text = |line| line.provider,
    "infrastructure": Text = |line| line.infrastructure,
    "tier": Text = |line| line.tier,
    "input": Text = |line| line.input.map(serde_json::value::RawValue::get),
    "output": Text = |line| line.output.as_ref().and_then(json),
    "passed": Text = |line| line.passed.map(serde_json::value::RawValue::get),
    "content_error": Text = |line| line.content_error,
    "step_error": Text = |line| line.step_error,
    "status": Text = |line| line.status,
    "reason": Text = |line| line.reason,
    "error": Text = |line| line.error,
    "latency_ms": Real = |line| line.latency_ms,
    "cost_nanousd": Integer = |line| line.cost.map(|cost| cost.0),
    "cost_estimated": Flag = |line| line.cost.map(|_| line.cost_estimated.unwrap_or_default()),
    "prompt_tokens": Integer = |line| line.prompt_tokens,
    "completion_tokens": Integer = |line| line.completion_tokens,
    "cached_tokens": Integer = |line| line.cached_tokens,
    "cache_write_tokens": Integer = |line| line.cache_write_tokens,
    "cache_write_1h_tokens": Integer = |line| line.cache_write_1h_tokens,
    "reasoning_tokens": Integer = |line| line.reasoning_tokens,
    "finish_reason": Text = |line| line.finish_reason,
    "time_to_first_token_ms": Real = |line| line.time_to_first_token_ms,
    "shadow": Flag = |line| line.cost.map(|_| line.shadow.unwrap_or_default()),
    "similarity": Real = |line| line.similarity,
    "user_rating": Real = |line| line.user_rating,
    "user": Text = |line| line.user,
    "session": Text = |line| line.session,
    "tags": Text = |line| line.tags.and_then(json),
    "trace_context": Text = |line| line.trace_context.as_ref().and_then(json),
    "pii_detected": Flag = |line| line.security.as_ref().map(|security| security.pii_detected),
    "injection_attempt": Flag = |line| line.security.as_ref().map(|security| security.injection_attempt),
    "secret_leaked": Flag = |line| line.security.as_ref().map(|security| security.secret_leaked),
    "risk_score": Real = |line| line.security.as_ref().map(|security| security.risk_score),
    "review": Flag = |line| line.security.as_ref().map(|security| security.review),
    "findings": Text = |line| line.security.as_ref().and_then(|security| security.findings).and_then(json),
    "started_at": Time = |line| line.started_at.map(|at| at.0),
    "created_at": Time = |line| Some(line.created_at.0),
};

/// The rows of a column that are not in a row group yet.
#[derive(Debug, Default)]
struct Pending {
    /// 1 for a row with a value, 0 for one without: the definition levels of Parquet.
    levels: Vec<i16>,
    integers: Vec<i64>,
    reals: Vec<f64>,
    flags: Vec<bool>,
    texts: Vec<ByteArray>,
}

impl Pending {
    /// Adds the value of a row. Returns the memory that it takes.
    fn push(&mut self, value: Option<Value<'_>>) -> usize {
        self.levels.push(i16::from(value.is_some()));
        let bytes = match value {
            None => 0,
            Some(Value::Integer(integer)) => {
                self.integers.push(integer);
                size_of::<i64>()
            }
            Some(Value::Real(real)) => {
                self.reals.push(real);
                size_of::<f64>()
            }
            Some(Value::Flag(flag)) => {
                self.flags.push(flag);
                size_of::<bool>()
            }
            Some(Value::Text(text)) => {
                self.texts.push(ByteArray::from(text.as_bytes()));
                TEXT_BYTES + text.len()
            }
        };
        size_of::<i16>() + bytes
    }
}

/// A Parquet file that is being written.
#[derive(Debug)]
pub(crate) struct ParquetFile {
    writer: Writer,
    pending: Vec<Pending>,
    /// The memory that they take.
    bytes: usize,
}

/// The library's writer, which cannot be printed.
struct Writer(SerializedFileWriter<Vec<u8>>);

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Writer")
    }
}

impl ParquetFile {
    pub(crate) fn new() -> Result<Self> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(concat!("sluice ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = SerializedFileWriter::new(Vec::new(), schema()?, Arc::new(properties))?;
        let pending = COLUMNS.iter().map(|_| Pending::default()).collect();
        Ok(Self { writer: Writer(writer), pending, bytes: 0 })
    }

    pub(crate) fn write(&mut self, line: &Line<'_>) -> Result<()> {
        for (column, pending) in COLUMNS.iter().zip(&mut self.pending) {
            self.bytes += pending.push((column.value)(line));
        }
        if self.bytes >= GROUP_BYTES {
            self.end_group()?;
        }
        Ok(())
    }

    /// Writes the rows that are pending as a row group.
    fn end_group(&mut self) -> Result<()> {
        if self.bytes == 0 {
            return Ok(());
        }
        let mut group = self.writer.0.next_row_group()?;
        for (column, pending) in COLUMNS.iter().zip(&mut self.pending) {
            let Pending { levels, integers, reals, flags, texts } = std::mem::take(pending);
            match column.kind {
                Kind::Integer | Kind::Time => write::<Int64Type>(&mut group, &integers, &levels)?,
                Kind::Real => write::<DoubleType>(&mut group, &reals, &levels)?,
                Kind::Flag => write::<BoolType>(&mut group, &flags, &levels)?,
                Kind::Text => write::<ByteArrayType>(&mut group, &texts, &levels)?,
            }
        }
        group.close()?;
        self.bytes = 0;
        Ok(())
    }

    pub(crate) fn ready(&self) -> usize {
        self.writer.0.inner().len()
    }

    /// Takes the bytes that are written. The writer counts them, so that the places it notes stay right.
    pub(crate) fn take(&mut self) -> Result<Vec<u8>> {
        self.writer.0.flush()?;
        Ok(std::mem::take(self.writer.0.inner_mut()))
    }

    pub(crate) fn finish(mut self) -> Result<Vec<u8>> {
        self.end_group()?;
        Ok(self.writer.0.into_inner()?)
    }
}

/// Writes the next column of a row group.
fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, Vec<u8>>,
    values: &[T::T],
    levels: &[i16],
) -> Result<()> {
    if let Some(mut column) = group.next_column()? {
        column.typed::<T>().write_batch(values, Some(levels), None)?;
        column.close()?;
    }
    Ok(())
}

fn schema() -> Result<TypePtr> {
    let columns = COLUMNS.iter().map(|column| {
        let (physical, logical) = match column.kind {
            Kind::Integer => (PhysicalType::INT64, None),
            Kind::Time => {
                (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::MICROS)))
            }
            Kind::Real => (PhysicalType::DOUBLE, None),
            Kind::Flag => (PhysicalType::BOOLEAN, None),
            Kind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let column = Type::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical);
        Ok(Arc::new(column.build()?))
    });
    let columns = columns.collect::<Result<_>>()?;
    Ok(Arc::new(Type::group_type_builder("step").with_fields(columns).build()?))
}

//! The replies of the functions, read.

use domain::money::Usd;
use redis::Value;

use crate::Failure;

/// A reply that no function of this library gives.
pub(crate) fn strange(reply: &Value) -> Failure {
    let kind = match reply {
        Value::Nil => "nothing",
        Value::Int(_) => "a number",
        Value::Array(_) => "a list",
        _ => "a text",
    };
    Failure::Away(format!("its answer makes no sense ({kind})"))
}

/// The parts of a list.
pub(crate) fn list(reply: Value) -> Result<Vec<Value>, Failure> {
    match reply {
        Value::Array(parts) | Value::Set(parts) => Ok(parts),
        other => Err(strange(&other)),
    }
}

/// A text.
pub(crate) fn text(part: &Value) -> Result<&str, Failure> {
    match part {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).map_err(|_| strange(part)),
        Value::SimpleString(text) => Ok(text),
        _ => Err(strange(part)),
    }
}

/// A whole number, as a number or as a text.
pub(crate) fn number(part: &Value) -> Result<i64, Failure> {
    match part {
        Value::Int(number) => Ok(*number),
        other => text(other)?.parse().map_err(|_| strange(other)),
    }
}

/// A part of a list by its place.
pub(crate) fn at(parts: &[Value], place: usize) -> Result<&Value, Failure> {
    parts.get(place).ok_or_else(|| Failure::Away("its answer is too short".to_owned()))
}

/// An amount of money.
pub(crate) fn money(parts: &[Value], place: usize) -> Result<Usd, Failure> {
    number(at(parts, place)?).map(Usd)
}

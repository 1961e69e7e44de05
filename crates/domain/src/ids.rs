//! Identifiers. Each is its own type, so that one cannot be passed for another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::time::Timestamp;

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub i64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = std::num::ParseIntError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                // `parse` would take a sign.
                text.strip_prefix('+').map_or(text, |_| "").parse().map(Self)
            }
        }
    };
}

number_id!(
    /// An organization: the owner of projects, users and audit events.
    OrgId
);
number_id!(
    /// A person who signs in.
    UserId
);
number_id!(
    /// A provider of single sign-on.
    SignOnProviderId
);
number_id!(
    /// A project: the border between tenants on the data plane.
    ProjectId
);
number_id!(
    /// A model definition in a project's registry.
    ModelId
);
number_id!(
    /// A step. Unique over all nodes, below 2^53.
    StepId
);
number_id!(
    /// An insight of a project.
    InsightId
);
number_id!(
    /// One run of the gateway process; its ledger rows are its own.
    NodeId
);

/// A trace. Version 7, so that ids sort by the time they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TraceId(pub Uuid);

impl TraceId {
    /// The least id that a trace opened at this time, or later, can have: ids of version 7 begin
    /// with 48 bits of Unix milliseconds (RFC 9562, section 5.7).
    pub fn first_at(at: Timestamp) -> Self {
        let millis = (at.0.max(0) / 1000).cast_unsigned();
        Self(Uuid::from_u128(u128::from(millis) << 80))
    }

    /// The millisecond in which the trace was opened.
    pub fn opened_at(self) -> Timestamp {
        let millis = (self.0.as_u128() >> 80) as i64;
        Timestamp(millis * 1000)
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for TraceId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(Self)
    }
}

/// A job: work that goes on after the request that has asked for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(pub Uuid);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for JobId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::try_parse(text).map(Self)
    }
}

macro_rules! credential_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $Fault:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// The bits of the id as a database's signed integer.
            pub fn to_i64(self) -> i64 {
                self.0.cast_signed()
            }

            /// From a database's signed integer.
            pub fn from_i64(bits: i64) -> Self {
                Self(bits.cast_unsigned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{:016x}"), self.0)
            }
        }

        #[doc = concat!("A text that is no `", $prefix, "<hex>`.")]
        #[derive(Debug, thiserror::Error)]
        #[error($what)]
        pub struct $Fault;

        impl FromStr for $name {
            type Err = $Fault;

            fn from_str(text: &str) -> Result<Self, $Fault> {
                let hex = text.strip_prefix($prefix).ok_or($Fault)?;
                // `from_str_radix` would take a sign.
                if hex.is_empty() || hex.len() > 16 || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return Err($Fault);
                }
                u64::from_str_radix(hex, 16).map(Self).map_err(|_| $Fault)
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

credential_id!(
    /// The public part of an API key: 64 random bits, written `ak_` and 16 hex digits.
    KeyId,
    "ak_",
    NotAKeyId,
    "not a key id: it has the form ak_<16 hex digits>"
);
credential_id!(
    /// The public part of a service token: 64 random bits, written `st_` and 16 hex digits.
    ServiceTokenId,
    "st_",
    NotAServiceTokenId,
    "not the id of a service token: it has the form st_<16 hex digits>"
);

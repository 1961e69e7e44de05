//! Connections to providers, and the rules and limits that they are under.

pub(crate) mod connect;
pub(crate) mod egress;
pub(crate) mod endpoint;
pub(crate) mod failure;
pub(crate) mod http1;
pub(crate) mod pool;
pub(crate) mod receive;
pub(crate) mod tls;

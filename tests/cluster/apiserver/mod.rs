//! The embedded API server from outside: over HTTP, and with kubectl where there is one.
//!
//! Must not: ask what a real server could be asked as well; that is a case in `tests/conformance_api`, beside the
//! real server's answer.

mod apply;
mod http;
mod kubectl;

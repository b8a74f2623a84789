//! Tests the embedded API server from outside: over HTTP, and with kubectl if it is installed.
//!
//! Must not: test requests that a real server could answer as well. Those are cases in `tests/conformance_api`, beside
//! the real server's responses.

mod apply;
mod http;
mod kubectl;

//! Names the Kubernetes release that the server imitates.
//!
//! Responsible for: the version, and the document at `/version`. Must not: return lakh's own version.

use serde_json::{Value, json};

/// The Kubernetes release that the server imitates.
pub(crate) const VERSION: &str = "v1.36.2";

/// The document at `/version`.
pub(super) fn document() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-06-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

//! Prints stage files as objects for kwok.
//!
//! Responsible for: printing them. Must not: know their content (`lakh::embedded::kubelet::stages`).

use std::path::PathBuf;

use lakh::embedded::{
    kubelet::stages::kwok_stages,
    manifest::{ManifestError, load_stages, print},
};

#[derive(Debug, clap::Args)]
pub(crate) struct StagesArgs {
    /// Stage files, in order.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Seed of the random numbers for stages, as for hollow nodes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Returns the objects as YAML.
pub(crate) fn render(args: &StagesArgs) -> Result<String, ManifestError> {
    Ok(print(&kwok_stages(&load_stages(&args.files)?, args.seed)))
}

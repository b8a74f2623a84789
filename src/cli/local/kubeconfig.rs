//! The kubeconfig file of `lakh local`.
//!
//! Responsible for: where the file is, and removing it at the end. Must not: know what is in it.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use crate::embedded::EmbeddedCluster;

use super::{super::Problem, args::LocalArgs};
use crate::cli::say;

/// The file by which other programs find the cluster. It is removed at the end unless the user named it.
pub(super) struct Kubeconfig {
    path: PathBuf,
    keep: bool,
}

impl Kubeconfig {
    /// Writes the file. Jobs of manifests run without one where the directory for temporary files cannot be written; a
    /// cluster that only serves needs one.
    pub(super) fn write(
        args: &LocalArgs,
        cluster: &EmbeddedCluster,
    ) -> Result<Option<Self>, Problem> {
        let keep = args.kubeconfig_out.is_some();
        let path = args.kubeconfig_out.clone().unwrap_or_else(|| {
            let url = cluster.url();
            let port = url.rsplit(':').next().unwrap_or_default();
            env::temp_dir().join(format!("lakh-{port}.kubeconfig"))
        });
        let Err(error) = cluster.write_kubeconfig(&path) else {
            return Ok(Some(Self { path, keep }));
        };
        if keep {
            return Err(format!("--kubeconfig-out {}: {error}", path.display()).into());
        }
        let problem = unwritten(&path, &error);
        if args.filenames.is_empty() {
            return Err(format!("{problem}; --kubeconfig-out PATH writes it elsewhere").into());
        }
        say(&format!(
            "Warning: {problem}; the Jobs run, but kubectl cannot look at them"
        ));
        Ok(None)
    }

    /// The file's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Kubeconfig {
    fn drop(&mut self) {
        if !self.keep {
            // It leads nowhere any more; that it cannot be removed hurts nobody.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn unwritten(path: &Path, error: &io::Error) -> String {
    format!("no kubeconfig was written to {}: {error}", path.display())
}

//! Writes the kubeconfig file of `lakh local`.
//!
//! Responsible for: choosing its path, and removing it at the end. Must not: know its content.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use crate::embedded::EmbeddedCluster;

use super::{super::Problem, args::LocalArgs};
use crate::cli::say;

/// The file that points other programs to the cluster. It is removed at the end unless the user named it.
pub(super) struct Kubeconfig {
    path: PathBuf,
    keep: bool,
}

impl Kubeconfig {
    /// Writes the file. If the directory for temporary files is not writable, Jobs of manifests run without one; a
    /// cluster that only serves needs it.
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
            return Err(
                format!("{problem}; choose another path with --kubeconfig-out PATH").into(),
            );
        }
        say(&format!(
            "Warning: {problem}; the Jobs run, but kubectl cannot connect to the cluster"
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
            // The cluster is gone; a file that cannot be removed does no harm.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn unwritten(path: &Path, error: &io::Error) -> String {
    format!(
        "could not write the kubeconfig to {}: {error}",
        path.display()
    )
}

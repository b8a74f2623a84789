//! `lakh completion` and `lakh man`: describes the command line to shells, man(1) and docs/commands.md.
//!
//! Must not: know single commands or flags.

use std::{fs, path::Path};

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use lakh_inspect::put;

use super::{OK, Problem, args::Args};

/// Prints a shell's script that completes commands and flags.
pub(super) fn complete(shell: Shell) -> Result<u8, Problem> {
    put(&script(shell))?;
    Ok(OK)
}

fn script(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    generate(shell, &mut Args::command(), "lakh", &mut script);
    script
}

/// Writes a manual page for each command into a folder, which is created if it is missing.
pub(super) fn write_pages(folder: &Path) -> Result<u8, Problem> {
    let written =
        fs::create_dir_all(folder).and_then(|()| clap_mangen::generate_to(Args::command(), folder));
    match written {
        Ok(()) => Ok(OK),
        Err(error) => Err(format!("{}: {error}", folder.display()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_completion_script_has_flags() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            let script = String::from_utf8(script(shell)).expect("it is text");
            assert!(script.contains("leader-elect-lease-duration"), "{shell}");
        }
    }

    #[test]
    fn each_command_has_a_page() {
        let folder = tempfile::tempdir().expect("a folder");
        let pages = folder.path().join("man");
        write_pages(&pages).expect("they are written");
        let page = fs::read_to_string(pages.join("lakh-controller.1")).expect("it is there");
        assert!(page.contains("\\-\\-kubeconfig"), "{page}");
        let file = folder.path().join("file");
        fs::write(&file, "").expect("a file");
        let error = write_pages(&file).expect_err("it is no folder");
        assert!(error.to_string().contains("file"), "{error}");
    }

    /// docs/commands.md is generated from the command line. `UPDATE_GOLDEN=1` writes it.
    #[cfg(feature = "embedded")]
    #[test]
    fn the_reference_is_of_this_command_line() {
        let options = clap_markdown::MarkdownOptions::new()
            .title("Commands and flags".to_owned())
            .show_footer(false);
        let text = clap_markdown::help_markdown_custom::<Args>(&options);
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &text).expect("it can be written");
        }
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(written == text, "docs/commands.md is old: just golden");
    }
}

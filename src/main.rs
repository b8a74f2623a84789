//! The binary: hands over to the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    lakh::cli::main()
}

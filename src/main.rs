//! Starts the command line.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// The system's allocator takes ever longer to find free memory between an embedded server's objects.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    lakh::cli::main()
}

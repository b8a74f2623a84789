//! A loop that goes wrong, for tests of what becomes of the process then. Only builds for unit tests have it.

use std::{future::pending, time::Duration};

use super::tasks::Tasks;

/// The environment variable that says how it goes wrong.
pub(crate) const VARIABLE: &str = "LAKH_POISON";

/// Starts it, if it is asked for.
pub(super) fn spawn(tasks: &mut Tasks) {
    match std::env::var(VARIABLE).as_deref() {
        Ok("panics") => tasks.spawn("poisoned loop", async {
            // As a loop that has worked for a while.
            tokio::time::sleep(Duration::from_millis(100)).await;
            panic!("it was poisoned");
        }),
        Ok("ends") => tasks.spawn("poisoned loop", async {}),
        Ok("is stuck") => tasks.spawn("poisoned loop", async {
            std::thread::sleep(Duration::MAX);
            pending::<()>().await;
        }),
        _ => {}
    }
}

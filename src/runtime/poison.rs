//! Injects a failing loop, to test how the process reacts. Only builds for unit tests have it.

use std::{future::pending, time::Duration};

use super::tasks::Tasks;

/// The environment variable that selects the failure.
pub(crate) const VARIABLE: &str = "LAKH_POISON";

/// Starts the failing loop, if one is selected.
pub(super) fn spawn(tasks: &mut Tasks) {
    match std::env::var(VARIABLE).as_deref() {
        Ok("panics") => tasks.spawn("poisoned loop", async {
            // Like a loop that has worked for a while.
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

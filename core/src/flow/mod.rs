//! Flow: who is next, how much at once, and how long to wait for more.
//!
//! - [`WorkQueue`]: which key is synced next (client-go's `workqueue`).
//! - [`SyncRate`]: how many syncs there are, so that each hears of several things.
//! - [`FairQueue`]: which write goes next.
//! - [`in_flight`]: how many writes may be in flight. What a busy server refuses and how long its answers take are two
//!   inputs of one state.
//! - [`coalescing_delay`]: how long to let answers gather.
//! - [`QuotaWaits`]: how soon a Job that a quota holds up tries again.
//!
//! The limit on calls a second, which threads share, is not here: it needs an atomic (`rate_limiter` of `lakh`).
//!
//! Must not: know what the work is, sleep, or read a clock.

mod coalescing;
mod fair_queue;
mod in_flight;
mod quota;
mod sync_rate;
mod work_queue;

pub use coalescing::coalescing_delay;
pub use fair_queue::{BATCH, FairQueue, Rank, WriteAnswer};
pub use quota::QuotaWaits;
pub use sync_rate::SyncRate;
pub use work_queue::WorkQueue;

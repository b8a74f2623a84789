//! Decides the order of work, its concurrency, and how long to batch.
//!
//! - [`WorkQueue`]: chooses the next key to sync (client-go's `workqueue`).
//! - [`SyncRate`]: limits the rate of syncs, so each handles several events.
//! - [`FairQueue`]: chooses the next write.
//! - [`in_flight`]: limits the writes in flight. The refusals of a busy server and the latency of its responses are two
//!   inputs of one state.
//! - [`coalescing_delay`]: sets how long to gather responses.
//! - [`QuotaWaits`]: schedules the retries of Jobs over their quota.
//!
//! The limit on requests per second is shared by threads and needs an atomic, so it is not here (`rate_limiter` of
//! `lakh`).
//!
//! Must not: know the content of the work, sleep, or read a clock.

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

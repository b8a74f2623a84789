//! Tests the kubelet with data: each case is a script and the writes it causes, as short lines.
//!
//! Responsible for: the cases, by rule. The harness that plays them is `stage`.

mod capacity;
mod chaos;
mod inits;
mod kwok;
mod life;
mod output;
mod stage;
mod stages;
mod statuses;
mod writes;

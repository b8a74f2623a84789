//! Tests of the kubelet as data: a script goes in, the writes come out as short lines.
//!
//! Responsible for: the cases, by rule. The stage they play on is in `stage`.

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

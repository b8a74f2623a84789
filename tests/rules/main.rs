//! Tests without a cluster. They run the state machines against the rules, with tables of cases and random histories,
//! and check the source code.
//!
//! Nothing here opens a socket or waits. The tables are in `tests/golden`, the rules in `docs/rules`. The target needs
//! the feature `embedded`.

mod common;

mod architecture;
mod citations;
mod cron_golden;
mod documents;
mod exhaustive;
mod fuzz_corpus;
mod golden;
mod log_lines;
mod pod_gc_golden;
mod properties;
mod rows;
mod ttl_golden;
mod type_names;

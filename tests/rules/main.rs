//! Tests without a cluster: the machines against the rules, as tables of cases and as random histories,
//! and what the source code itself must keep to.
//!
//! Nothing here opens a socket or waits. The tables are in `tests/golden`, the rules in
//! `docs/rules`. All but what needs the embedded cluster's machines builds without features.

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

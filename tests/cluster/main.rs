//! Tests from end to end: the embedded cluster over HTTP, with a controller in this process or as the
//! process that people start; and, where they are asked for, a real cluster and the Python client.
//!
//! A file here has the tests of one thing that users see. Each test brings a cluster, ports and folders
//! of its own, for others run beside it: nothing may be process-wide, and nothing may take it for granted
//! that the machine is idle. `support` has what they share.

mod real;
mod support;

mod access;
mod apiserver;
mod broken_watch;
mod busy_server;
mod capacity;
mod concurrent_syncs;
mod connections;
mod contest;
mod credentials;
mod cron;
mod cron_edges;
mod cron_jobs;
mod debug_jobs;
mod deletion;
mod deploy;
mod doctor;
mod faults;
mod forbidden;
mod gang;
mod guides;
mod index_record;
mod killed;
mod kubeconfigs;
mod kubectl;
mod life;
mod limits;
mod local;
mod local_manifests;
mod main_job;
mod many_jobs;
mod metrics;
mod modes;
mod monitoring;
mod neighbours;
mod outage;
mod output;
mod ownership;
mod pod_gc;
mod policies;
mod private_files;
mod probes;
mod python_client;
mod replicas;
mod restored;
mod rights;
mod secrets;
mod shards;
mod sharing;
mod stages;
mod state;
mod status;
mod stopping;
mod strangers;
mod third_parties;
mod tls;
mod top;
mod ttl;
mod ui;
mod ui_tokens;
mod unready;
mod verdicts;
mod walls;

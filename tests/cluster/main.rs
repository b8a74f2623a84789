//! Tests lakh end to end: the embedded cluster over HTTP, with a controller in this process or as the process that
//! users start. On request, also a real cluster and the Python client.
//!
//! Each file tests one user-visible feature. Tests run in parallel, so each has its own cluster, ports and folders. A
//! test must not change process-wide state or rely on an idle machine. `support` has the shared helpers.

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
mod third_parties;
mod tls;
mod top;
mod ttl;
mod ui;
mod ui_tokens;
mod unready;
mod untrusted_clients;
mod verdicts;
mod walls;

//! Puts the controller together, starts it and stops it.

use std::{future::pending, io, iter::repeat_n, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    clock::Clock,
    cluster::Client,
    model::Limits,
    ownership::Mode,
    wire::{ErrorKind, PodDecoder},
};

use super::{
    chores::Chores,
    controllers::Controllers,
    cron_jobs::{self, CronJobs},
    events::Recorder,
    gang::{GangError, GangKind, Gangs},
    health::Health,
    informer::{Informer, RETRY, Synced},
    intake::{Intake, Watched},
    lull::Lull,
    metrics::Metrics,
    ownership::Ownership,
    probes::Probes,
    scheduler::{Schedule, Worker},
    store::Store,
    tasks::{Name, TaskEnded, Tasks},
    throttle::{Rate, Throttle},
    ttl::{self, Ttl},
    write_queue::WriteQueue,
    writer::Writer,
};

/// How long writes under way may take to finish when the controller stops.
const STOP_PATIENCE: Duration = Duration::from_secs(3);

/// What may be set.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which controllers are at work.
    pub controllers: Controllers,
    /// Which Jobs to work on.
    pub mode: Mode,
    /// The numbers of the Job rules.
    pub limits: Limits,
    /// Feature gate WorkloadWithJob: whether Jobs that need all their Pods at once get a Workload and
    /// a PodGroup.
    pub workload_with_job: bool,
    /// How many calls may be made, of all kinds but watches.
    pub rate: Rate,
    /// How many writes may be under way at once.
    pub max_in_flight: usize,
    /// How many Jobs may have their turn at once.
    pub concurrent_job_syncs: usize,
    /// How many CronJobs may have their turn at once.
    pub concurrent_cron_job_syncs: usize,
    /// How many finished Jobs may be looked at at once, to be deleted.
    pub concurrent_ttl_syncs: usize,
    /// The namespaces to work in; none for all.
    pub namespaces: Vec<String>,
    /// Where to answer probes, if anywhere.
    pub listen: Option<SocketAddr>,
    /// Where to say how long the thread may rest, if there is only one.
    pub lull: Lull,
    /// What time it is.
    pub clock: Clock,
}

/// What the command line takes, too, where nothing is said.
impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: Controllers::default(),
            mode: Mode::default(),
            limits: Limits::default(),
            workload_with_job: false,
            rate: Rate { qps: 0, burst: 0 },
            max_in_flight: 96,
            concurrent_job_syncs: 2,
            concurrent_cron_job_syncs: 5,
            concurrent_ttl_syncs: 5,
            namespaces: Vec::new(),
            listen: None,
            lull: Lull::default(),
            clock: Clock::default(),
        }
    }
}

/// The controller cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port for probes cannot be opened.
    #[error("--listen {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The server cannot do what a feature gate asks for.
    #[error("--feature-gates WorkloadWithJob=true: {0}")]
    Gangs(#[from] GangError),
}

/// A controller at work. Dropped, it stops at once; see [`Controller::stop`].
#[derive(Debug)]
pub struct Controller {
    tasks: Tasks,
    writers: Tasks,
    stop: watch::Sender<bool>,
    ready: watch::Receiver<bool>,
    queue: Arc<WriteQueue>,
    recorder: Arc<Recorder>,
    metrics: Arc<Metrics>,
    probes: Option<Probes>,
}

impl Controller {
    /// Starts to work on a cluster. It is at once at work, and ready once it knows all there is; a server
    /// that does not answer is waited for.
    pub async fn start(client: Client, options: Options) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::new());
        let health = Arc::new(Health::new(client.clone()));
        let probes = options.listen.map(|address| {
            let probes = Probes::start(address, Arc::clone(&health), Arc::clone(&metrics));
            probes.map_err(|source| StartError::Listen { address, source })
        });
        let probes = probes.transpose()?;
        let gangs = match options.workload_with_job {
            true => Some(Arc::new(discover_gangs(&client).await?)),
            false => None,
        };
        let parts = Parts::new(client, &options, gangs, &metrics);
        let (ready, is_ready) = watch::channel(false);
        let (stop, stopping) = watch::channel(false);
        let mut controller = Self {
            tasks: Tasks::new(health.pulses()),
            writers: Tasks::new(health.pulses()),
            stop,
            ready: is_ready.clone(),
            queue: Arc::clone(&parts.writes),
            recorder: Arc::clone(&parts.recorder),
            metrics: Arc::clone(&metrics),
            probes,
        };
        let tasks = &mut controller.tasks;
        tasks.spawn_heart();
        let synced = parts.spawn_informers(&options.namespaces, tasks);
        health.set_caches(synced.clone());
        tasks.spawn("filling of caches", signal_when_synced(synced, ready));
        let writer = parts.writer(stopping);
        let own_chores = Chores {
            writer: writer.clone(),
            ownership: Arc::clone(&parts.ownership),
            clock: options.clock.clone(),
        };
        tasks.spawn("chores", own_chores.run(is_ready.clone()));
        for _ in 0..options.max_in_flight.max(1) {
            controller.writers.spawn("writer", writer.clone().run());
        }
        if let Some(cron_jobs) = &parts.cron_jobs {
            let resync = Arc::clone(cron_jobs).resync();
            controller.tasks.spawn("resync of CronJobs", resync);
        }
        let count = options.concurrent_cron_job_syncs.max(1);
        for cron_jobs in parts.cron_jobs.iter().flat_map(|it| repeat_n(it, count)) {
            let worker = Arc::clone(cron_jobs).run(writer.clone(), is_ready.clone());
            controller.tasks.spawn("worker of CronJobs", worker);
        }
        let count = options.concurrent_ttl_syncs.max(1);
        for ttl in parts.ttl.iter().flat_map(|it| repeat_n(it, count)) {
            let worker = Arc::clone(ttl).run(writer.clone(), is_ready.clone());
            controller.tasks.spawn("worker of TTLs", worker);
        }
        let worker = parts.worker(options.limits);
        for _ in 0..options.concurrent_job_syncs.max(1) {
            let (worker, mut ready) = (worker.clone(), is_ready.clone());
            controller.tasks.spawn("worker of Jobs", async move {
                if ready.wait_for(|ready| *ready).await.is_ok() {
                    worker.run().await;
                }
            });
        }
        let (recorder, client, throttle) = (parts.recorder, parts.client, parts.throttle);
        controller.tasks.spawn("recorder of Events", async move {
            recorder.run(client, throttle).await;
        });
        #[cfg(test)]
        super::poison::spawn(&mut controller.tasks);
        Ok(controller)
    }

    /// Waits until the caches are filled.
    pub fn ready(&self) -> impl Future<Output = ()> + use<> {
        let mut ready = self.ready.clone();
        async move {
            // It fails only when the controller is being dropped.
            let _ = ready.wait_for(|ready| *ready).await;
        }
    }

    /// Waits until something of it has ended that was to run on. What is left is not worth keeping: the
    /// process should end, and another one start.
    pub async fn ended(&mut self) -> TaskEnded {
        tokio::select! {
            ended = self.tasks.ended() => ended,
            ended = self.writers.ended() => ended,
        }
    }

    /// Where probes are answered.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.probes.as_ref().map(Probes::address)
    }

    /// Tells its metrics in the text format of OpenMetrics, whenever it is asked; also where nobody listens.
    pub fn metrics(&self) -> impl Fn() -> String + Send + 'static {
        let metrics = Arc::clone(&self.metrics);
        move || metrics.text()
    }

    /// Stops: what waits is forgotten, writes under way finish. Whatever was not written will be
    /// found to be missing by the next controller.
    pub async fn stop(mut self) {
        self.queue.close();
        self.stop.send_replace(true);
        if timeout(STOP_PATIENCE, self.writers.all_ended())
            .await
            .is_err()
        {
            tracing::warn!("writes under way were abandoned");
        }
        let told = async {
            while !self.recorder.is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // Events are worth a moment, not more.
        let _ = timeout(Duration::from_millis(500), told).await;
        self.tasks.shutdown().await;
    }
}

/// What the tasks share.
struct Parts {
    client: Client,
    store: Arc<Store>,
    schedule: Arc<Schedule>,
    writes: Arc<WriteQueue>,
    recorder: Arc<Recorder>,
    throttle: Arc<Throttle>,
    metrics: Arc<Metrics>,
    mode: Mode,
    ownership: Arc<Ownership>,
    gangs: Option<Arc<Gangs>>,
    runs_jobs: bool,
    cron_jobs: Option<Arc<CronJobs>>,
    ttl: Option<Arc<Ttl>>,
    clock: Clock,
}

impl Parts {
    fn new(
        client: Client,
        options: &Options,
        gangs: Option<Arc<Gangs>>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let (mode, clock) = (&options.mode, &options.clock);
        let recorder = Recorder::new(mode, clock.clone(), Arc::clone(metrics));
        let recorder = Arc::new(recorder);
        let schedule = Schedule::new(&options.limits, clock.clone(), metrics.queues.of("job"));
        let retry = options.limits.retry_backoff;
        let throttle = Arc::new(Throttle::new(options.rate));
        Self {
            client,
            store: Arc::new(Store::new(
                mode.finalizer(),
                &options.namespaces,
                metrics.jobs.seen.clone(),
            )),
            schedule: Arc::new(schedule),
            writes: Arc::new(WriteQueue::new(
                options.max_in_flight,
                Arc::clone(&throttle),
                options.lull.clone(),
                Arc::clone(metrics),
            )),
            recorder: Arc::clone(&recorder),
            throttle,
            metrics: Arc::clone(metrics),
            mode: mode.clone(),
            ownership: Arc::new(Ownership::new(retry)),
            gangs,
            runs_jobs: options.controllers.job,
            cron_jobs: options.controllers.cronjob.then(|| {
                let (mode, clock) = (mode.clone(), clock.clone());
                let queue = metrics.queues.of(cron_jobs::QUEUE);
                Arc::new(CronJobs::new(mode, retry, clock, recorder, queue))
            }),
            ttl: options.controllers.ttl.then(|| {
                let queue = metrics.queues.of(ttl::QUEUE);
                Arc::new(Ttl::new(mode.clone(), retry, clock.clone(), queue))
            }),
            clock: clock.clone(),
        }
    }

    fn spawn_informers(
        &self,
        namespaces: &[String],
        tasks: &mut Tasks,
    ) -> Vec<(Name, watch::Receiver<Synced>)> {
        let scopes: Vec<Option<String>> = if namespaces.is_empty() {
            vec![None]
        } else {
            namespaces.iter().cloned().map(Some).collect()
        };
        let mut synced = Vec::new();
        for namespace in scopes {
            let mut after = None;
            let of_gangs = self.gangs.iter().flat_map(|gangs| {
                GangKind::BOTH.map(|kind| Watched::Gang(kind, Arc::clone(gangs)))
            });
            let of_pods = self.runs_jobs.then_some(Watched::Pods);
            let of_cron_jobs = self.cron_jobs.iter().cloned().map(Watched::CronJobs);
            let watched = [Watched::Jobs].into_iter().chain(of_pods);
            let watched = watched.chain(of_cron_jobs).chain(of_gangs);
            for watched in watched {
                let (sender, receiver) = watch::channel(None);
                self.store.history.join();
                synced.push((watched.kind().into(), receiver.clone()));
                let name = format!("informer of {}", watched.kind());
                let intake = Intake {
                    watched,
                    namespace: namespace.clone(),
                    store: Arc::clone(&self.store),
                    schedule: Arc::clone(&self.schedule),
                    metrics: Arc::clone(&self.metrics),
                    mode: self.mode.clone(),
                    decoder: PodDecoder {
                        finalizer: self.mode.finalizer(),
                    },
                    ownership: Arc::clone(&self.ownership),
                    runs_jobs: self.runs_jobs,
                    cron_jobs: self.cron_jobs.clone(),
                    ttl: self.ttl.clone(),
                };
                let informer = Informer {
                    intake,
                    client: self.client.clone(),
                    throttle: Arc::clone(&self.throttle),
                    after: after.clone(),
                    synced: sender,
                    told: Default::default(),
                };
                tasks.spawn(name, informer.run());
                after = Some(receiver);
            }
        }
        synced
    }

    fn writer(&self, stopping: watch::Receiver<bool>) -> Writer {
        Writer {
            client: self.client.clone(),
            store: Arc::clone(&self.store),
            schedule: Arc::clone(&self.schedule),
            queue: Arc::clone(&self.writes),
            recorder: Arc::clone(&self.recorder),
            metrics: Arc::clone(&self.metrics),
            quota_waits: Arc::default(),
            gangs: self.gangs.clone(),
            finalizer: self.mode.finalizer(),
            stopping,
        }
    }

    fn worker(&self, limits: Limits) -> Worker {
        Worker {
            store: Arc::clone(&self.store),
            ownership: Arc::clone(&self.ownership),
            schedule: Arc::clone(&self.schedule),
            writes: Arc::clone(&self.writes),
            recorder: Arc::clone(&self.recorder),
            metrics: Arc::clone(&self.metrics),
            gangs: self.gangs.clone(),
            limits,
            seed: u64::try_from(self.clock.now().wall.as_millis())
                .unwrap_or(0)
                .wrapping_mul(0x9e37_79b9),
        }
    }
}

async fn signal_when_synced(
    synced: Vec<(Name, watch::Receiver<Synced>)>,
    ready: watch::Sender<bool>,
) {
    for (_, mut one) in synced {
        if one.wait_for(Option::is_some).await.is_err() {
            return;
        }
    }
    tracing::info!("caches are filled");
    ready.send_replace(true);
    pending().await
}

/// Learns what the server has for gangs, once it answers at all.
async fn discover_gangs(client: &Client) -> Result<Gangs, GangError> {
    let mut failures = 0;
    while let Err(error) = client.get("/version").await
        && (error.code == 401 || matches!(error.kind, ErrorKind::Failed | ErrorKind::Busy))
    {
        tracing::warn!(%error, "waiting for the API server");
        failures += 1;
        sleep(RETRY.delay(failures)).await;
    }
    Gangs::discover(client).await
}

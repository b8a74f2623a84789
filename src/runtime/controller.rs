//! Assembles the controller from its parts, starts it and stops it.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    client::{Client, CoalescedIo},
    clock::Clock,
    controller::{Candidate, Common, Feed, LeaderElection, Replica, kinds},
    informer::{Informers, PageBounds, RETRY, Watched},
    metrics::Metrics,
    model::Limits,
    ownership::Mode,
    shard::{Controllers, Limiter, Rate, RecordMemory, Settings, Shard},
    wire::{ErrorKind, SchedulingApi},
};

use super::{
    debug::DebugJobs,
    desk::Desk,
    discover_gangs::{GangError, discover},
    health::Health,
    heartbeat,
    probes::Probes,
    shell::{Shell, Tools},
    tasks::{TaskEnded, Tasks},
    threads::{Channels, Inbox, on_thread},
    ui::{UiError, UiOptions, UiThread},
    write_deadline::WriteDeadline,
};

/// Timeout for loops to stop: writes in flight and Events need less.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Default memory for records of indexes in MiB: those of 40 Jobs of 100,000 indexes each, or of 4 of a million.
const INDEX_RECORD_MIB: usize = 64;

/// Default memory for templates in MiB: those of 12,000 running Jobs of 5 KiB each, an eighth of the memory limit in
/// `deploy/`.
const TEMPLATE_MIB: usize = 64;

/// Options of a controller.
#[derive(Clone, Debug)]
pub struct Options {
    /// The enabled controllers.
    pub controllers: Controllers,
    /// Selects the Jobs to manage.
    pub mode: Mode,
    /// Limits in the rules for Jobs.
    pub limits: Limits,
    /// Feature gate WorkloadWithJob: Jobs that need all their Pods at once get a Workload and a PodGroup.
    pub workload_with_job: bool,
    /// Rate limit on all calls except watches.
    pub rate: Rate,
    /// Maximum number of writes in flight.
    pub max_in_flight: usize,
    /// Number of shards, each with a thread, that share the namespaces.
    pub shards: usize,
    /// Maximum number of concurrent turns of CronJobs.
    pub concurrent_cron_job_syncs: usize,
    /// Maximum number of finished Jobs that are checked concurrently for deletion.
    pub concurrent_ttl_syncs: usize,
    /// The namespaces to work in; empty for all.
    pub namespaces: Vec<String>,
    /// Leader election by a Lease; none if there is just this controller.
    pub election: Option<LeaderElection>,
    /// Address for probes, metrics, `/debug/jobs` and the local page, if they are served.
    pub listen: Option<SocketAddr>,
    /// Serves `/debug/jobs` to any client, not only to those on this machine.
    pub expose_debug: bool,
    /// The failure summary is on for all Jobs, unless their annotation says otherwise.
    pub summarizes_failures: bool,
    /// Memory in bytes for the records of indexes of all Jobs that ask for one.
    pub index_record_bytes: usize,
    /// Memory in bytes for templates of Jobs and CronJobs, in all shards together.
    pub template_bytes: usize,
    /// Port of the page for clients with a token; none to serve none.
    pub ui: Option<UiOptions>,
    /// Source of the time.
    pub clock: Clock,
}

/// The command line has the same defaults.
impl Default for Options {
    fn default() -> Self {
        Self {
            controllers: Controllers::default(),
            mode: Mode::default(),
            limits: Limits::default(),
            workload_with_job: false,
            rate: Rate { qps: 0, burst: 0 },
            max_in_flight: 96,
            shards: 1,
            concurrent_cron_job_syncs: 5,
            concurrent_ttl_syncs: 5,
            namespaces: Vec::new(),
            election: None,
            listen: None,
            expose_debug: false,
            summarizes_failures: false,
            index_record_bytes: INDEX_RECORD_MIB << 20,
            template_bytes: TEMPLATE_MIB << 20,
            ui: None,
            clock: Clock::default(),
        }
    }
}

/// Error of starting the controller.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The port for probes cannot be opened.
    #[error("--listen {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The page cannot be served.
    #[error(transparent)]
    Ui(#[from] UiError),
    /// A thread for a loop, or its sockets, cannot be created.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The server lacks the API that a feature gate needs.
    #[error("--feature-gates WorkloadWithJob=true: {0}")]
    Gangs(#[from] GangError),
}

/// A running controller. Dropping it stops it at once; see [`Controller::stop`].
#[derive(Debug)]
pub struct Controller {
    tasks: Tasks,
    /// The loops that write.
    loops: Tasks,
    stop: watch::Sender<bool>,
    /// The loop of the parts that several shards share. It releases the Lease after the shards have stopped.
    common: Tasks,
    stop_common: watch::Sender<bool>,
    missing: watch::Receiver<Option<Vec<&'static str>>>,
    metrics: Arc<Metrics>,
    clock: Clock,
    probes: Option<Probes>,
    ui: Option<UiThread>,
}

/// Makes a client count and time its requests in `rest_client_*`.
fn observed(client: Client, metrics: &Metrics) -> Client {
    let rest_client = metrics.rest_client.clone();
    let url: Result<http::Uri, _> = client.url().parse();
    let authority = url.ok().and_then(|url| url.authority().cloned());
    let host = authority.map_or_else(|| client.url().to_owned(), |it| it.to_string());
    client.observed(Arc::new(move |method, code, took| {
        rest_client.record(&host, method, code, took);
    }))
}

impl Controller {
    /// Starts a controller of a cluster. It runs at once, and is ready once its caches are filled. If the server does
    /// not answer, it waits.
    pub async fn start(client: Client, options: Options) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::of_build(lakh_inspect::VERSION));
        let client = observed(client, &metrics);
        let (missing, is_missing) = watch::channel(None);
        let health = Arc::new(Health::new(
            client.clone(),
            is_missing.clone(),
            Arc::clone(&metrics),
            options.clock.clone(),
        ));
        let desk = Arc::new(Desk::default());
        let is_shown = options.listen.is_some() || options.ui.is_some();
        let ui = is_shown.then(|| {
            let (clock, port) = (&options.clock, options.ui.clone());
            UiThread::start(&desk, &client, clock, port)
        });
        let ui = ui.transpose()?;
        let probes = options.listen.zip(ui.as_ref()).map(|(address, ui)| {
            let debug = DebugJobs::new(Arc::clone(&desk), options.expose_debug);
            let probes = Probes::start(address, Arc::clone(&health), debug, ui.local());
            probes.map_err(|source| StartError::Listen { address, source })
        });
        let probes = probes.transpose()?;
        let api = match options.workload_with_job {
            true => Some(discover_gangs(&client).await?),
            false => None,
        };
        let (stop, stopping) = watch::channel(false);
        let (stop_common, common_stopping) = watch::channel(false);
        let mut controller = Self {
            tasks: Tasks::new(health.pulses()),
            loops: Tasks::new(health.pulses()),
            stop,
            common: Tasks::new(health.pulses()),
            stop_common,
            missing: is_missing,
            metrics: Arc::clone(&metrics),
            clock: options.clock.clone(),
            probes,
            ui,
        };
        controller.tasks.spawn_heart();
        let beats = heartbeat::run(client.clone(), options.clock.clone());
        controller.tasks.spawn("heartbeat", beats);
        let tools = Tools {
            client,
            clock: options.clock.clone(),
            stop: stopping,
            missing,
            channels: Channels::default(),
            io: CoalescedIo::start().map_err(StartError::Thread)?,
            write_deadlines: vec![WriteDeadline::default()],
            inquiries: desk.open(),
        };
        let parts = Parts {
            watched: Watched {
                kinds: kinds(options.controllers, api.is_some()),
                namespaces: options.namespaces.clone(),
                finalizer: options.mode.finalizer(),
                api: api.clone(),
                summarizes_all: options.summarizes_failures,
                pages: PageBounds::default(),
            },
            limiter: Arc::new(Limiter::new(options.rate)),
            record_memory: RecordMemory::new(options.index_record_bytes),
            metrics,
            api,
            options,
        };
        match parts.options.shards {
            0 | 1 => parts.start_one(&mut controller.loops, tools),
            count => {
                let (channels, own, inboxes) = Channels::new(count);
                parts.start_shards(&mut controller.loops, &tools, &channels, inboxes, &desk)?;
                let tools = Tools {
                    stop: common_stopping,
                    channels,
                    ..tools
                };
                parts.start_common(&mut controller.common, tools, own);
            }
        }
        #[cfg(test)]
        super::poison::spawn(&mut controller.tasks);
        Ok(controller)
    }

    /// Waits until the caches are filled.
    pub fn ready(&self) -> impl Future<Output = ()> + use<> {
        let mut missing = self.missing.clone();
        async move {
            let filled = |missing: &Option<Vec<_>>| missing.as_ref().is_some_and(Vec::is_empty);
            // This fails only while the controller is being dropped.
            let _ = missing.wait_for(filled).await;
        }
    }

    /// Waits until one of its loops ends unexpectedly. The rest cannot recover: the process should exit and be
    /// restarted.
    pub async fn ended(&mut self) -> TaskEnded {
        tokio::select! {
            ended = self.tasks.ended() => ended,
            ended = self.loops.ended() => ended,
            ended = self.common.ended() => ended,
        }
    }

    /// Returns the address for probes.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.probes.as_ref().map(Probes::address)
    }

    /// Returns the address of the page for clients with a token.
    pub fn showing(&self) -> Option<SocketAddr> {
        self.ui.as_ref().and_then(UiThread::address)
    }

    /// Returns a function that writes its metrics in the text format of OpenMetrics, also without a port for probes.
    pub fn metrics(&self) -> impl Fn() -> String + Send + 'static {
        let metrics = Arc::clone(&self.metrics);
        let clock = self.clock.clone();
        move || metrics.text(clock.now().monotonic)
    }

    /// Stops: queued requests are dropped, writes in flight finish. The next controller finds and repeats any write
    /// that is missing.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if timeout(STOP_PATIENCE, self.loops.all_ended())
            .await
            .is_err()
        {
            tracing::warn!("a controller loop did not stop in time and was aborted");
        }
        self.loops.shutdown().await;
        self.stop_common.send_replace(true);
        let given_back = timeout(STOP_PATIENCE, self.common.all_ended()).await;
        if given_back.is_err() {
            tracing::warn!("the informer loop did not stop in time and was aborted");
        }
        self.common.shutdown().await;
        self.tasks.shutdown().await;
    }
}

/// Parts that the loops are built from.
struct Parts {
    options: Options,
    watched: Watched,
    api: Option<SchedulingApi>,
    limiter: Arc<Limiter>,
    record_memory: RecordMemory,
    metrics: Arc<Metrics>,
}

impl Parts {
    /// Returns the number of ranges, each with a shard, if replicas share the work.
    fn ranges(&self) -> Option<usize> {
        let election = self.options.election.as_ref();
        Some(election?.partition?.ranges as usize)
    }

    /// Returns the settings of one of `shards` shards. Limits are divided among them.
    fn settings(&self, number: usize, shards: usize) -> Settings {
        let options = &self.options;
        let share = |all: usize| (all / shards + usize::from(number < all % shards)).max(1);
        Settings {
            controllers: options.controllers,
            mode: options.mode.clone(),
            limits: options.limits,
            namespaces: options.namespaces.clone(),
            max_in_flight: match self.ranges() {
                // They run in one loop and share one limit.
                Some(_) => options.max_in_flight,
                None => share(options.max_in_flight),
            },
            concurrent_cron_job_syncs: share(options.concurrent_cron_job_syncs),
            concurrent_ttl_syncs: share(options.concurrent_ttl_syncs),
            scheduling_api: self.api.clone(),
            is_elected: options.election.is_some(),
            summarizes_all: options.summarizes_failures,
            record_memory: self.record_memory.clone(),
            template_bytes: share(options.template_bytes),
        }
    }

    /// Starts informers and the only shard, or those of all ranges, in one loop.
    fn start_one(&self, loops: &mut Tasks, tools: Tools) {
        let shards = self.ranges().unwrap_or(1);
        let settings = self.settings(0, shards);
        let election = self.options.election.clone();
        let (limiter, metrics) = (&self.limiter, &self.metrics);
        let replica = Replica::new(&self.watched, &settings, election, limiter, metrics);
        // There is no other loop.
        let (_, inbox, _) = Channels::new(0);
        let tools = Tools {
            write_deadlines: (0..shards).map(|_| WriteDeadline::default()).collect(),
            ..tools
        };
        loops.spawn("controller", Shell::new(replica, tools, inbox).run());
    }

    /// Starts each shard in a loop on a thread of its own.
    fn start_shards(
        &self,
        loops: &mut Tasks,
        tools: &Tools,
        channels: &Channels,
        inboxes: Vec<Inbox>,
        desk: &Desk,
    ) -> Result<(), StartError> {
        let count = inboxes.len();
        for (number, inbox) in inboxes.into_iter().enumerate() {
            let metrics = Arc::clone(&self.metrics);
            let shard = Shard::new(self.settings(number, count), &self.limiter, metrics);
            let mut builder = tokio::runtime::Builder::new_current_thread();
            let runtime = builder.enable_all().build().map_err(StartError::Thread)?;
            let entered = runtime.enter();
            let io = CoalescedIo::start().map_err(StartError::Thread)?;
            drop(entered);
            let tools = Tools {
                client: tools.client.clone(),
                clock: tools.clock.clone(),
                stop: tools.stop.clone(),
                missing: tools.missing.clone(),
                channels: channels.clone(),
                io,
                write_deadlines: tools.write_deadlines.clone(),
                inquiries: desk.open(),
            };
            let name = format!("shard {number}");
            let pulse = loops.pulse(name.clone());
            let run = move || {
                runtime.block_on(async {
                    let client = tools.client.with_own_connections(None);
                    let tools = Tools { client, ..tools };
                    let shell = Shell::new(shard, tools, inbox);
                    pulse.of(shell.run()).await;
                });
            };
            let ended = on_thread(name.clone(), run).map_err(StartError::Thread)?;
            loops.spawn(name, ended);
        }
        Ok(())
    }

    /// Starts the parts that the shards share, in a loop on this runtime.
    fn start_common(&self, loops: &mut Tasks, tools: Tools, inbox: Inbox) {
        let metrics = Arc::clone(&self.metrics);
        let informers = Informers::new(&self.watched, &self.limiter, Arc::clone(&metrics));
        let election = self.options.election.clone();
        let candidate = election.map(|election| Candidate::new(election, metrics));
        let feed = Feed::new(Common::new(informers, candidate), self.options.shards);
        loops.spawn("informers", Shell::new(feed, tools, inbox).run());
    }
}

/// Discovers the server's API for gangs, once the server answers at all.
async fn discover_gangs(client: &Client) -> Result<SchedulingApi, GangError> {
    let mut failures = 0;
    while let Err(error) = client.get("/version").await
        && (error.code == 401 || matches!(error.kind, ErrorKind::Failed | ErrorKind::Busy))
    {
        tracing::warn!(%error, "waiting for the API server");
        failures += 1;
        sleep(RETRY.delay(failures)).await;
    }
    discover(client).await
}

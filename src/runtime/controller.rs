//! Puts the controller together, starts it and stops it.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use crate::{
    clock::Clock,
    cluster::{Client, CoalescedIo},
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
    mandate::Mandate,
    probes::Probes,
    shell::{Shell, Tools},
    tasks::{TaskEnded, Tasks},
    threads::{Channels, Inbox, on_thread},
    ui::{UiError, UiOptions, UiThread},
};

/// How long loops may take to stop: writes under way finish, and Events are told, in less.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// MiB for records of indexes: those of forty Jobs of 100,000 each, or of four of a million.
const INDEX_RECORD_MIB: usize = 64;

/// MiB for templates: those of 12,000 Jobs at work of 5 KiB each, an eighth of the memory limit in `deploy/`.
const TEMPLATE_MIB: usize = 64;

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
    /// Among how many threads the namespaces are shared out.
    pub shards: usize,
    /// How many CronJobs may have their turn at once.
    pub concurrent_cron_job_syncs: usize,
    /// How many finished Jobs may be looked at at once, to be deleted.
    pub concurrent_ttl_syncs: usize,
    /// The namespaces to work in; none for all.
    pub namespaces: Vec<String>,
    /// By what Lease it is known which of several controllers leads; none if there is just this one.
    pub election: Option<LeaderElection>,
    /// Where to answer probes, if anywhere.
    pub listen: Option<SocketAddr>,
    /// Whether everybody is told of Jobs there, and not only who asks from this machine.
    pub expose_debug: bool,
    /// Whether Jobs have Events that sum up their failures unless they say otherwise.
    pub summarizes_failures: bool,
    /// Bytes that records of indexes may take, of all Jobs that ask for one.
    pub index_record_bytes: usize,
    /// Bytes that templates of Jobs and CronJobs may take, of all shards together.
    pub template_bytes: usize,
    /// Where to show the page to who brings a token, if anywhere.
    pub ui: Option<UiOptions>,
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
    /// The page cannot be shown.
    #[error(transparent)]
    Ui(#[from] UiError),
    /// There is no thread for a loop or its sockets.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// The server cannot do what a feature gate asks for.
    #[error("--feature-gates WorkloadWithJob=true: {0}")]
    Gangs(#[from] GangError),
}

/// A controller at work. Dropped, it stops at once; see [`Controller::stop`].
#[derive(Debug)]
pub struct Controller {
    tasks: Tasks,
    /// The loops that write.
    loops: Tasks,
    stop: watch::Sender<bool>,
    /// The loop of what several shards have in common, which gives the lead back when the shards have stopped.
    common: Tasks,
    stop_common: watch::Sender<bool>,
    missing: watch::Receiver<Option<Vec<&'static str>>>,
    metrics: Arc<Metrics>,
    clock: Clock,
    probes: Option<Probes>,
    ui: Option<UiThread>,
}

/// Has a client count and time its requests in `rest_client_*`.
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
    /// Starts to work on a cluster. It is at once at work, and ready once it knows all there is; a server
    /// that does not answer is waited for.
    pub async fn start(client: Client, options: Options) -> Result<Self, StartError> {
        let metrics = Arc::new(Metrics::default());
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
            mandates: vec![Mandate::default()],
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
            // It fails only when the controller is being dropped.
            let _ = missing.wait_for(filled).await;
        }
    }

    /// Waits until something of it has ended that was to run on. What is left is not worth keeping: the
    /// process should end, and another one start.
    pub async fn ended(&mut self) -> TaskEnded {
        tokio::select! {
            ended = self.tasks.ended() => ended,
            ended = self.loops.ended() => ended,
            ended = self.common.ended() => ended,
        }
    }

    /// Where probes are answered.
    pub fn listening(&self) -> Option<SocketAddr> {
        self.probes.as_ref().map(Probes::address)
    }

    /// Where the page is shown to who brings a token.
    pub fn showing(&self) -> Option<SocketAddr> {
        self.ui.as_ref().and_then(UiThread::address)
    }

    /// Tells its metrics in the text format of OpenMetrics, whenever it is asked; also where nobody listens.
    pub fn metrics(&self) -> impl Fn() -> String + Send + 'static {
        let metrics = Arc::clone(&self.metrics);
        let clock = self.clock.clone();
        move || metrics.text(clock.now().monotonic)
    }

    /// Stops: what waits is forgotten, writes under way finish. Whatever was not written will be
    /// found to be missing by the next controller.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        if timeout(STOP_PATIENCE, self.loops.all_ended())
            .await
            .is_err()
        {
            tracing::warn!("a loop did not stop");
        }
        self.loops.shutdown().await;
        self.stop_common.send_replace(true);
        let given_back = timeout(STOP_PATIENCE, self.common.all_ended()).await;
        if given_back.is_err() {
            tracing::warn!("the informers did not stop");
        }
        self.common.shutdown().await;
        self.tasks.shutdown().await;
    }
}

/// What the loops are made of.
struct Parts {
    options: Options,
    watched: Watched,
    api: Option<SchedulingApi>,
    limiter: Arc<Limiter>,
    record_memory: RecordMemory,
    metrics: Arc<Metrics>,
}

impl Parts {
    /// How many ranges there are, each with a shard, if replicas share.
    fn ranges(&self) -> Option<usize> {
        let election = self.options.election.as_ref();
        Some(election?.partition?.ranges as usize)
    }

    /// What one of so many shards goes by. What there may be of a thing at once is shared out.
    fn settings(&self, number: usize, shards: usize) -> Settings {
        let options = &self.options;
        let share = |all: usize| (all / shards + usize::from(number < all % shards)).max(1);
        Settings {
            controllers: options.controllers,
            mode: options.mode.clone(),
            limits: options.limits,
            namespaces: options.namespaces.clone(),
            max_in_flight: match self.ranges() {
                // They are in one loop, and go by one limit.
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

    /// Informers and the only shard, or those of all ranges, in one loop.
    fn start_one(&self, loops: &mut Tasks, tools: Tools) {
        let shards = self.ranges().unwrap_or(1);
        let settings = self.settings(0, shards);
        let election = self.options.election.clone();
        let (limiter, metrics) = (&self.limiter, &self.metrics);
        let replica = Replica::new(&self.watched, &settings, election, limiter, metrics);
        // Nobody else has a loop.
        let (_, inbox, _) = Channels::new(0);
        let tools = Tools {
            mandates: (0..shards).map(|_| Mandate::default()).collect(),
            ..tools
        };
        loops.spawn("controller", Shell::new(replica, tools, inbox).run());
    }

    /// Each shard in a loop on a thread of its own.
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
                mandates: tools.mandates.clone(),
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

    /// What the shards have in common in a loop here.
    fn start_common(&self, loops: &mut Tasks, tools: Tools, inbox: Inbox) {
        let metrics = Arc::clone(&self.metrics);
        let informers = Informers::new(&self.watched, &self.limiter, Arc::clone(&metrics));
        let election = self.options.election.clone();
        let candidate = election.map(|election| Candidate::new(election, metrics));
        let feed = Feed::new(Common::new(informers, candidate), self.options.shards);
        loops.spawn("informers", Shell::new(feed, tools, inbox).run());
    }
}

/// Learns what the server has for gangs, once it answers at all.
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

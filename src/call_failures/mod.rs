//! Runs each row of docs/when-calls-fail.md: a replica in virtual time against an API server that fails calls of one
//! kind, in one way, for a minute and a half. The row's columns are the log, probes, metrics, Events, `lakh why` and
//! `lakh doctor` at the end of that time. After the failures all work must be done, once.
//!
//! `UPDATE_GOLDEN=1` rewrites the page's tables.

mod calls;
mod client_errors;
mod columns;
mod commands;
mod world;

use std::{
    fmt::Write as _,
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use calls::{CALLS, CallKind, EVERY_WRITE, Fault, NONE};
use columns::Baseline;
use world::{LogWriter, World};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/when-calls-fail.md");

/// The tables begin on the page after this line.
const MARK: &str = "<!-- The test writes everything below. -->\n";

/// Calls fail until this time.
const FAILING: Duration = Duration::from_secs(90);

/// All work must be done within this time afterwards.
const HEALING: Duration = Duration::from_secs(700);

/// The client's time limit of a call. The election gives up requests about the Lease sooner.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The most calls of a kind while they fail: about two a second, of all objects together.
const MOST_TRIES: usize = 200;

/// The same where every write fails.
const MOST_WRITES: usize = 400;

/// The most log lines about the failure.
const MOST_LINES: usize = 30;

/// The controller's service account, as namespace and name.
const ACCOUNT: &str = "kube-system/lakh";

/// The row of both tables of a kind, and the errors in it.
struct Row {
    log: String,
    commands: String,
    wrong: Vec<String>,
}

/// Runs a row.
fn row(kind: &'static CallKind, fault: &Fault, baseline: &Baseline) -> Row {
    let mut world = World::new(kind, fault);
    let log = Arc::clone(&world.log);
    let subscriber = tracing_subscriber::fmt()
        .json()
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || LogWriter(Arc::clone(&log)))
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        world.run_until(FAILING);
        let columns = [
            world.waits(),
            world.logged(),
            world.readiness(),
            world.warnings(),
        ];
        let (commands, mut wrong) = baseline.columns(&mut world);
        if world.tries.is_empty() {
            wrong.push("no such call was made".to_owned());
        }
        let most = match kind.is_every_write() {
            true => MOST_WRITES,
            false => MOST_TRIES,
        };
        if world.tries.len() > most {
            wrong.push(format!("{} tries", world.tries.len()));
        }
        let lines = world.log_text().lines().count();
        if lines > MOST_LINES {
            wrong.push(format!("{lines} lines: {}", world.log_text()));
        }
        world.run_until(FAILING + HEALING);
        wrong.extend(world.unfinished());
        let name = format!("{}, {}", kind.title, fault.name);
        Row {
            log: format!("| {} | {} |\n", fault.name, columns.join(" | ")),
            commands: format!("| {} | {} |\n", fault.name, commands.join(" | ")),
            wrong: wrong
                .into_iter()
                .map(|wrong| format!("{name}: {wrong}"))
                .collect(),
        }
    })
}

/// Runs these rows, on as many threads as there are processors. Returns them in their order.
fn play(rows: &[(&'static CallKind, &Fault)], baseline: &Baseline) -> Vec<Row> {
    let next = AtomicUsize::new(0);
    let played = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some((number, (kind, fault))) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    rows.get(number).map(|row| (number, *row))
                } {
                    let row = row(kind, fault, baseline);
                    played.lock().push((number, row));
                }
            });
        }
    });
    let mut played = played.into_inner();
    played.sort_by_key(|(number, _)| *number);
    played.into_iter().map(|(_, row)| row).collect()
}

/// Returns the tables, and the errors in their rows.
fn tables() -> (String, Vec<String>) {
    let mut faults = calls::faults();
    faults.extend(client_errors::faults());
    let full = calls::store_full();
    let mut of_kinds: Vec<(&CallKind, Vec<&Fault>)> = CALLS
        .iter()
        .map(|kind| (kind, faults.iter().collect()))
        .collect();
    of_kinds.push((&EVERY_WRITE, vec![&full]));
    let rows = of_kinds.iter();
    let rows = rows.flat_map(|(kind, faults)| faults.iter().map(|fault| (*kind, *fault)));
    let rows: Vec<(&CallKind, &Fault)> = rows.collect();
    let baseline = Baseline::play(&NONE, &full);
    let mut played = play(&rows, &baseline).into_iter();
    let (mut page, mut wrong) = (String::new(), Vec::new());
    // Writing to a string does not fail.
    let _ = writeln!(page, "\n### No call\n\n{}", baseline.text());
    for (kind, faults) in of_kinds {
        let _ = writeln!(page, "\n### {}\n", kind.title);
        page.push_str(
            "| Failure | attempts in 90 s: number, times in seconds | log, at warn | `/readyz` after 90 s | Warnings |\n\
             |---|---|---|---|---|\n",
        );
        let of_kind: Vec<Row> = played.by_ref().take(faults.len()).collect();
        of_kind.iter().for_each(|row| page.push_str(&row.log));
        page.push_str("\n| Failure | metrics | `lakh why` | `lakh doctor` |\n|---|---|---|---|\n");
        of_kind.iter().for_each(|row| page.push_str(&row.commands));
        wrong.extend(of_kind.into_iter().flat_map(|row| row.wrong));
    }
    (page, wrong)
}

#[test]
fn every_kind_of_call_fails_in_every_way_as_the_page_says() {
    let page = fs::read_to_string(PAGE).expect("the page is there");
    let (text, shown) = page.split_once(MARK).expect("the page has tables");
    let (tables, wrong) = tables();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(PAGE, format!("{text}{MARK}{tables}")).expect("it can be written");
    } else {
        for (shown, played) in shown.lines().zip(tables.lines()) {
            assert_eq!(shown, played);
        }
        assert_eq!(shown.lines().count(), tables.lines().count());
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Runs a future on a runtime of its own whose clock stands still while the future can proceed.
fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(future)
}

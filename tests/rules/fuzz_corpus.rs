//! Runs the fuzzer's findings, and the inputs with the best coverage, through the fuzz targets.

#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;

use std::{fs, path::Path, sync::mpsc, thread, time::Duration};

/// Longer than the fuzzer's limit: tests are built without optimization and share the machine.
const LIMIT: Duration = Duration::from_secs(30);

#[test]
fn inputs_neither_panic_nor_hang() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, target) in targets::TARGETS {
        let folder = corpus.join(name);
        let mut inputs: Vec<_> = fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
            .map(|entry| entry.expect("an entry can be read").path())
            .collect();
        inputs.sort();
        assert!(!inputs.is_empty(), "no inputs for {name}");
        for path in inputs {
            let input = fs::read(&path).expect("an input can be read");
            run(&path.display().to_string(), target, input);
        }
    }
}

/// The cost per item of a patch that names all items of a list must not grow with the list.
#[test]
fn patches_of_huge_lists_do_not_hang() {
    let (_, patch) = targets::TARGETS[1];
    let list = |item: fn(u32) -> String| (0..100_000).map(item).collect::<Vec<_>>().join(",");
    let finalizers = list(|n| format!("\"x/{n}\""));
    let set = format!("pod strategic\n{{\"metadata\": {{\"finalizers\": [{finalizers}]}}}}");
    run("finalizers", patch, set.into_bytes());
    let env = list(|n| format!("{{\"name\": \"E{n}\"}}"));
    let keyed = format!(
        "job strategic\n{{\"spec\": {{\"template\": {{\"spec\": {{\"containers\": [\
         {{\"name\": \"c\", \"env\": [{env}]}}]}}}}}}}}"
    );
    run("env", patch, keyed.into_bytes());
}

fn run(name: &str, target: targets::Target, input: Vec<u8>) {
    let (done, end) = mpsc::channel();
    let run = thread::spawn(move || {
        target(&input);
        // After a hang the receiver is gone.
        let _ = done.send(());
    });
    if end.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
        panic!("{name}: hangs");
    }
    assert!(run.join().is_ok(), "{name}: panics");
}

//! Runs what fuzzing has found, and what covers the code best, through the fuzzer's own targets.

#[path = "../../fuzz/src/targets/mod.rs"]
mod targets;

use std::{fs, path::Path, sync::mpsc, thread, time::Duration};

/// Slower than the fuzzer's limit: tests are built without optimization and share the machine.
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
            let (done, end) = mpsc::channel();
            let run = thread::spawn(move || {
                target(&input);
                // Nobody listens any more after a hang.
                let _ = done.send(());
            });
            if end.recv_timeout(LIMIT) == Err(mpsc::RecvTimeoutError::Timeout) {
                panic!("{}: hangs", path.display());
            }
            assert!(run.join().is_ok(), "{}: panics", path.display());
        }
    }
}

//! Runs golden cases of commands' messages: an input and the expected text.
//!
//! Each file of a folder has cases: a title (`# ...`), the input as YAML, a line `=>`, and the text. `UPDATE_GOLDEN=1`
//! rewrites them.

use std::{fs, path::Path};

/// Separates the two halves of a case.
const ARROW: &str = "=>\n";

/// Checks all cases of a folder. `say` receives the name of the file and the first half of a case.
pub(crate) fn check(folder: &str, at_least: usize, say: impl Fn(&str, &str) -> String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .expect("a folder of ours")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.sort();
    let (mut wrong, mut count) = (String::new(), 0);
    for path in files {
        let topic = path.file_stem().expect("a name").to_string_lossy();
        let text = fs::read_to_string(&path).expect("a text");
        let mut anew = String::new();
        for case in text.split("\n# ") {
            let case = case.trim_start_matches("# ");
            let (title, rest) = case.split_once('\n').expect("a title");
            let (input, expected) = rest.split_once(ARROW).expect("an arrow");
            let said = say(&topic, input);
            let said = said.trim();
            count += 1;
            if said != expected.trim() {
                wrong.push_str(&format!(
                    "{topic}: {title}\n{said}\ninstead of\n{expected}\n"
                ));
            }
            anew.push_str(&format!("# {title}\n{input}=>\n{said}\n\n"));
        }
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, format!("{}\n", anew.trim_end())).expect("it can be written");
        }
    }
    assert!(count >= at_least, "only {count} cases");
    if std::env::var_os("UPDATE_GOLDEN").is_none() {
        assert!(wrong.is_empty(), "\n{wrong}");
    }
}

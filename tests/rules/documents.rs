//! Checks the documents. Every link resolves, in plain files and in the book. The book has every page. Named flags of
//! lakh exist. The README's versions and commands match the manifest and CI.
//!
//! Must not: check the effect of commands; `tests/cluster/guides` runs them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Component, Path, PathBuf},
};

/// The folder of the book's pages, which are symbolic links to the documents.
const BOOK: &str = "book";

/// Folders and files with documents.
const PLACES: &[&str] = &[
    "README.md",
    "SECURITY.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "deploy",
    "docs",
    "examples",
    "loadtest",
];

/// Documents that name flags of another program.
const OF_OTHERS: &[&str] = &[
    "docs/load-tests.md",
    "loadtest/kwok/README.md",
    "CONTRIBUTING.md",
    "docs/restore.md",
];

/// Flags of other programs that documents name without their programs.
const FOREIGN_FLAGS: &[&str] = &[
    "--force-conflicts", // kubectl
    "--kube-api-qps",    // kube-controller-manager
    "--runtime-config",  // kube-apiserver
    "--set",             // helm
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents at a place, by their paths below the root.
fn texts_at(place: &Path) -> Vec<PathBuf> {
    if root().join(place).is_file() {
        let is_text = place.extension().is_some_and(|end| end == "md");
        return is_text.then(|| place.to_owned()).into_iter().collect();
    }
    let entries = fs::read_dir(root().join(place)).expect("a folder of ours can be read");
    let names = entries.map(|entry| entry.expect("an entry can be read").file_name());
    let mut texts: Vec<PathBuf> = names.flat_map(|name| texts_at(&place.join(name))).collect();
    texts.sort();
    texts
}

fn all_texts() -> Vec<PathBuf> {
    let places = PLACES.iter().map(Path::new);
    let texts: Vec<PathBuf> = places.flat_map(texts_at).collect();
    assert!(texts.len() > 30, "only {} texts found", texts.len());
    texts
}

/// Lines outside of code fences, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().zip(1..).filter_map(move |(line, number)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((number, line))
    })
}

/// A line without the content of its code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("``")
}

/// The targets of a text's links, with line numbers.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        for rest in line.split("](").skip(1) {
            if let Some((target, _)) = rest.split_once(')') {
                found.push((number, target.to_owned()));
            }
        }
    }
    found
}

/// The anchors of a text's headings. GitHub and the book form them alike.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some(heading) = line
            .strip_prefix('#')
            .map(|rest| rest.trim_start_matches('#'))
            .and_then(|rest| rest.strip_prefix(' '))
        else {
            continue;
        };
        // A link in a heading counts with its text only.
        let words = match heading.split_once("](") {
            Some((words, rest)) => format!(
                "{words}{}",
                rest.split_once(')').map_or("", |(_, rest)| rest)
            ),
            None => heading.to_owned(),
        };
        let name: String = words
            .trim()
            .to_lowercase()
            .chars()
            .filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter))
            .map(|letter| if letter == ' ' { '-' } else { letter })
            .collect();
        let before = times.entry(name.clone()).or_default();
        anchors.insert(match *before {
            0 => name,
            number => format!("{name}-{number}"),
        });
        *before += 1;
    }
    anchors
}

/// Resolves `..` in a path. Returns none if the path leaves the root.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => plain.pop().then_some(())?,
            Component::Normal(name) => plain.push(name),
            _ => {}
        }
    }
    Some(plain)
}

/// Returns the problem with a link of a text, if there is one.
fn problem(text: &Path, target: &str) -> Option<&'static str> {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let aim = if path.is_empty() {
        text.to_owned()
    } else {
        let folder = text.parent().expect("a file is in a folder");
        let Some(aim) = plain(&folder.join(path)) else {
            return Some("leads out of the project");
        };
        aim
    };
    if !root().join(&aim).exists() {
        return Some("leads nowhere");
    }
    // The book's site has pages of files only, not of folders.
    if !root().join(&aim).is_file() {
        return Some("leads to a folder: name a file in it");
    }
    if !root().join(BOOK).join(&aim).is_file() {
        return Some("leads out of the book: link the file or its folder into `book`");
    }
    let is_there = || anchors(&read(&aim)).contains(anchor);
    (!anchor.is_empty() && !is_there()).then_some("there is no such heading")
}

#[test]
fn every_link_leads_somewhere() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for text in all_texts() {
        for (line, target) in links(&read(&text)) {
            if target.contains("://") {
                continue;
            }
            count += 1;
            if let Some(problem) = problem(&text, &target) {
                wrong.push(format!("{}:{line}: {target}: {problem}", text.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(count > 100, "only {count} links found");
}

/// A link between two pages works in the book only if the book has both.
#[test]
fn the_book_has_every_page() {
    let summary = read(&Path::new(BOOK).join("SUMMARY.md"));
    let named: Vec<PathBuf> = links(&summary)
        .into_iter()
        .map(|(_, target)| target.into())
        .collect();
    let unique: BTreeSet<&PathBuf> = named.iter().collect();
    assert_eq!(unique.len(), named.len(), "a page is there twice");
    let pages: BTreeSet<PathBuf> = all_texts().into_iter().collect();
    let missing: Vec<_> = pages.iter().filter(|page| !unique.contains(page)).collect();
    assert!(missing.is_empty(), "not in book/SUMMARY.md: {missing:?}");
    let odd: Vec<_> = named.iter().filter(|page| !pages.contains(*page)).collect();
    assert!(odd.is_empty(), "no such pages: {odd:?}");
}

/// docs/README.md is the table of contents outside of the book.
#[test]
fn the_map_has_every_page() {
    let map = Path::new("docs/README.md");
    let aims: BTreeSet<PathBuf> = links(&read(map))
        .into_iter()
        .filter_map(|(_, target)| {
            let path = target.split('#').next().unwrap_or_default();
            plain(&Path::new("docs").join(path))
        })
        .collect();
    let pages = texts_at(Path::new("docs")).into_iter();
    let missing: Vec<PathBuf> = pages
        .filter(|page| page != map && page.parent() == Some(Path::new("docs")))
        .filter(|page| !aims.contains(page))
        .collect();
    assert!(missing.is_empty(), "not in docs/README.md: {missing:?}");
}

#[test]
fn the_readme_names_requirements_and_the_ci_command() {
    let readme = read(Path::new("README.md"));
    let manifest = read(Path::new("Cargo.toml"));
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .expect("a version")
        .trim_matches('"');
    assert!(readme.contains(&format!("Rust {version}")), "{version}");
    // CI adds --locked, to test the versions in Cargo.lock.
    let ci = read(Path::new(".ci/run")).replace("--locked ", "");
    for command in [
        "cargo run --release -- local -f examples/indexed.yaml",
        "cargo test --release --workspace",
    ] {
        let stands_alone = readme.lines().any(|line| line == command);
        assert!(stands_alone, "README.md: {command}");
        let is_run = ci.lines().any(|line| line == format!("step {command}"));
        assert!(is_run, ".ci/run: {command}");
    }
}

/// The flags of lakh that a text names: in code spans that are a flag or a command line of lakh.
fn flags(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let quotes = line.split('`').skip(1).step_by(2);
        for quote in quotes.filter(|quote| quote.starts_with("--") || quote.starts_with("lakh ")) {
            let words = quote.split(' ').filter(|word| word.starts_with("--"));
            let name = |word: &str| -> String {
                let is_name = |letter: &char| *letter == '-' || letter.is_ascii_alphanumeric();
                word.chars().take_while(is_name).collect()
            };
            found.extend(words.map(|word| (number, name(word))));
        }
    }
    found
}

#[test]
fn flags_that_are_named_are_there() {
    let known = read(Path::new("docs/commands.md"));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for text in all_texts() {
        // The changelog still names flags that were removed.
        let is_history = text == Path::new("CHANGELOG.md");
        if is_history || OF_OTHERS.iter().any(|other| text == Path::new(other)) {
            continue;
        }
        for (line, flag) in flags(&read(&text)) {
            count += 1;
            let is_whole = known.contains(&format!("`{flag}`"));
            let takes_more = known.contains(&format!("`{flag} <"));
            // `--leader-elect-*` stands for all flags with this prefix.
            let begins = flag.ends_with('-') && known.contains(&format!("`{flag}"));
            let is_foreign = FOREIGN_FLAGS.contains(&flag.as_str());
            if !(is_whole || takes_more || begins || is_foreign) {
                wrong.push(format!("{}:{line}: {flag}", text.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "no such flags:\n{}", wrong.join("\n"));
    assert!(count > 100, "only {count} flags found");
}

#[test]
fn links_and_headings_are_read() {
    let text = "# A `b/c`: d's\n[x](y.md#z), `[no](link)`\n```sh\n[no](link)\n# no\n```\n## A [e](f)\n## A e\n";
    let found = links(text);
    let found: Vec<&str> = found.iter().map(|(_, target)| target.as_str()).collect();
    assert_eq!(found, ["y.md#z", "f"]);
    let anchors: Vec<String> = anchors(text).into_iter().collect();
    assert_eq!(anchors, ["a-bc-ds", "a-e", "a-e-1"]);
    let found = flags("`--a-b=1`, `lakh c --d e`, `x --f`, `--g-*`\n");
    let found: Vec<&str> = found.iter().map(|(_, flag)| flag.as_str()).collect();
    assert_eq!(found, ["--a-b", "--d", "--g-"]);
    assert_eq!(plain(Path::new("docs/../a/b")), Some("a/b".into()));
    assert_eq!(plain(Path::new("docs/../../a")), None);
}

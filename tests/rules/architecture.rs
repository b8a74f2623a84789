//! Checks which modules use which, and that each source file keeps its form.
//!
//! The compiler enforces the dependencies between crates; this test enforces the rest of the table. Its failures name a
//! word and a line number.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The folders of all crates, innermost first.
const CRATES: &[&str] = &[
    "crates/model/src",
    "crates/clock/src",
    "crates/core/src",
    "crates/record/src",
    "crates/wire/src",
    "crates/client/src",
    "crates/controller/src",
    "crates/inspect/src",
    "crates/embedded/src",
    "src",
];

/// Modules of crates with several layers, with the other modules of the same crate, or of the core, that they may use.
/// Innermost first, as in ARCHITECTURE.md. Manifests say which crates a crate may use.
const MAY_USE: &[(&str, &str, &[&str])] = &[
    ("crates/core/src", "cronjob", &["model", "cron"]),
    ("crates/core/src", "decide", &["model"]),
    ("crates/core/src", "election", &["model"]),
    ("crates/core/src", "flow", &["model"]),
    ("crates/core/src", "ownership", &["model"]),
    ("crates/core/src", "ttl", &["model"]),
    ("crates/controller/src", "machine", &[]),
    ("crates/controller/src", "metrics", &["decide", "flow"]),
    ("crates/controller/src", "rate_limiter", &[]),
    (
        "crates/controller/src",
        "informer",
        &["machine", "metrics", "rate_limiter"],
    ),
    (
        "crates/controller/src",
        "shard",
        &[
            "cronjob",
            "decide",
            "flow",
            "informer",
            "machine",
            "metrics",
            "ownership",
            "rate_limiter",
            "ttl",
        ],
    ),
    (
        "crates/controller/src",
        "controller",
        &["election", "informer", "machine", "metrics", "shard"],
    ),
    ("crates/embedded/src", "rng", &[]),
    ("crates/embedded/src", "json", &[]),
    (
        "crates/embedded/src",
        "apiserver",
        &["json", "model", "cron", "rng"],
    ),
    ("crates/embedded/src", "request", &[]),
    (
        "crates/embedded/src",
        "kubelet",
        &["json", "model", "request", "rng"],
    ),
    ("crates/embedded/src", "podgc", &["model", "request"]),
    ("crates/embedded/src", "manifest", &["apiserver", "kubelet"]),
    (
        "crates/embedded/src",
        "serve",
        &["apiserver", "clock", "model"],
    ),
    (
        "crates/embedded/src",
        "cluster",
        &[
            "apiserver",
            "clock",
            "json",
            "kubelet",
            "model",
            "podgc",
            "request",
            "serve",
        ],
    ),
    (
        "src",
        "runtime",
        &[
            "clock",
            "client",
            "controller",
            "cronjob",
            "election",
            "informer",
            "machine",
            "metrics",
            "model",
            "ownership",
            "shard",
            "wire",
        ],
    ),
    (
        "src",
        "cli",
        &[
            "clock",
            "client",
            "cron",
            "embedded",
            "model",
            "ownership",
            "runtime",
            "wire",
        ],
    ),
    // Tests alone.
    (
        "src",
        "call_failures",
        &[
            "client",
            "controller",
            "election",
            "embedded",
            "informer",
            "machine",
            "metrics",
            "model",
            "ownership",
            "rate_limiter",
            "shard",
            "wire",
        ],
    ),
];

/// Crates by the names that other crates give to them as modules.
const CRATE_NAMES: &[&str] = &[
    "client", "clock", "cron", "embedded", "model", "record", "wire",
];

/// The folders of the API server, bottom up, with the other folders that they may use. As in its `mod.rs`.
const API_FOLDERS: &[(&str, &[&str])] = &[
    ("object", &[]),
    ("kinds", &["object"]),
    ("apply", &["object", "kinds"]),
    ("print", &["object"]),
    ("store", &["object"]),
    ("http", &["object", "kinds", "apply", "print"]),
    (
        "server",
        &["object", "kinds", "apply", "print", "store", "http"],
    ),
    ("faults", &["object", "print", "http"]),
];

/// Crates without I/O, clocks, threads or randomness.
const PURE_CRATES: &[&str] = &[
    "crates/model/src",
    "crates/core/src",
    "crates/record/src",
    "crates/wire/src",
];

/// Modules that are as pure, of crates that are not.
const PURE: &[(&str, &str)] = &[
    ("crates/controller/src", "machine"),
    ("crates/controller/src", "rate_limiter"),
    ("crates/controller/src", "informer"),
    ("crates/controller/src", "shard"),
    ("crates/controller/src", "controller"),
    ("crates/inspect/src", "failures"),
    ("crates/inspect/src", "words"),
    ("crates/embedded/src", "rng"),
    ("crates/embedded/src", "json"),
    ("crates/embedded/src", "request"),
    ("crates/embedded/src", "apiserver"),
    ("crates/embedded/src", "kubelet"),
    ("crates/embedded/src", "podgc"),
];

/// Text that a pure module must not contain.
const IMPURE: &[&str] = &[
    "tokio",
    "async fn",
    ".await",
    "std::net",
    "std::thread",
    "std::env",
    "std::fs",
    "std::process",
    "time::Instant",
    "Instant::now",
    "SystemTime",
    "parking_lot",
    "Mutex",
    "RwLock",
    "thread_rng",
    "getrandom",
    "RandomState",
    "kube::",
    "hyper",
    "println!",
];

/// Pure modules that may log.
const LOGS: &[&str] = &["informer", "shard", "controller"];

/// The only file that reads clocks.
const CLOCKS: &str = "crates/clock/src/lib.rs";

/// Leftovers that no file may contain.
const NOWHERE: &[&str] = &["TODO", "FIXME", "XXX", "dbg!(", "todo!(", "unimplemented!("];

struct File {
    path: String,
    /// The folder that was searched.
    folder: &'static str,
    module: String,
    text: String,
}

impl File {
    /// Lines of code with their numbers, without comments and the tests at the end.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self
            .text
            .find("#[cfg(test)]\nmod tests {")
            .unwrap_or(self.text.len());
        self.text[..tests]
            .lines()
            .zip(1..)
            .map(|(line, number)| (number, line.split("//").next().unwrap_or_default()))
    }
}

fn sources() -> Vec<File> {
    let files: Vec<File> = CRATES
        .iter()
        .flat_map(|folder| sources_below(folder))
        .collect();
    assert!(files.len() > 50, "only {} sources found", files.len());
    files
}

fn sources_below(top: &'static str) -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join(top)];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of ours can be read") {
            let path: PathBuf = entry.expect("an entry can be read").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let relative = path.strip_prefix(root).expect("below the root");
                let below = relative.strip_prefix(top).expect("below the folder");
                let module = below.components().next().expect("a name");
                let module = module.as_os_str().to_string_lossy().into_owned();
                files.push(File {
                    path: relative.display().to_string(),
                    folder: top,
                    module: module.trim_end_matches(".rs").to_owned(),
                    text: fs::read_to_string(&path).expect("a source can be read"),
                });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn is_ours(name: &str) -> bool {
    let mut modules = MAY_USE.iter().map(|(_, module, _)| *module);
    CRATE_NAMES.contains(&name) || modules.any(|module| module == name)
}

/// Modules that a module's own tests may use in addition, since they run against the embedded cluster.
const TESTS_MAY_USE: [&str; 2] = ["embedded", "ownership"];

fn is_test(file: &File) -> bool {
    file.path.ends_with("tests.rs") || file.path.contains("/tests/")
}

#[test]
fn modules_use_only_allowed_modules() {
    let mut wrong = Vec::new();
    for file in sources() {
        if file.module == "lib" || file.module == "main" {
            continue;
        }
        let row = MAY_USE
            .iter()
            .find(|(folder, module, _)| *folder == file.folder && *module == file.module);
        let more: &[&str] = if is_test(&file) { &TESTS_MAY_USE } else { &[] };
        let has_layers = MAY_USE.iter().any(|(folder, ..)| *folder == file.folder);
        let Some((_, _, allowed)) = row else {
            if !has_layers {
                continue;
            }
            wrong.push(format!(
                "{}: module {} is not in the table",
                file.path, file.module
            ));
            continue;
        };
        for (number, line) in file.code() {
            let inside = line.split("crate::").skip(1);
            for used in inside.chain(line.split("lakh_core::").skip(1)) {
                let name: String = used
                    .chars()
                    .take_while(|c| c.is_alphanumeric() || *c == '_')
                    .collect();
                let ours = is_ours(&name) && !more.contains(&name.as_str());
                if ours && name != file.module && !allowed.contains(&name.as_str()) {
                    wrong.push(format!(
                        "{}:{number}: {} may not use {name}",
                        file.path, file.module
                    ));
                }
            }
        }
        // In a `use crate::{a::.., b::..}` over several lines, each line names a module at its start.
        for block in file.text.split("use crate::{").skip(1) {
            let block = block.split("};").next().unwrap_or_default();
            for line in block.lines() {
                let indent = line.len() - line.trim_start().len();
                let name: String = line
                    .trim()
                    .chars()
                    .take_while(|c| c.is_alphanumeric())
                    .collect();
                let ours = is_ours(&name) && !more.contains(&name.as_str());
                if indent <= 4 && ours && name != file.module && !allowed.contains(&name.as_str()) {
                    wrong.push(format!("{}: {} may not use {name}", file.path, file.module));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Folders without dependency cycles between their files.
const API_SERVER: &str = "crates/embedded/src/apiserver";
const JOB_MACHINE: &str = "crates/core/src/decide";

/// The module path of a file below a folder.
fn module_below(folder: &str, file: &File) -> Vec<String> {
    let below = Path::new(&file.path)
        .strip_prefix(folder)
        .expect("a file of the folder");
    let mut path: Vec<String> = below
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    path.pop_if(|last| last == "mod");
    path
}

/// Expands a `use` without its keyword to one path for each name.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let parts = |path: &str| -> Vec<String> {
        let parts = path.split("::").map(str::trim);
        parts
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let Some((start, rest)) = tree.split_once('{') else {
        return Vec::from([parts(tree)]);
    };
    let inner = rest.rsplit_once('}').map_or(rest, |(inner, _)| inner);
    let mut depth = 0;
    let branches = inner.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    branches
        .filter(|branch| !branch.trim().is_empty())
        .flat_map(expand)
        .map(|branch| [parts(start), branch].concat())
        .collect()
}

/// The paths below a folder that a file of it uses.
fn uses_below(folder: &str, file: &File) -> Vec<Vec<String>> {
    let (_, own) = folder.rsplit_once('/').expect("a folder of a crate");
    let lines: Vec<&str> = file.code().map(|(_, line)| line).collect();
    let code = lines.join("\n");
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let children: BTreeSet<&str> = code
        .split("mod ")
        .skip(1)
        .filter_map(|rest| rest.split_once(';'))
        .map(|(name, _)| name)
        .collect();
    let mut paths = Vec::new();
    let mut rest = String::new();
    for statement in code.split_inclusive(';') {
        let statement = statement.trim_end_matches(';').trim();
        let used = statement.rsplit_once("use ").filter(|(before, tree)| {
            let is_word = before.is_empty() || before.ends_with(['\n', ' ']);
            is_word && tree.starts_with(char::is_alphabetic)
        });
        rest.push_str(used.map_or(statement, |(before, _)| before));
        rest.push(';');
        paths.extend(used.into_iter().flat_map(|(_, tree)| expand(tree)));
    }
    let inline = rest.split(|c| !is_name(c));
    paths.extend(inline.filter(|word| word.contains("::")).flat_map(expand));
    let module = module_below(folder, file);
    let below = paths.into_iter().filter_map(|path| {
        let ups = path.iter().take_while(|part| *part == "super").count();
        match path.first()?.as_str() {
            "super" => {
                let kept = module.len().checked_sub(ups)?;
                Some([&module[..kept], &path[ups..]].concat())
            }
            "crate" if path.get(1)? == own => Some(path[2..].to_vec()),
            "self" => Some([&module, &path[1..]].concat()),
            child if children.contains(child) => Some([module.clone(), path].concat()),
            _ => None,
        }
    });
    below.collect()
}

fn sources_of(folder: &'static str, at_least: usize) -> Vec<File> {
    let (top, module) = folder.rsplit_once('/').expect("a folder of a crate");
    let mut files = sources_below(top);
    files.retain(|file| file.module == module && !is_test(file));
    assert!(files.len() > at_least, "only {} sources found", files.len());
    files
}

#[test]
fn folders_of_the_api_server_use_only_allowed_folders() {
    let mut wrong = Vec::new();
    for file in sources_of(API_SERVER, 50) {
        let module = module_below(API_SERVER, &file);
        // The root has no code, only public names.
        let Some(own) = module.first() else { continue };
        let Some((_, allowed)) = API_FOLDERS.iter().find(|(folder, _)| folder == own) else {
            wrong.push(format!("{}: {own} is not in the table", file.path));
            continue;
        };
        for used in uses_below(API_SERVER, &file) {
            let name = used.first().map_or("the root", String::as_str);
            if name != own && !allowed.contains(&name) {
                let used = used.join("::");
                wrong.push(format!("{}: {own} may not use {used}", file.path));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn files_of_the_api_server_use_each_other_in_no_circle() {
    let left = circles(API_SERVER, &sources_of(API_SERVER, 50), 150);
    assert!(left.is_empty(), "in circles:\n{}", left.join("\n"));
}

#[test]
fn files_of_the_job_machine_use_each_other_in_no_circle() {
    let left = circles(JOB_MACHINE, &sources_of(JOB_MACHINE, 20), 50);
    assert!(left.is_empty(), "in circles:\n{}", left.join("\n"));
}

/// Returns the modules of a folder that depend on each other in cycles, directly or indirectly.
fn circles(folder: &str, files: &[File], least_uses: usize) -> Vec<String> {
    let module_of = |file: &File| module_below(folder, file);
    let modules: BTreeSet<Vec<String>> = files.iter().map(module_of).collect();
    let mut uses: BTreeMap<Vec<String>, BTreeSet<Vec<String>>> = BTreeMap::new();
    for file in files {
        let module = module_of(file);
        let named = uses_below(folder, file).into_iter().filter_map(|path| {
            let mut lengths = (1..=path.len()).rev();
            let length = lengths.find(|length| modules.contains(&path[..*length]))?;
            Some(path[..length].to_vec())
        });
        let others = named.filter(|other| *other != module).collect();
        uses.insert(module, others);
    }
    let arrows: usize = uses.values().map(BTreeSet::len).sum();
    assert!(arrows > least_uses, "only {arrows} uses found");
    // Drops modules without dependencies or without dependents, as long as there are any: cycles stay.
    loop {
        let before = uses.len();
        let left: BTreeSet<Vec<String>> = uses.keys().cloned().collect();
        uses.retain(|_, others| others.iter().any(|other| left.contains(other)));
        let used: BTreeSet<Vec<String>> = uses.values().flatten().cloned().collect();
        uses.retain(|module, _| used.contains(module));
        if uses.len() == before {
            break;
        }
    }
    uses.keys().map(|module| module.join("::")).collect()
}

/// Two files that call each other's methods of one type are one unit, split only by length.
#[test]
fn methods_of_the_job_machine_call_each_other_across_files_one_way() {
    let files = sources_of(JOB_MACHINE, 20);
    let calls = |file: &File| -> BTreeSet<String> {
        let lines = file
            .code()
            .flat_map(|(_, line)| line.split("self.").skip(1));
        let called = lines.filter_map(|rest| rest.split_once('(').map(|(name, _)| name));
        called
            .filter(|name| is_word(name))
            .map(str::to_owned)
            .collect()
    };
    let methods = |file: &File| -> BTreeMap<String, BTreeSet<String>> {
        let mut of_types: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut owner = None;
        for (_, line) in file.code() {
            if let Some(rest) = line.strip_prefix("impl ") {
                let name: String = rest.chars().take_while(|c| is_letter(*c)).collect();
                owner = Some(name);
            } else if line.starts_with('}') {
                owner = None;
            } else if let (Some(owner), Some((_, rest))) = (&owner, line.split_once("fn "))
                && line.starts_with("    ")
            {
                let name = rest.chars().take_while(|c| is_letter(*c)).collect();
                of_types.entry(owner.clone()).or_default().insert(name);
            }
        }
        of_types
    };
    let known: Vec<_> = files
        .iter()
        .map(|file| (file, calls(file), methods(file)))
        .collect();
    let found: usize = known.iter().map(|(_, calls, _)| calls.len()).sum();
    assert!(found > 50, "only {found} calls found");
    let (mut wrong, mut shared) = (Vec::new(), 0);
    for (one, one_calls, one_has) in &known {
        for (other, other_calls, other_has) in &known {
            for (owner, theirs) in other_has {
                let Some(ours) = one_has.get(owner).filter(|_| one.path < other.path) else {
                    continue;
                };
                shared += 1;
                let there: Vec<_> = one_calls.intersection(theirs).collect();
                let back: Vec<_> = other_calls.intersection(ours).collect();
                if !there.is_empty() && !back.is_empty() {
                    let (one, other) = (&one.path, &other.path);
                    wrong.push(format!("{owner}: {one} {there:?}, {other} {back:?}"));
                }
            }
        }
    }
    assert!(shared > 0, "no type has methods in two files");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_letter)
}

/// Maximum number of fields. A larger type should be two types.
const MOST_FIELDS: usize = 15;

#[test]
fn types_of_the_job_machine_have_few_fields() {
    let (mut types, mut wrong) = (0, Vec::new());
    for file in sources_of(JOB_MACHINE, 20) {
        let mut lines = file.code();
        while let Some((number, line)) = lines.next() {
            if !line.contains("struct ") || !line.trim_end().ends_with('{') {
                continue;
            }
            let body = lines.by_ref().take_while(|(_, line)| *line != "}");
            let is_field = |line: &str| {
                let line = line.strip_prefix("    ").unwrap_or_default();
                let (name, _) = line.split_once(": ").unwrap_or_default();
                is_word(name.rsplit(' ').next().unwrap_or_default())
            };
            let fields = body.filter(|(_, line)| is_field(line)).count();
            types += 1;
            if fields > MOST_FIELDS {
                wrong.push(format!("{}:{number}: {fields} fields", file.path));
            }
        }
    }
    assert!(types > 20, "only {types} types found");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn pure_modules_are_pure() {
    let mut wrong = Vec::new();
    for file in sources().iter().filter(|file| {
        let is_pure = PURE.contains(&(file.folder, file.module.as_str()));
        PURE_CRATES.contains(&file.folder) || (is_pure && !is_test(file))
    }) {
        for (number, line) in file.code() {
            let logs =
                file.folder != "crates/controller/src" || !LOGS.contains(&file.module.as_str());
            let words = IMPURE.iter().chain(logs.then_some(&"tracing::"));
            for word in words.filter(|word| line.contains(**word)) {
                wrong.push(format!("{}:{number}: {word}", file.path));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn clocks_are_read_in_one_place() {
    let mut wrong = Vec::new();
    for file in sources().iter().filter(|file| file.path != CLOCKS) {
        for (number, line) in file.code() {
            let reads = line.contains("Instant::now") || line.contains("SystemTime::now");
            // Only tests may construct a clock reading.
            if reads || (line.contains("Now::at(") && !is_test(file)) {
                wrong.push(format!("{}:{number}", file.path));
            }
        }
    }
    assert!(wrong.is_empty(), "clocks are read in\n{}", wrong.join("\n"));
}

#[test]
fn every_file_has_a_header() {
    let mut wrong = Vec::new();
    for file in sources() {
        if !file.text.starts_with("//! ") {
            wrong.push(format!("{}: no header", file.path));
        }
        for (line, number) in file.text.lines().zip(1..) {
            for word in NOWHERE.iter().filter(|word| line.contains(**word)) {
                wrong.push(format!("{}:{number}: {word}", file.path));
            }
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

/// Cargo does not build a file in a test folder that no `mod` declares, and does not report it.
#[test]
fn every_file_of_tests_is_built() {
    let files = sources_below("tests");
    let mut wrong = Vec::new();
    for file in &files {
        let mut module = Path::new(&file.path).with_extension("");
        if module.ends_with("main") {
            continue;
        }
        if module.ends_with("mod") {
            module.pop();
        }
        let folder = module.parent().expect("below tests");
        if folder == Path::new("tests") {
            continue;
        }
        let parents = ["main.rs", "mod.rs"].map(|name| folder.join(name));
        let name = module.file_name().expect("a name").to_string_lossy();
        let named = format!("mod {name};");
        let names_it = |parent: &File| {
            parents.iter().any(|path| path == Path::new(&parent.path))
                && parent.text.lines().any(|line| {
                    let line = line.trim_start_matches("pub(crate) ");
                    line.trim_start_matches("pub ") == named
                })
        };
        if !files.iter().any(names_it) {
            wrong.push(format!("{}: {named} is missing", file.path));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

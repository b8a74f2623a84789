//! Runs a document's commands in a folder with the files that they need, with stand-ins for programs, and with a
//! cluster.
//!
//! Must not: know the documents.

#![allow(clippy::print_stdout, reason = "what was left out must be said")]

use std::{
    fs::{self, Permissions},
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    process::Command,
};

use tempfile::TempDir;

use crate::support::{self, manifests::objects, project, serving::Serving};

use super::{
    blocks::{Block, blocks},
    pretenders::PRETENDERS,
};

/// Programs that may be missing. Commands that need a missing one are skipped.
const OPTIONAL: &[&str] = &["helm", "kubectl", "promtool"];

/// The prerequisites of a document.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Needs {
    /// The document.
    pub(super) page: &'static str,
    /// Flags of the cluster.
    pub(super) cluster: &'static [&'static str],
    /// Script that runs before the document's commands.
    pub(super) before: &'static str,
    /// Replacements: text of the document, and the text used here.
    pub(super) puts: &'static [(&'static str, &'static str)],
    /// File to which the first YAML block of the document is written.
    pub(super) file: Option<&'static str>,
    /// The output depends on more than the commands.
    pub(super) prints_otherwise: bool,
}

/// A cluster and a folder in which one document's commands run. Both are removed on drop.
pub(super) struct Stage {
    folder: TempDir,
    cluster: Serving,
    api: String,
    probes: u16,
    needs: Needs,
}

impl Stage {
    pub(super) fn new(needs: Needs) -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let path = folder.path();
        for (name, _, script) in PRETENDERS {
            let file = path.join("pretenders").join(name);
            fs::create_dir_all(path.join("pretenders")).expect("a folder");
            let script = format!("#!/bin/bash\nset -e\nPATH=\"${{PATH#*:}}\"\n{script}\n");
            // Stand-ins that call each other need their folder on the path.
            let script = script.replace("exec lakh", "PATH=\"$PRETENDERS:$PATH\" exec lakh");
            fs::write(&file, script).expect("it can be written");
            fs::set_permissions(&file, Permissions::from_mode(0o755)).expect("it is ours");
        }
        fs::create_dir_all(path.join("target/release")).expect("a folder");
        let loadtest = path.join("pretenders/lakh-loadtest");
        symlink(loadtest, path.join("target/release/lakh-loadtest")).expect("a link");
        // A copy, so that commands do not write into the project's own files.
        let copied = Command::new("cp")
            .args(["-r", &project("deploy"), &project("examples")])
            .args([&project("loadtest")])
            .arg(path)
            .status();
        assert!(copied.expect("cp runs").success());
        let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let probes = free.local_addr().expect("an address").port();
        drop(free);
        let listen = format!("--listen=127.0.0.1:{probes}");
        let cluster = Serving::start_with(&[&[listen.as_str()], needs.cluster].concat());
        fs::create_dir(path.join(".kube")).expect("a folder");
        let config = fs::read_to_string(cluster.kubeconfig()).expect("it is there");
        fs::write(path.join(".kube/config"), &config).expect("it can be written");
        let (_, rest) = config.split_once("127.0.0.1:").expect("an address");
        let api = rest.chars().take_while(char::is_ascii_digit).collect();
        Self {
            folder,
            cluster,
            api,
            probes,
            needs,
        }
    }

    /// Runs a document's commands from its beginning to its end. Returns the number of blocks.
    pub(super) fn play(&self) -> usize {
        let page = self.needs.page;
        let text = fs::read_to_string(project(page)).expect("it can be read");
        let blocks = blocks(&text);
        if let Some(file) = self.needs.file {
            let mut yaml = blocks.iter().filter(|block| block.language == "yaml");
            let first = &yaml.next().expect("YAML").text;
            fs::write(self.folder.path().join(file), self.put(first)).expect("it is written");
        }
        if is_left_out(self.needs.before) {
            return 0;
        }
        self.run(self.needs.before, page);
        let mut played = 0;
        for block in blocks.iter().filter(|block| block.has_commands()) {
            played += usize::from(self.play_block(block));
        }
        played
    }

    fn play_block(&self, block: &Block) -> bool {
        let session = block.session();
        if is_left_out(&session.script) {
            return false;
        }
        let place = format!("{}:{}", self.needs.page, block.line);
        let (output, errors) = self.run(&self.put(&session.script), &place);
        let printed = output.clone() + &errors;
        if !self.needs.prints_otherwise {
            let lines: Vec<String> = printed.lines().map(|line| masked(line.trim())).collect();
            for line in &session.printed {
                let is_there = lines.contains(&masked(line));
                assert!(is_there, "{place}: {line:?} is not in\n{printed}");
            }
        }
        let installs = ["image.repository=", "overlays/", "apply -k"]
            .iter()
            .any(|words| block.text.contains(words))
            && !block.text.contains("delete -k");
        let found = if installs { images(&output) } else { vec![] };
        let built = format!("registry.example.com/lakh:{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(found, vec![built; usize::from(installs)], "{place}");
        true
    }

    fn put(&self, text: &str) -> String {
        let puts = self.needs.puts.iter();
        puts.fold(text.to_owned(), |text, (old, new)| text.replace(old, new))
    }

    /// Runs a script, which must succeed. Returns its standard output and error output.
    fn run(&self, script: &str, place: &str) -> (String, String) {
        let folder = self.folder.path();
        let pretenders = folder.join("pretenders").display().to_string();
        let path = std::env::var("PATH").expect("a PATH");
        let own = folder.join(".local/bin");
        fs::create_dir_all(&own).expect("a folder");
        let own = own.display();
        // Background processes end with the script.
        let script = format!("trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}");
        let output = Command::new("bash")
            .args(["-e", "-o", "pipefail", "-c", &script])
            .current_dir(folder)
            .env("PATH", format!("{pretenders}:{own}:{path}"))
            .env("PRETENDERS", pretenders)
            .env("HOME", folder)
            .env("KUBECONFIG", self.cluster.kubeconfig())
            .env("LAKH", env!("CARGO_BIN_EXE_lakh"))
            .env("PROJECT", project("."))
            .env("API", &self.api)
            .env("PROBES", self.probes.to_string())
            .output()
            .expect("bash runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (printed, errors) = (text(&output.stdout), text(&output.stderr));
        let is_good = output.status.success();
        assert!(is_good, "{place}:\n{script}\n{printed}{errors}");
        (printed, errors)
    }
}

/// Masks the numbers of a line, as they vary between runs.
fn masked(line: &str) -> String {
    let mut masked = String::new();
    for letter in line.chars() {
        match letter.is_ascii_digit() {
            true if masked.ends_with('#') => {}
            true => masked.push('#'),
            false => masked.push(letter),
        }
    }
    masked
}

/// Returns true if a script needs a program that is missing, and prints a notice.
fn is_left_out(script: &str) -> bool {
    let is_there = |program: &str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
    };
    let needed = OPTIONAL.iter().filter(|program| script.contains(**program));
    let missing: Vec<&&str> = needed.filter(|program| !is_there(program)).collect();
    if !missing.is_empty() {
        println!("{missing:?} not installed: skipped {script}");
    }
    !missing.is_empty()
}

/// Returns the images of the Deployments in a YAML text.
fn images(text: &str) -> Vec<String> {
    let deployments = objects(text)
        .into_iter()
        .filter(|object| object.kind == "Deployment");
    let image = |object: lakh::embedded::manifest::Document| {
        let image = &object.body["spec"]["template"]["spec"]["containers"][0]["image"];
        image.as_str().expect("an image").to_owned()
    };
    deployments.map(image).collect()
}

/// Every stand-in has a reason, and some document needs it.
#[test]
fn stand_ins_are_needed() {
    let texts = super::documents();
    let scripts: String = texts
        .iter()
        .flat_map(|page| blocks(&fs::read_to_string(project(page)).expect("it can be read")))
        .filter(Block::has_commands)
        .map(|block| block.text)
        .collect();
    for (name, reason, _) in PRETENDERS {
        assert!(!reason.is_empty(), "{name}");
        let is_named = scripts.split_whitespace().any(|word| {
            let word = word.trim_start_matches("$(").trim_start_matches('(');
            word == *name || word.ends_with(&format!("/{name}"))
        });
        assert!(is_named, "no document has {name}");
    }
    assert!(support::lakh(&["--version"]).output().is_ok());
}

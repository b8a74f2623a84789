//! Extracts commands and their expected output from the code blocks of documents.
//!
//! A fence `sh` or `console` holds commands. If lines begin with `$ `, these are the commands and the other lines are
//! their output. Otherwise all lines are commands. Must not: run anything.

/// A fenced code block.
#[derive(Debug)]
pub(super) struct Block {
    /// The line of the opening fence.
    pub(super) line: usize,
    /// The language after the opening fence.
    pub(super) language: String,
    pub(super) text: String,
}

/// Commands and their expected output.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Session {
    pub(super) script: String,
    pub(super) printed: Vec<String>,
}

/// Returns all code blocks of a document, including blocks that are indented as a part of a list.
pub(super) fn blocks(document: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<(usize, Block)> = None;
    for (line, number) in document.lines().zip(1..) {
        let bare = line.trim_start();
        match (&mut open, bare.strip_prefix("```")) {
            (None, Some(language)) => {
                let block = Block {
                    line: number,
                    language: language.to_owned(),
                    text: String::new(),
                };
                open = Some((line.len() - bare.len(), block));
            }
            (Some(_), Some(_)) => found.extend(open.take().map(|(_, block)| block)),
            (Some((indent, block)), None) => {
                block.text.push_str(line.get(*indent..).unwrap_or(bare));
                block.text.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a fence is open: {open:?}");
    found
}

impl Block {
    pub(super) fn has_commands(&self) -> bool {
        ["sh", "console"].contains(&self.language.as_str())
    }

    pub(super) fn session(&self) -> Session {
        let mut session = Session::default();
        if !self.text.lines().any(|line| line.starts_with("$ ")) {
            session.script.clone_from(&self.text);
            return session;
        }
        let mut goes_on = false;
        for line in self.text.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => session.script.push_str(command),
                None if goes_on => session.script.push_str(line),
                None => {
                    session.printed.push(line.trim().to_owned());
                    continue;
                }
            }
            session.script.push('\n');
            // No quoted text of the documents contains a quote of the other kind.
            let quotes = session.script.matches(['"', '\'']).count();
            goes_on = line.ends_with('\\') || quotes % 2 == 1;
        }
        session
    }
}

#[test]
fn commands_and_their_output_are_distinguished() {
    let text = "a\n```console\n$ b 'c\n  d' \\\n  e\nf 1\n$ g\n```\n1. x\n   ```sh\n   h\n     i\n   ```\n";
    let blocks = blocks(text);
    let languages: Vec<_> = blocks.iter().map(|it| (it.line, &*it.language)).collect();
    assert_eq!(languages, [(2, "console"), (10, "sh")]);
    assert_eq!(
        blocks[0].session(),
        Session {
            script: "b 'c\n  d' \\\n  e\ng\n".into(),
            printed: vec!["f 1".into()]
        }
    );
    assert_eq!(blocks[1].session().script, "h\n  i\n");
}

//! Adds tips to errors about invalid command lines: the word that was probably meant, or the right usage.
//!
//! Must not: accept anything that the parser refuses.

use clap::{
    CommandFactory as _, Error,
    error::{ContextKind, ContextValue, ErrorKind},
};
use strsim::osa_distance;

use super::args::Args;

/// Maximum edit distance at which a word counts as a typo of a known one.
const TYPO: usize = 2;

/// Commands of kubectl and other tools, and the command that does the same here.
const KNOWN: [(&[&str], &str); 5] = [
    (
        &["get", "list", "ls", "ps", "jobs"],
        "'lakh top' shows all Jobs, 'lakh status JOB' shows one",
    ),
    (
        &["describe", "show", "explain"],
        "'lakh status JOB' shows a Job, 'lakh why JOB' explains why it makes no progress",
    ),
    (
        &["logs", "log"],
        "'kubectl logs POD' shows a Pod's log; 'lakh status JOB' lists the Pods that failed",
    ),
    (
        &["run", "apply", "create", "start", "submit"],
        "'lakh local -f FILE' runs the Jobs of a file on an embedded cluster; 'kubectl apply -f FILE' on yours",
    ),
    (
        &["delete", "rm", "cancel", "kill", "stop"],
        "'kubectl delete job JOB' ends a Job",
    ),
];

/// Suggestions of the parser, which compares words by similarity of strings.
const OWN: [ContextKind; 3] = [
    ContextKind::SuggestedSubcommand,
    ContextKind::SuggestedArg,
    ContextKind::SuggestedValue,
];

/// Returns the error with our tip in place of the parser's, where ours is better or no tip is right. `words` are the
/// arguments, without the program's name.
pub(super) fn with_tip(mut error: Error, words: &[String]) -> Error {
    let tip = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            Some(subcommand(&text(&error, ContextKind::InvalidSubcommand)))
        }
        ErrorKind::UnknownArgument => {
            let argument = text(&error, ContextKind::InvalidArg);
            argument_of(words, &argument).map(Some)
        }
        ErrorKind::InvalidValue => {
            let value = text(&error, ContextKind::InvalidValue);
            let suggested = text(&error, ContextKind::SuggestedValue);
            let is_far = osa_distance(&value, &suggested) > TYPO.min(value.len() / 3).max(1);
            is_far.then_some(None)
        }
        _ => None,
    };
    let Some(tip) = tip else {
        return error;
    };
    for kind in OWN {
        error.remove(kind);
    }
    if let Some(tip) = tip {
        let tips = ContextValue::StyledStrs(vec![tip.into()]);
        error.insert(ContextKind::Suggested, tips);
    }
    error
}

/// Returns a word of the error's context; empty if there is none.
fn text(error: &Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.first().cloned().unwrap_or_default(),
        _ => String::new(),
    }
}

/// Suggests a command in place of an unknown one.
fn subcommand(word: &str) -> Option<String> {
    let commands = Args::command();
    let commands = commands.get_subcommands().map(|command| {
        let name = command.get_name().to_owned();
        let tip = format!("there is a command '{name}'");
        (name, tip)
    });
    let others = KNOWN.iter();
    let others = others
        .flat_map(|(words, tip)| words.iter().map(|it| ((*it).to_owned(), (*tip).to_owned())));
    let near = commands
        .chain(others)
        .map(|(known, tip)| (osa_distance(word, &known), tip));
    // A short word is near to many.
    let near = near.filter(|(distance, _)| *distance <= TYPO.min(word.len() / 2));
    near.min_by_key(|(distance, _)| *distance)
        .map(|(_, tip)| tip)
}

/// Suggests the right usage in place of an argument that the command does not know.
fn argument_of(words: &[String], argument: &str) -> Option<String> {
    let mut commands = words
        .iter()
        .map(String::as_str)
        .filter(|word| !word.starts_with('-'));
    match commands.next()? {
        _ if argument.starts_with('-') => None,
        "local" => Some(format!("pass files with -f: lakh local -f {argument}")),
        "cron" => {
            let command = commands.next().unwrap_or("next");
            Some(format!(
                "put the schedule into quotes: lakh cron {command} '*/5 * * * *'"
            ))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// Returns the message for a command line.
    fn refused(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let all = std::iter::once("lakh".to_owned()).chain(words.clone());
        let error = Args::try_parse_from(all).expect_err(line);
        with_tip(error, &words).to_string()
    }

    #[test]
    fn a_command_that_is_not_there_gets_the_tip_that_helps() {
        for (line, tip) in [
            ("run", "tip: 'lakh local -f FILE' runs"),
            ("rnu", "tip: 'lakh local -f FILE' runs"),
            ("get jobs", "tip: 'lakh top' shows all Jobs"),
            ("logs x", "tip: 'kubectl logs POD'"),
            ("describe x", "tip: 'lakh status JOB' shows"),
            ("delete x", "tip: 'kubectl delete job JOB'"),
            ("statsu x", "tip: there is a command 'status'"),
            ("docter", "tip: there is a command 'doctor'"),
            ("verison", "tip: there is a command 'version'"),
        ] {
            let said = refused(line);
            assert!(said.contains(tip), "{line}: {said}");
            assert!(!said.contains("similar"), "{line}: {said}");
        }
        for line in ["frobnicate", "zz"] {
            assert!(!refused(line).contains("tip:"), "{line}");
        }
    }

    #[cfg(feature = "embedded")]
    #[test]
    fn a_file_without_its_flag() {
        let said = refused("local job.yaml");
        assert!(
            said.contains("tip: pass files with -f: lakh local -f job.yaml"),
            "{said}"
        );
    }

    #[test]
    fn a_schedule_without_quotes() {
        let said = refused("cron next * CHANGELOG.md *");
        assert!(
            said.contains("tip: put the schedule into quotes: lakh cron next '"),
            "{said}"
        );
    }

    #[test]
    fn only_a_value_that_is_near_is_suggested() {
        assert!(!refused("status x -o xml").contains("tip:"));
        for near in ["jsno", "yml", "jso"] {
            assert!(
                refused(&format!("status x -o {near}")).contains("tip:"),
                "{near}"
            );
        }
        // The parser's own tips stay where they help.
        assert!(refused("status x --wach").contains("--watch"));
    }
}

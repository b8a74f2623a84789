//! Holds the page's files, which are embedded in the program.
//!
//! Must not: depend on the client; the files have no data of the cluster.

const SCRIPT: &str = "text/javascript; charset=utf-8";

const STYLE: &str = "text/css; charset=utf-8";

const PAGE: &str = "text/html; charset=utf-8";

/// Name, content type and text of each file.
const FILES: [(&str, &str, &str); 17] = [
    ("page.html", PAGE, include_str!("page/page.html")),
    ("page.css", STYLE, include_str!("page/page.css")),
    ("page.js", SCRIPT, include_str!("page/page.js")),
    ("common.js", SCRIPT, include_str!("page/common.js")),
    ("address.js", SCRIPT, include_str!("page/address.js")),
    ("listen.js", SCRIPT, include_str!("page/listen.js")),
    ("times.js", SCRIPT, include_str!("page/times.js")),
    ("facts.js", SCRIPT, include_str!("page/facts.js")),
    ("table.js", SCRIPT, include_str!("page/table.js")),
    ("jobs.js", SCRIPT, include_str!("page/jobs.js")),
    ("cron_jobs.js", SCRIPT, include_str!("page/cron_jobs.js")),
    ("job.js", SCRIPT, include_str!("page/job.js")),
    ("map.js", SCRIPT, include_str!("page/map.js")),
    ("pods.js", SCRIPT, include_str!("page/pods.js")),
    ("rate.js", SCRIPT, include_str!("page/rate.js")),
    ("failures.js", SCRIPT, include_str!("page/failures.js")),
    ("login.js", SCRIPT, include_str!("page/login.js")),
];

/// Returns the content type and the text of the page.
pub(super) fn page() -> (&'static str, &'static str) {
    let [(_, kind, text), ..] = FILES;
    (kind, text)
}

/// Returns a file by its name.
pub(super) fn of_name(name: &str) -> Option<(&'static str, &'static str)> {
    let found = FILES.into_iter().find(|(known, ..)| *known == name);
    found.map(|(_, kind, text)| (kind, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loaded_file_exists() {
        let texts = FILES.iter().map(|(.., text)| *text);
        let loaded = texts.flat_map(|text| text.split('"'));
        let mut loaded: Vec<&str> = loaded
            .filter_map(|word| word.strip_prefix("/ui/").or(word.strip_prefix("./")))
            .collect();
        loaded.sort_unstable();
        loaded.dedup();
        let names: Vec<&str> = loaded.into_iter().filter(|it| it.contains('.')).collect();
        assert!(names.len() >= FILES.len() - 1, "{names:?}");
        for name in names {
            assert!(of_name(name).is_some(), "{name}");
        }
    }
}

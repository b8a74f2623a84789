//! Renders the page: one self-contained file for one report or two.
//!
//! Style and script are files beside this one. The script draws the reports, which the page holds as JSON.

use serde_json::{Value, json};

use super::Report;

/// Renders a page of reports, each with its letter.
pub(super) fn page(reports: &[(&str, &Report)]) -> Result<String, serde_json::Error> {
    let mut runs: Vec<Value> = Vec::new();
    for (letter, report) in reports {
        let figures = report.figures().into_iter();
        let figures: Vec<Value> = figures
            .map(
                |figure| json!({"name": figure.name, "told": figure.shown(), "value": figure.value}),
            )
            .collect();
        runs.push(json!({
            "letter": letter,
            "report": serde_json::to_value(report)?,
            "figures": figures,
        }));
    }
    // The data must not close its script element.
    let data = Value::from(runs).to_string().replace("</", "<\\/");
    let titles: Vec<String> = reports
        .iter()
        .map(|(_, report)| format!("{}, {} Pods", report.scenario, report.settings.size))
        .collect();
    let page = include_str!("page.html")
        .replace("{{title}}", &titles.join(" / "))
        .replace("{{style}}", include_str!("page.css"))
        .replace("{{script}}", include_str!("page.js"));
    // The data goes in last, so that placeholders inside reports are not replaced.
    Ok(page.replace("{{data}}", &data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn a_page_needs_nothing_but_itself() {
        let mut report = example();
        report.settings.controller_flags = vec!["</script>{{style}}".into()];
        let page = page(&[("", &report)]).expect("a report is JSON");
        for outside in ["src=", "href=", "@import", "url(", "fetch("] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.contains("<\\/script>{{style}}"));
    }
}

//! Compares two reports side by side, with ratios: as text, and optionally as a page.

use std::{error::Error, fmt::Write as _, fs, path::PathBuf};

use super::{Figure, Report, page};

#[derive(Debug, clap::Args)]
pub(crate) struct CompareArgs {
    /// First report.json, the base of the ratios.
    a: PathBuf,
    /// Second report.json.
    b: PathBuf,
    /// Path to write a page with both reports to.
    #[arg(long, value_name = "PATH")]
    html: Option<PathBuf>,
}

/// A figure of one report or of both.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    a: Option<Figure>,
    b: Option<Figure>,
}

impl Row {
    /// Returns B divided by A; none if A is zero or a figure is missing.
    fn ratio(&self) -> Option<f64> {
        let (a, b) = (self.a.as_ref()?, self.b.as_ref()?);
        (a.value != 0.0).then(|| b.value / a.value)
    }
}

/// Returns the comparison as text; writes the page if requested.
pub(crate) fn compare(args: &CompareArgs) -> Result<String, Box<dyn Error>> {
    let (a, b) = (Report::read(&args.a)?, Report::read(&args.b)?);
    if let Some(path) = &args.html {
        fs::write(path, page::page(&[("A", &a), ("B", &b)])?)?;
    }
    Ok(text(&a, &b)?)
}

fn text(a: &Report, b: &Report) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for (name, report) in [("A", a), ("B", b)] {
        let settings = &report.settings;
        writeln!(
            text,
            "{name}: {} by {}, {} Pods, parallelism {}, {} ms added to calls, {}",
            report.scenario,
            settings.controller,
            settings.size,
            settings.parallelism,
            settings.call_latency_ms,
            report.started,
        )?;
    }
    writeln!(text, "{:<44} {:>14} {:>14} {:>8}", "", "A", "B", "B/A")?;
    for row in rows(a, b) {
        let shown = |figure: &Option<Figure>| figure.as_ref().map_or("-".into(), Figure::shown);
        let ratio = row
            .ratio()
            .map_or("-".into(), |ratio| format!("{ratio:.2}"));
        let (a, b) = (shown(&row.a), shown(&row.b));
        writeln!(text, "{:<44} {a:>14} {b:>14} {ratio:>8}", row.name)?;
    }
    Ok(text)
}

/// Returns the figures of both, in the order of the first, then those that only the second has.
fn rows(a: &Report, b: &Report) -> Vec<Row> {
    let (a, mut others) = (a.figures(), b.figures());
    let mut rows = Vec::new();
    for figure in a {
        let at = others.iter().position(|other| other.name == figure.name);
        rows.push(Row {
            name: figure.name.clone(),
            a: Some(figure),
            b: at.map(|at| others.remove(at)),
        });
    }
    rows.extend(others.into_iter().map(|figure| Row {
        name: figure.name.clone(),
        a: None,
        b: Some(figure),
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn ratios_are_of_the_second_to_the_first() {
        let a = example();
        let mut b = example();
        b.wall_seconds = 1.0;
        b.processes[0].name = "other".into();
        let rows = rows(&a, &b);
        let row = |name: &str| rows.iter().find(|row| row.name == name).expect(name);
        assert_eq!(row("wall time").ratio(), Some(0.25));
        assert_eq!(row("CPU, controller").ratio(), None);
        assert!(row("CPU, other").a.is_none());
        let text = text(&a, &b).expect("it is written");
        let line = text.lines().find(|line| line.starts_with("wall time"));
        let words: Vec<&str> = line.expect("a line").split_whitespace().collect();
        assert_eq!(words, ["wall", "time", "4.00", "s", "1.00", "s", "0.25"]);
    }

    #[test]
    fn both_are_on_one_page() {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        example().write(folder.path()).expect("it is written");
        let report = folder.path().join("report.json");
        let page = folder.path().join("compare.html");
        let args = CompareArgs {
            a: report.clone(),
            b: report,
            html: Some(page.clone()),
        };
        assert!(compare(&args).expect("both are read").contains("1.00"));
        let page = fs::read_to_string(page).expect("it is there");
        assert_eq!(page.matches("\"scenario\":\"indexed\"").count(), 2);
    }
}

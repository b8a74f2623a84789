//! Chooses and writes the text format of `/metrics`: OpenMetrics for a scraper that asks for it, else Prometheus' older
//! text format, as kube-controller-manager does.

use std::fmt::Write as _;

/// The text formats in which metrics can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposition {
    /// <https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format>
    Text,
    /// <https://prometheus.io/docs/specs/om/open_metrics_spec/>
    OpenMetrics,
}

impl Exposition {
    /// Returns the format that an `Accept` header prefers; the older one if it prefers none.
    pub fn preferred_by(accept: &str) -> Self {
        let mut best = (0.0, Self::Text);
        for range in accept.split(',') {
            let mut parts = range.split(';').map(str::trim);
            let format = match parts.next() {
                Some("application/openmetrics-text") => Self::OpenMetrics,
                Some("text/plain" | "text/*" | "*/*") => Self::Text,
                _ => continue,
            };
            let quality = parts.find_map(|part| part.strip_prefix("q="));
            let quality = quality.map_or(1.0, |quality| quality.parse().unwrap_or(0.0));
            if quality > best.0 {
                best = (quality, format);
            }
        }
        best.1
    }

    /// Returns the media type for the `Content-Type` header.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Rewrites metrics in OpenMetrics' format to this one.
    pub fn write(self, open_metrics: String) -> String {
        match self {
            Self::OpenMetrics => open_metrics,
            Self::Text => to_text(&open_metrics),
        }
    }
}

/// Converts OpenMetrics to the older format. They differ in the names and kinds of families, and in the last line.
/// `# HELP` comes before `# TYPE`, so it is held back until the kind is known.
fn to_text(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = None;
    for line in open_metrics.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", "counter"),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                kind => ("", kind),
            };
            if let Some((_, words)) = help.take().filter(|(of, _)| *of == name) {
                // Writing to a string does not fail.
                let _ = writeln!(text, "# HELP {name}{suffix} {words}");
            }
            let _ = writeln!(text, "# TYPE {name}{suffix} {kind}");
        } else if line.starts_with('#') {
            // `# UNIT` and `# EOF` are OpenMetrics' own.
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_the_one_that_the_scraper_prefers() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, format) in [
            ("", Exposition::Text),
            ("*/*", Exposition::Text),
            ("text/plain;version=0.0.4", Exposition::Text),
            (prometheus, Exposition::OpenMetrics),
            ("application/openmetrics-text", Exposition::OpenMetrics),
            (
                "application/openmetrics-text;q=0.2, text/plain;q=0.9",
                Exposition::Text,
            ),
            ("application/json", Exposition::Text),
        ] {
            assert_eq!(Exposition::preferred_by(accept), format, "{accept}");
        }
    }

    #[test]
    fn the_older_format_has_the_names_of_samples_as_names_of_families() {
        let open_metrics = "\
# HELP turns Turns of Jobs.
# TYPE turns counter
turns_total{kind=\"a # b\"} 3
# HELP build Build.
# TYPE build info
build_info{version=\"1\"} 1
# HELP age_seconds Age.
# TYPE age_seconds gauge
# UNIT age_seconds seconds
age_seconds 7
# HELP took Took.
# TYPE took histogram
took_sum 1.5
took_count 1
took_bucket{le=\"+Inf\"} 1
# EOF
";
        let text = "\
# HELP turns_total Turns of Jobs.
# TYPE turns_total counter
turns_total{kind=\"a # b\"} 3
# HELP build_info Build.
# TYPE build_info gauge
build_info{version=\"1\"} 1
# HELP age_seconds Age.
# TYPE age_seconds gauge
age_seconds 7
# HELP took Took.
# TYPE took histogram
took_sum 1.5
took_count 1
took_bucket{le=\"+Inf\"} 1
";
        assert_eq!(Exposition::Text.write(open_metrics.to_owned()), text);
    }
}

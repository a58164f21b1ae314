//! Prometheus' text format.
//!
//! Of the crates that read it, `prometheus-parse` splits labels at each comma, also within a value,
//! and operations may have commas. Only samples are read here: no types, help or times.

/// A line with a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sample<'t> {
    pub(crate) name: &'t str,
    /// The labels as they stand there, which tell one series from another.
    pub(crate) series: &'t str,
    pub(crate) labels: Vec<(&'t str, String)>,
    pub(crate) value: f64,
}

impl Sample<'_> {
    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        let label = self.labels.iter().find(|(label, _)| *label == name);
        label.map(|(_, value)| value.as_str())
    }
}

/// Returns the samples of metrics whose names begin so; leaves out lines that cannot be read.
pub(crate) fn samples<'t>(text: &'t str, prefix: &str) -> impl Iterator<Item = Sample<'t>> {
    let lines = text.lines().map(str::trim);
    lines
        .filter(move |line| line.starts_with(prefix))
        .filter_map(sample)
}

fn sample(line: &str) -> Option<Sample<'_>> {
    let end = line.find(['{', ' ', '\t'])?;
    let (name, rest) = line.split_at(end);
    let (labels, series, rest) = match rest.strip_prefix('{') {
        None => (Vec::new(), "", rest),
        Some(inside) => {
            let (labels, rest) = labels(inside)?;
            (labels, &inside[..inside.len() - rest.len()], rest)
        }
    };
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample {
        name,
        series,
        labels,
        value,
    })
}

/// Reads labels up to the closing brace; returns them and what follows.
fn labels(mut text: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        text = text.trim_start_matches([' ', '\t', ',']);
        if let Some(rest) = text.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, rest) = text.split_once('=')?;
        let rest = rest.trim_start().strip_prefix('"')?;
        let (value, rest) = quoted(rest)?;
        labels.push((name.trim(), value));
        text = rest;
    }
}

/// Reads a value up to its closing quote, with the escapes `\\`, `\"` and `\n`.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => value.push('\n'),
                c => value.push(c),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_with_their_labels() {
        let text = r#"# HELP idem_waiters Runs
# TYPE idem_waiters gauge
idem_waiters 3
idem_decisions_total{operation="a,b=\"c\"}\\",decision="new"} 12 1700000000
idem_wait_seconds_bucket{ le = "+Inf" , } 4
other_total 1
idem_broken{operation="a
idem_empty
idem_text{a="b"} many
"#;
        let samples: Vec<_> = samples(text, "idem_").collect();
        assert_eq!(samples.len(), 3, "{samples:?}");
        assert_eq!((samples[0].name, samples[0].value), ("idem_waiters", 3.0));
        let decisions = &samples[1];
        assert_eq!(decisions.label("operation"), Some(r#"a,b="c"}\"#));
        assert_eq!(decisions.label("decision"), Some("new"));
        assert_eq!(decisions.value, 12.0);
        assert_eq!(samples[2].label("le"), Some("+Inf"));
        let bound: f64 = samples[2].label("le").unwrap().parse().unwrap();
        assert!(bound.is_infinite());
    }
}

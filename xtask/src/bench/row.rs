use serde::Deserialize;

/// On which side of its target a ratio has to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    AtLeast,
    AtMost,
}

/// What a contender comes to.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
}

/// One comparison, as the programs of `idem-benches` write it; a count, where it has a unit.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct Row {
    pub(crate) path: String,
    pub(crate) backend: String,
    pub(crate) callers: u64,
    pub(crate) ratio: f64,
    #[serde(default)]
    pub(crate) baseline: String,
    pub(crate) target: Option<f64>,
    pub(crate) bound: Option<Bound>,
    pub(crate) met: Option<bool>,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) unit: Option<String>,
    #[serde(default)]
    pub(crate) spread: Option<[f64; 2]>,
    #[serde(default)]
    pub(crate) idem: Option<Figures>,
    #[serde(default)]
    pub(crate) bare: Option<Figures>,
}

impl Row {
    /// Its ratio, or its count.
    pub(crate) fn value(&self) -> String {
        match &self.unit {
            Some(unit) => format!("{} {unit}", number(self.ratio)),
            None => number(self.ratio),
        }
    }

    /// From the worst repetition to the best.
    pub(crate) fn spread(&self) -> String {
        match self.spread {
            Some([low, high]) if low < high => format!("{}-{}", number(low), number(high)),
            _ => String::new(),
        }
    }

    /// `>= 0.90`; nothing where nothing is asked.
    pub(crate) fn target(&self) -> String {
        let Some(target) = self.target else {
            return String::new();
        };
        let sign = match self.bound.unwrap_or_else(|| self.side(target)) {
            Bound::AtLeast => ">=",
            Bound::AtMost => "<=",
        };
        format!("{sign} {}", number(target))
    }

    /// The side that agrees with the verdict, where the row does not say.
    fn side(&self, target: f64) -> Bound {
        if self.met.unwrap_or(true) == (self.ratio >= target) {
            Bound::AtLeast
        } else {
            Bound::AtMost
        }
    }
}

/// A ratio with two digits behind the point, and with three where it is small; a greater number with none.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => grouped(value),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// `12 345`.
fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) && digit != '-' {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(text: &str) -> Row {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_row_is_read_with_and_without_extras() {
        let full = row(
            r#"{"path":"claim_fresh","backend":"postgres","callers":64,"ratio":0.934,"baseline":"bare held",
                "target":0.9,"bound":"at_least","met":true,"reason":"","spread":[0.91,0.95],
                "idem":{"per_second":10350.4,"p50_us":600.0,"p99_us":1200.0},
                "bare":{"per_second":11080.0,"p50_us":null,"p99_us":null}}"#,
        );
        assert_eq!(full.value(), "0.93");
        assert_eq!(
            (full.target(), full.spread()),
            (">= 0.90".into(), "0.91-0.95".into())
        );
        let count = row(
            r#"{"path":"bytes_per_key","backend":"memory","callers":1,"ratio":412,"baseline":"","target":null,
                "met":null,"reason":"","unit":"bytes"}"#,
        );
        assert_eq!(
            (count.value(), count.target()),
            ("412 bytes".into(), String::new())
        );
    }

    #[test]
    fn a_row_that_names_no_side_is_on_that_of_its_verdict() {
        let side = |ratio: f64, met: bool| {
            let text = format!(
                r#"{{"path":"contended","backend":"redis","callers":64,"ratio":{ratio},"target":4.0,"met":{met}}}"#
            );
            row(&text).target()
        };
        assert_eq!([side(3.0, true), side(5.0, false)], ["<= 4.00", "<= 4.00"]);
        assert_eq!([side(3.0, false), side(5.0, true)], [">= 4.00", ">= 4.00"]);
    }

    #[test]
    fn numbers_have_as_many_digits_as_one_reads() {
        let all = [0.0, 0.012, 0.934, 2.5, 41.27, 412.0, 1_234_567.0].map(number);
        assert_eq!(
            all,
            ["0.00", "0.012", "0.93", "2.50", "41.3", "412", "1 234 567"]
        );
    }
}

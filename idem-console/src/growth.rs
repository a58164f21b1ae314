//! [`Growth`]: how many records the store has had since the console began.

use std::time::Duration;

use tokio::time::Instant;

/// Most points. When there are more, every second one goes.
const MOST: usize = 240;

/// A sample of the size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) at: Instant,
    pub(crate) records: u64,
    pub(crate) bytes: u64,
}

/// Points at growing distances, from the first sample to the latest.
#[derive(Debug, Clone, Default)]
pub(crate) struct Growth {
    points: Vec<Point>,
    distance: Duration,
}

impl Growth {
    pub(crate) fn add(&mut self, point: Point) {
        // The last point moves until it is far enough from the one before it.
        if let [.., before, last] = self.points.as_mut_slice()
            && last.at - before.at < self.distance
        {
            *last = point;
            return;
        }
        self.points.push(point);
        if self.points.len() > MOST {
            let mut number = 0;
            self.points.retain(|_| {
                number += 1;
                number % 2 == 1
            });
            if let [first, .., last] = self.points.as_slice() {
                self.distance = (last.at - first.at) / (MOST as u32 / 2);
            }
        }
    }

    pub(crate) fn points(&self) -> &[Point] {
        &self.points
    }
}

/// The line of a chart without axes.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Sparkline {
    /// The points of an SVG polyline.
    pub(crate) line: String,
    /// The points of the polygon below it.
    pub(crate) area: String,
}

/// The size of the chart's coordinates.
pub(crate) const WIDTH: f64 = 300.0;
pub(crate) const HEIGHT: f64 = 56.0;
/// Room above and below the line.
const MARGIN: f64 = 3.0;

/// Draws the values, by the seconds at which they were sampled; empty below two.
pub(crate) fn sparkline(values: &[(f64, f64)]) -> Sparkline {
    let (Some(first), Some(last)) = (values.first(), values.last()) else {
        return Sparkline::default();
    };
    let seconds = last.0 - first.0;
    if values.len() < 2 || seconds <= 0.0 {
        return Sparkline::default();
    }
    let least = values.iter().map(|(_, y)| *y).fold(f64::MAX, f64::min);
    let most = values.iter().map(|(_, y)| *y).fold(f64::MIN, f64::max);
    let range = (most - least).max(f64::MIN_POSITIVE);
    let point = |(x, y): &(f64, f64)| {
        let x = (x - first.0) / seconds * WIDTH;
        // A value that never changes is a line in the middle.
        let share = if most > least {
            (y - least) / range
        } else {
            0.5
        };
        let y = HEIGHT - MARGIN - share * (HEIGHT - 2.0 * MARGIN);
        format!("{x:.1},{y:.1}")
    };
    let line: Vec<String> = values.iter().map(point).collect();
    let line = line.join(" ");
    Sparkline {
        area: format!("0,{HEIGHT} {line} {WIDTH},{HEIGHT}"),
        line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_bounded_and_reach_from_the_first_to_the_latest() {
        let (mut growth, began) = (Growth::default(), Instant::now());
        for second in 0..50_000 {
            growth.add(Point {
                at: began + Duration::from_secs(second),
                records: second,
                bytes: 2 * second,
            });
        }
        let points = growth.points();
        assert!(
            (MOST / 2..=MOST).contains(&points.len()),
            "{}",
            points.len()
        );
        assert_eq!(points[0].records, 0);
        assert_eq!(points[points.len() - 1].records, 49_999);
        assert!(points.is_sorted_by_key(|point| point.at));
    }

    #[test]
    fn a_line_needs_two_points() {
        assert_eq!(sparkline(&[]), Sparkline::default());
        assert_eq!(sparkline(&[(0.0, 1.0)]), Sparkline::default());
        let rising = sparkline(&[(10.0, 0.0), (20.0, 5.0)]);
        assert_eq!(rising.line, "0.0,53.0 300.0,3.0");
        assert_eq!(rising.area, "0,56 0.0,53.0 300.0,3.0 300,56");
        assert_eq!(
            sparkline(&[(0.0, 7.0), (1.0, 7.0)]).line,
            "0.0,28.0 300.0,28.0"
        );
    }
}

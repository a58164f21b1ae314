//! Lines and letters.

use std::error::Error;
use std::ops::Range;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::panel::{Contender, Line, Panel, bounds};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn Error>>;

/// Panels in a line.
const ACROSS: usize = 3;
/// Width and height of a panel.
const PANEL: (u32, u32) = (330, 260);
const HEAD: u32 = 70;
const FONT: &str = "sans-serif";

/// What both axes reach over.
pub(super) struct Scale {
    callers: Range<f64>,
    values: Range<f64>,
    unit: &'static str,
}

impl Scale {
    /// Over all that is drawn, to the next power of ten; none if nothing is.
    pub(super) fn around(panels: &[Panel], unit: &'static str) -> Option<Self> {
        let [(fewest, most), (least, greatest)] = bounds(panels)?;
        let power = |value: f64| 10_f64.powf(value);
        let top = greatest.log10().ceil().max(least.log10().floor() + 1.0);
        Some(Self {
            callers: fewest * 0.8..most.max(fewest * 2.0) * 1.25,
            values: power(least.log10().floor())..power(top),
            unit,
        })
    }
}

/// Draws the panels, one legend over all of them.
///
/// # Errors
///
/// The file cannot be written.
pub(super) fn chart(file: &Path, title: &str, panels: &[Panel], scale: &Scale) -> Drawn {
    let across = panels.len().min(ACROSS);
    let down = panels.len().div_ceil(ACROSS);
    let size = (PANEL.0 * across as u32, HEAD + PANEL.1 * down as u32);
    let size = (size.0.max(660), size.1);
    let root = SVGBackend::new(file, size).into_drawing_area();
    root.fill(&WHITE)?;
    root.draw_text(title, &(FONT, 17).into_text_style(&root), (12, 10))?;
    let (head, body) = root.split_vertically(HEAD);
    legend(&head, panels)?;
    for (area, each) in body.split_evenly((down, across)).iter().zip(panels) {
        panel(area, each, scale)?;
    }
    root.present()?;
    Ok(())
}

/// One line of names, each with its colour and mark.
fn legend(area: &Area<'_>, panels: &[Panel]) -> Drawn {
    let style = (FONT, 13).into_text_style(area);
    let mut left = 16;
    let lines = || panels.iter().flat_map(|panel| &panel.lines);
    for contender in Contender::ALL {
        if !lines().any(|line| line.contender == contender) {
            continue;
        }
        let stroke = colour(contender).stroke_width(2);
        area.draw(&PathElement::new([(left, 50), (left + 26, 50)], stroke))?;
        let mark = Polygon::new(shape(contender), colour(contender).filled());
        area.draw(&(EmptyElement::at((left + 13, 50)) + mark))?;
        area.draw_text(contender.name(), &style, (left + 32, 43))?;
        left += 52 + 7 * contender.name().len() as i32;
    }
    Ok(())
}

fn panel(area: &Area<'_>, panel: &Panel, scale: &Scale) -> Drawn {
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.backend, (FONT, 15))
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(58)
        .build_cartesian_2d(
            scale.callers.clone().log_scale().base(2.0),
            scale.values.clone().log_scale(),
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(10)
        .x_desc("callers")
        .y_desc(scale.unit)
        .x_label_formatter(&|callers| format!("{callers:.0}"))
        .y_label_formatter(&short)
        .label_style((FONT, 12))
        .draw()?;
    // The store's own last, above all others.
    for Line { contender, points } in panel.lines.iter().rev() {
        let stroke = colour(*contender).stroke_width(2);
        chart.draw_series(LineSeries::new(points.iter().copied(), stroke))?;
        let marks = points.iter().map(|point| {
            let mark = Polygon::new(shape(*contender), colour(*contender).filled());
            EmptyElement::at(*point) + mark
        });
        chart.draw_series(marks)?;
    }
    Ok(())
}

/// 12 000 is `12k`.
fn short(value: &f64) -> String {
    match *value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{value}"),
    }
}

/// Of the palette by Okabe and Ito.
fn colour(contender: Contender) -> RGBColor {
    match contender {
        Contender::Idem => RGBColor(0, 114, 178),
        Contender::Batched => RGBColor(213, 94, 0),
        Contender::Held => RGBColor(60, 60, 60),
        Contender::Pooled => RGBColor(0, 158, 115),
        Contender::Generator => RGBColor(204, 121, 167),
    }
}

/// A shape of its own around its place, for those who see no colours.
fn shape(contender: Contender) -> Vec<(i32, i32)> {
    match contender {
        Contender::Idem => vec![
            (5, 0),
            (4, 4),
            (0, 5),
            (-4, 4),
            (-5, 0),
            (-4, -4),
            (0, -5),
            (4, -4),
        ],
        Contender::Batched => vec![(0, -6), (6, 5), (-6, 5)],
        Contender::Held => vec![(-4, -4), (4, -4), (4, 4), (-4, 4)],
        Contender::Pooled => vec![(0, -6), (6, 0), (0, 6), (-6, 0)],
        Contender::Generator => vec![(0, 6), (6, -5), (-6, -5)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn great_numbers_are_short() {
        assert_eq!(
            [1.0, 12_000.0, 2e6].map(|value| short(&value)),
            ["1", "12k", "2M"]
        );
    }

    #[test]
    fn no_two_contenders_look_alike() {
        for (place, one) in Contender::ALL.iter().enumerate() {
            for other in &Contender::ALL[place + 1..] {
                assert_ne!(colour(*one), colour(*other));
                assert_ne!(shape(*one), shape(*other));
            }
        }
    }
}

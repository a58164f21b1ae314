//! Draws a picture of the dashboard: `docs/dashboard.svg`.
//!
//! The example `prometheus` of idem-core makes the metrics, a Prometheus server evaluates the
//! dashboard's own queries over them, and each panel is drawn at its place in Grafana's grid.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use serde::Deserialize;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const DASHBOARD: &str = "idem-core/dashboards/idem.json";
const PICTURE: &str = "docs/dashboard.svg";
/// The package of the server `prometheus` and of its client `promtool`.
const PACKAGES: &[&str] = &["prometheus"];
/// How long the example runs.
const RUN: Duration = Duration::from_secs(150);
/// The seconds before the first point, in which there is nothing to compare.
const WARM_UP: i64 = 20;

/// The size of a cell of the grid, in pixels: Grafana's grid is 24 cells wide.
const CELL: (u32, u32) = (50, 28);
const ACROSS: u32 = 24;
const FONT: &str = "sans-serif";
/// The palette of Okabe and Ito, which colour-blind readers can distinguish.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
];

/// The parts of a Grafana dashboard that are drawn.
#[derive(Debug, Deserialize)]
struct Dashboard {
    panels: Vec<Panel>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Panel {
    r#type: String,
    title: String,
    grid_pos: Grid,
    #[serde(default)]
    field_config: FieldConfig,
    #[serde(default)]
    targets: Vec<Target>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
struct Grid {
    x: u32,
    y: u32,
    w: u32,
    h: u32,
}

#[derive(Debug, Default, Deserialize)]
struct FieldConfig {
    defaults: Defaults,
}

#[derive(Debug, Default, Deserialize)]
struct Defaults {
    unit: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Target {
    expr: String,
    legend_format: String,
}

/// What Prometheus returns for a query over a time: the labels and points of each series.
#[derive(Debug, Deserialize)]
struct Series {
    metric: BTreeMap<String, String>,
    values: Vec<(f64, String)>,
}

/// A line of a panel: its name, and values by seconds since the first point.
type Line = (String, Vec<(f64, f64)>);

/// A program that ends with this process.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the example, asks the queries, and draws the picture.
fn main() -> Result {
    let dashboard = std::fs::read_to_string(DASHBOARD)?;
    let dashboard: Dashboard =
        serde_json::from_str(&dashboard).map_err(|error| format!("{DASHBOARD}: {error}"))?;
    if !idem_servers::is_installed(PACKAGES) {
        idem_servers::install(PACKAGES)?;
    }
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build.args(["build", "--quiet", "--package=idem-core"]);
    output(build.args(["--features=metrics", "--example=prometheus"]))?;
    let example = std::env::current_exe()?.with_file_name("examples");
    let mut example = Command::new(example.join("prometheus"));
    let mut example = Running(example.arg("127.0.0.1:0").stdout(Stdio::piped()).spawn()?);
    let stdout = example.0.stdout.take().ok_or("no output")?;
    let mut page = String::new();
    BufReader::new(stdout).read_line(&mut page)?;
    let page = page.trim().trim_start_matches("http://");
    let scraped = page.split('/').next().unwrap_or_default();

    let folder = tempfile::tempdir()?;
    let (server, _prometheus) = prometheus(folder.path(), scraped)?;
    println!("    the example runs for {} s", RUN.as_secs());
    std::thread::sleep(RUN);
    let end = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() as i64;
    let begin = end - RUN.as_secs() as i64 + WARM_UP;
    let ask = |panel: &Panel| {
        let lines = panel.targets.iter().map(|target| {
            let series = ask(&server, &target.expr, begin, end)?;
            let line = |series: Series| (name(&target.legend_format, &series), points(series));
            Ok(series.into_iter().map(line).collect())
        });
        lines.collect::<Result<Vec<Vec<Line>>>>()
    };
    let lines: Vec<Vec<Line>> = dashboard
        .panels
        .iter()
        .map(|panel| Ok(ask(panel)?.concat()))
        .collect::<Result<_>>()?;
    draw(&dashboard, &lines).map_err(|error| format!("{PICTURE}: {error}"))?;
    println!("    {PICTURE} is written");
    Ok(())
}

/// Returns a command's standard output; if it fails, an error with its standard error.
fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().into()),
    }
}

/// Starts a Prometheus that reads the metrics of this host and port each second. Returns its URL.
fn prometheus(folder: &Path, scraped: &str) -> Result<(String, Running)> {
    let settings = folder.join("prometheus.yml");
    let text = format!(
        "scrape_configs: [{{job_name: idem, scrape_interval: 1s, \
         static_configs: [{{targets: ['{scraped}']}}]}}]\n"
    );
    std::fs::write(&settings, text)?;
    // Another process may take the port in between; then the server does not start.
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut server = Command::new("prometheus");
    server.arg(format!("--config.file={}", settings.display()));
    server.arg(format!("--storage.tsdb.path={}", folder.display()));
    server.arg(format!("--web.listen-address={address}"));
    server.stdout(Stdio::null()).stderr(Stdio::null());
    let server = Running(server.spawn()?);
    let url = format!("http://{address}");
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(error) = output(Command::new("promtool").args(["query", "instant", &url, "1"])) {
        if Instant::now() > deadline {
            return Err(format!("prometheus: {error}").into());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok((url, server))
}

/// Evaluates a query of the dashboard for all operations and classes.
fn ask(server: &str, query: &str, begin: i64, end: i64) -> Result<Vec<Series>> {
    let query = query
        .replace("$operation", ".*")
        .replace("$scope_class", ".*")
        .replace("$__rate_interval", "15s");
    let mut command = Command::new("promtool");
    command.args(["query", "range", "--format=json", "--step=2s"]);
    command.arg(format!("--start={begin}"));
    command.arg(format!("--end={end}"));
    command.args([server, &query]);
    let series = output(&mut command)?;
    Ok(serde_json::from_str(&series).map_err(|error| format!("{query}: {error}: {series}"))?)
}

/// Returns the name of a series: the format with the labels in it.
fn name(format: &str, series: &Series) -> String {
    let labels = series.metric.iter();
    labels.fold(format.to_owned(), |name, (label, value)| {
        name.replace(&format!("{{{{{label}}}}}"), value)
    })
}

fn points(series: Series) -> Vec<(f64, f64)> {
    let begin = series.values.first().map_or(0.0, |(at, _)| *at);
    let points = series.values.into_iter();
    let points = points.filter_map(|(at, value)| Some((at - begin, value.parse().ok()?)));
    points
        .filter(|(_, value): &(f64, f64)| value.is_finite())
        .collect()
}

fn draw(dashboard: &Dashboard, lines: &[Vec<Line>]) -> Result {
    let bottom = |panel: &Panel| panel.grid_pos.y + panel.grid_pos.h;
    let rows = dashboard.panels.iter().map(bottom).max().unwrap_or(1);
    let size = (ACROSS * CELL.0, rows * CELL.1);
    let root = SVGBackend::new(PICTURE, size).into_drawing_area();
    root.fill(&WHITE)?;
    for (panel, lines) in dashboard.panels.iter().zip(lines) {
        let Grid { x, y, w, h } = panel.grid_pos;
        let at = (x * CELL.0, y * CELL.1);
        let area = root.clone().shrink(at, (w * CELL.0, h * CELL.1));
        let middle = (w * CELL.0 / 2) as i32;
        let centred = Pos::new(HPos::Center, VPos::Center);
        let text = |size: u32| (FONT, size).into_font().color(&BLACK);
        match panel.r#type.as_str() {
            "row" => area.draw(&Text::new(panel.title.as_str(), (8, 7), text(17)))?,
            "stat" => {
                let last = lines.first().and_then(|(_, points)| points.last());
                let unit = &panel.field_config.defaults.unit;
                let value = last.map_or("no data".to_owned(), |(_, value)| shown(*value, unit));
                area.draw(&Text::new(panel.title.as_str(), (8, 6), text(13)))?;
                let large = text(30).pos(centred).color(&COLOURS[0]);
                area.draw(&Text::new(value, (middle, 64), large))?;
            }
            _ => series(&area, panel, lines)?,
        }
    }
    Ok(root.present()?)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

/// Draws a panel with a line for each series.
fn series(area: &Area<'_>, panel: &Panel, lines: &[Line]) -> Result {
    let points = lines.iter().flat_map(|(_, points)| points);
    let high = points.fold(0.0, |high: f64, (_, value)| high.max(*value));
    // The names of the lines stand above the lines.
    let names = 0.12 + 0.08 * lines.len() as f64;
    let high = if high == 0.0 {
        1.0
    } else {
        high / (1.0 - names)
    };
    let last = (RUN.as_secs() as i64 - WARM_UP) as f64;
    let unit = &panel.field_config.defaults.unit;
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 13))
        .margin(6)
        .x_label_area_size(18)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..last, 0.0..high)?;
    chart
        .configure_mesh()
        .max_light_lines(0)
        .x_labels(5)
        .y_labels(4)
        .label_style((FONT, 11))
        .bold_line_style(BLACK.mix(0.12))
        .x_label_formatter(&|at| format!("{at:.0} s"))
        .y_label_formatter(&|value| shown(*value, unit))
        .draw()?;
    for ((name, points), colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        chart
            .draw_series(LineSeries::new(
                points.iter().copied(),
                colour.stroke_width(2),
            ))?
            .label(name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 14, y)], colour.stroke_width(2)));
    }
    if lines.is_empty() {
        let nothing = Text::new("no data", (last * 0.4, high * 0.5), (FONT, 13));
        chart.draw_series([nothing])?;
    } else {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .label_font((FONT, 11))
            .draw()?;
    }
    Ok(())
}

/// Returns a value in a unit of Grafana.
fn shown(value: f64, unit: &str) -> String {
    match unit {
        "percentunit" => format!("{:.0} %", value * 100.0),
        "s" if value < 1.0 => format!("{} ms", rounded(value * 1000.0)),
        "s" => format!("{} s", rounded(value)),
        "reqps" | "ops" => format!("{}/s", rounded(value)),
        _ => rounded(value),
    }
}

fn rounded(value: f64) -> String {
    match value {
        _ if value.fract().abs() < 0.005 || value >= 100.0 => format!("{value:.0}"),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_in_their_unit() {
        let cases = [
            (0.25, "percentunit", "25 %"),
            (0.0205, "s", "20.5 ms"),
            (3.0, "s", "3 s"),
            (4.25, "reqps", "4.25/s"),
            (120.4, "ops", "120/s"),
            (2.0, "short", "2"),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(shown(value, unit), expected);
        }
    }

    #[test]
    fn a_series_is_named_by_its_labels() {
        let series =
            r#"{"metric":{"call":"claim","kind":"unavailable"},"values":[[7,"NaN"],[9,"2"]]}"#;
        let series: Series = serde_json::from_str(series).unwrap();
        assert_eq!(name("{{call}} {{kind}}", &series), "claim unavailable");
        assert_eq!(points(series), [(2.0, 2.0)]);
    }
}

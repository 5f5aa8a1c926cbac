//! How values spread: box plots of few points, distributions of many.

use super::{
    chart::{Block, BoxGroup, BoxPlot, Line, Panel, Picture, Plot, Scale, Style, Wish},
    data::{Data, Shown, axis_wish},
};
use crate::stats::{Ecdf, Spread};

/// Points above which a box plot is hard to read.
const MOST_BOXES: usize = 8;
/// Points that get a distribution of their own, from this many repetitions on.
const MOST_PANELS: usize = 4;
const REPETITIONS: u64 = 20;
/// Corners of a curve.
pub(super) const CORNERS: usize = 400;

pub(super) fn blocks(data: &Data<'_>, metric: &Shown) -> Vec<Block> {
    let points = data.all_points();
    let mut blocks = Vec::new();
    if points.len() > MOST_BOXES {
        let panel = distribution(data, metric, &points);
        let note = format!(
            "share of all cells (every point and repetition) at or below a value; a curve that \
             ends below 1 misses cells without one; {} points, {} repetitions",
            points.len(),
            data.plan.repetitions
        );
        let title = format!(
            "Distribution of {}, all cells of each solution",
            metric.name
        );
        blocks.push(Block::Picture(
            Picture::of(&format!("{}-ecdf", metric.name), title, note, panel)
                .with_legend(data.legend(data.solutions())),
        ));
        return blocks;
    }
    blocks.push(boxes(data, metric));
    if points.len() <= MOST_PANELS && data.plan.repetitions >= REPETITIONS {
        let panels = points
            .iter()
            .map(|point| {
                let name = data.point_name(*point, None);
                (name, distribution(data, metric, &[*point]))
            })
            .collect();
        let title = format!("Distribution of {} over repetitions", metric.name);
        let note = "share of cells at or below a value; a curve that ends below 1 misses cells \
                    without one"
            .to_owned();
        blocks.push(Block::Picture(
            Picture::panels(&format!("{}-ecdf", metric.name), title, note, panels)
                .with_legend(data.legend(data.solutions())),
        ));
    }
    blocks
}

fn boxes(data: &Data<'_>, metric: &Shown) -> Block {
    let all = data.values_of_all(metric);
    let group = |point: usize| {
        let boxes = data
            .solutions()
            .map(|solution| {
                let (values, _) = data.values(metric, &[point], solution);
                let name = data.solution(solution).to_owned();
                (solution, name, Spread::of(&values))
            })
            .collect();
        BoxGroup {
            name: data.short_name(point),
            boxes,
        }
    };
    let panel = BoxPlot {
        y: Scale::fit(metric.label(), all.iter().copied(), axis_wish(&all), 6),
        x_label: data.plan.factors.join(", "),
        groups: data.all_points().into_iter().map(group).collect(),
    };
    let title = format!("Spread of {} over repetitions", metric.name);
    let note = format!(
        "box: quartiles; line: median; whiskers: 5th and 95th percentile; dots: outside them; {} \
         repetitions",
        data.plan.repetitions
    );
    Block::Picture(
        Picture::of(
            &format!("{}-boxes", metric.name),
            title,
            note,
            Box::new(panel),
        )
        .with_legend(data.legend(data.solutions())),
    )
}

/// A curve per solution over some points.
fn distribution(data: &Data<'_>, metric: &Shown, points: &[usize]) -> Box<dyn Panel> {
    let curves = data.solutions().map(|solution| {
        let (values, ran) = data.values(metric, points, solution);
        (
            solution,
            data.solution(solution).to_owned(),
            Ecdf::new(&values, ran),
        )
    });
    curves_over(metric.label(), "share of cells", curves.collect())
}

/// Curves of distributions over a common axis.
pub(super) fn curves_over(
    label: String,
    share_of: &str,
    curves: Vec<(usize, String, Option<Ecdf>)>,
) -> Box<dyn Panel> {
    let all: Vec<f64> = curves
        .iter()
        .filter_map(|(_, _, ecdf)| ecdf.as_ref())
        .flat_map(|ecdf| ecdf.values().iter().copied())
        .collect();
    let wish = Wish {
        from_zero: false,
        ..axis_wish(&all)
    };
    Box::new(Plot {
        x: Scale::fit(label, all, wish, 7),
        y: Scale::fit(share_of, [0.0, 1.0], Wish::default(), 5),
        lines: curves
            .into_iter()
            .map(|(slot, name, ecdf)| Line {
                name,
                slot,
                style: Style::Steps,
                points: ecdf.map(|ecdf| ecdf.corners(CORNERS)).unwrap_or_default(),
                whiskers: Vec::new(),
            })
            .collect(),
        guides: Vec::new(),
    })
}

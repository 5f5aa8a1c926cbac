//! From a design to its points.

use super::{
    Point,
    design::{self, Design, Kind, MAX_POINTS},
    error::{PlanError, join},
    factor::{self, Level},
};

/// The points of a design; `draw` seeds those that are drawn.
pub(super) fn points(design: &Design, draw: u64) -> Result<Vec<Point>, PlanError> {
    for (index, factor) in design.factor.iter().enumerate() {
        let field = format!("design.factor[{index}]");
        factor
            .check()
            .map_err(|(inner, problem)| PlanError::new(join(&field, &inner), problem))?;
        if design
            .factor
            .iter()
            .filter(|other| other.name == factor.name)
            .count()
            > 1
        {
            let problem = format!("two factors are called {:?}", factor.name);
            return Err(PlanError::new(join(&field, "name"), problem));
        }
        if factor.values.is_empty() && matches!(design.kind, Kind::Grid) {
            return Err(PlanError::new(
                join(&field, "values"),
                "a grid needs values, not a range",
            ));
        }
    }
    let count = || match design.count {
        Some(count @ 1..=10_000) => Ok(count),
        Some(_) => Err(PlanError::new("design.count", "is not between 1 and 10000")),
        None => Err(PlanError::new(
            "design",
            "`count`, the number of points, is missing",
        )),
    };
    let points = match design.kind {
        Kind::Grid => {
            let levels: Vec<Vec<Level>> =
                design.factor.iter().map(factor::Factor::levels).collect();
            let sizes: Vec<usize> = levels.iter().map(Vec::len).collect();
            let product = sizes
                .iter()
                .try_fold(1usize, |all, size| all.checked_mul(*size));
            if product.is_none_or(|product| product > MAX_POINTS) {
                return Err(PlanError::new(
                    "design.factor",
                    format!("more than {MAX_POINTS} points"),
                ));
            }
            let pick = |point: Vec<usize>| Point {
                levels: point
                    .iter()
                    .zip(&levels)
                    .filter_map(|(index, levels)| levels.get(*index).cloned())
                    .collect(),
            };
            design::grid(&sizes).into_iter().map(pick).collect()
        }
        Kind::List => {
            let mut points = Vec::new();
            for (index, listed) in design.point.iter().enumerate() {
                let field = format!("design.point[{index}]");
                if let Some(unknown) = listed
                    .keys()
                    .find(|key| !design.factor.iter().any(|factor| factor.name == **key))
                {
                    let names: Vec<String> = design
                        .factor
                        .iter()
                        .map(|factor| factor.name.clone())
                        .collect();
                    let error = PlanError::new(join(&field, unknown), "there is no such factor");
                    return Err(error.with_names(unknown, &names));
                }
                let mut levels = Vec::new();
                for factor in &design.factor {
                    let value = listed.get(&factor.name).ok_or_else(|| {
                        PlanError::new(&field, format!("`{}` is missing", factor.name))
                    })?;
                    levels.push(factor.level(value));
                }
                points.push(Point { levels });
            }
            points
        }
        Kind::Wsp => filled(design, count()?, draw, design::wsp)?,
        Kind::Lhs => filled(design, count()?, draw, design::lhs)?,
    };
    if points.is_empty() {
        return Err(PlanError::new("design", "has no point"));
    }
    Ok(points)
}

fn few_enough(sizes: &[usize]) -> Result<(), PlanError> {
    let product = sizes
        .iter()
        .try_fold(1usize, |all, size| all.checked_mul(*size));
    if product.is_none_or(|product| product > MAX_POINTS) {
        let problem = format!("more than {MAX_POINTS} points");
        return Err(PlanError::new("design.factor", problem));
    }
    Ok(())
}

/// Fills the space of the factors that have a range; each of its points is crossed with every
/// combination of the others' values.
fn filled(
    design: &Design,
    count: usize,
    draw: u64,
    fill: fn(usize, usize, u64) -> Vec<Vec<f64>>,
) -> Result<Vec<Point>, PlanError> {
    let ranged = design.factor.iter().filter(|factor| factor.range.is_some());
    let dimensions = ranged.count();
    if dimensions == 0 {
        let problem = "no factor has a `range` to fill";
        return Err(PlanError::new("design.factor", problem));
    }
    let listed = design.factor.iter().filter(|factor| factor.range.is_none());
    let sizes: Vec<usize> = listed.map(|factor| factor.values.len()).collect();
    few_enough(&[sizes.as_slice(), &[count]].concat())?;
    let combinations = design::grid(&sizes);
    let mut points = Vec::new();
    for shares in fill(count, dimensions, draw) {
        for combination in &combinations {
            let (mut shares, mut picks) = (shares.iter(), combination.iter());
            let level = |factor: &factor::Factor| match factor.range {
                Some(_) => shares.next().map(|share| factor.at(*share)),
                None => {
                    let value = factor.values.get(*picks.next()?)?;
                    Some(factor.level(value))
                }
            };
            points.push(Point {
                levels: design.factor.iter().filter_map(level).collect(),
            });
        }
    }
    Ok(points)
}

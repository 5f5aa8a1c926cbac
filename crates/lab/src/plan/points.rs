//! From a design to its points.

use super::{
    Point,
    design::{self, Design, Kind, MAX_POINTS},
    error::{Place, PlanError, join},
    factor::{self, Level},
};

/// Checks the factors and counts the points that [`points`] would make, without making any.
pub(super) fn count(design: &Design) -> Result<usize, PlanError> {
    let listed = design.kind == Kind::List;
    if !design.point.is_empty() && !listed {
        let problem = "only a design of kind = \"list\" has points of its own";
        return Err(PlanError::new("design.point", problem));
    }
    for (index, factor) in design.factor.iter().enumerate() {
        let field = format!("design.factor[{index}]");
        factor.check(listed).map_err(|(inner, problem)| {
            let repeated = factor.repeated().filter(|_| inner == "values");
            let place =
                repeated.map(|(index, _)| Box::new(Place(format!("{field}.values[{index}]"))));
            PlanError {
                place,
                ..PlanError::new(join(&field, &inner), problem)
            }
        })?;
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
    let factors = design.factor.iter();
    let values = factors.filter(|factor| factor.range.is_none());
    let sizes = values.map(|factor| factor.values.len());
    let count = match design.kind {
        Kind::Grid => sizes.fold(1, usize::saturating_mul),
        Kind::List => design.point.len(),
        Kind::Wsp | Kind::Lhs => {
            if design.factor.iter().all(|factor| factor.range.is_none()) {
                let problem = "no factor has a `range` to fill";
                return Err(PlanError::new("design.factor", problem));
            }
            sizes.fold(drawn(design)?, usize::saturating_mul)
        }
    };
    match count {
        0 if listed => {
            let problem = format!(
                "has no point: a list needs [[design.point]], one for each point, {}",
                values_of(design)
            );
            Err(PlanError::new("design", problem))
        }
        0 => Err(PlanError::new("design", "has no point")),
        1..=MAX_POINTS => Ok(count),
        _ => {
            let problem = format!(
                "more than {MAX_POINTS} points: {}",
                in_words(design).join(" x ")
            );
            Err(PlanError::new("design.factor", problem))
        }
    }
}

/// What a point of a list holds, in words.
fn values_of(design: &Design) -> String {
    let names = design.factor.iter().map(|factor| factor.name.as_str());
    let names: Vec<&str> = names.collect();
    match names.as_slice() {
        [] => "with a value of every [[design.factor]] by its name".to_owned(),
        names => format!(
            "with a value of every factor by its name ({})",
            names.join(", ")
        ),
    }
}

/// How many points of a space-filling design are drawn.
fn drawn(design: &Design) -> Result<usize, PlanError> {
    match design.count {
        Some(count @ 1..=10_000) => Ok(count),
        Some(_) => Err(PlanError::new("design.count", "is not between 1 and 10000")),
        None => Err(PlanError::new(
            "design",
            "`count`, the number of points, is missing",
        )),
    }
}

/// What a design's points are made of, by the names of its factors.
pub(super) fn in_words(design: &Design) -> Vec<String> {
    let listed = |factor: &factor::Factor| match factor.range {
        None => Some(format!("{} values of {}", factor.values.len(), factor.name)),
        Some(_) => None,
    };
    match design.kind {
        Kind::Grid => design.factor.iter().filter_map(listed).collect(),
        Kind::List => vec![format!("{} points", design.point.len())],
        Kind::Wsp | Kind::Lhs => {
            let ranged = design.factor.iter().filter(|f| f.range.is_some());
            let names: Vec<&str> = ranged.map(|factor| factor.name.as_str()).collect();
            let first = format!(
                "{} points of {}",
                design.count.unwrap_or(0),
                names.join(", ")
            );
            std::iter::once(first)
                .chain(design.factor.iter().filter_map(listed))
                .collect()
        }
    }
}

/// Where the text has what a factor set at `path` in the point `point`, with what of it is to blame:
/// the value, within it what is called `inner`, or the path itself.
pub(super) fn place(
    design: &Design,
    (point, factor): (usize, usize),
    level: &Level,
    path: &str,
    inner: Option<&str>,
) -> Option<String> {
    let factor = design.factor.get(factor)?;
    let outer = format!("design.factor.{}", factor.name);
    let (holder, value) = match (design.kind, factor.range) {
        (Kind::List, _) => {
            let value = design.point.get(point)?.get(&factor.name)?;
            (
                format!("design.point[{point}].{}", factor.name),
                Some(value),
            )
        }
        (_, Some(_)) => (format!("{outer}.range"), None),
        _ => {
            let mut levels = factor.levels().into_iter();
            let index = levels.position(|known| known.label == level.label)?;
            (format!("{outer}.values[{index}]"), factor.values.get(index))
        }
    };
    let Some(inner) = inner else {
        if value.is_some_and(factor::Factor::is_labelled) {
            return Some(join(&holder, path));
        }
        let several = factor.paths.iter().position(|known| known == path);
        let several = several.map(|index| format!("{outer}.paths[{index}]"));
        return Some(several.unwrap_or_else(|| format!("{outer}.path")));
    };
    Some(match value {
        Some(value) if factor::Factor::is_labelled(value) => join(&join(&holder, path), inner),
        Some(_) => join(&holder, inner),
        None => holder,
    })
}

/// Refuses a factor that sets what a later one sets again in every point.
pub(super) fn distinct(design: &Design, points: &[Point]) -> Result<(), PlanError> {
    let Some(first) = points.first() else {
        return Ok(());
    };
    for (index, earlier) in design.factor.iter().enumerate() {
        for (other, later) in design.factor.iter().enumerate().skip(index + 1) {
            let again = |path: &String| {
                let mut setting = points.iter().filter_map(|point| {
                    let (a, b) = point.levels.get(index).zip(point.levels.get(other))?;
                    sets(a, path).then(|| covers(b, path))
                });
                setting.all(|again| again)
            };
            let mut paths = first
                .levels
                .get(index)
                .into_iter()
                .flat_map(|level| &level.set);
            if let Some((path, _)) = paths.find(|(path, _)| again(path)) {
                let problem = format!(
                    "{path:?} is set by the factor {} as well, which would have no effect",
                    earlier.name
                );
                let level = first.levels.get(other);
                let known = level.and_then(|level| place(design, (0, other), level, path, None));
                return Err(PlanError {
                    place: known.map(|known| Box::new(Place(known))),
                    ..PlanError::new(format!("design.factor.{}", later.name), problem)
                });
            }
        }
    }
    Ok(())
}

fn sets(level: &Level, path: &str) -> bool {
    level.set.iter().any(|(set, _)| set == path)
}

/// Whether a level sets what has this path, or what holds it.
fn covers(level: &Level, path: &str) -> bool {
    level.set.iter().any(|(set, _)| {
        let inner = path.strip_prefix(set.as_str());
        inner.is_some_and(|inner| inner.is_empty() || inner.starts_with('.'))
    })
}

/// The points of a design that [`count`] has passed; `draw` seeds those that are drawn.
pub(super) fn points(design: &Design, draw: u64) -> Result<Vec<Point>, PlanError> {
    let points = match design.kind {
        Kind::Grid => {
            let levels: Vec<Vec<Level>> =
                design.factor.iter().map(factor::Factor::levels).collect();
            let sizes: Vec<usize> = levels.iter().map(Vec::len).collect();
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
                        let name = &factor.name;
                        let problem = format!(
                            "`{name}` is missing: a point is a table {}",
                            values_of(design)
                        );
                        PlanError::new(&field, problem)
                    })?;
                    if !factor.sets_something() && !factor::Factor::is_labelled(value) {
                        let problem = "nothing says what it sets: give the factor a `path`, or the value a \
                                       `label` and paths, { label = \"x\", \"network.loss\" = 0 }";
                        return Err(PlanError::new(join(&field, &factor.name), problem));
                    }
                    levels.push(factor.level(value));
                }
                points.push(Point { levels });
            }
            points
        }
        Kind::Wsp => filled(design, drawn(design)?, draw, design::wsp),
        Kind::Lhs => filled(design, drawn(design)?, draw, design::lhs),
    };
    Ok(points)
}

/// Fills the space of the factors that have a range; each of its points is crossed with every
/// combination of the others' values.
fn filled(
    design: &Design,
    count: usize,
    draw: u64,
    fill: fn(usize, usize, u64) -> Vec<Vec<f64>>,
) -> Vec<Point> {
    let ranged = design.factor.iter().filter(|factor| factor.range.is_some());
    let dimensions = ranged.count();
    let listed = design.factor.iter().filter(|factor| factor.range.is_none());
    let sizes: Vec<usize> = listed.map(|factor| factor.values.len()).collect();
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
    points
}

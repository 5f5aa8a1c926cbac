//! Designs: which points of the factors' space are run.
//!
//! Owns: full grids, lists, Latin hypercubes, and the WSP space-filling selection (Santiago,
//! Claeys-Bruno and Sergent, Chemometrics and Intelligent Laboratory Systems 113, 2012) that the
//! FEC studies used. Deterministic: the draw is the seed.

use serde::{Deserialize, Deserializer, de::Error as _};
use tautline_transport::rng::Rng;
use toml::Value;

use super::factor::{Factor, ListedPoint};

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Design {
    /// How points are chosen.
    #[serde(default)]
    pub(super) kind: Kind,
    /// Points of a `wsp` or `lhs` design.
    #[serde(default)]
    pub(super) count: Option<usize>,
    /// What varies.
    #[serde(default)]
    pub(super) factor: Vec<Factor>,
    /// Points of a `list` design, by factor name.
    #[serde(default, deserialize_with = "tables")]
    pub(super) point: Vec<ListedPoint>,
}

fn tables<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<ListedPoint>, D::Error> {
    let words = "is not an array of tables: write [[design.point]], one for each point, with a value \
                 of every factor by its name";
    let value = Value::deserialize(d)?;
    let entries = value.as_array().ok_or_else(|| D::Error::custom(words))?;
    let tables = entries.iter().map(|entry| entry.as_table().cloned());
    let tables: Option<Vec<ListedPoint>> = tables.collect();
    tables.ok_or_else(|| D::Error::custom(words))
}

impl Default for Design {
    /// One point.
    fn default() -> Self {
        Self {
            kind: Kind::Grid,
            count: None,
            factor: Vec::new(),
            point: Vec::new(),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// Every combination of the factors' values.
    #[default]
    Grid,
    /// The points listed.
    List,
    /// Points that keep away from each other (WSP).
    Wsp,
    /// A Latin hypercube.
    Lhs,
}

/// No plan has more points.
pub(super) const MAX_POINTS: usize = 100_000;

/// Positions of every combination of `sizes`, the last one turning fastest.
pub(super) fn grid(sizes: &[usize]) -> Vec<Vec<usize>> {
    let mut points = vec![Vec::new()];
    for size in sizes {
        points = points
            .into_iter()
            .flat_map(|point: Vec<usize>| {
                (0..*size).map(move |index| {
                    let mut longer = point.clone();
                    longer.push(index);
                    longer
                })
            })
            .collect();
    }
    points
}

/// `count` points in the unit cube, each factor's range cut into `count` slices of which each is
/// hit once.
pub(super) fn lhs(count: usize, dimensions: usize, draw: u64) -> Vec<Vec<f64>> {
    let mut rng = Rng::from_u64(draw);
    let mut points = vec![Vec::with_capacity(dimensions); count];
    for _ in 0..dimensions {
        let mut slices: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            let other = rng.below(last as u64 + 1) as usize;
            slices.swap(last, other);
        }
        for (point, slice) in points.iter_mut().zip(slices) {
            point.push((slice as f64 + rng.unit_f64()) / count as f64);
        }
    }
    points
}

/// `count` points of the unit cube that keep a least distance from each other and fill it evenly.
///
/// Candidates are a Latin hypercube of many times as many points. From the one nearest the centre:
/// strike out all nearer than the least distance, go on from the nearest that is left. The least
/// distance is found by bisection; where it leaves more points than wanted, the first ones stay, so
/// that a selection need not go on beyond them.
pub(super) fn wsp(count: usize, dimensions: usize, draw: u64) -> Vec<Vec<f64>> {
    let candidates = lhs((count * 12).clamp(400, 20_000).max(count), dimensions, draw);
    let select = |least: f64| -> Vec<usize> {
        let mut left: Vec<usize> = (0..candidates.len()).collect();
        let centre = vec![0.5; dimensions];
        let mut at = nearest_to(&candidates, &left, &centre);
        let mut chosen = Vec::new();
        while let Some(here) = at {
            chosen.push(here);
            if chosen.len() > count {
                break;
            }
            left.retain(|other| {
                *other != here && distance(&candidates[here], &candidates[*other]) >= least
            });
            at = nearest_to(&candidates, &left, &candidates[here]);
        }
        chosen
    };
    let (mut low, mut high) = (0.0, (dimensions as f64).sqrt());
    let mut best = (0..candidates.len()).collect::<Vec<_>>();
    for _ in 0..30 {
        let middle = (low + high) / 2.0;
        let chosen = select(middle);
        if chosen.len() >= count {
            low = middle;
            best = chosen;
            if best.len() == count {
                break;
            }
        } else {
            high = middle;
        }
    }
    best.truncate(count);
    best.into_iter()
        .filter_map(|index| candidates.get(index).cloned())
        .collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter()
        .zip(b)
        .map(|(x, y)| (x - y) * (x - y))
        .sum::<f64>()
        .sqrt()
}

fn nearest_to(points: &[Vec<f64>], among: &[usize], to: &[f64]) -> Option<usize> {
    among
        .iter()
        .copied()
        .min_by(|a, b| distance(&points[*a], to).total_cmp(&distance(&points[*b], to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_turn_the_last_factor_first() {
        assert_eq!(
            grid(&[2, 2]),
            [vec![0, 0], vec![0, 1], vec![1, 0], vec![1, 1]]
        );
        assert_eq!(grid(&[]), [Vec::<usize>::new()]);
        assert!(grid(&[3, 0]).is_empty());
    }

    #[test]
    fn a_latin_hypercube_hits_every_slice_once() {
        for point in lhs(50, 3, 4).iter() {
            assert!(point.iter().all(|x| (0.0..1.0).contains(x)));
        }
        for dimension in 0..3 {
            let mut slices: Vec<usize> = lhs(50, 3, 4)
                .iter()
                .map(|point| (point[dimension] * 50.0) as usize)
                .collect();
            slices.sort_unstable();
            assert_eq!(slices, (0..50).collect::<Vec<_>>());
        }
    }

    #[test]
    fn wsp_points_keep_away_from_each_other() {
        let least = |points: &[Vec<f64>]| {
            let mut least = f64::MAX;
            for (i, a) in points.iter().enumerate() {
                for b in &points[i + 1..] {
                    least = least.min(distance(a, b));
                }
            }
            least
        };
        for draw in 0..3 {
            let filling = wsp(60, 3, draw);
            assert_eq!(filling.len(), 60);
            assert!(least(&filling) > 2.0 * least(&lhs(60, 3, draw)));
            assert_eq!(filling, wsp(60, 3, draw));
        }
        assert_ne!(wsp(60, 3, 0), wsp(60, 3, 1));
    }
}

//! Synthetic pages: as many objects and bytes as stated, the rest drawn from a fixed seed.
//!
//! No recording stands behind them. A page is one HTML document, style sheets, scripts, fonts,
//! images, and data that scripts ask for:
//!
//! - **Kinds** by the share of objects: style sheets 8 %, scripts 30 %, fonts 4 %, data 8 %, images
//!   the rest; style sheets and scripts at least one each.
//! - **Sizes**: each object's weight is the mean of its kind (document 3, style sheet 2, script 3,
//!   font 3, image 2, data 0.5) over u + 0.1 with u uniform in 0..1, which gives a heavy tail; the
//!   page's bytes are shared out by weight, at least 200 bytes each.
//! - **Dependencies**: style sheets, four scripts of five and three images of four depend on the
//!   document; the other scripts on an earlier script (a loader); fonts and every eighth image on a
//!   style sheet; data on a script; the remaining images on a script.
//! - **Parse times** (uniform): document to style sheet or script 5 to 40 ms, to image 20 to 150 ms;
//!   style sheet to font or image 5 to 30 ms; script to anything 20 to 150 ms.
//! - **Think times** (uniform): document 50 to 200 ms, data 20 to 120 ms, files 2 to 20 ms.
//! - **Urgency**: document and style sheets 0, scripts and fonts 1, data 2, images 3 and in turns.
//!
//! Requests have 300 to 700 bytes. Only divisions and comparisons of exact numbers decide, so that
//! a page is the same on every machine.

use std::time::Duration;

use tautline_transport::rng::Rng;

use super::Object;
use crate::quantity::{Size, Span};

/// A synthetic page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Synthetic {
    objects: u32,
    bytes: u64,
    seed: u64,
}

pub(super) const OBJECTS_6: Synthetic = Synthetic {
    objects: 6,
    bytes: 400 << 10,
    seed: 6,
};
pub(super) const OBJECTS_30: Synthetic = Synthetic {
    objects: 30,
    bytes: 1_776 << 10,
    seed: 30,
};
pub(super) const OBJECTS_110: Synthetic = Synthetic {
    objects: 110,
    bytes: 2_400 << 10,
    seed: 110,
};
pub(super) const ARTICLE: Synthetic = Synthetic {
    objects: 25,
    bytes: 510_000,
    seed: 25,
};
pub(super) const NEWS: Synthetic = Synthetic {
    objects: 200,
    bytes: 8_200_000,
    seed: 200,
};

const SMALLEST: u64 = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Document,
    Style,
    Script,
    Font,
    Data,
    Image,
}

impl Kind {
    /// How often, in per cent; what is left is images.
    const SHARES: [(Self, u32); 4] = [
        (Self::Style, 8),
        (Self::Script, 30),
        (Self::Font, 4),
        (Self::Data, 8),
    ];

    const fn weight(self) -> f64 {
        match self {
            Self::Document | Self::Script | Self::Font => 3.0,
            Self::Style | Self::Image => 2.0,
            Self::Data => 0.5,
        }
    }

    const fn urgency(self) -> u8 {
        match self {
            Self::Document | Self::Style => 0,
            Self::Script | Self::Font => 1,
            Self::Data => 2,
            Self::Image => 3,
        }
    }

    const fn think_millis(self) -> (u64, u64) {
        match self {
            Self::Document => (50, 200),
            Self::Data => (20, 120),
            _ => (2, 20),
        }
    }
}

/// A uniform time in whole microseconds.
fn time(rng: &mut Rng, (from, to): (u64, u64)) -> Span {
    let micros = from * 1000 + rng.below((to - from) * 1000);
    Span(Duration::from_micros(micros))
}

impl Synthetic {
    /// The page; the same each time.
    pub(super) fn objects(self) -> Vec<Object> {
        let mut rng = Rng::from_u64(self.seed);
        let kinds = self.kinds();
        let mut objects: Vec<Object> = Vec::with_capacity(kinds.len());
        let weights: Vec<f64> = kinds
            .iter()
            .map(|kind| kind.weight() / (rng.unit_f64() + 0.1))
            .collect();
        let sizes = share_out(self.bytes, &weights);
        for (index, (&kind, &bytes)) in kinds.iter().zip(&sizes).enumerate() {
            let on = parent(&mut rng, &kinds[..index], kind);
            let parse = on.map(|on| match (kinds[on], kind) {
                (Kind::Document, Kind::Image) => (20, 150),
                (Kind::Document, _) => (5, 40),
                (Kind::Style, _) => (5, 30),
                _ => (20, 150),
            });
            objects.push(Object {
                bytes: Size(bytes),
                request_bytes: Size(300 + rng.below(401)),
                depends_on: on.map(|on| on as u32).into_iter().collect(),
                think: time(&mut rng, kind.think_millis()),
                parse: parse.map_or(Span::default(), |range| time(&mut rng, range)),
                urgency: kind.urgency(),
                incremental: kind == Kind::Image,
            });
        }
        objects
    }

    /// The document, then the others by kind.
    fn kinds(self) -> Vec<Kind> {
        let mut kinds = vec![Kind::Document];
        for (kind, per_cent) in Kind::SHARES {
            let least = u32::from(matches!(kind, Kind::Style | Kind::Script));
            let count = (self.objects * per_cent / 100).max(least);
            kinds.extend((0..count).map(|_| kind));
        }
        kinds.resize(self.objects as usize, Kind::Image);
        kinds
    }
}

/// On which of the objects before it an object of this kind depends.
fn parent(rng: &mut Rng, before: &[Kind], kind: Kind) -> Option<usize> {
    let mut one_of = |wanted: Kind| {
        let count = before.iter().filter(|kind| **kind == wanted).count() as u64;
        let pick = rng.below(count) as usize;
        let mut those = before.iter().enumerate().filter(|(_, it)| **it == wanted);
        those.nth(pick).map(|(index, _)| index).or(Some(0))
    };
    match kind {
        Kind::Document => None,
        Kind::Style => Some(0),
        Kind::Font => one_of(Kind::Style),
        Kind::Data => one_of(Kind::Script),
        Kind::Script => {
            let loader = one_of(Kind::Script);
            if rng.chance(0.2) { loader } else { Some(0) }
        }
        Kind::Image => {
            let (style, script) = (one_of(Kind::Style), one_of(Kind::Script));
            match rng.below(8) {
                0 => style,
                1 => script,
                _ => Some(0),
            }
        }
    }
}

/// `total` by weight, in whole bytes that add up to it.
fn share_out(total: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let spare = total.saturating_sub(SMALLEST * weights.len() as u64);
    let mut sizes: Vec<u64> = weights
        .iter()
        .map(|weight| SMALLEST + (spare as f64 * weight / sum) as u64)
        .collect();
    let rest = total.saturating_sub(sizes.iter().sum());
    if let Some(largest) = sizes.iter_mut().max() {
        *largest += rest;
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_stated_objects_and_bytes() {
        for (page, objects, bytes) in [
            (OBJECTS_6, 6, 400 * 1024),
            (OBJECTS_30, 30, 1_776 * 1024),
            (OBJECTS_110, 110, 2_400 * 1024),
            (ARTICLE, 25, 510_000),
            (NEWS, 200, 8_200_000),
        ] {
            let page = page.objects();
            assert_eq!(page.len(), objects);
            let total: u64 = page.iter().map(|object| object.bytes.0).sum();
            assert_eq!(total, bytes);
            assert!(page.iter().all(|object| object.bytes.0 >= SMALLEST));
            assert!(page[0].depends_on.is_empty());
            let mut depth = vec![0; objects];
            for (index, object) in page.iter().enumerate().skip(1) {
                assert_eq!(object.depends_on.len(), 1);
                let on = object.depends_on[0] as usize;
                assert!(on < index);
                depth[index] = depth[on] + 1;
                assert!(object.parse.0 >= Duration::from_millis(5));
                assert!(object.parse.0 < Duration::from_millis(150));
                assert!(object.think.0 < Duration::from_millis(120));
            }
            let deepest = depth.iter().copied().max().unwrap_or(0);
            assert!((1..=8).contains(&deepest), "{deepest}");
            let largest = page.iter().map(|object| object.bytes.0).max();
            assert!(largest < Some(bytes / 2), "{largest:?}");
        }
    }

    #[test]
    fn larger_pages_have_objects_of_every_depth_and_urgency() {
        for page in [OBJECTS_30, OBJECTS_110, NEWS] {
            let page = page.objects();
            let chained = page
                .iter()
                .filter(|object| object.depends_on.first().is_some_and(|on| *on > 0))
                .count();
            assert!(chained * 10 > page.len(), "{chained} of {}", page.len());
            for urgency in 0..4 {
                assert!(page.iter().any(|object| object.urgency == urgency));
            }
        }
    }
}

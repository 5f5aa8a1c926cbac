//! Reports of campaigns: from the tables of a campaign to a page, a summary and figures.
//!
//! [`write()`] makes, in a folder: `report.html`, one file that needs no other; `summary.md`, the
//! same words and tables for documentation; `figures/*.svg`, each picture on its own. The same
//! results give the same bytes.
//!
//! Owns: what is shown of a campaign and how it is worded. Does not own: the figures (`metric`),
//! the statistics (`stats`), how things are drawn (`chart`).
//! To add a kind of figure: a file here that returns [`chart::Block`]s, and its call in
//! [`document`].

mod best;
pub mod chart;
mod compare;
mod course;
mod data;
mod medians;
mod overview;
mod paper;
mod spread;
#[cfg(test)]
mod tests;
mod trend;

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use self::{
    chart::{Block, Report, Section},
    data::Data,
};
use crate::{campaign::Results, plan::Plan};

/// Why a report cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {source}")]
pub struct ReportError {
    /// The file or folder.
    pub path: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// Folder of the pictures, beside the page.
const FIGURES: &str = "figures";

/// Writes `report.html`, `summary.md` and `figures/*.svg` into `folder`, which is made if need be.
/// Returns what was written, the page first.
///
/// # Errors
/// Files that cannot be written.
pub fn write(plan: &Plan, results: &Results, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
    let report = document(plan, results);
    let figures = folder.join(FIGURES);
    fs::create_dir_all(&figures).map_err(at(&figures))?;
    let mut written = Vec::new();
    let mut put = |path: PathBuf, text: String| -> Result<(), ReportError> {
        // Beside its place first, so that it is whole or absent.
        let beside = path.with_extension("partial");
        fs::write(&beside, text).map_err(at(&beside))?;
        fs::rename(&beside, &path).map_err(at(&path))?;
        written.push(path);
        Ok(())
    };
    put(folder.join("report.html"), report.to_html())?;
    put(folder.join("summary.md"), report.to_markdown(FIGURES))?;
    for picture in report.pictures() {
        put(
            figures.join(format!("{}.svg", picture.file)),
            picture.to_svg(),
        )?;
    }
    Ok(written)
}

fn at(path: &Path) -> impl FnOnce(io::Error) -> ReportError {
    let path = path.to_owned();
    move |source| ReportError { path, source }
}

/// The report of a campaign, which need not be finished.
pub fn document(plan: &Plan, results: &Results) -> Report {
    let data = Data::new(plan, results);
    let metrics = data.metrics();
    let mut sections = overview::sections(&data);
    sections.extend(paper::section(&data));
    for metric in &metrics {
        let mut blocks = vec![Block::Text(metric.definition())];
        if data.values_of_all(metric).is_empty() {
            blocks.push(Block::Text("No cell has a value of it.".to_owned()));
        } else {
            blocks.extend(medians::blocks(&data, metric));
            blocks.extend(best::blocks(&data, metric));
            blocks.extend(trend::lines(&data, metric));
            blocks.extend(spread::blocks(&data, metric));
            blocks.extend(compare::blocks(&data, metric));
            blocks.extend(trend::heat(&data, metric));
        }
        sections.push(Section {
            heading: metric.heading(),
            blocks,
        });
    }
    sections.extend(course::items(&data));
    sections.extend(course::series(&data));
    sections.push(overview::reading(&data, &metrics));
    unique_files(&mut sections);
    Report {
        title: match plan.is_of_field() {
            false => plan.title.clone(),
            true => format!("{} (field data)", plan.title),
        },
        lead: plan.about.clone(),
        sections,
        footer: format!(
            "Written by tautline-lab {} from the rows of plan {}. The same rows give the same \
             bytes.",
            env!("CARGO_PKG_VERSION"),
            plan.name
        ),
    }
}

/// Tells pictures of the same name apart.
fn unique_files(sections: &mut [Section]) {
    let mut taken = BTreeSet::new();
    for block in sections.iter_mut().flat_map(|section| &mut section.blocks) {
        if let Block::Picture(picture) = block {
            let first = picture.file.clone();
            let mut number = 2;
            while !taken.insert(picture.file.clone()) {
                picture.file = format!("{first}-{number}");
                number += 1;
            }
        }
    }
}

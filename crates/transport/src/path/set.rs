//! The paths of a connection.

use super::{NetworkPath, Path};
use crate::units::{FourTuple, PathId};

/// All paths, by identifier. A single-path connection is a set of one.
///
/// There is one lookup, and a missing path is a normal answer: packets race a path's removal.
pub(crate) struct PathSet {
    /// Ascending by identifier; path 0 first while it exists.
    paths: Vec<Path>,
    /// Where the path lay that a packet arrived on last; where to look first, and no more.
    latest: usize,
}

impl PathSet {
    pub(crate) fn new(first: Path) -> Self {
        Self {
            paths: vec![first],
            latest: 0,
        }
    }

    #[inline]
    fn index(&self, id: PathId) -> Option<usize> {
        // Where it lies if none below it is missing.
        let likely = id.0 as usize;
        match self.paths.get(likely) {
            Some(path) if path.id == id => Some(likely),
            _ => self.paths.binary_search_by_key(&id, |path| path.id).ok(),
        }
    }

    /// The path that a packet arrived on last, if it is still there and has not moved.
    pub(crate) fn latest(&self) -> Option<&Path> {
        self.paths.get(self.latest)
    }

    /// As [`Self::get_mut`], when a packet has arrived there.
    pub(crate) fn arrived_on(&mut self, id: PathId) -> Option<&mut Path> {
        self.latest = self.index(id)?;
        self.paths.get_mut(self.latest)
    }

    #[inline]
    pub(crate) fn get(&self, id: PathId) -> Option<&Path> {
        self.index(id).and_then(|index| self.paths.get(index))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: PathId) -> Option<&mut Path> {
        self.index(id).and_then(|index| self.paths.get_mut(index))
    }

    /// Adds a path; refuses a second one of the same identifier.
    pub(crate) fn insert(&mut self, path: Path) -> bool {
        match self.paths.binary_search_by_key(&path.id, |path| path.id) {
            Ok(_) => false,
            Err(index) => {
                self.paths.insert(index, path);
                true
            }
        }
    }

    /// Takes a path out for good.
    pub(crate) fn remove(&mut self, id: PathId) -> Option<Path> {
        let index = self.index(id)?;
        Some(self.paths.remove(index))
    }

    /// The network path with these addresses. Several paths may have them: one that is not abandoned
    /// comes first.
    pub(crate) fn network_mut(&mut self, four_tuple: &FourTuple) -> Option<&mut NetworkPath> {
        let knows = |path: &mut Path| path.network_mut(four_tuple).is_some();
        let open = self
            .paths
            .iter_mut()
            .position(|path| !path.is_abandoned() && knows(path));
        let index = open.or_else(|| self.paths.iter_mut().position(knows))?;
        self.paths.get_mut(index)?.network_mut(four_tuple)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Path> + Clone {
        self.paths.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.paths.iter_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.paths.len()
    }

    /// The `index`-th path in ascending order: for loops whose body needs the whole connection.
    pub(crate) fn at(&self, index: usize) -> Option<&Path> {
        self.paths.get(index)
    }

    /// The same, to be changed.
    pub(crate) fn at_mut(&mut self, index: usize) -> Option<&mut Path> {
        self.paths.get_mut(index)
    }

    /// Its identifier.
    pub(crate) fn id_at(&self, index: usize) -> Option<PathId> {
        self.at(index).map(|path| path.id)
    }
}

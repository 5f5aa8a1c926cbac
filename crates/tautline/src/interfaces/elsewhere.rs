//! Systems whose interfaces we cannot list.

use std::io;

use super::Interface;

pub(super) fn list() -> io::Result<Vec<Interface>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[derive(Debug)]
pub(super) struct Watch;

impl Watch {
    pub(super) fn new() -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) async fn stir(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

//! quinn-proto and noq-proto as stacks of the laboratory.
//!
//! Owns: [`stacks`], and one [`tautline_lab::stack::Stack`] per peer behind the cargo feature of
//! its name: `quinn` and `noq`. Does not own: workloads, plans and rows (`tautline-lab`), the
//! commands (`tautline-cli`), the peers.
//!
//! Everything random that a peer lets us seed is seeded (its generator, connection IDs, reset
//! tokens, TLS); controllers that draw from the operating system (`bbr` of quinn, `bbr3` of noq)
//! make a cell `nondeterministic`, and its rows say so.

#[cfg(any(feature = "quinn", feature = "noq"))]
mod node;
#[cfg(feature = "noq")]
mod noq;
#[cfg(any(feature = "quinn", feature = "noq"))]
mod options;
#[cfg(any(feature = "quinn", feature = "noq"))]
mod parts;
#[cfg(feature = "quinn")]
mod quinn;
#[cfg(any(feature = "quinn", feature = "noq"))]
mod several;

#[cfg(feature = "noq")]
pub use noq::Noq;
#[cfg(feature = "quinn")]
pub use quinn::Quinn;
use tautline_lab::{bundled::Bundled, stack::Stacks};

/// The laboratory's own stacks, and those of this crate that were built in.
pub fn stacks() -> Stacks {
    #[cfg_attr(
        not(any(feature = "quinn", feature = "noq")),
        expect(unused_mut, reason = "without peers nothing is added")
    )]
    let mut stacks = Stacks::default();
    #[cfg(feature = "quinn")]
    stacks.register("quinn", std::sync::Arc::new(Quinn));
    #[cfg(feature = "noq")]
    stacks.register("noq", std::sync::Arc::new(Noq));
    stacks
}

/// Plans of this crate.
pub const PLANS: &[Bundled] = &[
    Bundled {
        name: "peers-bulk",
        text: include_str!("../plans/peers-bulk.toml"),
    },
    Bundled {
        name: "peers-objects",
        text: include_str!("../plans/peers-objects.toml"),
    },
    Bundled {
        name: "peers-paths",
        text: include_str!("../plans/peers-paths.toml"),
    },
    Bundled {
        name: "peers-quirl",
        text: include_str!("../plans/peers-quirl.toml"),
    },
];

//! Paths by hand.

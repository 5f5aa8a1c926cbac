//! The stream room from outside: one end against hand-made frames (`rules`), two ends through
//! encoded packets (`pair`).

mod kit;
mod pair;
mod rules;
mod zero_rtt;

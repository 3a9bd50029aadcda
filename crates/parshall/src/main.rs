//! The `parshall` binary.
fn main() {}

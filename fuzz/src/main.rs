//! Runs one of the targets on inputs from AFL.
//!
//! Responsible for: the program that AFL starts. Must not: know the work of a target.

mod targets;

fn main() {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((_, target)) = targets::TARGETS.iter().find(|(known, _)| *known == name) else {
        let known = targets::TARGETS.map(|(known, _)| known);
        eprintln!("no target {name:?}: there are {}", known.join(", "));
        std::process::exit(2);
    };
    afl::fuzz!(|input: &[u8]| target(input));
}

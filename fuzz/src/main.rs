//! Feeds inputs of AFL to one of the targets.
//!
//! Responsible for: being the program that AFL starts. Must not: know what a target does.

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

# The words that people and CI use. `just` lists them.

default:
    @just --list

# What CI runs, all of it.
ci:
    bash .ci/run

# Format, lints, the pure half alone: quick, before each commit.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    cargo clippy --no-default-features --lib -- -D warnings

# All tests, as the README says.
test:
    cargo test --release --workspace

# The main job, on the embedded cluster.
demo:
    cargo run --release -- local -f examples/indexed.yaml

# Rewrite what the golden cases expect; read the difference before you commit it.
golden:
    UPDATE_GOLDEN=1 cargo test --release --no-default-features --test golden --test cron_golden --test ttl_golden

# Random histories of Jobs, claims, CronJobs and TTLs, from fresh seeds or from a given one: just random 42
random seed="":
    LAKH_SEED={{seed}} cargo test --release --no-default-features --test properties -- --nocapture

# Benchmarks, reported by criterion.
bench:
    cargo bench

# A load scenario on the embedded cluster: just load indexed 100000
load scenario="indexed" size="10000":
    cargo build --release --workspace
    target/release/lakh-loadtest {{scenario}} --size {{size}}

# Licences, advisories and sources of dependencies.
deny:
    cargo deny check

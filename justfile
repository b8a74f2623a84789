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
    cargo clippy -p lakh-model -p lakh-core -p lakh-record -p lakh-wire --lib -- -D warnings
    cargo clippy -p lakh --no-default-features --bins -- -D warnings

# All tests, as the README says.
test:
    cargo test --release --workspace

# The main job, on the embedded cluster.
demo:
    cargo run --release -- local -f examples/indexed.yaml

# Rewrite everything that is generated: golden cases, docs/commands.md, docs/when-calls-fail.md, stages for kwok. Read the
# difference before you commit it.
golden:
    UPDATE_GOLDEN=1 cargo test --release --test rules golden::
    UPDATE_GOLDEN=1 cargo test --release -p lakh -p lakh-inspect --lib
    UPDATE_GOLDEN=1 cargo test --release --test cluster stages::

# The documentation as a site, in target/book; needs mdbook.
book:
    mdbook build

# Render overlays and components of deploy/ from its chart anew, with helm; read the difference before you commit it.
deploy:
    UPDATE_DEPLOY=1 cargo test --test cluster deploy::rendered

# Random histories of Jobs, claims, CronJobs and TTLs, from fresh seeds or from a given one: just random 42
random seed="":
    LAKH_SEED={{seed}} cargo test --release --test rules properties:: -- --nocapture

# The simulation, from fresh seeds; docs/simulator.md has what may be set.
sim:
    cargo test --release --test sim -- --nocapture

# A hundred thousand fresh seeds, in a build that is optimized as a whole.
seeds:
    SIM_SEEDS=100000 cargo test --profile simulation --test sim fresh -- --nocapture

# Plant defects, one at a time, see what finds each, and write docs/planted-defects.md: just planted --only "some name"
planted *options:
    python3 tests/planted/plant.py {{options}}

# Every order of the counting protocol's steps, with the number of situations.
exhaustive test="":
    cargo test --release --test rules exhaustive::{{test}} -- --nocapture

# Fuzz a target for so many minutes: just fuzz patch 10
fuzz target="request" minutes="10":
    cd fuzz && cargo afl build --release
    mkdir -p fuzz/target/afl
    cd fuzz && AFL_NO_UI=1 AFL_SKIP_CPUFREQ=1 AFL_I_DONT_CARE_ABOUT_MISSING_CRASHES=1 \
        cargo afl fuzz -i corpus/{{target}} -o target/afl/{{target}} -t 1000 -V $(({{minutes}} * 60)) \
        target/release/lakh-fuzz {{target}}

# Take what fuzzing a target has found into its corpus, as few inputs as cover the same code.
fuzz-keep target="request":
    cd fuzz && cargo afl cmin -e -t 1000 -i target/afl/{{target}}/default/queue -o target/afl/{{target}}/small \
        -- target/release/lakh-fuzz {{target}}
    cd fuzz && find corpus/{{target}} -regextype posix-extended -regex '.*/[0-9a-f]{12}' -delete
    cd fuzz && for input in target/afl/{{target}}/small/*; do \
        cp "$input" corpus/{{target}}/$(sha1sum < "$input" | cut -c1-12); done

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

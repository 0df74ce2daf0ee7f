# shellcheck shell=bash
# What building costs: from a clone, in a folder of its own, so that what is built here stays.

# built WORDS...: builds the clone, and sets `own` to its CPU time and `wall` to its wall-clock time, in s.
built() {
    local before began=$EPOCHREALTIME
    own && before=$own
    (cd clone && env -u CARGO_PROFILE_RELEASE_DEBUG -u CARGO_PROFILE_RELEASE_OPT_LEVEL cargo build --locked --quiet "$@")
    wall=$(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
    own
    own=$(awk -v a="$before" -v b="$own" 'BEGIN { print b - a }')
}

# edited FILE: changes code of the clone, and nothing that it does.
edited() { printf '\nconst _: &str = "%s";\n' "$EPOCHREALTIME" >>"clone/$1"; }

# bytes FILE...: their size in MB.
bytes() { stat --format %s "$@" | awk '{ all += $1 } END { printf "%.1f", all / 1e6 }'; }

bench_build() {
    local tree=$here/.. target=x86_64-unknown-linux-gnu/release sim=(--package stasis-models --example sim) packages
    local -x CARGO_TARGET_DIR=$work/target
    git clone --quiet --shared "$tree" clone
    (cd clone && cargo fetch --locked --quiet)

    built --release --package stasis
    row "the program from a clone: CPU time" "6 min" "$(awk -v s="$own" 'BEGIN { printf "%.1f min", s / 60 }')"
    row "the same: wall-clock" "3.5 min" "$(awk -v s="$wall" 'BEGIN { printf "%.1f min", s / 60 }')"
    row "the program" "30 MB" "$(bytes "$CARGO_TARGET_DIR/$target/stasis") MB"
    packages=$(cd clone && cargo tree --locked --package stasis --edges normal,build --target x86_64-unknown-linux-gnu \
        --prefix none --no-dedupe | sed 's/ (.*//' | sort -u | wc -l)
    row "packages that it is built of" "180" "$packages"

    built --release "${sim[@]}"
    edited crates/drives/flash/src/ftl/page/mod.rs
    built --release "${sim[@]}"
    row "an edit of a translation layer to \`sim\`: CPU time" "12 s" "$(printf '%.1f s' "$own")"
    built --profile edit "${sim[@]}"
    edited crates/drives/flash/src/ftl/page/mod.rs
    built --profile edit "${sim[@]}"
    row "the same with the profile edit" "4 s" "$(printf '%.1f s' "$own")"
}

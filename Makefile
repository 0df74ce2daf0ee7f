# Targets for developers and users; `make` alone lists them.

PREFIX ?= /usr/local
DESTDIR ?=
RESULTS ?= results/demo
# A Debian release that differs from this machine's.
SUITE ?= $(shell . /etc/os-release && [ "$$VERSION_CODENAME" = trixie ] && echo bookworm || echo trixie)

TARGET := x86_64-unknown-linux-gnu
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
STASIS := $(TARGET_DIR)/$(TARGET)/release/stasis

# The main program, and those beside it, which few need.
PROGRAMS := stasis stasis-reproduce stasis-function stasis-coordinate

# Packages to build in place of those of a target. Tests build all at once: cargo chooses the features of dependencies
# by the packages of the call, and would compile everything again for another choice.
SCOPE ?=
test unit-test python-test system-test waiting-guests slow-test test-on: export SCOPE = --workspace --lib --bins --tests
TEST := cargo test --locked --release --workspace --no-fail-fast

# Another command for the lints: CI has them made as it builds the tests (`.ci/lint`).
LINT ?= cargo clippy --locked --release --workspace --all-targets -- --deny warnings

# Properties of one commit are tried with the same inputs wherever its tests run; PROPTEST_RNG_SEED= takes others, and
# `slow-test` draws them.
export PROPTEST_RNG_SEED ?= 1

# Commit of the program, for results and `stasis --version`.
export STASIS_COMMIT := $(shell git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null)

# Where rustup puts cargo; before Debian's, which may be too old.
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

.DEFAULT_GOAL := help
.PHONY: help setup build main guest demo test lint unit-test system-test waiting-guests slow-test plant-faults fuzz fuzz-inputs test-intel test-on python-test test-packages conformance bench docs install package clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing: Debian packages, the Rust toolchain
	@scripts/setup

build: ## Build the programs: target/x86_64-unknown-linux-gnu/release/stasis, and stasis-reproduce, -function and -coordinate beside it
	cargo build --locked --release $(or $(SCOPE),$(PROGRAMS:%=--package %))

main: # Build the main program alone
	cargo build --locked --release $(or $(SCOPE),--package stasis)

guest: main ## Make the guest's system from Debian packages, once
	$(STASIS) guest build

demo: ## Install what is missing, build, and run examples/demo.toml
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory guest
	$(STASIS) run examples/demo.toml --results $(RESULTS)

# One failure does not hide the next: all parts run, and those that failed are named at the end. What is one process
# for most of its time runs beside the rest, and is printed after it.
test: ## Install what is missing and run every test
	@$(MAKE) --no-print-directory setup
	@failed=; printed=$$(mktemp); \
	part() { $(MAKE) --no-print-directory --keep-going $$1 || failed="$$failed $$1"; }; \
	part lint; part build; \
	$(MAKE) --no-print-directory --keep-going guest python-test test-on >$$printed 2>&1 & beside=$$!; \
	trap 'kill $$beside; rm -f $$printed; exit 130' INT TERM; \
	part unit-test; part system-test; \
	wait $$beside || failed="$$failed python-test|test-on"; \
	trap - INT TERM; cat $$printed; rm -f $$printed; \
	test -z "$$failed" || { echo "failed:$$failed" >&2; exit 1; }

lint: ## Check format, lints, and where cargo-deny is installed, licences
	cargo fmt --all --check
	$(LINT)
	@scripts/check-licences

unit-test: ## Tests that start no guest
	scripts/run-tests $(TEST) --lib --bins --tests

python-test: build ## Test the Python package: lints, types, tests; ARGUMENTS=--slow boots guests
	@scripts/python-test $(ARGUMENTS)

# Guests that wait for much of their time are beside those that compute; what has limits of real time is alone.
system-test: build guest ## Tests that boot guests
	@failed=; printed=$$(mktemp); \
	$(MAKE) --no-print-directory --keep-going waiting-guests >$$printed 2>&1 & beside=$$!; \
	trap 'kill $$beside; rm -f $$printed; exit 130' INT TERM; \
	$(TEST) --test system -- --nocapture || failed=1; \
	wait $$beside || failed=1; \
	trap - INT TERM; cat $$printed; rm -f $$printed; \
	$(TEST) --test function -- --ignored || failed=1; \
	$(TEST) --test coordinate help -- --ignored || failed=1; \
	$(TEST) --test served -- ublk:: nvme_tcp::linux_connects --ignored --nocapture || failed=1; \
	test -z "$$failed"
waiting-guests: # The part of system-test that runs beside its others
	failed=; \
	$(TEST) --test own_program || failed=1; \
	$(TEST) --test vm -- --ignored --test-threads=1 || failed=1; \
	test -z "$$failed"

slow-test: build guest ## Tests that `test` leaves out: they build guests, measure, or change the host (root); STASIS_TEST_DEVICE= a block device to overwrite
	scripts/fuzz --check
	@seed=$$(shuf -i 2-4294967295 -n 1); echo "properties: PROPTEST_RNG_SEED=$$seed"; PROPTEST_RNG_SEED=$$seed scripts/run-tests $(TEST) --lib --bins --tests
	cargo clippy --locked --release -p stasis --no-default-features -- --deny warnings
	CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true cargo test --locked --release -p stasis-nand -p stasis-flash -p stasis-nvme
	$(TEST) --test boot -- --ignored --test-threads=1
	$(TEST) --test served vmm:: -- --ignored
	$(TEST) --test all differential:: -- --ignored
	$(TEST) --test clients --test peer -- --ignored --nocapture --test-threads=1
	test -z "$(STASIS_TEST_DEVICE)" || $(TEST) --test contents -- --ignored
	$(TEST) --test coordinate start_up -- --ignored --nocapture
	$(TEST) --test system slow_guides -- --ignored --nocapture
	STEPS="flash crash" scripts/test-on $(SUITE) || [ $$? -eq 77 ]
	for suite in bookworm trixie; do scripts/test-on $$suite guides || [ $$? -eq 77 ] || exit 1; done
	$(TEST) --test system no_clock_goes_backwards -- --ignored --nocapture
	$(TEST) --test system rates_are -- --ignored --nocapture
	$(TEST) --test system every_part -- --ignored --nocapture
	$(TEST) --test system clusters -- --ignored --nocapture
	$(TEST) --test system key_values -- --ignored --nocapture
	$(TEST) --test system any_damage -- --ignored --nocapture
	$(TEST) --test system rare_drives -- --ignored --nocapture
	$(TEST) --test system findings -- --ignored --nocapture
	$(TEST) --test system endurance_groups -- --ignored --nocapture
	$(TEST) --test system records_are_filtered -- --ignored --nocapture
	$(TEST) --test all key_value::million -- --ignored --nocapture
	$(TEST) --test system out_of_its_slot -- --ignored --nocapture
	$(TEST) --test system atomic_writes -- --ignored --nocapture
	$(TEST) --test system protection -- --ignored --nocapture
	$(TEST) --test system memory_buffer -- --ignored --nocapture
	$(TEST) --test system -- --ignored --nocapture controllers_fail debian_13 a_host_without_room exact_is_found
	$(TEST) --test system -- --ignored --nocapture going_back in_no_memory a_branch a_medium_on each_of_fifty zones_end an_image
	$(TEST) --test system -- --ignored --nocapture images_of_their_own that_comes_back found_by_its_name four_processors where_it_lies a_server_that_forgets a_finding_has
	$(TEST) --test system -- --ignored --nocapture profile guest_times guide_to_a_kernel
	$(TEST) --test served -- nvme_tcp:: kept_tcp:: --ignored --nocapture --test-threads=1
	$(TEST) --test nvme_tcp -- --ignored --nocapture --test-threads=1
	$(TEST) --test served vfio_user:: -- --ignored --nocapture --test-threads=1
	$(TEST) --test vfio_user -- --ignored --nocapture --test-threads=1
	$(TEST) --test served nvme_peer:: -- --ignored --nocapture
	$(TEST) --test all named:: -- --ignored --nocapture
	$(TEST) --test reproduce -- --ignored --nocapture

plant-faults: guest ## Plant a fault for each promise of docs/explanation/trust.md: its test must find it; FAULTS= a word of the tests' names
	$(TEST) --test house planted_faults:: -- --ignored --nocapture

FUZZ_CASES = 200000

fuzz: ## Try FUZZ_CASES inputs on each parser of what a guest or a client says, on the stable toolchain; crates/*/*/fuzz has the same for cargo-fuzz
	STASIS_FUZZ_CASES=$(FUZZ_CASES) $(TEST) --test hostile
	STASIS_FUZZ_CASES=$(FUZZ_CASES) $(TEST) --test all hostile::
	STASIS_FUZZ_CASES=$$(($(FUZZ_CASES) / 100)) $(TEST) --test clients
	STASIS_FUZZ_CASES=$$(($(FUZZ_CASES) / 100)) $(TEST) --test all bad::

fuzz-inputs: ## Make what fuzzing of a user's root begins with, in target/fuzz: archives and disk images, by the tools that make such
	$(TEST) --test hostile --test all inputs_to_begin_with -- --ignored

test-intel: guest ## The engine kvm on Intel's VMX, in a processor that Bochs emulates; some minutes each (PROCESSORS= some of `scripts/test-intel STASIS list`)
	@scripts/test-intel $(STASIS) $(PROCESSORS)

test-on: build ## A user's first steps on another release (SUITE): QEMU, kernels, tools, guests; STEPS= some of doctor, run, flash, crash, serve
	@STEPS="$(or $(STEPS),doctor run serve)" scripts/test-on $(SUITE) || [ $$? -eq 77 ]

conformance: build ## Run others' suites in a guest: BLKTESTS=, FIO=, NVME_CLI=, ZONEFS=, XNVME=, XFSTESTS= say where their sources are, FIO_JOBS= a folder of fio job files (docs/development/conformance.md)
	@test -n "$(BLKTESTS)$(FIO)$(FIO_JOBS)$(NVME_CLI)$(ZONEFS)$(XNVME)$(XFSTESTS)" || { echo "say where a suite is: BLKTESTS=DIR, FIO=DIR, FIO_JOBS=DIR, NVME_CLI=DIR, ZONEFS=DIR, XNVME=DIR, XFSTESTS=DIR (docs/development/conformance.md)" >&2; exit 2; }
	@status=0; \
	test -z "$(BLKTESTS)" || scripts/conformance blktests "$(BLKTESTS)" $(STASIS) || status=1; \
	test -z "$(BLKTESTS)" || for way in tcp vfio-user; do \
		WAY=$$way SUITE=blktests SOURCE="$(abspath $(BLKTESTS))" $(TEST) --test served suites:: -- --ignored --nocapture || status=1; \
	done; \
	test -z "$(FIO)" || PATH="$(abspath $(FIO)):$$PATH" cargo test --locked --release -p stasis-workload --test fio || status=1; \
	test -z "$(FIO)" || scripts/conformance fio-zbd "$(FIO)" $(STASIS) || status=1; \
	test -z "$(FIO_JOBS)" || FIO_JOBS="$(abspath $(FIO_JOBS))" FIO_REPORT="$(abspath results/conformance)/fio-jobs.tsv" \
		PATH="$(if $(FIO),$(abspath $(FIO)):)$$PATH" cargo test --locked --release -p stasis-workload --test jobs -- --ignored --nocapture || status=1; \
	test -z "$(NVME_CLI)" || scripts/conformance nvme-cli "$(NVME_CLI)" $(STASIS) || status=1; \
	test -z "$(NVME_CLI)" || WAY=tcp SUITE=nvme-cli SOURCE="$(abspath $(NVME_CLI))" $(TEST) --test served suites:: -- --ignored --nocapture || status=1; \
	test -z "$(ZONEFS)" || scripts/conformance zonefs "$(ZONEFS)" $(STASIS) || status=1; \
	test -z "$(XNVME)" || scripts/conformance xnvme "$(XNVME)" $(STASIS) || status=1; \
	test -z "$(XFSTESTS)" || scripts/conformance xfstests "$(XFSTESTS)" $(STASIS) || status=1; \
	exit $$status

bench: guest ## Measure, and print each figure beside what it is to reach
	scripts/bench $(STASIS)

docs: ## Build the book of docs/ with mdBook: target/book/index.html
	@scripts/setup --book
	mdbook build docs --dest-dir $(abspath $(TARGET_DIR))/book

install: ## Build as you, and install as root: `sudo make install`; PREFIX=~/.local needs no root (PREFIX, DESTDIR)
	@scripts/install $(STASIS) $(PREFIX) $(DESTDIR)

package: ## Make what users install, in target/package: a .deb, a Python wheel, an OCI image; PACKAGES= some of: deb wheel oci
	@scripts/setup --packaging
	cargo build --locked --profile dist $(PROGRAMS:%=--package %)
	@scripts/package $(PACKAGES)

test-packages: ## Install each of target/package on Debian 13 and use it, and run the action's steps (PACKAGES= some of: deb wheel oci action)
	@scripts/test-on trixie packages || [ $$? -eq 77 ]

clean: ## Remove what was built; guests in the cache stay
	cargo clean

# `make` or `make help` lists the targets. Nothing here pipes: a pipe hides an exit status.

CARGO ?= cargo
FUZZ_SECONDS ?= 60
# Versions of the Java SDK that are measured: those of the published study, and the newest.
JAVA_SDK_VERSIONS = 5.17.1 5.18.0 5.21.3
# The same for queues. One version of the study is no longer published; scenarios/queue-forward.yaml says what replaces it.
SERVICE_BUS_SDK_VERSIONS = 7.14.7 7.15.0-beta.5 7.17.20
SPRING_SERVICE_BUS_SDK_VERSIONS = 7.15.0-beta.5
# In the order in which they run.
CLIENT_SUITES = test-java test-python test-javascript test-go test-dotnet test-azurite test-prometheus test-otel test-explorer
# Of the packages that carry the program; the one for Rust is of the workspace, and tested with it.
PACKAGES = python javascript java go
PACKAGE_SUITES = $(PACKAGES:%=test-package-%)

# In the order in which they begin: the first needs a quiet machine, the next mostly wait.
LONG_SUITES = test-ignored test-sdk-suites test-fuzz test-miri test-valgrind program test-histories test-benchmarks test-java-older test-older test-dotnet-long test-outside test-azurite-long test-otel-collector test-image
# What `make test` and `make test-long` may take from scratch on two idle cores.
TEST_MINUTES = 25
TEST_LONG_MINUTES = 60
TEST_THREADS := $(shell echo $$(($$(nproc) * 2)))

# LINT_BUILD=1: clippy compiles the crates of the workspace, so that one build serves lint and tests, and warnings are errors. The
# command line of `cargo test` stays as it is, hence the environment.
ifdef LINT_BUILD
export RUSTC_WORKSPACE_WRAPPER = clippy-driver
export RUSTFLAGS = -D warnings
endif

.DEFAULT_GOAL := help
.PHONY: help run test test-rust test-alone test-long $(LONG_SUITES) test-clients $(CLIENT_SUITES) test-packages $(PACKAGE_SUITES) packages test-sdk-administration bench bench-blob bench-kafka bench-mirror bench-send lint format dist fuzz peers peers-java peers-rust peers-java-service-bus peers-spring-service-bus peers-kafka peers-producers peers-consumers peers-send

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 32

run: ## the fan-out study on the embedded service: about two minutes, a table and a report
	$(BUILD_PROGRAM)
	target/release/parshall run fan-out --quick

# What is shipped is compiled by rustc, whatever has compiled the tests.
BUILD_PROGRAM = $(if $(LINT_BUILD),env -u RUSTC_WORKSPACE_WRAPPER -u RUSTFLAGS )$(CARGO) build --release --locked -p parshall $(PROGRAM_OPTIONS)

program: ## the program alone, in target/release
	compat/step program $(BUILD_PROGRAM)

# First everything is compiled, with all cores. Then the suites of the clients, which mostly wait, run beside the Rust tests. Last
# come the tests that need the machine for themselves. Everything runs to its end; the times and the failures come at the end.
test: ## all that a change can break, with the newest client of each language (25 minutes from scratch on 2 cores)
	@compat/times begin
	compat/step build $(BUILD_TESTS) || { compat/failures; exit 1; }
	status=0; \
	$(MAKE) --jobs=2 --keep-going --no-print-directory test-rust $(CLIENT_SUITES) $(PACKAGE_SUITES) || status=1; \
	$(MAKE) --no-print-directory test-alone || status=1; \
	compat/times $(TEST_MINUTES); \
	[ $$status -eq 0 ] || { compat/failures; exit 1; }

# Benchmarks are compiled so that they stay whole; they run in `make test-long`.
BUILD_TESTS = $(CARGO) test --workspace --locked --all-targets --no-run --timings

RUN_TESTS = $(CARGO) test --workspace --locked --no-fail-fast

# Twice as many tests at a time as there are cores: many wait for a good part of their time. Doc tests would look in vain for
# the job server that MAKEFLAGS names.
test-rust: export MAKEFLAGS =
test-rust: export RUST_TEST_THREADS ?= $(TEST_THREADS)
test-rust:
	status=0; \
	SIMULATOR_HISTORIES=300 compat/step rust $(RUN_TESTS) --lib --bins --test integration || status=1; \
	compat/step runs $(RUN_TESTS) --test runs || status=1; \
	compat/step doc $(RUN_TESTS) --doc || status=1; \
	exit $$status

test-alone:
	MAKEFLAGS= compat/step alone $(RUN_TESTS) --test alone

# What a change hardly ever breaks alone. It runs before an issue is closed and before a release. Ignored tests need a quiet machine,
# so they come first. Of the rest, the SDKs' suites mostly wait.
test-long: ## the rest: older clients, the SDKs' own suites, long faults, fuzzing, Miri, benchmarks (an hour; needs go, nightly)
	@compat/times begin
	compat/step build $(BUILD_TESTS) || { compat/failures; exit 1; }
	status=0; \
	$(MAKE) --no-print-directory test-ignored || status=1; \
	$(MAKE) --jobs=2 --keep-going --no-print-directory $(filter-out test-ignored,$(LONG_SUITES)) || status=1; \
	compat/times $(TEST_LONG_MINUTES); \
	[ $$status -eq 0 ] || { compat/failures; exit 1; }

test-ignored:
	MAKEFLAGS= compat/step ignored $(RUN_TESTS) --lib --bins --tests -- --ignored --test-threads=1

test-histories:
	MAKEFLAGS= compat/step histories $(RUN_TESTS) --test integration histories::

test-benchmarks:
	MAKEFLAGS= PARSHALL_BENCH_QUICK=1 compat/step benchmarks $(CARGO) bench --workspace --locked --profile dev --no-fail-fast

test-miri:
	MAKEFLAGS= compat/step miri compat/miri

test-valgrind:
	MAKEFLAGS= compat/step valgrind compat/valgrind

test-fuzz:
	MAKEFLAGS= compat/step fuzz compat/fuzz 15

test-java-older:
	MAKEFLAGS= compat/step java-older compat/java/run older

# Versions of the last three years, in compat/older/versions; Java's are those of test-java-older.
test-older:
	status=0; \
	for language in python javascript go; do \
		MAKEFLAGS= compat/step older-$$language compat/older/$$language/run || status=1; \
	done; \
	exit $$status

test-dotnet-long:
	MAKEFLAGS= compat/step dotnet-long compat/dotnet/run long

# Suites and clients that others wrote for these services.
test-outside:
	MAKEFLAGS= compat/step outside compat/outside/run

# Every request of a table to both services; a difference needs a reason.
test-azurite-long:
	MAKEFLAGS= compat/step azurite-long compat/azurite/side-by-side

test-otel-collector:
	MAKEFLAGS= compat/step otel-collector compat/otel/run --collector

# Containers of the image, where podman can run them.
test-image:
	MAKEFLAGS= compat/step image compat/image/run

test-sdk-administration:
	MAKEFLAGS= compat/step sdk-administration compat/sdk-administration/run

test-sdk-suites: ## the official SDKs' own test suites, part of `test-long` (half an hour, needs go)
	MAKEFLAGS= compat/step sdk-suites-go compat/sdk-suites/go/run
	MAKEFLAGS= compat/step sdk-suites-python compat/sdk-suites/python/run

$(CLIENT_SUITES): test-%:
	MAKEFLAGS= compat/step $* compat/$*/run

test-clients: $(CLIENT_SUITES)

$(PACKAGE_SUITES): test-package-%:
	MAKEFLAGS= compat/step package-$* packages/$*/run

test-packages: $(PACKAGE_SUITES) ## the packages for test suites of users, part of `test`

bench: ## all benchmarks, each with a reference and the ratio to it
	$(CARGO) bench --workspace --locked

bench-kafka: ## the service against Apache Kafka, driven by the same clients: a table of ratios (half an hour; needs a JDK, Maven)
	$(CARGO) build --release --locked -p parshall -p kafka-load
	peers/apache-kafka/build
	peers/kafka-load/compare.py --parshall target/release/parshall --out target/bench-kafka

bench-mirror: ## the relay against MirrorMaker 2, on one core each: a table of ratios (a quarter of an hour; needs a JDK, Maven)
	$(CARGO) build --release --locked -p parshall -p kafka-load
	peers/mirror-maker/build
	peers/kafka-load/mirror.py --parshall target/release/parshall --out target/bench-mirror

bench-send: ## `send` against `kcat -P`, and our producer against librdkafka, Java and `oha`: a table of ratios (a quarter of an hour)
	$(CARGO) build --release --locked -p parshall -p kafka-load
	peers/send/bench.py --parshall target/release/parshall --out target/bench-send

bench-blob: ## blobs on a disk, beside Azurite: a table of ratios (ten minutes; needs node, npm and `make peers-send`)
	$(CARGO) build --release --locked -p parshall
	peers/blob/bench.py --parshall target/release/parshall --out target/bench-blob

lint: format ## rustfmt and clippy; warnings are errors
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

format: ## rustfmt, as a check
	$(CARGO) fmt --all --check

dist: ## the archive that is shipped, its checksum and the image's files, in target/dist
	.ci/dist

packages: ## packages for test suites of users, in target/packages: with the program of `make dist` if that was built
	packages/build

fuzz: ## every fuzz target for FUZZ_SECONDS each (needs nightly; installs cargo-fuzz)
	compat/fuzz $(FUZZ_SECONDS)

peers: peers-java peers-rust peers-java-service-bus peers-spring-service-bus peers-kafka peers-producers peers-consumers peers-send ## the studies' forwarders and clients on the official SDKs, to compare with

peers-java: ## the fan-out forwarder on three versions of the Java SDK (needs a JDK and Maven)
	peers/java-event-hubs/build $(JAVA_SDK_VERSIONS)

peers-java-service-bus: ## the queue forwarder on three versions of the Java SDK
	peers/java-service-bus/build $(SERVICE_BUS_SDK_VERSIONS)

peers-spring-service-bus: ## the queue forwarder behind the Spring Cloud Azure binder
	peers/spring-service-bus/build $(SPRING_SERVICE_BUS_SDK_VERSIONS)

peers-kafka: ## the clients of Kafka that are programs: kafka-clients (needs a JDK and Maven) and confluent-kafka (Python)
	peers/kafka-clients/build
	peers/confluent-kafka/build

peers-producers: ## the official producers of Event Hubs, in Java (needs a JDK and Maven) and Python
	peers/java-producer/build
	peers/python-producer/build

peers-consumers: ## the consumer that writes to a topic and an archive, in Java (needs a JDK and Maven) and Python
	peers/java-consumer/build $(lastword $(JAVA_SDK_VERSIONS))
	peers/python-consumer/build

peers-send: ## `oha`, for `make bench-send` (some minutes)
	peers/send/build

peers-rust: ## the fan-out forwarder on the Rust SDK
	$(CARGO) build --release --locked --manifest-path peers/rust-event-hubs/Cargo.toml --target-dir peers/rust-event-hubs/target

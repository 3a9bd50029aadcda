# `make` or `make help` lists the targets. Nothing here pipes: a pipe hides an exit status.

CARGO ?= cargo
FUZZ_SECONDS ?= 60
# Versions of the Java SDK that are measured: those of the published study, and the newest.
JAVA_SDK_VERSIONS = 5.17.1 5.18.0 5.21.3
# The same for queues. One version of the study is no longer published; scenarios/queue-forward.yaml says what replaces it.
SERVICE_BUS_SDK_VERSIONS = 7.14.7 7.15.0-beta.5 7.17.20
SPRING_SERVICE_BUS_SDK_VERSIONS = 7.15.0-beta.5
# In the order in which they run.
CLIENT_SUITES = test-java test-python test-sdk-administration test-javascript test-azurite test-prometheus test-otel test-explorer
# Of the packages that carry the program; the one for Rust is of the workspace, and tested with it.
PACKAGES = python javascript java go
PACKAGE_SUITES = $(PACKAGES:%=test-package-%)
FUZZ_TARGETS = decoder sections connection conversation kafka_request kafka_response kafka_record_batch log_recovery rest_request rest_response sidecar sql_filter structured_message bearer_token

.DEFAULT_GOAL := help
.PHONY: help run test test-rust test-clients $(CLIENT_SUITES) test-packages $(PACKAGE_SUITES) packages test-go test-sdk-suites bench bench-kafka bench-mirror bench-send lint dist fuzz peers peers-java peers-rust peers-java-service-bus peers-spring-service-bus peers-kafka peers-producers peers-consumers peers-send

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 32

run: ## the fan-out study on the embedded service: about two minutes, a table and a report
	$(CARGO) build --release --locked -p parshall
	target/release/parshall run fan-out --quick

# What is compiled uses all cores; then the suites of the clients, which mostly wait, run beside the rest. All run to their end,
# and what failed is said last.
test: ## all tests, the official-client suites included
	$(CARGO) test --workspace --locked --no-run
	$(CARGO) bench --workspace --locked --profile dev --no-run
	$(MAKE) --jobs=2 --keep-going --no-print-directory test-rust $(CLIENT_SUITES) $(PACKAGE_SUITES) || { compat/failures; exit 1; }

# Twice as many tests at a time as there are cores: many wait for a good part of their time. Doc tests would look in vain for
# the job server that MAKEFLAGS names.
test-rust:
	MAKEFLAGS= RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$(($$(nproc) * 2))} compat/step rust $(CARGO) test --workspace --locked --no-fail-fast
	MAKEFLAGS= PARSHALL_BENCH_QUICK=1 compat/step benchmarks $(CARGO) bench --workspace --locked --profile dev --no-fail-fast

$(CLIENT_SUITES): test-%:
	MAKEFLAGS= compat/step $* compat/$*/run

test-clients: $(CLIENT_SUITES)

$(PACKAGE_SUITES): test-package-%:
	MAKEFLAGS= compat/step package-$* packages/$*/run

test-packages: $(PACKAGE_SUITES) ## the packages for test suites of users, part of `test`

test-go: ## the suite of the official Go client, not part of `test` (needs go)
	compat/go/run

test-sdk-suites: ## the official SDKs' own test suites, of which `test` has only a part (half an hour, needs go)
	compat/sdk-suites/go/run
	compat/sdk-suites/python/run

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

lint: ## rustfmt and clippy; warnings are errors
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

dist: ## the archive that is shipped, its checksum and the image's files, in target/dist
	.ci/dist

packages: ## packages for test suites of users, in target/packages: with the program of `make dist` if that was built
	packages/build

fuzz: ## every fuzz target for FUZZ_SECONDS each (needs nightly and cargo-fuzz)
	for target in $(FUZZ_TARGETS); do \
		$(CARGO) +nightly fuzz run $$target -- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

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

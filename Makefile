# make run    a working Sandgate on this machine
# make quick  lint and the tests in Go, Python and TypeScript that need no root, gVisor or other servers
# make dist   the wheel and the source archive of the Python client, in dist/
# make test   every test and lint
# make bench  the figures of SPECIFICATION.md
# make audit  known defects of the Go modules and npm packages
# make sbom   the SPDX document of the build, bin/sandgate.spdx.json
# make reproduce  builds the programs and the image twice, and compares
# make fuzz   each fuzz target for FUZZTIME, by default a minute
# make chaos  random faults of a cluster for CHAOS, by default ten minutes, or those of SEED
# make soak   use with faults for SOAK, by default an hour, by SOAKUSERS users

SHELL   := /bin/bash
GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X main.version=$(VERSION)
SUDO    := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
LINT    := $(GO) tool -modfile=tools/go.mod
# All packages of the three modules.
GO_ALL  := ./... github.com/sandgate/sandgate/protocol/... github.com/sandgate/sandgate/client/...
# Debian's Python, for which Debian has httpx, websockets and mypy.
PYTHON  ?= /usr/bin/python3

.PHONY: run build quick quick-go quick-web test lint unit web bench fuzz chaos soak audit sbom reproduce clean setup app dist
.PHONY: python python-source python-lint
.PHONY: bin/sandgate bin/agent bin/runsc bin/image.erofs bin/versitygw

run: setup build
	$(SUDO) bin/sandgate serve

setup:
	@deploy/setup run

build: bin/runsc bin/image.erofs bin/sandgate
	@echo "build: all there in bin/"

# The recipes below decide by the hash of their inputs whether there is anything to build, so make
# does not have to.
bin/runsc:
	@mkdir -p bin
	@deploy/runsc/build --out bin/runsc

bin/agent:
	@mkdir -p bin
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o bin/agent ./cmd/agent

bin/image.erofs: bin/agent
	@$(SUDO) env "PATH=$$PATH" deploy/image/build --agent bin/agent --langs langs --out bin/image.erofs

# The web application, which the binary embeds.
app: node_modules
	@node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' || { echo "web: this takes Node 20 or later, here is $$(node --version)"; exit 1; }
	@web/app/build

bin/sandgate: app
	@mkdir -p bin
	@CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/sandgate ./cmd/sandgate

# The S3 server that tests run against.
bin/versitygw:
	@mkdir -p bin
	@CGO_ENABLED=0 $(GO) build -modfile=tools/s3/go.mod -trimpath -ldflags '-s -w' -o bin/versitygw github.com/versity/versitygw/cmd/versitygw

test:
	@deploy/setup test
	@$(MAKE) --no-print-directory build lint web python unit

# Results without the paths of a clone: all clones of a machine share the caches
# of the compiler, vet and staticcheck.
lint quick quick-go quick-web: export GOFLAGS := $(filter-out -trimpath,$(GOFLAGS)) -trimpath

lint: node_modules python-lint
	@echo "lint: gofumpt, vet, staticcheck, shellcheck, markdownlint, the rules of the repository"
	@out=$$($(LINT) gofumpt -l $$(git ls-files '*.go')); [ -z "$$out" ] || { echo "gofumpt -w these files:"; echo "$$out"; exit 1; }
	@$(GO) vet $(GO_ALL)
	@$(GO) vet -tags chaos ./e2e
	@for m in protocol client; do $(GO) -C $$m mod tidy -diff || { echo "go mod tidy in $$m"; exit 1; }; done
	@$(LINT) staticcheck $(GO_ALL)
	@shellcheck $$(git grep -lE '^#!.*(bash|sh)$$' -- ':!*.md')
	@out=$$(npx --no-install markdownlint-cli2 '**/*.md' 2>&1) || { echo "$$out"; exit 1; }
	@$(GO) test -vet=off $(TEST_FLAGS) .

# Lint has run the tests of the root package. These packages have tests that need root, gVisor, a
# built image, or a compiler in bin/, or download modules.
QUICK_EXCLUDE := deploy/kubernetes e2e e2e/e2b e2e/jupyter internal/agent internal/blob \
	internal/cluster internal/cluster/redis internal/confine internal/image \
	internal/sandbox/gvisor internal/session internal/session/replica langs \
	langs/bash/driver langs/golang
# Tests of other packages that need root, redis-server or an S3 server.
QUICK_SKIP := TestRatesOverGateways|TestRunTicketWithoutStore|TestBackup|TestRestoreRefuses|TestFullDiskCosts|TestMovesOverS3|TestRecordsOutliveTheirNode

# The application is built first: the Go packages embed it, and its tests check its size.
quick: lint app
	@echo "quick: the tests that need neither root nor gVisor nor other servers"
	@$(MAKE) --no-print-directory -j2 -Otarget quick-go quick-web python

quick-web:
	@npm run --silent --workspaces --if-present test

quick-go:
	@$(GO) test -short -vet=off $(TEST_FLAGS) -skip '$(QUICK_SKIP)' $$($(GO) list $(GO_ALL) | \
		grep -vxF -e "$$($(GO) list .)" -e "$$(printf 'github.com/sandgate/sandgate/%s\n' $(QUICK_EXCLUDE))")

# Tests are linked without debug information, which takes most of the linker's time.
TEST_FLAGS := -trimpath -ldflags=-w
# Lint has run vet. Zstandard is ten times slower with the race detector, and is a dependency. The
# tag lockorder checks the order of mutexes. All clones of a machine share the compiler's cache.
RACE_FLAGS := $(TEST_FLAGS) -race -tags lockorder -gcflags=github.com/klauspost/compress/zstd=-race=false
RACE = $(SUDO) env "PATH=$$PATH" SANDGATE_TEST_SNAPSHOTS="$$snapshots" \
	SANDGATE_TEST_PASSES=$(SANDGATE_TEST_PASSES) $(GO) test $(RACE_FLAGS) -vet=off -v -p 1 -timeout 75m

# The packages of gVisor's backend count what they leave on the machine and run alone. Then two runs
# share the machine, so that both take about as long: tests through the public API, and the tests of
# all other packages with those of the application. Each of the two has half of the processors, as
# sandboxes need up to five times the processor time on a machine that is too busy. The tests through
# the API that are parallel wait most of the time, so one more of them runs. All share the warm
# snapshots of languages. The images of templates that some of them need mostly wait for
# downloads, so they are built meanwhile. A few tests that failed run again alone: see deploy/retest.
APPLICATION := ^TestWebApplication$$

unit: node_modules bin/versitygw
	@for t in r programs octave; do \
		$(SUDO) deploy/templates/build $$t bin/templates/$$t; done >bin/templates.log 2>&1 &
	@echo "test: all packages, race detector on, real gVisor"
	@# the race detector's own memory would hide these
	@$(GO) test -vet=off $(TEST_FLAGS) -run 'Idle' ./gateway ./internal/noderpc
	@cd e2e/signin && $(SUDO) env "PATH=$$PATH" $(GO) test -vet=off $(TEST_FLAGS) ./... # a module of its own
	@snapshots=$$(mktemp -d); trap '$(SUDO) rm -rf "$$snapshots"' EXIT; \
	alone=$$($(GO) list ./internal/sandbox/...); long=$$($(GO) list ./e2e); \
	others=$$($(GO) list ./internal/session ./e2e/e2b ./e2e/jupyter $(GO_ALL) | awk '!seen[$$0]++' | \
		grep -vxF -e "$$($(GO) list .)" -e "$$long" -e "$$alone"); \
	$(GO) list $(RACE_FLAGS) -deps -test -export $$alone $$long $$others >/dev/null; \
	half=$$(( ($$(nproc) + 1) / 2 )); \
	rm -f bin/test*.log; \
	run() { log=bin/test-$$1.log; shift; deploy/testrun $$log $(RACE) "$$@"; }; \
	code=0; run alone $$alone || code=1; \
	run long -parallel $$((half + 1)) -skip '$(APPLICATION)' $$long & public_run=$$!; \
	run others -parallel $$half $$others || code=1; \
	run web -parallel $$half -run '$(APPLICATION)' $$long || code=1; \
	wait $$public_run || code=1; \
	[ $$code = 0 ] || { \
		cat bin/test-*.log >bin/test.log; \
		echo; echo "test: what failed, without the servers' logs (all of it is in bin/test.log):"; \
		grep -vE ' level=|Unsolicited response' bin/test.log | grep -E -A 15 '^ *--- FAIL|^panic:|DATA RACE|^ *FAIL' | cut -c 1-500 | tail -150; \
		echo; echo "test: the tests that failed:"; grep -E '^ *--- FAIL|^FAIL.*/' bin/test.log | head -60; \
		deploy/retest bin/test.log $(RACE); }

web: app
	@echo "web: the TypeScript client and the application, their types and their tests"
	@npm run --silent --workspaces build
	@npm run --silent --workspaces check
	@node_modules/.bin/tsc -p examples/guides
	@npm run --silent --workspaces --if-present test

# The Python client: its generated files, its types, and the tests that need no server.
python-source:
	@cd client/python && GO="$(GO)" $(PYTHON) generate.py

python-lint: python-source
	@echo "lint: mypy"
	@cd client/python && $(PYTHON) -m mypy --no-error-summary

python: python-source
	@cd client/python && PYTHONPATH=src $(PYTHON) -W error::SyntaxWarning -m unittest discover -q -t . -s tests/unit

dist: python-source
	@rm -rf dist client/python/build
	@$(PYTHON) -m build --no-isolation --outdir dist client/python >/dev/null 2>&1
	@rm -rf client/python/build client/python/src/*.egg-info
	@ls dist/*

node_modules: package-lock.json
	@npm ci --no-audit --no-fund --silent
	@touch node_modules

bench: build node_modules python-source
	@npm run --silent --workspace client/typescript build
	@$(SUDO) env "PATH=$$PATH" bench/run

audit:
	@GO="$(GO)" deploy/audit

sbom: build
	@$(GO) run ./cmd/sbom "$(VERSION)" "$$(git log -1 --format=%ct)" package-lock.json \
		bin/image.erofs.json bin/sandgate bin/agent bin/runsc >bin/sandgate.spdx.json
	@echo bin/sandgate.spdx.json

# REPRODUCE may have some of agent, sandgate, image and image=LANGUAGE,...
reproduce:
	@$(SUDO) env "PATH=$$PATH" GO="$(GO)" deploy/reproduce $(REPRODUCE)

# The targets of drivers run them in the image. FUZZ is a pattern for PACKAGE.TARGET.
FUZZTIME ?= 1m
fuzz: build
	@$(SUDO) env "PATH=$$PATH" GO="$(GO)" tools/fuzz $(FUZZTIME) $(FUZZ)

# A failed run prints its seed. The same seed causes the same faults.
CHAOS ?= 10m
SEED  ?=
chaos: build
	@$(SUDO) env "PATH=$$PATH" SANDGATE_CHAOS=$(CHAOS) SANDGATE_CHAOS_SEED=$(SEED) \
		$(GO) test -tags chaos -count=1 -v -timeout 0 -run 'TestChaos$$|TestRollingUpgrade$$|TestKilledUpgrade$$' ./e2e

SOAK      ?= 1h
SOAKUSERS ?= 1

soak: build
	@$(GO) build -o bin/soak ./e2e/soak
	@$(SUDO) env "PATH=$$PATH" bin/soak -for $(SOAK) -workers $(SOAKUSERS)

clean:
	rm -rf bin dist node_modules client/typescript/dist web/app/dist/site web/app/dist/site.key
	rm -rf client/python/build client/python/src/sandgate/_sync client/python/src/*.egg-info
	rm -f client/python/src/sandgate/protocol.py client/python/src/sandgate/_async/api.py

# Spindle: a short front to meson. `make help` lists what there is.

PREFIX ?= /usr/local
BUILD ?= build
MESON_OPTIONS ?=
RUNS_DIR ?=

.PHONY: all help deps build compare check install perf asan tsan fuzz soak format clean

all: build

help:
	@echo 'make compare   installs what is missing, builds, and runs the main job on eight modelled disks'
	@echo 'make check     installs what is missing, builds, runs all tests (also with ASan and UBSan)'
	@echo 'make build     installs what is missing and builds; the program is $(BUILD)/spindle'
	@echo 'make install   program, library, header, manual pages (PREFIX=$(PREFIX), DESTDIR=)'
	@echo 'make perf      the project measures itself against docs/measured.md'
	@echo 'make asan tsan the tests under a sanitizer; make fuzz: libFuzzer; make soak: many more seeds'
	@echo 'make format    clang-format over src, include, tests and fuzz; make clean: removes the build folders'

deps:
	@tools/install-deps build

build: deps
	@tools/build $(BUILD) -Ddocs=true --prefix=$(PREFIX) -Dlibdir=lib $(MESON_OPTIONS)

# libdir: meson would choose lib64 on a Debian without dpkg-dev, where neither pkg-config nor the loader looks.
# A status of 3 says that some figure is not valid, and why is in the table: the job itself went well.
compare: build
	@$(BUILD)/spindle compare; status=$$?; \
	if [ $$status -eq 3 ]; then \
		echo 'compare: done; status 3: some results are not valid, the table above marks them and says why'; \
	else exit $$status; fi

check: build
	@tools/run-tests $(BUILD) build-asan=address,undefined

install: build
	@DESTDIR='$(DESTDIR)' meson install -C $(BUILD) --no-rebuild
	@if [ -z '$(DESTDIR)' ] && [ "$$(id -u)" -eq 0 ] && command -v ldconfig >/dev/null; then ldconfig; fi

perf:
	@tools/install-deps build perf
	@tools/build build-perf -Dtests=false -Dperf=true
	@build-perf/perf/spindle-perf

asan: deps
	@tools/run-tests build-asan=address,undefined

tsan: deps
	@tools/run-tests build-tsan=thread

fuzz:
	@tools/install-deps build fuzz
	@tools/fuzz build-fuzz

soak: build
	@SPINDLE_SOAK=1 SPINDLE_SEEDS=$${SPINDLE_SEEDS:-20000} tools/run-tests --timeout-multiplier 40 $(BUILD)

format:
	@find src include tests fuzz perf -name '*.[ch]' -exec clang-format -i {} +

clean:
	@rm -rf $(BUILD) build-asan build-tsan build-fuzz build-perf

# `make fuzz`: libFuzzer targets, built by clang beside everything else, run for
# FUZZ_SECONDS in all on a corpus that stays in the build tree.
FUZZ_SECONDS ?= 120
FUZZ_TARGETS = onnx plan_text cluster safetensors checkpoint bodies
# What one allocation and the whole process may take, in MB. The targets let an
# import fold 16 MB of constants, so that what is not counted there shows.
FUZZ_MALLOC_MB = 64
FUZZ_RSS_MB = 1024
FUZZ_CFLAGS = -O1 -g -fsanitize=fuzzer-no-link,address,undefined \
  -fno-sanitize-recover=undefined -fno-omit-frame-pointer

fuzz_sources = $(src_base_libfs_base_a_SOURCES) $(src_ir_libfs_ir_a_SOURCES) \
  $(src_hw_libfs_hw_a_SOURCES) $(src_onnx_libfs_onnx_a_SOURCES) \
  $(src_plan_libfs_plan_a_SOURCES) \
  src/exec/safetensors.c src/exec/weights.c src/exec/checkpoint.c \
  src/exec/checkpoint_read.c src/exec/tuned.c src/exec/piece.c src/exec/fold.c \
  src/exec/failpoint.c src/exec/recorder.c src/exec/bell.c \
  src/exec/parker.c src/cli/bodies.c
fuzz_objects = $(patsubst %.c,fuzz/%.o,$(filter %.c,$(fuzz_sources)))
fuzz_mains = $(patsubst %,fuzz/tests/fuzz_%.o,$(FUZZ_TARGETS))
fuzz_programs = $(addprefix fuzz/fuzz_,$(FUZZ_TARGETS))

fuzz/%.o: %.c config.h
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(FUZZ_CC) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) \
	  $(HWLOC_CFLAGS) $(CPPFLAGS) $(WARN_CFLAGS) $(FUZZ_CFLAGS) -MMD -MP \
	  -c -o $@ $<
$(fuzz_programs): fuzz/fuzz_%: fuzz/tests/fuzz_%.o $(fuzz_objects)
	$(AM_V_CCLD)$(FUZZ_CC) $(FUZZ_CFLAGS) -fsanitize=fuzzer -o $@ $^ \
	  $(HWLOC_LIBS) $(JANSSON_LIBS) $(ZLIB_LIBS) -lm
-include $(fuzz_objects:.o=.d) $(fuzz_mains:.o=.d)

.PHONY: fuzz
fuzz:
	@if test -n '$(FUZZ_MISSING)'; then \
	  echo 'make fuzz: missing: $(FUZZ_MISSING); install it and configure again' >&2; \
	  exit 1; fi
	@$(MAKE) $(AM_MAKEFLAGS) $(fuzz_programs)
	@$(AM_TESTS_ENVIRONMENT) \
	  FUZZ_SECONDS='$(FUZZ_SECONDS)' FUZZ_TARGETS='$(FUZZ_TARGETS)' \
	  FUZZ_MALLOC_MB='$(FUZZ_MALLOC_MB)' FUZZ_RSS_MB='$(FUZZ_RSS_MB)' \
	  $(SHELL) $(srcdir)/tests/fuzz.sh
clean-local:
	rm -rf fuzz
EXTRA_DIST += tests/fuzz.sh tests/fuzz.h tests/fuzz_proto.h \
  tests/fuzz_onnx.c tests/fuzz_plan_text.c tests/fuzz_cluster.c \
  tests/fuzz_safetensors.c tests/fuzz_checkpoint.c tests/fuzz_bodies.c

noinst_LIBRARIES += src/zoo/libfs_zoo.a
src_zoo_libfs_zoo_a_SOURCES = src/zoo/zoo.h src/zoo/model.h src/zoo/zoo.def \
  src/zoo/presets.def src/zoo/zoo.c src/zoo/parts.c \
  src/zoo/transformer.h src/zoo/transformer.c \
  src/zoo/experts.h src/zoo/experts.c \
  src/zoo/gpt.c src/zoo/mlp.c src/zoo/llama.c \
  src/zoo/moe.c src/zoo/bert.c src/zoo/t5.c src/zoo/vit.c \
  src/zoo/convolution.h src/zoo/convolution.c src/zoo/resnet.c src/zoo/vgg.c \
  src/zoo/inverted.h src/zoo/inverted.c src/zoo/mobilenet.c \
  src/zoo/efficientnet.c src/zoo/unet.c src/zoo/wide_deep.c \
  src/zoo/dlrm.c src/zoo/insightface.c src/zoo/recurrent.c
EXTRA_DIST += src/zoo/README.md

check_PROGRAMS += tests/zoo_models_test
tests_zoo_models_test_SOURCES = tests/zoo_models_test.c tests/zoo_build.h \
  tests/tap.h
tests_zoo_models_test_LDADD = $(zoo_libs) $(ir_libs)
check_PROGRAMS += tests/zoo_train_test
tests_zoo_train_test_SOURCES = tests/zoo_train_test.c tests/interpret.h \
  tests/interpret_fill.h tests/tap.h tests/zoo_tiny.h
tests_zoo_train_test_LDADD = $(zoo_libs) $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/zoo_precision_test
tests_zoo_precision_test_SOURCES = tests/zoo_precision_test.c \
  tests/interpret.h tests/interpret_fill.h tests/tap.h tests/zoo_tiny.h
tests_zoo_precision_test_LDADD = $(zoo_libs) $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/zoo_clip_test
tests_zoo_clip_test_SOURCES = tests/zoo_clip_test.c tests/interpret.h \
  tests/interpret_fill.h tests/tap.h
tests_zoo_clip_test_LDADD = $(zoo_libs) $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/zoo_blocks_test
tests_zoo_blocks_test_SOURCES = tests/zoo_blocks_test.c tests/tap.h
tests_zoo_blocks_test_LDADD = $(zoo_libs) $(ir_libs)
check_PROGRAMS += tests/zoo_resize_test
tests_zoo_resize_test_SOURCES = tests/zoo_resize_test.c tests/zoo_build.h \
  tests/tap.h
tests_zoo_resize_test_LDADD = $(zoo_libs) $(ir_libs)
check_PROGRAMS += tests/zoo_compact_test
tests_zoo_compact_test_SOURCES = tests/zoo_compact_test.c tests/zoo_build.h \
  tests/tap.h
tests_zoo_compact_test_LDADD = $(zoo_libs) $(ir_libs)
check_PROGRAMS += tests/zoo_recompute_test
tests_zoo_recompute_test_SOURCES = tests/zoo_recompute_test.c \
  tests/interpret.h tests/interpret_fill.h tests/zoo_build.h tests/tap.h
tests_zoo_recompute_test_LDADD = $(zoo_libs) $(kernels_libs) $(ir_libs)
check_PROGRAMS += tests/zoo_presets_test
tests_zoo_presets_test_SOURCES = tests/zoo_presets_test.c tests/zoo_build.h \
  tests/tap.h
tests_zoo_presets_test_LDADD = $(zoo_libs) $(ir_libs)
check_PROGRAMS += tests/cli_zoo_test
tests_cli_zoo_test_SOURCES = tests/cli_zoo_test.c \
  tests/cli_plans.h tests/run_cli.h tests/tap.h
tests_cli_zoo_test_LDADD = $(JANSSON_LIBS) -lm

noinst_LIBRARIES += src/zoo/libfs_zoo.a
src_zoo_libfs_zoo_a_SOURCES = src/zoo/zoo.h src/zoo/model.h src/zoo/zoo.def \
  src/zoo/zoo.c src/zoo/gpt.c src/zoo/mlp.c
EXTRA_DIST += src/zoo/README.md

check_PROGRAMS += tests/zoo_models_test
tests_zoo_models_test_SOURCES = tests/zoo_models_test.c tests/tap.h
tests_zoo_models_test_LDADD = $(zoo_libs) $(ir_libs)

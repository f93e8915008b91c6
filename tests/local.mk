check_SCRIPTS += tests/layers.sh tests/headers.sh
EXTRA_DIST += tests/layers.sh tests/headers.sh

check_PROGRAMS += tests/base_test
tests_base_test_SOURCES = tests/base_test.c tests/tap.h
tests_base_test_LDADD = $(base_libs)

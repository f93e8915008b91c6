noinst_LIBRARIES += src/store/libfs_store.a
src_store_libfs_store_a_SOURCES = src/store/store.h src/store/db.h \
  src/store/schema.sql.h src/store/schema_check.c src/store/open.c \
  src/store/write.c src/store/samples.c src/store/read.c
src_store_libfs_store_a_CPPFLAGS = $(AM_CPPFLAGS) $(SQLITE_CFLAGS)

check_PROGRAMS += tests/store_test
tests_store_test_SOURCES = tests/store_test.c tests/tap.h
tests_store_test_LDADD = $(store_libs)

EXTRA_DIST += src/store/README.md

noinst_LIBRARIES += src/base/libfs_base.a
src_base_libfs_base_a_SOURCES = src/base/status.c src/base/status.h \
  src/base/text.c src/base/text.h \
  src/base/arena.c src/base/arena.h src/base/hash.c src/base/hash.h \
  src/base/clock.c src/base/clock.h \
  src/base/ticker.c src/base/ticker.h src/base/json.c src/base/json.h \
  src/base/crc.c src/base/crc.h \
  src/base/crew.c src/base/crew.h src/base/csv.c src/base/csv.h \
  src/base/wide.h \
  src/base/file.c src/base/file.h src/base/half.h src/base/sum.h \
  src/base/intern.c src/base/intern.h \
  src/base/json_lists.c src/base/json_lists.h \
  src/base/json_out.c src/base/json_out.h \
  src/base/regex.c src/base/regex.h \
  src/base/wire.c src/base/wire.h src/base/wire_out.c src/base/wire_out.h

EXTRA_DIST += src/base/README.md

noinst_LIBRARIES += src/report/libfs_report.a
src_report_libfs_report_a_SOURCES = src/report/report.h src/report/draw.h \
  src/report/draw.c src/report/draw_ids.c src/report/table.c src/report/trace_json.c \
  src/report/network.h \
  src/report/draw_network.c src/report/draw_flow.c \
  src/report/draw_stages.c src/report/draw_cluster.c \
  src/report/draw_timeline.c src/report/draw_front.c src/report/draw_scatter.c \
  src/report/chakra.c src/report/chakra.h src/report/chakra_deps.c \
  src/report/chakra_place.c
src_report_libfs_report_a_CPPFLAGS = $(AM_CPPFLAGS) $(GRAPHVIZ_CFLAGS)

EXTRA_DIST += src/report/README.md tests/chakra_read.py

check_PROGRAMS += tests/report_plan_test
tests_report_plan_test_SOURCES = tests/report_plan_test.c tests/plan_build.h \
  tests/tap.h
tests_report_plan_test_CPPFLAGS = $(AM_CPPFLAGS) $(GRAPHVIZ_CFLAGS)
tests_report_plan_test_LDADD = $(zoo_libs) $(report_libs)

check_PROGRAMS += tests/report_timeline_test
tests_report_timeline_test_SOURCES = tests/report_timeline_test.c \
  tests/plan_build.h tests/tap.h
tests_report_timeline_test_LDADD = $(report_libs)

check_PROGRAMS += tests/report_chakra_test
tests_report_chakra_test_SOURCES = tests/report_chakra_test.c \
  tests/plan_hand.h tests/tap.h
tests_report_chakra_test_LDADD = $(sim_libs) $(report_libs)

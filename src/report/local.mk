noinst_LIBRARIES += src/report/libfs_report.a
src_report_libfs_report_a_SOURCES = src/report/report.h src/report/draw.h \
  src/report/draw.c src/report/draw_ids.c src/report/table.c src/report/trace_json.c \
  src/report/draw_network.c src/report/draw_cluster.c \
  src/report/draw_timeline.c
src_report_libfs_report_a_CPPFLAGS = $(AM_CPPFLAGS) $(GRAPHVIZ_CFLAGS)

EXTRA_DIST += src/report/README.md

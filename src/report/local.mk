noinst_LIBRARIES += src/report/libfs_report.a
src_report_libfs_report_a_SOURCES =

noinst_LIBRARIES += src/exec/libfs_exec.a
src_exec_libfs_exec_a_SOURCES =

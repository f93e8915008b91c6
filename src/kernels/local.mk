noinst_LIBRARIES += src/kernels/libfs_kernels.a
src_kernels_libfs_kernels_a_SOURCES =

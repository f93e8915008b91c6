noinst_LIBRARIES += src/hw/libfs_hw.a
src_hw_libfs_hw_a_SOURCES =

noinst_LIBRARIES += src/zoo/libfs_zoo.a
src_zoo_libfs_zoo_a_SOURCES =

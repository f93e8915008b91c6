noinst_LIBRARIES += src/store/libfs_store.a
src_store_libfs_store_a_SOURCES =

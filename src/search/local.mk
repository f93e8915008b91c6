noinst_LIBRARIES += src/search/libfs_search.a
src_search_libfs_search_a_SOURCES =

noinst_LIBRARIES += src/cost/libfs_cost.a
src_cost_libfs_cost_a_SOURCES =

noinst_LIBRARIES += src/plan/libfs_plan.a
src_plan_libfs_plan_a_SOURCES =

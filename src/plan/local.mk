noinst_LIBRARIES += src/plan/libfs_plan.a
src_plan_libfs_plan_a_SOURCES =
src_plan_libfs_plan_a_SOURCES += src/plan/actor.c src/plan/actor.h \
  src/plan/timing.c src/plan/timing.h

# The loops, for hakmem-bench and `hakmem-stress speed`; hakmem-bench, and the tiny program of its memory rows. None calls
# the engine, whose loops cost more than a malloc. Sanitizer trees have none of them, since they have no library to preload.
add_library(bench_loops OBJECT)
target_include_directories(bench_loops PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_features(bench_loops PRIVATE cxx_std_20)
if(STRESS_SANITIZED)
  target_sources(bench_loops PRIVATE bench/rows_none.cc)
  return()
endif()

target_sources(bench_loops PRIVATE
  bench/handover.cc
  bench/larson.cc
  bench/local.cc
  bench/mstress.cc
  bench/patterns.cc
  bench/rows.cc
  bench/rptest.cc
  bench/team.cc)
add_executable(hakmem-bench
  $<TARGET_OBJECTS:bench_loops>
  bench/cell.cc
  bench/cell_worker.cc
  bench/growth.cc
  bench/main.cc
  bench/output.cc
  bench/rss.cc
  bench/status.cc
  engine/base/file.cc)
hakmem_read_once(bench/main.cc bench/output.cc)
add_executable(hakmem-bench-tiny bench/tiny.c)
set(bench_options -Wall -Wextra -Wshadow -Wconversion -Wundef
  # Keeps the compiler from dropping the very calls that are measured.
  -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free)
target_include_directories(hakmem-bench PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_compile_features(hakmem-bench PRIVATE cxx_std_20)
target_compile_options(bench_loops PRIVATE ${bench_options})
target_compile_options(hakmem-bench PRIVATE ${bench_options})
target_compile_options(hakmem-bench-tiny PRIVATE ${bench_options})
target_link_libraries(hakmem-bench PRIVATE fmt::fmt CLI11::CLI11 nlohmann_json::nlohmann_json Threads::Threads
  ${CMAKE_DL_LIBS})

foreach(library IN ITEMS count cliff)
  add_library(bench-${library} MODULE bench/${library}_for_test.c)
  target_compile_options(bench-${library} PRIVATE -Wall -Wextra -Wshadow -Wconversion -Wundef -fno-builtin)
  set_target_properties(bench-${library} PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF)
  add_dependencies(hakmem-bench bench-${library})
endforeach()

# The random program, for whichever build includes this: plain, of a sanitizer, for another processor.
set(random ${CMAKE_CURRENT_LIST_DIR})
add_executable(random_program ${random}/random_program.cpp ${random}/worker.cpp ${random}/worker_capture.cpp
  ${random}/worker_memory.cpp ${random}/world.cpp)
target_link_libraries(random_program PRIVATE gpumem_options gpumem_cuda_headers simulated_cuda Threads::Threads)
set_target_properties(random_program PROPERTIES SKIP_BUILD_RPATH ON
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/programs)

# The random programs, for whichever build includes this: plain, of a sanitizer, for another processor. tests/gpu links the same
# objects.
include(${CMAKE_CURRENT_LIST_DIR}/random_sources.cmake)
foreach(name random transcript)
  add_library(${name}_parts OBJECT ${${name}_sources})
  target_link_libraries(${name}_parts PRIVATE gpumem_options gpumem_cuda_headers)
  gpumem_compiled_together(${name}_parts)
endforeach()
add_executable(random_program $<TARGET_OBJECTS:random_parts> ${random}/device_work_simulated.cpp ${random}/ledger_check.cpp)
add_executable(transcript $<TARGET_OBJECTS:transcript_parts>)
target_link_libraries(random_program PRIVATE gpumem_stats)
foreach(name random_program transcript)
  target_link_libraries(${name} PRIVATE gpumem_options gpumem_cuda_headers simulated_cuda Threads::Threads)
  set_target_properties(${name} PROPERTIES SKIP_BUILD_RPATH ON
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/programs)
  gpumem_compiled_together(${name})
endforeach()
# The same for drivers before 12.5.
if(NOT GPUMEM_SANITIZE)
  add_executable(random_program.old ${random}/old_driver.cpp $<TARGET_OBJECTS:random_program>
    $<TARGET_OBJECTS:random_parts>)
  target_link_libraries(random_program.old PRIVATE gpumem_options gpumem_cuda_headers gpumem_stats simulated_cuda Threads::Threads)
  set_target_properties(random_program.old PROPERTIES SKIP_BUILD_RPATH ON RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/programs)
endif()

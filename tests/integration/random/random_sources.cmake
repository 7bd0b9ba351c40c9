# What the random programs are made of, whatever they are built for: the simulated CUDA here, a GPU in tests/gpu.
set(random ${CMAKE_CURRENT_LIST_DIR})
set(random_sources random_program.cpp worker.cpp worker_beside.cpp worker_capture.cpp worker_memory.cpp world.cpp)
set(transcript_sources transcript.cpp session.cpp books.cpp calls_managed.cpp calls_memory.cpp calls_query.cpp calls_stream.cpp calls_capture.cpp
  calls_context.cpp calls_pool.cpp calls_odd.cpp)
list(TRANSFORM random_sources PREPEND ${random}/)
list(TRANSFORM transcript_sources PREPEND ${random}/transcript/)

// Captures: what becomes a node, what is refused, what spoils a capture and what does not.
#include <thread>

#include "fixture.hpp"

class captures : public simulated_test {
 protected:
  void begin(CUstreamCaptureMode mode) { ASSERT_EQ(cuStreamBeginCapture(s, mode), CUDA_SUCCESS); }
  CUresult end() {
    CUgraph graph = nullptr;
    CUresult const code = cuStreamEndCapture(s, &graph);
    if (graph != nullptr) cuGraphDestroy(graph);
    return code;
  }
  CUdeviceptr p = 0;
};

TEST_F(captures, unsafe_call_in_a_global_capture) {
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(cuMemAlloc(&p, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end(), CUDA_ERROR_ILLEGAL_STATE) << "the capture is over";
}

TEST_F(captures, unsafe_call_by_another_thread) {
  for (auto mode :
       {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_RELAXED}) {
    begin(mode);
    CUresult code = CUDA_SUCCESS;
    std::thread([&] {
      cuCtxSetCurrent(context);
      code = cuMemAlloc(&p, 16);
    }).join();
    bool const global = mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    EXPECT_EQ(code, global ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS) << mode;
    EXPECT_EQ(end(), global ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS) << mode;
  }
}

TEST_F(captures, relaxed_thread_may_do_it) {
  cuMemAlloc(&p, 16);
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  ASSERT_EQ(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
  EXPECT_EQ(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUdeviceptr q = 0;
  EXPECT_EQ(cuMemAlloc(&q, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(p), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  EXPECT_EQ(cuEventRecord(event, t), CUDA_SUCCESS);
  cuThreadExchangeStreamCaptureMode(&mode);
  EXPECT_EQ(end(), CUDA_SUCCESS);
}

TEST_F(captures, context_event_spoils_even_a_relaxed_capture_of_another_thread) {
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  std::thread([&] {
    cuCtxSetCurrent(context);
    EXPECT_EQ(cuCtxRecordEvent(context, event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuCtxRecordEvent(context, event), CUDA_SUCCESS);
}

TEST_F(captures, synchronising_spoils) {
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(captures, legacy_stream_conflicts_with_blocking_captures_only) {
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cuEventRecord(event, CU_STREAM_LEGACY), CUDA_SUCCESS);
  EXPECT_EQ(end(), CUDA_SUCCESS);
  CUstream blocking = nullptr;
  CUgraph graph = nullptr;
  cuStreamCreate(&blocking, CU_STREAM_DEFAULT);
  cuStreamBeginCapture(blocking, CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cuEventRecord(event, CU_STREAM_LEGACY), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  EXPECT_EQ(cuStreamEndCapture(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

TEST_F(captures, events_pull_streams_in_and_unjoined_work_is_an_error) {
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  cuMemAlloc(&p, 4096);
  cuEventRecord(event, s);
  EXPECT_EQ(cuStreamWaitEvent(t, event, 0), CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuStreamIsCapturing(t, &status);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
  cuMemsetD8Async(p, 1, 4096, t);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  cuStreamIsCapturing(t, &status);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_F(captures, a_launch_replays_the_work) {
  cuMemAlloc(&p, 4096);
  cuMemsetD8(p, 0, 4096);
  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  cuMemsetD8Async(p, 5, 4096, s);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(cuStreamEndCapture(s, &graph), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiate(&exec, graph, 0), CUDA_SUCCESS);
  unsigned char seen = 9;
  cuMemcpyDtoH(&seen, p, 1);
  EXPECT_EQ(seen, 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(cuGraphLaunch(exec, t), CUDA_SUCCESS);
  cuStreamSynchronize(t);
  cuMemcpyDtoH(&seen, p, 1);
  EXPECT_EQ(seen, 5);
  cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
}

TEST_F(captures, stream_ordered_memory_becomes_two_nodes) {
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  ASSERT_EQ(cuMemAllocAsync(&p, 1u << 20, s), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(p, s), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(cuStreamEndCapture(s, &graph), CUDA_SUCCESS);
  size_t count = 2;
  CUgraphNode nodes[2] = {};
  CUgraphNodeType first{}, second{};
  ASSERT_EQ(cuGraphGetNodes(graph, nodes, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 2u);
  cuGraphNodeGetType(nodes[0], &first);
  cuGraphNodeGetType(nodes[1], &second);
  EXPECT_EQ(first, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
  EXPECT_EQ(second, CU_GRAPH_NODE_TYPE_MEM_FREE);
  cuGraphDestroy(graph);
}

TEST_F(captures, reuse_under_a_graph_launch_is_found) {
  cuMemAlloc(&p, 1u << 20);
  simulatedNoteAllocate(p, 1u << 20, nullptr);
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  kernel(s, p, 1u << 20, 100'000);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  cuStreamEndCapture(s, &graph);
  cuGraphInstantiate(&exec, graph, 0);
  cuGraphLaunch(exec, s);
  simulatedNoteFree(p, nullptr);
  simulatedNoteAllocate(p, 1u << 20, nullptr);
  kernel(t, p, 1u << 20);
  EXPECT_EQ(simulatedHazardCount(), 1u);
  cuGraphExecDestroy(exec);
  cuGraphDestroy(graph);
}

TEST_F(captures, stream_ordered_memory_of_another_stream_is_unsafe) {
  cuMemAllocAsync(&p, 4096, t);
  CUdeviceptr q = 0;
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  EXPECT_EQ(cuMemAllocAsync(&q, 4096, t), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
  EXPECT_EQ(cuMemFreeAsync(p, t), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  EXPECT_EQ(cuMemFreeAsync(p, t), CUDA_SUCCESS);
  EXPECT_EQ(end(), CUDA_SUCCESS);
}

TEST_F(captures, an_end_in_another_thread_ends_it_all_the_same) {
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUresult code = CUDA_SUCCESS;
  std::thread([&] {
    cuCtxSetCurrent(context);
    code = end();
  }).join();
  EXPECT_EQ(code, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  EXPECT_EQ(end(), CUDA_ERROR_ILLEGAL_STATE);
}

// NVIDIA's sample graphMemoryNodes does so.
TEST_F(captures, a_joined_stream_may_be_destroyed) {
  begin(CU_STREAM_CAPTURE_MODE_GLOBAL);
  CUstream joined = nullptr;
  cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING);
  cuEventRecord(event, s);
  cuStreamWaitEvent(joined, event, 0);
  cuEventRecord(event, joined);
  cuStreamWaitEvent(s, event, 0);
  EXPECT_EQ(cuStreamDestroy(joined), CUDA_SUCCESS);
  EXPECT_EQ(end(), CUDA_SUCCESS);
}

TEST_F(captures, also_one_that_is_not_joined_back) {
  begin(CU_STREAM_CAPTURE_MODE_RELAXED);
  CUstream joined = nullptr;
  cuStreamCreate(&joined, CU_STREAM_NON_BLOCKING);
  cuEventRecord(event, s);
  cuStreamWaitEvent(joined, event, 0);
  cuStreamDestroy(joined);
  EXPECT_EQ(end(), CUDA_SUCCESS);
}

TEST_F(captures, an_origin_that_is_destroyed_takes_its_capture_along) {
  CUstream origin = nullptr;
  cuStreamCreate(&origin, CU_STREAM_NON_BLOCKING);
  cuStreamBeginCapture(origin, CU_STREAM_CAPTURE_MODE_GLOBAL);
  cuEventRecord(event, origin);
  cuStreamWaitEvent(t, event, 0);
  EXPECT_EQ(cuStreamDestroy(origin), CUDA_SUCCESS);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  cuStreamIsCapturing(t, &status);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  EXPECT_EQ(cuMemAlloc(&p, 16), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxRecordEvent(context, event), CUDA_SUCCESS);
}

// A stream of another device in a capture: legal, and its context captures then as well.
class joined_captures : public captures {
 protected:
  void SetUp() override {
    captures::SetUp();
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
    cuCtxSetCurrent(other);
    cuStreamCreate(&far, CU_STREAM_NON_BLOCKING);
    cuEventCreate(&of_far, CU_EVENT_DISABLE_TIMING);
    cuEventCreate(&of_context, CU_EVENT_DISABLE_TIMING);
    cuCtxSetCurrent(context);
    begin(CU_STREAM_CAPTURE_MODE_RELAXED);
    cuEventRecord(event, s);
    ASSERT_EQ(cuStreamWaitEvent(far, event, 0), CUDA_SUCCESS);
  }
  void TearDown() override {
    cuDevicePrimaryCtxRelease(1);
    captures::TearDown();
  }
  CUresult join_back_and_end() {
    cuEventRecord(of_far, far);
    cuStreamWaitEvent(s, of_far, 0);
    return end();
  }
  CUcontext other = nullptr;
  CUstream far = nullptr;
  CUevent of_far = nullptr, of_context = nullptr;
};

TEST_F(joined_captures, its_memory_is_the_graphs) {
  EXPECT_EQ(cuMemAllocAsync(&p, 4096, far), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(p, far), CUDA_SUCCESS);
  EXPECT_EQ(join_back_and_end(), CUDA_SUCCESS);
}

TEST_F(joined_captures, a_context_event_of_the_joined_context_spoils) {
  EXPECT_EQ(cuCtxRecordEvent(other, of_context), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(join_back_and_end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(cuCtxRecordEvent(other, of_context), CUDA_SUCCESS);
}

TEST_F(joined_captures, the_joined_stream_must_not_be_asked_who_it_is) {
  unsigned long long id = 0;
  EXPECT_EQ(cuStreamGetId(far, &id), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(join_back_and_end(), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
}

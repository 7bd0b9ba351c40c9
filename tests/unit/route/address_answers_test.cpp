// What is said of an address without asking the driver: only what the driver has said of its segment before,
// only where it was what it should be, and never where the driver might refuse.
#include "core/route/address_answers.hpp"

#include "tests/unit/route/fixture.hpp"

namespace gpumem::route {
namespace {

struct address_answers_test : route_fixture {
  static constexpr std::size_t count = 4;
  CUpointer_attribute const asked[count] = {
      CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
      CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  unsigned type = 0, managed = 7;
  int device = -1;
  CUdeviceptr there = 0;
  void* const values[count] = {&type, &device, &there, &managed};

  // As the driver would answer.
  void learn(CUdeviceptr address, unsigned is_managed = 0) {
    type = CU_MEMORYTYPE_DEVICE;
    device = 0;
    there = address;
    managed = is_managed;
    address_answers(address, tests::first_context).learn(asked, values);
    type = 0, managed = 7, device = -1, there = 0;
  }
  bool tell(CUdeviceptr address, CUcontext current = tests::first_context) {
    address_answers const known(address, current);
    return known.is_known() && known.tell(asked, values);
  }
};

TEST_F(address_answers_test, nothing_is_told_that_the_driver_did_not_say) {
  CUdeviceptr const block = must_get(1000);
  EXPECT_TRUE(address_answers(block, tests::first_context).is_known());
  EXPECT_FALSE(tell(block));
  learn(block);
  CUdeviceptr const other = must_get(1000);
  EXPECT_TRUE(tell(other + 10)) << "of the same segment";
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(there, other + 10);
  EXPECT_EQ(managed, 0u);
  EXPECT_EQ(device, 0);
  CUpointer_attribute const more[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_BUFFER_ID};
  EXPECT_FALSE(address_answers(block, tests::first_context).tell(more, values)) << "one of them is not known";
}

TEST_F(address_answers_test, what_is_not_as_it_should_be_is_not_learnt) {
  CUdeviceptr const block = must_get(1000);
  learn(block, 1);
  EXPECT_FALSE(tell(block));
  EXPECT_EQ(managed, 7u) << "and nothing is written";
}

TEST_F(address_answers_test, the_block_is_as_the_program_asked) {
  CUdeviceptr const block = must_get(1000);
  address_answers const known(block + 999, tests::first_context);
  ASSERT_TRUE(known.is_known());
  EXPECT_EQ(known.block().base, block);
  EXPECT_EQ(known.block().bytes, 1000u);
  EXPECT_FALSE(address_answers(block + 1000, tests::first_context).is_known()) << "rounding is nobody's";
}

TEST_F(address_answers_test, where_the_driver_might_refuse_it_is_asked) {
  CUdeviceptr const block = must_get(1000);
  learn(block);
  ASSERT_TRUE(tell(block));
  EXPECT_FALSE(tell(block, nullptr)) << "no context";
  EXPECT_FALSE(tell(block, tests::second_context)) << "of another context";
  capture_begins(tests::first_context, tests::stream(1), CU_STREAM_CAPTURE_MODE_GLOBAL);
  driver.capture(tests::stream(1));
  EXPECT_FALSE(tell(block)) << "beside a capture that forbids calls";
  driver.end_capture(tests::stream(1));
  capture_ended(tests::first_context, tests::stream(1));
  EXPECT_TRUE(tell(block));
  give(block);
  EXPECT_FALSE(tell(block)) << "freed";
  EXPECT_FALSE(tell(0x1234));
}

TEST_F(address_answers_test, page_locked_memory_is_the_drivers_to_answer) {
  CUdeviceptr const block = must_get(1000, nullptr, tests::first_context, driver::memory_kind::host);
  EXPECT_FALSE(address_answers(block, tests::first_context).is_known());
}

TEST_F(address_answers_test, a_new_segment_in_a_used_place_knows_nothing) {
  CUdeviceptr const block = must_get(1000);
  learn(block);
  give(block);
  give_back(tests::first_context, resource::give_back_scope::all);
  CUdeviceptr const next = must_get(1000);
  EXPECT_FALSE(tell(next));
}

}  // namespace
}  // namespace gpumem::route

// Epochs over the scripted driver, for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include "core/stream_order/epochs.hpp"
#include "core/stream_order/relaxed_mode.hpp"
#include "tests/unit/fake_driver/fake_driver.hpp"

namespace gpumem::stream_order {

struct epochs_fixture : testing::Test {
  tests::fake_driver& driver = tests::fake_driver::instance();
  epochs* when = nullptr;

  void SetUp() override {
    driver.reset();
    driver.manual_events(true);
    active_captures = 0;
    when = new epochs(tests::first_context, 0);
  }
  void TearDown() override {
    EXPECT_FALSE(driver.capture_hurt());
    when->abandon();
    EXPECT_EQ(active_captures.load(), 0);
    delete when;
  }
  int records() { return driver.calls("cuCtxRecordEvent"); }
};

}  // namespace gpumem::stream_order

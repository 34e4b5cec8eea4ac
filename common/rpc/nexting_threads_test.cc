#include <dlfcn.h>
#include <grpc/support/time.h>
#include <pthread.h>

#include <thread>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace escapement {
namespace {

void InThisProgram() {}

TEST(NextingThreadsTest, TheThreadsThatPollForCallbacksDoNotSleep) {
  bool went_on = false;
  std::thread polling([&went_on] {
    ASSERT_EQ(pthread_setname_np(pthread_self(), "nexting_thread"), 0);
    gpr_sleep_until(gpr_inf_future(GPR_CLOCK_REALTIME));
    went_on = true;
  });
  polling.join();
  EXPECT_TRUE(went_on);
}

// The sleep is what is tested: it is not waited for anything.
TEST(NextingThreadsTest, OthersSleepAsLongAsTheyWant) {
  const gpr_timespec until =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(1, GPR_TIMESPAN));
  gpr_sleep_until(until);
  EXPECT_GE(gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), until), 0);
}

TEST(NextingThreadsTest, GrpcsLibraryCallsOurs) {
  ASSERT_FALSE(grpc::Version().empty());  // it is linked
  // What the loader binds the library's calls to.
  Dl_info found, program;
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "gpr_sleep_until"), &found), 0);
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&InThisProgram), &program), 0);
  EXPECT_EQ(found.dli_fbase, program.dli_fbase);
}

}  // namespace
}  // namespace escapement

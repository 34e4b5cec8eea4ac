#include <dlfcn.h>
#include <grpc/support/time.h>
#include <pthread.h>

#include <thread>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace escapement {
namespace {

void InThisProgram() {}

// Whether the loader gives gRPC's library a function of this program for `name`.
bool IsOurs(const char* name) {
  Dl_info found, program;
  return dladdr(dlsym(RTLD_DEFAULT, name), &found) != 0 &&
         dladdr(reinterpret_cast<void*>(&InThisProgram), &program) != 0 &&
         found.dli_fbase == program.dli_fbase;
}

TEST(GrpcSleepOverride, PollingThreadDoesNotSleep) {
  bool went_on = false;
  std::thread polling([&went_on] {
    ASSERT_EQ(pthread_setname_np(pthread_self(), "nexting_thread"), 0);
    gpr_sleep_until(gpr_inf_future(GPR_CLOCK_REALTIME));
    went_on = true;
  });
  polling.join();
  EXPECT_TRUE(went_on);
}

// The sleep itself is under test.
TEST(GrpcSleepOverride, OtherThreadsSleepUntilTheirTime) {
  const gpr_timespec until =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(1, GPR_TIMESPAN));
  gpr_sleep_until(until);
  EXPECT_GE(gpr_time_cmp(gpr_now(GPR_CLOCK_MONOTONIC), until), 0);
}

TEST(GrpcSleepOverride, GrpcsLibraryCallsOurs) {
  ASSERT_FALSE(grpc::Version().empty());  // it is linked
  EXPECT_TRUE(IsOurs("gpr_sleep_until"));
}

}  // namespace
}  // namespace escapement

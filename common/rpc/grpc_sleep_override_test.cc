#include <dlfcn.h>
#include <grpc/support/time.h>
#include <pthread.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

namespace escapement {
namespace grpc_sleep_override_test {

constexpr char kPollingThread[] = "nexting_thread";

bool HasThreadNamed(const std::string& wanted) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name == wanted) return true;
  }
  return false;
}

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
    ASSERT_EQ(pthread_setname_np(pthread_self(), kPollingThread), 0);
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

// The override knows gRPC's polling threads by their name only.
TEST(GrpcSleepOverride, GrpcNamesItsPollingThreadsAsExpected) {
  EXPECT_FALSE(HasThreadNamed(kPollingThread));
  // The first callback call starts these threads. Nothing listens at this port.
  grpc::GenericStub stub(grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer answer;
  absl::Notification ended;
  stub.UnaryCall(&context, "/nobody/Call", {}, &request, &answer,
                 [&ended](grpc::Status) { ended.Notify(); });
  ended.WaitForNotification();
  EXPECT_TRUE(HasThreadNamed(kPollingThread));
}

}  // namespace grpc_sleep_override_test
}  // namespace escapement

// Tests of targets whose names are not resolved in time.

#include <netdb.h>

#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gtest/gtest.h"
#include "services/handler/delivery/http/http_transport.h"
#include "tests/fixtures/attempts.h"
#include "tests/fixtures/collecting_sink.h"
#include "tests/fixtures/raw_call.h"

namespace {

// A name server whose answers the test holds back.
class SilentNames {
 public:
  int Await() {
    absl::MutexLock lock(&mutex_);
    ++asked_;
    mutex_.Await(absl::Condition(&open_));
    --asked_;
    return EAI_NONAME;
  }
  void AwaitAsked() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* asked) { return *asked > 0; }, &asked_));
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    open_ = true;
  }
  // No look-up waits any more.
  void AwaitDone() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](int* asked) { return *asked == 0; }, &asked_));
  }

 private:
  absl::Mutex mutex_;
  int asked_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

SilentNames& Names() {
  static auto& names = *new SilentNames;
  return names;
}

}  // namespace

// Replaces the function of the C library, also for libcurl.
extern "C" int getaddrinfo(const char*, const char*, const addrinfo*, addrinfo**) {
  return Names().Await();
}

namespace escapement::handler {
namespace {

using fixtures::AttemptOptions;
using fixtures::CollectingSink;
using fixtures::MakeAttempts;
using fixtures::OnLoopback;

// The transport has one thread for all targets, which must not wait for the look-up.
TEST(HttpTransportNamesTest, AttemptTimesOutWhileItsNameServerHangs) {
  HttpTransport transport{OnLoopback<HttpTransport>()};
  const auto sink = std::make_shared<CollectingSink>();
  for (uint64_t tag = 1; tag <= 2; ++tag) {
    AttemptOptions options;
    options.uri = "http://silent.test/";
    options.timeout = absl::Milliseconds(100);
    transport.Send(MakeAttempts(options, tag, 1), sink);
    Names().AwaitAsked();
    ASSERT_TRUE(sink->Await(tag)) << "while the look-up goes on";
    EXPECT_NE(sink->Only(tag).status, DeliveryStatus::kAccepted);
  }
  Names().Open();
  Names().AwaitDone();
}

}  // namespace
}  // namespace escapement::handler

#include "common/net/name_resolver.h"

#include <netdb.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement {
namespace name_resolver_test {

using ::testing::Contains;

NameResolver::Answer Resolved(NameResolver& resolver, const std::string& host) {
  absl::Mutex mutex;
  std::vector<NameResolver::Answer> answers;
  resolver.Resolve(host, [&](NameResolver::Answer answer) {
    absl::MutexLock lock(&mutex);
    answers.push_back(std::move(answer));
  });
  absl::MutexLock lock(&mutex);
  const auto there = [&answers] { return !answers.empty(); };
  mutex.Await(absl::Condition(&there));
  return answers[0];
}

TEST(NameResolver, ResolvesANameOfThisMachine) {
  NameResolver resolver;
  const auto answer = Resolved(resolver, "localhost");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(*answer, Contains("127.0.0.1"));
}

TEST(NameResolver, ANameWithoutAddressIsAnError) {
  NameResolver resolver;
  const auto answer = Resolved(resolver, "no-such-host.invalid");
  EXPECT_TRUE(absl::IsUnavailable(answer.status()));
  EXPECT_TRUE(absl::StrContains(answer.status().message(), "no-such-host.invalid"));
}

TEST(NameResolver, ManyNamesAreResolvedEachOnce) {
  constexpr int kCount = 200;
  NameResolver resolver;
  absl::BlockingCounter left(kCount);
  for (int i = 0; i < kCount; ++i) {
    resolver.Resolve("localhost", [&left](const NameResolver::Answer& answer) {
      EXPECT_TRUE(answer.ok());
      left.DecrementCount();
    });
  }
  left.Wait();
}

TEST(NameResolver, NothingIsCalledAfterItsEnd) {
  const auto called = std::make_shared<bool>(false);
  for (int i = 0; i < 100; ++i) {
    NameResolver resolver;
    bool alive = true;
    resolver.Resolve("localhost", [&alive, called](const NameResolver::Answer&) {
      *called = alive;  // reads freed memory if it comes too late; the sanitizers see that
    });
    alive = true;
  }
}

TEST(NameResolver, KnowsAddresses) {
  EXPECT_TRUE(NameResolver::IsAddress("127.0.0.1"));
  EXPECT_TRUE(NameResolver::IsAddress("::1"));
  for (const char* name : {"localhost", "127.1", "[::1]", "", "1.2.3.4:5"})
    EXPECT_FALSE(NameResolver::IsAddress(name)) << name;
}

}  // namespace name_resolver_test
}  // namespace escapement

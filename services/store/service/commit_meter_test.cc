#include "services/store/service/commit_meter.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::store {
namespace commit_meter_test {

using ::testing::ElementsAre;

class SetClock final : public Clock {
 public:
  absl::Duration Elapsed() const override { return now; }
  absl::Time WallNow() const override { return absl::UnixEpoch(); }
  absl::Duration now;
};

// Answers commits when the test says so.
class WaitingStore final : public kv::ForwardingKvStore {
 public:
  using ForwardingKvStore::ForwardingKvStore;
  using KvStore::Commit;
  void Commit(std::shared_ptr<const kv::CommitRequest>, Callback<kv::CommitResult> done) override {
    waiting.push_back(std::move(done));
  }
  std::vector<Callback<kv::CommitResult>> waiting;
};

TEST(CommitMeterTest, TellsHowLongEachCommitTookAndPassesTheAnswerOn) {
  sim::SimRuntime runtime(1);
  kv::MemKvStore unused(runtime, {});
  WaitingStore inner(unused);
  SetClock clock;
  std::vector<absl::Duration> took;
  std::vector<absl::StatusCode> answers;
  {
    CommitMeter meter(inner, clock, [&](absl::Duration time) { took.push_back(time); });
    for (int i = 0; i < 2; ++i) {
      meter.Commit(std::make_shared<const kv::CommitRequest>(),
                   [&](const auto& result) { answers.push_back(result.status().code()); });
      clock.now += absl::Seconds(1);
    }
  }
  // The meter may be gone before a late answer.
  inner.waiting[1](kv::CommitResult());
  clock.now += absl::Seconds(1);
  inner.waiting[0](absl::UnavailableError("no"));
  EXPECT_THAT(took, ElementsAre(absl::Seconds(1), absl::Seconds(3)));
  EXPECT_THAT(answers, ElementsAre(absl::StatusCode::kOk, absl::StatusCode::kUnavailable));
}

}  // namespace commit_meter_test
}  // namespace escapement::store

#include "services/emitter/emission/shared_scan.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/forwarding_kv_store.h"
#include "common/kv/memory/mem_kv_store.h"
#include "common/sim/sim_runtime.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace escapement::emitter {
namespace shared_scan_test {

using testing::ElementsAre;
using testing::IsEmpty;

class CountingKvStore final : public kv::ForwardingKvStore {
 public:
  using ForwardingKvStore::ForwardingKvStore;
  size_t scans = 0;
  bool fails = false;

  void Scan(kv::ScanRequest request, Callback<kv::ScanResult> done) override {
    ++scans;
    if (fails) return done(absl::InvalidArgumentError("no"));
    inner_.Scan(std::move(request), std::move(done));
  }
};

class SharedScanTest : public testing::Test {
 protected:
  SharedScanTest() : mem_(runtime_, {}), store_(mem_), executor_(runtime_.NewExecutor("test")) {
    kv::KvClient::Options options;
    options.name = "test";
    options.session_executor = executor_;
    client_ = std::make_unique<kv::KvClient>(store_, runtime_, std::move(options));
    kv::Commit commit;
    commit.groups.resize(1);
    for (const std::string key : {"a1", "a2", "a5", "b1", "d1", "d2", "d3"}) {
      commit.groups[0].mutations.push_back(
          {kv::ColumnFamily::kChildren, kv::Mutation::Kind::kPut, key, "v" + key, 0, {}});
    }
    bool stored = false;
    client_->CommitAsync(std::move(commit), executor_,
                         [&](absl::StatusOr<kv::CommitResult> result) { stored = result.ok(); });
    EXPECT_TRUE(runtime_.RunUntil([&] { return stored; }, absl::Seconds(10)));
  }

  // One who reads on behind what has been returned, as a window does; the keys come to `got`.
  void Read(const std::shared_ptr<SharedScan>& shared, const std::string& who,
            std::vector<kv::KeyRange> ranges) {
    shared->Read(ranges, [=, this](absl::StatusOr<kv::ScanResult> result) {
      ++answers_[who];
      if (!result.ok()) {
        got_[who].push_back(std::string(result.status().message()));
        return;
      }
      for (const kv::Entry& entry : result->entries) {
        EXPECT_EQ(entry.value, "v" + entry.key);
        got_[who].push_back(entry.key);
      }
      EXPECT_GT(result->seq, 0u);
      if (!result->more) return;
      std::vector<kv::KeyRange> rest;
      const std::string behind = result->entries.back().key + '\0';
      for (kv::KeyRange range : ranges) {
        range.begin = std::max(range.begin, behind);
        if (range.begin < range.end) rest.push_back(range);
      }
      Read(shared, who, rest);
    });
  }
  void ReadAll(const std::shared_ptr<SharedScan>& shared) {
    Read(shared, "d", {{"d", "d2"}, {"d3", "e"}});
    Read(shared, "a", {{"a", "a3"}, {"a4", "b"}});
    Read(shared, "c", {{"c", "d"}});
    Read(shared, "b", {{"b", "c"}});
    runtime_.AdvanceBy(absl::Seconds(1));
  }
  void ExpectAll() {
    EXPECT_THAT(got_["a"], ElementsAre("a1", "a2", "a5"));
    EXPECT_THAT(got_["b"], ElementsAre("b1"));
    EXPECT_THAT(got_["c"], IsEmpty());
    EXPECT_THAT(got_["d"], ElementsAre("d1", "d3"));
  }

  sim::SimRuntime runtime_{7};
  kv::MemKvStore mem_;
  CountingKvStore store_;
  std::shared_ptr<Executor> executor_;
  std::unique_ptr<kv::KvClient> client_;
  std::map<std::string, std::vector<std::string>> got_;
  std::map<std::string, int> answers_;
};

TEST_F(SharedScanTest, ScansAskedForAtOnceAreOneRequest) {
  ReadAll(std::make_shared<SharedScan>(*client_, executor_));
  EXPECT_EQ(store_.scans, 1u);
  for (const std::string who : {"a", "b", "c", "d"}) EXPECT_EQ(answers_[who], 1) << who;
  ExpectAll();
}

TEST_F(SharedScanTest, RowsBeyondOneAnswerAreReadNext) {
  for (uint32_t rows_max = 1; rows_max <= 7; ++rows_max) {
    got_.clear();
    ReadAll(std::make_shared<SharedScan>(*client_, executor_, rows_max));
    ExpectAll();
  }
}

TEST_F(SharedScanTest, MoreRangesThanARequestMayHaveAreSeveral) {
  const auto shared = std::make_shared<SharedScan>(*client_, executor_);
  std::vector<kv::KeyRange> many(kv::kScanRangesMax - 1, {"c", "c"});
  many.push_back({"d", "e"});
  Read(shared, "d", many);
  Read(shared, "a", {{"a", "b"}});
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_EQ(store_.scans, 2u);
  EXPECT_THAT(got_["a"], ElementsAre("a1", "a2", "a5"));
  EXPECT_THAT(got_["d"], ElementsAre("d1", "d2", "d3"));
}

TEST_F(SharedScanTest, AFailureIsEverybodysAndNothingComesAfterStop) {
  const auto shared = std::make_shared<SharedScan>(*client_, executor_);
  store_.fails = true;
  ReadAll(shared);
  for (const std::string who : {"a", "b", "c", "d"}) EXPECT_THAT(got_[who], ElementsAre("no"));
  store_.fails = false;
  got_.clear();
  Read(shared, "a", {{"a", "b"}});
  shared->Stop();
  Read(shared, "b", {{"b", "c"}});
  runtime_.AdvanceBy(absl::Seconds(1));
  EXPECT_THAT(got_, IsEmpty());
}

}  // namespace shared_scan_test
}  // namespace escapement::emitter

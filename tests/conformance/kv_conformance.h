// Shared by the suites in kv_*conformance_test.cc: each case runs over every KvStore.

#ifndef TESTS_CONFORMANCE_KV_CONFORMANCE_H_
#define TESTS_CONFORMANCE_KV_CONFORMANCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/rigs/kv_rig.h"
#include "tests/conformance/rigs/replica_rig.h"

namespace escapement::kv {

struct RigKind {
  const char* name;
  std::unique_ptr<KvRig> (*make)(RigOptions);
};

class KvConformance : public testing::TestWithParam<RigKind> {
 protected:
  KvConformance() : rig_(GetParam().make({})) { session_ = rig_->OpenSession().value().session; }

  CommitResult Must(std::vector<Group> groups) {
    auto result = rig_->Commit(Request(session_, ++number_, std::move(groups)));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : CommitResult{};
  }
  absl::Status Try(CommitRequest request) {
    request.session = session_;
    request.number = ++number_;
    return rig_->Commit(std::move(request)).status();
  }
  bool Holds(Condition condition) {
    return Must({{{std::move(condition)}, {}}}).verdicts.at(0).applied;
  }
  std::optional<std::string> Value(ColumnFamily cf, std::string key) {
    return rig_->Get({{cf, std::move(key)}}).value().values.at(0);
  }
  std::string Keys(ScanRequest request) {
    std::string keys;
    const ScanResult result = rig_->Scan(std::move(request)).value();
    for (const Entry& entry : result.entries) keys += entry.key + " ";
    return keys;
  }

  std::unique_ptr<KvRig> rig_;
  uint64_t session_ = 0;
  uint64_t number_ = 0;
};

inline auto EveryStore() {
  return testing::Values(RigKind{"Mem", NewMemRig}, RigKind{"Rocks", NewRocksRig},
                         RigKind{"Grpc", NewGrpcRig}, RigKind{"LeaderSeeking", NewLeaderSeekingRig},
                         RigKind{"Replicated", NewReplicatedRig},
                         RigKind{"ReplicatedPg", NewPgReplicatedRig});
}
inline std::string NameOfStore(const testing::TestParamInfo<RigKind>& info) {
  return info.param.name;
}

}  // namespace escapement::kv

#endif  // TESTS_CONFORMANCE_KV_CONFORMANCE_H_

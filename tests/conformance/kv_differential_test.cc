// MemKvStore and RocksKvStore are given the same thousands of operations, restarts among them, and
// must answer alike.

#include <future>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/conformance/kv_rig.h"

namespace escapement::kv {
namespace {

constexpr ColumnFamily kFamilies[] = {ColumnFamily::kEvents, ColumnFamily::kInflight,
                                      ColumnFamily::kStates};

class Plan {
 public:
  explicit Plan(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  ColumnFamily Family() { return kFamilies[Below(3)]; }
  // Few keys, so that operations meet.
  std::string Key() { return absl::StrCat("0123456789", Below(40)); }
  std::string Value() { return std::string(1 + Below(3), static_cast<char>('a' + Below(3))); }

  Condition SomeCondition(CommitSeq seq) {
    const auto kind = static_cast<Condition::Kind>(Below(7));
    Condition condition = Cond(Family(), Key(), kind);
    const CommitSeq back = Below(30);
    const CommitSeq since = seq > back ? seq - back : 0;
    switch (kind) {
      case Condition::Kind::kValueEquals:
      case Condition::Kind::kValuePrefix:
        condition.value = Value();
        break;
      case Condition::Kind::kUnchangedSince:
        condition.since = since;
        break;
      case Condition::Kind::kRangeCount:
        condition.value = condition.key + "9";
        condition.number = Below(3);
        break;
      default:
        break;
    }
    return condition;
  }

  Mutation SomeMutation(Group& group) {
    const std::string key = Key();
    switch (Below(8)) {
      case 0:
      case 1:
        return Delete(Family(), key);
      case 2:
        return DeleteRange(ColumnFamily::kInflight, key, key + "9");
      case 3:
        if (Below(2) == 0)
          group.conditions.push_back(
              Cond(ColumnFamily::kEvents, key, Condition::Kind::kRangeCount, key + "5", Below(3)));
        // Without the count: refused by both.
        return DeleteRange(ColumnFamily::kEvents, key, key + "5");
      default:
        return Put(Family(), key, Value());
    }
  }

  CommitRequest SomeCommit(uint64_t session, uint64_t number, CommitSeq seq) {
    CommitRequest request = Request(session, number, {});
    if (Below(8) == 0) request.fence.push_back(SomeCondition(seq));
    request.groups.resize(1 + Below(4));
    for (Group& group : request.groups) {
      for (uint64_t i = Below(2); i > 0; --i) group.conditions.push_back(SomeCondition(seq));
      for (uint64_t i = 1 + Below(3); i > 0; --i) group.mutations.push_back(SomeMutation(group));
    }
    return request;
  }

 private:
  std::mt19937_64 random_;
};

std::string Tell(const absl::StatusOr<CommitResult>& result) {
  if (!result.ok()) return result.status().ToString();
  std::string text = absl::StrCat("seq ", result->seq);
  for (const Verdict& verdict : result->verdicts)
    absl::StrAppend(&text, " ", verdict.applied, "/", verdict.failed_condition);
  return text;
}

std::string Tell(const absl::StatusOr<ScanResult>& result) {
  if (!result.ok()) return result.status().ToString();
  std::string text = absl::StrCat("seq ", result->seq, result->more ? " more:" : ":");
  for (const Entry& entry : result->entries)
    absl::StrAppend(&text, " ", entry.key, "=", entry.value);
  return text;
}

// All commits are under way at once; the answers come in the order of the calls.
std::vector<std::string> CommitAll(KvStore& store, const std::vector<CommitRequest>& requests) {
  std::vector<std::future<std::string>> answers;
  for (const CommitRequest& request : requests) {
    auto promise = std::make_shared<std::promise<std::string>>();
    answers.push_back(promise->get_future());
    store.Commit(request, [promise](absl::StatusOr<CommitResult> result) {
      promise->set_value(Tell(result));
    });
  }
  std::vector<std::string> told;
  for (auto& answer : answers) told.push_back(answer.get());
  return told;
}

class KvDifferential : public testing::TestWithParam<uint64_t> {};

TEST_P(KvDifferential, BothStoresAnswerAlike) {
  Plan plan(GetParam());
  auto mem = NewMemRig({});
  auto rocks = NewRocksRig({});
  const uint64_t session = mem->OpenSession().value().session;
  ASSERT_EQ(rocks->OpenSession().value().session, session);
  uint64_t number = 0;
  std::vector<CommitRequest> last;
  size_t applied = 0;
  for (int round = 0; round < 300; ++round) {
    const CommitSeq seq = mem->Get({}).value().seq;
    std::vector<CommitRequest> requests;
    for (uint64_t i = 1 + plan.Below(10); i > 0; --i)
      requests.push_back(plan.SomeCommit(session, ++number, seq));
    const auto expected = CommitAll(mem->store(), requests);
    ASSERT_EQ(CommitAll(rocks->store(), requests), expected) << "round " << round;
    applied += mem->Get({}).value().seq - seq;
    const ColumnFamily cf = plan.Family();
    const ScanRequest scan{.cf = cf,
                           .begin = plan.Key(),
                           .end = plan.Below(2) == 0 ? "" : plan.Key(),
                           .limit = static_cast<uint32_t>(1 + plan.Below(20)),
                           .bytes_max = static_cast<uint32_t>(1 + plan.Below(400)),
                           .reverse = plan.Below(2) == 0};
    ASSERT_EQ(Tell(rocks->Scan(scan)), Tell(mem->Scan(scan))) << "round " << round;
    if (plan.Below(40) == 0) {
      mem->Restart();
      rocks->Restart();
      // Resent after the restart: the kept answers for what applied, a new decision for the rest.
      ASSERT_EQ(CommitAll(rocks->store(), requests), CommitAll(mem->store(), requests))
          << "round " << round;
    }
  }
  EXPECT_GT(applied, 300);
}

INSTANTIATE_TEST_SUITE_P(Seeds, KvDifferential, testing::Range<uint64_t>(1, 4));

}  // namespace
}  // namespace escapement::kv

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/proto_time.h"
#include "common/kv/group_parts.h"
#include "common/storage/inflight_table.h"
#include "services/token_manager/testing/token_world.h"
#include "tests/budget/mark.h"
#include "tests/budget/paths.h"

namespace escapement::budget {
namespace {

using storage::v1::GrantReportRecord;
using token_manager::TokenWorld;

constexpr uint64_t kSchedules = 8;
constexpr uint64_t kOut = 500;
constexpr size_t kCompletionsOfCall = 20;

// A handler that delivers everything at once, with a consumer that completes it at once.
class Consumer {
 public:
  explicit Consumer(TokenWorld& world, token_manager::TokenManagerService& service,
                    uint16_t policy_shard)
      : world_(world), service_(service), policy_shard_(policy_shard) {
    world.on_commit = [this](const kv::CommitRecord& record) { TakeClaims(record); };
  }
  ~Consumer() { world_.on_commit = nullptr; }

  // Reports all granted events as delivered, and gives all tokens back.
  void Step() {
    if (claims_.empty()) return;
    GrantReportRecord delivered;
    std::vector<TokenWorld::Entry> completed;
    kv::Group group;
    for (const auto& [key, claim] : std::exchange(claims_, {})) {
      for (const auto& entry : claim.entries()) Deliver(entry, &delivered, &completed);
      group.mutations.push_back(kv::Delete(kv::ColumnFamily::kInflight, key));
    }
    group.mutations.push_back(kv::Put(
        kv::ColumnFamily::kWaiting,
        EncodeReportKey({.policy_shard = policy_shard_, .origin = 1, .a = 1, .b = ++reports_}),
        delivered.SerializeAsString()));
    if (!world_.Commit(std::move(group))) std::abort();
    for (size_t i = 0; i < completed.size(); i += kCompletionsOfCall) {
      const auto begin = completed.begin() + static_cast<ptrdiff_t>(i);
      const auto end = completed.begin() +
                       static_cast<ptrdiff_t>(std::min(i + kCompletionsOfCall, completed.size()));
      service_.grants().Apply(policy_shard_, {begin, end},
                              [this](absl::StatusOr<std::vector<bool>> answer) {
                                if (!answer.ok()) std::abort();
                                for (const bool effect : *answer) done_ += effect ? 1 : 0;
                              });
    }
  }

  uint64_t done() const { return done_; }

 private:
  void TakeClaims(const kv::CommitRecord& record) {
    for (size_t i = 0; i < record.request->groups.size(); ++i) {
      if (!record.verdicts[i].applied) continue;
      for (const kv::Mutation& mutation : record.request->groups[i].mutations) {
        if (mutation.cf != kv::ColumnFamily::kInflight || mutation.kind != kv::Mutation::Kind::kPut)
          continue;
        if (!claims_[mutation.key].ParseFromString(mutation.value)) std::abort();
      }
    }
  }

  void Deliver(const storage::v1::ClaimRecord::Entry& entry, GrantReportRecord* delivered,
               std::vector<TokenWorld::Entry>* completed) {
    TokenWorld::Entry& range = *delivered->add_entries();
    range.set_policy_uid(entry.grant().policy_uid());
    range.set_epoch(entry.grant().epoch());
    range.set_number(entry.grant().number());
    range.set_kind(GrantReportRecord::DELIVERED);
    range.set_first(entry.ranges(0).first());
    range.set_count(entry.ranges(0).count());
    range.set_attempts(1);
    range.set_time_micros(ToMicros(world_.now()));
    for (uint64_t i = 0; i < range.count(); ++i) {
      TokenWorld::Entry& token = completed->emplace_back(range);
      token.set_first(range.first() + i);
      token.set_count(1);
      token.set_kind(GrantReportRecord::COMPLETED);
    }
  }

  TokenWorld& world_;
  token_manager::TokenManagerService& service_;
  const uint16_t policy_shard_;
  std::map<std::string, storage::v1::ClaimRecord> claims_;
  uint64_t reports_ = 0;
  uint64_t done_ = 0;
};

// Runs `rows` rows of `slice` events each, spread over the schedules.
void Run(uint64_t rows, uint64_t slice) {
  TokenWorld world;
  const TokenWorld::Schedule schedule{.policy_id = "p"};
  const Uid policy = world.PutPolicy("p", TokenWorld::Limits(kOut));
  token_manager::TokenManagerService& service = world.Start("a");
  world.Advance(token_manager::kSettle);
  const absl::Time due = world.now() + absl::Seconds(3);
  std::vector<Uid> uids;
  for (uint64_t i = 0; i < kSchedules; ++i)
    uids.push_back(world.AddSchedule(absl::StrCat("s", i), schedule));
  for (uint64_t i = 0; i < rows; ++i) {
    world.AddRow(uids[i % kSchedules], schedule,
                 {.due = due, .count = slice, .occurrence = absl::StrCat("o", i / kSchedules)});
  }
  Consumer consumer(world, service, TokenWorld::ShardOf(policy));
  world.Advance(due - world.now() - absl::Milliseconds(10));
  escapement_budget_mark();
  for (int i = 0; i < 60'000 && consumer.done() < rows * slice; ++i) {
    world.Advance(absl::Milliseconds(1));
    consumer.Step();
  }
  escapement_budget_mark();
  if (consumer.done() < rows * slice) std::abort();
}

}  // namespace

void RunThrottlePath(uint64_t events) { Run(kSchedules, events / kSchedules); }

void RunThrottledRowsPath(uint64_t events) { Run(events, 1); }

}  // namespace escapement::budget

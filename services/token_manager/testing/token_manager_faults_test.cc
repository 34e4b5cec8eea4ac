// Under all faults each event ends exactly once, and no policy has more events out than it allows.

#include <algorithm>
#include <map>
#include <tuple>

#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "common/storage/event_table.h"
#include "common/storage/schedule_table.h"
#include "gtest/gtest.h"
#include "services/token_manager/testing/token_world.h"

namespace escapement::token_manager {
namespace token_manager_faults_test {

using kv::ColumnFamily;
using storage::v1::GrantReportRecord;
using Entry = TokenWorld::Entry;

TokenManagerOptions SmallOptions() {
  TokenManagerOptions options;
  options.group_rows_max = 4;
  options.undelivered_max = 20;
  options.grant_events_max = 30;
  options.report_entries_max = 10;
  return options;
}

class Faults {
 public:
  explicit Faults(uint64_t seed) : world_(SmallOptions(), seed), random_(world_.runtime.random()) {
    world_.retry.set_max_attempts(3);
    world_.retry.set_min_backoff_micros(100'000);
    world_.retry.set_max_backoff_micros(1'000'000);
    world_.on_commit = [this](const kv::CommitRecord& record) {
      CheckLimits();
      CheckStates(record);
    };
    for (int p = 0; p < 3; ++p) PutPolicy(p, 1);
    for (int s = 0; s < 8; ++s) {
      TokenWorld::Schedule schedule{.policy_id = s < 6 ? "p" + std::to_string(s % 3) : "",
                                    .target = "t" + std::to_string(s % 2),
                                    .on_release = s % 4 != 3,
                                    .priority = 5 - static_cast<uint32_t>(s % 2)};
      const std::string id = "s" + std::to_string(s);
      uids_.push_back(world_.AddSchedule(id, schedule));
      schedules_.push_back(schedule);
      for (int r = 0; r < 8; ++r) {
        const std::string occurrence = "o" + std::to_string(r);
        const uint64_t count = r % 3 == 0 ? 1 : 1 + random_.Below(25);
        world_.AddRow(uids_.back(), schedule,
                      {.due = world_.now() + absl::Milliseconds(random_.Below(10'000)),
                       .count = count,
                       .occurrence = occurrence});
        owed_[{uids_.back(), occurrence}] = count;
      }
    }
  }

  void Run() {
    for (int step = 0; step < 1500; ++step) {
      world_.Advance(absl::Milliseconds(10 + random_.Below(30)));
      Disturb();
      Deliver(/*well=*/false);
      Complete(/*well=*/false);
    }
    for (size_t s = 0; s < uids_.size(); ++s) Resume(s);
    if (managers_.empty()) StartManager();
    for (int step = 0; step < 4000 && !Settled(); ++step) {
      // Without a policy tokens are held for an hour.
      world_.Advance(step < 500 ? absl::Milliseconds(200) : absl::Seconds(2));
      Deliver(/*well=*/true);
      Complete(/*well=*/true);
    }
    Check();
  }

 private:
  void PutPolicy(int p, uint64_t version) {
    storage::v1::PolicyRecord record = TokenWorld::Limits(Limit(p));
    record.set_version(version);
    record.set_hold_timeout_micros(20'000'000);
    record.set_fifo(p == 1);
    policies_.resize(std::max<size_t>(policies_.size(), static_cast<size_t>(p) + 1));
    policies_[static_cast<size_t>(p)] = world_.PutPolicy("p" + std::to_string(p), record);
  }
  static uint64_t Limit(int p) { return p == 0 ? 1 : p == 1 ? 5 : 17; }

  void CheckLimits() {
    for (size_t p = 0; p < policies_.size(); ++p)
      ASSERT_LE(world_.Held(policies_[p]), Limit(static_cast<int>(p)));
  }

  // Nothing is claimed of a schedule that is paused at that place in the order of commits.
  void CheckStates(const kv::CommitRecord& record) {
    for (size_t i = 0; i < record.verdicts.size(); ++i) {
      if (!record.verdicts[i].applied) continue;
      for (const kv::Mutation& mutation : record.request->groups[i].mutations) {
        if (mutation.kind != kv::Mutation::Kind::kPut) continue;
        if (mutation.cf == ColumnFamily::kStates) {
          storage::v1::StateRecord state;
          state.ParseFromString(mutation.value);
          paused_[mutation.key] = state.kind() == storage::v1::SCHEDULE_STATE_KIND_PAUSED;
        }
        if (mutation.cf != ColumnFamily::kInflight) continue;
        storage::v1::ClaimRecord claim;
        claim.ParseFromString(mutation.value);
        for (const auto& entry : claim.entries()) {
          ++claimed_;
          EXPECT_FALSE(paused_[StateKey(DecodeWaitingKey(entry.event_key())->uid)]);
        }
      }
    }
  }

  void StartManager() {
    const std::string name = "m" + std::to_string(started_++);
    world_.Start(name);
    managers_.push_back(name);
  }

  void Disturb() {
    switch (random_.Below(60)) {
      case 0:
        if (managers_.size() < 3) StartManager();
        break;
      case 1:
        if (!managers_.empty()) {
          const size_t i = random_.Below(managers_.size());
          if (random_.Below(2) == 0) {
            // In order.
            const auto drained = std::make_shared<bool>(false);
            world_.manager(managers_[i]).Drain([drained] { *drained = true; });
            world_.runtime.RunUntil([&] { return *drained; }, absl::Seconds(5));
          }
          world_.Kill(managers_[i]);
          managers_.erase(managers_.begin() + static_cast<ptrdiff_t>(i));
        }
        break;
      case 2:
        if (random_.Below(4) == 0) {
          world_.store.Crash(random_.Below(2) == 0 ? kv::MemKvStore::Unsynced::kLost
                                                   : kv::MemKvStore::Unsynced::kKept);
          world_.Advance(absl::Milliseconds(random_.Below(3000)));
          world_.store.Restart();
          world_.store.ConfirmClock();
        }
        break;
      case 3:
      case 4:
        // In the middle of whatever is under way.
        world_.runtime.world().AdvanceBy(absl::Microseconds(random_.Below(400)));
        world_.SetState(uids_[random_.Below(uids_.size())],
                        storage::v1::SCHEDULE_STATE_KIND_PAUSED);
        break;
      case 5:
      case 6:
      case 7:
      case 8:
        Resume(random_.Below(uids_.size()));
        break;
      case 9:
      case 10:
        PutPolicy(static_cast<int>(random_.Below(3)), ++version_);
        break;
      case 11:
        world_.poor_store.Lag();
        break;
      default:
        break;
    }
  }

  // As the master does it.
  void Resume(size_t s) {
    kv::Group group;
    const std::string prefix(uids_[s].bytes());
    for (const auto& [key, value] : world_.Rows(ColumnFamily::kParked)) {
      if (key.substr(0, Uid::kBytes) != prefix) continue;
      group.conditions.push_back(
          {.cf = ColumnFamily::kParked, .key = key, .kind = kv::Condition::Kind::kPresent});
      group.mutations.push_back(
          {.cf = ColumnFamily::kParked, .kind = kv::Mutation::Kind::kDelete, .key = key});
      group.mutations.push_back(
          {.cf = ColumnFamily::kWaiting, .key = key.substr(Uid::kBytes), .value = value});
    }
    storage::v1::StateRecord state;
    state.set_kind(storage::v1::SCHEDULE_STATE_KIND_ENABLED);
    state.set_version(1);
    state.set_change_count(++version_);
    group.mutations.push_back({.cf = ColumnFamily::kStates,
                               .key = StateKey(uids_[s]),
                               .value = state.SerializeAsString()});
    world_.Commit(std::move(group));
  }

  void Deliver(bool well) {
    for (SentEvent& event : world_.Handle([&](const SentEvent& event) -> std::optional<Entry> {
           const size_t s = static_cast<size_t>(std::find(uids_.begin(), uids_.end(), event.uid) -
                                                uids_.begin());
           const bool on_release = schedules_[s].on_release;
           Entry entry = TokenWorld::EntryOf(
               event, on_release ? GrantReportRecord::DELIVERED : GrantReportRecord::SUCCEEDED);
           const uint64_t luck = well ? 99 : random_.Below(100);
           if (luck < 3) return std::nullopt;
           if (luck < 6) {
             entry.set_kind(GrantReportRecord::RESEND);
           } else if (luck < 16) {
             entry.set_kind(GrantReportRecord::RETURNED);
             entry.set_unreachable(luck == 6);
           } else if (luck < 20) {
             entry.set_kind(GrantReportRecord::RETRY);
             entry.set_attempts(event.attempts + 1);
             entry.set_retry_at_micros(ToMicros(world_.now() + absl::Milliseconds(500)));
           } else if (luck < 22) {
             entry.set_kind(GrantReportRecord::FAILED);
           }
           return entry;
         })) {
      out_.push_back(std::move(event));
    }
    // Just when tokens are free: what grants were decided by may have changed when they are
    // committed.
    if (well || random_.Below(2) != 0) return;
    for (int i = 0; i < 3; ++i) {
      world_.Advance(absl::Microseconds(random_.Below(300)));
      if (random_.Below(2) == 0) {
        PutPolicy(static_cast<int>(random_.Below(3)), ++version_);
      } else {
        Resume(random_.Below(uids_.size()));
      }
    }
  }

  void Complete(bool well) {
    std::vector<SentEvent> left;
    for (SentEvent& event : out_) {
      const uint64_t luck = well ? 99 : random_.Below(100);
      if (luck < 60) {
        left.push_back(std::move(event));
        continue;
      }
      if (luck < 62) continue;  // never
      const auto kind = luck < 70   ? GrantReportRecord::COMPLETION_FAILED
                        : luck < 75 ? GrantReportRecord::EXTENDED
                                    : GrantReportRecord::COMPLETED;
      if (!well && luck % 3 == 0 && !managers_.empty()) {
        // The answer is not waited for: it may come after the end of the one that was asked.
        world_.manager(managers_[random_.Below(managers_.size())])
            .Apply(static_cast<uint16_t>(event.grant.policy_shard()),
                   {TokenWorld::EntryOf(event, kind)}, [](absl::StatusOr<std::vector<bool>>) {});
      }
      if (well || luck % 3 != 0 || luck % 2 == 0)
        world_.Report(static_cast<uint16_t>(event.grant.policy_shard()),
                      {TokenWorld::EntryOf(event, kind)});
      if (kind == GrantReportRecord::EXTENDED) left.push_back(std::move(event));
    }
    out_ = std::move(left);
  }

  bool Settled() {
    return world_.Waiting().empty() && world_.Grants().empty() &&
           world_.Count(ColumnFamily::kParked) == 0;
  }

  void Check() {
    EXPECT_GT(claimed_, 0);
    EXPECT_TRUE(world_.Waiting().empty()) << What();
    EXPECT_TRUE(world_.Grants().empty()) << What();
    std::map<std::pair<Uid, std::string>, std::map<uint64_t, int>> ended;
    std::map<std::pair<Uid, std::string>, std::map<storage::v1::OutcomeKind, uint64_t>> outcomes;
    for (const auto& [key, value] : world_.Rows(ColumnFamily::kDone)) {
      const std::optional<DoneKey> decoded = DecodeDoneKey(key);
      ASSERT_TRUE(decoded.has_value());
      storage::v1::DoneRecord done;
      done.ParseFromString(value);
      for (uint64_t i = 0; i < done.count(); ++i)
        ++ended[{decoded->uid, decoded->occurrence}][decoded->first + i];
      outcomes[{decoded->uid, decoded->occurrence}][done.outcome()] += done.count();
    }
    for (const auto& [run, count] : owed_) {
      EXPECT_EQ(ended[run].size(), count) << run.first.ToHex() << run.second;
      for (const auto& [index, times] : ended[run]) EXPECT_EQ(times, 1);
      if (count == 1) continue;
      const size_t s =
          static_cast<size_t>(std::find(uids_.begin(), uids_.end(), run.first) - uids_.begin());
      const Uid policy = s < 6 ? policies_[s % 3] : run.first;
      const auto part = world_.Part(run.first, run.second, policy);
      EXPECT_EQ(part.succeeded(), outcomes[run][storage::v1::OUTCOME_KIND_SUCCEEDED]);
      EXPECT_EQ(part.failed(), outcomes[run][storage::v1::OUTCOME_KIND_FAILED]);
      EXPECT_EQ(part.granted(), count);
      EXPECT_EQ(part.running(), 0);
    }
  }

  std::string What() {
    std::string what = absl::FormatTime(world_.now(), absl::UTCTimeZone()) + "\n";
    for (const auto& [key, row] : world_.Waiting())
      what += "waiting " + absl::FormatTime(key.due_time, absl::UTCTimeZone()) + " " +
              key.uid.ToHex() + " shard " + std::to_string(key.policy_shard) + " " +
              row.ShortDebugString() + "\n";
    for (const auto& grant : world_.Grants()) what += "grant " + grant.ShortDebugString() + "\n";
    what += std::to_string(world_.Count(ColumnFamily::kWaiting)) + " rows and reports, " +
            std::to_string(world_.Count(ColumnFamily::kInflight)) + " claims\n";
    for (const std::string& name : managers_) {
      const TokenManagerMetrics& metrics = world_.manager(name).metrics();
      what += name + ": " + std::to_string(metrics.shards_held.Value()) + " shards, " +
              std::to_string(metrics.commits.Value()) + " commits, " +
              std::to_string(metrics.held.Value()) + " held, " +
              std::to_string(metrics.rows_in_memory.Value()) + " rows, " +
              std::to_string(metrics.undelivered_now.Value()) + " undelivered\n";
    }
    return what;
  }

  TokenWorld world_;
  Random& random_;
  std::vector<Uid> policies_;
  std::vector<Uid> uids_;
  std::vector<TokenWorld::Schedule> schedules_;
  std::map<std::pair<Uid, std::string>, uint64_t> owed_;
  std::vector<std::string> managers_;
  std::vector<SentEvent> out_;
  int started_ = 0;
  std::map<std::string, bool> paused_;
  uint64_t claimed_ = 0;
  uint64_t version_ = 1;
};

class TokenManagerFaultsTest : public ::testing::TestWithParam<uint64_t> {};

TEST_P(TokenManagerFaultsTest, EachEventEndsOnceAndNoLimitIsExceeded) {
  Faults faults(GetParam());
  faults.Run();
}

INSTANTIATE_TEST_SUITE_P(Seeds, TokenManagerFaultsTest, ::testing::Range<uint64_t>(1, 13));

}  // namespace token_manager_faults_test
}  // namespace escapement::token_manager

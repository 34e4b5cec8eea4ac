#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/simulation/checkers/commits/commit_checks.h"

namespace escapement::simulation {

std::vector<Violation> CheckLog(const History& history) {
  std::vector<Violation> violations;
  auto report = [&](const LoggedRow& row, const std::string& why) {
    violations.push_back(
        {"log", absl::StrCat("row ", row.seq, " of epoch ", row.epoch, " at ",
                             absl::FormatTime(row.time, absl::UTCTimeZone()), ": ", why)});
  };
  LoggedRow before;
  for (const LoggedRow& row : history.log) {
    if (row.seq != before.seq + 1) report(row, absl::StrCat("it follows row ", before.seq));
    if (row.epoch < before.epoch) report(row, absl::StrCat("it follows epoch ", before.epoch));
    if (row.epoch != before.epoch && row.kind != LoggedRow::Kind::kLeader)
      report(row, "its term does not begin with the leader's row");
    // A proof of the handover itself may follow.
    if (row.epoch == before.epoch && before.kind == LoggedRow::Kind::kHandover &&
        row.kind != LoggedRow::Kind::kProof)
      report(row, "its leader has handed over before");
    before = row;
  }
  for (const std::string& what : history.copies) violations.push_back({"copy", what});
  return violations;
}

std::vector<Violation> CheckReads(const History& history) {
  std::vector<Violation> violations;
  std::vector<const ReadSeen*> by_call;
  for (const ReadSeen& read : history.reads) by_call.push_back(&read);
  std::stable_sort(by_call.begin(), by_call.end(),
                   [](const ReadSeen* a, const ReadSeen* b) { return a->called < b->called; });
  uint64_t highest = 0;
  auto told = history.acknowledged.begin();
  for (const ReadSeen* read : by_call) {
    for (; told != history.acknowledged.end() && told->answered < read->called; ++told) {
      if (told->applied) highest = std::max(highest, told->seq);
    }
    if (read->seq >= highest) continue;
    violations.push_back(
        {"stale_read",
         absl::StrCat("a read that ", read->process, " called at ",
                      absl::FormatTime(read->called, absl::UTCTimeZone()), " showed commit ",
                      read->seq, ", but somebody had been told of commit ", highest)});
  }
  return violations;
}

namespace {

class StaleEpochChecker {
 public:
  std::vector<Violation> Run(const History& history) {
    cell_ = history.cell;
    died_ = &history.died;
    for (const Commit& commit : history.commits) {
      seq_ = commit.seq;
      CheckFences(commit);
      for (const OwnedWrite& write : commit.owned) CheckOwned(commit, write);
      for (const LeaseWrite& write : commit.leases) CheckLease(commit, write);
      for (const CheckpointWrite& write : commit.checkpoints) CheckCheckpoint(write);
      for (const DoneWrite& write : commit.done) CheckDone(write);
    }
    return std::move(violations_);
  }

 private:
  struct Lease {
    uint64_t epoch = 0;
    std::string owner;
    absl::Time end = absl::InfinitePast();
  };

  template <typename... Parts>
  void Report(const Parts&... parts) {
    violations_.push_back({"stale_epoch", absl::StrCat("commit ", seq_, ": ", parts...)});
  }

  void CheckFences(const Commit& commit) {
    for (const FenceSeen& fence : commit.fence) {
      const uint64_t current = leases_[fence.lease].epoch;
      if (fence.epoch != current) {
        Report("applied under epoch ", fence.epoch, " of ", fence.lease, ", whose epoch is ",
               current);
      }
    }
  }

  void CheckOwned(const Commit& commit, const OwnedWrite& write) {
    const bool fenced =
        std::any_of(commit.fence.begin(), commit.fence.end(),
                    [&](const FenceSeen& fence) { return fence.lease == write.lease; });
    if (!fenced) Report(write.what, " was written without the fence of ", write.lease);
    const uint64_t current = leases_[write.lease].epoch;
    if (write.epoch.has_value() && *write.epoch != current) {
      Report(write.what, " was written by epoch ", *write.epoch, " of ", write.lease,
             ", whose epoch is ", current);
    }
  }

  void CheckLease(const Commit& commit, const LeaseWrite& write) {
    Lease& lease = leases_[write.lease];
    if (write.epoch < lease.epoch) {
      Report(write.lease, " went back from epoch ", lease.epoch, " to ", write.epoch);
    } else if (write.epoch == lease.epoch && !write.owner.empty() && write.owner != lease.owner) {
      Report(write.lease, " epoch ", write.epoch, " has two owners, ", lease.owner, " and ",
             write.owner);
    } else if (write.epoch > lease.epoch + 1 &&
               (lease.epoch > 0 || write.epoch != (cell_ << 56) + 1)) {
      Report(write.lease, " jumped from epoch ", lease.epoch, " to ", write.epoch);
    }
    // The owner itself may begin a new epoch before its lease has ended, and so may the next
    // instance of its host once it is dead.
    if (write.epoch > lease.epoch && !lease.owner.empty() && write.owner != lease.owner &&
        commit.store_time < lease.end && !IsSuccessor(commit, write.owner, lease.owner)) {
      Report(write.lease, " epoch ", write.epoch, " of ", write.owner, " began at ",
             absl::FormatTime(commit.store_time, absl::UTCTimeZone()), ", and ", lease.owner,
             " had it until ", absl::FormatTime(lease.end, absl::UTCTimeZone()));
    }
    lease.epoch = std::max(lease.epoch, write.epoch);
    lease.end = write.end;
    lease.owner = write.owner;
  }

  bool IsSuccessor(const Commit& commit, const std::string& owner, const std::string& former) {
    const auto died = died_->find(former);
    return died != died_->end() && died->second <= commit.time &&
           owner.substr(0, owner.find('#')) == former.substr(0, former.find('#'));
  }

  void CheckCheckpoint(const CheckpointWrite& write) {
    auto [it, fresh] = checkpoints_.try_emplace(write.checkpoint, write.micros);
    if (!fresh && write.micros < it->second) {
      Report(write.checkpoint, " went back from ", it->second, " to ", write.micros);
    }
    it->second = std::max(it->second, write.micros);
  }

  void CheckDone(const DoneWrite& write) {
    if (write.deleted) {
      done_.erase(write.key);
      return;
    }
    auto [it, fresh] = done_.try_emplace(write.key, write.value_digest);
    if (!fresh) Report(write.key, " ended as ", it->second, " and again as ", write.value_digest);
  }

  const std::map<std::string, absl::Time>* died_ = nullptr;
  uint64_t seq_ = 0;
  uint64_t cell_ = 0;
  std::map<std::string, Lease> leases_;
  std::map<std::string, int64_t> checkpoints_;
  std::map<std::string, std::string> done_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> CheckStaleEpoch(const History& history) {
  return StaleEpochChecker().Run(history);
}

}  // namespace escapement::simulation

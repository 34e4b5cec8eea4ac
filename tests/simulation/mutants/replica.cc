// Faults of replicated stores and of their log, planted in all replicas.

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/kv/log/forwarding_log.h"
#include "common/kv/log/memory/mem_log_engine.h"
#include "common/kv/replica/log_record.h"
#include "tests/simulation/mutants/mutants.h"

namespace escapement::simulation {
namespace {

using kv::AppendRequest;
using kv::AppendResult;
using kv::LogPosition;
using kv::LogRow;
using Outcome = AppendResult::Outcome;

template <typename Log>
ReplicaMistakes Planted() {
  return {.decorate_log = [](kv::SharedLog& inner, kv::MemLogEngine& engine) {
    return std::make_unique<Log>(inner, engine);
  }};
}

class FaultyLog : public kv::ForwardingLog {
 public:
  FaultyLog(kv::SharedLog& inner, kv::MemLogEngine& engine)
      : ForwardingLog(inner), engine_(engine) {}

 protected:
  kv::MemLogEngine& engine_;
};

// A row that the log refuses goes behind whatever the log ends with.
class AppendsBeforeCheck final : public FaultyLog {
 public:
  using FaultyLog::FaultyLog;
  void Append(AppendRequest request, std::function<void(AppendResult)> done) override {
    auto data = request.rows.back().data;
    inner_.Append(std::move(request), [this, data, done = std::move(done)](AppendResult result) {
      if (result.outcome != Outcome::kDeposed && result.outcome != Outcome::kConflict)
        return done(std::move(result));
      const kv::LogState& now = engine_.shown().state();
      inner_.Append({now.leader, now.last, {NextRow(now.last, now.leader.epoch, data)}}, done);
    });
  }
};

// The leader's row is not appended. The first term's is: it makes the store.
class SkipsLeaderRecord final : public FaultyLog {
 public:
  using FaultyLog::FaultyLog;
  void Append(AppendRequest request, std::function<void(AppendResult)> done) override {
    const LogPosition believed = request.rows.back().position;
    const LogRow& row = request.rows.back();
    const LogPosition after = RealOf(request.after);
    if (row.epoch > 1 && row.data->front() == static_cast<char>(kv::RecordKind::kLeader)) {
      real_[believed] = after;
      return done({Outcome::kAcknowledged});
    }
    const LogRow moved = NextRow(after, row.epoch, row.data);
    if (after != request.after) real_[believed] = moved.position;
    inner_.Append({request.term, after, {moved}}, std::move(done));
  }

 private:
  struct Less {
    bool operator()(const LogPosition& a, const LogPosition& b) const {
      return std::tie(a.seq, a.chain) < std::tie(b.seq, b.chain);
    }
  };
  LogPosition RealOf(const LogPosition& believed) const {
    const auto found = real_.find(believed);
    return found == real_.end() ? believed : found->second;
  }
  std::map<LogPosition, LogPosition, Less> real_;
};

// A reader goes on behind the row of its number, whatever history that row has.
class IgnoresHistory final : public FaultyLog {
 public:
  using FaultyLog::FaultyLog;
  void Read(kv::ReadRequest request, Callback<kv::ReadResult> done) override {
    const auto& rows = engine_.shown().rows();
    const auto row = rows.find(request.after.seq);
    if (row == rows.end() && !rows.empty() && request.after.seq > rows.rbegin()->first) {
      request.after = rows.rbegin()->second.position;  // nothing new for this reader
    } else if (row != rows.end()) {
      request.after = row->second.position;
    }
    inner_.Read(request, std::move(done));
  }
};

class AcknowledgesAtOnce final : public FaultyLog {
 public:
  using FaultyLog::FaultyLog;
  void Append(AppendRequest request, std::function<void(AppendResult)> done) override {
    inner_.Append(std::move(request), [](const AppendResult&) {});
    done({Outcome::kAcknowledged});
  }
};

// A replica takes an older log for one that has all acknowledged rows.
class YieldsToOlderLog final : public FaultyLog {
 public:
  using FaultyLog::FaultyLog;
  void Read(kv::ReadRequest request, Callback<kv::ReadResult> done) override {
    // Only whoever asks for the row of an acknowledged commit reads so little.
    if (request.rows_max != 1) return inner_.Read(request, std::move(done));
    inner_.Read(request, [done = std::move(done)](absl::StatusOr<kv::ReadResult> result) {
      if (absl::IsAborted(result.status())) return done(kv::ReadResult());
      done(std::move(result));
    });
  }
};

// A trim removes all rows, also those behind the newest snapshot.
ReplicaMistakes TrimsToTheEnd() {
  struct Trimmed {
    std::map<const kv::MemLogEngine*, uint64_t> to;
  };
  class Log final : public FaultyLog {
   public:
    Log(kv::SharedLog& inner, kv::MemLogEngine& engine, std::shared_ptr<Trimmed> trimmed)
        : FaultyLog(inner, engine), trimmed_(std::move(trimmed)) {}
    void Trim(uint32_t snapshots_kept, Callback<kv::TrimResult> done) override {
      trimmed_->to[&engine_] = engine_.replicated().state().last.seq;
      inner_.Trim(snapshots_kept, std::move(done));
    }
    void Read(kv::ReadRequest request, Callback<kv::ReadResult> done) override {
      uint64_t& to = trimmed_->to[&engine_];
      if (to > engine_.replicated().state().last.seq) to = 0;  // another run's engine
      if (request.after.seq >= to) return inner_.Read(request, std::move(done));
      // A reader learns it as it learns other errors: later.
      inner_.ReadState([done = std::move(done)](const absl::StatusOr<kv::LogState>&) {
        done(absl::OutOfRangeError("the log has been trimmed"));
      });
    }

   private:
    const std::shared_ptr<Trimmed> trimmed_;
  };
  return {.decorate_log = [trimmed = std::make_shared<Trimmed>()](kv::SharedLog& inner,
                                                                  kv::MemLogEngine& engine) {
    return std::make_unique<Log>(inner, engine, trimmed);
  }};
}

Mutant Replicated(std::string name, std::string fault, std::vector<std::string> rules,
                  ReplicaMistakes mistakes, uint64_t first_seed = 1, bool log_set_back = false) {
  Mutant mutant;
  mutant.log_set_back = log_set_back;
  mutant.first_seed = first_seed;
  mutant.name = std::move(name);
  mutant.fault = std::move(fault);
  mutant.rules = std::move(rules);
  mutant.cast = Cast::kReplicated;
  mutant.length = absl::Minutes(4);
  mutant.replica = std::move(mistakes);
  return mutant;
}

}  // namespace

std::vector<Mutant> ReplicaMutants() {
  return {
      Replicated("replica_appends_before_check",
                 "the log takes a row before it has checked that its writer leads",
                 {"acknowledged", "copy"}, Planted<AppendsBeforeCheck>()),
      Replicated("replica_skips_leader_record", "a new leader begins without a row of its own",
                 {"log"}, Planted<SkipsLeaderRecord>()),
      Replicated("replica_ignores_history",
                 "a reader does not check that the log has the history that it has applied",
                 {"copy", "acknowledged", "lost"}, Planted<IgnoresHistory>(), /*first_seed=*/20),
      Replicated("replica_reads_after_lease", "a leader answers reads after its lease",
                 {"stale_read"}, {.ignores_lease = true}),
      Replicated("replica_answers_before_acknowledgement",
                 "a batch is answered as soon as it is sent to the log", {"acknowledged"},
                 Planted<AcknowledgesAtOnce>()),
      Replicated("replica_tears_checkpoints", "a snapshot has families of different moments",
                 {"copy", "lost"}, {.tears_checkpoints = true}),
      Replicated("replica_trims_to_the_end", "a trim removes rows behind the newest snapshot",
                 {"copy", "lost", "answer"}, TrimsToTheEnd()),
      Replicated("replica_yields_to_older_log",
                 "a replica gives its copy up for a log that lacks acknowledged rows",
                 {"log", "acknowledged", "lost"}, Planted<YieldsToOlderLog>(), /*first_seed=*/1,
                 /*log_set_back=*/true),
  };
}

}  // namespace escapement::simulation

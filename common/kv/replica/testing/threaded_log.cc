#include "common/kv/replica/testing/threaded_log.h"

#include <utility>

namespace escapement::kv {

ThreadedLog::ThreadedLog(Runtime& runtime, ThreadedLogEngine& engine)
    : runtime_(runtime), engine_(engine), executor_(runtime.NewExecutor("threaded-log")) {}

ThreadedLog::~ThreadedLog() { executor_->Stop(); }

void ThreadedLog::Hold() {
  absl::MutexLock lock(&mu_);
  held_ = true;
}

void ThreadedLog::Go() {
  absl::MutexLock lock(&mu_);
  held_ = false;
  appends_held_ = 0;
  for (Closure& call : std::exchange(waiting_, {})) executor_->Post(std::move(call));
}

void ThreadedLog::AwaitHeldAppends(int count) {
  absl::MutexLock lock(&mu_);
  auto here = [this, count]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return appends_held_ >= count; };
  mu_.Await(absl::Condition(&here));
}

void ThreadedLog::LoseAnswers(int count) {
  absl::MutexLock lock(&mu_);
  answers_to_lose_ = count;
}

void ThreadedLog::Damage(const SnapshotFile& file) {
  absl::MutexLock lock(&mu_);
  damaged_.insert(file.hash);
}

void ThreadedLog::Do(Closure call) {
  absl::MutexLock lock(&mu_);
  if (held_) {
    waiting_.push_back(std::move(call));
  } else {
    executor_->Post(std::move(call));
  }
}

template <typename Done, typename F>
void ThreadedLog::Answer(Done done, F decide) {
  Do([this, done = std::move(done), decide = std::move(decide)]() mutable {
    done(engine_.With(decide));
  });
}

void ThreadedLog::ReadState(Callback<LogState> done) {
  Answer(std::move(done), [](MemLogState& log) -> absl::StatusOr<LogState> { return log.state(); });
}

void ThreadedLog::Lead(LeadRequest request, Callback<LeadResult> done) {
  Answer(std::move(done), [request = std::move(request), chain = runtime_.random().Next()](
                              MemLogState& log) { return log.Lead(request, chain); });
}

void ThreadedLog::Append(AppendRequest request, std::function<void(AppendResult)> done) {
  {
    absl::MutexLock lock(&mu_);
    if (held_) ++appends_held_;
  }
  Do([this, request = std::move(request), done = std::move(done)] {
    AppendResult result =
        engine_.With([&request](MemLogState& log) { return log.Append(request); });
    {
      absl::MutexLock lock(&mu_);
      if (answers_to_lose_ > 0) {
        --answers_to_lose_;
        result = {AppendResult::Outcome::kUnknown, absl::UnavailableError("the answer is lost")};
      }
    }
    done(std::move(result));
  });
}

void ThreadedLog::Read(ReadRequest request, Callback<ReadResult> done) {
  Answer(std::move(done), [request](MemLogState& log) { return log.Read(request); });
}

void ThreadedLog::MissingFiles(std::vector<SnapshotFile> files,
                               Callback<std::vector<SnapshotFile>> done) {
  Answer(std::move(done), [files = std::move(files)](MemLogState& log) {
    return absl::StatusOr<std::vector<SnapshotFile>>(log.MissingFiles(files));
  });
}

void ThreadedLog::PutPart(SnapshotPart part, std::function<void(absl::Status)> done) {
  Answer(std::move(done), [part = std::move(part)](MemLogState& log) {
    log.PutPart(part);
    return absl::OkStatus();
  });
}

void ThreadedLog::PutSnapshot(Snapshot snapshot, std::function<void(absl::Status)> done) {
  Answer(std::move(done),
         [snapshot = std::move(snapshot)](MemLogState& log) { return log.PutSnapshot(snapshot); });
}

void ThreadedLog::ListSnapshots(Callback<std::vector<Snapshot>> done) {
  Answer(std::move(done), [](MemLogState& log) {
    return absl::StatusOr<std::vector<Snapshot>>(log.ListSnapshots());
  });
}

void ThreadedLog::ReadPart(SnapshotFile file, uint32_t index, Callback<std::string> done) {
  Do([this, file = std::move(file), index, done = std::move(done)] {
    auto part = engine_.With([&](MemLogState& log) { return log.ReadPart(file, index); });
    {
      absl::MutexLock lock(&mu_);
      if (part.ok() && damaged_.count(file.hash) > 0) part->front() ^= 1;
    }
    done(std::move(part));
  });
}

void ThreadedLog::Trim(uint32_t snapshots_kept, Callback<TrimResult> done) {
  Answer(std::move(done), [snapshots_kept](MemLogState& log) {
    return absl::StatusOr<TrimResult>(log.Trim(snapshots_kept));
  });
}

void ThreadedLog::PutReport(std::string replica, std::string details,
                            std::function<void(absl::Status)> done) {
  Answer(std::move(done), [replica = std::move(replica), details = std::move(details),
                           now = runtime_.clock().Elapsed()](MemLogState& log) {
    log.PutReport(replica, details, now);
    return absl::OkStatus();
  });
}

void ThreadedLog::ListReports(Callback<std::vector<ReplicaReport>> done) {
  Answer(std::move(done), [now = runtime_.clock().Elapsed()](MemLogState& log) {
    return absl::StatusOr<std::vector<ReplicaReport>>(log.ListReports(now));
  });
}

}  // namespace escapement::kv

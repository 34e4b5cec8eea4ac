#include "common/kv/log/memory/mem_log.h"

#include <map>
#include <utility>

#include "common/kv/log/failed_append.h"
#include "common/kv/log/snapshot_codec.h"

namespace escapement::kv {
namespace {

using Outcome = AppendResult::Outcome;

absl::Status Lost() { return absl::UnavailableError("the connection to the log's engine is lost"); }

absl::Status InTheWay() {
  return absl::UnavailableError("another transaction is in the way; nothing was done");
}

}  // namespace

// One connection of the client, and its calls that have no answer. Touched on the executor.
class MemLog::Link : public std::enable_shared_from_this<Link> {
 public:
  Link(MemLogEngine& engine, std::shared_ptr<Executor> executor, Options options)
      : engine_(engine), executor_(std::move(executor)), options_(std::move(options)) {}

  using Connection = std::shared_ptr<MemLogEngine::Connection>;

  // `at_engine(connection, give)` runs at the engine and gives the call's result, or hands `give`
  // on. `done` gets it, or `lost` if the connection breaks first.
  template <typename T>
  void Call(T lost, std::function<void(T)> done,
            std::function<void(Connection, std::function<Closure(T)>)> at_engine) {
    executor_->Post([this, self = shared_from_this(), lost = std::move(lost),
                     done = std::move(done), at_engine = std::move(at_engine)]() mutable {
      if (connection_ == nullptr) Connect();
      const uint64_t id = ++last_id_;
      calls_.emplace(id, [lost = std::move(lost), done] { done(lost); });
      auto give = [weak = weak_from_this(), id, done](T result) -> Closure {
        return [weak, id, done, result = std::move(result)]() mutable {
          const auto link = weak.lock();
          if (link != nullptr && link->calls_.erase(id) > 0) done(std::move(result));
        };
      };
      engine_.Send(connection_, [at_engine = std::move(at_engine), connection = connection_,
                                 give = std::move(give)]() mutable {
        at_engine(std::move(connection), std::move(give));
      });
    });
  }

  // All calls under way fail; the next one connects again.
  void FailAll() {
    connection_ = nullptr;
    for (auto& [id, fail] : std::exchange(calls_, {})) fail();
  }

  FailedAppend& failed_append() { return failed_append_; }

 private:
  void Connect() {
    // The break of an older connection does not concern a newer one.
    const uint64_t number = ++connections_;
    connection_ = engine_.Connect(options_.name, executor_, options_.silence_max,
                                  [weak = weak_from_this(), number] {
                                    const auto link = weak.lock();
                                    if (link != nullptr && link->connections_ == number)
                                      link->FailAll();
                                  });
  }

  MemLogEngine& engine_;
  const std::shared_ptr<Executor> executor_;
  const Options options_;
  Connection connection_;
  uint64_t connections_ = 0;
  uint64_t last_id_ = 0;
  std::map<uint64_t, std::function<void()>> calls_;  // to run if the connection breaks
  FailedAppend failed_append_;
};

MemLog::MemLog(Runtime& runtime, MemLogEngine& engine, Options options)
    : engine_(engine),
      executor_(runtime.NewExecutor("mem-log")),
      writer_(std::make_shared<Link>(engine, executor_, options)),
      worker_(std::make_shared<Link>(engine, executor_, options)) {}

MemLog::~MemLog() {
  executor_->Stop();
  writer_->FailAll();
  worker_->FailAll();
}

void MemLog::ReadState(Callback<LogState> done) {
  worker_->Call<absl::StatusOr<LogState>>(
      Lost(), std::move(done), [engine = &engine_](auto connection, auto give) {
        engine->Answer(connection, give(engine->shown().state()));
      });
}

void MemLog::Lead(LeadRequest request, Callback<LeadResult> done) {
  if (auto status = ValidateLead(request); !status.ok()) return done(status);
  writer_->Call<absl::StatusOr<LeadResult>>(
      Lost(), std::move(done),
      [engine = &engine_, request = std::move(request)](auto connection, auto give) {
        if (engine->Blocked()) return engine->Answer(connection, give(InTheWay()));
        const uint64_t genesis = engine->runtime_.random().Next();
        auto result = engine->committed_.Lead(request, genesis);
        if (!result.ok()) return engine->Refuse(connection, give(std::move(result)));
        engine->Commit(
            connection,
            [request, genesis](MemLogState& state) { state.Lead(request, genesis).IgnoreError(); },
            give(std::move(result)));
      });
}

void MemLog::Append(AppendRequest request, std::function<void(AppendResult)> done) {
  if (auto status = ValidateAppend(request); !status.ok())
    return done({Outcome::kNotApplied, status});
  auto shared = std::make_shared<const AppendRequest>(std::move(request));
  writer_->Call<AppendResult>(
      {Outcome::kUnknown, Lost()},
      [writer = writer_.get(), shared, done = std::move(done)](AppendResult result) {
        done(writer->failed_append().Explain(*shared, std::move(result)));
      },
      [engine = &engine_, shared](auto connection, auto give) {
        if (engine->Blocked()) {
          return engine->Refuse(connection, give({Outcome::kNotApplied, InTheWay()}));
        }
        AppendResult result = engine->committed_.Append(*shared);
        if (result.outcome != Outcome::kAcknowledged)
          return engine->Refuse(connection, give(std::move(result)));
        engine->Commit(
            connection, [shared](MemLogState& state) { state.Append(*shared); },
            give(std::move(result)));
      });
}

void MemLog::Read(ReadRequest request, Callback<ReadResult> done) {
  if (auto status = ValidateRead(request); !status.ok()) return done(status);
  worker_->Call<absl::StatusOr<ReadResult>>(
      Lost(), std::move(done), [engine = &engine_, request](auto connection, auto give) {
        engine->Answer(connection, give(engine->shown().Read(request)));
      });
}

void MemLog::MissingFiles(std::vector<SnapshotFile> files,
                          Callback<std::vector<SnapshotFile>> done) {
  if (auto status = ValidateFiles(files); !status.ok()) return done(status);
  worker_->Call<absl::StatusOr<std::vector<SnapshotFile>>>(
      Lost(), std::move(done),
      [engine = &engine_, files = std::move(files)](auto connection, auto give) {
        engine->Answer(connection, give(engine->shown().MissingFiles(files)));
      });
}

void MemLog::PutPart(SnapshotPart part, std::function<void(absl::Status)> done) {
  if (auto status = ValidatePart(part); !status.ok()) return done(status);
  auto shared = std::make_shared<const SnapshotPart>(std::move(part));
  worker_->Call<absl::Status>(
      Lost(), std::move(done), [engine = &engine_, shared](auto connection, auto give) {
        engine->committed_.PutPart(*shared);
        engine->Commit(
            connection, [shared](MemLogState& state) { state.PutPart(*shared); },
            give(absl::OkStatus()));
      });
}

void MemLog::PutSnapshot(Snapshot snapshot, std::function<void(absl::Status)> done) {
  if (auto status = ValidateSnapshot(snapshot); !status.ok()) return done(status);
  worker_->Call<absl::Status>(
      Lost(), std::move(done),
      [engine = &engine_, snapshot = std::move(snapshot)](auto connection, auto give) {
        absl::Status result = engine->committed_.PutSnapshot(snapshot);
        engine->Commit(
            connection,
            [snapshot](MemLogState& state) { state.PutSnapshot(snapshot).IgnoreError(); },
            give(std::move(result)));
      });
}

void MemLog::ListSnapshots(Callback<std::vector<Snapshot>> done) {
  worker_->Call<absl::StatusOr<std::vector<Snapshot>>>(
      Lost(), std::move(done), [engine = &engine_](auto connection, auto give) {
        engine->Answer(connection, give(engine->shown().ListSnapshots()));
      });
}

void MemLog::ReadPart(SnapshotFile file, uint32_t index, Callback<std::string> done) {
  if (auto status = ValidateFiles({file}); !status.ok()) return done(status);
  worker_->Call<absl::StatusOr<std::string>>(
      Lost(), std::move(done), [engine = &engine_, file, index](auto connection, auto give) {
        engine->Answer(connection, give(engine->shown().ReadPart(file, index)));
      });
}

void MemLog::Trim(uint32_t snapshots_kept, Callback<TrimResult> done) {
  if (auto status = ValidateTrim(snapshots_kept); !status.ok()) return done(status);
  worker_->Call<absl::StatusOr<TrimResult>>(
      Lost(), std::move(done), [engine = &engine_, snapshots_kept](auto connection, auto give) {
        const TrimResult result = engine->committed_.Trim(snapshots_kept);
        engine->Commit(
            connection, [snapshots_kept](MemLogState& state) { state.Trim(snapshots_kept); },
            give(result));
      });
}

void MemLog::PutReport(std::string replica, std::string details,
                       std::function<void(absl::Status)> done) {
  if (auto status = ValidateReport(replica, details); !status.ok()) return done(status);
  worker_->Call<absl::Status>(Lost(), std::move(done),
                              [engine = &engine_, replica = std::move(replica),
                               details = std::move(details)](auto connection, auto give) {
                                const absl::Duration now = engine->runtime_.clock().Elapsed();
                                const auto put = [=](MemLogState& state) {
                                  state.PutReport(replica, details, now);
                                };
                                put(engine->committed_);
                                engine->Commit(connection, put, give(absl::OkStatus()));
                              });
}

void MemLog::ListReports(Callback<std::vector<ReplicaReport>> done) {
  worker_->Call<absl::StatusOr<std::vector<ReplicaReport>>>(
      Lost(), std::move(done), [engine = &engine_](auto connection, auto give) {
        const absl::Duration now = engine->runtime_.clock().Elapsed();
        engine->Answer(connection, give(engine->shown().ListReports(now)));
      });
}

}  // namespace escapement::kv

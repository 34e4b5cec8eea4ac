#include "common/kv/log/pg/pg_log.h"

#include <algorithm>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/kv/log/pg/pg_appender.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/kv/log/pg/pg_session.h"
#include "common/kv/log/pg/pg_statements.h"
#include "common/kv/log/snapshot_codec.h"

namespace escapement::kv {
namespace {

using Kind = PgAnswer::Kind;

constexpr size_t kStoreNameBytesMax = 32;
// One call of Trim removes at most this much, so that it is short.
constexpr uint64_t kTrimRowsMax = 2000;
constexpr uint64_t kTrimFilesMax = 8;

// An effect that may be lost again counts as unknown.
absl::Status StatusOf(const PgAnswer& answer) {
  if (answer.sqlstate == kPgForeignKey)
    return absl::AbortedError("a trim and an upload were in each other's way");
  return answer.why;
}

std::string Millis(absl::Duration duration) {
  return absl::StrCat(absl::ToInt64Milliseconds(duration));
}

std::vector<std::string> Setup(const PgLog::Options& options) {
  // A generic plan is made once for each statement, also while the tables are empty. Without
  // sequential and bitmap scans it uses the primary keys, whatever the statistics say.
  return {absl::StrCat(
      "SELECT set_config('lock_timeout', '", Millis(options.lock_timeout),
      "', false), set_config('statement_timeout', '", Millis(options.statement_timeout),
      "', false), set_config('default_transaction_isolation', 'read committed', false), ",
      "set_config('plan_cache_mode', 'force_generic_plan', false), ",
      "set_config('enable_seqscan', 'off', false), ",
      "set_config('enable_bitmapscan', 'off', false), ", "set_config('jit', 'off', false), ",
      "set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ",
      "('off', 'local') THEN 'on' ELSE current_setting('synchronous_commit') END, false)")};
}

bool GoodStoreName(const std::string& name) {
  return !name.empty() && name.size() <= kStoreNameBytesMax &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_islower(static_cast<unsigned char>(c)) ||
                  absl::ascii_isdigit(static_cast<unsigned char>(c)) || c == '-';
         });
}

// Runs the preparation that both connections of a log share, until it has succeeded once.
class Once {
 public:
  explicit Once(std::function<absl::Status()> run) : run_(std::move(run)) {}
  absl::Status Run() {
    absl::MutexLock lock(&mu_);
    if (run_ != nullptr) RETURN_IF_ERROR(run_());
    run_ = nullptr;
    return absl::OkStatus();
  }

 private:
  absl::Mutex mu_;
  std::function<absl::Status()> run_ ABSL_GUARDED_BY(mu_);
};

// Hashes and numbers of parts, as parameters.
PgValue Hashes(const std::vector<SnapshotFile>& files) {
  std::vector<std::string> hashes;
  for (const SnapshotFile& file : files) hashes.push_back(file.hash);
  return PgValue::BytesArray(hashes);
}
PgValue Parts(const std::vector<SnapshotFile>& files) {
  std::vector<uint64_t> parts;
  for (const SnapshotFile& file : files) parts.push_back(SnapshotParts(file.bytes));
  return PgValue::Bigints(parts);
}

// The age of reports that are forgotten, as a parameter.
PgValue ReportSeconds() {
  return PgValue::Bigint(static_cast<uint64_t>(absl::ToInt64Seconds(kReplicaReportAgeMax)));
}

absl::StatusOr<ReadResult> ReadResultOf(const PgRows& rows, const ReadRequest& request) {
  if (rows.size() == 0 || rows.Bigint(0, 0) == request.after.seq) {
    if (rows.size() == 0 || rows.Bigint(0, 2) != request.after.chain) {
      return absl::AbortedError(absl::StrCat("the log does not have the history up to row ",
                                             request.after.seq, " that was read before"));
    }
  } else {
    return absl::OutOfRangeError(absl::StrCat("the log begins at row ", rows.Bigint(0, 0)));
  }
  ReadResult result;
  size_t bytes = 0;
  for (size_t row = 1; row < rows.size(); ++row) {
    result.rows.push_back({{rows.Bigint(row, 0), rows.Bigint(row, 2)},
                           rows.Bigint(row, 1),
                           std::make_shared<const std::string>(rows.Bytes(row, 3))});
    bytes += result.rows.back().data->size();
  }
  if (!FollowsOn(request.after, result.rows)) {
    return absl::DataLossError(
        absl::StrCat("a row of the log behind ", request.after.seq, " is damaged or missing"));
  }
  result.more = result.rows.size() >= request.rows_max || bytes >= request.bytes_max;
  return result;
}

}  // namespace

class PgLog::Core {
 public:
  Core(Runtime& runtime, const Options& options, const std::string& writer_name,
       PgSession::Options writer, PgSession::Options worker)
      : store_(options.store),
        appender_(runtime, options.store, writer_name, std::move(writer)),
        worker_(runtime, std::move(worker)) {}

  PgValue store() const { return PgValue::Text(store_); }
  PgAppender& appender() { return appender_; }
  PgSession& worker() { return worker_; }

  // Runs one statement without effects. `result(rows)` returns a T, or a StatusOr<T>.
  template <typename T, typename F>
  void Query(const char* statement, std::vector<PgValue> values, Callback<T> done, F result) {
    worker_.Run({{statement, std::move(values)}},
                [done = std::move(done), result = std::move(result)](const PgAnswer& answer) {
                  if (answer.kind != Kind::kCommitted && answer.kind != Kind::kUnproven)
                    return done(answer.why);
                  done(result(answer.rows.front()));
                });
  }

 private:
  const std::string store_;
  PgAppender appender_;
  PgSession worker_;
};

absl::StatusOr<std::unique_ptr<PgLog>> PgLog::Make(Runtime& runtime, const Options& options) {
  if (!GoodStoreName(options.store)) {
    return absl::InvalidArgumentError(
        "the name of a shared log has 1 to 32 lower-case letters, digits and hyphens");
  }
  std::function<absl::Status()> before_connect = nullptr;
  if (options.before_connect)
    before_connect = [once = std::make_shared<Once>(options.before_connect)] {
      return once->Run();
    };
  const std::string writer_name = absl::StrCat("escapement-writer-", options.store);
  ASSIGN_OR_RETURN(auto writer_conninfo, MakePgConninfo(options.url, writer_name));
  ASSIGN_OR_RETURN(auto worker_conninfo,
                   MakePgConninfo(options.url, absl::StrCat("escapement-worker-", options.store)));
  PgSession::Options writer{.conninfo = std::move(writer_conninfo),
                            .thread_name = "log-writer",
                            .statements = pg::WriterStatements(),
                            .before_connect = before_connect,
                            .setup = Setup(options),
                            .silence_max = options.silence_max,
                            .hosts_asked_every = options.hosts_asked_every};
  writer.in_flight_max = static_cast<size_t>(std::max(1, options.appends_in_flight_max));
  PgSession::Options worker{.conninfo = std::move(worker_conninfo),
                            .thread_name = "log-worker",
                            .statements = pg::WorkerStatements(),
                            .before_connect = before_connect,
                            .setup = Setup(options),
                            .silence_max = options.silence_max,
                            .hosts_asked_every = options.hosts_asked_every};
  return std::unique_ptr<PgLog>(new PgLog(
      std::make_unique<Core>(runtime, options, writer_name, std::move(writer), std::move(worker))));
}

PgLog::PgLog(std::unique_ptr<Core> core) : core_(std::move(core)) {}
PgLog::~PgLog() = default;

void PgLog::Disconnect() {
  core_->appender().Disconnect();
  core_->worker().Disconnect();
}

void PgLog::ReadState(Callback<LogState> done) {
  core_->appender().KeepOpen();
  core_->Query(pg::kState, {core_->store()}, std::move(done), &pg::StateOf);
}

void PgLog::Lead(LeadRequest request, Callback<LeadResult> done) {
  if (auto status = ValidateLead(request); !status.ok()) return done(status);
  core_->appender().Lead(std::move(request), std::move(done));
}

void PgLog::Append(AppendRequest request, std::function<void(AppendResult)> done) {
  if (auto status = ValidateAppend(request); !status.ok())
    return done({.outcome = AppendResult::Outcome::kNotApplied, .why = status});
  core_->appender().Append(std::move(request), std::move(done));
}

void PgLog::Read(ReadRequest request, Callback<ReadResult> done) {
  if (auto status = ValidateRead(request); !status.ok()) return done(status);
  core_->Query(pg::kRead,
               {core_->store(), PgValue::Bigint(request.after.seq),
                PgValue::Bigint(request.rows_max), PgValue::Bigint(request.bytes_max)},
               std::move(done),
               [request](const PgRows& rows) { return ReadResultOf(rows, request); });
}

void PgLog::MissingFiles(std::vector<SnapshotFile> files,
                         Callback<std::vector<SnapshotFile>> done) {
  if (auto status = ValidateFiles(files); !status.ok()) return done(status);
  std::vector<PgValue> values = {core_->store(), Hashes(files), Parts(files)};
  core_->Query(pg::kMissingFiles, std::move(values), std::move(done),
               [files = std::move(files)](const PgRows& rows) {
                 std::vector<SnapshotFile> missing;
                 for (size_t row = 0; row < rows.size(); ++row)
                   missing.push_back(files.at(rows.Bigint(row, 0) - 1));
                 return missing;
               });
}

void PgLog::PutPart(SnapshotPart part, std::function<void(absl::Status)> done) {
  if (auto status = ValidatePart(part); !status.ok()) return done(status);
  std::vector<PgStep> steps;
  steps.push_back({pg::kAddFiles, {core_->store(), Hashes({part.file})}});
  const uint64_t check = SnapshotPartCheck(part);
  steps.push_back({pg::kPutPart,
                   {core_->store(), PgValue::Bytes(part.file.hash), PgValue::Bigint(part.index),
                    PgValue::Bigint(check), PgValue::Bytes(std::move(part.data))}});
  core_->worker().Run(std::move(steps),
                      [done = std::move(done)](const PgAnswer& answer) { done(StatusOf(answer)); });
}

void PgLog::PutSnapshot(Snapshot snapshot, std::function<void(absl::Status)> done) {
  if (auto status = ValidateSnapshot(snapshot); !status.ok()) return done(status);
  const PgValue seq = PgValue::Bigint(snapshot.position.seq);
  const PgValue chain = PgValue::Bigint(snapshot.position.chain);
  const PgValue hashes = Hashes(snapshot.files);
  std::vector<PgStep> steps;
  steps.push_back({pg::kAddFiles, {core_->store(), hashes}});
  steps.push_back(
      {pg::kSnapshotBegin, {core_->store(), seq, chain, PgValue::Bytes(EncodeSnapshot(snapshot))}});
  steps.push_back({pg::kSnapshotClear, {core_->store(), seq}});
  steps.push_back({pg::kSnapshotFiles, {core_->store(), seq, hashes}});
  steps.push_back({pg::kSnapshotEnd, {core_->store(), seq, hashes, Parts(snapshot.files)}});
  steps.push_back({pg::kSnapshotCheck, {core_->store(), seq, chain}});
  core_->worker().Run(std::move(steps), [done = std::move(done)](const PgAnswer& answer) {
    if (answer.kind != Kind::kCommitted) return done(StatusOf(answer));
    const PgRows& check = answer.rows.back();
    if (check.size() == 0)
      return done(absl::AbortedError("the snapshot's position is not in the log"));
    if (!check.Boolean(0, 0))
      return done(absl::AbortedError("parts of the snapshot's files are missing"));
    done(absl::OkStatus());
  });
}

void PgLog::ListSnapshots(Callback<std::vector<Snapshot>> done) {
  core_->Query(pg::kListSnapshots, {core_->store()}, std::move(done),
               [](const PgRows& rows) -> absl::StatusOr<std::vector<Snapshot>> {
                 std::vector<Snapshot> snapshots;
                 for (size_t row = 0; row < rows.size(); ++row) {
                   ASSIGN_OR_RETURN(auto snapshot,
                                    DecodeSnapshot({rows.Bigint(row, 0), rows.Bigint(row, 1)},
                                                   rows.Bytes(row, 2)));
                   snapshots.push_back(std::move(snapshot));
                 }
                 return snapshots;
               });
}

void PgLog::ReadPart(SnapshotFile file, uint32_t index, Callback<std::string> done) {
  if (auto status = ValidateFiles({file}); !status.ok()) return done(status);
  std::vector<PgValue> values = {core_->store(), PgValue::Bytes(file.hash), PgValue::Bigint(index)};
  core_->Query(pg::kReadPart, std::move(values), std::move(done),
               [file, index](const PgRows& rows) -> absl::StatusOr<std::string> {
                 if (rows.size() == 0) return absl::NotFoundError("the log has no such part");
                 SnapshotPart part{file, index, std::string(rows.Bytes(0, 1))};
                 if (SnapshotPartCheck(part) != rows.Bigint(0, 0) || !ValidatePart(part).ok())
                   return absl::DataLossError("a part of a snapshot's file is damaged");
                 return std::move(part.data);
               });
}

void PgLog::Trim(uint32_t snapshots_kept, Callback<TrimResult> done) {
  if (auto status = ValidateTrim(snapshots_kept); !status.ok()) return done(status);
  const PgValue kept = PgValue::Bigint(snapshots_kept);
  std::vector<PgStep> steps;
  steps.push_back({pg::kTrimSnapshots, {core_->store(), kept}});
  steps.push_back({pg::kTrimFiles, {core_->store(), PgValue::Bigint(kTrimFilesMax)}});
  steps.push_back({pg::kTrimRows, {core_->store(), kept, PgValue::Bigint(kTrimRowsMax)}});
  steps.push_back({pg::kTrimReports, {core_->store(), ReportSeconds()}});
  core_->worker().Run(std::move(steps), [done = std::move(done)](const PgAnswer& answer) {
    if (answer.kind != Kind::kCommitted) return done(StatusOf(answer));
    TrimResult result;
    result.snapshots = answer.rows[0].affected();
    result.files = answer.rows[1].affected();
    result.rows = answer.rows[2].affected();
    result.more = result.files == kTrimFilesMax || result.rows == kTrimRowsMax;
    done(result);
  });
}

void PgLog::PutReport(std::string replica, std::string details,
                      std::function<void(absl::Status)> done) {
  if (auto status = ValidateReport(replica, details); !status.ok()) return done(status);
  core_->worker().Run(
      {{pg::kPutReport,
        {core_->store(), PgValue::Text(std::move(replica)), PgValue::Bytes(std::move(details))}}},
      [done = std::move(done)](const PgAnswer& answer) { done(StatusOf(answer)); });
}

void PgLog::ListReports(Callback<std::vector<ReplicaReport>> done) {
  core_->Query(
      pg::kListReports, {core_->store(), ReportSeconds()}, std::move(done), [](const PgRows& rows) {
        std::vector<ReplicaReport> reports;
        for (size_t row = 0; row < rows.size(); ++row) {
          reports.push_back({std::string(rows.Bytes(row, 0)), std::string(rows.Bytes(row, 2)),
                             absl::Microseconds(static_cast<int64_t>(rows.Bigint(row, 1)))});
        }
        return reports;
      });
}

void PgLog::ReadServerFacts(Callback<PgServerFacts> done) {
  // Not prepared: a server that cannot answer it must not refuse the connection's other statements.
  core_->worker().Run({{.statement = kPgServerFactsSql, .prepared = false}},
                      [done = std::move(done)](const PgAnswer& answer) {
                        if (answer.kind != Kind::kCommitted) return done(answer.why);
                        const PgRows& rows = answer.rows.front();
                        if (rows.size() != 1)
                          return done(absl::InternalError("PostgreSQL gave no facts"));
                        std::vector<std::string> row;
                        for (int column = 0; column < rows.columns(); ++column)
                          row.emplace_back(rows.Bytes(0, column));
                        done(PgServerFactsOf(row));
                      });
}

}  // namespace escapement::kv

#include "tests/e2e/chaos/replicated/replicated_log.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"
#include "common/kv/log/pg/pg_connection.h"
#include "common/kv/log/pg/pg_log.h"
#include "common/kv/replica/log_record.h"
#include "common/kv/replica/replicated_kv_store.h"
#include "common/kv/rocks/rocks_database.h"
#include "common/kv/wire/store_service_grpc.h"
#include "services/store/service/store_grpc.h"
#include "tests/e2e/chaos/base/commit_file.h"
#include "tests/fixtures/postgres/postgres.h"

namespace escapement::chaos {

namespace {

using kv::ColumnFamily;
using kv::LogRow;

constexpr int kPageRows = 500;

// Applies rows to a state in memory.
class DiskSink final : public kv::WriteSink {
 public:
  explicit DiskSink(kv::MemDisk& disk) : disk_(disk) {}
  void Put(ColumnFamily cf, absl::string_view key, absl::string_view value) override {
    Family(cf)[std::string(key)] = std::string(value);
  }
  void Delete(ColumnFamily cf, absl::string_view key) override {
    Family(cf).erase(std::string(key));
  }
  void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) override {
    auto& family = Family(cf);
    family.erase(family.lower_bound(std::string(begin)), family.lower_bound(std::string(end)));
  }

 private:
  kv::MemDisk::Family& Family(ColumnFamily cf) {
    return disk_.families.at(static_cast<size_t>(cf));
  }
  kv::MemDisk& disk_;
};

// Finds the sequence that a row leaves behind.
class SeqSink final : public kv::WriteSink {
 public:
  void Put(ColumnFamily cf, absl::string_view key, absl::string_view value) override {
    if (cf == ColumnFamily::kMeta && key == kv::kSeqKey && value.size() == 8)
      seq = ReadBigEndian<uint64_t>(value);
  }
  void Delete(ColumnFamily cf, absl::string_view key) override {}
  void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) override {}
  std::optional<uint64_t> seq;
};

absl::StatusOr<EndState> StateAfter(const std::vector<LogRow>& rows, uint64_t last) {
  EndState state;
  DiskSink sink(state.disk);
  SeqSink seq;
  for (const LogRow& row : rows) {
    if (row.position.seq == 0 || row.position.seq > last) continue;
    RETURN_IF_ERROR(kv::ApplyRecord(*row.data, sink));
    RETURN_IF_ERROR(kv::ApplyRecord(*row.data, seq));
  }
  state.seq = seq.seq.value_or(0);
  return state;
}

}  // namespace

absl::StatusOr<std::vector<LogRow>> ReadLogRows(const std::string& url) {
  std::vector<LogRow> rows;
  int64_t next = 0;
  while (true) {
    ASSIGN_OR_RETURN(
        const auto page,
        fixtures::RunSql(
            url,
            absl::StrCat("SELECT seq, epoch, chain, encode(data, 'hex') FROM escapement.log_rows "
                         "WHERE store = 'default' AND seq >= ",
                         next, " ORDER BY seq LIMIT ", kPageRows)));
    for (const auto& fields : page) {
      int64_t epoch = 0;
      int64_t chain = 0;
      if (!absl::SimpleAtoi(fields[0], &next) || !absl::SimpleAtoi(fields[1], &epoch) ||
          !absl::SimpleAtoi(fields[2], &chain))
        return absl::DataLossError("a row of the log has no numbers");
      LogRow row;
      row.position = {static_cast<uint64_t>(next), static_cast<uint64_t>(chain)};
      row.epoch = static_cast<uint64_t>(epoch);
      row.data = std::make_shared<const std::string>(absl::HexStringToBytes(fields[3]));
      rows.push_back(std::move(row));
    }
    if (page.size() < kPageRows) return rows;
    ++next;
  }
}

std::vector<simulation::Violation> CheckLogRows(const std::vector<LogRow>& rows) {
  std::vector<simulation::Violation> violations;
  const auto report = [&](const LogRow& row, const std::string& why) {
    violations.push_back(
        {"log", absl::StrCat("row ", row.position.seq, " of epoch ", row.epoch, " ", why)});
  };
  if (rows.empty() || rows.front().position.seq != 0) {
    violations.push_back({"log", "the log does not begin with row 0"});
    return violations;
  }
  uint64_t seq = 0;
  bool ended = false;
  for (size_t i = 1; i < rows.size(); ++i) {
    const LogRow& before = rows[i - 1];
    const LogRow& row = rows[i];
    if (!kv::FollowsOn(before.position, {row}))
      report(row, absl::StrCat("does not follow on row ", before.position.seq));
    if (row.epoch < before.epoch) report(row, absl::StrCat("comes behind epoch ", before.epoch));
    kv::RecordKind kind = kv::RecordKind::kLeader;
    if (!kv::ReadRecordKind(*row.data, kind).ok()) {
      report(row, "has no known kind");
      continue;
    }
    const bool begins = row.epoch != before.epoch;
    if (begins != (kind == kv::RecordKind::kLeader))
      report(row, begins ? "begins a term without a leader row" : "is a second leader row");
    if (!begins && ended) report(row, "comes behind its handover");
    ended = kind == kv::RecordKind::kHandover;
    SeqSink sink;
    if (!kv::ApplyRecord(*row.data, sink).ok()) report(row, "is malformed");
    if (sink.seq.has_value() && *sink.seq < seq)
      report(row, absl::StrCat("goes back from commit ", seq, " to ", *sink.seq));
    seq = sink.seq.value_or(seq);
  }
  return violations;
}

absl::StatusOr<EndState> StateOf(const std::vector<LogRow>& rows) {
  return StateAfter(rows, UINT64_MAX);
}

absl::StatusOr<CommitFiles> CommitsOf(const std::vector<LogRow>& rows, const std::string& folder) {
  CommitFiles files;
  std::map<uint64_t, std::map<kv::CommitSeq, LoggedCommit>> terms;
  for (const uint64_t epoch : TermsIn(folder)) {
    ASSIGN_OR_RETURN(auto commits, ReadTermFile(folder, epoch));
    ++files.lives;
    files.undone += commits.size();
    for (LoggedCommit& commit : commits) terms[epoch].emplace(commit.record.seq, std::move(commit));
  }
  for (const LogRow& row : rows) {
    if (row.position.seq == 0) continue;
    SeqSink sink;
    RETURN_IF_ERROR(kv::ApplyRecord(*row.data, sink));
    while (files.commits.size() < sink.seq.value_or(0)) {
      auto& decided = terms[row.epoch];
      const auto found = decided.find(files.commits.size() + 1);
      if (found == decided.end()) {
        return absl::DataLossError(absl::StrCat("row ", row.position.seq, " has commit ",
                                                files.commits.size() + 1, ", which epoch ",
                                                row.epoch, " did not decide"));
      }
      files.commits.push_back(std::move(found->second));
      --files.undone;
    }
  }
  return files;
}

absl::StatusOr<std::vector<simulation::Violation>> CheckCopy(const std::vector<LogRow>& rows,
                                                             const std::string& data_dir) {
  std::vector<simulation::Violation> violations;
  const std::string folder = absl::StrCat(data_dir, "/replica/db");
  if (!std::filesystem::exists(folder)) return violations;
  kv::RocksDatabase::Options options;
  options.block_cache_bytes = 8 << 20;
  ASSIGN_OR_RETURN(auto database, kv::RocksDatabase::Open(folder, options));
  std::string bytes;
  if (!database->Get(ColumnFamily::kMeta, kv::kLogPlaceKey, bytes)) return violations;
  ASSIGN_OR_RETURN(const auto place, kv::DecodeLogPlace(bytes));
  const auto report = [&](const std::string& why) {
    violations.push_back(
        {"copy", absl::StrCat(data_dir, " at row ", place.position.seq, ": ", why)});
  };
  const uint64_t last = place.position.seq;
  if (last >= rows.size() || rows[last].position != place.position) {
    report("the log has no such row");
    return violations;
  }
  ASSIGN_OR_RETURN(auto state, StateAfter(rows, last));
  for (size_t i = 0; i < kv::kColumnFamilyCount; ++i) {
    const auto cf = static_cast<ColumnFamily>(i);
    std::map<std::string, std::string> copied;
    database->ForEach(cf, "", "", [&](absl::string_view key, absl::string_view value) {
      if (cf != ColumnFamily::kMeta || key != kv::kLogPlaceKey)
        copied.emplace(std::string(key), std::string(value));
      return true;
    });
    const auto& expected = state.disk.families.at(i);
    const std::map<std::string, std::string> logged(expected.begin(), expected.end());
    if (copied == logged) continue;
    report(absl::StrCat(kv::Name(cf), " has ", copied.size(), " rows that are not the ",
                        logged.size(), " of the log"));
  }
  return violations;
}

namespace {

// Small, so that a run of a minute has several snapshots, and a store that lost its folder restores
// one.
constexpr uint64_t kSnapshotLogBytes = 256 << 10;
constexpr absl::Duration kSnapshotCheck = absl::Seconds(2);

// Has a file for each term. Used by the writing thread of the store that leads, and by the thread
// that makes such a store; never by both at once.
class TermFiles {
 public:
  TermFiles(std::string folder, const NotingLog& log) : folder_(std::move(folder)), log_(log) {}

  void Write(const std::vector<std::shared_ptr<const kv::CommitRecord>>& records) {
    if (records.empty()) return;
    if (const uint64_t epoch = log_.epoch(); epoch != epoch_) {
      auto file = CommitFile::BeginTerm(folder_, epoch);
      if (!file.ok()) {
        std::fprintf(stderr, "no file for a term: %s\n", file.status().ToString().c_str());
        std::abort();
      }
      file_ = *std::move(file);
      epoch_ = epoch;
    }
    file_->Write(records, absl::Now());
  }

 private:
  const std::string folder_;
  const NotingLog& log_;
  uint64_t epoch_ = 0;
  std::unique_ptr<CommitFile> file_;
};

class LoggingReplica final : public HostedService {
 public:
  LoggingReplica(std::unique_ptr<kv::PgLog> log, std::string commits)
      : log_(std::move(log)), noting_(*log_), files_(std::move(commits), noting_) {}

  absl::Status Open(const ServiceContext& context, const store::StoreServer::Options& flags,
                    kv::RocksKvStore::Options rocks) {
    kv::ReplicatedKvStore::Options options;
    options.rocks = std::move(rocks);
    options.rocks.on_decided = [this](const auto& records) { files_.Write(records); };
    options.replica.owner =
        absl::StrCat(flags.replication.store_id, "-", absl::Hex(context.runtime.random().Next()));
    options.replica.address = flags.replication.advertise;
    options.replica.snapshot_log_bytes = kSnapshotLogBytes;
    options.replica.snapshot_check = kSnapshotCheck;
    ASSIGN_OR_RETURN(auto store,
                     kv::ReplicatedKvStore::Open(std::move(options), context.runtime, noting_));
    store_ = std::move(store);
    return absl::OkStatus();
  }

  void AddRpcs(RpcTable& table) override {
    store::AddStoreRpcs(*store_, table);
    kv::AddStoreServiceRpcs(*store_, /*admin=*/nullptr, table);
  }
  absl::Status Start() override { return absl::OkStatus(); }
  bool Ready() override { return store_->status().role == kv::ReplicaRole::kLeader; }
  void Drain(Closure done) override { store_->HandOver(std::move(done)); }

 private:
  // Destroyed in reverse order: the store before the log.
  const std::unique_ptr<kv::PgLog> log_;
  NotingLog noting_;
  TermFiles files_;
  std::unique_ptr<kv::ReplicatedKvStore> store_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HostedService>> MakeLoggingReplica(
    const ServiceContext& context, const store::StoreServer::Options& flags,
    kv::RocksKvStore::Options rocks, std::string commits) {
  const std::string& url = flags.replication.url;
  ASSIGN_OR_RETURN(auto log, kv::PgLog::Make(context.runtime,
                                             {.url = url, .store = flags.replication.log_name}));
  const auto migrated = kv::MigratePgSchema(url, kv::PgSchemaSteps());
  if (!migrated.ok() && !absl::IsUnavailable(migrated.status())) return migrated.status();
  auto replica = std::make_unique<LoggingReplica>(std::move(log), std::move(commits));
  RETURN_IF_ERROR(replica->Open(context, flags, std::move(rocks)));
  return replica;
}

}  // namespace escapement::chaos

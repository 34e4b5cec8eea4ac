#include <fcntl.h>
#include <postgresql/libpq-fe.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/hash.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/base/status_macros.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"
#include "tests/bench/raw/raw_limits.h"

namespace escapement::bench {

namespace {

constexpr double kTimersPerSecond = 1000;

void AddTail(const std::string& name, const fixtures::LatencyHistogram& latencies,
             Figures& figures) {
  const std::string row = absl::StrCat(name, ", same time: ");
  figures.Add(row + "p99", "ms", static_cast<double>(latencies.Percentile(0.99)) / 1e3);
  figures.Add(row + "max", "ms", static_cast<double>(latencies.max()) / 1e3);
}

}  // namespace

std::future<MachineLimits> MeasureMachineLimits(const std::string& folder,
                                                absl::Duration duration) {
  return std::async(std::launch::async, [folder, duration] {
    std::future<fixtures::LatencyHistogram> syncs =
        std::async(std::launch::async, RawSyncs, folder, duration);
    MachineLimits limits;
    limits.real_time =
        RawRealTimeTimer(static_cast<uint64_t>(absl::ToDoubleSeconds(duration) * kTimersPerSecond),
                         kTimersPerSecond);
    limits.syncs = syncs.get();
    return limits;
  });
}

void AddMachineLimits(const std::string& name, const MachineLimits& limits, Figures& figures) {
  if (limits.real_time.count() > 0) AddTail(name + "real-time timers", limits.real_time, figures);
  AddTail(name + "bare synced write of 4 KiB", limits.syncs, figures);
}

namespace {

constexpr size_t kBatchRows = 1000;

struct Row {
  std::string key;
  std::string value;
  std::string done_key;
  std::string done_value;
};

std::vector<Row> MakeRows(uint64_t first, uint64_t count, size_t payload_bytes) {
  std::vector<Row> rows;
  rows.reserve(count);
  const absl::Time now = absl::Now();
  for (uint64_t i = first; i < first + count; ++i) {
    EventKey key;
    key.shard = static_cast<uint16_t>(i % 8);
    key.lane = 5;
    key.due_time = now + absl::Microseconds(i);
    key.uid = StableHash128("raw" + std::to_string(i));
    storage::v1::EventRecord event;
    event.set_tenant("default");
    event.set_definition_hash(std::string(16, 'h'));
    event.set_count(1);
    event.set_run_count(1);
    event.set_nominal_time_micros(ToMicros(key.due_time));
    event.set_launch_time_micros(ToMicros(key.due_time));
    event.set_payload(std::string(payload_bytes, static_cast<char>('a' + i % 26)));
    storage::v1::DoneRecord done;
    done.set_tenant("default");
    done.set_count(1);
    done.set_outcome(storage::v1::OUTCOME_KIND_SUCCEEDED);
    done.set_attempts(1);
    done.set_nominal_time_micros(ToMicros(key.due_time));
    done.set_launch_time_micros(ToMicros(key.due_time));
    done.set_dispatch_time_micros(ToMicros(key.due_time));
    done.set_complete_time_micros(ToMicros(key.due_time));
    done.set_run_count(1);
    done.set_lane(key.lane);
    const DoneKey done_key{.shard = key.shard,
                           .day = DoneDay(key.due_time),
                           .uid = key.uid,
                           .occurrence = "",
                           .first = 0};
    rows.push_back({EncodeEventKey(key), event.SerializeAsString(), "d" + EncodeDoneKey(done_key),
                    done.SerializeAsString()});
  }
  return rows;
}

void Write(rocksdb::DB* db, rocksdb::WriteBatch* batch) {
  rocksdb::WriteOptions options;
  options.sync = true;
  const rocksdb::Status status = db->Write(options, batch);
  if (!status.ok()) {
    std::fprintf(stderr, "raw store: %s\n", status.ToString().c_str());
    std::abort();
  }
  batch->Clear();
}

}  // namespace

RawStore::RawStore(const std::string& folder) {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = 64 << 20;
  options.max_write_buffer_number = 6;
  options.max_background_jobs = 3;
  options.enable_pipelined_write = false;
  const rocksdb::Status status = rocksdb::DB::Open(options, folder, &db_);
  if (!status.ok()) {
    std::fprintf(stderr, "raw store: %s\n", status.ToString().c_str());
    std::abort();
  }
}

RawStore::~RawStore() { delete db_; }

double RawStore::PutRows(uint64_t rows, size_t payload_bytes) {
  const std::vector<Row> made = MakeRows(next_, rows, payload_bytes);
  next_ += rows;
  const absl::Time begin = absl::Now();
  rocksdb::WriteBatch batch;
  for (size_t i = 0; i < made.size(); ++i) {
    batch.Put(made[i].key, made[i].value);
    if ((i + 1) % kBatchRows == 0 || i + 1 == made.size()) Write(db_, &batch);
  }
  return static_cast<double>(rows) / absl::ToDoubleSeconds(absl::Now() - begin);
}

double RawStore::ChurnRows(uint64_t rows, size_t payload_bytes) {
  const std::vector<Row> made = MakeRows(next_, rows, payload_bytes);
  next_ += rows;
  const absl::Time begin = absl::Now();
  rocksdb::WriteBatch batch;
  for (size_t first = 0; first < made.size(); first += kBatchRows) {
    const size_t end = std::min(first + kBatchRows, made.size());
    for (size_t i = first; i < end; ++i) batch.Put(made[i].key, made[i].value);
    Write(db_, &batch);
    for (size_t i = first; i < end; ++i) {
      batch.Put(made[i].done_key, made[i].done_value);
      batch.Delete(made[i].key);
    }
    Write(db_, &batch);
  }
  return static_cast<double>(rows) / absl::ToDoubleSeconds(absl::Now() - begin);
}

namespace {

constexpr absl::Duration kEvery = absl::Milliseconds(20);
constexpr size_t kBytes = 4096;

}  // namespace

fixtures::LatencyHistogram RawSyncs(const std::string& folder, absl::Duration duration) {
  fixtures::LatencyHistogram took;
  const std::string path = absl::StrCat(folder, "/raw-sync");
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return took;
  const absl::Cleanup close_it = [&] {
    close(file);
    unlink(path.c_str());
  };
  const std::string block(kBytes, 's');
  const auto write_and_sync = [&] {
    return pwrite(file, block.data(), block.size(), 0) == static_cast<ssize_t>(block.size()) &&
           fdatasync(file) == 0;
  };
  if (!write_and_sync()) return took;  // allocates the file's space
  const absl::Time end = absl::Now() + duration;
  for (absl::Time at = absl::Now(); at < end; at = std::max(at + kEvery, absl::Now())) {
    absl::SleepFor(at - absl::Now());
    const absl::Time begin = absl::Now();
    if (!write_and_sync()) return took;
    took.Add(absl::ToInt64Microseconds(absl::Now() - begin));
  }
  return took;
}

namespace {

// Gives the calling thread real-time priority, and binds it to this processor.
bool BecomeRealTime(int cpu) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  sched_param param = {};
  param.sched_priority = sched_get_priority_min(SCHED_FIFO);
  return sched_setaffinity(0, sizeof only, &only) == 0 &&
         pthread_setschedparam(pthread_self(), SCHED_FIFO, &param) == 0;
}

}  // namespace

fixtures::LatencyHistogram RawTimer(uint64_t count, double per_second) {
  fixtures::LatencyHistogram lateness;
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t begin = int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
  for (uint64_t i = 1; i <= count; ++i) {
    const int64_t due = begin + static_cast<int64_t>(static_cast<double>(i) * 1e9 / per_second);
    const timespec until = {static_cast<time_t>(due / 1'000'000'000),
                            static_cast<long>(due % 1'000'000'000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
    clock_gettime(CLOCK_MONOTONIC, &now);
    lateness.Add((int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec - due) / 1000);
  }
  return lateness;
}

fixtures::LatencyHistogram RawRealTimeTimer(uint64_t count, double per_second) {
  cpu_set_t usable;
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return {};
  std::vector<std::future<fixtures::LatencyHistogram>> timers;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &usable)) continue;
    timers.push_back(std::async(std::launch::async, [=] {
      return BecomeRealTime(cpu) ? RawTimer(count, per_second) : fixtures::LatencyHistogram();
    }));
  }
  fixtures::LatencyHistogram all;
  for (auto& timer : timers) all.Merge(timer.get());
  return all;
}

RawPostgres::RawPostgres(pg_conn* connection) : connection_(connection, &PQfinish) {}

absl::StatusOr<std::unique_ptr<RawPostgres>> RawPostgres::Open(const std::string& url) {
  std::unique_ptr<RawPostgres> raw(new RawPostgres(PQconnectdb(url.c_str())));
  PGconn* const connection = raw->connection_.get();
  for (const char* sql : {"CREATE TABLE raw (seq bigint PRIMARY KEY, data bytea NOT NULL)",
                          "ALTER TABLE raw ALTER COLUMN data SET STORAGE EXTERNAL"}) {
    PGresult* const result = PQexec(connection, sql);
    const bool done = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    if (!done) return absl::UnavailableError(PQerrorMessage(connection));
  }
  PQclear(PQprepare(connection, "insert", "INSERT INTO raw VALUES ($1::bigint, $2::bytea)", 0,
                    nullptr));
  PQenterPipelineMode(connection);
  return raw;
}

absl::Status RawPostgres::Send(const std::string& data) {
  std::string seq;
  AppendBigEndian<uint64_t>(&seq, ++last_seq_);
  const char* const values[] = {seq.data(), data.data()};
  const int lengths[] = {static_cast<int>(seq.size()), static_cast<int>(data.size())};
  const int formats[] = {1, 1};
  if (PQsendQueryPrepared(connection_.get(), "insert", 2, values, lengths, formats, 1) == 1 &&
      PQpipelineSync(connection_.get()) == 1)
    return absl::OkStatus();
  return absl::UnavailableError(PQerrorMessage(connection_.get()));
}

absl::Status RawPostgres::Take() {
  while (true) {
    PGresult* const result = PQgetResult(connection_.get());
    const ExecStatusType status = PQresultStatus(result);
    PQclear(result);
    if (status == PGRES_PIPELINE_SYNC) return absl::OkStatus();
    if (result != nullptr && status != PGRES_COMMAND_OK)
      return absl::UnavailableError(PQerrorMessage(connection_.get()));
  }
}

absl::StatusOr<double> RawPostgres::InsertRate(uint64_t inserts, size_t bytes, uint64_t in_flight) {
  const std::string data(bytes, 'x');
  const absl::Time begin = absl::Now();
  uint64_t sent = 0;
  for (uint64_t taken = 0; taken < inserts; ++taken) {
    for (; sent < inserts && sent < taken + in_flight; ++sent) RETURN_IF_ERROR(Send(data));
    RETURN_IF_ERROR(Take());
  }
  return static_cast<double>(inserts) / absl::ToDoubleSeconds(absl::Now() - begin);
}

absl::StatusOr<fixtures::LatencyHistogram> RawPostgres::InsertLatencies(uint64_t inserts,
                                                                        size_t bytes) {
  const std::string data(bytes, 'x');
  fixtures::LatencyHistogram latencies;
  for (uint64_t i = 0; i < inserts; ++i) {
    const absl::Time begin = absl::Now();
    RETURN_IF_ERROR(Send(data));
    RETURN_IF_ERROR(Take());
    latencies.Add(absl::ToInt64Microseconds(absl::Now() - begin));
  }
  return latencies;
}

}  // namespace escapement::bench

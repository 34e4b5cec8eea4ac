#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/hash.h"
#include "common/base/proto_time.h"
#include "common/storage/done_table.h"
#include "common/storage/event_table.h"
#include "escapement/storage/v1/records.pb.h"
#include "rocksdb/db.h"
#include "rocksdb/options.h"
#include "rocksdb/write_batch.h"
#include "tests/bench/raw/raw_limits.h"

namespace escapement::bench {
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

}  // namespace escapement::bench

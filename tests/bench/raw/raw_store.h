// What RocksDB alone does with the rows of the platform: the raw limit of durable work on this
// machine.

#ifndef TESTS_BENCH_RAW_RAW_STORE_H_
#define TESTS_BENCH_RAW_RAW_STORE_H_

#include <cstdint>
#include <memory>
#include <string>

namespace rocksdb {
class DB;
}  // namespace rocksdb

namespace escapement::bench {

class RawStore {
 public:
  // In an empty folder.
  explicit RawStore(const std::string& folder);
  ~RawStore();

  // Rows of one-off events with payloads of this size, put in synced batches of 1,000: rows per
  // second.
  double PutRows(uint64_t rows, size_t payload_bytes);
  // Each row is put by one synced batch, and its Done record put and itself deleted by a later one:
  // rows per second.
  double ChurnRows(uint64_t rows, size_t payload_bytes);

 private:
  rocksdb::DB* db_ = nullptr;
  uint64_t next_ = 0;
};

}  // namespace escapement::bench

#endif  // TESTS_BENCH_RAW_RAW_STORE_H_

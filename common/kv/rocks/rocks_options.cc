#include "common/kv/rocks/rocks_options.h"

#include <string>

#include "common/kv/rocks/rocks_memtable.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/table_properties_collectors.h"

namespace escapement::kv {
namespace {

// Families through which every event passes.
bool IsBusy(ColumnFamily cf) {
  switch (cf) {
    case ColumnFamily::kChildren:
    case ColumnFamily::kEvents:
    case ColumnFamily::kInflight:
    case ColumnFamily::kWaiting:
    case ColumnFamily::kGrants:
    case ColumnFamily::kDone:
    case ColumnFamily::kEventNames:
      return true;
    default:
      return false;
  }
}

// Families used as queues: rows are soon deleted.
bool IsQueue(ColumnFamily cf) {
  switch (cf) {
    case ColumnFamily::kEvents:
    case ColumnFamily::kInflight:
    case ColumnFamily::kWaiting:
    case ColumnFamily::kGrants:
      return true;
    default:
      return false;
  }
}

// Defines the prefixes that filters know beside whole keys. If prefixes are made in another way,
// this class needs another name.
class KeyPrefix final : public rocksdb::SliceTransform {
 public:
  explicit KeyPrefix(ColumnFamily cf)
      : cf_(cf), name_("escapement." + std::string(kv::Name(cf)) + ".1") {}
  const char* Name() const override { return name_.c_str(); }
  rocksdb::Slice Transform(const rocksdb::Slice& key) const override {
    return {key.data(), Bytes(key)};
  }
  bool InDomain(const rocksdb::Slice& key) const override { return Bytes(key) > 0; }
  bool SameResultWhenAppended(const rocksdb::Slice& prefix) const override {
    return InDomain(prefix);
  }

 private:
  size_t Bytes(const rocksdb::Slice& key) const {
    return PrefixBytes(cf_, {key.data(), key.size()});
  }
  const ColumnFamily cf_;
  const std::string name_;
};

// RocksDB reads and unpacks a whole block for any row in it. Reads of schedules want single rows;
// reads of the families of events want most of a block.
size_t BlockBytes(ColumnFamily cf) {
  return IsBusy(cf) && cf != ColumnFamily::kChildren ? 16 << 10 : 4 << 10;
}

}  // namespace

rocksdb::DBOptions DatabaseOptions(size_t write_buffers_bytes_max) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;

  // A crash leaves a torn tail of the log: recover up to it. (kAbsoluteConsistency refuses to open
  // then.)
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  options.track_and_verify_wals_in_manifest = true;
  options.paranoid_checks = true;
  // After an error of the log the process ends; RocksDB must not resume by itself.
  options.max_bgerror_resume_count = 0;
  // If ranges of the log are synced out of order, they could survive a crash without the bytes
  // before them.
  options.wal_bytes_per_sync = 0;
  options.manual_wal_flush = false;
  options.recycle_log_file_num = 0;
  options.unordered_write = false;
  options.enable_pipelined_write = false;
  options.two_write_queues = false;
  // One thread writes.
  options.allow_concurrent_memtable_write = false;
  options.enable_write_thread_adaptive_yield = false;

  options.max_background_jobs = 3;
  // Sync table files as they are written, so that their final sync does not delay the log's.
  options.bytes_per_sync = 1 << 20;
  options.db_write_buffer_size = write_buffers_bytes_max;
  options.max_total_wal_size = uint64_t{1} << 30;
  options.max_open_files = 1024;
  options.stats_dump_period_sec = 0;
  options.stats_persist_period_sec = 0;
  options.keep_log_file_num = 4;
  options.max_log_file_size = 16 << 20;
  return options;
}

rocksdb::ColumnFamilyOptions FamilyOptions(ColumnFamily cf, size_t write_buffer_bytes,
                                           const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions options;
  options.write_buffer_size = IsBusy(cf) ? write_buffer_bytes : write_buffer_bytes / 8;
  options.max_write_buffer_number = 6;
  options.memtable_factory = NewMemtableFactory();
  // So the put and delete of a short-lived row meet in memory and never reach a table.
  options.min_write_buffer_number_to_merge = IsQueue(cf) ? 2 : 1;
  // Most new rows have a condition that their key is absent.
  options.memtable_whole_key_filtering = true;
  options.memtable_prefix_bloom_size_ratio = 0.02;
  if (HasPrefixes(cf)) options.prefix_extractor = std::make_shared<const KeyPrefix>(cf);

  options.level_compaction_dynamic_level_bytes = true;
  options.level0_file_num_compaction_trigger = 4;
  options.level0_slowdown_writes_trigger = 24;
  options.level0_stop_writes_trigger = 48;
  options.target_file_size_base = write_buffer_bytes;
  options.max_bytes_for_level_base = 4 * write_buffer_bytes;
  options.soft_pending_compaction_bytes_limit = uint64_t{32} << 30;
  options.hard_pending_compaction_bytes_limit = uint64_t{128} << 30;
  options.compression = rocksdb::kLZ4Compression;
  options.compression_per_level = {rocksdb::kNoCompression, rocksdb::kLZ4Compression};
  options.force_consistency_checks = true;

  // Dense tombstones make scans of a queue slow: compact where they gather.
  if (IsQueue(cf)) {
    options.table_properties_collector_factories.push_back(
        rocksdb::NewCompactOnDeletionCollectorFactory(/*sliding_window_size=*/16'384,
                                                      /*deletion_trigger=*/8'192));
  }

  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.block_size = BlockBytes(cf);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.format_version = 5;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

}  // namespace escapement::kv

#include "common/kv/rocks/rocks_database.h"

#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/kv/layout.h"
#include "common/kv/rocks/rocks_memtable.h"
#include "common/kv/rocks/room_wait.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/listener.h"
#include "rocksdb/perf_level.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/table_properties_collectors.h"
#include "rocksdb/wal_filter.h"
#include "rocksdb/write_batch.h"

namespace escapement::kv {

namespace {

rocksdb::Slice ToSlice(absl::string_view bytes) { return {bytes.data(), bytes.size()}; }
absl::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

absl::Status ToStatus(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("RocksDB: ", status.ToString());
  if (status.IsCorruption()) return absl::DataLossError(text);
  if (status.IsNoSpace()) return absl::ResourceExhaustedError(text);
  return absl::InternalError(text);
}

// RocksDB renames a file to CURRENT before it syncs the folder that holds the MANIFEST named in it.
// On a file system that does not keep the order of names, a power loss may keep CURRENT and lose
// the MANIFEST. So this class syncs the folder before the rename.
class SyncsBeforeCurrent final : public rocksdb::FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  const char* Name() const override { return "SyncsBeforeCurrent"; }
  rocksdb::IOStatus RenameFile(const std::string& from, const std::string& to,
                               const rocksdb::IOOptions& options,
                               rocksdb::IODebugContext* debug) override {
    if (absl::EndsWith(to, "/CURRENT")) {
      std::unique_ptr<rocksdb::FSDirectory> folder;
      auto status = target()->NewDirectory(to.substr(0, to.rfind('/')), options, &folder, debug);
      if (status.ok()) status = folder->Fsync(options, debug);
      if (!status.ok()) return status;
    }
    return target()->RenameFile(from, to, options, debug);
  }
};

// If a log has a sector of zeros, RocksDB takes it for the end of that log and goes on with the
// next one. Sequence numbers in the log are dense. So this filter stops the replay at the first
// record that does not follow on its predecessor. The witness then notices the lost commits.
class DenseLog final : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return "DenseLog"; }
  WalProcessingOption LogRecordFound(unsigned long long, const std::string&,
                                     const rocksdb::WriteBatch& batch, rocksdb::WriteBatch*,
                                     bool*) override {
    // A batch begins with sequence(8) and count(4), little-endian.
    uint64_t sequence = 0;
    for (int i = 7; i >= 0; --i)
      sequence = sequence << 8 | static_cast<unsigned char>(batch.Data()[i]);
    if (next_ != 0 && sequence != next_) return WalProcessingOption::kCorruptedRecord;
    next_ = sequence + batch.Count();
    return WalProcessingOption::kContinueProcessing;
  }

 private:
  uint64_t next_ = 0;  // 0: no record seen yet
};

// Flushes and compactions run at a lower priority, so that the log's writer and other threads with
// waiting callers come first. At nice 5 they still get a third of the share of a thread beside them
// (a factor of 1.25 for each step, sched(7)).
constexpr int kBackgroundNice = 5;

class BackgroundRules final : public rocksdb::EventListener {
 public:
  void OnFlushBegin(rocksdb::DB*, const rocksdb::FlushJobInfo&) override { GiveWay(); }
  void OnCompactionBegin(rocksdb::DB*, const rocksdb::CompactionJobInfo&) override { GiveWay(); }
  void OnSubcompactionBegin(const rocksdb::SubcompactionJobInfo&) override { GiveWay(); }
  // max_bgerror_resume_count does not hold for a lack of space. RocksDB would flush some families
  // behind a batch that is in the log and failed: then the next start applies a part of it.
  void OnErrorRecoveryBegin(rocksdb::BackgroundErrorReason, rocksdb::Status,
                            bool* auto_recovery) override {
    *auto_recovery = false;
  }

 private:
  // Runs on a thread of RocksDB's pools, which does only background work. Best effort.
  static void GiveWay() {
    thread_local const int once = setpriority(PRIO_PROCESS, gettid(), kBackgroundNice);
    (void)once;
  }
};

}  // namespace

struct RocksDatabase::State {
  class Batch final : public RocksDatabase::Batch {
   public:
    explicit Batch(State& state) : state_(state) {}
    void Put(ColumnFamily cf, absl::string_view key, absl::string_view value) override {
      Check(batch.Put(state_.Handle(cf), ToSlice(key), ToSlice(value)));
    }
    void Delete(ColumnFamily cf, absl::string_view key) override {
      Check(batch.Delete(state_.Handle(cf), ToSlice(key)));
    }
    void DeleteRange(ColumnFamily cf, absl::string_view begin, absl::string_view end) override {
      Check(batch.DeleteRange(state_.Handle(cf), ToSlice(begin), ToSlice(end)));
    }
    size_t bytes() const override { return batch.GetDataSize(); }
    void Clear() override { batch.Clear(); }
    rocksdb::WriteBatch batch{/*reserved_bytes=*/1 << 20};

   private:
    void Check(const rocksdb::Status& status) {
      if (!status.ok()) state_.options.on_fatal(ToStatus(status));
    }
    State& state_;
  };

  ~State() {
    room->End();  // closing waits for flushes and compactions
    for (auto* handle : handles) {
      if (db != nullptr) db->DestroyColumnFamilyHandle(handle);
    }
    if (db != nullptr) db->Close();
  }

  rocksdb::ColumnFamilyHandle* Handle(ColumnFamily cf) const {
    return handles[static_cast<size_t>(cf)];
  }

  Options options;
  const std::shared_ptr<RoomWait> room = std::make_shared<RoomWait>();
  std::unique_ptr<rocksdb::Env> env;
  DenseLog dense_log;
  std::shared_ptr<rocksdb::Cache> cache;
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;  // in the order of ColumnFamily
  Batch batch{*this};
  const rocksdb::ReadOptions read;
  rocksdb::PinnableSlice scratch;
};

namespace {

// On opening RocksDB writes the content of the logs, and these bytes beside it: the manifest and
// its own log.
constexpr uint64_t kOpenBytes = 512 << 10;

// RocksDB ends the process at the first write without room, without a word.
absl::Status CheckRoom(const std::string& path, const RocksDatabase::Options& options) {
  std::error_code error;
  uint64_t needed = kOpenBytes;
  // The logs' content becomes tables.
  for (const auto& file : std::filesystem::directory_iterator(path, error)) {
    if (file.path().extension() == ".log") needed += file.file_size(error);
  }
  const std::string folder = std::filesystem::path(path).parent_path();
  const uint64_t free = (options.free_bytes ? options.free_bytes : FreeBytes)(folder);
  if (free >= needed) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the disk of ", folder, " is full: ", free,
                                                   " bytes are free, and ", needed,
                                                   " are needed to open the store"));
}

}  // namespace

// If statvfs fails, assume there is room: if the disk is full, the write itself will fail.
uint64_t FreeBytes(const std::string& path) {
  struct statvfs info = {};
  if (statvfs(path.c_str(), &info) != 0) return ~uint64_t{0};
  return uint64_t{info.f_bavail} * info.f_frsize;
}

RocksDatabase::RocksDatabase(std::unique_ptr<State> state) : state_(std::move(state)) {}
RocksDatabase::~RocksDatabase() = default;

absl::StatusOr<std::unique_ptr<RocksDatabase>> RocksDatabase::Open(const std::string& path,
                                                                   Options options) {
  RETURN_IF_ERROR(CheckRoom(path, options));
  auto state = std::make_unique<State>();
  state->options = std::move(options);
  state->cache = rocksdb::NewLRUCache(state->options.block_cache_bytes);
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (size_t i = 0; i < kColumnFamilyCount; ++i) {
    const auto cf = static_cast<ColumnFamily>(i);
    families.emplace_back(std::string(Name(cf)),
                          FamilyOptions(cf, state->options.write_buffer_bytes, state->cache));
  }
  // RocksDB requires a family with this name; it stays empty.
  families.emplace_back(rocksdb::kDefaultColumnFamilyName, rocksdb::ColumnFamilyOptions());
  rocksdb::DBOptions database_options = DatabaseOptions(state->options.write_buffers_bytes_max);
  state->env = rocksdb::NewCompositeEnv(std::make_shared<SyncsBeforeCurrent>(
      NewWaitingFileSystem(state->options.file_system != nullptr ? state->options.file_system
                                                                 : rocksdb::FileSystem::Default(),
                           path, state->room)));
  database_options.env = state->env.get();
  database_options.listeners.push_back(std::make_shared<BackgroundRules>());
  database_options.wal_filter = &state->dense_log;
  rocksdb::DB* db = nullptr;
  auto status = rocksdb::DB::Open(database_options, path, families, &state->handles, &db);
  if (status.IsIOError() && absl::StrContains(status.ToString(), "lock")) {
    return absl::UnavailableError(
        absl::StrCat("another process has the store open: ", status.ToString()));
  }
  if (!status.ok()) return ToStatus(status);
  state->db.reset(db);
  return std::unique_ptr<RocksDatabase>(new RocksDatabase(std::move(state)));
}

const std::shared_ptr<RoomWait>& RocksDatabase::room() const { return state_->room; }

void RocksDatabase::PrepareThread() { rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable); }

bool RocksDatabase::Get(ColumnFamily cf, absl::string_view key, std::string& value) {
  state_->scratch.Reset();
  const auto status =
      state_->db->Get(state_->read, state_->Handle(cf), ToSlice(key), &state_->scratch);
  if (status.IsNotFound()) return false;
  if (!status.ok()) state_->options.on_fatal(ToStatus(status));
  value.assign(state_->scratch.data(), state_->scratch.size());
  return true;
}

void RocksDatabase::ForEach(ColumnFamily cf, absl::string_view begin, absl::string_view end,
                            Visitor visit) {
  rocksdb::ReadOptions read;
  read.total_order_seek = true;
  read.ignore_range_deletions = !HasRangeTombstones(cf);
  const rocksdb::Slice bound = ToSlice(end);
  if (!end.empty()) read.iterate_upper_bound = &bound;
  std::unique_ptr<rocksdb::Iterator> it(state_->db->NewIterator(read, state_->Handle(cf)));
  for (it->Seek(ToSlice(begin)); it->Valid(); it->Next()) {
    if (!visit(ToView(it->key()), ToView(it->value()))) break;
  }
  if (!it->status().ok()) state_->options.on_fatal(ToStatus(it->status()));
}

WriteSink& RocksDatabase::batch() { return state_->batch; }
size_t RocksDatabase::batch_bytes() const { return state_->batch.bytes(); }
void RocksDatabase::ClearBatch() { state_->batch.Clear(); }

void RocksDatabase::Write() {
  rocksdb::WriteOptions write;
  write.sync = true;
  const auto status = state_->db->Write(write, &state_->batch.batch);
  if (!status.ok()) state_->options.on_fatal(ToStatus(status));
  ClearBatch();
}

void RocksDatabase::WriteUnsynced() { WriteUnsynced(state_->batch); }

std::unique_ptr<RocksDatabase::Batch> RocksDatabase::NewBatch() {
  return std::make_unique<State::Batch>(*state_);
}

void RocksDatabase::WriteUnsynced(Batch& batch) {
  const auto status =
      state_->db->Write(rocksdb::WriteOptions(), &static_cast<State::Batch&>(batch).batch);
  if (!status.ok()) state_->options.on_fatal(ToStatus(status));
  batch.Clear();
}

absl::Status RocksDatabase::MakeCheckpoint(const std::string& path) {
  rocksdb::Checkpoint* made = nullptr;
  const auto status = rocksdb::Checkpoint::Create(state_->db.get(), &made);
  if (!status.ok()) return ToStatus(status);
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(made);
  return ToStatus(checkpoint->CreateCheckpoint(path));
}

StoreSize RocksDatabase::size() const {
  using Properties = rocksdb::DB::Properties;
  rocksdb::DB& db = *state_->db;
  StoreSize size;
  uint64_t value = 0;
  for (size_t cf = 0; cf < kColumnFamilyCount; ++cf) {
    rocksdb::ColumnFamilyHandle* const handle = state_->Handle(static_cast<ColumnFamily>(cf));
    if (db.GetIntProperty(handle, Properties::kEstimateNumKeys, &value)) size.rows[cf] = value;
    for (const auto& property : {Properties::kLiveSstFilesSize, Properties::kCurSizeAllMemTables}) {
      if (db.GetIntProperty(handle, property, &value)) size.live_bytes += value;
    }
  }
  // The rate is 0 unless writes are slowed.
  for (const auto& property : {Properties::kIsWriteStopped, Properties::kActualDelayedWriteRate}) {
    if (db.GetIntProperty(property, &value) && value != 0) size.write_stall = true;
  }
  return size;
}

class RocksDatabase::RocksSnapshot final : public Snapshot {
 public:
  explicit RocksSnapshot(const State& state) : state_(state), snapshot_(state.db->GetSnapshot()) {}
  ~RocksSnapshot() override { state_.db->ReleaseSnapshot(snapshot_); }

  absl::Status MultiGet(const std::vector<Key>& keys, GetResult& result) const override {
    rocksdb::ReadOptions read;
    read.snapshot = snapshot_;
    std::vector<rocksdb::ColumnFamilyHandle*> handles;
    std::vector<rocksdb::Slice> slices;
    handles.reserve(keys.size());
    slices.reserve(keys.size());
    for (const Key& key : keys) {
      handles.push_back(state_.Handle(key.cf));
      slices.push_back(ToSlice(key.key));
    }
    std::vector<rocksdb::PinnableSlice> values(keys.size());
    std::vector<rocksdb::Status> statuses(keys.size());
    state_.db->MultiGet(read, keys.size(), handles.data(), slices.data(), values.data(),
                        statuses.data());
    result.values.resize(keys.size());
    for (size_t i = 0; i < keys.size(); ++i) {
      if (statuses[i].IsNotFound()) continue;
      if (!statuses[i].ok()) return ToStatus(statuses[i]);
      result.values[i].emplace(values[i].data(), values[i].size());
    }
    return absl::OkStatus();
  }

  absl::Status Scan(const ScanRequest& request, ScanResult& result) const override {
    rocksdb::ReadOptions read;
    read.snapshot = snapshot_;
    read.readahead_size = 0;
    read.ignore_range_deletions = !HasRangeTombstones(request.cf);
    std::string begin = request.begin;
    if (request.cf == ColumnFamily::kMeta && begin < kMetaVisibleBegin)
      begin = std::string(kMetaVisibleBegin);
    const rocksdb::Slice lower = begin;
    // The end of the range that is being read. RocksDB looks at it at every Seek. So one iterator
    // can read all ranges that have an end, and another one all ranges inside a prefix. Creating an
    // iterator costs as much as reading a range of few rows.
    rocksdb::Slice upper;
    if (request.reverse) read.iterate_lower_bound = &lower;
    std::unique_ptr<rocksdb::Iterator> in_order, in_prefix;
    size_t bytes = 0;  // bytes of the entries so far
    const auto scan = [&](const rocksdb::Slice& from, const rocksdb::Slice& end) {
      upper = end;
      const bool one_prefix =
          !request.reverse && InOnePrefix(request.cf, ToView(from), ToView(end));
      std::unique_ptr<rocksdb::Iterator>& it = one_prefix ? in_prefix : in_order;
      if (it == nullptr || end.empty()) {
        read.iterate_upper_bound = end.empty() ? nullptr : &upper;
        read.total_order_seek = !one_prefix;
        read.prefix_same_as_start = one_prefix;
        it.reset(state_.db->NewIterator(read, state_.Handle(request.cf)));
      }
      request.reverse ? it->SeekToLast() : it->Seek(from);
      while (it->Valid() && !Full(request, bytes, result)) {
        Entry& entry = result.entries.emplace_back();
        entry.key.assign(it->key().data(), it->key().size());
        if (!request.keys_only) entry.value.assign(it->value().data(), it->value().size());
        bytes += entry.key.size() + entry.value.size();
        request.reverse ? it->Prev() : it->Next();
      }
      result.more = it->Valid();
      return ToStatus(it->status());
    };
    absl::Status status;
    if (request.end.empty() || begin < request.end) status = scan(lower, request.end);
    for (const KeyRange& range : request.then) {
      if (!status.ok() || result.more) break;
      if (Full(request, bytes, result)) {
        result.more = true;
        break;
      }
      if (range.end.empty() || range.begin < range.end) status = scan(range.begin, range.end);
    }
    return status;
  }

 private:
  static bool Full(const ScanRequest& request, size_t bytes, const ScanResult& result) {
    return result.entries.size() >= request.limit ||
           (bytes > 0 && bytes >= std::min(request.bytes_max, kScanBytesMax));
  }

  // True if all keys of the range have the same prefix.
  static bool InOnePrefix(ColumnFamily cf, absl::string_view begin, absl::string_view end) {
    const size_t prefix = PrefixBytes(cf, begin);
    return prefix > 0 && !end.empty() && end <= PrefixEnd(std::string(begin.substr(0, prefix)));
  }

  const State& state_;
  const rocksdb::Snapshot* const snapshot_;
};

std::shared_ptr<const RocksDatabase::Snapshot> RocksDatabase::TakeSnapshot() {
  return std::make_shared<const RocksSnapshot>(*state_);
}

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

// Defines the prefixes that Bloom filters have in addition to whole keys. If prefixes are made in
// another way, this class needs another name.
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
  // Most new rows have a condition that their key is absent. But rows of queues and outcomes have
  // no such condition, and are there when they are read: a filter would cost more than it saves.
  options.memtable_whole_key_filtering = !IsQueue(cf) && cf != ColumnFamily::kDone;
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

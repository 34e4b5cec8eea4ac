#include "tests/bench/beds/compacted_store.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/write_batch.h"

namespace escapement::bench {
namespace {

constexpr uint64_t kBatchRows = 1000;

absl::Status ToStatus(const rocksdb::Status& status) {
  return status.ok() ? absl::OkStatus() : absl::InternalError("RocksDB: " + status.ToString());
}

// A database with its column families.
class Database {
 public:
  ~Database() {
    if (db_ == nullptr) return;
    for (auto* handle : handles_) db_->DestroyColumnFamilyHandle(handle);
    db_->Close();
  }

  absl::Status Open(const rocksdb::DBOptions& options, const std::string& path,
                    const std::vector<rocksdb::ColumnFamilyDescriptor>& families) {
    rocksdb::DB* db = nullptr;
    const absl::Status status =
        ToStatus(rocksdb::DB::Open(options, path, families, &handles_, &db));
    db_.reset(db);
    return status;
  }

  absl::StatusOr<uint64_t> CompactedBytes(rocksdb::ColumnFamilyHandle* family) {
    rocksdb::CompactRangeOptions options;
    options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForceOptimized;
    options.max_subcompactions = 2;
    if (auto status = ToStatus(db_->CompactRange(options, family, nullptr, nullptr)); !status.ok())
      return status;
    uint64_t bytes = 0;
    if (!db_->GetIntProperty(family, rocksdb::DB::Properties::kLiveSstFilesSize, &bytes))
      return absl::InternalError("RocksDB does not tell the size of its files");
    return bytes;
  }

  rocksdb::DB& db() { return *db_; }
  const std::vector<rocksdb::ColumnFamilyHandle*>& families() const { return handles_; }

 private:
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

struct Settings {
  rocksdb::DBOptions options;
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
};

absl::StatusOr<Settings> SettingsOf(const std::string& path) {
  Settings settings;
  rocksdb::ConfigOptions config;
  config.ignore_unsupported_options = true;
  const rocksdb::Status status =
      rocksdb::LoadLatestOptions(config, path, &settings.options, &settings.families);
  if (!status.ok()) return ToStatus(status);
  return settings;
}

}  // namespace

absl::StatusOr<std::map<std::string, uint64_t>> CompactStore(const std::string& data_folder) {
  const std::string path = data_folder + "/db";
  const auto settings = SettingsOf(path);
  if (!settings.ok()) return settings.status();
  Database database;
  if (auto status = database.Open(settings->options, path, settings->families); !status.ok())
    return status;
  std::map<std::string, uint64_t> sizes;
  for (auto* family : database.families()) {
    const auto bytes = database.CompactedBytes(family);
    if (!bytes.ok()) return bytes.status();
    sizes[family->GetName()] = *bytes;
  }
  return sizes;
}

absl::StatusOr<double> BareBytesPerRow(const std::string& data_folder, const std::string& folder,
                                       uint64_t rows,
                                       const std::function<std::string(uint64_t i)>& value) {
  const auto settings = SettingsOf(data_folder + "/db");
  if (!settings.ok()) return settings.status();
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const auto& family : settings->families) {
    if (family.name == "events")
      families.emplace_back(rocksdb::kDefaultColumnFamilyName, family.options);
  }
  if (families.empty()) return absl::NotFoundError("the store has no family of events");
  Database database;
  if (auto status = database.Open(settings->options, folder, families); !status.ok()) return status;
  rocksdb::WriteBatch batch;
  for (uint64_t i = 0; i < rows; ++i) {
    // The rows are not in the order of their keys.
    const std::string key = absl::StrFormat("%016x", i * 0x9e3779b97f4a7c15);
    batch.Put(key, value(i));
    if ((i + 1) % kBatchRows != 0 && i + 1 != rows) continue;
    if (auto status = ToStatus(database.db().Write({}, &batch)); !status.ok()) return status;
    batch.Clear();
  }
  const auto bytes = database.CompactedBytes(database.families()[0]);
  if (!bytes.ok()) return bytes.status();
  return static_cast<double>(*bytes) / static_cast<double>(rows);
}

}  // namespace escapement::bench

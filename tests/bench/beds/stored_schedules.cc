#include "tests/bench/beds/stored_schedules.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/civil_time.h"
#include "absl/time/time.h"
#include "common/base/key_codec.h"
#include "common/base/status_macros.h"
#include "common/kv/client/kv_client.h"
#include "common/kv/rocks/rocks_kv_store.h"
#include "common/kv/wire/grpc_kv_store.h"
#include "common/metrics/metrics.h"
#include "common/rpc/channel.h"
#include "common/runtime/system_runtime.h"
#include "common/storage/children_table.h"
#include "common/storage/waiting_table.h"
#include "escapement/v1/schedule_service.pb.h"
#include "rocksdb/convenience.h"
#include "rocksdb/db.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/write_batch.h"
#include "services/emitter/base/metrics.h"
#include "services/emitter/emission/emission_plan.h"
#include "services/emitter/emission/emission_window.h"
#include "services/master/service/master_service.h"
#include "tests/bench/figures/machine.h"

namespace escapement::bench {

namespace {

constexpr kv::ColumnFamily kOfWork[] = {
    kv::ColumnFamily::kRuns,     kv::ColumnFamily::kRunParts, kv::ColumnFamily::kEvents,
    kv::ColumnFamily::kInflight, kv::ColumnFamily::kWaiting,  kv::ColumnFamily::kGrants,
    kv::ColumnFamily::kParked,   kv::ColumnFamily::kDone,     kv::ColumnFamily::kDeadLetters};

// False for what stays with a policy while it exists: its counts and its last hour.
bool IsOfWork(kv::ColumnFamily cf, absl::string_view key) {
  return cf != kv::ColumnFamily::kGrants || DecodeGrantKey(key).has_value() ||
         DecodeKeyRateKey(key).has_value();
}

absl::StatusOr<kv::ScanResult> ScanOnce(kv::KvStore& store, const kv::ScanRequest& request) {
  struct Answer {
    absl::Notification given;
    absl::StatusOr<kv::ScanResult> result = absl::UnknownError("");
  };
  const auto answer = std::make_shared<Answer>();
  store.Scan(request, [answer](absl::StatusOr<kv::ScanResult> result) {
    answer->result = std::move(result);
    answer->given.Notify();
  });
  if (!answer->given.WaitForNotificationWithTimeout(absl::Seconds(30)))
    return absl::DeadlineExceededError("the store did not answer a scan");
  return std::move(answer->result);
}

}  // namespace

absl::StatusOr<std::map<std::string, uint64_t>> CountRows(const std::string& address) {
  kv::GrpcKvStore store(NewChannel(address));
  std::map<std::string, uint64_t> rows;
  for (const kv::ColumnFamily cf : kOfWork) {
    kv::ScanRequest request = {.cf = cf, .limit = 10'000, .keys_only = true};
    for (bool more = true; more;) {
      ASSIGN_OR_RETURN(auto result, ScanOnce(store, request));
      rows[std::string(kv::Name(cf))] += static_cast<uint64_t>(
          std::count_if(result.entries.begin(), result.entries.end(),
                        [cf](const kv::Entry& e) { return IsOfWork(cf, e.key); }));
      more = result.more && !result.entries.empty();
      if (more) request.begin = KeyAfter(result.entries.back().key);
    }
  }
  return rows;
}

absl::StatusOr<uint64_t> ResidentBytes(const std::string& program) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
    const std::string folder = entry.path().string();
    if (ProcValue(folder + "/status", "PPid") != static_cast<uint64_t>(getpid())) continue;
    const std::filesystem::path executable =
        std::filesystem::read_symlink(folder + "/exe", ignored);
    if (executable.filename() != program) continue;
    return ProcValue(folder + "/status", "VmRSS") * 1024;
  }
  return absl::NotFoundError(absl::StrCat("no process ", program));
}

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
  ASSIGN_OR_RETURN(const auto settings, SettingsOf(path));
  Database database;
  if (auto status = database.Open(settings.options, path, settings.families); !status.ok())
    return status;
  std::map<std::string, uint64_t> sizes;
  for (auto* family : database.families()) {
    ASSIGN_OR_RETURN(const auto bytes, database.CompactedBytes(family));
    sizes[family->GetName()] = bytes;
  }
  return sizes;
}

absl::StatusOr<double> BareBytesPerRow(const std::string& data_folder, const std::string& folder,
                                       uint64_t rows,
                                       const std::function<std::string(uint64_t i)>& value) {
  ASSIGN_OR_RETURN(const auto settings, SettingsOf(data_folder + "/db"));
  std::vector<rocksdb::ColumnFamilyDescriptor> families;
  for (const auto& family : settings.families) {
    if (family.name == "events")
      families.emplace_back(rocksdb::kDefaultColumnFamilyName, family.options);
  }
  if (families.empty()) return absl::NotFoundError("the store has no family of events");
  Database database;
  RETURN_IF_ERROR(database.Open(settings.options, folder, families));
  rocksdb::WriteBatch batch;
  for (uint64_t i = 0; i < rows; ++i) {
    // The rows are not in the order of their keys.
    const std::string key = absl::StrFormat("%016x", i * 0x9e3779b97f4a7c15);
    batch.Put(key, value(i));
    if ((i + 1) % kBatchRows != 0 && i + 1 != rows) continue;
    RETURN_IF_ERROR(ToStatus(database.db().Write({}, &batch)));
    batch.Clear();
  }
  ASSIGN_OR_RETURN(const auto bytes, database.CompactedBytes(database.families()[0]));
  return static_cast<double>(bytes) / static_cast<double>(rows);
}

namespace {

using kv::ColumnFamily;

constexpr int kUnderWayMax = 1000;
constexpr int kEmissionHour = 3;
constexpr int kOtherHours = 17;

struct When {
  std::string cron;
  std::string zone = "UTC";
};

// Times of a schedule that fires at hour:minute UTC on `day`. `kind` chooses the kind of
// expression; one kind also fires at `second_hour`.
When FiresAt(absl::CivilDay day, int hour, int second_hour, int minute, int64_t kind) {
  const std::string time = absl::StrCat(minute, " ", hour);
  const int weekday = (static_cast<int>(absl::GetWeekday(day)) + 1) % 7;  // 0: Sunday
  switch (kind % 10) {
    case 5:
      return {absl::StrCat(time, " * * ", weekday, ",", (weekday + 2) % 7)};
    case 6:
      return {absl::StrCat(time, " ", day.day(), " * *")};
    case 7:
      return {absl::StrCat(time, " ", day.day(), " ", day.month(), " *")};
    case 8:
      return {absl::StrCat(minute, " ", hour, ",", second_hour, " * * *")};
    case 9: {
      const int local = (hour * 60 + minute + 330) % 1440;
      return {absl::StrCat(local % 60, " ", local / 60, " * * *"), "Asia/Kolkata"};
    }
    default:
      return {absl::StrCat(time, " * * *")};
  }
}

// One answer: gives a callback for it, and waits.
template <typename T>
class Answer {
 public:
  auto Callback() {
    return [this](absl::StatusOr<T> value) {
      value_ = std::move(value);
      done_.Notify();
    };
  }
  absl::StatusOr<T> Wait() {
    done_.WaitForNotification();
    return std::move(value_);
  }

 private:
  absl::StatusOr<T> value_ = absl::UnknownError("no answer");
  absl::Notification done_;
};

}  // namespace

struct StoredSchedules::Parts {
  Options options;
  SystemRuntime runtime;
  std::unique_ptr<kv::RocksKvStore> store;
  std::unique_ptr<master::MasterService> master;
  std::shared_ptr<Executor> executor;
  std::unique_ptr<kv::KvClient> client;
  Metrics metrics;
  std::unique_ptr<emitter::EmitterMetrics> emitter_metrics;
  kv::Layout layout;
  absl::CivilDay day;                  // the day of the windows
  std::vector<emitter::InUse> in_use;  // by partition; empty until first needed

  absl::Mutex mutex;
  int64_t under_way ABSL_GUARDED_BY(mutex) = 0;
  absl::Status failure ABSL_GUARDED_BY(mutex);

  ~Parts() {
    client.reset();
    if (executor) executor->Stop();
    master.reset();
  }

  When WhenOf(int64_t number) const {
    const int64_t due = options.due_per_window * options.windows;
    const int first = options.other_hours_begin;
    const int second_hour = (first + kOtherHours) % 24;
    if (number < due) {
      return FiresAt(day, kEmissionHour, second_hour,
                     static_cast<int>(number / options.due_per_window), number);
    }
    // Spread over days, hours and minutes by a multiplier that has no factor in common with their
    // numbers.
    const auto spread = static_cast<uint64_t>(number) * 2654435761u;
    return FiresAt(day + static_cast<int>(spread / 7 % 365),
                   (first + static_cast<int>(spread % kOtherHours)) % 24, second_hour,
                   static_cast<int>(spread / kOtherHours % 60), number);
  }

  v1::CreateScheduleRequest RequestOf(int64_t number) const {
    v1::CreateScheduleRequest request;
    request.set_parent("tenants/default");
    request.set_schedule_id(absl::StrCat("s", number));
    const When when = options.cron.empty() ? WhenOf(number) : When{options.cron};
    request.mutable_schedule()->set_cron(when.cron);
    request.mutable_schedule()->set_time_zone(when.zone);
    if (options.teams > 0) {
      (*request.mutable_schedule()->mutable_labels())["team"] =
          absl::StrCat("t", number % options.teams);
    }
    request.mutable_schedule()->mutable_target()->mutable_grpc()->set_uri("dns:///localhost:1");
    return request;
  }

  absl::StatusOr<kv::ScanResult> Scan(ColumnFamily cf, std::string begin, std::string end) {
    kv::ScanRequest request;
    request.cf = cf;
    request.begin = std::move(begin);
    request.end = std::move(end);
    Answer<kv::ScanResult> answer;
    client->Scan(std::move(request), executor, answer.Callback());
    return answer.Wait();
  }

  absl::Status ScanFamily(ColumnFamily cf) {
    for (std::string begin;;) {
      ASSIGN_OR_RETURN(const auto result, Scan(cf, begin, std::string()));
      if (!result.more || result.entries.empty()) return absl::OkStatus();
      begin = KeyAfter(result.entries.back().key);
    }
  }

  // Scans all ranges at once, as the windows do.
  absl::Status ScanAll(const std::vector<emitter::EmissionWindow::Options>& windows,
                       int64_t* rows) {
    absl::Mutex scans;
    size_t running = 0;
    absl::Status status;
    for (const auto& options : windows) running += options.ranges.size();
    for (const auto& options : windows) {
      for (const emitter::KeyRange& range : options.ranges) {
        kv::ScanRequest request;
        request.cf = ColumnFamily::kChildren;
        request.begin = range.begin;
        request.end = range.end;
        client->Scan(std::move(request), executor, [&](absl::StatusOr<kv::ScanResult> result) {
          absl::MutexLock lock(&scans);
          --running;
          status.Update(result.status());
          if (result.ok()) *rows += static_cast<int64_t>(result->entries.size());
        });
      }
    }
    absl::MutexLock lock(&scans);
    scans.Await(absl::Condition(
        +[](size_t* left) { return *left == 0; }, &running));
    return status;
  }

  absl::Status ReadInUse() {
    for (uint32_t partition = in_use.size(); partition < layout.partitions; ++partition) {
      const std::string prefix = ChildrenPartitionPrefix(static_cast<uint16_t>(partition));
      emitter::InUse found;
      for (std::string begin = prefix;;) {
        ASSIGN_OR_RETURN(const auto result, Scan(ColumnFamily::kInUse, begin, PrefixEnd(prefix)));
        for (const kv::Entry& entry : result.entries) emitter::AddInUse(entry.key, found);
        if (!result.more || result.entries.empty()) break;
        begin = KeyAfter(result.entries.back().key);
      }
      in_use.push_back(std::move(found));
    }
    return absl::OkStatus();
  }
};

StoredSchedules::StoredSchedules(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
StoredSchedules::~StoredSchedules() = default;

absl::StatusOr<std::unique_ptr<StoredSchedules>> StoredSchedules::Make(Options options) {
  auto parts = std::make_unique<Parts>();
  parts->options = std::move(options);
  kv::RocksKvStore::Options store;
  store.data_dir = parts->options.folder;
  ASSIGN_OR_RETURN(auto opened, kv::RocksKvStore::Open(std::move(store), parts->runtime.clock()));
  parts->store = std::move(opened);
  parts->layout = parts->store->info().layout;
  parts->day = absl::ToCivilDay(parts->store->info().store_time, absl::UTCTimeZone()) + 1;
  parts->master = std::make_unique<master::MasterService>(master::MasterOptions{}, *parts->store,
                                                          parts->runtime);
  parts->master->Start();
  parts->executor = parts->runtime.NewExecutor("bench");
  kv::KvClient::Options client;
  client.name = "bench";
  client.session_executor = parts->executor;
  parts->client = std::make_unique<kv::KvClient>(*parts->store, parts->runtime, std::move(client));
  parts->emitter_metrics = std::make_unique<emitter::EmitterMetrics>(parts->metrics);
  while (!parts->master->Ready()) absl::SleepFor(absl::Milliseconds(1));
  return std::unique_ptr<StoredSchedules>(new StoredSchedules(std::move(parts)));
}

absl::StatusOr<std::vector<double>> StoredSchedules::Create() {
  Parts& parts = *parts_;
  std::vector<double> seconds;
  absl::Time begin = absl::Now();
  const int64_t total = parts.options.schedules;
  for (int64_t number = 0; number < total; ++number) {
    {
      absl::MutexLock lock(&parts.mutex);
      parts.mutex.Await(absl::Condition(
          +[](Parts* p)
               ABSL_EXCLUSIVE_LOCKS_REQUIRED(p->mutex) { return p->under_way < kUnderWayMax; },
          &parts));
      if (!parts.failure.ok()) return parts.failure;
      ++parts.under_way;
    }
    parts.master->schedules().CreateSchedule(parts.RequestOf(number),
                                             [&parts](absl::StatusOr<v1::Schedule> made) {
                                               absl::MutexLock lock(&parts.mutex);
                                               --parts.under_way;
                                               parts.failure.Update(made.status());
                                             });
    if ((number + 1) % std::max<int64_t>(total / 10, 1) == 0) {
      absl::MutexLock lock(&parts.mutex);
      parts.mutex.Await(absl::Condition(
          +[](Parts* p) ABSL_EXCLUSIVE_LOCKS_REQUIRED(p->mutex) { return p->under_way == 0; },
          &parts));
      if (!parts.failure.ok()) return parts.failure;
      seconds.push_back(absl::ToDoubleSeconds(absl::Now() - begin));
      begin = absl::Now();
    }
  }
  return seconds;
}

absl::StatusOr<StoredSchedules::Emitted> StoredSchedules::Emit(int window) {
  Parts& parts = *parts_;
  RETURN_IF_ERROR(parts.ReadInUse());
  const absl::Time begin = absl::FromCivil(
      absl::CivilMinute(parts.day) + kEmissionHour * 60 + window, absl::UTCTimeZone());
  const absl::Time end = begin + absl::Minutes(1);
  std::vector<emitter::EmissionWindow::Options> windows;
  for (uint32_t p = 0; p < parts.layout.partitions; ++p) {
    const auto partition = static_cast<uint16_t>(p);
    Answer<kv::GetResult> emitted;
    parts.client->MultiGet({{ColumnFamily::kCheckpoints, EmittedToKey(partition)}}, parts.executor,
                           emitted.Callback());
    ASSIGN_OR_RETURN(const auto got, emitted.Wait());
    if (!got.values[0].has_value()) continue;  // no schedule is in this partition
    emitter::EmissionWindow::Options& options = windows.emplace_back();
    options.partition = partition;
    // The same number of conditions as an emitter's commit has; they hold.
    for (const char* absent : {"lease", "rules"}) {
      options.fence.push_back(
          {.cf = ColumnFamily::kMeta, .key = absent, .kind = kv::Condition::Kind::kAbsent});
    }
    options.emitted_to = DecodeCheckpoint(*got.values[0]);
    options.begin = begin;
    options.end = end;
    options.layout = parts.layout;
    options.ranges = emitter::RangesToRead(partition, parts.in_use[p], begin, end).ranges;
  }

  Emitted result;
  absl::Time start = absl::Now();
  RETURN_IF_ERROR(parts.ScanAll(windows, &result.raw_rows));
  result.raw_seconds = absl::ToDoubleSeconds(absl::Now() - start);

  const emitter::EmitterMetrics& metrics = *parts.emitter_metrics;
  const double read_before = metrics.rows_read.Value();
  const double emitted_before = metrics.occurrences_emitted.Value();
  absl::Mutex mutex;
  size_t running = windows.size();
  absl::Status status;
  start = absl::Now();
  for (auto& options : windows) {
    auto emission = std::make_shared<emitter::EmissionWindow>(
        *parts.client, parts.executor, *parts.emitter_metrics, std::move(options),
        [&](absl::Status ended, bool) {
          absl::MutexLock lock(&mutex);
          --running;
          status.Update(ended);
        });
    parts.executor->Post([emission] { emission->Start(); });
  }
  {
    absl::MutexLock lock(&mutex);
    mutex.Await(absl::Condition(
        +[](size_t* left) { return *left == 0; }, &running));
  }
  result.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  if (!status.ok()) return status;
  result.rows_read = static_cast<int64_t>(metrics.rows_read.Value() - read_before);
  result.occurrences = static_cast<int64_t>(metrics.occurrences_emitted.Value() - emitted_before);
  return result;
}

absl::StatusOr<StoredSchedules::Forecasted> StoredSchedules::Forecast(absl::Duration duration) {
  Parts& parts = *parts_;
  Forecasted result;
  absl::Time start = absl::Now();
  for (const ColumnFamily cf :
       {ColumnFamily::kSchedules, ColumnFamily::kStates, ColumnFamily::kDefinitions})
    RETURN_IF_ERROR(parts.ScanFamily(cf));
  result.raw_seconds = absl::ToDoubleSeconds(absl::Now() - start);
  v1::ForecastLoadRequest request;
  request.set_parent("tenants/default");
  request.mutable_duration()->set_seconds(absl::ToInt64Seconds(duration));
  request.set_group_by("target");
  Answer<v1::ForecastLoadResponse> answer;
  start = absl::Now();
  parts.master->schedules().ForecastLoad(request, answer.Callback());
  ASSIGN_OR_RETURN(const auto forecast, answer.Wait());
  result.seconds = absl::ToDoubleSeconds(absl::Now() - start);
  result.schedules = forecast.schedule_count();
  return result;
}

}  // namespace escapement::bench

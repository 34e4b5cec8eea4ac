#include "tests/conformance/kv_fuzz_side.h"

#include <stdlib.h>

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace escapement::kv {
namespace {

constexpr absl::Duration kLeaseTtl = absl::Milliseconds(100);
constexpr int kRecentSlotsLog2 = 6;  // few slots, so that keys share them
constexpr size_t kWatchHistoryBytes = 8 << 10;
constexpr uint64_t kNoSession = 0xdead'0000'0000;

std::string TellTime(absl::Time time) { return absl::StrCat(absl::ToUnixMicros(time)); }

}  // namespace

std::string Tell(const absl::Status& status) { return absl::StatusCodeToString(status.code()); }

std::string Tell(const absl::StatusOr<CommitResult>& result) {
  if (!result.ok()) return Tell(result.status());
  std::string text = absl::StrCat("seq ", result->seq, " at ", TellTime(result->store_time));
  for (const Verdict& verdict : result->verdicts)
    absl::StrAppend(&text, " ", verdict.applied, "/", verdict.failed_condition);
  return text;
}

std::string Tell(const absl::StatusOr<ScanResult>& result) {
  if (!result.ok()) return Tell(result.status());
  std::string text = absl::StrCat("seq ", result->seq, " at ", TellTime(result->store_time),
                                  result->more ? " more:" : ":");
  for (const Entry& entry : result->entries)
    absl::StrAppend(&text, " ", entry.key, "=", entry.value);
  return text;
}

std::string Tell(const absl::StatusOr<GetResult>& result) {
  if (!result.ok()) return Tell(result.status());
  std::string text = absl::StrCat("seq ", result->seq, " at ", TellTime(result->store_time));
  for (const auto& value : result->values)
    absl::StrAppend(&text, " ", value.has_value() ? absl::StrCat("=", *value) : "absent");
  return text;
}

std::vector<std::string> Tell(WatchLog& log) {
  std::vector<std::string> told;
  for (const WatchedMutation& mutation : log.WaitFor(0)) {
    told.push_back(absl::StrCat(static_cast<int>(mutation.kind), " ", mutation.key, "=",
                                mutation.value, mutation.value_omitted ? " omitted" : ""));
  }
  return told;
}

Answers Send(Side& side, const std::vector<Sent>& sent, size_t from, size_t to) {
  Answers answers;
  for (size_t i = from; i < to; ++i) {
    auto promise = std::make_shared<std::promise<std::string>>();
    answers.push_back(promise->get_future());
    CommitRequest request = sent[i].request;
    request.session =
        sent[i].session < side.sessions.size() ? side.sessions[sent[i].session] : kNoSession;
    side.store().Commit(std::move(request), [promise](absl::StatusOr<CommitResult> result) {
      promise->set_value(Tell(result));
    });
  }
  return answers;
}

std::vector<std::string> Collect(Side& side, Answers answers) {
  side.Settle();
  std::vector<std::string> told;
  for (auto& answer : answers) told.push_back(answer.get());
  return told;
}

MemKvStore::Options MemSide::StoreOptions() {
  MemKvStore::Options options;
  options.sync_delay = absl::ZeroDuration();
  options.lease_ttl = kLeaseTtl;
  options.recent_slots_log2 = kRecentSlotsLog2;
  options.watch_history_bytes_max = kWatchHistoryBytes;
  return options;
}

RocksSide::RocksSide(Clock& clock) : clock_(clock) {
  const char* base = getenv("TEST_TMPDIR");
  std::string folder = absl::StrCat(base != nullptr ? base : "/tmp", "/kv-fuzz-XXXXXX");
  folder_ = mkdtemp(folder.data());
  Open();
}

RocksSide::~RocksSide() {
  watches.clear();
  store_.reset();
  std::filesystem::remove_all(folder_);
}

void RocksSide::Open() {
  RocksKvStore::Options options;
  options.data_dir = folder_;
  options.lease_ttl = kLeaseTtl;
  options.recent_slots_log2 = kRecentSlotsLog2;
  options.watch_history_bytes_max = kWatchHistoryBytes;
  options.block_cache_bytes = 1 << 20;
  options.write_buffer_bytes = 64 << 10;  // small, so that many tables are written
  options.free_bytes_min = 0;
  store_ = RocksKvStore::Open(std::move(options), clock_).value();
}

}  // namespace escapement::kv

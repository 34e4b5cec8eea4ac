// News of granted events for a token manager: completions (CompletionInbox) and stored reports
// (ReportQueue).

#ifndef SERVICES_TOKEN_MANAGER_HOLDING_REPORT_QUEUE_H_
#define SERVICES_TOKEN_MANAGER_HOLDING_REPORT_QUEUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/kv/kv_store.h"
#include "common/tokens/token_door.h"
#include "escapement/storage/v1/records.pb.h"
#include "google/protobuf/arena.h"

namespace escapement::token_manager {

// CompletionInbox: completions that have come for a token manager and that it has not taken yet.
//
// While a commit of a policy shard is under way, the callers of completions for that shard do not
// wake the manager, which steps after the commit anyway. For other shards only the first call since
// the last Take wakes it. Otherwise, at ten thousand completions a second, most of them would wake
// a thread for nothing.
//
// Threads: Add from any; the others on the manager's executor. Done closures are not called here,
// and are destroyed without the lock.
class CompletionInbox {
 public:
  struct Call {
    uint16_t policy_shard = 0;
    std::vector<storage::v1::GrantReportRecord::Entry> entries;
    LocalGrants::Done done;
    std::vector<bool> effects = {};  // by entry; set by the taker for those that have been applied
  };

  // Returns true if the caller must have Take called soon: no other caller has been asked to do so.
  [[nodiscard]] bool Add(Call call) ABSL_LOCKS_EXCLUDED(mutex_);

  // Takes all calls, in the order of their arrival.
  std::vector<Call> Take() ABSL_LOCKS_EXCLUDED(mutex_);

  // Sets the policy shards that have a commit under way. When a shard is not busy any more, Take
  // must be called.
  void SetBusy(std::set<uint16_t> policy_shards) ABSL_LOCKS_EXCLUDED(mutex_);

  // Drops the calls that are here and all later ones.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Mutex mutex_;
  std::vector<Call> calls_ ABSL_GUARDED_BY(mutex_);
  std::set<uint16_t> busy_ ABSL_GUARDED_BY(mutex_);
  bool told_ ABSL_GUARDED_BY(mutex_) = false;  // Add has returned true since the last Take
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

// ReportQueue: the reports of one policy shard on which it must still act. The first ones are in
// memory. The others are in the store, and are read when there is room.
//
// Threads: one. Pure.
class ReportQueue {
 public:
  // Nothing is known of the reports from `begin` on.
  ReportQueue(std::string begin, size_t rows_max) : rows_max_(rows_max), end_(std::move(begin)) {}

  struct ParsedReport {
    explicit ParsedReport(const std::string& value);
    google::protobuf::Arena arena;
    storage::v1::GrantReportRecord* const record;
    const bool broken;  // it has no entries then
    const bool news;    // it only says that events were delivered: nothing waits for it
  };
  struct Report {
    std::string value;
    kv::CommitSeq read_seq = 0;  // the snapshot from which it was read; 0: it came by the watch
    bool stalled = false;        // set by the caller while a record that it needs is being read
    std::unique_ptr<ParsedReport> parsed = nullptr;  // the caller may drop it at any time
    // Parses the value unless that was done.
    const ParsedReport& Parsed();
  };

  void Add(const std::string& key, Report report);

  // True if there are more in the store, and they are being read or will be soon.
  bool expects_more() const {
    return end_.has_value() && (scanning_ || rows_.size() < rows_max_ / 2 + 1);
  }
  // True if there are more in the store, and they are to be read now.
  bool hungry() const { return expects_more() && !scanning_; }
  // True once all reports that existed at the read have been read.
  bool loaded() const { return loaded_; }
  // From where to read, and the scan's number. Only while no commit is under way that deletes
  // reports.
  std::pair<std::string, uint64_t> BeginScan();
  void OnScanned(uint64_t number, absl::StatusOr<kv::ScanResult> result);

  // The reports by key. The caller removes those on which it has acted.
  std::map<std::string, Report>& rows() { return rows_; }

 private:
  // The result of the scan under way is ignored: a later one reads the reports again.
  void DropScan();

  const size_t rows_max_;
  std::map<std::string, Report> rows_;
  std::optional<std::string> end_;  // from here on they are in the store only
  bool scanning_ = false;
  bool loaded_ = false;
  uint64_t scan_ = 0;
  std::map<std::string, Report> arrived_;  // from end_ on, while that is read
};

}  // namespace escapement::token_manager

#endif  // SERVICES_TOKEN_MANAGER_HOLDING_REPORT_QUEUE_H_

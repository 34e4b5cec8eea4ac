// ReportQueue: the reports of one policy shard that are to be acted upon: the first ones of them in
// memory, the others in the store, to be read on.
//
// Threads: one. Pure.

#ifndef SERVICES_TOKEN_MANAGER_HOLDING_REPORT_QUEUE_H_
#define SERVICES_TOKEN_MANAGER_HOLDING_REPORT_QUEUE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/kv/kv_store.h"

namespace escapement::token_manager {

class ReportQueue {
 public:
  // Nothing is known of the reports from `begin` on.
  ReportQueue(std::string begin, size_t rows_max) : rows_max_(rows_max), end_(std::move(begin)) {}

  struct Report {
    std::string value;
    kv::CommitSeq read_seq = 0;  // the snapshot from which it was read; 0: it came by the watch
    bool stalled = false;        // set by the caller while a record that it needs is being read
    std::optional<bool> news = std::nullopt;  // nobody waits for what it says: the caller's
  };

  void Add(const std::string& key, Report report);

  bool hungry() const { return end_.has_value() && !scanning_ && rows_.size() < rows_max_ / 2 + 1; }
  // There are more in the store, which are being read, or are about to be.
  bool expects_more() const {
    return end_.has_value() && (scanning_ || rows_.size() < rows_max_ / 2 + 1);
  }
  // True once all reports that existed at the read have been read.
  bool loaded() const { return loaded_; }
  struct Scan {
    std::string from;
    uint64_t number = 0;
  };
  // Only while no commit is under way that deletes reports.
  Scan BeginScan();
  // false: the result is of no use any more.
  bool OnScanned(uint64_t number, kv::ScanResult result);
  void OnScanFailed(uint64_t number);

  // The reports by key. The caller removes those on which it has acted.
  std::map<std::string, Report>& rows() { return rows_; }

 private:
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

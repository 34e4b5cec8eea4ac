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
    kv::CommitSeq read_seq = 0;               // of the snapshot it was read at; 0: it was watched
    bool stalled = false;                     // what it needs is being read: the caller's
    std::optional<bool> news = std::nullopt;  // nobody waits for what it says: the caller's
  };

  void Add(const std::string& key, Report report);

  bool hungry() const { return end_.has_value() && !scanning_ && rows_.size() < rows_max_ / 2 + 1; }
  // There are more in the store, which are being read, or are about to be.
  bool expects_more() const {
    return end_.has_value() && (scanning_ || rows_.size() < rows_max_ / 2 + 1);
  }
  // What was read of them so far covers all there were when it was.
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

  // By key. What is acted upon is taken out by the caller.
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

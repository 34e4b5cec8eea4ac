// NotingLog: passes calls on to another SharedLog, and knows the term in which this process
// appends. A leader appends its first row before it decides anything, so each decision belongs to
// the term noted last. It never trims: the judge reads the log from its beginning.
//
// Threads: any.

#ifndef TESTS_E2E_CHAOS_REPLICATED_NOTING_LOG_H_
#define TESTS_E2E_CHAOS_REPLICATED_NOTING_LOG_H_

#include <atomic>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/kv/log/shared_log.h"

namespace escapement::chaos {

class NotingLog final : public kv::SharedLog {
 public:
  // `log` must outlive it.
  explicit NotingLog(kv::SharedLog& log) : log_(log) {}

  // The highest epoch of an append so far.
  uint64_t epoch() const { return epoch_; }

  void Append(kv::AppendRequest request, std::function<void(kv::AppendResult)> done) override {
    uint64_t noted = epoch_;
    while (noted < request.term.epoch && !epoch_.compare_exchange_weak(noted, request.term.epoch)) {
    }
    log_.Append(std::move(request), std::move(done));
  }

  void ReadState(Callback<kv::LogState> done) override { log_.ReadState(std::move(done)); }
  void Lead(kv::LeadRequest request, Callback<kv::LeadResult> done) override {
    log_.Lead(std::move(request), std::move(done));
  }
  void Read(kv::ReadRequest request, Callback<kv::ReadResult> done) override {
    log_.Read(request, std::move(done));
  }
  void MissingFiles(std::vector<kv::SnapshotFile> files,
                    Callback<std::vector<kv::SnapshotFile>> done) override {
    log_.MissingFiles(std::move(files), std::move(done));
  }
  void PutPart(kv::SnapshotPart part, std::function<void(absl::Status)> done) override {
    log_.PutPart(std::move(part), std::move(done));
  }
  void PutSnapshot(kv::Snapshot snapshot, std::function<void(absl::Status)> done) override {
    log_.PutSnapshot(std::move(snapshot), std::move(done));
  }
  void ListSnapshots(Callback<std::vector<kv::Snapshot>> done) override {
    log_.ListSnapshots(std::move(done));
  }
  void ReadPart(kv::SnapshotFile file, uint32_t index, Callback<std::string> done) override {
    log_.ReadPart(std::move(file), index, std::move(done));
  }
  void Trim(uint32_t snapshots_kept, Callback<kv::TrimResult> done) override {
    done(kv::TrimResult());
  }
  void PutReport(std::string replica, std::string details,
                 std::function<void(absl::Status)> done) override {
    log_.PutReport(std::move(replica), std::move(details), std::move(done));
  }
  void ListReports(Callback<std::vector<kv::ReplicaReport>> done) override {
    log_.ListReports(std::move(done));
  }

 private:
  kv::SharedLog& log_;
  std::atomic<uint64_t> epoch_{0};
};

}  // namespace escapement::chaos

#endif  // TESTS_E2E_CHAOS_REPLICATED_NOTING_LOG_H_

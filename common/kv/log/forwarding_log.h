// ForwardingLog: passes every call to another log. Decorators and test doubles derive from it and
// override the calls that they change.
//
// Threads: as the inner log.

#ifndef COMMON_KV_LOG_FORWARDING_LOG_H_
#define COMMON_KV_LOG_FORWARDING_LOG_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/kv/log/shared_log.h"

namespace escapement::kv {

class ForwardingLog : public SharedLog {
 public:
  // `inner` must outlive this object.
  explicit ForwardingLog(SharedLog& inner) : inner_(inner) {}

  void ReadState(Callback<LogState> done) override { inner_.ReadState(std::move(done)); }
  void Lead(LeadRequest request, Callback<LeadResult> done) override {
    inner_.Lead(std::move(request), std::move(done));
  }
  void Append(AppendRequest request, std::function<void(AppendResult)> done) override {
    inner_.Append(std::move(request), std::move(done));
  }
  void Read(ReadRequest request, Callback<ReadResult> done) override {
    inner_.Read(request, std::move(done));
  }
  void MissingFiles(std::vector<SnapshotFile> files,
                    Callback<std::vector<SnapshotFile>> done) override {
    inner_.MissingFiles(std::move(files), std::move(done));
  }
  void PutPart(SnapshotPart part, std::function<void(absl::Status)> done) override {
    inner_.PutPart(std::move(part), std::move(done));
  }
  void PutSnapshot(Snapshot snapshot, std::function<void(absl::Status)> done) override {
    inner_.PutSnapshot(std::move(snapshot), std::move(done));
  }
  void ListSnapshots(Callback<std::vector<Snapshot>> done) override {
    inner_.ListSnapshots(std::move(done));
  }
  void ReadPart(SnapshotFile file, uint32_t index, Callback<std::string> done) override {
    inner_.ReadPart(std::move(file), index, std::move(done));
  }
  void Trim(uint32_t snapshots_kept, Callback<TrimResult> done) override {
    inner_.Trim(snapshots_kept, std::move(done));
  }
  void PutReport(std::string replica, std::string details,
                 std::function<void(absl::Status)> done) override {
    inner_.PutReport(std::move(replica), std::move(details), std::move(done));
  }
  void ListReports(Callback<std::vector<ReplicaReport>> done) override {
    inner_.ListReports(std::move(done));
  }

 protected:
  SharedLog& inner_;
};

}  // namespace escapement::kv

#endif  // COMMON_KV_LOG_FORWARDING_LOG_H_

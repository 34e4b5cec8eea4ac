// SharedScan: reads of `children` that are asked for at the same time, made as one request.
//
// For reads that return little. Each partition has a window every second; where nothing is due,
// their requests would be most of an emitter's cost. If an answer is full, the next request reads
// on.
//
// Threads: one executor; answers are given there.

#ifndef SERVICES_EMITTER_EMISSION_SHARED_SCAN_H_
#define SERVICES_EMITTER_EMISSION_SHARED_SCAN_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "common/kv/client/kv_client.h"
#include "services/emitter/base/options.h"

namespace escapement::emitter {

class SharedScan : public std::enable_shared_from_this<SharedScan> {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<kv::ScanResult>)>;

  // `client` outlives it, or Stop() is called before. Made by make_shared. One request returns
  // `rows_max` rows at most.
  SharedScan(kv::KvClient& client, std::shared_ptr<Executor> executor,
             uint32_t rows_max = kScanRowsMax);

  // Reads the ranges. They are ascending and disjoint, each has an end, and there are at most
  // kv::kScanRangesMax. They lie before or after all ranges of other reads at the same time. The
  // answer is like that of a scan; if it has `more`, the caller reads on after the last entry.
  void Read(std::vector<kv::KeyRange> ranges, Done done);

  // Nothing is read or answered any more.
  void Stop();

 private:
  struct Asked {
    std::vector<kv::KeyRange> ranges;  // not empty
    Done done;
  };
  void SendSoon();
  void Send();
  void OnRead(std::vector<Asked> asked, absl::StatusOr<kv::ScanResult> result);

  kv::KvClient& client_;
  const std::shared_ptr<Executor> executor_;
  const uint32_t rows_max_;
  bool stopped_ = false;
  bool posted_ = false;
  std::vector<Asked> asked_;
};

}  // namespace escapement::emitter

#endif  // SERVICES_EMITTER_EMISSION_SHARED_SCAN_H_

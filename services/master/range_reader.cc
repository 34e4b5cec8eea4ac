#include "services/master/range_reader.h"

#include <memory>
#include <utility>

#include "common/base/key_codec.h"
#include "common/runtime/perturb.h"
#include "services/master/errors.h"

namespace escapement::master {
namespace {

class Reading : public std::enable_shared_from_this<Reading> {
 public:
  using Ended = absl::AnyInvocable<void(absl::Status)>;
  Reading(MasterContext& context, std::vector<KeyRange> ranges, size_t rows_max, VisitEntry visit,
          Ended done)
      : context_(context),
        ranges_(std::move(ranges)),
        rows_max_(rows_max),
        visit_(std::move(visit)),
        done_(std::move(done)) {}

  void NextRange() {
    if (range_ == ranges_.size()) return done_(absl::OkStatus());
    rows_read_ = 0;
    Scan(ranges_[range_].begin);
  }

 private:
  void Scan(std::string begin) {
    kv::ScanRequest scan;
    scan.cf = ranges_[range_].cf;
    scan.begin = std::move(begin);
    scan.end = ranges_[range_].end;
    scan.limit = Perturb(context_.runtime, Site::kMasterScanOfOne) ? 1 : 10'000;
    scan.bytes_max = 4 << 20;
    context_.client.Scan(std::move(scan), context_.executor,
                         [self = shared_from_this()](absl::StatusOr<kv::ScanResult> page) {
                           self->OnPage(std::move(page));
                         });
  }

  void OnPage(absl::StatusOr<kv::ScanResult> page) {
    if (!page.ok()) return done_(StoreFailed(page.status()));
    const bool more = page->more && !page->entries.empty();
    std::string next = more ? KeyAfter(page->entries.back().key) : std::string();
    rows_read_ += page->entries.size();
    for (kv::Entry& entry : page->entries) {
      const absl::StatusOr<bool> go_on = visit_(ranges_[range_], entry);
      if (!go_on.ok() || !*go_on) return done_(go_on.status());
    }
    if (more && rows_read_ < rows_max_) return Scan(std::move(next));
    ++range_;
    NextRange();
  }

  MasterContext& context_;
  const std::vector<KeyRange> ranges_;
  const size_t rows_max_;
  VisitEntry visit_;
  Ended done_;
  size_t range_ = 0;
  size_t rows_read_ = 0;  // of the range
};

}  // namespace

void ReadRanges(MasterContext& context, std::vector<KeyRange> ranges, size_t rows_max,
                VisitEntry visit, absl::AnyInvocable<void(absl::Status)> done) {
  std::make_shared<Reading>(context, std::move(ranges), rows_max, std::move(visit), std::move(done))
      ->NextRange();
}

}  // namespace escapement::master

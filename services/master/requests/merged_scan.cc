#include "services/master/requests/merged_scan.h"

#include <algorithm>
#include <utility>

#include "common/base/key_codec.h"
#include "common/runtime/perturb.h"
#include "services/master/base/errors.h"

namespace escapement::master {
namespace {

constexpr uint32_t kChunkMin = 4;
constexpr uint32_t kChunkMax = 2000;
// Bytes of one read of a lane, and of the rows of one Next: rows may have large payloads.
constexpr uint32_t kReadBytesMax = 256 << 10;
constexpr size_t kNextBytesMax = 4 << 20;

}  // namespace

MergedScan::MergedScan(MasterContext& context, Options options)
    : context_(context), options_(std::move(options)) {
  for (const kv::KeyRange& range : options_.lanes) {
    Lane& lane = lanes_.emplace_back();
    lane.begin = range.begin;
    lane.end = range.end;
    lane.more = range.begin < range.end;
  }
}

void MergedScan::Next(size_t limit, absl::AnyInvocable<void(absl::StatusOr<Rows>)> done) {
  limit_ = limit;
  done_ = std::move(done);
  rows_.clear();
  bytes_ = 0;
  Fill();
}

bool MergedScan::ended() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [](const Lane& lane) { return lane.empty() && !lane.more; });
}

void MergedScan::Fill() {
  std::vector<size_t> wanting;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].empty() && lanes_[i].more) wanting.push_back(i);
  }
  if (wanting.empty()) return Merge();
  reading_ = wanting.size();
  for (const size_t lane : wanting) Read(lane);
}

void MergedScan::Read(size_t lane) {
  Lane& read = lanes_[lane];
  // Usually few lanes have most of the rows: they are read again, for twice as many.
  const size_t share = limit_ / 4;
  read.chunk = read.chunk > 0
                   ? std::min(read.chunk * 2, kChunkMax)
                   : std::clamp(static_cast<uint32_t>(std::min<size_t>(share, kChunkMax)),
                                kChunkMin, kChunkMax);
  kv::ScanRequest scan;
  scan.cf = options_.cf;
  scan.begin = read.begin;
  scan.end = read.end;
  scan.limit = Perturb(context_.runtime, Site::kMasterScanOfOne) ? 1 : read.chunk;
  scan.bytes_max = kReadBytesMax;
  scan.reverse = options_.descending;
  context_.client.Scan(std::move(scan), context_.executor,
                       [self = shared_from_this(), lane](absl::StatusOr<kv::ScanResult> result) {
                         self->OnRead(lane, std::move(result));
                       });
}

void MergedScan::OnRead(size_t lane, absl::StatusOr<kv::ScanResult> result) {
  if (!result.ok()) {
    status_ = StoreFailed(result.status());
  } else {
    Lane& read = lanes_[lane];
    read.more = result->more && !result->entries.empty();
    read.rows = std::move(result->entries);
    read.next = 0;
    if (read.more && options_.descending) {
      read.end = read.rows.back().key;
    } else if (read.more) {
      read.begin = KeyAfter(read.rows.back().key);
    }
  }
  if (--reading_ > 0) return;
  if (!status_.ok()) return std::exchange(done_, nullptr)(status_);
  Merge();
}

MergedScan::Lane* MergedScan::First() {
  Lane* first = nullptr;
  for (Lane& lane : lanes_) {
    if (lane.empty()) continue;
    if (first == nullptr) {
      first = &lane;
      continue;
    }
    const int order = RankOf(lane.rows[lane.next]).compare(RankOf(first->rows[first->next]));
    if (options_.descending ? order > 0 : order < 0) first = &lane;
  }
  return first;
}

void MergedScan::Merge() {
  while (rows_.size() < limit_ && bytes_ < kNextBytesMax) {
    Lane* first = First();
    if (first == nullptr) break;
    kv::Entry& row = first->rows[first->next++];
    bytes_ += row.key.size() + row.value.size();
    rows_.push_back(std::move(row));
    // Its next row is not known, and may come before those of other lanes.
    if (first->empty() && first->more && rows_.size() < limit_ && bytes_ < kNextBytesMax)
      return Fill();
  }
  std::exchange(done_, nullptr)(std::move(rows_));
}

}  // namespace escapement::master

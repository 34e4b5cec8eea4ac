#include "services/handler/shard/due_queue.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "common/base/ageing.h"
#include "common/base/check.h"
#include "common/base/key_codec.h"
#include "services/handler/shard/row_resolver.h"

namespace escapement::handler {

QueuedRow::QueuedRow(absl::string_view key, absl::string_view value, kv::CommitSeq seq) {
  // Heads, so that the first one is aligned; the bytes take the place of the others.
  const size_t heads = 1 + (key.size() + value.size() + sizeof(Head) - 1) / sizeof(Head);
  std::shared_ptr<Head[]> memory = std::make_shared_for_overwrite<Head[]>(heads);
  Head* const first = memory.get();
  head_ = std::shared_ptr<Head>(std::move(memory), first);
  *head_ = {.seq = seq,
            .resolved = nullptr,
            .value_bytes = static_cast<uint32_t>(value.size()),
            .key_bytes = static_cast<uint16_t>(key.size()),
            .segment = 0};
  char* const text = reinterpret_cast<char*>(head_.get() + 1);
  if (!key.empty()) std::memcpy(text, key.data(), key.size());
  if (!value.empty()) std::memcpy(text + key.size(), value.data(), value.size());
}

QueuedRow& QueuedRow::operator=(QueuedRow&& other) {
  std::swap(head_, other.head_);
  return *this;
}

QueuedRow::~QueuedRow() {
  if (head_ != nullptr) delete head_->resolved;
}

void QueuedRow::KeepResolved(std::unique_ptr<ResolvedRow> resolved) {
  delete std::exchange(head_->resolved, CheckNotNull(std::move(resolved)).release());
}

std::unique_ptr<ResolvedRow> QueuedRow::TakeResolved() {
  return std::unique_ptr<ResolvedRow>(std::exchange(head_->resolved, nullptr));
}

namespace {

// The bytes of an `events` key that are its due time.
constexpr size_t kDueBegin = 3;
constexpr size_t kDueEnd = kDueBegin + 8;

}  // namespace

uint8_t LaneOfEventKey(absl::string_view key) {
  return key.size() > 2 ? static_cast<uint8_t>(key[2]) : 0;
}

absl::Time DueOfEventKey(absl::string_view key) {
  KeyReader reader(key.size() > kDueBegin ? key.substr(kDueBegin) : absl::string_view());
  return reader.Time();
}

Rank RankOf(absl::string_view key, absl::Time now) {
  const uint8_t lane = LaneOfEventKey(key);
  const absl::Time due = DueOfEventKey(key);
  if (lane >= kLaneRetry) return {kNoPriority, due};
  // Most rows are young, and ageing takes a slow division.
  return {now - kAgeingStep < due ? lane : AgedPriority(lane, now - due), due};
}

uint8_t DueQueue::SegmentOf(absl::string_view key) const {
  const uint8_t lane = LaneOfEventKey(key);
  return lane < kLaneRetry && key < marks_[lane] ? LateSegment(lane) : lane;
}

void DueQueue::Add(QueuedRow row) {
  const absl::string_view key = row.key();
  if (key.size() < kDueEnd || LaneOfEventKey(key) >= kLaneCount) return;
  const uint8_t index = SegmentOf(key);
  Segment& segment = segments_[index];
  segment.bytes += row.bytes();
  filled_.set(index);
  // Rows mostly arrive in key order.
  const size_t rows = segment.rows.size();
  const auto at = segment.rows.insert(segment.rows.end(), std::move(row));
  if (segment.rows.size() > rows) return;
  // `row` is still there, because the one at `at` has its key.
  TakeFrom(segment.bytes, at->bytes());
  segment.rows.insert(segment.rows.erase(at), std::move(row));
}

void DueQueue::Remove(absl::string_view key) {
  if (LaneOfEventKey(key) >= kLaneCount) return;
  const uint8_t index = SegmentOf(key);
  Segment& segment = segments_[index];
  const auto at = segment.rows.find(key);
  if (at == segment.rows.end()) return;
  TakeFrom(segment.bytes, at->bytes());
  segment.rows.erase(at);
  NoteFilled(index);
}

bool DueQueue::Contains(absl::string_view key) const {
  return LaneOfEventKey(key) < kLaneCount && segments_[SegmentOf(key)].rows.contains(key);
}

void DueQueue::MarkLate(uint8_t lane, std::string mark) {
  CHECK_LT(lane, kLaneRetry);
  if (mark <= marks_[lane]) return;
  marks_[lane] = std::move(mark);
  Segment& from = segments_[lane];
  Segment& late = segments_[LateSegment(lane)];
  while (!from.rows.empty() && from.rows.begin()->key() < marks_[lane]) {
    auto node = from.rows.extract(from.rows.begin());
    TakeFrom(from.bytes, node.value().bytes());
    late.bytes += node.value().bytes();
    late.rows.insert(late.rows.end(), std::move(node.value()));
  }
  NoteFilled(lane);
  NoteFilled(LateSegment(lane));
}

void DueQueue::EndLate(uint8_t lane) {
  CHECK_LT(lane, kLaneRetry);
  CHECK(segments_[LateSegment(lane)].rows.empty());
  marks_[lane].clear();
}

absl::Time DueQueue::FirstDueOf(uint8_t segment) const {
  const auto& rows = segments_[segment].rows;
  return rows.empty() ? absl::InfiniteFuture() : DueOfEventKey(rows.begin()->key());
}

bool DueQueue::HasOnTimeDueBy(absl::Time until) const {
  for (uint8_t lane = 0; lane < kLaneRetry; ++lane) {
    if (FirstDueOf(lane) <= until) return true;
  }
  return false;
}

std::optional<absl::Time> DueQueue::NextDue(absl::Time now) const {
  absl::Time next = absl::InfiniteFuture();
  for (uint8_t i = 0; i < kSegmentCount; ++i) {
    if (const absl::Time due = FirstDueOf(i); due > now) next = std::min(next, due);
  }
  if (next == absl::InfiniteFuture()) return std::nullopt;
  return next;
}

std::optional<absl::Time> DueQueue::FirstDue() const {
  absl::Time first = absl::InfiniteFuture();
  for (uint8_t i = 0; i < kSegmentCount; ++i) {
    if (StandingOf(i) != Standing::kBackground) first = std::min(first, FirstDueOf(i));
  }
  if (first == absl::InfiniteFuture()) return std::nullopt;
  return first;
}

DueQueue::Firsts DueQueue::FirstsOf(absl::Time until, const Segments& takeable) const {
  Firsts firsts;
  for (unsigned long left = (takeable & filled_).to_ulong(); left != 0; left &= left - 1) {
    const auto i = static_cast<uint8_t>(std::countr_zero(left));
    const Rank rank = RankOf(segments_[i].rows.begin()->key(), until);
    First& first = firsts[static_cast<size_t>(StandingOf(i))];
    if (rank.second <= until && rank < first.rank) first = {.rank = rank, .segment = i};
  }
  return firsts;
}

uint8_t DueQueue::NextPriority(const Firsts& firsts) {
  for (const First& first : firsts) {
    if (first.segment != kNoSegment) return first.rank.first;
  }
  return kNothingDue;
}

std::optional<QueuedRow> DueQueue::Take(absl::Time until, const Segments& takeable,
                                        uint8_t priority_max) {
  const Firsts firsts = FirstsOf(until, takeable);
  const uint8_t priority = NextPriority(firsts);
  if (priority > priority_max || priority == kNothingDue) return std::nullopt;
  const auto& [on_time, late, background] = firsts;
  const auto share = [](uint8_t first, uint8_t second, Share& taken) {
    if (first == kNoSegment || second == kNoSegment) {
      taken = Share();
      return first == kNoSegment ? second : first;
    }
    return taken.second < taken.first ? second : first;
  };
  const uint8_t late_now = late.rank.first <= priority ? late.segment : kNoSegment;
  const uint8_t others = share(background.segment, late_now, late_share_);
  return Pop(share(on_time.segment, others, on_time_share_));
}

void DueQueue::NoteTaken(Standing standing, uint64_t events) {
  (standing == Standing::kOnTime ? on_time_share_.first : on_time_share_.second) += events;
  if (standing == Standing::kOnTime) return;
  (standing == Standing::kBackground ? late_share_.first : late_share_.second) += events;
}

QueuedRow DueQueue::Pop(uint8_t index) {
  Segment& segment = segments_[index];
  CHECK(!segment.rows.empty());
  QueuedRow row = std::move(segment.rows.extract(segment.rows.begin()).value());
  TakeFrom(segment.bytes, row.bytes());
  row.set_segment(index);
  NoteFilled(index);
  return row;
}

std::optional<absl::string_view> DueQueue::FirstKey(uint8_t segment) const {
  const auto& rows = segments_[segment].rows;
  if (rows.empty()) return std::nullopt;
  return rows.begin()->key();
}

std::optional<absl::string_view> DueQueue::LastKey(uint8_t segment) const {
  const auto& rows = segments_[segment].rows;
  if (rows.empty()) return std::nullopt;
  return std::prev(rows.end())->key();
}

void DueQueue::DropBefore(uint8_t index, absl::string_view key) {
  Segment& segment = segments_[index];
  while (!segment.rows.empty() && segment.rows.begin()->key() < key) {
    TakeFrom(segment.bytes, segment.rows.begin()->bytes());
    segment.rows.erase(segment.rows.begin());
  }
  NoteFilled(index);
}

std::string DueQueue::DropLast(uint8_t index, size_t rows_max) {
  Segment& segment = segments_[index];
  std::string dropped;
  while (segment.rows.size() > rows_max) {
    const auto last = std::prev(segment.rows.end());
    TakeFrom(segment.bytes, last->bytes());
    dropped = std::string(last->key());
    segment.rows.erase(last);
  }
  NoteFilled(index);
  return dropped;
}

size_t DueQueue::rows() const {
  size_t rows = 0;
  for (const Segment& segment : segments_) rows += segment.rows.size();
  return rows;
}

}  // namespace escapement::handler

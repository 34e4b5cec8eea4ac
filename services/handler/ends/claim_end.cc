#include "services/handler/ends/claim_end.h"

namespace escapement::handler {
namespace {

void AddRange(storage::v1::ClaimEndRecord::Entry& entry, uint64_t first, uint64_t count) {
  if (entry.ranges_size() > 0) {
    auto& last = *entry.mutable_ranges(entry.ranges_size() - 1);
    if (last.first() + last.count() == first) {
      last.set_count(last.count() + count);
      return;
    }
  }
  auto& range = *entry.add_ranges();
  range.set_first(first);
  range.set_count(count);
}

}  // namespace

storage::v1::ClaimEndRecord ClaimEndOf(absl::Span<const Outcome> outcomes) {
  storage::v1::ClaimEndRecord record;
  for (const Outcome& outcome : outcomes) {
    const int last = record.entries_size() - 1;
    auto* entry = last >= 0 && record.entries(last).entry() == outcome.entry
                      ? record.mutable_entries(last)
                      : record.add_entries();
    entry->set_entry(outcome.entry);
    AddRange(*entry, outcome.first, outcome.count);
  }
  return record;
}

}  // namespace escapement::handler

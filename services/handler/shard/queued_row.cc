#include "services/handler/shard/queued_row.h"

#include <cstring>
#include <new>
#include <utility>

#include "common/base/check.h"
#include "services/handler/shard/row_resolver.h"

namespace escapement::handler {

QueuedRow::QueuedRow(absl::string_view key, absl::string_view value, kv::CommitSeq seq) {
  void* const memory = ::operator new(sizeof(Head) + key.size() + value.size());
  head_.reset(new (memory) Head{.seq = seq,
                                .resolved = nullptr,
                                .value_bytes = static_cast<uint32_t>(value.size()),
                                .key_bytes = static_cast<uint16_t>(key.size()),
                                .standing = Standing::kOnTime});
  char* const text = reinterpret_cast<char*>(head_.get() + 1);
  if (!key.empty()) std::memcpy(text, key.data(), key.size());
  if (!value.empty()) std::memcpy(text + key.size(), value.data(), value.size());
}

void QueuedRow::Free::operator()(Head* head) const {
  delete head->resolved;
  ::operator delete(head);
}

void QueuedRow::KeepResolved(std::unique_ptr<ResolvedRow> resolved) {
  delete std::exchange(head_->resolved, CheckNotNull(std::move(resolved)).release());
}

std::unique_ptr<ResolvedRow> QueuedRow::TakeResolved() {
  return std::unique_ptr<ResolvedRow>(std::exchange(head_->resolved, nullptr));
}

}  // namespace escapement::handler

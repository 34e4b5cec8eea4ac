#include "common/records/attempt_memory.h"

#include <utility>

#include "common/base/printable_text.h"

namespace escapement {

void RememberAttempt(storage::v1::AttemptRecord attempt, storage::v1::EventRecord& row) {
  attempt.set_error(CleanText(attempt.error(), kRememberedErrorBytesMax));
  if (attempt.answer().size() > kRememberedAnswerBytesMax)
    attempt.mutable_answer()->resize(kRememberedAnswerBytesMax);
  auto& tried = *row.mutable_tried();
  const int surplus = tried.size() + 1 - kAttemptsRemembered;
  if (surplus > 0) tried.DeleteSubrange(0, surplus);
  *tried.Add() = std::move(attempt);
}

}  // namespace escapement

#include "common/kv/engine/commit_engine.h"

#include <cstdint>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/key_codec.h"
#include "common/base/proto_time.h"
#include "common/kv/commit_validation.h"
#include "common/kv/layout.h"

namespace escapement::kv {

namespace {

// A DeleteRange over at most this many keys becomes single deletes even in families with range
// tombstones. Each tombstone slows every later read and takes a place in RecentWrites.
constexpr size_t kSingleDeletesMax = 128;

size_t BytesOf(const CommitRequest& request) {
  size_t bytes = 0;
  for (const Group& group : request.groups) {
    for (const Mutation& mutation : group.mutations)
      bytes += mutation.key.size() + mutation.value.size() + 96;
  }
  return bytes;
}

absl::StatusOr<CommitResult> Answered(absl::string_view answer) {
  uint64_t number = 0;
  return DecodeAnswer(answer, number);
}

absl::Status OutsideWindow(const CommitRequest& request) {
  return absl::AbortedError(absl::StrCat("session ", request.session, ", number ", request.number,
                                         ": unknown session, or a number outside its window"));
}

}  // namespace

CommitEngine::CommitEngine(Options options, BaseState& base, CommitSeq seq)
    : base_(base),
      layer_(std::make_unique<Layer>(base)),
      recent_(options.recent_slots_log2, seq),
      sessions_(options.sessions_max, options.first_session),
      seq_(seq) {
  sessions_.Load(base_);
}

void CommitEngine::BeginBatch(WriteSink& sink, absl::Time store_time, bool stamps_may_pass) {
  sink_ = &sink;
  store_time_ = store_time;
  stamps_may_pass_ = stamps_may_pass;
  layer_->begin_seq = seq_;
  wrote_ = false;
}

void CommitEngine::Layer::Clear() {
  overlay.Clear();
  kept.clear();
  records.clear();
}

bool CommitEngine::EndBatch(Ended ended) {
  if (seq_ != layer_->begin_seq) sink_->Put(ColumnFamily::kMeta, kSeqKey, EncodeU64(seq_));
  sink_ = nullptr;
  if (ended == Ended::kWritten) {
    layer_->Clear();
    return wrote_;
  }
  if (unused_.empty()) unused_.push_back(std::make_unique<Layer>(base_));
  under_way_.push_back(std::exchange(layer_, std::move(unused_.back())));
  unused_.pop_back();
  layer_->overlay.SetBase(under_way_.back()->overlay);
  return wrote_;
}

void CommitEngine::SettleBatch() {
  unused_.push_back(std::move(under_way_.front()));
  under_way_.pop_front();
  unused_.back()->Clear();
  Layer& above = under_way_.empty() ? *layer_ : *under_way_.front();
  above.overlay.SetBase(base_);
}

uint64_t CommitEngine::OpenSession() {
  wrote_ = true;
  return sessions_.Open(*sink_);
}

absl::StatusOr<CommitResult> CommitEngine::Refuse(const CommitRequest& request, absl::Status why) {
  absl::string_view answered;
  switch (sessions_.Admit(request.session, request.number, answered)) {
    case SessionTable::Admission::kNew:
      sessions_.Record(request.session, request.number, EncodeAnswer(request.number, why), nullptr);
      return why;
    case SessionTable::Admission::kAnswered:
      return Answered(answered);
    case SessionTable::Admission::kRefused:
      break;
  }
  return OutsideWindow(request);
}

CommitEngine::Decision CommitEngine::DecideOwn(std::shared_ptr<const CommitRequest> request) {
  return Apply(std::move(request));
}

CommitEngine::Decision CommitEngine::Decide(std::shared_ptr<const CommitRequest> request) {
  const uint64_t session = request->session;
  const uint64_t number = request->number;
  absl::string_view answered;
  switch (sessions_.Admit(session, number, answered)) {
    case SessionTable::Admission::kNew:
      break;
    case SessionTable::Admission::kAnswered:
      return {Answered(answered), nullptr};
    case SessionTable::Admission::kRefused:
      return {OutsideWindow(*request), nullptr};
  }
  Decision decision;
  if (auto status = ValidateCommit(*request); !status.ok()) {
    decision.answer = status;
  } else {
    decision = Apply(std::move(request));
  }
  sessions_.Record(session, number, EncodeAnswer(number, decision.answer),
                   decision.record != nullptr ? sink_ : nullptr);
  return decision;
}

CommitEngine::Decision CommitEngine::Apply(std::shared_ptr<const CommitRequest> request) {
  for (size_t i = 0; i < request->fence.size(); ++i) {
    if (Holds(request->fence[i])) continue;
    return {absl::FailedPreconditionError(absl::StrCat(
                "fence: condition ", i, " on ", Name(request->fence[i].cf), " does not hold")),
            nullptr};
  }
  auto record = std::make_shared<CommitRecord>();
  record->verdicts.resize(request->groups.size());
  // The sequence of this commit if any group applies. Keys that a group touches are marked with it
  // at once, so that later groups see the change.
  const CommitSeq seq_before = seq_;
  for (size_t i = 0; i < request->groups.size(); ++i) {
    const Group& group = request->groups[i];
    Verdict& verdict = record->verdicts[i];
    for (size_t c = 0; c < group.conditions.size() && verdict.failed_condition == Verdict::kNone;
         ++c) {
      if (!Holds(group.conditions[c])) verdict.failed_condition = static_cast<uint16_t>(c);
    }
    verdict.applied = verdict.failed_condition == Verdict::kNone;
    if (!verdict.applied) continue;
    seq_ = seq_before + 1;
    for (const Mutation& mutation : group.mutations) ApplyMutation(mutation, *record);
  }
  Decision decision;
  decision.answer = CommitResult{seq_, store_time_, record->verdicts};
  if (seq_ == seq_before) return decision;
  wrote_ = true;
  record->seq = seq_;
  record->store_time = store_time_;
  record->bytes = BytesOf(*request);
  record->request = std::move(request);
  layer_->records.push_back(record);
  decision.record = std::move(record);
  return decision;
}

bool CommitEngine::Holds(const Condition& condition) {
  const bool seen = condition.since != 0 && condition.since <= seq_ &&
                    condition.kind != Condition::Kind::kRangeCount &&
                    recent_.UnchangedSince(condition.cf, condition.key, condition.since);
  switch (condition.kind) {
    case Condition::Kind::kUnchangedSince:
      // Sequence 0 means an empty store: every key is unchanged since then until it is touched.
      return condition.since <= seq_ &&
             recent_.UnchangedSince(condition.cf, condition.key, condition.since);
    case Condition::Kind::kStampPassed:
      return StampPassed(condition);
    case Condition::Kind::kRangeCount:
      return RangeCountIs(condition);
    case Condition::Kind::kTimeBefore:
      return ToMicros(store_time_) < static_cast<int64_t>(condition.number);
    default:
      break;
  }
  if (seen) return true;
  absl::string_view value;
  const bool present = Get(condition.cf, condition.key, value);
  switch (condition.kind) {
    case Condition::Kind::kAbsent:
      return !present;
    case Condition::Kind::kPresent:
      return present;
    case Condition::Kind::kValueEquals:
      return present && value == condition.value;
    case Condition::Kind::kValuePrefix:
      return present && absl::StartsWith(value, condition.value);
    default:
      return false;
  }
}

bool CommitEngine::Get(ColumnFamily cf, absl::string_view key, absl::string_view& value) {
  // Most keys are as the base has them. Then no overlay needs to index its effects.
  const Layer& oldest = under_way_.empty() ? *layer_ : *under_way_.front();
  if (!recent_.UnchangedSince(cf, key, oldest.begin_seq))
    return layer_->overlay.Get(cf, key, value);
  if (!base_.Get(cf, key, scratch_)) return false;
  value = scratch_;
  return true;
}

bool CommitEngine::StampPassed(const Condition& condition) {
  absl::string_view value;
  if (!stamps_may_pass_ || !Get(condition.cf, condition.key, value)) return false;
  if (value.size() < 8 || condition.number > value.size() - 8) return false;
  return static_cast<int64_t>(ReadBigEndian<uint64_t>(value.substr(condition.number))) <=
         ToMicros(store_time_);
}

bool CommitEngine::RangeCountIs(const Condition& condition) {
  uint64_t count = 0;
  layer_->overlay.ForEachKey(condition.cf, condition.key, condition.value,
                             [&](absl::string_view) { return ++count <= condition.number; });
  return count == condition.number;
}

absl::string_view CommitEngine::Keep(std::string bytes) {
  layer_->kept.push_back(std::make_unique<std::string>(std::move(bytes)));
  return *layer_->kept.back();
}

void CommitEngine::ApplyMutation(const Mutation& mutation, CommitRecord& record) {
  absl::string_view value = mutation.value;
  switch (mutation.kind) {
    case Mutation::Kind::kDeleteRange:
      ApplyDeleteRange(mutation);
      return;
    case Mutation::Kind::kDelete:
      sink_->Delete(mutation.cf, mutation.key);
      layer_->overlay.Delete(mutation.cf, mutation.key);
      recent_.Touch(mutation.cf, mutation.key, seq_);
      return;
    case Mutation::Kind::kPutStamped: {
      std::string stamp;
      AppendBigEndian<uint64_t>(&stamp,
                                static_cast<uint64_t>(ToMicros(store_time_ + mutation.stamp_add)));
      std::string stamped = mutation.value;
      stamped.replace(mutation.stamp_offset, stamp.size(), stamp);
      record.stamped.push_back(stamped);
      value = Keep(std::move(stamped));
      break;
    }
    case Mutation::Kind::kPut:
      break;
  }
  sink_->Put(mutation.cf, mutation.key, value);
  layer_->overlay.Put(mutation.cf, mutation.key, value);
  recent_.Touch(mutation.cf, mutation.key, seq_);
}

void CommitEngine::ApplyDeleteRange(const Mutation& mutation) {
  const size_t single_max = HasRangeTombstones(mutation.cf) ? kSingleDeletesMax : SIZE_MAX;
  std::vector<absl::string_view> keys;
  layer_->overlay.ForEachKey(mutation.cf, mutation.key, mutation.value, [&](absl::string_view key) {
    keys.push_back(Keep(std::string(key)));
    return keys.size() <= single_max;
  });
  if (keys.size() > single_max) {
    sink_->DeleteRange(mutation.cf, mutation.key, mutation.value);
    layer_->overlay.DeleteRange(mutation.cf, mutation.key, mutation.value);
    recent_.TouchRange(mutation.cf, mutation.key, mutation.value, seq_);
    return;
  }
  for (absl::string_view key : keys) {
    sink_->Delete(mutation.cf, key);
    layer_->overlay.Delete(mutation.cf, key);
    recent_.Touch(mutation.cf, key, seq_);
  }
}

}  // namespace escapement::kv

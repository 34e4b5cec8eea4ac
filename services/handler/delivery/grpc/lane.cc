#include "services/handler/delivery/grpc/lane.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/check.h"
#include "common/base/printable_text.h"
#include "common/base/proto_time.h"
#include "escapement/storage/v1/records.pb.h"
#include "escapement/v1/trigger_receiver_service.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/proto_utils.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace escapement::handler {

void StreamEnds::AddStream() {
  absl::MutexLock lock(&mutex_);
  ++running_;
}

void StreamEnds::RemoveStream(std::shared_ptr<GrpcLane> lane) {
  absl::MutexLock lock(&mutex_);
  left_.push_back(std::move(lane));
  TakeFrom<uint64_t>(running_, 1);
}

void StreamEnds::Leave(std::shared_ptr<grpc::Channel> channel) {
  absl::MutexLock lock(&mutex_);
  channels_.push_back(std::move(channel));
}

void StreamEnds::Drop() {
  std::vector<std::shared_ptr<GrpcLane>> left;
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  absl::MutexLock lock(&mutex_);
  left.swap(left_);
  channels.swap(channels_);
}

void StreamEnds::AwaitAll() {
  {
    const auto none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return running_ == 0; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&none));
  }
  Drop();
}

namespace {

using google::protobuf::io::CodedOutputStream;

// The functions below write fields with numbers below 16 (so a tag is one byte) to a buffer that
// has room for them, and return the end of the written bytes.

constexpr size_t kNumberBytesMax = 1 + 10;
constexpr size_t kTimeBytesMax = 2 + 2 * kNumberBytesMax;

uint8_t* WriteNumber(int field, uint64_t value, uint8_t* to) {
  if (value == 0) return to;
  *to++ = static_cast<uint8_t>(field << 3);
  return CodedOutputStream::WriteVarint64ToArray(value, to);
}

uint8_t* WriteBytes(int field, absl::string_view value, uint8_t* to) {
  if (value.empty()) return to;
  *to++ = static_cast<uint8_t>((field << 3) | 2);
  to = CodedOutputStream::WriteVarint64ToArray(value.size(), to);
  std::memcpy(to, value.data(), value.size());
  return to + value.size();
}

// A google.protobuf.Timestamp.
uint8_t* WriteTime(int field, absl::Time time, uint8_t* to) {
  const int64_t micros = ToMicros(time);
  int64_t seconds = micros / 1'000'000;
  if (micros % 1'000'000 < 0) --seconds;
  *to++ = static_cast<uint8_t>((field << 3) | 2);
  uint8_t* const size = to++;  // one byte
  to = WriteNumber(google::protobuf::Timestamp::kSecondsFieldNumber, static_cast<uint64_t>(seconds),
                   to);
  to = WriteNumber(google::protobuf::Timestamp::kNanosFieldNumber,
                   static_cast<uint64_t>(micros - seconds * 1'000'000) * 1000, to);
  *size = static_cast<uint8_t>(to - size - 1);
  return to;
}

// The fields that all attempts of the context's events share.
size_t CommonBytesMax(const DeliveryContext& context, absl::string_view source) {
  return source.size() + context.occurrence.size() + context.payload.size() +
         context.definition->delivery().content_type().size() + context.trace_parent.size() +
         6 * kNumberBytesMax + 2 * kTimeBytesMax;
}

uint8_t* WriteCommon(const DeliveryContext& context, absl::string_view source, uint8_t* to) {
  to = WriteBytes(v1::Delivery::kSourceFieldNumber, source, to);
  to = WriteTime(v1::Delivery::kNominalTimeFieldNumber, context.nominal_time, to);
  to = WriteTime(v1::Delivery::kLaunchTimeFieldNumber, context.launch_time, to);
  to = WriteBytes(v1::Delivery::kOccurrenceFieldNumber, context.occurrence, to);
  to = WriteNumber(v1::Delivery::kCountFieldNumber, context.run_count, to);
  to = WriteBytes(v1::Delivery::kContentTypeFieldNumber,
                  context.definition->delivery().content_type(), to);
  to = WriteBytes(v1::Delivery::kTraceParentFieldNumber, context.trace_parent, to);
  return WriteBytes(v1::Delivery::kPayloadFieldNumber, context.payload, to);
}

uint8_t* Begin(std::string& bytes) { return reinterpret_cast<uint8_t*>(bytes.data()); }

}  // namespace

void DeliveryEncoder::Encode(const DeliveryAttempt& attempt, uint64_t delivery_number,
                             std::string* bytes) {
  const DeliveryContext& context = *attempt.context;
  const bool shared = context.run_count > 1;
  const std::string source =
      shared && context_ == attempt.context ? std::string() : context.Source();
  if (shared && context_ != attempt.context) {
    common_.resize(CommonBytesMax(context, source));
    const uint8_t* const end = WriteCommon(context, source, Begin(common_));
    common_.resize(static_cast<size_t>(end - Begin(common_)));
    context_ = attempt.context;
  }
  bytes->resize(attempt.event_id.size() + attempt.token.size() + 5 * kNumberBytesMax +
                (shared ? common_.size() : CommonBytesMax(context, source)));
  uint8_t* to = Begin(*bytes);
  to = WriteNumber(v1::Delivery::kDeliveryNumberFieldNumber, delivery_number, to);
  to = WriteBytes(v1::Delivery::kEventIdFieldNumber, attempt.event_id, to);
  to = WriteNumber(v1::Delivery::kIndexFieldNumber, attempt.index, to);
  to = WriteNumber(v1::Delivery::kAttemptFieldNumber, attempt.attempt, to);
  to = WriteBytes(v1::Delivery::kTokenFieldNumber, attempt.token, to);
  if (shared) {
    std::memcpy(to, common_.data(), common_.size());
    to += common_.size();
  } else {
    to = WriteCommon(context, source, to);
  }
  bytes->resize(static_cast<size_t>(to - Begin(*bytes)));
}

namespace {

constexpr char kMethod[] = "/escapement.v1.TriggerReceiver/Deliver";
// The longest time that a write into gRPC's buffer takes.
constexpr MonotonicMicros kWriteMax = 100'000;
constexpr char kStopping[] = "the platform is stopping";

DeliveryResult UnknownResult(const std::string& why, int32_t status_code = grpc::StatusCode::OK) {
  return {.status = DeliveryStatus::kUnknown, .message = why, .status_code = status_code};
}

DeliveryResult NotSent(std::string why, int32_t status_code = grpc::StatusCode::OK) {
  return {.status = DeliveryStatus::kFailed,
          .not_sent = true,
          .message = std::move(why),
          .status_code = status_code};
}

// True if gRPC had no connection for the call, so that nothing was written.
bool HadNoConnection(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE &&
         absl::StrContains(status.error_message(), "failed to connect to all addresses");
}

DeliveryWork ToWork(v1::DeliveryResult::Work work) {
  if (work == v1::DeliveryResult::WORK_SUCCEEDED) return DeliveryWork::kSucceeded;
  if (work == v1::DeliveryResult::WORK_FAILED) return DeliveryWork::kFailed;
  return DeliveryWork::kGoesOn;
}

DeliveryResult ToDeliveryResult(const v1::DeliveryResult& from) {
  DeliveryResult result;
  result.message = CleanText(from.message(), kDeliveryMessageBytesMax);
  switch (from.status()) {
    case v1::DeliveryResult::ACCEPTED:
      result.status = DeliveryStatus::kAccepted;
      result.answer = result.message;
      result.work = ToWork(from.work());
      break;
    case v1::DeliveryResult::REJECTED:
      result.status = DeliveryStatus::kRejected;
      if (result.message.empty())
        result.message = "the consumer answered REJECTED without a message";
      break;
    default:  // a receiver that forgets the status has not accepted
      result.status = DeliveryStatus::kFailed;
      if (result.message.empty()) result.message = "the consumer answered FAILED without a message";
      result.retry_after = std::clamp(absl::Milliseconds(from.retry_after_millis()),
                                      absl::ZeroDuration(), kRetryAfterMax);
  }
  return result;
}

}  // namespace

// One call of Deliver. The flags are guarded by the lane's lock.
class GrpcLane::Stream final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, v1::DeliveryResult> {
 public:
  Stream(std::shared_ptr<GrpcLane> lane, const std::shared_ptr<grpc::Channel>& channel)
      : lane_(std::move(lane)), stub_(channel) {
    stub_.PrepareBidiStreamingCall(&context_, kMethod, {}, this);
  }

  void Start() {
    AddHold();  // for the writes from outside; released by OnReadDone(false)
    StartRead(&result_);
    StartCall();
  }

  void Write(absl::string_view bytes, bool more) {
    const grpc::Slice slice(bytes.data(), bytes.size());
    request_ = grpc::ByteBuffer(&slice, 1);
    grpc::WriteOptions options;
    if (more) options.set_buffer_hint();
    StartWrite(&request_, options);
  }

  void Cancel() { context_.TryCancel(); }

  void OnWriteDone(bool ok) override { lane_->OnWritten(this, ok); }

  void OnReadDone(bool ok) override {
    if (!ok) {
      lane_->OnBroken(this);
      RemoveHold();
      return;
    }
    lane_->OnResult(this, result_);
    StartRead(&result_);
  }

  void OnDone(const grpc::Status& status) override {
    std::shared_ptr<GrpcLane> lane = lane_;
    const std::shared_ptr<StreamEnds> ends = lane->ends_;
    lane->OnEnded(this, status);  // deletes this
    ends->RemoveStream(std::move(lane));
  }

  bool writing = false;
  bool broken = false;           // no further write may begin
  bool closing = false;          // closed by us because it was idle
  MonotonicMicros heard_at = 0;  // when the last result came; 0: none has come
  // The earliest time at which an attempt was written that has expired since the last result.
  // kNeverMicros: none has expired.
  MonotonicMicros lost_since = kNeverMicros;
  // The receiver seems to be gone: the lane writes nothing more, and opens another stream once
  // every attempt of this one has ended.
  bool silent = false;

 private:
  const std::shared_ptr<GrpcLane> lane_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, v1::DeliveryResult> stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  v1::DeliveryResult result_;
};

GrpcLane::GrpcLane(const GrpcTransport::Options& options,
                   const storage::v1::GrpcTargetRecord& target, NameResolver& resolver,
                   std::shared_ptr<StreamEnds> ends, std::function<void(MonotonicMicros)> tick_by)
    : options_(options),
      resolver_(resolver),
      ends_(std::move(ends)),
      tick_by_(std::move(tick_by)),
      target_(options, target) {}

GrpcLane::~GrpcLane() = default;

bool GrpcLane::Send(std::vector<DeliveryAttempt>* attempts,
                    const std::shared_ptr<DeliverySink>& sink) {
  const MonotonicMicros now = MonotonicNow();
  Answers answers;
  absl::ReleasableMutexLock lock(&mutex_);
  if (retired_) return false;
  for (DeliveryAttempt& attempt : *attempts) {
    const MonotonicMicros deadline =
        now + std::max<int64_t>(0, absl::ToInt64Microseconds(attempt.context->timeout));
    earliest_deadline_ = std::min(earliest_deadline_, deadline);
    waiting_.push_back({std::move(attempt), sink, deadline});
  }
  idle_at_ = now + absl::ToInt64Microseconds(options_.idle_timeout);
  OpenStream(now, &answers);
  WriteNext();
  tick_by_(NextTick());
  lock.Release();
  GiveAnswers(std::move(answers));
  return true;
}

bool GrpcLane::IsOld(MonotonicMicros now) const {
  absl::MutexLock lock(&mutex_);
  return channel_ != nullptr &&
         now - opened_ > absl::ToInt64Microseconds(options_.connection_age_max);
}

void GrpcLane::OpenStream(MonotonicMicros now, Answers* answers) {
  if (stream_ != nullptr || waiting_.empty() || retired_ || now < reconnect_at_) return;
  if (channel_ == nullptr) {
    if (resolving_) return;
    if (target_.place().ok() && !target_.has_address()) {
      resolving_ = true;
      return resolver_.Resolve(target_.place()->host,
                               [weak = weak_from_this()](NameResolver::Answer addresses) {
                                 const std::shared_ptr<GrpcLane> lane = weak.lock();
                                 if (lane != nullptr) lane->OnResolved(std::move(addresses));
                               });
    }
    UseAddresses(target_.has_address() ? NameResolver::Answer({target_.place()->host})
                                       : NameResolver::Answer(target_.place().status()),
                 answers);
    if (channel_ == nullptr) return;
  }
  ends_->AddStream();
  stream_ = new Stream(shared_from_this(), channel_);
  stream_->Start();
}

void GrpcLane::UseAddresses(NameResolver::Answer addresses, Answers* answers) {
  if (!addresses.ok()) {
    EndWaiting(NotSent(CleanText(addresses.status().message(), kDeliveryMessageBytesMax)), answers);
    return BackOff(MonotonicNow());
  }
  std::erase_if(*addresses, [this](const std::string& address) {
    return !options_.addresses->Allows(address);
  });
  if (addresses->empty()) {
    EndWaiting(NotSent("the address of the target is not allowed"), answers);
    return BackOff(MonotonicNow());
  }
  channel_ = target_.Open(*addresses);
  opened_ = MonotonicNow();
}

void GrpcLane::OnResolved(NameResolver::Answer addresses) {
  Answers answers;
  {
    absl::MutexLock lock(&mutex_);
    resolving_ = false;
    if (retired_) return;
    UseAddresses(std::move(addresses), &answers);
    if (channel_ != nullptr) {
      OpenStream(MonotonicNow(), &answers);
      WriteNext();
    }
    tick_by_(NextTick());
  }
  GiveAnswers(std::move(answers));
}

void GrpcLane::BackOff(MonotonicMicros now) {
  backoff_ = std::clamp(backoff_ * 2, options_.reconnect_min, options_.reconnect_max);
  reconnect_at_ = now + absl::ToInt64Microseconds(backoff_);
}

void GrpcLane::WriteNext() {
  if (stream_ == nullptr || stream_->writing || stream_->broken || stream_->silent ||
      waiting_.empty())
    return;
  const Waiting next = std::move(waiting_.front());
  waiting_.pop_front();
  const uint64_t number = next_number_++;
  const MonotonicMicros now = MonotonicNow();
  encoder_.Encode(next.attempt, number, &bytes_);
  CHECK(unanswered_.emplace(number, Unanswered{next.attempt.tag, next.sink, next.deadline, now})
            .second);
  stream_->writing = true;
  // With the hint, gRPC keeps a message in its buffer until the next one. So the hint is never set
  // on the last message of the queue, or if all messages behind it may expire during the write.
  const bool more = !waiting_.empty() && waiting_.back().deadline > now + kWriteMax;
  stream_->Write(bytes_, more);
}

MonotonicMicros GrpcLane::NextTick() const {
  if (stream_ == nullptr && waiting_.empty() && unanswered_.empty())
    return 0;  // the lane can be retired
  MonotonicMicros at = earliest_deadline_;
  // OnResolved continues after a look-up.
  if (stream_ == nullptr && !waiting_.empty() && !resolving_) at = std::min(at, reconnect_at_);
  if (stream_ != nullptr && !stream_->closing) at = std::min(at, idle_at_);
  return at;
}

std::optional<MonotonicMicros> GrpcLane::Tick(MonotonicMicros now) {
  Answers answers;
  std::optional<MonotonicMicros> next;
  {
    absl::MutexLock lock(&mutex_);
    if (now >= earliest_deadline_) ExpireAll(now, &answers);
    GiveUpSilent(now);
    OpenStream(now, &answers);
    WriteNext();
    const bool holds_attempts = !waiting_.empty() || !unanswered_.empty();
    if (stream_ != nullptr && now >= idle_at_) {
      idle_at_ = now + absl::ToInt64Microseconds(options_.idle_timeout);
      if (!holds_attempts && !stream_->writing) {
        stream_->closing = true;
        stream_->broken = true;  // new attempts wait for the next stream
        stream_->Cancel();
      }
    }
    if (stream_ == nullptr && !holds_attempts) {
      retired_ = true;
    } else {
      next = NextTick();
    }
  }
  GiveAnswers(std::move(answers));
  return next;
}

void GrpcLane::ExpireAll(MonotonicMicros now, Answers* answers) {
  earliest_deadline_ = kNeverMicros;
  std::deque<Waiting> kept;
  for (Waiting& waiting : waiting_) {
    if (waiting.deadline <= now) {
      answers->push_back({std::move(waiting.sink), waiting.attempt.tag,
                          NotSent("timed out before it could be sent")});
      continue;
    }
    earliest_deadline_ = std::min(earliest_deadline_, waiting.deadline);
    kept.push_back(std::move(waiting));
  }
  waiting_ = std::move(kept);
  for (auto entry = unanswered_.begin(); entry != unanswered_.end();) {
    const auto current = entry++;
    Unanswered& unanswered = current->second;
    if (unanswered.deadline > now) {
      earliest_deadline_ = std::min(earliest_deadline_, unanswered.deadline);
      continue;
    }
    if (stream_ != nullptr && unanswered.written > stream_->heard_at)
      stream_->lost_since = std::min(stream_->lost_since, unanswered.written);
    answers->push_back(
        {std::move(unanswered.sink),
         unanswered.tag,
         {.status = DeliveryStatus::kUnknown, .message = "timed out without an answer"}});
    unanswered_.erase(current);
  }
}

// Waits for the attempts that may still be answered, unless one may take longer than silence_max.
void GrpcLane::GiveUpSilent(MonotonicMicros now) {
  if (stream_ == nullptr || stream_->broken || stream_->lost_since == kNeverMicros) return;
  const MonotonicMicros silence_max = absl::ToInt64Microseconds(options_.silence_max);
  if (now - stream_->lost_since < silence_max) return;
  stream_->silent = std::all_of(unanswered_.begin(), unanswered_.end(), [&](const auto& entry) {
    return entry.second.deadline <= now + silence_max;
  });
  if (!stream_->silent || !unanswered_.empty()) return;
  stream_->broken = true;
  stream_->Cancel();
}

void GrpcLane::BreakUnanswered(const DeliveryResult& result, Answers* answers) {
  for (auto& [number, unanswered] : unanswered_) {
    answers->push_back({std::move(unanswered.sink), unanswered.tag, result});
  }
  unanswered_.clear();
}

void GrpcLane::EndWaiting(const DeliveryResult& result, Answers* answers) {
  for (Waiting& waiting : waiting_)
    answers->push_back({std::move(waiting.sink), waiting.attempt.tag, result});
  waiting_.clear();
}

void GrpcLane::GiveAnswers(Answers answers) {
  for (Answer& answer : answers) answer.sink->OnResult(answer.tag, std::move(answer.result));
}

void GrpcLane::OnResult(Stream* stream, const v1::DeliveryResult& result) {
  Unanswered unanswered;
  {
    absl::MutexLock lock(&mutex_);
    stream->heard_at = MonotonicNow();
    stream->lost_since = kNeverMicros;
    if (std::exchange(stream->silent, false) && stream == stream_) WriteNext();
    backoff_ = absl::ZeroDuration();
    const auto found = unanswered_.find(result.delivery_number());
    if (found == unanswered_.end()) return;  // past its deadline, or answered twice
    unanswered = std::move(found->second);
    unanswered_.erase(found);
  }
  unanswered.sink->OnResult(unanswered.tag, ToDeliveryResult(result));
}

void GrpcLane::OnWritten(Stream* stream, bool ok) {
  absl::MutexLock lock(&mutex_);
  stream->writing = false;
  if (!ok) stream->broken = true;
  if (stream == stream_) WriteNext();
}

void GrpcLane::OnBroken(Stream* stream) {
  absl::MutexLock lock(&mutex_);
  stream->broken = true;
}

void GrpcLane::OnEnded(Stream* stream, const grpc::Status& status) {
  const std::string why = absl::StrCat(
      "the stream broke: ", status.ok() ? "ended by the receiver" : status.error_message());
  const DeliveryResult unsent = NotSent(why, status.error_code());
  const DeliveryResult broken =
      HadNoConnection(status) ? unsent : UnknownResult(why, status.error_code());
  Answers answers;
  {
    absl::MutexLock lock(&mutex_);
    BreakUnanswered(broken, &answers);
    if (stream->heard_at == 0 && !stream->closing && !stream->silent) EndWaiting(unsent, &answers);
  }
  GiveAnswers(std::exchange(answers, {}));
  const MonotonicMicros now = MonotonicNow();
  {
    absl::MutexLock lock(&mutex_);
    if (!stream->closing) BackOff(now);
    // The name may have other addresses by now.
    if (!stream->closing && !target_.has_address()) ends_->Leave(std::exchange(channel_, nullptr));
    stream_ = nullptr;
    delete stream;
    OpenStream(now, &answers);
    WriteNext();
    if (!retired_) tick_by_(NextTick());
  }
  GiveAnswers(std::move(answers));
}

void GrpcLane::Stop() {
  Answers answers;
  {
    absl::MutexLock lock(&mutex_);
    retired_ = true;
    BreakUnanswered(UnknownResult(kStopping), &answers);
    EndWaiting(UnknownResult(kStopping), &answers);
    if (stream_ != nullptr) stream_->Cancel();
    const auto ended = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stream_ == nullptr; };
    mutex_.Await(absl::Condition(&ended));
  }
  GiveAnswers(std::move(answers));
}

}  // namespace escapement::handler

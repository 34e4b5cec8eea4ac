#include "services/handler/delivery/sqs/sqs_transport.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/http/transfer_loop.h"
#include "services/handler/delivery/result_batch.h"
#include "services/handler/delivery/sqs/message.h"
#include "services/handler/delivery/sqs/request_signer.h"
#include "services/handler/delivery/sqs/send_queues.h"
#include "services/handler/delivery/sqs/timer_thread.h"

ABSL_FLAG(bool, sqs_use_own_credentials, false,
          "SQS targets without credentials use those of this process: AWS_ACCESS_KEY_ID, "
          "AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or AWS_WEB_IDENTITY_TOKEN_FILE with "
          "AWS_ROLE_ARN. Every tenant can then send to the queues that this process may send to");
ABSL_FLAG(int, sqs_batch_bytes_max, 262'144,
          "bytes of the messages in one SQS request together, and so of the largest message; raise "
          "it only if all queues are in services that take more");
ABSL_FLAG(int, sqs_requests_per_queue, 8, "concurrent requests to one SQS queue");

namespace escapement::handler {

namespace {

using Batch = SqsSendQueues::Batch;
using Queue = SqsSendQueues::Queue;
using Waiting = SqsSendQueues::Waiting;

// A request waits for its turn in the loop at most this long. Its attempts expire on their own.
constexpr absl::Duration kTurnTimeout = absl::Hours(24);
// Room for the ends of a request's body, and for longer numbers in its later entries.
constexpr size_t kBodyEndBytes = 64;

const storage::v1::SqsTargetRecord& TargetOf(const DeliveryAttempt& attempt) {
  return attempt.context->definition->delivery().target().sqs();
}

void Answer(Waiting& waiting, DeliveryResult result) {
  std::exchange(waiting.sink, nullptr)->OnResult(waiting.attempt.tag, std::move(result));
}

void AnswerAll(std::vector<Waiting>& attempts, const DeliveryResult& result) {
  for (Waiting& waiting : attempts) Answer(waiting, result);
}

const DeliveryResult& TimedOutUnsent() {
  static const DeliveryResult& result = *new DeliveryResult{
      .status = DeliveryStatus::kUnsent, .message = "timed out before it could be sent"};
  return result;
}

// The result of a request without an answer.
DeliveryResult ResultOfEnd(const TransferEnd& end, const SqsBatchRequest& request) {
  DeliveryResult result = {.status = DeliveryStatus::kUnknown,
                           .message = CleanText(end.error, kDeliveryMessageBytesMax)};
  if (request.broken_twice())
    result.message = "the connection broke before an answer, and so did a second one";
  if (!request.started()) result.status = DeliveryStatus::kFailed;
  // libcurl also reports an answer that is not HTTP as an unsupported protocol.
  if (!request.started() &&
      (end.code == CURLE_URL_MALFORMAT || end.code == CURLE_UNSUPPORTED_PROTOCOL))
    result.status = DeliveryStatus::kRejected;
  result.not_sent = !request.started();
  return result;
}

}  // namespace

class SqsTransport::Core {
 public:
  explicit Core(const Options& options);
  ~Core();

  void Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink);

 private:
  class Request;

  absl::StatusOr<AwsCredentials> CredentialsOf(const DeliveryAttempt& attempt) const;
  // Starts the requests that the queue needs.
  void StartRequests(Queue* queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void OnOwnCredentials();
  MonotonicMicros OnTimer();

  const Options options_;
  std::unique_ptr<OwnCredentials> own_;  // null: not to be used
  SqsMessageWriter writer_;              // used only by the loop's thread
  SqsRequestSigner signer_;              // the same
  absl::Mutex mutex_;
  SqsSendQueues queues_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<TransferLoop> loop_;
  std::unique_ptr<TimerThread> timer_;  // last: it uses the rest
};

// One request. It takes its attempts when the loop starts it.
class SqsTransport::Core::Request final : public Transfer {
 public:
  Request(Core* core, Queue* queue)
      : core_(core), queue_(queue), request_(core->options_.answer_bytes_max) {}

  absl::Status Prepare(CURL* easy) override {
    TakeBatch();
    if (!batch_.attempts.empty()) {
      const absl::StatusOr<AwsCredentials> credentials =
          core_->CredentialsOf(batch_.attempts.front().attempt);
      if (!credentials.ok()) {
        AnswerAll(batch_.attempts,
                  {.status = DeliveryStatus::kFailed, .message = Text(credentials.status())});
      } else if (WriteBody()) {
        const storage::v1::SqsTargetRecord& target = TargetOf(batch_.attempts.front().attempt);
        request_.Prepare(target.endpoint(),
                         core_->signer_.HeaderLines(AwsHostOf(target.endpoint()), target.region(),
                                                    *credentials, request_.body(), absl::Now()),
                         easy);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, MillisLeft());
        return absl::OkStatus();
      }
    }
    Release({}, SqsSendQueues::End::kOther);
    return absl::CancelledError("nothing is left to send");
  }

  void OnEnd(CURL* easy, const TransferEnd& end) override {
    if (batch_.queue == nullptr) return OnUnused();
    std::vector<Waiting> again;
    std::vector<DeliveryResult> results;
    SqsSendQueues::End how = SqsSendQueues::End::kSilent;
    // A cut answer ends with CURLE_WRITE_ERROR.
    if (end.code == CURLE_OK || request_.answer_cut()) {
      const SqsAnswer answer = request_.TakeAnswer(easy);
      how = answer.status == 200 ? SqsSendQueues::End::kTaken : SqsSendQueues::End::kOther;
      results = ResultsOfAnswer(answer, batch_.attempts.size());
      if (batch_.attempts.size() > 1 && BlamesContents(answer)) again = TakeForAnotherTry(results);
    } else {
      results.assign(batch_.attempts.size(), ResultOfEnd(end, request_));
    }
    std::vector<Waiting> attempts = std::move(batch_.attempts);
    Release(std::move(again), how);
    ResultBatch answers;
    for (size_t i = 0; i < attempts.size(); ++i)
      answers.Add(attempts[i].sink, attempts[i].attempt.tag, std::move(results[i]));
  }

 private:
  void TakeBatch() {
    std::vector<Waiting> expired;
    {
      absl::MutexLock lock(&core_->mutex_);
      batch_ = core_->queues_.Take(queue_, MonotonicNow(), &expired);
      claimed_ = false;
      core_->StartRequests(queue_);
    }
    AnswerAll(expired, TimedOutUnsent());
  }

  // Writes the entries that fit, answers attempts that can never be sent, and returns the others to
  // their lanes. False if no entry is left.
  bool WriteBody() {
    const size_t bytes_max = core_->options_.batch_bytes_max;
    std::vector<Waiting> written;
    std::vector<Waiting> rest;
    size_t bytes = 0;
    request_.BeginBody(TargetOf(batch_.attempts.front().attempt).queue_url());
    for (Waiting& waiting : batch_.attempts) {
      if (!rest.empty()) {
        rest.push_back(std::move(waiting));
        continue;
      }
      std::string& body = request_.body();
      const size_t body_before = body.size();
      if (!written.empty()) body.push_back(',');
      const absl::StatusOr<size_t> more =
          core_->writer_.Append(waiting.attempt, written.size(), &body);
      if (more.ok() && bytes + *more <= bytes_max) {
        bytes += *more;
        written.push_back(std::move(waiting));
        // The others are about as long.
        if (written.size() == 1) {
          const size_t others = body.size() * (batch_.attempts.size() - 1);
          body.reserve(body.size() + std::min(others, bytes_max) + kBodyEndBytes);
        }
        continue;
      }
      body.resize(body_before);
      if (more.ok() && *more <= bytes_max) {
        rest.push_back(std::move(waiting));
      } else {
        Answer(waiting, {.status = DeliveryStatus::kRejected,
                         .message = more.ok() ? TooLarge(*more) : Text(more.status())});
      }
    }
    request_.EndBody();
    batch_.attempts = std::move(written);
    if (!rest.empty()) {
      absl::MutexLock lock(&core_->mutex_);
      core_->queues_.PutBack(std::move(rest));
      core_->StartRequests(queue_);
    }
    return !batch_.attempts.empty();
  }

  static std::string Text(const absl::Status& status) { return std::string(status.message()); }

  std::string TooLarge(size_t bytes) const {
    return absl::StrCat("the message has ", bytes, " bytes with its attributes, and SQS takes ",
                        core_->options_.batch_bytes_max);
  }

  long MillisLeft() const {
    MonotonicMicros deadline = kNeverMicros;
    for (const Waiting& waiting : batch_.attempts) deadline = std::min(deadline, waiting.deadline);
    return std::max<long>((deadline - MonotonicNow()) / 1000, 1);
  }

  // Moves the attempts that have time for another try, and removes their results.
  std::vector<Waiting> TakeForAnotherTry(std::vector<DeliveryResult>& results) {
    const MonotonicMicros now = MonotonicNow();
    std::vector<Waiting> again;
    std::vector<Waiting> ended;
    for (Waiting& waiting : batch_.attempts) {
      waiting.alone = true;
      (waiting.start_by > now ? again : ended).push_back(std::move(waiting));
    }
    batch_.attempts = std::move(ended);
    results.resize(batch_.attempts.size());  // they are all the same
    return again;
  }

  void Release(std::vector<Waiting> again, SqsSendQueues::End how) {
    absl::MutexLock lock(&core_->mutex_);
    core_->queues_.PutBack(std::move(again));
    core_->queues_.Release(std::exchange(batch_, Batch()), how);
    core_->StartRequests(queue_);
  }

  void OnUnused() {
    absl::MutexLock lock(&core_->mutex_);
    if (!std::exchange(claimed_, false)) return;
    core_->queues_.Unclaim(queue_);
    core_->StartRequests(queue_);
  }

  Core* const core_;
  Queue* const queue_;
  bool claimed_ = true;  // and nothing is taken yet
  Batch batch_;
  SqsBatchRequest request_;
};

SqsTransport::Core::Core(const Options& options)
    : options_(options),
      own_(options.own_credentials.has_value()
               ? std::make_unique<OwnCredentials>(*options.own_credentials,
                                                  [this] { OnOwnCredentials(); })
               : nullptr),
      queues_(options.requests_per_queue_max, own_ == nullptr || own_->known()),
      loop_(std::make_unique<TransferLoop>(
          TransferLoop::Options{.name = "sqs",
                                .protocols = "http,https",
                                .addresses = options.addresses,
                                .transfers_max = options.requests_max,
                                .connections_max = options.requests_max,
                                .connect_timeout = options.connect_timeout})) {
  CHECK(options_.addresses != nullptr) << "without a rule every address would be allowed";
  // OnTimer takes the mutex first, so it begins when `timer_` is set.
  absl::MutexLock lock(&mutex_);
  timer_ = std::make_unique<TimerThread>("sqs-timer", [this] { return OnTimer(); });
}

SqsTransport::Core::~Core() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  timer_.reset();
  loop_.reset();
  std::vector<Waiting> waiting;
  {
    absl::MutexLock lock(&mutex_);
    waiting = queues_.TakeAll();
  }
  AnswerAll(waiting, {.status = DeliveryStatus::kUnsent, .message = "the platform is stopping"});
}

void SqsTransport::Core::Send(std::vector<DeliveryAttempt> attempts,
                              std::shared_ptr<DeliverySink> sink) {
  absl::MutexLock lock(&mutex_);
  Queue* const queue = queues_.Add(std::move(attempts), sink, MonotonicNow());
  StartRequests(queue);
  timer_->WakeBy(queues_.expire_at());
}

absl::StatusOr<AwsCredentials> SqsTransport::Core::CredentialsOf(
    const DeliveryAttempt& attempt) const {
  const std::string& given = TargetOf(attempt).credentials();
  if (!given.empty()) return ParseSqsCredentials(given);
  if (own_ == nullptr) {
    return absl::FailedPreconditionError(
        "the target has no credentials, and the operator does not allow the use of the handler's "
        "own (--sqs_use_own_credentials)");
  }
  ASSIGN_OR_RETURN(const auto own, own_->Current());
  return *own;
}

void SqsTransport::Core::StartRequests(Queue* queue) {
  if (stopping_) return;
  for (int more = queues_.Claim(queue); more > 0; --more)
    loop_->Start(std::make_unique<Request>(this, queue), kTurnTimeout);
}

void SqsTransport::Core::OnOwnCredentials() {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return;
  for (Queue* queue : queues_.AllowOwn()) StartRequests(queue);
  timer_->WakeBy(own_->fetch_at());
}

MonotonicMicros SqsTransport::Core::OnTimer() {
  const MonotonicMicros now = MonotonicNow();
  std::vector<Waiting> expired;
  MonotonicMicros next;
  {
    absl::MutexLock lock(&mutex_);
    expired = queues_.Expire(now);
    next = queues_.expire_at();
  }
  AnswerAll(expired, TimedOutUnsent());
  if (own_ == nullptr) return next;
  own_->FetchIfDue(*loop_, now);
  return std::min(next, own_->fetch_at());
}

SqsTransport::SqsTransport(const Options& options) : core_(std::make_unique<Core>(options)) {}

SqsTransport::~SqsTransport() = default;

void SqsTransport::Send(std::vector<DeliveryAttempt> attempts, std::shared_ptr<DeliverySink> sink) {
  if (!attempts.empty()) core_->Send(std::move(attempts), std::move(sink));
}

void ValidateSqsFlags(std::vector<std::string>& errors) {
  if (absl::GetFlag(FLAGS_sqs_batch_bytes_max) < 1024 ||
      absl::GetFlag(FLAGS_sqs_batch_bytes_max) > 1'048'576) {
    errors.push_back("--sqs_batch_bytes_max: must be from 1024 to 1048576");
  }
  if (absl::GetFlag(FLAGS_sqs_requests_per_queue) < 1 ||
      absl::GetFlag(FLAGS_sqs_requests_per_queue) > 64) {
    errors.push_back("--sqs_requests_per_queue: must be from 1 to 64");
  }
}

std::unique_ptr<DeliveryTransport> NewSqsTransportFromFlags(
    std::shared_ptr<const AddressRule> addresses) {
  SqsTransport::Options options;
  options.addresses = std::move(addresses);
  if (absl::GetFlag(FLAGS_sqs_use_own_credentials))
    options.own_credentials = AwsEnvironment::OfProcess();
  options.batch_bytes_max = static_cast<size_t>(absl::GetFlag(FLAGS_sqs_batch_bytes_max));
  options.requests_per_queue_max = absl::GetFlag(FLAGS_sqs_requests_per_queue);
  return std::make_unique<SqsTransport>(options);
}

}  // namespace escapement::handler

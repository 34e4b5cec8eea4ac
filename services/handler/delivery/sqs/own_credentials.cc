#include "services/handler/delivery/sqs/own_credentials.h"

#include <curl/curl.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/printable_text.h"

namespace escapement::handler {
namespace {

constexpr size_t kAnswerBytesMax = 64 << 10;
constexpr size_t kReasonBytesMax = 512;

MonotonicMicros After(absl::Duration duration) { return MonotonicNow() + TimeoutMicros(duration); }

}  // namespace

absl::StatusOr<AwsCredentials> ParseSqsCredentials(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits(':', 2));
  AwsCredentials read;
  if (parts.size() >= 2) {
    read = {.access_key_id = std::string(parts[0]),
            .secret_access_key = std::string(parts[1]),
            .session_token = std::string(parts.size() == 3 ? parts[2] : "")};
  }
  if (!IsUsable(read)) return absl::InvalidArgumentError("the target's credentials are malformed");
  return read;
}

// The request to STS.
class OwnCredentials::Fetch final : public Transfer {
 public:
  Fetch(OwnCredentials* owner, StsRequest request) : owner_(owner), request_(std::move(request)) {}

  absl::Status Prepare(CURL* easy) override {
    curl_easy_setopt(easy, CURLOPT_URL, request_.url.c_str());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request_.body.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request_.body.size()));
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Fetch::OnBody);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
    return absl::OkStatus();
  }

  void OnEnd(CURL* easy, const TransferEnd& end) override {
    if (end.code != CURLE_OK) {
      return owner_->OnFetched(
          absl::UnavailableError(absl::StrCat("STS: ", CleanText(end.error, kReasonBytesMax))));
    }
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    owner_->OnFetched(ReadStsAnswer(status, answer_));
  }

 private:
  static size_t OnBody(char* data, size_t size, size_t count, void* self) {
    std::string& answer = static_cast<Fetch*>(self)->answer_;
    if (answer.size() + size * count > kAnswerBytesMax) return 0;
    answer.append(data, size * count);
    return size * count;
  }

  OwnCredentials* const owner_;
  const StsRequest request_;
  std::string answer_;
};

OwnCredentials::OwnCredentials(AwsEnvironment environment, std::function<void()> on_fetched)
    : environment_(std::move(environment)),
      on_fetched_(std::move(on_fetched)),
      identity_(environment_) {
  absl::MutexLock lock(&mutex_);
  if (identity_.fetches()) fetch_at_ = 0;
}

bool OwnCredentials::known() const {
  absl::MutexLock lock(&mutex_);
  return identity_.known();
}

absl::StatusOr<std::shared_ptr<const AwsCredentials>> OwnCredentials::Current() const {
  absl::MutexLock lock(&mutex_);
  auto current = identity_.Current(absl::Now());
  if (current.ok()) return current;
  return absl::FailedPreconditionError(
      absl::StrCat("the handler has no credentials of its own: ", current.status().message()));
}

MonotonicMicros OwnCredentials::fetch_at() const {
  absl::MutexLock lock(&mutex_);
  return fetch_at_;
}

void OwnCredentials::FetchIfDue(TransferLoop& loop, MonotonicMicros now) {
  {
    absl::MutexLock lock(&mutex_);
    if (fetch_at_ > now) return;
    fetch_at_ = kNeverMicros;  // until OnFetched
  }
  absl::StatusOr<StsRequest> request = MakeStsRequest(environment_);
  if (!request.ok()) return OnFetched(request.status());
  loop.Start(std::make_unique<Fetch>(this, *std::move(request)), AwsIdentity::kFetchTimeout);
}

void OwnCredentials::OnFetched(absl::StatusOr<StsCredentials> fetched) {
  {
    absl::MutexLock lock(&mutex_);
    fetch_at_ = After(identity_.OnFetched(std::move(fetched), absl::Now()));
  }
  on_fetched_();
}

}  // namespace escapement::handler

#include <curl/curl.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "escapement/v1/trigger_receiver_service.grpc.pb.h"
#include "grpcpp/grpcpp.h"
#include "tests/bench/raw/raw_limits.h"

namespace escapement::bench {
namespace {

constexpr uint64_t kUnansweredMax = 4096;

class RawStream final : public grpc::ClientBidiReactor<v1::Delivery, v1::DeliveryResult> {
 public:
  RawStream(v1::TriggerReceiver::Stub* stub, uint64_t deliveries, size_t payload_bytes)
      : deliveries_(deliveries) {
    delivery_.set_source("/tenants/raw/schedules/grpc");
    delivery_.set_occurrence("2026-03-01T00:00:00Z");
    delivery_.set_count(static_cast<int64_t>(deliveries));
    delivery_.set_attempt(1);
    delivery_.set_payload(std::string(payload_bytes, 'r'));
    delivery_.set_content_type("application/json");
    stub->async()->Deliver(&context_, this);
    AddHold();
    StartRead(&result_);
    {
      absl::MutexLock lock(&mutex_);
      WriteNext();
    }
    StartCall();
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    writing_ = false;
    if (ok) WriteNext();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return RemoveHold();
    {
      absl::MutexLock lock(&mutex_);
      ++answered_;
      WriteNext();
      if (answered_ == deliveries_) context_.TryCancel();
    }
    StartRead(&result_);
  }

  void OnDone(const grpc::Status&) override { done_.Notify(); }

  void Wait() { done_.WaitForNotification(); }

 private:
  void WriteNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || written_ == deliveries_ || written_ - answered_ >= kUnansweredMax) return;
    writing_ = true;
    ++written_;
    delivery_.set_delivery_number(written_);
    delivery_.set_event_id(absl::StrCat("0123456789abcdef0123456789", written_));
    delivery_.set_index(static_cast<int64_t>(written_));
    grpc::WriteOptions options;
    if (written_ < deliveries_ && written_ - answered_ < kUnansweredMax) options.set_buffer_hint();
    StartWrite(&delivery_, options);
  }

  const uint64_t deliveries_;
  grpc::ClientContext context_;
  v1::Delivery delivery_;
  v1::DeliveryResult result_;
  absl::Mutex mutex_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t written_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t answered_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Notification done_;
};

}  // namespace

double RawGrpcStream(const std::string& target, uint64_t deliveries, size_t payload_bytes) {
  const auto stub = v1::TriggerReceiver::NewStub(NewChannel(target));
  const absl::Time begin = absl::Now();
  RawStream stream(stub.get(), deliveries, payload_bytes);
  stream.Wait();
  return static_cast<double>(deliveries) / absl::ToDoubleSeconds(absl::Now() - begin);
}

double RawCurl(const std::string& origin, uint64_t requests, size_t payload_bytes, int in_flight,
               const std::string& ca) {
  const std::string payload(payload_bytes, 'r');
  // As in a delivery, the header lines are one entry of the list.
  std::string lines =
      "Content-Type: application/json\r\nUser-Agent: raw\r\nce-specversion: 1.0\r\nce-type: "
      "escapement.trigger.v1\r\n"
      "ce-source: /tenants/raw/schedules/http\r\nce-time: 2026-03-01T00:00:00Z\r\n"
      "Escapement-Count: 1\r\nce-id: 0123456789abcdef0123456789abcdef\r\n"
      "Idempotency-Key: 0123456789abcdef0123456789abcdef\r\nEscapement-Attempt: "
      "1\r\nEscapement-Index: 0\r\n"
      "traceparent: 00-0123456789abcdef0123456789abcdef-0123456789abcdef-00";
  curl_slist headers = {lines.data(), nullptr};
  const std::string uri = origin + "/raw";
  std::vector<CurlHandle> handles;
  for (int i = 0; i < in_flight; ++i) {
    CurlHandle easy = NewCurlHandle();
    curl_easy_setopt(easy.get(), CURLOPT_URL, uri.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, payload.data());
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(payload.size()));
    curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, &headers);
    if (!ca.empty()) {
      curl_blob blob = {const_cast<char*>(ca.data()), ca.size(), CURL_BLOB_COPY};
      curl_easy_setopt(easy.get(), CURLOPT_CAINFO_BLOB, &blob);
      curl_easy_setopt(easy.get(), CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
      curl_easy_setopt(easy.get(), CURLOPT_PIPEWAIT, 1L);
    }
    handles.push_back(std::move(easy));
  }
  return CurlRate(handles, requests);
}

}  // namespace escapement::bench

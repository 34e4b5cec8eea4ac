#include "tests/bench/raw/raw_send.h"

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

size_t Drop(char*, size_t size, size_t count, void*) { return size * count; }

}  // namespace

double RawGrpcStream(const std::string& target, uint64_t deliveries, size_t payload_bytes) {
  const auto stub = v1::TriggerReceiver::NewStub(NewChannel(target));
  const absl::Time begin = absl::Now();
  RawStream stream(stub.get(), deliveries, payload_bytes);
  stream.Wait();
  return static_cast<double>(deliveries) / absl::ToDoubleSeconds(absl::Now() - begin);
}

double RawCurl(const std::string& origin, uint64_t requests, size_t payload_bytes, int in_flight) {
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
  CURLM* multi = curl_multi_init();
  curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, static_cast<long>(in_flight));
  std::vector<CURL*> handles;
  const std::string uri = origin + "/raw";
  for (int i = 0; i < in_flight; ++i) {
    CURL* easy = curl_easy_init();
    curl_easy_setopt(easy, CURLOPT_URL, uri.c_str());
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_POSTFIELDS, payload.data());
    curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, static_cast<long>(payload.size()));
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, &headers);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &Drop);
    handles.push_back(easy);
  }
  const absl::Time begin = absl::Now();
  uint64_t started = 0;
  uint64_t ended = 0;
  for (CURL* easy : handles) {
    if (started == requests) break;
    curl_multi_add_handle(multi, easy);
    ++started;
  }
  while (ended < requests) {
    int running = 0;
    curl_multi_perform(multi, &running);
    int left = 0;
    bool any = false;
    while (CURLMsg* message = curl_multi_info_read(multi, &left)) {
      CURL* easy = message->easy_handle;
      curl_multi_remove_handle(multi, easy);
      ++ended;
      any = true;
      if (started == requests) continue;
      curl_multi_add_handle(multi, easy);
      ++started;
    }
    if (!any && ended < requests) curl_multi_poll(multi, nullptr, 0, 1000, nullptr);
  }
  const double rate = static_cast<double>(requests) / absl::ToDoubleSeconds(absl::Now() - begin);
  for (CURL* easy : handles) {
    curl_multi_remove_handle(multi, easy);
    curl_easy_cleanup(easy);
  }
  curl_multi_cleanup(multi);
  return rate;
}

}  // namespace escapement::bench

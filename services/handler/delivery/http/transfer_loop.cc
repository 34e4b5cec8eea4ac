#include "services/handler/delivery/http/transfer_loop.h"

#include <pthread.h>

#include <algorithm>
#include <cstdint>

#include "common/base/check.h"

namespace escapement::handler {
namespace {

TransferEnd Stopped(bool unsent) {
  return {.code = CURLE_ABORTED_BY_CALLBACK,
          .error = "the platform is stopping",
          .unsent = unsent,
          .refused = false};
}

}  // namespace

TransferLoop::TransferLoop(Options options) : options_(std::move(options)), multi_(NewCurlMulti()) {
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.connections_max));
  thread_ = std::thread([this] { Run(); });
}

TransferLoop::~TransferLoop() {
  std::vector<Waiting> inbox;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    inbox.swap(inbox_);
  }
  curl_multi_wakeup(multi_);
  thread_.join();
  for (auto& [easy, running] : running_) {
    curl_multi_remove_handle(multi_, easy);
    running->transfer->OnEnd(easy, Stopped(/*unsent=*/false));
    curl_easy_cleanup(easy);
  }
  for (Waiting& waiting : waiting_) {
    if (waiting.transfer != nullptr) waiting.transfer->OnEnd(nullptr, Stopped(/*unsent=*/true));
  }
  for (Waiting& waiting : inbox) waiting.transfer->OnEnd(nullptr, Stopped(/*unsent=*/true));
  for (CURL* easy : free_) curl_easy_cleanup(easy);
  curl_multi_cleanup(multi_);
}

void TransferLoop::Start(std::unique_ptr<Transfer> transfer, absl::Duration timeout) {
  const MonotonicMicros now = MonotonicNow();
  bool wake = false;
  {
    absl::MutexLock lock(&mutex_);
    if (!stopping_) {
      wake = inbox_.empty();  // the loop takes all at once
      inbox_.push_back({.transfer = std::move(transfer),
                        .start_by = now + TimeoutMicros(timeout) / 2,
                        .deadline = now + TimeoutMicros(timeout)});
    }
  }
  if (transfer != nullptr) return transfer->OnEnd(nullptr, Stopped(/*unsent=*/true));
  if (wake) curl_multi_wakeup(multi_);
}

void TransferLoop::Run() {
  pthread_setname_np(pthread_self(), options_.name.c_str());
  while (TakeInbox()) {
    EndExpired();
    StartWaiting();
    int running = 0;
    curl_multi_perform(multi_, &running);
    Reap();
    StartWaiting();
    const MonotonicMicros until = by_start_.empty() ? kNeverMicros : by_start_.begin()->first;
    curl_multi_poll(multi_, nullptr, 0, PollMillis(until), nullptr);
  }
}

bool TransferLoop::TakeInbox() {
  std::vector<Waiting> arrived;
  {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return false;
    arrived.swap(inbox_);
  }
  for (Waiting& waiting : arrived) {
    by_start_.emplace(waiting.start_by, first_waiting_ + waiting_.size());
    waiting_.push_back(std::move(waiting));
  }
  return true;
}

void TransferLoop::StartWaiting() {
  while (!waiting_.empty() && running_.size() < static_cast<size_t>(options_.transfers_max))
    StartOne(TakeWaiting(first_waiting_));
}

TransferLoop::Waiting TransferLoop::TakeWaiting(uint64_t number) {
  Waiting taken = std::move(waiting_[number - first_waiting_]);
  by_start_.erase({taken.start_by, number});
  DropTakenInFront();
  return taken;
}

void TransferLoop::DropTakenInFront() {
  while (!waiting_.empty() && waiting_.front().transfer == nullptr) {
    waiting_.pop_front();
    ++first_waiting_;
  }
}

void TransferLoop::StartOne(Waiting waiting) {
  const MonotonicMicros now = MonotonicNow();
  if (waiting.start_by <= now) {
    return waiting.transfer->OnEnd(nullptr, {.code = CURLE_OPERATION_TIMEDOUT,
                                             .error = "timed out before it could be sent",
                                             .unsent = true,
                                             .refused = false});
  }
  CURL* const easy = TakeHandle();
  auto running = std::make_unique<Running>();
  running->transfer = std::move(waiting.transfer);
  running->socket.addresses = options_.addresses.get();
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, std::max<long>((waiting.deadline - now) / 1000, 1));
  absl::Status started = running->transfer->Prepare(easy);
  if (started.ok()) {
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, running->error);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &running->socket);
    const CURLMcode added = curl_multi_add_handle(multi_, easy);
    if (added != CURLM_OK) started = absl::InternalError(curl_multi_strerror(added));
  }
  if (!started.ok()) {
    running->transfer->OnEnd(nullptr, {.code = CURLE_FAILED_INIT,
                                       .error = std::string(started.message()),
                                       .unsent = true,
                                       .refused = false});
    return FreeHandle(easy);
  }
  running_.emplace(easy, std::move(running));
}

// The waiting transfers are in the order of their start, not of their deadlines.
void TransferLoop::EndExpired() {
  const MonotonicMicros now = MonotonicNow();
  while (!by_start_.empty() && by_start_.begin()->first <= now)
    StartOne(TakeWaiting(by_start_.begin()->second));  // ends it
}

void TransferLoop::Reap() {
  int left = 0;
  while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
    if (message->msg == CURLMSG_DONE) End(message->easy_handle, message->data.result);
  }
}

void TransferLoop::End(CURL* easy, CURLcode code) {
  const auto found = running_.find(easy);
  const std::unique_ptr<Running> running = std::move(found->second);
  running_.erase(found);
  // A name may have addresses of both kinds; one that is allowed may have been written to.
  const bool refused = code != CURLE_OK && running->socket.refused && !running->socket.allowed;
  TransferEnd end{.code = code, .error = {}, .unsent = refused, .refused = refused};
  if (refused) {
    end.error = "the address of the target is not allowed";
  } else if (code == CURLE_OUT_OF_MEMORY) {
    // libcurl's word for a header line above its bound of 100 KiB.
    end.error = "no HTTP answer: a header line is too long";
  } else if (code != CURLE_OK) {
    end.error = running->error[0] != '\0' ? running->error : curl_easy_strerror(code);
  }
  running->transfer->OnEnd(easy, end);
  curl_multi_remove_handle(multi_, easy);
  FreeHandle(easy);
}

// Forgets what the transfer has set, before the transfer goes. Its connection stays in multi_.
void TransferLoop::FreeHandle(CURL* easy) {
  curl_easy_reset(easy);
  free_.push_back(easy);
}

CURL* TransferLoop::TakeHandle() {
  CURL* easy = nullptr;
  if (free_.empty()) {
    easy = curl_easy_init();
    CHECK(easy != nullptr);
  } else {
    easy = free_.back();
    free_.pop_back();
  }
  SetCommonOptions(easy, options_.protocols.c_str());
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options_.connect_timeout)));
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &CheckedSocket::Open);
  return easy;
}

}  // namespace escapement::handler

#include "services/handler/delivery/transfers/transfer_loop.h"

#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>

namespace escapement::handler {
namespace {

constexpr int kPollMillisMax = 60'000;

std::chrono::microseconds Micros(absl::Duration duration) {
  return std::chrono::microseconds(std::max<int64_t>(0, absl::ToInt64Microseconds(duration)));
}

}  // namespace

TransferLoop::TransferLoop(Options options)
    : options_(std::move(options)), multi_([] {
        static const CURLcode global = curl_global_init(CURL_GLOBAL_DEFAULT);
        (void)global;
        return curl_multi_init();
      }()) {
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(options_.connections_max));
  thread_ = std::thread([this] { Run(); });
}

TransferLoop::~TransferLoop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  curl_multi_wakeup(multi_);
  thread_.join();
  const TransferEnd stopped = {.code = CURLE_ABORTED_BY_CALLBACK,
                               .error = "the platform is stopping",
                               .unsent = true,
                               .refused = false};
  TransferEnd cut = stopped;
  cut.unsent = false;
  for (auto& [easy, running] : running_) {
    curl_multi_remove_handle(multi_, easy);
    running->transfer->OnEnd(easy, cut);
    curl_easy_cleanup(easy);
  }
  for (Waiting& waiting : waiting_) waiting.transfer->OnEnd(nullptr, stopped);
  {
    absl::MutexLock lock(&mutex_);
    for (Waiting& waiting : inbox_) waiting.transfer->OnEnd(nullptr, stopped);
  }
  for (CURL* easy : free_) curl_easy_cleanup(easy);
  curl_multi_cleanup(multi_);
}

void TransferLoop::Start(std::unique_ptr<Transfer> transfer, absl::Duration timeout) {
  const Instant now = std::chrono::steady_clock::now();
  {
    absl::MutexLock lock(&mutex_);
    inbox_.push_back({.transfer = std::move(transfer),
                      .start_by = now + Micros(timeout) / 2,
                      .deadline = now + Micros(timeout)});
  }
  curl_multi_wakeup(multi_);
}

void TransferLoop::Run() {
  pthread_setname_np(pthread_self(), options_.name.c_str());
  while (TakeInbox()) {
    StartWaiting();
    int running = 0;
    curl_multi_perform(multi_, &running);
    Reap();
    EndExpired(std::chrono::steady_clock::now());
    StartWaiting();
    curl_multi_poll(multi_, nullptr, 0, PollMillis(), nullptr);
  }
}

bool TransferLoop::TakeInbox() {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return false;
  std::move(inbox_.begin(), inbox_.end(), std::back_inserter(waiting_));
  inbox_.clear();
  return true;
}

void TransferLoop::StartWaiting() {
  const Instant now = std::chrono::steady_clock::now();
  while (!waiting_.empty() && running_.size() < static_cast<size_t>(options_.transfers_max)) {
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    StartOne(std::move(next), now);
  }
}

void TransferLoop::StartOne(Waiting waiting, Instant now) {
  if (waiting.start_by <= now) {
    return waiting.transfer->OnEnd(nullptr, {.code = CURLE_OPERATION_TIMEDOUT,
                                             .error = "timed out before it could be sent",
                                             .unsent = true,
                                             .refused = false});
  }
  CURL* const easy = TakeHandle();
  auto running = std::make_unique<Running>();
  running->transfer = std::move(waiting.transfer);
  running->addresses = options_.addresses.get();
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(waiting.deadline - now);
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, std::max<long>(left.count(), 1));
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, running->error);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, running.get());
  if (const absl::Status prepared = running->transfer->Prepare(easy); !prepared.ok()) {
    running->transfer->OnEnd(nullptr, {.code = CURLE_FAILED_INIT,
                                       .error = std::string(prepared.message()),
                                       .unsent = true,
                                       .refused = false});
    free_.push_back(easy);
    return;
  }
  curl_multi_add_handle(multi_, easy);
  running_.emplace(easy, std::move(running));
}

// The waiting transfers are in the order of their start, not of their deadlines.
void TransferLoop::EndExpired(Instant now) {
  const auto expired = [now](const Waiting& waiting) { return waiting.start_by <= now; };
  for (Waiting& waiting : waiting_) {
    if (expired(waiting)) StartOne(std::move(waiting), now);  // ends it
  }
  std::erase_if(waiting_, [](const Waiting& waiting) { return waiting.transfer == nullptr; });
}

int TransferLoop::PollMillis() const {
  if (waiting_.empty()) return kPollMillisMax;
  Instant first = waiting_.front().start_by;
  for (const Waiting& waiting : waiting_) first = std::min(first, waiting.start_by);
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      first - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count() + 1, 0, kPollMillisMax));
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
  TransferEnd end{.code = code, .error = {}, .unsent = false, .refused = running->refused};
  if (running->refused) {
    end.error = "the address of the target is not allowed";
    end.unsent = true;
  } else if (code != CURLE_OK) {
    end.error = running->error[0] != '\0' ? running->error : curl_easy_strerror(code);
  }
  running->transfer->OnEnd(easy, end);
  curl_multi_remove_handle(multi_, easy);
  // Frees what the transfer set and points to, and keeps the connection in the multi handle.
  curl_easy_reset(easy);
  free_.push_back(easy);
}

CURL* TransferLoop::TakeHandle() {
  CURL* easy = nullptr;
  if (free_.empty()) {
    easy = curl_easy_init();
  } else {
    easy = free_.back();
    free_.pop_back();
    curl_easy_reset(easy);
  }
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 1L);
  // The end of a transfer does not wait for a name server that has not answered.
  curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, options_.protocols.c_str());
  curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy, CURLOPT_PROXY, "");
  curl_easy_setopt(easy, CURLOPT_NETRC, static_cast<long>(CURL_NETRC_IGNORED));
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options_.connect_timeout)));
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &TransferLoop::OnOpen);
  return easy;
}

// The address that is checked is the one that is connected to.
curl_socket_t TransferLoop::OnOpen(void* data, curlsocktype, curl_sockaddr* address) {
  auto* running = static_cast<Running*>(data);
  if (running->addresses != nullptr && !running->addresses->Allows(address->addr)) {
    running->refused = true;
    return CURL_SOCKET_BAD;
  }
  running->refused = false;  // an earlier address of the name was
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

}  // namespace escapement::handler

// TransferLoop: one thread that carries libcurl transfers, for transports whose requests are not
// one HTTP request for each event (SQS, e-mail).
//
// Each transfer uses a handle of the loop, with common options: no redirects, no proxies of the
// environment, only the loop's protocols, verified certificates, addresses by the loop's
// AddressRule. Connections are kept alive and reused. At most transfers_max run at once; further
// ones wait in their order, while their deadlines run.
//
// Threads: Start may be called from any thread. The calls of a transfer come on the loop's thread,
// and those of the destructor on its caller's.

#ifndef SERVICES_HANDLER_DELIVERY_TRANSFERS_TRANSFER_LOOP_H_
#define SERVICES_HANDLER_DELIVERY_TRANSFERS_TRANSFER_LOOP_H_

#include <curl/curl.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/net/address_rule.h"

namespace escapement::handler {

// How a transfer ended.
struct TransferEnd {
  CURLcode code = CURLE_OK;
  std::string error;  // what libcurl says about it; empty if all went well
  // True: nothing has been written, because the transfer waited too long or the address is refused.
  bool unsent = false;
  bool refused = false;  // by the AddressRule
};

class Transfer {
 public:
  virtual ~Transfer() = default;
  // Sets what is special to this transfer, before it starts. What it points to lives as long as the
  // transfer. After an error OnEnd follows with CURLE_FAILED_INIT and the error's message.
  virtual absl::Status Prepare(CURL* easy) = 0;
  // Exactly once. `easy` still has the answer's facts (curl_easy_getinfo); null if the transfer was
  // never started.
  virtual void OnEnd(CURL* easy, const TransferEnd& end) = 0;
};

class TransferLoop {
 public:
  struct Options {
    std::string name = "transfers";  // of the thread; at most 15 characters
    std::string protocols;           // of libcurl, e.g. "http,https"
    std::shared_ptr<const AddressRule> addresses;
    int transfers_max = 64;
    int connections_max = 64;  // idle ones that are kept
    absl::Duration connect_timeout = absl::Seconds(10);
  };

  explicit TransferLoop(Options options);
  // Ends what is under way with CURLE_ABORTED_BY_CALLBACK.
  ~TransferLoop();
  TransferLoop(const TransferLoop&) = delete;
  TransferLoop& operator=(const TransferLoop&) = delete;

  // The transfer ends at the latest `timeout` from now. A transfer that has waited for half of it
  // ends as unsent.
  void Start(std::unique_ptr<Transfer> transfer, absl::Duration timeout);

 private:
  using Instant = std::chrono::steady_clock::time_point;
  struct Waiting {
    std::unique_ptr<Transfer> transfer;
    Instant start_by;
    Instant deadline;
  };
  struct Running {
    std::unique_ptr<Transfer> transfer;
    const AddressRule* addresses = nullptr;
    bool refused = false;
    char error[CURL_ERROR_SIZE] = {};
  };

  void Run();
  bool TakeInbox();  // false: the loop must stop
  void StartWaiting();
  void StartOne(Waiting waiting, Instant now);
  void EndExpired(Instant now);
  void Reap();
  void End(CURL* easy, CURLcode code);
  CURL* TakeHandle();
  int PollMillis() const;
  static curl_socket_t OnOpen(void* running, curlsocktype purpose, curl_sockaddr* address);

  const Options options_;
  CURLM* const multi_;
  std::deque<Waiting> waiting_;
  absl::flat_hash_map<CURL*, std::unique_ptr<Running>> running_;
  std::vector<CURL*> free_;
  absl::Mutex mutex_;
  std::vector<Waiting> inbox_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses the rest
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_TRANSFERS_TRANSFER_LOOP_H_
